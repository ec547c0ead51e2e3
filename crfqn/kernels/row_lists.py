"""Tables of rows as lists of coordinates."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def list_weights(features, n_features, table):
    """The coordinates state * n_features + feature, sorted, and the weights, that are not zero.

    features : sorted int64 (rows,), those of the rows of `table`, float64 (rows, K)
    """
    n_rows, n_states = table.shape
    place, n_kept = np.zeros(n_states + 1, np.int64), np.zeros(n_rows, np.int64)
    for i in range(n_rows):
        row = table[i]
        for k in range(n_states):
            n_kept[i] += 1 if row[k] != 0.0 else 0
        for k in range(n_states if n_kept[i] > 0 else 0):
            place[k + 1] += 1 if row[k] != 0.0 else 0
    for k in range(n_states):
        place[k + 1] += place[k]
    coords, weights = np.empty(place[-1], np.int64), np.empty(place[-1])
    for i in range(n_rows):
        row, is_whole = table[i], n_kept[i] == n_states  # nearly always, under a group penalty, or empty
        for k in range(n_states if n_kept[i] > 0 else 0):
            if is_whole or row[k] != 0.0:
                coords[place[k]], weights[place[k]] = k * n_features + features[i], row[k]
                place[k] += 1
    return coords, weights
