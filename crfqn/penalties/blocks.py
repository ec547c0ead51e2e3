"""Partitions of coordinates into blocks: the rows of a group penalty, whose weights are zero together or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Partition of n coordinates: block b has those in the places order[starts[b]] ... order[starts[b + 1] - 1]; order
    : a permutation (n,), starts : (n_blocks + 1,)."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @staticmethod
    def single(n: int) -> Partition:
        """Make a block of each of n coordinates."""
        return Partition(np.arange(n), np.arange(n + 1))

    @staticmethod
    def from_names(names: NDArray[np.int64]) -> Partition:
        """Make a block of all coordinates with the same name, (n,), in the order of the names."""
        order = np.argsort(names, kind="stable")
        is_new = np.diff(names[order], prepend=-1) != 0
        return Partition(order, np.append(np.flatnonzero(is_new), names.size))

    @property
    def n_blocks(self) -> int:
        return self.starts.size - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of coordinates of each block, (n_blocks,)."""
        return np.diff(self.starts)

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The place of the first coordinate of each block, (n_blocks,)."""
        return self.order[self.starts[:-1]]

    def total(self, values: NDArray) -> NDArray:
        """Return the sum of values (n,) over each block, (n_blocks,)."""
        return np.add.reduceat(values[self.order], self.starts[:-1]) if self.n_blocks else np.empty(0)

    def largest(self, values: NDArray) -> NDArray:
        """Return the largest of values (n,) in each block, (n_blocks,)."""
        return np.maximum.reduceat(values[self.order], self.starts[:-1]) if self.n_blocks else np.empty(0)

    def squares(self, values: NDArray) -> NDArray:
        """Return the sum of the squares of values (n,) over each block, (n_blocks,)."""
        return self.total(values * values)

    def restricted_to(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], Partition]:
        """Return the places of the chosen blocks' coordinates, and the partition of these alone."""
        sizes = self.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        places = self.order[np.repeat(self.starts[chosen], sizes) + within]
        return places, Partition(np.arange(places.size), starts)

    def spread(self, per_block: NDArray) -> NDArray:
        """Return each block's number, of (n_blocks,), at all of its coordinates, (n,)."""
        out = np.empty(self.order.size, per_block.dtype)
        out[self.order] = np.repeat(per_block, self.sizes)
        return out
