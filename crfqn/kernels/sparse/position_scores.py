"""Scores of a few positions from their sparse rows (CSR), for prediction: each entry adds its feature's weights.

The sweeps of `columns.py` read all features that have weights; for one sentence that is thousands of times too much.

Shapes: N positions, F features, K states.
"""

import numpy as np

from crfqn.kernels import strict_kernel


@strict_kernel
def are_clean_rows(indptr, indices, values, n_positions, n_features):
    """Return whether CSR rows hold finite numbers only, their columns within the features, ascending, none twice."""
    if indptr.size != n_positions + 1 or indptr[0] != 0 or indptr[-1] > min(indices.size, values.size):
        return False
    for t in range(n_positions):
        if indptr[t + 1] < indptr[t]:
            return False
    for t in range(n_positions):
        before = -1
        for e in range(indptr[t], indptr[t + 1]):
            if not before < indices[e] < n_features or not np.isfinite(values[e]):
                return False
            before = indices[e]
    return True


@strict_kernel
def add_position_scores(indptr, indices, values, heads, states, places, weights, scores):
    """scores[k, t] += sum_f x_tf w_kf in the order of the features: bit by bit the sums of `columns.add_columns`.

    Parameters
    ----------
    indptr, indices, values : int64 (N + 1,), int64 and float64 (entries,): the positions' rows
    heads, states, places : int64 (F + 1,), int32 (weights,), int64 (weights,): feature f has the weights
        weights[places[j]] for states[j], j = heads[f] ... heads[f + 1] - 1
    scores : float64 (K, N)
    """
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            f, x = indices[e], values[e]
            for j in range(heads[f], heads[f + 1]):
                scores[states[j], t] += x * weights[places[j]]
