"""Anderson acceleration of row descent (Bertrand and Massias 2021): the points of some sweeps, and where they lead to.

Margins are affine in the weights, so those of a combination whose shares add up to 1 are combined by the same shares.
"""

from __future__ import annotations

import numpy as np

from crfqn.arrays import Vector
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.rowwise.anderson import add_step_products, combine
from crfqn.objectives.protocols import RowBlocks
from crfqn.threads import STRETCH

REGULARISATION = 1e-10  # of the Gram matrix of the steps, a share of its trace


class AndersonHistory:
    """Up to `n_points` points with the same stored rows.

    Attributes
    ----------
    margins : float64 (n_points, N, width); row_weights : float64 (stored rows, K), of each point
    """

    def __init__(self, first: RowBlocks, n_points: int) -> None:
        n_positions, width = first.state.margins.shape
        # Without compilation: memory that is written when it is used first, and not cleared before.
        margins = aligned_rows.py_func(n_points * n_positions, width)
        self.margins = margins.reshape(n_points, n_positions, width)
        self.row_weights: list[Vector] = []
        self.restart(first)

    def restart(self, first: RowBlocks) -> None:
        """Forget all points but this one."""
        self.row_weights.clear()
        self.next_margins[:] = first.state.margins
        self.add(first)

    @property
    def next_margins(self) -> Vector:
        """Return the rows that take the margins of the next point, (N, width)."""
        return self.margins[len(self.row_weights)]

    def add(self, blocks: RowBlocks) -> None:
        """Add the point whose margins are in `next_margins`."""
        self.row_weights.append(blocks.row_weights.copy())

    def step_products(self, blocks: RowBlocks) -> Vector:
        """Return products of the margins' steps between points, sum_i weight_i <u_a(i), u_b(i)>, (steps, steps)."""
        owner, n_points = blocks.objective, len(self.row_weights)
        parts = np.zeros((-(-owner.n_positions // STRETCH), n_points - 1, n_points - 1))

        def add(first: int, last: int) -> None:
            add_step_products(first, last, self.margins[:n_points], owner.weights, parts[first // STRETCH])

        owner.pool.each_stretch(owner.n_positions, add)
        lower = parts.sum(axis=0)
        return lower + np.tril(lower, -1).T

    def combined(self, blocks: RowBlocks, shares: Vector) -> RowBlocks:
        """Return the point sum_k shares_k w_k of all points but the first, shares adding up to 1: O(N K) each."""
        margins = aligned_rows.py_func(*blocks.state.margins.shape)
        points = self.margins[1 : len(self.row_weights)]
        owner = blocks.objective
        owner.pool.each_stretch(
            owner.n_positions, lambda first, last: combine(first, last, points, shares, margins)
        )
        weights = sum(share * own for share, own in zip(shares, self.row_weights[1:], strict=True))
        return blocks.with_weights(np.asarray(weights), margins)

    def extrapolated(self, blocks: RowBlocks) -> RowBlocks | None:
        """Return the point that all points but the first lead to: their combined step is the smallest. None at rest.

        Steps U are those of the margins, which is where the loss sees them; the shares are those of (U U')^-1 1.
        """
        products = self.step_products(blocks)
        trace = float(np.trace(products))
        if trace == 0.0:
            return None
        products[np.diag_indices_from(products)] += REGULARISATION * trace
        shares = np.linalg.solve(products, np.ones(len(products)))
        return self.combined(blocks, shares / shares.sum())
