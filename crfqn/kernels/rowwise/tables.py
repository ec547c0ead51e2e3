"""Rows of the weights as lists of coordinates."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def list_weights(features, n_features, table):
    """Return the sorted coordinates state * n_features + feature of the weights that are not zero, and the weights.

    features : sorted int64 (rows,), those of the rows of `table`, float64 (rows, K)
    """
    n_rows, n_states = table.shape
    n_found, place = 0, 0
    for i in range(n_rows):
        for k in range(n_states):
            n_found += table[i, k] != 0.0
    coords, weights = np.empty(n_found, np.int64), np.empty(n_found)
    for k in range(n_states):
        for i in range(n_rows):
            if table[i, k] != 0.0:
                coords[place], weights[place] = k * n_features + features[i], table[i, k]
                place += 1
    return coords, weights
