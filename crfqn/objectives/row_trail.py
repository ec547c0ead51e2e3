"""The last points of row descent, as margins and rows, to extrapolate from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.row_trail import add_step_products, combine
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.union import union
from crfqn.objectives.row_blocks import RowBlocks
from crfqn.threads import STRETCH

Vector = NDArray[np.float64]
FEWEST_POSITIONS = 4000  # that step products are summed over
MOST_SKIPPED = 4  # positions for each of these


class RowTrail:
    """Up to `n_points` points; the room for their margins is taken once.

    Attributes
    ----------
    rows : of each point the features and their rows
    spare : room for the margins of a combined point
    """

    def __init__(self, first: RowBlocks, n_points: int) -> None:
        n_positions, width = first.margins.shape
        self.objective = first.objective
        # Without compilation: memory that is written when it is used first, and not cleared before.
        room = aligned_rows.py_func((n_points + 1) * n_positions, width)
        self.margins = room[:-n_positions].reshape(n_points, n_positions, width)
        self.spare = room[-n_positions:]
        self.rows: list[tuple[NDArray[np.int64], Vector]] = []
        self.restart(first)

    def restart(self, first: RowBlocks) -> None:
        """Forget all points but this one."""
        if len(self.rows) == 1 and self.rows[0] is first.copy_rows():
            return
        self.rows.clear()
        self.add(first)

    @property
    def room(self) -> Vector:
        """For the margins of the next point, which a sweep can write (`RowBlocks.sweep`)."""
        return self.margins[len(self.rows)]

    def add(self, blocks: RowBlocks, is_recorded: bool = False) -> None:
        """Another point; `is_recorded`: its margins are in the room."""
        if not is_recorded:
            self.room[:] = blocks.margins  # by one thread: to wake another takes as long
        self.rows.append(blocks.copy_rows())

    def step_products(self) -> Vector:
        """sum_i weight_i <u_a(i), u_b(i)>, (steps, steps), u the steps of the margins from each point to the next.

        Of many positions over a share of them, runs spread over all, which tells as much: to read all margins of all
        points takes a tenth of a sweep.
        """
        owner, n_points = self.objective, len(self.rows)
        every = max(1, min(MOST_SKIPPED, owner.n_positions // FEWEST_POSITIONS))
        parts = np.zeros((-(-owner.n_positions // STRETCH), n_points - 1, n_points - 1))

        def add(first: int, last: int) -> None:
            own = parts[first // STRETCH]
            add_step_products(first, last, every, self.margins[:n_points], owner.weights, own)

        owner.pool.each_stretch(owner.n_positions, add)
        lower = parts.sum(axis=0)
        return lower + np.tril(lower, -1).T

    def combined(self, shares: Vector) -> RowBlocks:
        """The point sum_k shares_k w_k of all points but the first, shares adding up to 1: O(N K) each.

        Its margins are in the trail's spare room: whoever keeps the point gives those of another for it (`swap`).
        """
        owner, points = self.objective, self.rows[1:]
        held = points[0][0]
        if any(features is not held for features, _ in points):
            held = union(*(features for features, _ in points))
        table = np.zeros((held.size, points[0][1].shape[1]))
        for share, (features, rows) in zip(shares, points, strict=True):
            if features.size == held.size:
                table += share * rows
            else:
                table[np.searchsorted(held, features)] += share * rows
        last_points, mixed = self.margins[1 : len(self.rows)], RowBlocks.of(owner, held, table, self.spare)
        mixed.fill_losses(lambda first, last: combine(first, last, last_points, shares, mixed.margins))
        return mixed

    def swap(self, old: RowBlocks) -> None:
        """Take the room of a point's margins, which nobody needs any more, for the one that was given away."""
        self.spare = old.margins
