"""Scores of new items under fitted weights: row by row for a few, by matrix products for dense data, else by column.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.estimators.blas import single_threaded_blas
from crfqn.estimators.features import is_plain_array
from crfqn.estimators.few_positions import few_scores
from crfqn.estimators.weights import entries
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.image import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import Pool

DENSE = 0.1  # of the weights of the features that have any: from there on a product with all of them is sooner done


def score_blocks(X: Any, coef: Any, intercept: Vector, n_block: int, pool: Pool) -> Iterator[Vector]:
    """Yield intercept + coef @ x of the items, in blocks of at most `n_block` items, (K, items of the block).

    No other columns are read than those of features that have a weight.

    X : checked matrix, CSR, CSC or array, (I, F); coef : CSR (K, F); intercept : (K,)
    """
    n_items = X.shape[0]
    if n_items <= n_block and (scores := few_scores(X, coef, intercept)) is not None:
        yield scores
        return
    if n_items > n_block and hasattr(X, "tocsr"):
        X = X.tocsr()
    kept = np.unique(coef.indices)
    by_products = is_plain_array(X) and coef.nnz >= DENSE * max(kept.size, 1) * coef.shape[0]
    columns = slice(None) if kept.size == coef.shape[1] else kept
    weights = entries(coef[:, kept], kept.size)
    for first in range(0, n_items, n_block):
        part = X[first : first + n_block] if n_items > n_block else X
        part = part if kept.size == coef.shape[1] else part[:, columns]
        offsets = np.arange(part.shape[0] + 1)
        scores = np.repeat(intercept[:, None], part.shape[0], axis=1)
        if by_products:
            nodes = split_coords(weights.coords, coef.shape[0], kept.size)
            with single_threaded_blas():
                DenseMap(part, offsets, pool=pool).image(nodes, weights.weights, scores)
        else:
            store = FeatureStore.from_matrix(part, offsets, allow_empty=True)
            add_image(store, *weights, scores, NO_EDGES, pool)
        yield scores
