"""The best labellings of each chain (Viterbi 1967). Only sums and comparisons of scores: nothing can overflow.

    delta_t(k) = scores[k, t] + max_j (delta_{t-1}(j) + edges[j, k])

The forward pass stores the best scores delta, but no back pointers, so that vector instructions compute its maxima for
8 states at once. The backward pass computes the previous state again, but only along the best labelling, with K
comparisons for each position. For 22 states this halves the time.

The n best labellings come from the same recursion with a sorted list of n scores for each state. A list is made from
the lists of K previous states, and about K + n of their K n entries are read. Ties go to the lower last state, then to
the lower previous state. Rules on neighbouring labels are added to the scores: 0 for allowed, -inf for forbidden.

Shapes: K states, width = K rounded up to LANES, N positions, I items, T positions of an item, n labellings.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.logarithms import table_at


class TransitionMask(NamedTuple):
    """Rules on labels as numbers to add to the scores of an item: 0 if allowed, -inf if forbidden.

    edges : float64 (K, width), or (0, width) if all transitions are allowed
    start, end : float64 (width,), for the states of the first and of the last position
    """

    edges: np.ndarray
    start: np.ndarray
    end: np.ndarray


@subkernel(counts=False)
def add_mask(edges, mask, masked):
    """Return edges + mask.edges, written into `masked`, (K, width); `edges` itself if no transition is forbidden."""
    if mask.edges.shape[0] == 0:
        return edges
    for j in range(mask.edges.shape[0]):
        for k in range(mask.edges.shape[1]):
            masked[j, k] = edges[j, k] + mask.edges[j, k]
    return masked


@subkernel
def mask_ends(scores, mask):
    """Add the mask of the first and the last position of an item in place; scores : float64 (T, width), T >= 1."""
    last = scores.shape[0] - 1
    for k in range(mask.start.size):
        scores[0, k] += mask.start[k]
        scores[last, k] += mask.end[k]


# Rows of the edges for each pass over delta. The maximum of four rows is a tree of independent maxima, so that the
# processor waits less often for the result of one before it starts the next.
ROWS_PER_PASS = 4


@inner
def larger_number(x, y):
    """Return the larger of two numbers."""
    return x if x > y else y


@subkernel
def extend_paths(previous, edges, delta):
    """delta[k] = max_j (previous[j] + edges[j, k]); edges (K, width), delta (width,)."""
    n_states, width = edges.shape
    for k in range(width):
        delta[k] = -np.inf
    n_in_passes = n_states - n_states % ROWS_PER_PASS
    for j in range(0, n_in_passes, ROWS_PER_PASS):
        from_0, from_1, from_2, from_3 = previous[j], previous[j + 1], previous[j + 2], previous[j + 3]
        for k in range(width):
            of_0_1 = larger_number(from_0 + edges[j, k], from_1 + edges[j + 1, k])
            of_2_3 = larger_number(from_2 + edges[j + 2, k], from_3 + edges[j + 3, k])
            delta[k] = larger_number(delta[k], larger_number(of_0_1, of_2_3))
    for j in range(n_in_passes, n_states):
        for k in range(width):
            delta[k] = larger_number(delta[k], previous[j] + edges[j, k])


@inner
def came_from(previous, edges_to):
    """Return the first j that attains max_j (previous[j] + edges_to[j])."""
    state, largest = 0, previous[0] + edges_to[0]
    for j in range(1, edges_to.size):
        candidate = previous[j] + edges_to[j]
        if candidate > largest:
            state, largest = j, candidate
    return state


@kernel
def viterbi(first, last, offsets, scores, edges, edges_to, table_of, states, best):
    """Find the best labelling of the items first ... last - 1; ties go to the lower state.

    edges, table_of : as in `logarithms.py`, with rows of `width`
    edges_to : the transposed edges, [to, from], with rows of K
    states, best : int32 (N,) and float64 (I,), out: the best labelling of each item and its score
    """
    n_states, width, longest = scores.shape[0], edges.shape[-1], 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    delta, zero_edges = np.empty((longest, width)), np.zeros(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        best[i] = 0.0
        if length == 0:
            continue
        for t in range(length):
            if t > 0:
                extend_paths(delta[t - 1], table_at(edges, table_of, start + t), delta[t])
            else:
                delta[0] = 0.0
            for k in range(n_states):
                delta[t, k] += scores[k, start + t]
        state = came_from(delta[length - 1], zero_edges)
        best[i] = delta[length - 1, state]
        states[start + length - 1] = state
        for t in range(length - 2, -1, -1):
            state = came_from(delta[t], table_at(edges_to, table_of, start + t + 1)[state])
            states[start + t] = state


@subkernel
def keep_best(candidate, state, rank, size, values, states, ranks):
    """Insert a candidate into a list of `size` entries in descending order, after equal entries. A full list drops its
    last entry, or the candidate if that is not larger. Return the new size."""
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
    """Fill the list of a state from the lists of all previous states, (K, n), and their sizes; return its size."""
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
def best_paths(first, last, offsets, scores, edges_to, table_of, n, states, best, counts):
    """Find the n best labellings of the items first ... last - 1, or all if there are fewer than n.

    An edge or a score of -inf forbids a transition or a state.

    edges_to, table_of : the transposed edges, [to, from], and their tables, as in `logarithms.py`
    states, best : int32 (n, N) and float64 (n, I), out: the labellings and their scores, in descending order
    counts : int64 (I,), out: the number of labellings of each item
    """
    n_states, longest = scores.shape[0], 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    delta, sizes = np.empty((2, n_states, n)), np.zeros((2, n_states), np.int64)
    before, rank_of = np.empty((longest, n_states, n), np.int32), np.empty((longest, n_states, n), np.int32)
    final, final_states, final_ranks = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    zero_edges = np.zeros(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        if length == 0:
            counts[i], best[0, i] = 1, 0.0
            continue
        for t in range(length):
            current, previous, table = t % 2, (t + 1) % 2, table_at(edges_to, table_of, start + t)
            for k in range(n_states):
                score = scores[k, start + t]
                if score == -np.inf:
                    sizes[current, k] = 0
                elif t == 0:
                    sizes[current, k], delta[current, k, 0] = 1, score
                else:
                    sizes[current, k] = keep_best_of(
                        delta[previous],
                        sizes[previous],
                        table[k],
                        delta[current, k],
                        before[t, k],
                        rank_of[t, k],
                    )
                    for r in range(sizes[current, k]):
                        delta[current, k, r] += score
        last_row = (length - 1) % 2
        counts[i] = keep_best_of(
            delta[last_row], sizes[last_row], zero_edges, final, final_states, final_ranks
        )
        for r in range(counts[i]):
            best[r, i] = final[r]
            k, rank = final_states[r], final_ranks[r]
            for t in range(length - 1, -1, -1):
                states[r, start + t] = k
                if t > 0:
                    k, rank = before[t, k, rank], rank_of[t, k, rank]
