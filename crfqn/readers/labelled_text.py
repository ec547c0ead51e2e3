"""Texts with labels, one document a line: `label TAB text`.

The label is what stands before the first tab, and may be empty: none is known. Further tabs belong to the text. A
line without a tab is a text alone; a blank line is nothing. The general file input for models of texts.
"""

from __future__ import annotations

from pathlib import Path

from crfqn.errors import DataError
from crfqn.readers.documents import Documents
from crfqn.readers.lines import text_lines


def read_labelled_texts(path: str | Path) -> Documents:
    """Read texts, plain or gzip-compressed; `-` reads standard input.

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
    for _, line in text_lines(path):
        if line.strip() or "\t" in line:
            before, tab, after = line.partition("\t")
            texts.append(after if tab else before)
            labels.append(before.strip() if tab else "")
    if not texts:
        raise DataError(f"{path}: no documents; expected lines of a label, a tab and a text, or of a text")
    return Documents(texts, labels)
