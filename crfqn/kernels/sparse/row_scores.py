"""Scores of positions from their entries, for prediction: each entry adds its feature's weights.

The sweeps of `columns.py` read all features that have weights; for one sentence that is thousands of times too much.

Shapes: N positions, F features, K states.
"""

import numpy as np

from crfqn.kernels import strict_inner, strict_kernel

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
    n, before, is_sorted = 0, np.int64(-1), True
    for e in range(begin, end):
        if columns[e] >= 0:
            key = (np.int64(columns[e]) << LOW) + (e - begin)
            is_sorted &= before < key
            keys[n] = before = key
            n += 1
    if not is_sorted:
        sort_keys(keys, n)
    return n


@strict_kernel
def score_entries(first, last, row_ends, columns, values, heads, states, places, weights, initial, scores):
    """scores[k, t] = initial[k] + sum_f x_tf w_kf for t = first ... last - 1, x_tf the sum of the entries (t, f).

    The sums are taken in the order of the features: bit by bit those of `columns.add_columns`.

    Parameters
    ----------
    row_ends, columns, values : int64 (N + 1,), int32 (entries,), float64 (entries,) or (0,) where all are 1; entries
        in any order, those without a column have one below 0, the others one below F
    heads, states, places : int64 (F + 1,), int32 (weights,), int64 (weights,) or (0,): feature f has the weights
        weights[places[j]], or weights[j], for states[j], j = heads[f] ... heads[f + 1] - 1
    initial, scores : float64 (K,) and (K, N), out

    Returns
    -------
    bool, whether all x_tf are finite, and the rows ascend within the entries
    """
    longest, is_sound, low = 0, True, (np.int64(1) << LOW) - 1
    for t in range(first, last):
        is_sound &= 0 <= row_ends[t] <= row_ends[t + 1] <= columns.size
        longest = max(longest, row_ends[t + 1] - row_ends[t])
    if not is_sound:
        return False
    keys, row = np.empty(longest, np.int64), np.empty(initial.size)
    for t in range(first, last):
        begin = row_ends[t]
        row[:] = initial
        n, e = row_keys(begin, row_ends[t + 1], columns, keys), 0
        while e < n:
            f, x = keys[e] >> LOW, 0.0
            while e < n and keys[e] >> LOW == f:
                x += values[begin + (keys[e] & low)] if values.size > 0 else 1.0
                e += 1
            is_sound &= np.isfinite(x)
            for j in range(heads[f], heads[f + 1]):
                row[states[j]] += x * (weights[places[j]] if places.size > 0 else weights[j])
        scores[:, t] = row
    return is_sound
