"""The best labelling of each chain (Viterbi 1967), in scores: sums and comparisons cannot overflow."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def viterbi(first, last, offsets, scores, edges, states, best):
    """Best path of items first..last-1: states int32 (N,) and its score, float64 (I,), both out.

    delta_t(k) = scores[k, t] + max_j (delta_{t-1}(j) + edges[j, k]); ties go to the lower state.
    """
    n_states = scores.shape[0]
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    back = np.zeros((longest, n_states), np.int32)
    delta, previous = np.empty(n_states), np.empty(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        best[i] = 0.0
        if length == 0:
            continue
        for t in range(length):
            if t == 0:
                delta[:] = 0.0
            else:
                previous[:] = delta
                delta[:] = -np.inf
                for j in range(n_states):
                    for k in range(n_states):
                        candidate = previous[j] + edges[j, k]
                        if candidate > delta[k]:
                            delta[k] = candidate
                            back[t, k] = j
            for k in range(n_states):
                delta[k] += scores[k, start + t]
        state = np.argmax(delta)
        best[i] = delta[state]
        for t in range(length - 1, -1, -1):
            states[start + t] = state
            state = back[t, state]
