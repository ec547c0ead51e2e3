"""Labelled sequences, the result of their readers: items of observations with a label at each position.

An item is a word, a date, a sentence. Its observations are an image a position (a `(T, P)` uint8 array of
grey values) or a dict of attributes or columns a position. Two files that hold the same items in any order have the
same `digest`, which is how a copy of a dataset is recognised whatever its file format.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from crfqn.errors import DataError
from crfqn.readers.places import Places


@dataclass(frozen=True)
class Labeled:
    """Items with their labels.

    Parameters
    ----------
    inputs : sequence of I items
        A list of uint8 arrays of shape (T, P), or of lists of T dicts `attribute -> value`; or TokenColumns, whose
        items are lists of T dicts `column -> text`.
    labels : list of list of str
        One list of T labels an item; an empty text stands for "no label known".
    n_train : int or None
        Where the data brings its own split: the first `n_train` items are for training.
    places : Places or None
        File and line of each position.
    weights : list of float, or None
        Weight of each item, where the file gives any.
    """

    inputs: Sequence[Any]
    labels: list[list[str]]
    n_train: int | None = None
    places: Places | None = None
    weights: list[float] | None = None

    @property
    def n_items(self) -> int:
        return len(self.labels)

    @property
    def n_positions(self) -> int:
        """Number of positions of all items."""
        return sum(len(item) for item in self.labels)

    def distinct_labels(self) -> list[str]:
        """Return the labels that occur, sorted."""
        return sorted({label for item in self.labels for label in item})

    def n_distinct_items(self) -> int:
        """Return the number of distinct label sequences (words)."""
        return len({tuple(item) for item in self.labels})

    def where(self, item: int, position: int) -> str:
        """Return the place of a position in words: file and line, where it comes from a file."""
        if self.places is None:
            return f"item {item}, position {position}"
        return self.places.where(item, position)

    def known_labels(self) -> list[list[str]] | None:
        """Return the labels, None without any; DataError, naming the first position without, where others have one."""
        is_known = list(map(bool, chain.from_iterable(self.labels)))
        if all(is_known):
            return self.labels
        if not any(is_known):
            return None
        item, position = next(
            (i, t) for i, labels in enumerate(self.labels) for t, label in enumerate(labels) if not label
        )
        raise DataError(
            f"{self.where(item, position)}: {is_known.count(False)} of {len(is_known)} positions have no label, here "
            "first; label all or none"
        )

    def digest(self) -> str:
        """Return the SHA-256 (64 hex digits) over labels and observations; the order of the items does not count."""
        items = zip(self.inputs, self.labels, strict=True)
        digests = sorted(_item_digest(observed, labels) for observed, labels in items)
        return hashlib.sha256(b"".join(digests)).hexdigest()


def append_test(train: Labeled, test: Labeled) -> Labeled:
    """Join a training and a test file into one `Labeled` with that split."""
    weights = None
    if train.weights is not None or test.weights is not None:
        weights = [*(train.weights or [1.0] * train.n_items), *(test.weights or [1.0] * test.n_items)]
    inputs: Any = train.inputs
    labels = train.labels + test.labels
    return Labeled(inputs + test.inputs, labels, n_train=train.n_items, weights=weights)


def with_labels(labeled: Labeled, labels: Sequence[Sequence[Any]]) -> Labeled:
    """Return the same items with other labels, such as predicted ones; DataError where they do not fit the items."""
    listed = [[str(label) for label in item] for item in labels]
    if len(listed) != labeled.n_items:
        raise DataError(f"expected labels for {labeled.n_items} items, got {len(listed)}")
    for i, (new, old) in enumerate(zip(listed, labeled.labels, strict=True)):
        if len(new) != len(old):
            raise DataError(f"item {i}: expected {len(old)} labels, got {len(new)}")
    return replace(labeled, labels=listed)


def _item_digest(observed: Any, labels: list[str]) -> bytes:
    digest = hashlib.sha256(json.dumps(labels).encode())
    if isinstance(observed, np.ndarray):
        digest.update(repr(observed.shape).encode())
        digest.update(np.ascontiguousarray(observed, dtype=np.uint8).tobytes())
    else:
        digest.update(json.dumps(observed, sort_keys=True).encode())
    return digest.digest()
