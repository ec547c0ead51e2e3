"""Integer codes of given and predicted label sequences, for all that is counted on them.

Shapes: I items, N positions, K distinct labels.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.wording import describe

BYTES = 256  # how many numbers a byte has


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
    if not np.array_equal(true_lengths, lengths):
        _raise_lengths(true_lengths, lengths)
    ends, numbers = np.cumsum(lengths), _Numbers()
    if not lengths.any():
        raise InputError("y_true: expected at least one label to score, got none")
    true_codes, codes = (_codes(items, numbers, int(ends[-1])) for items in (true, predicted))
    return LabelCodes(true_codes, codes, (ends - lengths)[lengths > 0], list(numbers))


def _codes(items: list[Any], numbers: _Numbers, n_positions: int) -> NDArray[np.int32]:
    """Return the numbers of all labels; as bytes first, which are made faster than any array."""
    if len(numbers) <= BYTES:
        with suppress(ValueError):  # a number that is no byte
            found = bytes(map(numbers.__getitem__, chain.from_iterable(items)))
            return np.frombuffer(found, np.uint8).astype(np.int32)
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(items)), np.int32, n_positions)


def _by_item(name: str, y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the items, as lists of labels that can be keys, and how many labels each has."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__iter__"):
        raise InputError(f"{name}: expected a list of label sequences, got {describe(y)}")
    items = list(y)
    kinds = set(map(type, items))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        items = [items]
    elif not kinds <= {list, tuple}:
        items = [_as_list(name, i, item) for i, item in enumerate(items)]
    return items, np.fromiter(map(len, items), np.int64, len(items))


def _as_list(name: str, i: int, item: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(item, np.ndarray):
        return item.tolist()
    if not isinstance(item, (list, tuple)):
        raise InputError(f"{name}, item {i}: expected a list of labels, got {describe(item)}")
    return item


def _raise_lengths(expected: NDArray[np.int64], got: NDArray[np.int64]) -> None:
    if len(expected) != len(got):
        raise InputError(
            f"expected as many predictions as true sequences, got {len(got)} and {len(expected)}"
        )
    i = int((expected != got).argmax())
    raise InputError(
        f"item {i}: expected {expected[i]} predicted labels, one for each true one, got {got[i]}"
    )
