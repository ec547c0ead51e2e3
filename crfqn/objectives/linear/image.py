"""Scores of sparse weights: the image of a direction, for objectives and for prediction alike."""

from __future__ import annotations

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.sparse import add_columns
from crfqn.objectives.linear.coordinates import Split, split_coords
from crfqn.objectives.linear.dense_rows import DenseRows
from crfqn.threads import Pool


def add_image(
    store: FeatureStore, coords: Coords, weights: Vector, scores: Vector, edges: Vector, pool: Pool
) -> None:
    """Add X w to the scores (K, N) and w to the edges (E,), in place; coords sorted. For prediction."""
    nodes = split_coords(coords, scores.shape[0], store.n_features)
    edges[nodes.edges] += weights[nodes.n_nodes :]
    add_node_image(store, nodes, weights[: nodes.n_nodes], scores, pool)


def add_node_image(store: FeatureStore, nodes: Split, weights: Vector, scores: Vector, pool: Pool) -> None:
    """Add X w to the scores, float64 (K, N), in place: O(entries of the columns that have a weight).

    Threads share out the states, or stretches of positions where whole rows have weights (`dense_rows.py`); a score
    is summed in the order of the features, so the result does not depend on their number.
    """
    rows = DenseRows.of(store, nodes, scores.shape[0])
    if rows is not None:
        rows.add_image(weights, scores, pool)
        return
    arrays = nodes.states, nodes.features, weights, store.indptr, store.indices, store.values, scores
    if pool.n_threads == 1:
        add_columns(0, nodes.n_nodes, *arrays)
        return
    bounds = np.searchsorted(nodes.states, np.arange(scores.shape[0] + 1))
    present = np.flatnonzero(bounds[1:] > bounds[:-1])
    pool.each(
        present.size, lambda part: add_columns(bounds[present[part]], bounds[present[part] + 1], *arrays)
    )
