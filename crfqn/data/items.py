"""Items of consecutive positions, told apart by where each begins: what lists of them have in common.

Shapes: I items, N positions; `offsets` (I + 1,) cut the positions into items.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.errors import InputError


class Items:
    """Base of lists of items that are stored by position: item i is offsets[i] ... offsets[i + 1] - 1."""

    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of positions of each item, shape (I,)."""
        return np.diff(self.offsets)

    @property
    def shape(self) -> tuple[int]:
        """Number of items as (I,): scikit-learn counts and indexes samples by it."""
        return (len(self),)

    def __len__(self) -> int:
        return self.offsets.size - 1


def check_offsets(offsets: ArrayLike, n_positions: int) -> NDArray[np.int64]:
    """Return `offsets` (I + 1,) as int64, checked to be integers from 0 to `n_positions` that never decrease."""
    found = np.asarray(offsets)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise InputError(
            "offsets must be a 1-D array of n_items + 1 integers, "
            f"got shape {found.shape} and dtype {found.dtype}"
        )
    result = found.astype(np.int64)
    if result[0] != 0:
        raise InputError(f"offsets must start at 0, but offsets[0] is {found[0]}")
    falls = np.flatnonzero(result[1:] < result[:-1])
    if falls.size:
        i = int(falls[0])
        raise InputError(
            f"offsets must not decrease, but item {i} goes from offsets[{i}] = {found[i]} "
            f"to offsets[{i + 1}] = {found[i + 1]}"
        )
    if result[-1] != n_positions:
        raise InputError(
            f"offsets must end at the number of positions, {n_positions}, but end at {found[-1]}"
        )
    return result


def check_not_empty(offsets: NDArray[np.int64]) -> None:
    """Raise InputError if there is no item, or an item without positions (the error names it)."""
    if offsets.size == 1:
        raise InputError("expected at least one item, got none")
    empty = np.flatnonzero(offsets[1:] == offsets[:-1])
    if empty.size:
        others = f" (and {empty.size - 1} more)" if empty.size > 1 else ""
        raise InputError(
            f"expected at least one position in every item, but item {empty[0]}{others} is empty"
        )


def locate(offsets: NDArray[np.int64], position: int) -> str:
    """Return in words where the position (a row of the matrix) lies: `item 3, position 7` (both from 0)."""
    item = int(np.searchsorted(offsets, position, side="right")) - 1
    return f"item {item}, position {position - int(offsets[item])}"


def positions_of(
    offsets: NDArray[np.int64], items: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of some items, and where each of these items begins among them, (items + 1,)."""
    lengths = np.diff(offsets)[items]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.repeat(offsets[items] - starts[:-1], lengths) + np.arange(starts[-1]), starts
