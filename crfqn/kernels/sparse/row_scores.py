"""Scores of positions from their sparse rows, for prediction: each entry adds its feature's weights.

Of matrices by position (CSR), and of entries as they were listed, of which no matrix is made. The sweeps of
`columns.py` read all features that have weights; for one sentence that is thousands of times too much.

Shapes: N positions, F features, K states.
"""

import numpy as np

from crfqn.kernels import strict_inner, strict_kernel


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


LOW = 32  # bits of a key that say which entry it is; those above are its column


@strict_inner
def sort_keys(keys, n):
    """Sort the first n integers in place: Shell's sort, which for a dozen is insertion sort."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key, place = keys[i], i
            while place >= gap and keys[place - gap] > key:
                keys[place] = keys[place - gap]
                place -= gap
            keys[place] = key
        gap //= 3


@strict_inner
def row_keys(begin, end, columns, keys):
    """Write the columns of an entry and its place in the row as one number a key, ascending; returns how many."""
    n = 0
    for e in range(begin, end):
        if columns[e] >= 0:
            keys[n] = (np.int64(columns[e]) << LOW) + (e - begin)
            n += 1
    sort_keys(keys, n)
    return n


@strict_kernel
def score_tokens(first, last, row_ends, columns, values, heads, states, places, weights, scores):
    """scores[k, t] = sum_f x_tf w_kf for t = first ... last - 1, x_tf the sum of the entries (t, f).

    The sums are taken in the order of the features: bit by bit those of `columns.add_columns`.

    Parameters
    ----------
    row_ends, columns, values : int64 (N + 1,), int32 (entries,), float64 (entries,) or (0,) where all are 1; entries
        in any order, those without a column have one below 0
    heads, states, places : int64 (F + 1,), int32 (weights,), int64 (weights,) or (0,): feature f has the weights
        weights[places[j]], or weights[j], for states[j], j = heads[f] ... heads[f + 1] - 1
    scores : float64 (K, N), out

    Returns
    -------
    bool, whether all x_tf are finite
    """
    longest = 0
    for t in range(first, last):
        longest = max(longest, row_ends[t + 1] - row_ends[t])
    keys, is_finite, low = np.empty(longest, np.int64), True, (np.int64(1) << LOW) - 1
    row = np.empty(scores.shape[0])
    for t in range(first, last):
        begin = row_ends[t]
        row[:] = 0.0
        n, e = row_keys(begin, row_ends[t + 1], columns, keys), 0
        while e < n:
            f, x = keys[e] >> LOW, 0.0
            while e < n and keys[e] >> LOW == f:
                x += values[begin + (keys[e] & low)] if values.size > 0 else 1.0
                e += 1
            is_finite &= np.isfinite(x)
            for j in range(heads[f], heads[f + 1]):
                row[states[j]] += x * (weights[places[j]] if places.size > 0 else weights[j])
        scores[:, t] = row
    return is_finite
