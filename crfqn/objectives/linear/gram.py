"""Gram matrices, sum_t c_t x_t x_t', summed up tile of rows by tile, blocks of the result shared out among threads.

Only blocks on and above the diagonal are computed (syrk and gemm, in the precision of the rows; the sums over tiles
are float64), for N rows and F features. Their largest eigenvalue is bounded without them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.threads import Pool

BLOCK = 512  # features of a block of the matrix, a thread's share: wide enough for products to be fast
TILE_NUMBERS = 1 << 22  # of the rows that are multiplied at a time: 32 MB
FEWEST_ROWS = 256  # of a tile, however many features: each adds a matrix to another
MOST_FEATURES = 1 << 15  # 8 GiB
MOST_ROUNDS = 100
CLOSE_ENOUGH = 0.01
SMALLEST = 1e-6  # of v, its largest entry 1: features that never meet the others keep a bound of their own


class GramSum:
    """A Gram matrix while it is summed up; the order of the rows is the order of the sums, whatever the threads.
    InputError for more features than such a matrix is sensible for."""

    def __init__(self, n_features: int, pool: Pool) -> None:
        check_width(n_features)
        self.n_features, self.pool = n_features, pool
        cuts = [*range(0, n_features, BLOCK), n_features]
        self.blocks = [slice(first, last) for first, last in pairwise(cuts)]
        self.pairs = [*combinations_with_replacement(range(len(self.blocks)), 2)]
        widths = np.diff(cuts)
        self.sums = [np.zeros((widths[i], widths[j])) for i, j in self.pairs]
        self.n_rows = max(FEWEST_ROWS, TILE_NUMBERS // max(n_features, 1))  # to add at a time

    def add(self, rows: NDArray[np.floating]) -> None:
        """Add sum_t x_t x_t' of some rows, (n, F), float64 or float32."""
        parts = [rows[:, block] for block in self.blocks]

        def multiply(number: int) -> None:
            i, j = self.pairs[number]
            self.sums[number] += parts[i].T @ parts[j]

        self.pool.each(len(self.pairs), multiply, rows.size * float(self.n_features))

    def matrix(self) -> Vector:
        """Return the whole matrix, float64 (F, F), symmetric to the bit."""
        out = np.empty((self.n_features, self.n_features))
        for (i, j), total in zip(self.pairs, self.sums, strict=True):
            out[self.blocks[j], self.blocks[i]] = total.T
            out[self.blocks[i], self.blocks[j]] = total
        return out


def check_width(n_features: int) -> None:
    """Refuse more features than a square matrix of them is sensible for."""
    if n_features > MOST_FEATURES:
        raise InputError(
            f"expected at most {MOST_FEATURES:,} features for a matrix of features x features, got {n_features:,} "
            f"({n_features**2 * 8 / 2**30:,.0f} GiB): train by stages of fewer features, or by another solver"
        )


def collatz_wielandt(times: Callable[[Vector], Vector], n: int) -> float:
    """Return at most 1 % above the largest eigenvalue of a matrix A >= 0, (n, n), given by v -> A v, unless rounds run
    out.

    Power iteration gives a bound in every round (Collatz and Wielandt): where v > 0, no eigenvalue is above max_f
    (A v)_f / v_f.
    """
    v, bound = np.ones(n), np.inf
    for _ in range(MOST_ROUNDS):
        product = times(v)
        bound = min(bound, float(np.max(product / v, initial=0.0)))
        if bound * float(v @ v) <= (1.0 + CLOSE_ENOUGH) * float(v @ product):
            break
        v = product / product.max() + SMALLEST
    return bound
