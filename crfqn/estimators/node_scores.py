"""Scores of new items under fitted weights: row by row for a few, by matrix products for dense data, else by column.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.estimators.blas import single_threaded_blas
from crfqn.estimators.dense_weights import places_of, table_of
from crfqn.estimators.features import is_plain_array
from crfqn.estimators.few_positions import few_scores
from crfqn.estimators.weights import entries
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import FEWEST_OPERATIONS, Pool

FEW = 16  # items: making a table of the weights takes about as long as the products of that many
POSITIONS = 4096  # items of a product: a thread's share, whatever their number


def score_blocks(X: Any, coef: Any, intercept: Vector, n_block: int, pool: Pool) -> Iterator[Vector]:
    """Yield intercept + coef @ x of the items, in blocks of at most `n_block` items, (K, items of the block).

    No other columns are read than those of features that have a weight.

    X : checked matrix, CSR, CSC or array, (I, F); coef : CSR (K, F); intercept : (K,)
    """
    n_items, places = X.shape[0], places_of(coef)
    if is_plain_array(X) and places.is_dense and (places.is_table or n_items >= FEW):
        table = table_of(coef, places)
        for first in range(0, n_items, n_block):
            yield products(X[first : first + n_block], table, places.columns, intercept, pool)
        return
    if n_items <= n_block and (scores := few_scores(X, coef, intercept)) is not None:
        yield scores
        return
    if n_items > n_block and hasattr(X, "tocsr"):
        X = X.tocsr()
    kept = places.kept
    weights = entries(coef[:, kept], kept.size)
    for first in range(0, n_items, n_block):
        part = X[first : first + n_block] if n_items > n_block else X
        part = part if kept.size == coef.shape[1] else part[:, kept]
        scores = np.repeat(intercept[:, None], part.shape[0], axis=1)
        store = FeatureStore.from_matrix(part, np.arange(part.shape[0] + 1), allow_empty=True)
        add_image(store, *weights, scores, NO_EDGES, pool)
        yield scores


def products(rows: Vector, table: Vector, columns: Any, intercept: Vector, pool: Pool) -> Vector:
    """Return intercept + table @ x of an array's rows, (K, rows); table: the weights of some `columns`."""
    n_items = rows.shape[0]
    scores = np.empty((table.shape[0], n_items))

    def run(part: int) -> None:
        stretch = slice(part * POSITIONS, min((part + 1) * POSITIONS, n_items))
        tile = rows[stretch] if isinstance(columns, slice) else rows[stretch, columns]
        np.matmul(table, np.asarray(tile, np.float64).T, out=scores[:, stretch])
        scores[:, stretch] += intercept[:, None]

    n_parts = -(-n_items // POSITIONS)
    n_operations = table.size * float(n_items)
    with single_threaded_blas() if n_operations >= FEWEST_OPERATIONS else nullcontext():
        pool.each(n_parts, run, n_operations)
    return scores
