"""Reader of tables: CSV and TSV files, and what readers of Parquet files and of data frames share.

A row is a position of a sequence or, in a table with a column of texts or read by `rows`, a document. A column defines
the items (the same value in neighbouring rows; an empty cell continues the item above), or in CSV and TSV blank lines
separate them.
"""

from __future__ import annotations

import csv
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from crfqn.data.file_parts import Cut
from crfqn.data.files import RETURN_WITHIN, Readable, facts_of, is_blank, shown_name, text_lines
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.data_options import OF_COLUMNS
from crfqn.errors import DataError, EmptyDataError
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES, Format
from crfqn.readers.json_lines import read_records
from crfqn.readers.label_values import with_values
from crfqn.readers.labelled_items import Documents, Labeled, Places
from crfqn.readers.table_writing import delimited_lines, relabelled_cell

if TYPE_CHECKING:
    from _csv import Reader


LABEL_TITLES = ("label", "labels", "tag", "tags")
LABEL_TITLES_OF_ROWS = (*LABEL_TITLES, "class", "target")
SENTENCE_TITLES = ("sentence", "sentence_id", "sent_id", "sentence #")
TEXT_TITLES = ("text",)
RECORD_KEYS = "features", "tokens", "text"  # of rows with lists, as in JSON
DELIMITER_LINE = re.compile("sep=(.)")
MAX_CELL_LENGTH = 2**31 - 1  # characters, the maximum of Python's reader on all systems


@dataclass
class TextTable:
    """Rows of texts below a header, with the line of each, and the rows after a blank line; `starts` are
    the lines in which items begin, by their names, and `texts` the columns whose cells are texts by type, not by looks.
    """

    shown: str
    header: list[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    delimiter: str | None = None
    starts: dict[str, int] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    records: list[dict[str, Any]] = field(default_factory=list)
    label_names: dict[str, list[str]] = field(default_factory=dict)

    def column(
        self,
        name: str | None,
        usual: tuple[str, ...],
        what: str,
        taken: Sequence[str] | None = (),
        is_needed: bool = True,
    ) -> int | None:
        """Return the number of the named column, or of the first of the usual ones, None for none; `taken` columns have
        another purpose, even under a usual name."""
        if name is None:
            lowered = ["" if title in (taken or ()) else title.lower() for title in self.header]
            return next((lowered.index(title) for title in usual if title in lowered), None)
        if name in self.header:
            return self.header.index(name)
        if not is_needed:
            return None
        lacks = any(map(is_numeric, self.header)) and not name.isdecimal()
        hint = "; its first line has to name the columns, and has numbers" if lacks else ""
        raise DataError(
            f"{self.shown}: expected a column {name!r} ({what}); there are: {', '.join(self.header)}{hint}"
        )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """sentence : column of a position's item, default "sentence", "sentence_id", "sent_id" or "sentence #"; without,
        blank lines separate the items
    label : column of labels, default "label", "labels", "tag" or "tags"; without, all labels are unknown
    text : column of documents' texts, default "text" if there is no column of sentences
    columns : the other columns to read, default all; one with a usual name is then neither label nor sentence
    needs_named : whether a named label and sentence are required, as in data to train on
    rows : whether each row is a document, whose `inputs` are TokenColumns of its cells (between semicolons `1,5` is the
        number 1.5); the label's column is then by default "label", ..., "class", "target", or the last one that is not
        among `columns`
    drop : columns that are not read

    DataError for a row of another length, an item whose rows are not adjacent (file and line named), no such column,
    no rows.
    """

    delimiter: str = field(default=",", init=False)
    sentence: str | None = None
    label: str | None = None
    text: str | None = None
    columns: Sequence[str] | None = None
    needs_named: bool = True
    rows: bool = False
    header: bool = field(default=True, init=False)
    drop: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class DelimitedOptions(TableOptions):
    """The same, and the options of text files."""

    delimiter: str = ","
    header: bool = True

    def names(self, row: list[str], where: str) -> list[str]:
        """Return the names of the columns by the first row: its cells, or numbers from 1 for empty ones and without a
        header; a new file without header may lack the label."""
        if self.header:
            return with_names(row)
        named: set[str] = set()
        if self.columns is not None or self.text is not None:
            named = {*(self.columns or ()), *self.drop, self.label or "", self.text or ""}
        n = max((int(name) for name in named if name.isdecimal()), default=len(row))
        if self.text is not None and len(row) > n:  # the others of a table of texts
            n = len(row)
        if len(row) == n - 1 and self.label:
            return [str(number) for number in range(1, n + 1) if str(number) != self.label]
        if len(row) != n:
            raise DataError(f"{where}: expected {n} cells, or {n - 1} without the label, got {len(row)}")
        return [str(number) for number in range(1, n + 1)]


P = ParamSpec("P")
Options = TypeVar("Options", bound=TableOptions)


def table_reader(
    options: Callable[P, Options],
) -> Callable[[Callable[[Any, Options], TextTable]], Callable[Concatenate[Any, P], Labeled | Documents]]:
    """Return the decorator that makes a reader, with these options as keywords, of a function that returns the cells;
    its documentation ends with that of the options."""

    def decorate(cells: Callable[[Any, Options], TextTable]) -> Callable[..., Labeled | Documents]:
        @functools.wraps(cells)
        def read(origin: Any, *args: P.args, **keywords: P.kwargs) -> Labeled | Documents:
            chosen = options(*args, **keywords)
            table = cells(origin, chosen)
            data, label = _of_records(table, chosen) if table.records else _assembled(table, chosen)
            return with_values(data, None, table.label_names.get(label))

        (first, _), known = inspect.signature(cells).parameters.values(), inspect.signature(options)
        parameters = [first, *known.parameters.values()]
        signature = inspect.Signature(parameters, return_annotation="Labeled | Documents")
        read.__signature__ = signature  # type: ignore[attr-defined]
        read.__doc__ = f"{cells.__doc__}\n\n    {TableOptions.__doc__}"
        return read

    return decorate


@table_reader(DelimitedOptions)
def read_delimited(path: Readable, options: DelimitedOptions) -> TextTable:
    """Read a CSV or TSV file, whose first line names the columns, as sequences (TokenColumns) or documents. Semicolons
    separate the cells if the first line has them, and commas only in numbers or quotes.

    delimiter : between cells, default a comma
    header : whether the first line has the names of the columns; columns without a name have numbers from 1"""
    shown, facts = shown_name(path), facts_of(path)
    numbers: list[int] = []  # of the lines that have been read

    def lines() -> Iterator[str]:
        for number, line in text_lines(path, keeps_returns=True):  # within quotes
            numbers.append(number)
            yield f"{line}\n"

    numbered = lines()
    first_line = next((line for line in numbered if not is_blank(line)), "")
    declared = declared_delimiter(first_line)
    if declared:
        first_line = next((line for line in numbered if not is_blank(line)), "")
    delimiter = declared or _delimiter(first_line, options.delimiter)
    n_blank = len(numbers) - 1
    reader = _csv_rows(itertools.chain([first_line], numbered), delimiter)
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
                if "header" not in facts:
                    facts.update(header=options.names(row, f"{shown}, line {first}"), starts={})
                table = TextTable(shown, facts["header"], delimiter=delimiter, starts=facts["starts"])
                if options.header:
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


def _of_records(table: TextTable, options: TableOptions) -> tuple[Labeled | Documents, str]:
    """Return the rows of a table with columns of lists as items, and the name of the labels' column."""
    facts: dict[str, Any] = {}
    data = read_records(
        table.shown,
        range(1, len(table.records) + 1),
        table.records,
        facts,
        RECORD_KEYS,
        is_array=True,
        label=options.label,
        columns=options.columns,
        needs_named=options.needs_named,
    )
    return data, facts["label"]


def _assembled(table: TextTable, options: TableOptions) -> tuple[Labeled | Documents, str]:
    """Return the rows of a table as sequences or documents, and the name of the labels' column."""
    if not table.rows:
        raise EmptyDataError(f"{table.shown}: no rows below the names of the columns")
    for name in options.drop if options.needs_named else ():
        table.column(name, (), "to be dropped")
    label_column, sentence_column, text_column = _special_columns(table, options)
    labels = ["" if label_column is None else row[label_column] for row in table.rows]
    has_numbers = label_column is not None and table.header[label_column] not in table.texts
    title = None
    # A new column of labels has the first name under which it would be read.
    if label_column is None and options.header:
        title = options.label or next(
            name for name in (*LABEL_TITLES, "predicted") if name not in table.header
        )
    relabel = None
    if table.delimiter is not None:
        cell = len(table.header) if label_column is None else label_column
        relabel = partial(relabelled_cell, cell=cell, delimiter=table.delimiter)
    label = "" if label_column is None else table.header[label_column]
    places = Places(table.shown, np.array(table.lines, np.int64), None, relabel, title)
    if text_column is not None:
        texts = [row[text_column] for row in table.rows]
        return Documents(texts, labels, places=places, has_numbers=has_numbers), label
    used = {label_column, sentence_column}
    numbers = [c for c, name in enumerate(table.header) if c not in used and name not in options.drop]
    if options.columns is not None:
        numbers = [c for name in options.columns if (c := table.column(name, (), "to be read")) is not None]
    if not numbers:
        raise DataError(f"{table.shown}: expected columns besides the label, got {', '.join(table.header)}")
    read = with_point if options.rows and table.delimiter == ";" else str
    cells = {table.header[c]: [read(row[c]) for row in table.rows] for c in numbers}
    starts = range(len(table.rows)) if options.rows else _starts(table, sentence_column)
    offsets = np.array([*starts, len(table.rows)], np.int64)
    tokens = TokenColumns(cells, offsets)
    if options.rows:
        return Documents(tokens, labels, places=places, has_numbers=has_numbers), label
    items = [labels[start:stop] for start, stop in itertools.pairwise(offsets)]
    places = replace(places, offsets=offsets)
    return Labeled(tokens, items, places=places, has_numbers=has_numbers), label


def _special_columns(table: TextTable, options: TableOptions) -> tuple[int | None, int | None, int | None]:
    """Return the numbers of the columns of labels, of items and of documents' texts, None if there is none."""
    columns, is_needed = options.columns, options.needs_named
    label_column = table.column(options.label, LABEL_TITLES, "label=", columns, is_needed)
    sentence_column = table.column(options.sentence, SENTENCE_TITLES, "sentence=", columns, is_needed)
    if options.rows:
        if label_column is None and not options.label:
            label_column = table.column(None, LABEL_TITLES_OF_ROWS, "", columns)
            if label_column is None and table.header[-1] not in (*(columns or ()), *options.drop):
                label_column = len(table.header) - 1
        return label_column, None, None
    usual = () if sentence_column is not None or columns else TEXT_TITLES
    return label_column, sentence_column, table.column(options.text, usual, "text=")


def cut_table(*, delimiter: str = ",", **options: Any) -> Cut:
    """Return the function that cuts a CSV or TSV file read with these options; all lines but the first are of items."""
    chosen = DelimitedOptions(**options)

    def cut(lines: Sequence[str]) -> tuple[int, int]:
        first = next((number for number, line in enumerate(lines) if not is_blank(line)), 0)
        rest, own_delimiter = _undeclared(lines[first:], delimiter)
        n_declared = len(lines) - len(rest)
        reader = _csv_rows(rest, own_delimiter)
        table: TextTable | None = None
        n_head = n_whole = before = n_declared
        sentence_column = text_column = current = None
        try:
            for row in reader:
                n_read = n_declared + reader.line_num
                if table is None and (chosen.rows or not chosen.header):
                    table, n_head = TextTable("", row), n_read if chosen.header else n_declared
                    n_whole, text_column = n_read, 0
                elif table is None:
                    if row:
                        table, n_head = TextTable("", row), n_read
                        _, sentence_column, text_column = _special_columns(table, chosen)
                elif text_column is not None or len(row) not in (0, len(table.header)):
                    n_whole = n_read
                elif sentence_column is None:
                    n_whole = n_whole if row else n_read
                elif row and (current is None or row[sentence_column] not in ("", current)):
                    current, n_whole = row[sentence_column], before
                before = n_read
        except csv.Error as error:
            if "unexpected end of data" not in str(error):  # a cell that continues in later lines
                n_whole = len(lines)
        except DataError:  # no such columns: reading raises it
            n_whole = len(lines)
        return n_head, n_whole

    return cut


def _csv_rows(lines: Iterable[str], delimiter: str, *, strict: bool = True) -> Reader:
    """Return Python's reader of CSV, without its limit on the length of cells, in the whole process."""
    csv.field_size_limit(MAX_CELL_LENGTH)
    return csv.reader(lines, delimiter=delimiter, strict=strict)


def _starts(table: TextTable, sentence_column: int | None) -> list[int]:
    """Return the rows that begin an item."""
    if sentence_column is None:
        return sorted({0, *(row for row in table.breaks if row < len(table.rows))})
    starts: list[int] = []
    current = None
    for number, row in enumerate(table.rows):
        name = row[sentence_column]
        if number and name in ("", current):
            continue
        line = table.lines[number]
        first = table.starts.setdefault(name, line)
        if first != line:  # a part with an error is read twice
            raise DataError(
                f"{table.shown}, line {line}: {name!r} again, which began in line {first}; the rows of an item have to "
                "stand together"
            )
        current = name
        starts.append(number)
    return starts


def _begins(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether lines are rows of one width, under usual names or, if tabs separate cells, mostly of numbers."""
    try:
        lines, delimiter = _undeclared(lines, delimiter)
        rows = [row for row in _csv_rows(lines, delimiter) if row] or [[]]
    except csv.Error:
        return False
    first = {cell.strip().lower() for cell in rows[0]}
    if len({*map(len, rows)}) > 1 or len(rows[0]) < 2 or (delimiter != "\t" and "\t" in lines[0]):
        return False
    if first & {*LABEL_TITLES, *SENTENCE_TITLES, *TEXT_TITLES}:
        return True
    cells = [cell for row in rows[1:] for cell in row]
    return len(rows) > 1 and (delimiter != "\t" or 2 * sum(map(is_numeric, cells)) > len(cells))


def has_header(lines: Sequence[str], delimiter: str = ",") -> bool:
    """Return whether the first line of a table names its columns: with a usual name for the labels, or by distinct
    texts that are not numbers, not empty, except for an index, and not repeated in the column below (unless the whole
    line is repeated)."""
    row = _first_row(lines, delimiter)
    if {cell.lower() for cell in row} & {*LABEL_TITLES_OF_ROWS}:
        return True
    others = [other for other in _rows_below(lines, delimiter, len(row)) if other != row]
    is_index = row[:1] == [""] and bool(others) and all(is_numeric(other[0]) for other in others)
    cells = row[is_index:]
    if len(set(row)) < len(row) or any(is_numeric(with_point(cell)) or not cell.strip() for cell in cells):
        return False
    return not any(first == cell for other in others for first, cell in zip(row, other, strict=True))


def titles(lines: Sequence[str], delimiter: str = ",") -> list[str]:
    """Return the names of the columns of a table by its first line."""
    return with_names(_first_row(lines, delimiter))


def with_names(row: Sequence[str]) -> list[str]:
    """Return the cells of a header; empty ones get the number of the column from 1, as without a header."""
    return [cell if cell.strip() else str(number) for number, cell in enumerate(row, start=1)]


def _first_row(lines: Sequence[str], delimiter: str) -> list[str]:
    lines, delimiter = _undeclared(lines, delimiter)
    return next((row for row in _csv_rows(lines[:1], delimiter, strict=False) if row), [])


def are_texts(lines: Sequence[str], delimiter: str, names: Sequence[str], among: Sequence[str]) -> list[str]:
    """Return the columns, by their `names`, with cells that are no numbers below the first of a table's lines."""
    rows = [*_rows_below(lines, delimiter, len(names))]
    return [
        name
        for name in among
        if not rows or any(not is_numeric(with_point(row[names.index(name)] or "0")) for row in rows)
    ]


def _rows_below(lines: Sequence[str], delimiter: str, n: int) -> Iterator[list[str]]:
    """Yield the rows of n cells below the first line of a table, up to a malformed one."""
    lines, delimiter = _undeclared(lines, delimiter)
    with suppress(csv.Error):  # reading raises it
        for row in _csv_rows(lines[1:], delimiter, strict=False):
            if len(row) == n:
                yield row


def declared_delimiter(line: str) -> str:
    """Return the delimiter of a line `sep=;`, which Excel writes and reads before the first row; "" without."""
    match = DELIMITER_LINE.fullmatch(line.rstrip("\r\n"))
    return match[1] if match else ""


def _undeclared(lines: Sequence[str], delimiter: str) -> tuple[Sequence[str], str]:
    """Return a table's lines, the first one not blank, without one that declares the delimiter, and the delimiter."""
    first = "".join(lines[:1])
    declared = declared_delimiter(first)
    return (lines[1:], declared) if declared else (lines, _delimiter(first, delimiter))


def _delimiter(line: str, delimiter: str) -> str:
    """Return the delimiter of a table by its first line: semicolons if commas are only in numbers or quotes, as
    spreadsheets write them."""
    cells = re.sub(r'"[^"]*"', "", line).rstrip("\r\n").split(";")
    is_semicolons = len(cells) > 1 and all("," not in with_point(cell) for cell in cells)
    return ";" if delimiter == "," and is_semicolons else delimiter


def with_point(cell: str) -> str:
    """Return a number with a decimal point instead of a comma, any other cell unchanged."""
    changed = cell.replace(",", ".")
    return changed if cell.count(",") == 1 and is_numeric(changed) else cell


TABLE_FEATURES = (*OF_COLUMNS, "text", "table")


def text_table(name: str, title: str, delimiter: str) -> Format:
    """Return the format of tables with a delimiter between cells."""
    return Format(
        name,
        title,
        (f".{name}",),
        (SEQUENCES, DOCUMENTS, ROWS),
        partial(read_delimited, delimiter=delimiter),
        partial(delimited_lines, delimiter=delimiter),
        partial(cut_table, delimiter=delimiter),
        partial(_begins, delimiter=delimiter),
        item_end="another name in the column of sentences ends an item, or without such a column a blank line",
        names_columns=True,
        features=TABLE_FEATURES,
        titles=lambda path, lines, **_: titles(lines, delimiter),
        delimiter=delimiter,
    )


TABLE_FORMATS = (
    text_table("csv", "table with a header: a position or a text a row", ","),
    text_table("tsv", "the same, with tabs", "\t"),
)
