"""Writing of tables: whole ones, CSV, TSV and Parquet, and other labels in the text of one that was read."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.readers.format import Batches
from crfqn.readers.labelled_items import Documents

BEFORE_FIRST = re.compile(r"[\r\n]*(sep=.\r?\n[\r\n]*)?")  # the first row of a table


def delimited_lines(batches: Batches, delimiter: str = ",") -> Iterator[str]:
    """Yield a header and the rows of each batch, in the form that is read: added labels in the column "predicted"."""
    for rows in _rows(batches):
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
        yield buffer.getvalue()


def parquet_bytes(batches: Batches) -> bytes:
    """Return the same table as a Parquet file."""
    arrow, parquet = import_arrow()
    header, *rows = itertools.chain.from_iterable(_rows(batches))
    columns = zip(*rows, strict=True) if rows else ([] for _ in header)
    sink = io.BytesIO()
    parquet.write_table(
        arrow.table({name: list(column) for name, column in zip(header, columns, strict=True)}), sink
    )
    return sink.getvalue()


def _rows(batches: Batches) -> Iterator[list[list[str]]]:
    """Yield the rows of each batch, in the first one after the header; later ones have the same columns."""
    header: list[str] = []
    n_before = 0
    for data, added in batches:
        title = ["predicted"] if added is not None else []
        if isinstance(data, Documents):
            is_text = not isinstance(data.inputs, TokenColumns)
            is_known = is_text or ("label" in header if header else any(data.labels))
            columns = {"text": data.inputs} if is_text else data.inputs.texts
            names = [*columns, *(["label"] if is_known else [])]
            first = list(zip(*columns.values(), *([data.labels] if is_known else []), strict=True))
            several = [
                (item if isinstance(item, str) else ",".join(map(label_text, item))) for item in added or ()
            ]
        elif isinstance(data.inputs, TokenColumns):
            is_known = "label" in header if header else any(map(any, data.labels))
            names = ["sentence", *data.inputs.names, *(["label"] if is_known else [])]
            numbers = np.repeat(np.arange(len(data.labels)) + n_before + 1, data.inputs.lengths).tolist()
            labels = [itertools.chain.from_iterable(data.labels)] if is_known else []
            first = list(zip(numbers, *data.inputs.texts.values(), *labels, strict=True))
            several = list(itertools.chain.from_iterable(added or ()))
        else:
            raise InputError(
                "a table has columns of texts; these items have attributes: write them as crfsuite or jsonl"
            )
        rows = [
            [*map(str, row), *map(label_text, more)]
            for row, *more in zip(first, *[several] * len(title), strict=True)
        ]
        yield rows if header else [[*names, *title], *rows]
        header, n_before = [*names, *title], n_before + data.n_items


def relabelled_cell(text: str, labels: Sequence[str], cell: int, delimiter: str) -> str:
    """Return the text of rows with labels in a cell of the first one, which is added if it is missing."""
    new = ",".join(labels)
    pattern = re.compile(rf'"(?:[^"]|"")*"|[^{re.escape(delimiter)}\r\n]*')
    start = stop = BEFORE_FIRST.match(text).end()  # type: ignore[union-attr]
    for number in range(cell + 1):
        match = pattern.match(text, start)
        assert match is not None  # it matches an empty text, too
        stop = match.end()
        if number == cell:
            return text[:start] + _cell(new, delimiter, text[start : start + 1] == '"') + text[stop:]
        if not text.startswith(delimiter, stop):
            break
        start = stop + len(delimiter)
    return text[:stop] + delimiter + _cell(new, delimiter, False) + text[stop:]


def _cell(text: str, delimiter: str, is_quoted: bool) -> str:
    buffer = io.StringIO()
    csv.writer(
        buffer,
        delimiter=delimiter,
        quoting=csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL,
        lineterminator="",
    ).writerow([text, ""])
    return buffer.getvalue()[: -len(delimiter) - 2 * is_quoted]


def import_arrow() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet; DataError, naming the extra of crfqn, if it is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            "Parquet needs the package pyarrow, which is not installed: pip install 'crfqn[formats]'"
        ) from error
    return pyarrow, parquet
