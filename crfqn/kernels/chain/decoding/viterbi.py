"""The best labelling of each chain (Viterbi 1967), in scores: sums and comparisons cannot overflow.

The forward pass keeps the best scores only, no back pointers; on the way back the state before is found again, for the
best labelling alone. That is K comparisons a position there, and none of the forward pass's K^2 has to keep its
argument: it is one instruction for 8 states, four of them in flight (22 states: 110 ns a position instead of 240).
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.rows import LANES

TOGETHER = 4  # rows of the edges: each pass over the states waits for the one before


@inner
def larger(x, y):
    """Return the larger of two numbers."""
    return x if x > y else y


@subkernel
def extend_paths(previous, edges, delta):
    """delta[k] = max_j (previous[j] + edges[j, k]); edges (K, width), delta (width,)."""
    n_states, width = edges.shape
    for k in range(width):
        delta[k] = -np.inf
    whole = n_states - n_states % TOGETHER
    for j in range(0, whole, TOGETHER):
        from_0, from_1, from_2, from_3 = previous[j], previous[j + 1], previous[j + 2], previous[j + 3]
        for k in range(width):
            one = larger(from_0 + edges[j, k], from_1 + edges[j + 1, k])
            other = larger(from_2 + edges[j + 2, k], from_3 + edges[j + 3, k])
            delta[k] = larger(delta[k], larger(one, other))
    for j in range(whole, n_states):
        for k in range(width):
            delta[k] = larger(delta[k], previous[j] + edges[j, k])


@inner
def came_from(previous, edges_to):
    """Return the first j that attains max_j (previous[j] + edges_to[j])."""
    state, most = 0, previous[0] + edges_to[0]
    for j in range(1, edges_to.size):
        candidate = previous[j] + edges_to[j]
        if candidate > most:
            state, most = j, candidate
    return state


@kernel
def viterbi(first, last, offsets, scores, edges, states, best):
    """Find the best labelling of the items first ... last - 1: states int32 (N,), and its score, best float64 (I,).

    delta_t(k) = scores[k, t] + max_j (delta_{t-1}(j) + edges[j, k]); ties go to the lower state.
    """
    n_states = scores.shape[0]
    width = -(-n_states // LANES) * LANES
    longest = 0
    for i in range(first, last):
        length = offsets[i + 1] - offsets[i]
        longest = length if length > longest else longest
    delta, nowhere = np.empty((longest, width)), np.zeros(n_states)
    padded, edges_to = np.zeros((n_states, width)), edges.T.copy()
    for j in range(n_states):
        for k in range(n_states):
            padded[j, k] = edges[j, k]
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        best[i] = 0.0
        if length == 0:
            continue
        for t in range(length):
            if t > 0:
                extend_paths(delta[t - 1], padded, delta[t])
            else:
                delta[0] = 0.0
            for k in range(n_states):
                delta[t, k] += scores[k, start + t]
        state = came_from(delta[length - 1], nowhere)
        best[i] = delta[length - 1, state]
        states[start + length - 1] = state
        for t in range(length - 2, -1, -1):
            state = came_from(delta[t], edges_to[state])
            states[start + t] = state
