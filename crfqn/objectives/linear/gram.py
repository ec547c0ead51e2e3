"""Gram matrices, sum_t c_t x_t x_t', summed tile of rows by tile; threads share the blocks of the result.

Only blocks on and above the diagonal are computed (syrk and gemm, in the precision of the rows; the sums over tiles
are float64), for N rows and F features. The bound of their largest eigenvalue does not need the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.threads import Pool

GRAM_BLOCK_FEATURES = 512  # features of a block of the matrix, a thread's task: wide enough for fast products
ROW_TILE_ENTRIES = 1 << 22  # entries of the rows that are multiplied at a time: 32 MB
MIN_TILE_ROWS = 256  # rows of a tile, for any number of features: each tile adds a matrix to the sums
MAX_GRAM_FEATURES = 1 << 15  # features of a matrix in memory: 8 GiB
MAX_POWER_ROUNDS = 100  # guard: the bound holds after any round
EIGENVALUE_TOLERANCE = 0.01  # relative; a step size needs no more
# Guard, relative to the largest entry of v: features that never occur with the others keep positive entries.
MIN_VECTOR_ENTRY = 1e-6


class GramSum:
    """A Gram matrix while its rows are added, in their order for any number of threads; InputError for more than
    `MAX_GRAM_FEATURES` features."""

    def __init__(self, n_features: int, pool: Pool) -> None:
        check_width(n_features)
        self.n_features, self.pool = n_features, pool
        cuts = [*range(0, n_features, GRAM_BLOCK_FEATURES), n_features]
        self.blocks = [slice(first, last) for first, last in pairwise(cuts)]
        self.pairs = [*combinations_with_replacement(range(len(self.blocks)), 2)]
        widths = np.diff(cuts)
        self.sums = [np.zeros((widths[i], widths[j])) for i, j in self.pairs]
        self.n_rows = max(MIN_TILE_ROWS, ROW_TILE_ENTRIES // max(n_features, 1))  # to add at a time

    def add(self, rows: NDArray[np.floating]) -> None:
        """Add sum_t x_t x_t' of some rows, (n, F), float64 or float32."""
        parts = [rows[:, block] for block in self.blocks]

        def multiply(number: int) -> None:
            i, j = self.pairs[number]
            self.sums[number] += parts[i].T @ parts[j]

        self.pool.each(len(self.pairs), multiply, rows.size * float(self.n_features))

    def matrix(self) -> Vector:
        """Return the whole matrix, float64 (F, F), exactly symmetric."""
        out = np.empty((self.n_features, self.n_features))
        for (i, j), total in zip(self.pairs, self.sums, strict=True):
            out[self.blocks[j], self.blocks[i]] = total.T
            out[self.blocks[i], self.blocks[j]] = total
        return out


def check_width(n_features: int) -> None:
    """Raise InputError for more features than a square matrix of them can have."""
    if n_features > MAX_GRAM_FEATURES:
        raise InputError(
            f"expected at most {MAX_GRAM_FEATURES:,} features for a matrix of features x features, got {n_features:,} "
            f"({n_features**2 * 8 / 2**30:,.0f} GiB): train by stages of fewer features, or by another solver"
        )


def collatz_wielandt(times: Callable[[Vector], Vector], n: int) -> float:
    """Return an upper bound on the largest eigenvalue of a matrix A >= 0, (n, n), given by v -> A v; tight within 1 %,
    unless the rounds run out.

    Power iteration gives a bound in every round (Collatz and Wielandt): if v > 0, no eigenvalue exceeds max_f (A v)_f /
    v_f.
    """
    v, bound = np.ones(n), np.inf
    for _ in range(MAX_POWER_ROUNDS):
        product = times(v)
        bound = min(bound, float(np.max(product / v, initial=0.0)))
        if bound * float(v @ v) <= (1.0 + EIGENVALUE_TOLERANCE) * float(v @ product):
            break
        v = product / product.max() + MIN_VECTOR_ENTRY
    return bound
