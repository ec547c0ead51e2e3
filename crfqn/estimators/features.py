"""Maps of the features that estimators are given: dense arrays as they are, all else as index arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from crfqn.arrays import Vector
from crfqn.blas import single_threaded_blas
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features
from crfqn.data.matrices import is_plain_array
from crfqn.objectives.linear.dense_map import DenseMap, Joined
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.threads import Pool

# Of an array's entries, those that are not zero: index arrays take 12 bytes for each of these, the array is there.
MOSTLY = 0.5


def item_features(X: Any, has_constant: bool, pool: Pool, is_sparse: bool = False) -> Any:
    """Return the map of checked items, a row each, with a last feature that is always 1 if asked for. An array that is
    mostly not zero is kept without a copy (small integers become float32), unless it is taken as `is_sparse`."""
    if isinstance(X, Features):
        return beside_dense(X, item_features(X.sparse, has_constant, pool, is_sparse=True))
    offsets = np.arange(X.shape[0] + 1)
    if not is_sparse and is_plain_array(X) and np.count_nonzero(X) >= MOSTLY * max(X.size, 1):
        return DenseMap.of(X, offsets, has_constant, pool)
    store = FeatureStore.from_matrix(X, offsets)
    return SparseMap(store.with_constant() if has_constant else store, pool)


def beside_dense(X: Features, sparse: Any) -> Joined:
    """Return the map of a dense block beside that of the sparse one."""
    return Joined([DenseMap.of(X.dense, X.offsets, pool=sparse.pool), sparse])


def centred(features: Any, weights: Vector | None) -> Any:
    """Return the map with its features centred by the items' weights, for a training whose intercepts are free."""
    with single_threaded_blas():  # sums do not depend on threads
        return features.centred_at(features.means(weights))
