"""Definition of a file format: a row of the registry, made in the module that reads and writes its files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crfqn.data.file_parts import ITEM_END, Cut, cut_at_blank_lines, cut_at_lines
from crfqn.data.files import Readable, is_blank, text_lines
from crfqn.data.label_arrays import label_text
from crfqn.data_options import OF_COLUMNS
from crfqn.errors import InputError
from crfqn.messages import shorten
from crfqn.readers.labelled_items import Documents, Labeled

Data = Labeled | Documents
Batches = Iterable[tuple[Data, Any]]  # data, and predicted labels or None
SEQUENCES, DOCUMENTS, ROWS = "sequences", "documents", "rows of a table"


@dataclass(frozen=True)
class Format:
    """File format.

    Parameters
    ----------
    name, title : str
    extensions : tuple of str
        File names with these endings, in small letters and with the dot, have the format.
    holds : tuple of str
        SEQUENCES, DOCUMENTS, and ROWS: documents whose inputs are cells.
    read : callable
        `read(source, **options) -> Labeled or Documents`.
    write : callable, or None if the format cannot hold labels
        `write(batches) -> bytes or a text a batch` of pairs (data, predicted or None). Predictions are an additional
        column if the format can have one, else they replace the labels.
    cut : callable, or None
        `cut(**options of read)` returns the function that cuts a file into parts; None: a file is read as a whole.
    begins : callable, or None
        `begins(lines) -> bool`: whether the first lines of a file (the first one not blank, the last one whole) look
        like the format. Formats are tried in the order of the registry. None: only the name gives the format.
    ranked : str
        The line before each of the best labellings of an item, made of its `rank` and `probability`; empty if the
        format cannot hold several labellings.
    item_end : str
        The end of an item, in words, for messages.
    names_columns : bool
        Whether a file names its columns. Models of columns then read it if its first lines are like the format
        (`begins`).
    is_unicode : bool
        Whether the format is UTF-8 by definition.
    features : tuple of str
        The kinds of features (`crfqn.data_options`) that its items may have.
    kind_of : callable or None
        `kind_of(name, lines)` returns the kind of a file with these first lines, SEQUENCES or DOCUMENTS, and whether
        positions have named features. None: if the format holds several kinds, the user chooses.
    titles, delimiter : callable or None, and str
        Of tables: `titles(path, lines, sheet=)` returns the names of a file's columns; the text between the cells of a
        row if the table is text.
    columns : tuple of str
        The columns that a model reads if its recipe names none; empty: all.
    is_uncut : bool
        Whether it is running text, which the option `tokenizer` cuts into words.
    holds_nested : bool
        Whether features of positions may be lists and dicts.
    takes_scores : bool
        Whether predictions are written with their probabilities.
    is_folder, write_folder : callable, or None
        Of formats with several files: `is_folder(path)` returns whether a folder is one data set of the format, and
        `write_folder(batches)`, in the place of `write`, yields the name and the text of each file.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    holds: tuple[str, ...]
    read: Callable[..., Data]
    write: Callable[[Batches], bytes | Iterable[str]] | None
    cut: Callable[..., Cut] | None = None
    begins: Callable[[Sequence[str]], bool] | None = None
    ranked: str = ""
    item_end: str = ITEM_END
    names_columns: bool = False
    is_unicode: bool = False
    features: tuple[str, ...] = OF_COLUMNS
    kind_of: Callable[[str, Sequence[str]], tuple[str, bool]] | None = None
    titles: Callable[..., list[str]] | None = None
    delimiter: str = ""
    columns: tuple[str, ...] = ()
    is_uncut: bool = False
    holds_nested: bool = False
    takes_scores: bool = False
    is_folder: Callable[[Path], bool] | None = None
    write_folder: Callable[[Batches], Iterable[tuple[str, str]]] | None = None

    def options(self) -> tuple[str, ...]:
        """Return the names of the reader's options."""
        return options_of(self.read)


def options_of(reader: Callable[..., Data]) -> tuple[str, ...]:
    """Return the names of a reader's options."""
    return tuple(inspect.signature(reader).parameters)[1:]


def by_lines(**_: object) -> Cut:
    """Return the function that cuts a format with an item a line; it ignores the options."""
    return cut_at_lines


def by_blank_lines(**_: object) -> Cut:
    """Return the function that cuts a format with a blank line after each item."""
    return cut_at_blank_lines


def each(lines: Callable[[Any, Any], Iterable[str]]) -> Callable[[Batches], Iterable[str]]:
    """Return a writer of batches, given one of data and predictions."""
    return lambda batches: ("".join(lines(data, predicted)) for data, predicted in batches)


def instead(lines: Callable[[Any], Iterable[str]]) -> Callable[[Batches], Iterable[str]]:
    """Return a writer that replaces the labels by predictions."""
    return each(lambda data, predicted: lines(data if predicted is None else relabeled(data, predicted)))


def relabeled(data: Data, predicted: Sequence[Any]) -> Data:
    """Return the data with predictions instead of labels; InputError if they do not fit the items."""
    what = "items" if isinstance(data, Labeled) else "documents"
    if len(predicted) != data.n_items:
        raise InputError(f"predicted: expected labels for {data.n_items} {what}, got {len(predicted)}")
    if isinstance(data, Labeled):
        listed = [[label_text(label) for label in item] for item in predicted]
        for i, (new, old) in enumerate(zip(listed, data.labels, strict=True)):
            if len(new) != len(old):
                raise InputError(f"predicted: item {i}: expected {len(old)} labels, got {len(new)}")
        return replace(data, labels=listed)
    texts = []
    for label in predicted:
        if isinstance(label, bytes):
            raise InputError(f"predicted: expected texts as labels, got {shorten(label)}")
        is_several = isinstance(label, Iterable) and not isinstance(label, str)
        texts.append(",".join(map(label_text, label)) if is_several else label_text(label))
    return replace(data, labels=texts)


# ---- shared by several readers


def item_lines(path: Readable) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each item, in formats that have blank lines between items."""
    lines: list[tuple[int, str]] = []
    for number, line in text_lines(path):
        if not is_blank(line):
            lines.append((number, line))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines
