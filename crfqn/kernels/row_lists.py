"""Tables of rows as lists of coordinates."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def list_weights(features, n_features, table):
    """The coordinates state * n_features + feature, sorted, and the weights, that are not zero.

    features : sorted int64 (rows,), those of the rows of `table`, float64 (rows, K)
    """
    n_rows, n_states, n_kept = table.shape[0], table.shape[1], 0
    for i in range(n_rows):
        for k in range(n_states):
            n_kept += 1 if table[i, k] != 0.0 else 0
    coords, weights, place = np.empty(n_kept, np.int64), np.empty(n_kept), 0
    for k in range(n_states):
        for i in range(n_rows):
            if table[i, k] != 0.0:
                coords[place], weights[place] = k * n_features + features[i], table[i, k]
                place += 1
    return coords, weights
