"""Partitions of coordinates into blocks: the rows of a group penalty, whose weights are zero together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.penalties.penalty import Layout


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
    def of_names(names: NDArray[np.int64]) -> Partition:
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

    def holders(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each block has any of the coordinates in some places, (n_blocks,)."""
        is_there = np.zeros(self.order.size, bool)
        is_there[places] = True
        return self.largest(is_there).astype(bool)

    def only(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], Partition]:
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


def blocks_by_column(groups: object, names: Sequence[str] | None, n_features: int) -> NDArray[np.int64]:
    """Number the blocks of F = `n_features` columns, int64 (F,), each so many in order, or by a label a column;
    InputError for other `groups`."""
    if isinstance(groups, Integral) and not isinstance(groups, bool) and int(groups) >= 1:
        return np.arange(n_features) // int(groups)
    labels = np.asarray(groups)
    if labels.shape != (n_features,) or labels.dtype.kind not in "biuUS":
        got = f"an array of shape {labels.shape} and dtype {labels.dtype}" if labels.ndim else repr(groups)
        raise InputError(
            f"feature_groups: expected None, a block size >= 1 or {n_features} labels, one a feature, got {got}"
        )
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)


def with_constant(blocks: NDArray[np.int64], space: Any, layout: Layout) -> NDArray[np.int64]:
    """Return the blocks of a training's columns, in which a constant is a block of its own."""
    constant = np.full(layout.n_features - blocks.size, blocks.max(initial=-1) + 1)
    return np.concatenate([blocks, constant]).astype(np.int64)
