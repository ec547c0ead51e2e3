"""Block-coordinate Frank-Wolfe on max-margin Markov chains: Viterbi with the Hamming loss added, an item at a time.

Shapes: as in `kernels/online/mistakes.py` and `kernels/chain/learning/mistakes.py`; N positions of all items.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.chain.decoding.transition_mask import add_mask
from crfqn.kernels.chain.learning.mistakes import change_by_row, label_item
from crfqn.kernels.dual.frank_wolfe import step_on_rows
from crfqn.kernels.online.lazy_penalty import PositionRows, largest_item, new_item_columns, transpose_item
from crfqn.kernels.online.mistakes import N_SEEN, AveragedRows
from crfqn.kernels.rows import add_picked, aligned_rows, copy_rows


@subkernel
def violated_margin(states, scores, edges, change, edge_change):
    """Subtract the counts of a labelling from those in change and edge_change; returns -<change, scores>."""
    lead = 0.0
    for t in range(states.size):
        change[t, states[t]] -= 1.0
        if t > 0:
            edge_change[states[t - 1], states[t]] -= 1.0
        for k in range(edges.shape[0]):
            lead -= change[t, k] * scores[t, k]
    for j in range(edges.shape[0]):
        for k in range(edges.shape[0]):
            lead -= edge_change[j, k] * edges[j, k]
    return lead


@kernel
def improve_chains(
    order, offsets, indptr, features, values, targets, masses, node_counts, edge_counts, moves, gaps, weights,
    corrections, is_fixed, pattern_of, counters, mask,
):  # fmt: skip
    """Measure the duality gap of each item of `order`, and take a step on it if asked.

    Parameters
    ----------
    order : items; offsets : int64 (I + 1,); indptr, features, values : `PositionRows`; targets : int32 (N,)
    masses : float64 (I,), c_i / l2, above 0 for the items of `order`
    node_counts, edge_counts : float64 (N, width) and (I, K, width), mu; they change in place
    moves : bool
    gaps : float64 (I,), out, gap_i / l2 before the step
    weights, corrections, is_fixed, pattern_of, counters : `AveragedRows`; N_SEEN counts the steps
    mask : TransitionMask
    """
    rows, data = (
        AveragedRows(weights, corrections, is_fixed, pattern_of, counters),
        PositionRows(indptr, features, values),
    )
    n_states, width = edge_counts.shape[1], weights.shape[1]
    n_features = weights.shape[0] - n_states
    edges = weights[n_features:]
    longest, most = largest_item(order, offsets, indptr)
    columns = new_item_columns(most, n_states, n_features, values.size == 0)
    scores, delta = aligned_rows(longest, width), aligned_rows(longest, width)
    change, edge_change = aligned_rows(longest, width), aligned_rows(n_states, width)
    sums = aligned_rows(min(most, n_features) + n_states, width)
    found, masked = np.empty(longest, np.int32), aligned_rows(n_states, width)
    for i in order:
        a, b = offsets[i], offsets[i + 1]
        length, states = b - a, found[: b - a]
        scores[:length] = 0.0
        for t in range(length):
            add_picked(scores[t], weights, features, indptr[a + t], indptr[a + t + 1], values)
            scores[t, targets[a + t]] -= 1.0  # the Hamming loss, less 1 for all states
        label_item(scores[:length], add_mask(edges, mask, masked), mask, delta[:length], states)
        copy_rows(change, node_counts[a:b])
        copy_rows(edge_change, edge_counts[i])
        gap = violated_margin(states, scores, edges, change, edge_change)
        gaps[i] = masses[i] * max(gap, 0.0)
        if not moves:
            continue
        if gap > 0.0:
            n = transpose_item(a, b, data, columns)
            chosen = change_by_row(n, columns, change, edge_change, n_features, sums)
            gamma = step_on_rows(chosen, sums, gap, masses[i], rows)
            for t in range(length):
                for k in range(width):
                    node_counts[a + t, k] -= gamma * change[t, k]
            for j in range(n_states):
                for k in range(width):
                    edge_counts[i, j, k] -= gamma * edge_change[j, k]
        counters[N_SEEN] += 1.0
