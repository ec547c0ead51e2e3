"""The largest eigenvalue of |X|' diag(c) |X|, bounded from above in every round of a power iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.sparse import add_columns, feature_ceilings

MOST_ROUNDS = 100
CLOSE_ENOUGH = 0.01
SMALLEST = 1e-6  # of v, its largest entry 1: features that never meet the others keep a bound of their own


def collatz_wielandt(times: Callable[[Vector], Vector], n: int) -> float:
    """Return at most 1 % above the largest eigenvalue of a matrix A >= 0, (n, n), unless rounds run out.

    Power iteration gives a bound in every round (Collatz and Wielandt): where v > 0, no eigenvalue is above
    max_f (A v)_f / v_f.

    Parameters
    ----------
    times : returns A v
    """
    v, bound = np.ones(n), np.inf
    for _ in range(MOST_ROUNDS):
        product = times(v)
        bound = min(bound, float(np.max(product / v, initial=0.0)))
        if bound * float(v @ v) <= (1.0 + CLOSE_ENOUGH) * float(v @ product):
            break
        v = product / product.max() + SMALLEST
    return bound


def largest_eigenvalue(store: FeatureStore, c: Vector) -> float:
    """Return a bound on that of |X|' diag(c) |X|, which is that of X' diag(c) X or above, c >= 0 (N,)."""
    columns = (np.zeros(store.n_features, np.int64), np.arange(store.n_features))
    arrays = (store.indptr, store.indices, np.abs(store.values))

    def times(v: Vector) -> Vector:
        image, product = np.zeros((1, store.n_positions)), np.empty(store.n_features)
        add_columns(0, store.n_features, *columns, v, *arrays, image)
        feature_ceilings(0, store.n_features, *arrays, c * image[0], product)
        return product

    return collatz_wielandt(times, store.n_features)
