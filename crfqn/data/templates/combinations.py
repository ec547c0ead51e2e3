"""Columns of combinations of values: a tuple of small integers becomes the column of a feature, exactly or by hashing.

The values of a pattern's macros at a position are pairs, triples, ... of numbers; written as digits of a number in a
mixed base they are one integer, whose place in a table is the feature. Where the digits do not fit into 62 bits,
what came so far is numbered anew first. No text takes part.

Hashed features need no table and no fit, and have no names. A text is hashed once (BLAKE2b), a combination by mixing
the hashes of its values, so that a feature has the same column in every batch, process and machine. Features that meet
in a column are one feature.

Shapes: P positions, k macros, M combinations.

References
----------
Weinberger, Dasgupta, Langford, Smola, Attenberg: Feature hashing for large scale multitask learning. ICML 2009.
Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014 (the mixing of 64 bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.batch import NONE
from crfqn.data.templates.patterns import Pattern

LARGEST = 2**62
DENSE = 1 << 20  # a table of all keys is kept where there are no more of them: 4 MB
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MISSING = np.uint64(0)  # of a text without a value; no hash is 0


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
    """Table from combinations of k numbers to columns; number i is in 0 ... sizes[i] - 1.

    Of a stage (first, stop, Numbering), the digits first ... stop - 1, behind what the stage before found, make the
    keys.
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


def hashed_columns(
    pattern: Pattern, values: Sequence[NDArray[np.uint64]], n_positions: int, n_columns: int
) -> NDArray[np.int32]:
    """Return the column at each of P positions, where macro i has the hash values[i], (P,), or MISSING."""
    codes = np.full(n_positions, text_hash("\0".join(pattern.literals)), np.uint64)
    is_there = np.ones(n_positions, bool)
    for hashes in values:
        is_there &= hashes != MISSING
        codes = _mixed(codes + hashes)
    columns = (codes % np.uint64(n_columns)).astype(np.int32)
    columns[~is_there] = NONE
    return columns


def text_hash(text: str | None) -> np.uint64:
    """Return the hash of a text, MISSING for None."""
    if text is None:
        return MISSING
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


def _mixed(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit numbers with their bits mixed (SplitMix64's finaliser)."""
    codes = (codes ^ (codes >> np.uint64(30))) * FIRST_FACTOR
    codes = (codes ^ (codes >> np.uint64(27))) * SECOND_FACTOR
    return codes ^ (codes >> np.uint64(31))
