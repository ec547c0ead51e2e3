"""Reader and writer of tables: CSV, TSV and Parquet files, and data frames.

A row is a position of a sequence or, in a table with a column of texts, a document. Which positions make an item is
said by a column (the same value in neighbouring rows; an empty cell goes on with the item above), or in CSV and TSV
by blank lines.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crfqn.data.files.lines import Readable, read_bytes, shown_name, text_lines
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.readers.documents import Documents
from crfqn.readers.extras import import_extra
from crfqn.readers.labeled import Labeled
from crfqn.readers.places import Places

LABELS = ("label", "labels", "tag", "tags")
SENTENCES = ("sentence", "sentence_id", "sent_id", "sentence #")
TEXTS = ("text",)


@dataclass
class Table:
    """Rows of texts below a header, with the line of each, and the rows that a blank line goes before."""

    shown: str
    header: list[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)

    def where(self, row: int) -> str:
        return f"{self.shown}, line {self.lines[row]}"

    def column(
        self, name: str | None, usual: tuple[str, ...], what: str, taken: Sequence[str] = ()
    ) -> int | None:
        """Return the number of the named column, or of the first of the usual ones; None where there is none.

        taken : names of columns that are something else, though they may have a usual name
        """
        if name is not None:
            if name not in self.header:
                raise DataError(
                    f"{self.shown}: expected a column {name!r} ({what}); there are: {', '.join(self.header)}"
                )
            return self.header.index(name)
        lowered = ["" if title in taken else title.lower() for title in self.header]
        return next((lowered.index(title) for title in usual if title in lowered), None)


def read_delimited(
    path: Readable,
    *,
    delimiter: str = ",",
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
) -> Labeled | Documents:
    """Read a CSV or TSV file, whose first line names the columns.

    Parameters
    ----------
    path : str, Path, stream or Source
    delimiter : str, default ","
    sentence : str, optional
        The column that says which item a position belongs to; by default "sentence", "sentence_id", "sent_id" or
        "sentence #", if there is one. Without, blank lines part the items.
    label : str, optional
        The column of the labels; by default "label", "labels", "tag" or "tags". Without, no label is known.
    text : str, optional
        The column of the texts of documents; by default "text", where no column says sentences.
    columns : sequence of str, optional
        The columns that are read besides; by default all. One of a usual name is then neither label nor sentence.

    Returns
    -------
    Labeled (of TokenColumns) or Documents

    Raises
    ------
    DataError
        A row with another number of cells, an item whose rows stand apart (file and line are named), a column that is
        not there, no rows.
    """
    table = _read(path, delimiter)
    return _assembled(table, sentence, label, text, columns)


def read_parquet(
    path: Readable,
    *,
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
) -> Labeled | Documents:
    """Read a Parquet file (through pyarrow); parameters, result and errors as in `read_delimited`, less `delimiter`."""
    parquet = import_extra("pyarrow.parquet", "formats", "Parquet")
    arrow = import_extra("pyarrow", "formats", "Parquet")
    try:
        found = parquet.read_table(arrow.BufferReader(read_bytes(path)))
        found_columns = {name: found.column(name).to_pylist() for name in found.column_names}
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{shown_name(path)}: no Parquet file, or a damaged one: {error}") from error
    return _assembled(_of_columns(found_columns, shown_name(path)), sentence, label, text, columns)


def from_frame(
    frame: Any,
    *,
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
) -> Labeled | Documents:
    """Return a pandas (or polars) frame as sequences or documents; all else as in `read_delimited`.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"sentence": [1, 1, 2], "word": ["the", "dog", "it"], "tag": ["D", "N", "P"]})
    >>> data = from_frame(frame)
    >>> data.labels, data.inputs[1]
    ([['D', 'N'], ['P']], [{'word': 'it'}])
    """
    table = _of_columns({str(name): list(frame[name]) for name in frame.columns}, "the frame")
    return _assembled(table, sentence, label, text, columns)


def delimited_lines(
    data: Labeled | Documents, added: Sequence[Any] | None = None, delimiter: str = ","
) -> Iterator[str]:
    """Yield a header and the rows of each item, in the form that is read: `added` labels in the column "predicted"."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    header, rows = _rows(data, added)
    writer.writerow(header)
    for item in rows:
        writer.writerows(item)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def parquet_bytes(data: Labeled | Documents, added: Sequence[Any] | None = None) -> bytes:
    """Return the same table as a Parquet file."""
    arrow = import_extra("pyarrow", "formats", "Parquet")
    parquet = import_extra("pyarrow.parquet", "formats", "Parquet")
    header, items = _rows(data, added)
    rows = [row for item in items for row in item]
    columns = zip(*rows, strict=True) if rows else ([] for _ in header)
    sink = io.BytesIO()
    parquet.write_table(
        arrow.table({name: list(column) for name, column in zip(header, columns, strict=True)}), sink
    )
    return sink.getvalue()


def _rows(
    data: Labeled | Documents, added: Sequence[Any] | None
) -> tuple[list[str], Iterator[list[list[str]]]]:
    """Return the header, and the rows of each item."""
    extra = ["predicted"] if added is not None else []
    if isinstance(data, Documents):
        several = [(item if isinstance(item, str) else ",".join(map(str, item))) for item in added or ()]
        contents = zip(data.inputs, data.labels, *([several] if extra else []), strict=True)
        return ["text", "label", *extra], ([list(map(str, row))] for row in contents)
    if not isinstance(data.inputs, TokenColumns):
        raise InputError(
            "a table has columns of texts; these items have attributes: write them as crfsuite or jsonl"
        )
    is_known = any(map(any, data.labels))
    columns = data.inputs
    header = ["sentence", *columns.names, *(["label"] if is_known else []), *extra]

    def rows() -> Iterator[list[list[str]]]:
        for i, labels in enumerate(data.labels):
            start, stop = columns.offsets[i : i + 2].tolist()
            parts = [
                [str(i + 1)] * (stop - start),
                *(column[start:stop] for column in columns.texts.values()),
            ]
            parts += [labels] if is_known else []
            parts += [list(map(str, added[i]))] if added is not None else []
            yield list(map(list, zip(*parts, strict=True)))

    return header, rows()


def _read(path: Readable, delimiter: str) -> Table:
    shown = shown_name(path)
    lines = text_lines(path)
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=delimiter, strict=True)
    table: Table | None = None
    before = 0
    try:
        for row in reader:
            first, before = before + 1, reader.line_num
            if not row:
                if table is not None:
                    table.breaks.add(len(table.rows))
            elif table is None:
                table = Table(shown, row)
            elif len(row) != len(table.header):
                raise DataError(
                    f"{shown}, line {first}: expected {len(table.header)} cells ({', '.join(table.header)}), got "
                    f"{len(row)}: {delimiter.join(row)[:60]!r}"
                )
            else:
                table.rows.append(row)
                table.lines.append(first)
    except csv.Error as error:
        raise DataError(f"{shown}, line {before + 1}: malformed table: {error}") from error
    if table is None:
        raise DataError(f"{shown}: empty; expected a line of column names and rows below it")
    if len(set(table.header)) < len(table.header):
        raise DataError(f"{shown}: expected distinct names of columns, got {', '.join(table.header)}")
    return table


def _of_columns(columns: dict[str, list[Any]], shown: str) -> Table:
    """Return a table of columns of any values; what is missing is an empty text, and a row's number is its line."""
    texts = [["" if _is_missing(value) else str(value) for value in column] for column in columns.values()]
    rows = list(zip(*texts, strict=True))
    return Table(shown, list(columns), list(rows), list(range(1, len(rows) + 1)))


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # NaN, which differs from itself


def _assembled(
    table: Table, sentence: str | None, label: str | None, text: str | None, columns: Sequence[str] | None
) -> Labeled | Documents:
    if not table.rows:
        raise DataError(f"{table.shown}: no rows below the names of the columns")
    taken = columns or ()
    of_label = table.column(label, LABELS, "label=", taken)
    of_sentence = table.column(sentence, SENTENCES, "sentence=", taken)
    of_text = table.column(text, () if of_sentence is not None or columns else TEXTS, "text=")
    labels = ["" if of_label is None else row[of_label] for row in table.rows]
    if of_text is not None:
        places = Places(table.shown, np.array(table.lines, np.int64))
        return Documents([row[of_text] for row in table.rows], labels, places=places)
    starts = _starts(table, of_sentence)
    used = {of_label, of_sentence}
    numbers = [c for c in range(len(table.header)) if c not in used]
    if columns is not None:
        numbers = [c for name in columns if (c := table.column(name, (), "columns=")) is not None]
    if not numbers:
        raise DataError(f"{table.shown}: expected columns besides the label, got {', '.join(table.header)}")
    texts = {table.header[c]: [row[c] for row in table.rows] for c in numbers}
    offsets = np.array([*starts, len(table.rows)], np.int64)
    places = Places(table.shown, np.array(table.lines, np.int64), offsets)
    items = [labels[start:stop] for start, stop in itertools.pairwise(offsets)]
    return Labeled(TokenColumns(texts, offsets), items, places=places)


def _starts(table: Table, of_sentence: int | None) -> list[int]:
    """Return the rows that begin an item."""
    if of_sentence is None:
        return sorted({0, *(row for row in table.breaks if row < len(table.rows))})
    starts: list[int] = []
    seen: dict[str, int] = {}
    current = None
    for number, row in enumerate(table.rows):
        name = row[of_sentence]
        if number and name in ("", current):
            continue
        if name in seen:
            raise DataError(
                f"{table.where(number)}: {name!r} again, which began in line {table.lines[seen[name]]}; the rows of an "
                "item have to stand together"
            )
        current, seen[name] = name, number
        starts.append(number)
    return starts
