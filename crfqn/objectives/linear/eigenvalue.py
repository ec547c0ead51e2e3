"""The largest eigenvalue of X' diag(c) X by power iteration, bounded from above in every round."""

from __future__ import annotations

import numpy as np

from crfqn.arrays import Vector
from crfqn.features import FeatureStore
from crfqn.kernels.columns import add_columns, feature_ceilings

MOST_ROUNDS = 100
CLOSE_ENOUGH = 0.01
SMALLEST = 1e-6  # of v, its largest entry 1: features that never meet the others keep a bound of their own


def largest_eigenvalue(store: FeatureStore, c: Vector) -> float:
    """At most 1 % above that of |X|' diag(c) |X|, which is that of X' diag(c) X or above, unless rounds run out.

    Power iteration on A = |X|' diag(c) |X| gives a bound in every round (Collatz and Wielandt): where A >= 0 and v > 0,
    no eigenvalue is above max_f (A v)_f / v_f.
    """
    columns = (np.zeros(store.n_features, np.int64), np.arange(store.n_features))
    arrays = (store.indptr, store.indices, np.abs(store.values))
    v, product, bound = np.ones(store.n_features), np.empty(store.n_features), np.inf
    for _ in range(MOST_ROUNDS):
        image = np.zeros((1, store.n_positions))
        add_columns(0, store.n_features, *columns, v, *arrays, image)
        feature_ceilings(0, store.n_features, *arrays, c * image[0], product)
        bound = min(bound, float(np.max(product / v, initial=0.0)))
        if bound * float(v @ v) <= (1.0 + CLOSE_ENOUGH) * float(v @ product):
            break
        v = product / product.max() + SMALLEST
    return bound
