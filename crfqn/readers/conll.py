"""Reader of columns of text, as in CoNLL's shared tasks: a position a line, a blank line after each item.

`word POS label`, separated by blanks or tabs. The caller names the columns before the label; the
label is the last one, and files without it hold items to be labelled. Format: Tjong Kim Sang and Buchholz,
"Introduction to the CoNLL-2000 shared task: chunking" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crfqn.data.lines import shown_name, text_lines
from crfqn.errors import DataError
from crfqn.readers.labeled import Labeled

WORD_AND_TAG = ("w", "pos")


def read_conll(
    path: str | Path, columns: Sequence[str] = WORD_AND_TAG, separator: str | None = None
) -> Labeled:
    """Read a file of columns, plain or gzip-compressed; `-` reads standard input.

    Parameters
    ----------
    path : str or Path
    columns : sequence of str
        Names of the columns before the label.
    separator : str or None
        What stands between the columns; None: blanks or tabs.

    Returns
    -------
    Labeled
        `inputs[i]` is a list of T dicts `column -> text`; a label that is not there is an empty text.

    Raises
    ------
    DataError
        A line with another number of columns, bad UTF-8 (file and line are named), no items at all.
    """
    inputs: list[list[dict[str, str]]] = []
    labels: list[list[str]] = []
    n, is_inside = len(columns), False
    for number, line in text_lines(path):
        fields = line.split(separator)
        if not line.strip():
            is_inside = False
            continue
        if len(fields) not in (n, n + 1):
            raise DataError(
                f"{shown_name(path)}, line {number}: expected {n} columns ({', '.join(columns)}) and perhaps a label, "
                f"got {len(fields)}: {line.strip()[:60]!r}"
            )
        if not is_inside:
            inputs.append([])
            labels.append([])
            is_inside = True
        inputs[-1].append(dict(zip(columns, fields, strict=False)))
        labels[-1].append(fields[n] if len(fields) > n else "")
    if not labels:
        raise DataError(f"{shown_name(path)}: no items; expected lines of {', '.join(columns)} and a label")
    return Labeled(inputs, labels)
