"""The best labelling of each chain (Viterbi 1967), in scores: sums and comparisons cannot overflow."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def extend_paths(previous, edges, delta, back):
    """delta[k] = max_j (previous[j] + edges[j, k]) over -inf, back[k] = the first j that attains it."""
    for j in range(previous.size):
        for k in range(previous.size):
            candidate = previous[j] + edges[j, k]
            if candidate > delta[k]:
                delta[k] = candidate
                back[k] = j


@kernel
def viterbi(first, last, offsets, scores, edges, states, best):
    """Best path of items first..last-1: states int32 (N,) and its score, float64 (I,), both out.

    delta_t(k) = scores[k, t] + max_j (delta_{t-1}(j) + edges[j, k]); ties go to the lower state.
    """
    n_states = scores.shape[0]
    longest = 0
    for i in range(first, last):
        length = offsets[i + 1] - offsets[i]
        longest = length if length > longest else longest
    back = np.zeros((longest, n_states), np.int32)
    delta, previous = np.empty(n_states), np.empty(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        best[i] = 0.0
        if length == 0:
            continue
        for t in range(length):
            for k in range(n_states):
                previous[k] = delta[k]
                delta[k] = 0.0 if t == 0 else -np.inf
            if t > 0:
                extend_paths(previous, edges, delta, back[t])
            for k in range(n_states):
                delta[k] += scores[k, start + t]
        state = 0
        for k in range(1, n_states):
            state = k if delta[k] > delta[state] else state
        best[i] = delta[state]
        for t in range(length - 1, -1, -1):
            states[start + t] = state
            state = back[t, state]
