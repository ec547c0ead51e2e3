"""Reader of tables: CSV, TSV and Parquet files, and data frames.

A row is a position of a sequence or, in a table with a column of texts or read by `rows`, a document. Which positions
make an item is said by a column (the same value in neighbouring rows; an empty cell goes on with the item above), or
in CSV and TSV by blank lines.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.file_parts import Cut
from crfqn.data.files import RETURN_WITHIN, Readable, is_blank, read_bytes, shown_name, text_lines
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, EmptyDataError
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES, Format
from crfqn.readers.items import Documents, Labeled, Places
from crfqn.readers.table_writing import delimited_lines, import_extra, parquet_bytes, relabelled_cell

DELIMITERS = {"csv": ",", "tsv": "\t"}
LABELS = ("label", "labels", "tag", "tags")
OF_ROWS = (*LABELS, "class", "target")
SENTENCES = ("sentence", "sentence_id", "sent_id", "sentence #")
TEXTS = ("text",)


@dataclass
class TextTable:
    """Rows of texts below a header, with the line of each, and the rows that a blank line goes before; `texts` are the
    columns whose cells are texts by type, not by looks."""

    shown: str
    header: list[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    delimiter: str | None = None
    texts: set[str] = field(default_factory=set)

    def column(
        self, name: str | None, usual: tuple[str, ...], what: str, taken: Sequence[str] = ()
    ) -> int | None:
        """Return the number of the named column, or of the first of the usual ones, None for none; those `taken` are
        something else, though they may have a usual name."""
        if name is not None:
            if name not in self.header:
                lacks = any(map(is_numeric, self.header)) and not name.isdecimal()
                hint = "; its first line has to name the columns, and has numbers" if lacks else ""
                raise DataError(
                    f"{self.shown}: expected a column {name!r} ({what}); there are: {', '.join(self.header)}{hint}"
                )
            return self.header.index(name)
        lowered = ["" if title in taken else title.lower() for title in self.header]
        return next((lowered.index(title) for title in usual if title in lowered), None)


class Wanted(NamedTuple):
    """Columns that the caller names, and what rows are, as in `read_delimited`."""

    sentence: str | None = None
    label: str | None = None
    text: str | None = None
    columns: Sequence[str] | None = None
    needs_named: bool = True
    rows: bool = False
    header: bool = True
    drop: Sequence[str] = ()

    def names(self, row: list[str], where: str) -> list[str]:
        """Return the names of the columns by the first row: its cells, or numbers from 1; a new file without header
        may lack the label."""
        if self.header:
            return row
        named = {*(self.columns or ()), *self.drop, self.label or "", self.text or ""}
        named = named if self.columns is not None or self.text is not None else set()
        known = sorted(int(name) for name in named if name.isdecimal())
        n = max(known, default=len(row))
        if self.text is not None and len(row) > n:  # the others of a table of texts
            n = len(row)
        if len(row) == n - 1 and self.label:
            return [str(number) for number in range(1, n + 1) if str(number) != self.label]
        if len(row) != n:
            raise DataError(f"{where}: expected {n} cells, or {n - 1} without the label, got {len(row)}")
        return [str(number) for number in range(1, n + 1)]


def read_delimited(
    path: Readable,
    *,
    delimiter: str = ",",
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
    needs_named: bool = True,
    rows: bool = False,
    header: bool = True,
    drop: Sequence[str] = (),
) -> Labeled | Documents:
    """Read a CSV or TSV file, whose first line names the columns, as sequences (TokenColumns) or documents. Semicolons
    part the cells where the first line has them, and commas in numbers or quotes alone.

    sentence : column of a position's item, default "sentence", "sentence_id", "sent_id" or "sentence #"; without, blank
        lines part the items
    label : column of labels, default "label", "labels", "tag" or "tags"; without, no label is known
    text : column of documents' texts, default "text" where no column says sentences
    columns : those read besides, default all; one of a usual name is then neither label nor sentence
    needs_named : whether a named label and sentence have to be there, as in data to train on
    rows : whether each row is a document of its own, whose `inputs` are TokenColumns of its cells (between semicolons
        `1,5` is the number 1.5); the label's column is then by default "label", ..., "class", "target", or the last one
        that is not among `columns`
    header : whether the first line has the names of the columns, which are numbers from 1 otherwise
    drop : columns that are left out

    DataError for a row of another length, an item whose rows stand apart (file and line named), no such column, no
    rows.
    """
    wanted = Wanted(sentence, label, text, columns, needs_named, rows, header, drop)
    return _assembled(_read(path, delimiter, wanted), wanted)


def read_parquet(
    path: Readable,
    *,
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
    needs_named: bool = True,
    rows: bool = False,
    drop: Sequence[str] = (),
) -> Labeled | Documents:
    """Read a Parquet file (through pyarrow); parameters, result and errors as in `read_delimited`, less `delimiter`."""
    with _parquet(path) as (parquet, content):
        table = parquet.read_table(content)
        cells = {name: table.column(name).to_pylist() for name in table.column_names}
    wanted = Wanted(sentence, label, text, columns, needs_named, rows, drop=drop)
    return _assembled(_of_columns(cells, shown_name(path)), wanted)


def parquet_titles(path: Readable) -> list[str]:
    """Return the names of a Parquet file's columns; errors as of `read_parquet`."""
    with _parquet(path) as (parquet, content):
        return list(parquet.read_schema(content).names)


@contextmanager
def _parquet(path: Readable) -> Iterator[tuple[Any, Any]]:
    """Give pyarrow's module for Parquet and a file's content; DataError for what is no such file."""
    parquet = import_extra("pyarrow.parquet", "formats", "Parquet")
    arrow = import_extra("pyarrow", "formats", "Parquet")
    try:
        yield parquet, arrow.BufferReader(read_bytes(path))
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{shown_name(path)}: no Parquet file, or a damaged one: {error}") from error


def from_frame(
    frame: Any,
    *,
    sentence: str | None = None,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
    needs_named: bool = True,
    rows: bool = False,
    drop: Sequence[str] = (),
) -> Labeled | Documents:
    """Return a pandas or polars frame as sequences or documents; all else as in `read_delimited`."""
    table = _of_columns({str(name): list(frame[name]) for name in frame.columns}, "the frame")
    return _assembled(table, Wanted(sentence, label, text, columns, needs_named, rows, drop=drop))


def _read(path: Readable, delimiter: str, wanted: Wanted) -> TextTable:
    shown = shown_name(path)
    numbers: list[int] = []  # of the lines that have been read

    def lines() -> Iterator[str]:
        for number, line in text_lines(path, keeps_returns=True):  # within quotes
            numbers.append(number)
            yield f"{line}\n"

    numbered = lines()
    first_line = next((line for line in numbered if not is_blank(line)), "")
    delimiter = _delimiter(first_line, delimiter)
    n_blank = len(numbers) - 1
    reader = csv.reader(itertools.chain([first_line], numbered), delimiter=delimiter, strict=True)
    table: TextTable | None = None
    before = n_blank
    try:
        for row in reader:
            first, before = numbers[before], reader.line_num + n_blank
            if not row:
                if table is not None:
                    table.breaks.add(len(table.rows))
                continue
            if table is None:
                table = TextTable(shown, wanted.names(row, f"{shown}, line {first}"), delimiter=delimiter)
                if wanted.header:
                    continue
            if len(row) != len(table.header):
                raise DataError(
                    f"{shown}, line {first}: expected {len(table.header)} cells ({', '.join(table.header)}), got "
                    f"{len(row)}: {delimiter.join(row)[:60]!r}"
                )
            table.rows.append(row)
            table.lines.append(first)
    except csv.Error as error:
        reason = RETURN_WITHIN if "new-line" in str(error) else f"malformed table: {error}"
        raise DataError(f"{shown}, line {numbers[before]}: {reason}") from error
    if table is None:
        raise EmptyDataError(f"{shown}: empty; expected a line of column names and rows below it")
    if len(set(table.header)) < len(table.header):
        raise DataError(f"{shown}: expected distinct names of columns, got {', '.join(table.header)}")
    return table


def _of_columns(columns: dict[str, list[Any]], shown: str) -> TextTable:
    """Return a table of columns of any values; what is missing is an empty text, and a row's number is its line."""
    texts = [["" if _is_missing(value) else str(value) for value in column] for column in columns.values()]
    rows = list(zip(*texts, strict=True))
    are_texts = {name for name, column in columns.items() if any(isinstance(cell, str) for cell in column)}
    return TextTable(shown, list(columns), list(rows), list(range(1, len(rows) + 1)), texts=are_texts)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN, which differs from itself
    except TypeError:  # pandas' NA is neither true nor false
        return True


def _assembled(table: TextTable, wanted: Wanted) -> Labeled | Documents:
    if not table.rows:
        raise EmptyDataError(f"{table.shown}: no rows below the names of the columns")
    missing = [name for name in wanted.drop if name not in table.header] if wanted.needs_named else []
    if missing:
        table.column(missing[0], (), "to be dropped")  # which raises
    of_label, of_sentence, of_text = _parts_of(table, wanted)
    labels = ["" if of_label is None else row[of_label] for row in table.rows]
    has_numbers = of_label is not None and table.header[of_label] not in table.texts
    title = None
    if of_label is None and wanted.header:  # a new column of labels is called as it would be looked for
        title = wanted.label or next(name for name in (*LABELS, "predicted") if name not in table.header)
    relabel = None
    if table.delimiter is not None:
        cell = len(table.header) if of_label is None else of_label
        relabel = partial(relabelled_cell, cell=cell, delimiter=table.delimiter)
    places = Places(table.shown, np.array(table.lines, np.int64), None, relabel, title)
    if of_text is not None:
        return Documents([row[of_text] for row in table.rows], labels, places=places, has_numbers=has_numbers)
    starts = range(len(table.rows)) if wanted.rows else _starts(table, of_sentence)
    used = {of_label, of_sentence, *(c for c, name in enumerate(table.header) if name in wanted.drop)}
    numbers = [c for c in range(len(table.header)) if c not in used]
    if wanted.columns is not None:
        numbers = [c for name in wanted.columns if (c := table.column(name, (), "to be read")) is not None]
    if not numbers:
        raise DataError(f"{table.shown}: expected columns besides the label, got {', '.join(table.header)}")
    read = with_point if wanted.rows and table.delimiter == ";" else str
    texts = {table.header[c]: [read(row[c]) for row in table.rows] for c in numbers}
    offsets = np.array([*starts, len(table.rows)], np.int64)
    if wanted.rows:
        return Documents(TokenColumns(texts, offsets), labels, places=places, has_numbers=has_numbers)
    items = [labels[start:stop] for start, stop in itertools.pairwise(offsets)]
    return Labeled(
        TokenColumns(texts, offsets), items, places=replace(places, offsets=offsets), has_numbers=has_numbers
    )


def _parts_of(table: TextTable, wanted: Wanted) -> tuple[int | None, int | None, int | None]:
    """Return the numbers of the columns of labels, of items and of documents' texts, None where there is none."""
    of_label, of_sentence = (
        table.column(name, usual, what, wanted.columns or ())
        if wanted.needs_named or name is None or name in table.header
        else None
        for name, usual, what in ((wanted.label, LABELS, "label="), (wanted.sentence, SENTENCES, "sentence="))
    )
    if wanted.rows:
        usual = () if of_label is not None or wanted.label else OF_ROWS
        of_label = table.column(None, usual, "", wanted.columns or ()) if of_label is None else of_label
        is_free = not wanted.label and table.header[-1] not in (*(wanted.columns or ()), *wanted.drop)
        return len(table.header) - 1 if of_label is None and is_free else of_label, None, None
    of_text = table.column(wanted.text, () if of_sentence is not None or wanted.columns else TEXTS, "text=")
    return of_label, of_sentence, of_text


def cut_table(*, delimiter: str = ",", **options: Any) -> Cut:
    """Return how a CSV or TSV file is cut that is read with these options; all but the first lines are of items."""
    wanted = Wanted(**options)

    def cut(lines: Sequence[str]) -> tuple[int, int]:
        first_line = next((line for line in lines if not is_blank(line)), "")
        reader = csv.reader(lines, delimiter=_delimiter(first_line, delimiter), strict=True)
        table: TextTable | None = None
        n_head = n_whole = before = 0
        of_sentence = of_text = current = None
        try:
            for row in reader:
                if table is None and (wanted.rows or not wanted.header):
                    table, n_head = TextTable("", row), reader.line_num * wanted.header
                    n_whole, of_text = reader.line_num, 0
                elif table is None:
                    if row:
                        table, n_head = TextTable("", row), reader.line_num
                        _, of_sentence, of_text = _parts_of(table, wanted)
                elif of_text is not None or len(row) not in (0, len(table.header)):
                    n_whole = reader.line_num
                elif of_sentence is None:
                    n_whole = n_whole if row else reader.line_num
                elif row and (current is None or row[of_sentence] not in ("", current)):
                    current, n_whole = row[of_sentence], before
                before = reader.line_num
        except csv.Error as error:
            if "unexpected end of data" not in str(error):  # a cell that goes on in lines to come
                n_whole = len(lines)
        except DataError:  # no such columns, which reading says
            n_whole = len(lines)
        return n_head, n_whole

    return cut


def _starts(table: TextTable, of_sentence: int | None) -> list[int]:
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
            where = f"{table.shown}, line {table.lines[number]}"
            first = table.lines[seen[name]]
            raise DataError(
                f"{where}: {name!r} again, which began in line {first}; the rows of an item have to stand together"
            )
        current, seen[name] = name, number
        starts.append(number)
    return starts


def _begins(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether lines are rows of one width, under usual names or, where tabs part them, mostly of numbers."""
    try:
        reader = csv.reader(lines, delimiter=_delimiter(lines[0], delimiter), strict=True)
        rows = [row for row in reader if row]
    except csv.Error:
        return False
    first = {cell.strip().lower() for cell in rows[0]}
    if len({*map(len, rows)}) > 1 or len(rows[0]) < 2 or (delimiter != "\t" and "\t" in lines[0]):
        return False
    if first & {*LABELS, *SENTENCES, *TEXTS}:
        return True
    cells = [cell for row in rows[1:] for cell in row]
    return len(rows) > 1 and (delimiter != "\t" or 2 * sum(map(is_numeric, cells)) > len(cells))


def has_header(lines: Sequence[str], delimiter: str = ",") -> bool:
    """Return whether the first line of a table names its columns: the one of labels as usual, or by distinct texts,
    none of them a number or empty, or again in its column below (unless the whole line comes again)."""
    row = titles(lines, delimiter)
    if {cell.lower() for cell in row} & {*OF_ROWS}:
        return True
    if len(set(row)) < len(row) or any(is_numeric(with_point(cell)) or not cell.strip() for cell in row):
        return False
    others = (other for other in _rows_below(lines, delimiter, len(row)) if other != row)
    return not any(first == cell for other in others for first, cell in zip(row, other, strict=True))


def titles(lines: Sequence[str], delimiter: str = ",") -> list[str]:
    """Return the cells of a table's first line."""
    first = lines[0] if lines else ""
    return next((row for row in csv.reader([first], delimiter=_delimiter(first, delimiter)) if row), [])


def are_texts(lines: Sequence[str], delimiter: str, names: Sequence[str], among: Sequence[str]) -> list[str]:
    """Return those columns, by their `names`, that have other cells than numbers below the first of a table's lines."""
    rows = [*_rows_below(lines, delimiter, len(names))]
    return [
        name
        for name in among
        if not rows or any(not is_numeric(with_point(row[names.index(name)] or "0")) for row in rows)
    ]


def _rows_below(lines: Sequence[str], delimiter: str, n: int) -> Iterator[list[str]]:
    """Yield the rows of n cells below the first line of a table, as far as they can be read."""
    with suppress(csv.Error):  # which reading says
        for row in csv.reader(lines[1:], delimiter=_delimiter("".join(lines[:1]), delimiter)):
            if len(row) == n:
                yield row


def _delimiter(line: str, delimiter: str) -> str:
    """Return what parts the cells of a table by its first line: semicolons where commas stand in numbers or quotes
    alone, as spreadsheets write then."""
    cells = re.sub(r'"[^"]*"', "", line).rstrip("\r\n").split(";")
    is_semicolons = len(cells) > 1 and all("," not in with_point(cell) for cell in cells)
    return ";" if delimiter == "," and is_semicolons else delimiter


def with_point(cell: str) -> str:
    """Return a number that has a decimal comma with a point, any other cell as it is."""
    changed = cell.replace(",", ".")
    return changed if cell.count(",") == 1 and is_numeric(changed) else cell


FORMATS = (
    *(
        Format(
            name,
            title,
            (f".{name}",),
            (SEQUENCES, DOCUMENTS, ROWS),
            partial(read_delimited, delimiter=delimiter) if name == "tsv" else read_delimited,
            partial(delimited_lines, delimiter=delimiter),
            partial(cut_table, delimiter=delimiter),
            partial(_begins, delimiter=delimiter),
        )
        for (name, delimiter), title in zip(
            DELIMITERS.items(),
            ("table with a header: a position or a text a row", "the same, with tabs"),
            strict=True,
        )
    ),
    Format(
        "parquet",
        "the same, as Parquet",
        (".parquet", ".pq"),
        (SEQUENCES, DOCUMENTS, ROWS),
        read_parquet,
        parquet_bytes,
        begins=lambda lines: lines[0].startswith("PAR1"),
    ),
)
