"""Tables of rows as lists of coordinates."""

import numpy as np

from crfqn.kernels import bare_kernel, kernel

BLOCK = 64  # rows: they stay in the first cache while their states go by


@kernel
def list_weights(features, n_features, table):
    """The coordinates state * n_features + feature, sorted, and the weights, that are not zero.

    features : sorted int64 (rows,), those of the rows of `table`, float64 (rows, K)
    """
    n_rows, n_states = table.shape
    kept, n_kept, n_weights = np.empty(n_rows, np.int64), 0, 0
    for i in range(n_rows):
        n_own = 0
        for k in range(n_states):
            n_own += table[i, k] != 0.0
        if n_own > 0:
            kept[n_kept], n_kept, n_weights = i, n_kept + 1, n_weights + n_own
    coords, weights = np.empty(n_weights, np.int64), np.empty(n_weights)
    if n_weights == n_kept * n_states:
        list_whole(kept[:n_kept], features, n_features, table, coords, weights)
        return coords, weights
    place = 0
    for k in range(n_states):
        for i in kept[:n_kept]:
            if table[i, k] != 0.0:
                coords[place], weights[place] = k * n_features + features[i], table[i, k]
                place += 1
    return coords, weights


@bare_kernel
def list_whole(kept, features, n_features, table, coords, weights):
    """The same where a row's weights are all zero or none is, as under a group penalty: a transposition, in blocks."""
    for start in range(0, kept.size, BLOCK):
        stop = min(start + BLOCK, kept.size)
        for k in range(table.shape[1]):
            first = k * kept.size
            for j in range(start, stop):
                coords[first + j] = k * n_features + features[kept[j]]
                weights[first + j] = table[kept[j], k]
