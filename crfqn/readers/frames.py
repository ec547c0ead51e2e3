"""Reader of Parquet files and of tables in memory: frames of pandas and polars, Datasets, and tables of pyarrow.

A row with lists in its cells is an item, as an object of JSON with these lists; other rows are as those of CSV files.
The metadata that Hugging Face's datasets write into tables have the names of labels that are numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crfqn.data.binary_files import PARQUET
from crfqn.data.files import Readable, read_bytes, shown_name
from crfqn.errors import DataError
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES, Format
from crfqn.readers.table_writing import import_arrow, parquet_bytes
from crfqn.readers.tables import TABLE_FEATURES, TableOptions, TextTable, table_reader

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table as ArrowTable


@table_reader(TableOptions)
def read_parquet(path: Readable, options: TableOptions) -> TextTable:
    """Read a Parquet file (through pyarrow) as sequences (TokenColumns) or documents."""
    with _parquet(path) as (parquet, content):
        table = parquet.read_table(content)
    return _of_arrow(table, shown_name(path))


@table_reader(TableOptions)
def from_frame(frame: DataFrame | ArrowTable, options: TableOptions) -> TextTable:
    """Return a frame of pandas or polars, a Dataset of datasets or a Table of pyarrow as sequences (TokenColumns) or
    documents."""
    if hasattr(frame, "with_format"):  # a Dataset, whose rows may be a selection of those of its table
        frame = frame.with_format("arrow")[:]
    if hasattr(frame, "schema") and hasattr(frame, "column_names"):
        return _of_arrow(frame, "the table")
    return _of_columns({str(name): list(frame[name]) for name in frame.columns}, "the frame")


def is_frame(origin: object) -> bool:
    """Return whether an object is a table in memory that `from_frame` takes."""
    has_names = hasattr(origin, "columns") or hasattr(origin, "column_names")
    return has_names and hasattr(origin, "shape") and not isinstance(origin, dict)


def _of_arrow(table: Any, shown: str) -> TextTable:
    """Return a table of arrow, with the names of labels that Hugging Face's datasets write into its metadata."""
    cells = {name: table.column(name).to_pylist() for name in table.column_names}
    written = (table.schema.metadata or {}).get(b"huggingface", b"{}")
    info = json.loads(written).get("info", {})
    names = {name: _names_in(feature) for name, feature in info.get("features", {}).items()}
    known = {name: labels for name, labels in names.items() if labels}
    return replace(_of_columns(cells, shown), label_names=known)


def _names_in(feature: Any) -> list[str]:
    """Return the names of a ClassLabel of Hugging Face's datasets, or of a list of these; none of another feature."""
    if isinstance(feature, list):
        return _names_in(feature[0]) if feature else []
    if not isinstance(feature, dict):
        return []
    return feature["names"] if isinstance(feature.get("names"), list) else _names_in(feature.get("feature"))


def parquet_titles(path: Readable) -> list[str]:
    """Return the names of a Parquet file's columns; errors as of `read_parquet`."""
    with _parquet(path) as (parquet, content):
        return list(parquet.read_schema(content).names)


@contextmanager
def _parquet(path: Readable) -> Iterator[tuple[Any, Any]]:
    """Yield pyarrow's module for Parquet and a file's content; DataError for anything but a Parquet file."""
    arrow, parquet = import_arrow()
    try:
        yield parquet, arrow.BufferReader(read_bytes(path))
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{shown_name(path)}: no Parquet file, or a damaged one: {error}") from error


def _of_columns(columns: dict[str, list[Any]], shown: str) -> TextTable:
    """Return a table of columns of any values; a missing value is an empty text, and a row's number is its line."""
    listed = {
        name: [value for value in column if hasattr(value, "__len__")] for name, column in columns.items()
    }
    lists = [name for name, cells in listed.items() if cells and not isinstance(cells[0], (str, bytes, dict))]
    if lists:
        rows_of_lists = zip(*(map(_as_list, columns[name]) for name in lists), strict=True)
        records = [dict(zip(lists, row, strict=True)) for row in rows_of_lists]
        return TextTable(shown, list(columns), records=records)
    texts = [["" if _is_missing(value) else str(value) for value in column] for column in columns.values()]
    rows = list(zip(*texts, strict=True))
    are_texts = {name for name, column in columns.items() if any(isinstance(cell, str) for cell in column)}
    return TextTable(shown, list(columns), list(rows), list(range(1, len(rows) + 1)), texts=are_texts)


def _as_list(cell: Any) -> Any:
    """Return a cell of several values, as an array or a Series of polars, as a list."""
    for name in ("tolist", "to_list"):
        if hasattr(cell, name):
            return getattr(cell, name)()
    return list(cell) if isinstance(cell, tuple) else cell


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)  # NaN, which differs from itself
    except TypeError:  # pandas' NA is neither true nor false
        return True


FORMAT = Format(
    "parquet",
    "the same, as Parquet",
    (".parquet", ".pq"),
    (SEQUENCES, DOCUMENTS, ROWS),
    read_parquet,
    parquet_bytes,
    begins=lambda lines: lines[0].startswith(PARQUET.decode()),
    names_columns=True,
    features=TABLE_FEATURES,
    titles=lambda path, lines, **_: parquet_titles(path),
)
