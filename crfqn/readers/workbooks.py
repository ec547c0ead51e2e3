"""Reader of a sheet of an Excel workbook (.xlsx), by pandas and openpyxl: a table whose first row names its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from crfqn.data.binary_files import WORKBOOK, find_binary
from crfqn.data.files import Readable, read_bytes, shown_name
from crfqn.errors import DataError, EmptyDataError
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES, Format
from crfqn.readers.tables import TABLE_FEATURES, TableOptions, TextTable, table_reader, with_names


@dataclass(frozen=True, kw_only=True)
class WorkbookOptions(TableOptions):
    """The same, and the sheet."""

    sheet: str = ""


@table_reader(WorkbookOptions)
def read_workbook(path: Readable, options: WorkbookOptions) -> TextTable:
    """Read a sheet of an Excel workbook as sequences (TokenColumns) or documents. Rows without cells separate
    sequences, as blank lines do.

    sheet : name of the sheet, by default the first one; a file to predict on with one sheet may name it otherwise"""
    shown, cells = shown_name(path), _cells(path, options.sheet, may_differ=not options.needs_named)
    numbered = [(number, row) for number, row in enumerate(cells, start=1) if any(cell != "" for cell in row)]
    if not numbered:
        raise EmptyDataError(f"{shown}: empty; expected a row of column names and rows below it")
    (_, header), *rows = numbered
    table = TextTable(shown, with_names([*map(str, header)]))
    if len(set(table.header)) < len(table.header):
        raise DataError(f"{shown}: expected distinct names of columns, got {', '.join(table.header)}")
    for number, row in rows:
        if table.lines and number > table.lines[-1] + 1:
            table.breaks.add(len(table.rows))
        table.rows.append([*map(str, row)])
        table.lines.append(number)
    columns = zip(table.header, zip(*(row for _, row in rows), strict=True), strict=False)
    table.texts = {name for name, column in columns if any(isinstance(cell, str) and cell for cell in column)}
    return table


def workbook_titles(path: Readable, lines: Sequence[str], sheet: str = "") -> list[str]:
    """Return the names of a sheet's columns; errors as of `read_workbook`."""
    first = next((row for row in _cells(path, sheet) if any(cell != "" for cell in row)), [])
    return with_names([*map(str, first)])


def _cells(path: Readable, sheet: str, may_differ: bool = False) -> list[list[Any]]:
    """Return the cells of a sheet, texts, numbers, dates and booleans, "" for empty ones; if the name `may_differ`, an
    only sheet is read under any name."""
    content = BytesIO(read_bytes(path))
    try:
        import pandas

        book = pandas.ExcelFile(content, engine="openpyxl")
        names = [*map(str, book.sheet_names)]
        if not sheet or (may_differ and len(names) == 1):
            sheet = names[0]
        is_there = sheet in names
        form = {"header": None, "dtype": object, "na_filter": False}
        rows = pandas.read_excel(book, sheet, **form).to_numpy().tolist() if is_there else []
    except ImportError as error:
        raise DataError(
            "Excel workbooks need the packages pandas and openpyxl, which are not installed: pip install "
            "'crfqn[formats]'"
        ) from error
    except Exception as error:  # of zip, XML and openpyxl, which differ by the damage
        raise DataError(f"{shown_name(path)}: no Excel workbook, or a damaged one: {error}") from error
    if not is_there:
        raise DataError(f"{shown_name(path)}: expected a sheet {sheet!r}, got {', '.join(names)}")
    return rows


FORMAT = Format(
    "xlsx",
    "a sheet of an Excel workbook",
    (".xlsx",),
    (SEQUENCES, DOCUMENTS, ROWS),
    read_workbook,
    None,
    begins=lambda lines: find_binary("".join(lines).encode(errors="replace")) is WORKBOOK,
    names_columns=True,
    features=TABLE_FEATURES,
    titles=workbook_titles,
)
