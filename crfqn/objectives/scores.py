"""Scores of sparse weights: the image of a direction, for objectives and for prediction alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.kernels.columns import add_columns
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

    Threads share out the states; a state's row is summed in the order of the coordinates, so the result does
    not depend on their number. scores: float64 (K, N); coords sorted.
    """
    n_states = scores.shape[0]
    split = split_coords(coords, n_states, store.n_features)
    bounds = np.searchsorted(split.states, np.arange(n_states + 1))
    present = np.flatnonzero(bounds[1:] > bounds[:-1])

    def run(part: int) -> None:
        state = present[part]
        add_columns(
            bounds[state], bounds[state + 1], split.states, split.features, weights,
            store.indptr, store.indices, store.values, scores,
        )  # fmt: skip

    pool.each(present.size, run)
    edges[split.edges] += weights[split.n_nodes :]
