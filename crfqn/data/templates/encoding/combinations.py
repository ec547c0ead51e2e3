"""Numbers of combinations of values: a tuple of small integers becomes the column of a feature, exactly.

The values of a pattern's macros at a position are pairs, triples, ... of numbers; written as digits of a number in a
mixed base they are one integer, whose place in a table is the feature. Where the digits do not fit into 62 bits,
what came so far is numbered anew first. No text takes part.

Shapes: P positions, k macros, M combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1
LARGEST = 2**62
DENSE = 1 << 20  # a table of all keys is kept where there are no more of them: 4 MB


class Numbering(NamedTuple):
    """Table from keys to numbers: sorted keys with their numbers, or all numbers by key (`keys` is empty then)."""

    keys: NDArray[np.int64]
    numbers: NDArray[np.int32]

    @classmethod
    def build(cls, keys: NDArray[np.int64], numbers: NDArray[np.int32], size: int) -> Numbering:
        """Return the table of distinct keys 0 ... size - 1."""
        if size <= DENSE:
            table = np.full(size, NONE, np.int32)
            table[keys] = numbers
            return cls(np.empty(0, np.int64), table)
        if not keys.size:  # a key that does not occur, since no keys at all would stand for a table of all
            return cls(np.array([LARGEST]), np.array([NONE], np.int32))
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys)
            keys, numbers = keys[order], numbers[order]
        return cls(keys, numbers)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of keys, NONE for those without one; a key that is NONE has none."""
        if not self.keys.size:
            found = self.numbers[keys]
        else:
            places = np.searchsorted(self.keys, keys)
            places[places == self.keys.size] = 0
            found = self.numbers[places]
            found[self.keys[places] != keys] = NONE
        found[keys < 0] = NONE
        return found


@dataclass(frozen=True)
class Combinations:
    """Table from combinations of numbers to columns.

    Attributes
    ----------
    sizes : tuple of k int
        Number i of a combination is in 0 ... sizes[i] - 1.
    stages : tuple of (first, stop, Numbering)
        Digits first ... stop - 1, behind what the stage before found, make the keys of a stage.
    """

    sizes: tuple[int, ...]
    stages: tuple[tuple[int, int, Numbering], ...]

    @classmethod
    def build(
        cls, digits: NDArray[np.int64], columns: NDArray[np.int32], sizes: Sequence[int]
    ) -> Combinations:
        """Return the table of distinct combinations, `digits` (M, k), and their columns (M,)."""
        stages: list[tuple[int, int, Numbering]] = []
        codes, size, first = np.zeros(len(columns), np.int64), 1, 0
        for i, base in enumerate([*sizes, LARGEST]):
            if size * max(base, 1) >= LARGEST:
                is_last = i == len(sizes)
                keys, numbers = codes, columns
                if not is_last:
                    keys, inverse = np.unique(codes, return_inverse=True)
                    numbers = np.arange(keys.size, dtype=np.int32)
                    codes = inverse.astype(np.int64)
                stages.append((first, i, Numbering.build(keys, numbers, size)))
                size, first = max(int(keys.size), 1), i
            if i < len(sizes):
                codes = codes * base + digits[:, i]
                size *= max(base, 1)
        return cls(tuple(sizes), tuple(stages))

    def find(self, values: Sequence[NDArray[np.int32]], n_positions: int) -> NDArray[np.int32]:
        """Return the column at each of P positions, where macro i has the value values[i], (P,), or NONE."""
        codes = np.zeros(n_positions, np.int64)
        for first, stop, numbering in self.stages:
            is_none = codes < 0
            for i in range(first, stop):
                codes *= self.sizes[i]
                codes += values[i]
                is_none |= values[i] < 0
            codes[is_none] = NONE
            codes = numbering.find(codes).astype(np.int64)
        return codes.astype(np.int32)


def distinct(
    values: Sequence[NDArray[np.int32]], sizes: Sequence[int], n_positions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct combinations (M, k) that are complete, sorted, and at how many positions each stands (M,)."""
    complete = np.ones(n_positions, bool)
    for column in values:
        complete &= column >= 0
    positions = np.flatnonzero(complete)
    codes, size = np.zeros(positions.size, np.int64), 1
    for column, base in zip(values, sizes, strict=True):
        if size * max(base, 1) >= LARGEST:
            found, codes = np.unique(codes, return_inverse=True)
            size = max(found.size, 1)
        codes = codes * base + column[positions]
        size *= max(base, 1)
    if size <= max(DENSE, positions.size):
        counts = np.bincount(codes, minlength=size)
        found = np.flatnonzero(counts)
        example = np.empty(size, np.int64)
        example[codes] = positions
        examples, counts = example[found], counts[found]
    else:
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        examples = positions[first]
    digits = np.zeros((examples.size, len(values)), np.int64)
    for i, column in enumerate(values):
        digits[:, i] = column[examples]
    return digits, counts
