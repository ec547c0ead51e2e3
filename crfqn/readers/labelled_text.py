"""Reader of texts with labels, a document a line: `label TAB text`.

The label stands before the first tab, and may be empty: none is known. Further tabs belong to the text. A line without
a tab is a text alone; a blank line is skipped, or, with `keeps_blank`, a document without words. The general file input
for models of texts.
"""

from __future__ import annotations

from pathlib import Path

from crfqn.data.lines import shown_name, text_lines
from crfqn.errors import DataError
from crfqn.readers.documents import Documents


def read_labelled_texts(path: str | Path, keeps_blank: bool = False) -> Documents:
    """Read texts, plain or gzip-compressed; `-` reads standard input.

    Parameters
    ----------
    path : str or Path
    keeps_blank : bool
        Whether a blank line is a document without words, so that there are as many documents as lines.

    Returns
    -------
    Documents
        `inputs` is a list of texts; a label that is not known is an empty text.

    Raises
    ------
    DataError
        No documents at all; bad UTF-8 (file and line are named).
    """
    texts: list[str] = []
    labels: list[str] = []
    lines = [line for _, line in text_lines(path)]
    if not lines[-1]:  # what follows the last line's end
        lines.pop()
    for line in lines:
        if keeps_blank or has_text(line):
            before, tab, after = line.partition("\t")
            texts.append(after if tab else before)
            labels.append(before.strip() if tab else "")
    if not texts:
        raise DataError(
            f"{shown_name(path)}: no documents; expected lines of a label, a tab and a text, or of a text"
        )
    return Documents(texts, labels)


def has_text(line: str) -> bool:
    """Return whether a line is not blank: a label without a text counts."""
    return bool(line.strip()) or "\t" in line
