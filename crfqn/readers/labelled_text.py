"""Texts, one a line: documents with labels, `label TAB text`, and raw text, whose words and punctuation are positions.

The label of a document is before the first tab; an empty one is unknown. Further tabs belong to the text. A line
without a tab is a text alone; a blank line is skipped, or, with `keeps_blank`, a document without words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crfqn.data.files import Readable, is_blank, shown_name, text_lines
from crfqn.errors import EmptyDataError, InputError
from crfqn.messages import shorten
from crfqn.readers.format import DOCUMENTS, SEQUENCES, Format, by_lines, instead
from crfqn.readers.labelled_items import Documents, Places, in_line
from crfqn.readers.text_spans import MarkedText, reader_of

BYTE_ORDER_MARK = "\ufeff"  # which readers skip at the beginning of a file


def read_labelled_texts(path: Readable, keeps_blank: bool = False) -> Documents:
    """Read texts, with an empty text for an unknown label; `keeps_blank` makes a blank line a document without words,
    so that there are as many documents as lines. DataError for none, and for invalid UTF-8 (file and line named)."""
    texts: list[str] = []
    labels: list[str] = []
    numbers: list[int] = []
    lines = list(text_lines(path))
    if not lines[-1][1]:  # the empty text after the last line's end
        lines.pop()
    for number, line in lines:
        if keeps_blank or not is_blank(line) or "\t" in line:  # a label without a text counts
            numbers.append(number)
            before, tab, after = line.partition("\t")
            texts.append(after if tab else before)
            labels.append(before.strip() if tab else "")
    if not texts:
        raise EmptyDataError(
            f"{shown_name(path)}: no documents; expected lines of a label, a tab and a text, or of a text"
        )
    places = Places(shown_name(path), np.array(numbers, np.int64), relabel=in_line(_relabelled))
    return Documents(texts, labels, places=places)


def labelled_lines(documents: Documents) -> Iterator[str]:
    """Yield a line a document, `label TAB text`, or the text alone if its label is unknown and it is read as a text.
    InputError for one that would be read differently: a line's end, a tab in the label or blanks around it."""
    for i, (text, label) in enumerate(zip(documents.inputs, documents.labels, strict=True)):
        _check_label(f"{documents.where(i)}: ", label)
        if "\n" in text or "\r" in text:
            raise InputError(f"{documents.where(i)}: its text contains a line's end")
        # After a tab, every text is read as a text, even a blank one.
        needs_tab = "\t" in text or is_blank(text) or text.startswith(BYTE_ORDER_MARK)
        yield f"{label}\t{text}\n" if label or needs_tab else f"{text}\n"


def _check_label(where: str, label: str) -> None:
    is_other = label != label.strip() or label.startswith(BYTE_ORDER_MARK)
    if is_other or any(character in label for character in "\t\n\r"):
        raise InputError(f"{where}its label has a tab, a line's end or blanks around it, {shorten(label)}")


def _relabelled(line: str, labels: Sequence[str]) -> str:
    label, (before, tab, after) = ",".join(labels), line.partition("\t")
    _check_label("", label)
    return f"{label}\t{after if tab else before}"


def _begins(lines: Sequence[str]) -> bool:
    rows = [line.split("\t") for line in lines if not is_blank(line)]
    is_short = len(rows) < len(lines) - is_blank(lines[-1])  # by blank lines, which separate items
    return not is_short and 2 * sum(len(row) == 2 and " " in row[1].strip() for row in rows) > len(rows)


def _raw_texts(path: Readable, reads_spans: bool) -> Iterator[MarkedText]:
    """Yield each line that is not blank, without labels."""
    for number, line in text_lines(path):
        if not is_blank(line):
            yield MarkedText(line, None, shown_name(path), number, {})


LABELLED_FORMAT = Format(
    "text",
    "label TAB text, a document a line",
    (".text", ".labels"),
    (DOCUMENTS,),
    read_labelled_texts,
    instead(labelled_lines),
    by_lines,
    _begins,
    features=("text",),
)
RAW_FORMAT = Format(
    "raw",
    "raw text, a line an item, cut into words",
    (),
    (SEQUENCES,),
    reader_of(_raw_texts, "lines of text"),
    None,
    by_lines,
    is_uncut=True,
)
