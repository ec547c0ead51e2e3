"""Integer codes of given and predicted label sequences, for all that is counted on them.

Shapes: I items, N positions, K distinct labels.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.wording import describe


class LabelCodes(NamedTuple):
    """Given and predicted labels as numbers.

    Attributes
    ----------
    true, predicted : int32 (N,), places in `labels`
    starts : int64 (I,), where items with at least one position begin
    labels : list of the K distinct labels, in the order of their coming
    """

    true: NDArray[np.int32]
    predicted: NDArray[np.int32]
    starts: NDArray[np.int64]
    labels: list[Any]


class _Numbers(dict):
    """Dict that gives a new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def encode_pair(y_true: Any, y_pred: Any) -> LabelCodes:
    """Return the labels of two lists of I label sequences as numbers; a flat list of N labels is one item.

    Raises
    ------
    InputError (a ValueError)
        No positions, other numbers of items or of labels in an item (which is named), or no label sequences.
    """
    true, true_lengths = _by_item("y_true", y_true)
    predicted, lengths = _by_item("y_pred", y_pred)
    if true_lengths != lengths:
        _raise_lengths(true_lengths, lengths)
    n_positions, numbers = sum(lengths), _Numbers()
    if not n_positions:
        raise InputError("y_true: expected at least one label to score, got none")
    true_codes, codes = (
        np.fromiter(map(numbers.__getitem__, chain.from_iterable(items)), np.int32, n_positions)
        for items in (true, predicted)
    )
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = ends[np.asarray(lengths) > 0] - np.array([n for n in lengths if n], np.int64)
    return LabelCodes(true_codes, codes, starts, list(numbers))


def _by_item(name: str, y: Any) -> tuple[list[Any], list[int]]:
    """Return the items, as lists of labels that can be keys, and how many labels each has."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__iter__"):
        raise InputError(f"{name}: expected a list of label sequences, got {describe(y)}")
    items = list(y)
    if items and all(isinstance(item, str) for item in items):
        return [items], [len(items)]
    for i, item in enumerate(items):
        if isinstance(item, np.ndarray):
            items[i] = item.tolist()
        elif not isinstance(item, (list, tuple)):
            raise InputError(f"{name}, item {i}: expected a list of labels, got {describe(item)}")
    return items, list(map(len, items))


def _raise_lengths(expected: list[int], got: list[int]) -> None:
    if len(expected) != len(got):
        raise InputError(
            f"expected as many predictions as true sequences, got {len(got)} and {len(expected)}"
        )
    i = next(i for i, (one, other) in enumerate(zip(expected, got, strict=True)) if one != other)
    raise InputError(
        f"item {i}: expected {expected[i]} predicted labels, one for each true one, got {got[i]}"
    )
