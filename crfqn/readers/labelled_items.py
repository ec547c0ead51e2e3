"""Labelled sequences and documents, which readers return, with their places in the file.

A position's observation is an image (rows of a `(T, P)` uint8 array of grey values) or a dict of attributes or columns.
A document has one label, and is a row of a sparse matrix or a text. The same items in any order have the same `digest`,
which identifies a copy of a dataset in any format. Sizes: I items, T positions of one, F features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.data.label_arrays import target_reader
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.messages import numbered
from crfqn.taxonomy.tree import LabelTree

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MATRIX_KIND = "a matrix"


class LabelledItems:
    """Base class of items with their labels: sequences or documents."""

    inputs: Any
    labels: list[Any]
    n_train: int | None
    places: Places | None
    has_numbers: bool
    # Returns the fields of these items and others but labels and places.
    _joined: Callable[[Any], dict[str, Any]]

    @property
    def n_items(self) -> int:
        return len(self.labels)

    def each_label(self) -> Iterable[str]:
        """Return the labels of all items, one after the other."""
        return self.labels

    def distinct_labels(self) -> list[str]:
        """Return the labels that occur, sorted."""
        return sorted({*self.each_label()})

    def labelled(self, label: str) -> Iterator[tuple[int, int | None]]:
        """Yield the items, and the positions in them, that have a label; a document has no positions."""
        for item, labels in enumerate(self.labels):
            if isinstance(labels, str):
                if labels == label:
                    yield item, None
            elif label in labels:
                yield from ((item, position) for position, own in enumerate(labels) if own == label)

    def reader(self) -> Callable[[str], Any]:
        """Return the function from a label's text to its target: a number if all labels mean numbers, else the text."""
        return target_reader(self.each_label()) if self.has_numbers else str

    def targets(self, read: Callable[[str], Any] | None = None) -> list[Any]:
        """Return the labels to train on, by default as these labels' own `reader` reads them; None for the unknown
        label of a position."""
        read = read or self.reader()
        return [
            read(label) if isinstance(label, str) else [read(text) if text else None for text in label]
            for label in self.labels
        ]

    def where(self, item: int, position: int | None = None) -> str:
        """Return the place of an item or a position in words, with file and line if it is from a file."""
        return (numbered if self.places is None else self.places.where)(item, position)

    def part(self, items: NDArray[np.integer]) -> Self:
        """Return some of the items, without their places."""
        inputs = self.inputs
        inputs = [inputs[item] for item in items] if isinstance(inputs, list) else inputs[items]
        labels = [self.labels[item] for item in items]
        return replace(self, inputs=inputs, labels=labels, n_train=None, places=None)  # type: ignore[type-var]

    def joined(self, test: Self) -> Self:
        """Return these items, for training (`n_train`), and those of a test part; InputError, naming its file, if the
        two do not belong together."""
        try:
            fields = self._joined(test)
        except InputError as error:
            raise InputError(f"{test.places.file if test.places else 'the test part'}: {error}") from error
        places = None
        if self.places is not None and test.places is not None:
            pair = (self.n_items, self.places), (test.n_items, test.places)
            parts = [part for n_items, of in pair for part in of.parts or [(n_items, of)]]
            places = Places(test.places.file, test.places.lines, parts=parts)
        labels = self.labels + test.labels
        return replace(self, **fields, labels=labels, n_train=self.n_items, places=places)  # type: ignore[type-var]


@dataclass(frozen=True)
class Labeled(LabelledItems):
    """Items with their labels.

    Parameters
    ----------
    inputs : sequence of I items
        A list of uint8 arrays of shape (T, P), or of lists of T dicts `attribute -> value`; or TokenColumns, whose
        items are lists of T dicts `column -> text`.
    labels : list of list of str
        One list of T labels an item; an empty text is an unknown label.
    n_train : int or None
        If the data has its own split: the first `n_train` items are for training.
    places : Places or None
        File and line of each position.
    weights : list of float, or None
        Weight of each item, if the file has weights.
    spans : list of list of (int, int), or None
        For texts, the start and end of each position's token in the item's text, in characters.
    texts : list of str, or None
        The text of each item that `spans` is of.
    records : list of dict, or None
        For texts with labelled spans, the object of the file that each item is from.
    scores : list of (float, sequence of float), or None
        For predicted labels, the probability of each item's labels and of each span of them, in [0, 1].
    has_numbers : bool
        Whether labels that are all numbers mean numbers (`targets`), as in tables.
    """

    inputs: Sequence[Any]
    labels: list[list[str]]
    n_train: int | None = None
    places: Places | None = None
    weights: list[float] | None = None
    spans: list[list[tuple[int, int]]] | None = None
    texts: list[str] | None = None
    records: list[dict[str, Any]] | None = None
    scores: list[tuple[float, Sequence[float]]] | None = None
    has_numbers: bool = False

    def each_label(self) -> Iterable[str]:
        return chain.from_iterable(self.labels)

    @property
    def n_positions(self) -> int:
        """Number of positions of all items."""
        return sum(len(item) for item in self.labels)

    def known_labels(self) -> list[list[str]] | None:
        """Return the labels, None without any; DataError, naming the first unlabelled position, if others have one."""
        if all(self.each_label()):
            return self.labels
        if not any(self.each_label()):
            return None
        missing = [*self.labelled("")]
        raise DataError(
            f"{self.where(*missing[0])}: {len(missing)} of {self.n_positions} positions have no label, here first; "
            "label all or none"
        )

    def part(self, items: NDArray[np.integer]) -> Labeled:
        names = "weights", "spans", "texts", "records", "scores"
        lists = {name: values for name in names if (values := getattr(self, name)) is not None}
        parts: dict[str, Any] = {name: [values[item] for item in items] for name, values in lists.items()}
        return replace(super().part(items), **parts)

    def digest(self) -> str:
        """Return the SHA-256 (64 hex digits) over labels and observations, for any order of the items."""
        digests = []
        for observed, labels in zip(self.inputs, self.labels, strict=True):
            digest = hashlib.sha256(json.dumps(labels).encode())
            if isinstance(observed, np.ndarray):
                digest.update(repr(observed.shape).encode())
                digest.update(np.ascontiguousarray(observed, dtype=np.uint8).tobytes())
            else:
                digest.update(json.dumps(observed, sort_keys=True).encode())
            digests.append(digest.digest())
        return hashlib.sha256(b"".join(sorted(digests))).hexdigest()

    def _joined(self, test: Labeled) -> dict[str, Any]:
        weights = None
        if self.weights is not None or test.weights is not None:
            weights = [*(self.weights or [1.0] * self.n_items), *(test.weights or [1.0] * test.n_items)]
        try:
            inputs: Any = self.inputs + test.inputs  # type: ignore[operator]
            return {"inputs": inputs, "weights": weights} | dict.fromkeys(
                ("spans", "texts", "records", "scores")
            )
        except TypeError:
            kinds = ["columns" if isinstance(p.inputs, TokenColumns) else "features" for p in (self, test)]
            raise InputError(f"expected {kinds[0]}, as in the files before, got {kinds[1]}") from None


# Returns a text that begins with the line of a position or document, with other labels and otherwise unchanged.
Relabel = Callable[[str, Sequence[str]], str]


def in_line(relabel: Relabel) -> Relabel:
    """Return the function that writes labels into a text, given one for its first line without the line's end."""

    def relabel_text(text: str, labels: Sequence[str]) -> str:
        line = text.partition("\n")[0].removesuffix("\r")
        return relabel(line, labels) + text[len(line) :]

    return relabel_text


@dataclass(frozen=True, eq=False)
class Places:
    """Places of items, and the function that writes other labels there.

    Parameters
    ----------
    file : str
        Name of the file, as messages show it.
    lines : ndarray of int64
        Line (from 1) of each document, or of each position of sequences, item after item.
    offsets : ndarray of int64, shape (I + 1,), or None
        Item i has lines[offsets[i]] ... ; None: an item has one line.
    relabel : callable, or None
        `relabel(text, labels)` for a text that begins at one of the lines, and the labels of its positions or document.
    title : str, or None
        The title of the labels' column, if the file has titles but not that one.
    item_lines : ndarray of int64, shape (I,), or None
        Line of each sequence, in formats with one a line, which may have no positions.
    parts : sequence of (int, Places)
        For the items of several files: the number of items of each file, and their places.
    """

    file: str
    lines: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None
    relabel: Relabel | None = None
    title: str | None = None
    item_lines: NDArray[np.int64] | None = None
    parts: Sequence[tuple[int, Places]] = ()

    @classmethod
    def of_items(cls, file: str, lines: Sequence[Sequence[int]], relabel: Relabel | None = None) -> Places:
        """Return the places of sequences: a list of lines an item."""
        offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
        return cls(file, np.array([line for item in lines for line in item], np.int64), offsets, relabel)

    def line(self, item: int, position: int = 0) -> int:
        """Return the line (from 1) of an item, or of one of its positions."""
        if self.item_lines is not None:
            return int(self.item_lines[item])
        return int(self.lines[item if self.offsets is None else self.offsets[item] + position])

    def where(self, item: int, position: int | None = None) -> str:
        """Return the place in words, "train.txt, line 17"; for an item or position that shares its line with others,
        with its number (from 0): "train.txt, line 17, position 3"."""
        for n_items, places in self.parts:
            if item < n_items:
                return places.where(item, position)
            item -= n_items
        line = self.line(item, position or 0)
        place = f"{self.file}, line {line}"
        of_items = self.lines if self.offsets is None else self.item_lines
        if of_items is not None and np.count_nonzero(of_items == line) > 1:  # of an array of JSON
            place += f", item {item}"
        if position is None or self.offsets is None:
            return place
        lines = self.lines[self.offsets[item] : self.offsets[item + 1]]
        shares_line = self.item_lines is not None or np.unique(lines).size < lines.size
        return f"{place}, position {position}" if shares_line else place


@dataclass(frozen=True, eq=False)
class Documents(LabelledItems):
    """Documents with their labels.

    Parameters
    ----------
    inputs : scipy.sparse.csr_array of shape (I, F), list of str, or TokenColumns
        A row, a text or the cells of a table's row for each document.
    labels : list of str
        The label of each document: the name of a node of the taxonomy, if there is one.
    taxonomy : LabelTree or None
        The taxonomy of the labels; None: they are flat.
    n_train : int or None
        If the data has its own split: the first `n_train` documents are for training.
    feature_names : sequence of F str, or None
        Names of the matrix's columns.
    places : Places or None
        File and line of each document.
    has_numbers : bool
        Whether labels that are all numbers mean numbers (`targets`), as in svmlight's format and in tables.
    """

    inputs: Any
    labels: list[str]
    taxonomy: LabelTree | None = None
    n_train: int | None = None
    feature_names: Sequence[str] | None = None
    places: Places | None = None
    has_numbers: bool = False

    def where(self, item: int, position: int | None = None) -> str:
        return super().where(item)

    def digest(self) -> str:
        """Return the SHA-256 (hex) of labels and inputs, for any order of documents and form of the matrix."""
        contents: Any = self.inputs
        names: Sequence[str] = ()
        if isinstance(contents, TokenColumns):
            names = sorted(contents.names)
            contents = map(json.dumps, zip(*(contents.texts[name] for name in names), strict=True))
        elif not isinstance(contents, list):
            contents = _rows(contents)
        pairs = zip(self.labels, contents, strict=True)
        digests = sorted(
            hashlib.sha256(_encoded(label) + _encoded(content)).digest() for label, content in pairs
        )
        return hashlib.sha256(b"".join([*digests, *map(_encoded, names)])).hexdigest()

    def _joined(self, test: Documents) -> dict[str, Any]:
        """A matrix with fewer columns is widened, taxonomies are united."""
        kinds = [
            "texts"
            if isinstance(inputs, list)
            else "cells"
            if isinstance(inputs, TokenColumns)
            else MATRIX_KIND
            for inputs in (self.inputs, test.inputs)
        ]
        taxonomy = _joined_taxonomy(self.taxonomy, test.taxonomy)
        if kinds[0] != kinds[1]:
            raise InputError(
                f"the training part holds {kinds[0]}, the test part {kinds[1]}; expected the same kind"
            )
        if kinds[0] != MATRIX_KIND:
            return {"inputs": self.inputs + test.inputs, "taxonomy": taxonomy, "feature_names": None}
        from scipy.sparse import csr_array, vstack

        names = _joined_names(self.feature_names, test.feature_names)
        n_columns = max(self.inputs.shape[1], test.inputs.shape[1])
        widened = [
            csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], n_columns))
            for part in (self.inputs, test.inputs)
        ]
        return {"inputs": vstack(widened, format="csr"), "taxonomy": taxonomy, "feature_names": names}


def _rows(matrix: csr_array) -> Iterator[bytes]:
    """Yield columns and values of each row as bytes that are the same on every machine."""
    canonical = matrix.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    columns, values = canonical.indices.astype("<i8"), canonical.data.astype("<f8")
    for start, stop in zip(canonical.indptr[:-1], canonical.indptr[1:], strict=True):
        yield columns[start:stop].tobytes() + values[start:stop].tobytes()


def _encoded(content: str | bytes) -> bytes:
    return json.dumps(content).encode() if isinstance(content, str) else content


def _joined_names(train: Sequence[str] | None, test: Sequence[str] | None) -> Sequence[str] | None:
    if train is None and test is None:
        return None
    if train is None or test is None:
        named, unnamed = ("test", "training") if train is None else ("training", "test")
        raise InputError(f"the {named} part has feature names, the {unnamed} part has none")
    for column, (left, right) in enumerate(zip(train, test, strict=False)):
        if left != right:
            raise InputError(f"column {column} is {left!r} in the training part, {right!r} in the test part")
    return max(train, test, key=len)


def _joined_taxonomy(train: LabelTree | None, test: LabelTree | None) -> LabelTree | None:
    if train is None or test is None:
        return test if train is None else train
    if train.names == test.names and np.array_equal(train.parents, test.parents):
        return train
    import networkx

    return LabelTree.from_graph(networkx.compose(train.to_networkx(), test.to_networkx()))
