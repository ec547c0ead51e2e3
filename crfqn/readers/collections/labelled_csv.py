"""Reader of texts with labels from a table with a head, values separated by commas: `text,category`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from crfqn.data.files.lines import shown_name, text_lines
from crfqn.errors import DataError
from crfqn.readers.documents import Documents


def read_labelled_csv(path: str | Path, text: str = "text", label: str = "category") -> Documents:
    """Read a table, plain or gzip-compressed; `-` reads standard input.

    Parameters
    ----------
    path : str or Path
    text, label : str
        Names of the two columns; others are passed over.

    Returns
    -------
    Documents
        `inputs` is a list of texts.

    Raises
    ------
    DataError
        A column is missing, a row has another number of values (file and line are named), no rows.
    """
    rows = csv.reader(_lines(path), strict=True)
    texts, labels = [], []
    try:
        head = next(rows, [])
        missing = [name for name in (text, label) if name not in head]
        if missing:
            raise DataError(
                f"{shown_name(path)}, line 1: expected the columns {text} and {label}, got {', '.join(head)[:60]!r}"
            )
        of_text, of_label = head.index(text), head.index(label)
        for row in rows:
            if not row:
                continue
            if len(row) != len(head):
                raise DataError(
                    f"{shown_name(path)}, line {rows.line_num}: expected {len(head)} values, got {len(row)}"
                )
            texts.append(row[of_text])
            labels.append(row[of_label])
    except csv.Error as error:
        raise DataError(f"{shown_name(path)}, line {rows.line_num}: {error}") from error
    if not texts:
        raise DataError(f"{shown_name(path)}: no rows below the head")
    return Documents(texts, labels)


def _lines(path: str | Path) -> Iterator[str]:
    return (f"{line}\n" for _, line in text_lines(path))
