"""The n best labellings of each chain: Viterbi's recursion with a list of n in the place of one number.

    delta_t(k) = the n largest of scores[k, t] + delta_{t-1}(j)[r] + edges[j, k] over states j and ranks r

A list is sorted, so that a state's candidates are not looked at from where one is too small: of K n candidates a list
looks at about K + n. Ties go to the lower last state, and then to the lower state before, as in `viterbi.py`.

Shapes: K states, N positions, I items, T positions of an item, n labellings.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel


@subkernel
def keep_best(candidate, state, rank, size, values, states, ranks):
    """Put a candidate into a sorted list of `size` entries, behind equal ones; returns the new size."""
    n = values.size
    if size == n:
        if not candidate > values[n - 1]:
            return size
        size -= 1
    place = size
    while place > 0 and candidate > values[place - 1]:
        values[place], states[place], ranks[place] = values[place - 1], states[place - 1], ranks[place - 1]
        place -= 1
    values[place], states[place], ranks[place] = candidate, state, rank
    return size + 1


@subkernel
def keep_best_of(previous, sizes, edges_to, values, states, ranks):
    """Fill the list of a state from those of all states before it, (K, n) and their sizes; returns how many it has."""
    size = 0
    for j in range(sizes.size):
        if edges_to[j] == -np.inf:
            continue
        for r in range(sizes[j]):
            candidate = previous[j, r] + edges_to[j]
            if size == values.size and not candidate > values[size - 1]:
                break
            size = keep_best(candidate, j, r, size, values, states, ranks)
    return size


@kernel
def best_paths(first, last, offsets, scores, edges, n, states, best, counts):
    """Find the n best labellings of the items first ... last - 1, or as many as there are.

    Parameters
    ----------
    scores, edges : float64 (K, N) and (K, K); -inf forbids
    states : int32 (n, N), out; best : float64 (n, I), out, their scores, falling; counts : int64 (I,), out
    """
    n_states, longest = scores.shape[0], 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    delta, sizes = np.empty((2, n_states, n)), np.zeros((2, n_states), np.int64)
    before, rank_of = np.empty((longest, n_states, n), np.int32), np.empty((longest, n_states, n), np.int32)
    final, final_states, final_ranks = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    edges_to, free = edges.T.copy(), np.zeros(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        if length == 0:
            counts[i], best[0, i] = 1, 0.0
            continue
        for t in range(length):
            here, there = t % 2, (t + 1) % 2
            for k in range(n_states):
                score = scores[k, start + t]
                if score == -np.inf:
                    sizes[here, k] = 0
                elif t == 0:
                    sizes[here, k], delta[here, k, 0] = 1, score
                else:
                    sizes[here, k] = keep_best_of(
                        delta[there], sizes[there], edges_to[k], delta[here, k], before[t, k], rank_of[t, k]
                    )
                    for r in range(sizes[here, k]):
                        delta[here, k, r] += score
        last_one = (length - 1) % 2
        counts[i] = keep_best_of(delta[last_one], sizes[last_one], free, final, final_states, final_ranks)
        for r in range(counts[i]):
            best[r, i] = final[r]
            k, rank = final_states[r], final_ranks[r]
            for t in range(length - 1, -1, -1):
                states[r, start + t] = k
                if t > 0:
                    k, rank = before[t, k, rank], rank_of[t, k, rank]
