"""Labelled sequences, the result of their readers: items of observations with a label at each position.

An item is a word, a date, a sentence. Its observations are an image a position (a `(T, P)` uint8 array of
grey values) or a dict of attributes or columns a position. Two files that hold the same items in any order have the
same `digest`, which is how a copy of a dataset is recognised whatever its file format.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Labeled:
    """Items with their labels.

    Parameters
    ----------
    inputs : list
        One entry an item: a uint8 array of shape (T, P), or a list of T dicts: `attribute -> value`, or
        `column -> text`.
    labels : list of list of str
        One list of T labels an item; an empty text stands for "no label known".
    n_train : int or None
        Where the data brings its own split: the first `n_train` items are for training.
    """

    inputs: list[Any]
    labels: list[list[str]]
    n_train: int | None = None

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

    def digest(self) -> str:
        """Return the SHA-256 (64 hex digits) over labels and observations; the order of the items does not count."""
        items = zip(self.inputs, self.labels, strict=True)
        digests = sorted(_item_digest(observed, labels) for observed, labels in items)
        return hashlib.sha256(b"".join(digests)).hexdigest()


def append_test(train: Labeled, test: Labeled) -> Labeled:
    """Join a training and a test file into one `Labeled` with that split."""
    return Labeled(train.inputs + test.inputs, train.labels + test.labels, n_train=train.n_items)


def _item_digest(observed: Any, labels: list[str]) -> bytes:
    digest = hashlib.sha256(json.dumps(labels).encode())
    if isinstance(observed, np.ndarray):
        digest.update(repr(observed.shape).encode())
        digest.update(np.ascontiguousarray(observed, dtype=np.uint8).tobytes())
    else:
        digest.update(json.dumps(observed, sort_keys=True).encode())
    return digest.digest()
