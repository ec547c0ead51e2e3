"""Scores of sparse weights: the image of a direction, for objectives and for prediction alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.kernels.columns import add_columns
from crfqn.objectives.by_feature import Rows
from crfqn.objectives.coordinates import split_coords
from crfqn.threads import Pool


def add_image(
    store: FeatureStore,
    coords: NDArray[np.int64],
    weights: NDArray[np.float64],
    scores: NDArray[np.float64],
    edges: NDArray[np.float64],
    pool: Pool,
) -> None:
    """scores += X w and edges += w, in place: O(entries of the columns that have a weight).

    Threads share out the states, or stretches of positions where whole rows have weights (`by_feature.py`); a score is
    summed in the order of the features, so the result does not depend on their number. scores: float64 (K, N); coords
    sorted.
    """
    n_states = scores.shape[0]
    split = split_coords(coords, n_states, store.n_features)
    edges[split.edges] += weights[split.n_nodes :]
    rows = Rows.of(store, split, n_states)
    if rows is not None:
        rows.add_image(weights[: split.n_nodes], scores, pool)
        return
    bounds = np.searchsorted(split.states, np.arange(n_states + 1))
    present = np.flatnonzero(bounds[1:] > bounds[:-1])

    def run(part: int) -> None:
        state = present[part]
        add_columns(
            bounds[state], bounds[state + 1], split.states, split.features, weights,
            store.indptr, store.indices, store.values, scores,
        )  # fmt: skip

    pool.each(present.size, run)
