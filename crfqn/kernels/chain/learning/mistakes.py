"""Learning from the mistakes of chains' best labellings, an item at a time; the recursion is that of `viterbi.py`.

Shapes: as in `kernels/online/mistakes.py`; T positions of an item. The rows of the edges come
after those of the features.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.chain.decoding.transition_mask import add_mask
from crfqn.kernels.chain.decoding.viterbi import came_from, extend_paths
from crfqn.kernels.online.lazy_penalty import PositionRows, largest_item, new_item_columns, transpose_item
from crfqn.kernels.online.mistakes import (
    N_SEEN,
    N_WRONG,
    AveragedRows,
    change_weight,
    feature_changes,
    free_square,
    step_size,
)
from crfqn.kernels.rows import add_picked, aligned_rows


@subkernel
def label_item(scores, edges, mask, delta, states):
    """Find the best labelling of an item: states int32 (T,); scores, delta : float64 (T, width); edges (K, width).

    mask : TransitionMask, whose start and end are added here; those of `edges` are in them
    """
    length, n_states = scores.shape[0], edges.shape[0]
    for t in range(length):
        if t > 0:
            extend_paths(delta[t - 1], edges, delta[t])
        else:
            delta[0] = mask.start
        for k in range(delta.shape[1]):
            delta[t, k] += scores[t, k]
    state, edges_to = 0, mask.end[:n_states].copy()
    for t in range(length - 1, -1, -1):
        state = came_from(delta[t, :n_states], edges_to)
        states[t] = state
        for j in range(n_states):
            edges_to[j] = edges[j, state]


@subkernel
def lead(labels, states, scores, edges):
    """Return score(states) - score(labels)."""
    total = 0.0
    for t in range(labels.size):
        total += scores[t, states[t]] - scores[t, labels[t]]
        if t > 0:
            total += edges[states[t - 1], states[t]] - edges[labels[t - 1], labels[t]]
    return total


@subkernel
def item_change(labels, states, change, edge_change):
    """Write Delta by position, float64 (T, width), and that of the edges, float64 (K, width)."""
    change[:] = 0.0
    edge_change[:] = 0.0
    for t in range(labels.size):
        change[t, labels[t]] += 1.0
        change[t, states[t]] -= 1.0
        if t > 0:
            edge_change[labels[t - 1], labels[t]] += 1.0
            edge_change[states[t - 1], states[t]] -= 1.0


@subkernel
def change_by_row(n, columns, change, edge_change, first, sums):
    """Write the change of each row of the weights that an item of n features has, and return the rows, int64.

    sums : float64 (features and K, width), out: first of the features in `columns.present`, which gets the edges' rows
    behind them; these begin at `first`
    """
    n_states = edge_change.shape[0]
    feature_changes(n, columns, change, sums)
    for j in range(n_states):
        columns.present[n + j] = first + j
        sums[n + j] = edge_change[j]
    return columns.present[: n + n_states]


@subkernel
def correct_item(a, labels, states, tau, data, first, rows):
    """w += tau Delta for an item whose positions begin at `a`; the edges' rows begin at `first`."""
    for t in range(labels.size):
        right, wrong = labels[t], states[t]
        if right != wrong:
            for e in range(data.indptr[a + t], data.indptr[a + t + 1]):
                value = tau * (data.values[e] if data.values.size > 0 else 1.0)
                change_weight(data.features[e], right, value, rows)
                change_weight(data.features[e], wrong, -value, rows)
        if t > 0 and (right != wrong or labels[t - 1] != states[t - 1]):
            change_weight(first + labels[t - 1], right, tau, rows)
            change_weight(first + states[t - 1], wrong, -tau, rows)


@kernel
def correct_chains(
    order, offsets, indptr, features, values, targets, item_weights, n_states, aggressiveness, weights, corrections,
    is_fixed, pattern_of, counters, mask,
):  # fmt: skip
    """Label each item of `order` and learn from its mistakes; weights, corrections and counters change in place.

    aggressiveness : the largest step C of passive-aggressive learning; 0 for the perceptron. Other parameters as in
    `AveragedRows` and `PositionRows`; order : items; offsets : int64 (I + 1,); targets : int32 (positions,);
    item_weights : float64 (I,), by which steps are multiplied; mask : TransitionMask
    """
    rows = AveragedRows(weights, corrections, is_fixed, pattern_of, counters)
    data = PositionRows(indptr, features, values)
    width, n_features = weights.shape[1], weights.shape[0] - n_states
    edges = weights[n_features:]
    longest, most = largest_item(order, offsets, indptr)
    columns = new_item_columns(most, n_states, n_features, values.size == 0)
    scores, delta, change = (
        aligned_rows(longest, width),
        aligned_rows(longest, width),
        aligned_rows(longest, width),
    )
    edge_change, sums = aligned_rows(n_states, width), aligned_rows(min(most, n_features) + n_states, width)
    found, masked = np.empty(longest, np.int32), aligned_rows(n_states, width)
    for i in order:
        a, b = offsets[i], offsets[i + 1]
        length, labels, states = b - a, targets[a:b], found[: b - a]
        scores[:length] = 0.0
        for t in range(length):
            add_picked(scores[t], weights, features, indptr[a + t], indptr[a + t + 1], values)
        label_item(scores[:length], add_mask(edges, mask, masked), mask, delta[:length], states)
        n_wrong = 0
        for t in range(length):
            n_wrong += labels[t] != states[t]
        if n_wrong > 0:
            tau = 1.0
            if aggressiveness > 0.0:
                item_change(labels, states, change[:length], edge_change)
                n = transpose_item(a, b, data, columns)
                chosen = change_by_row(n, columns, change, edge_change, n_features, sums)
                square = free_square(chosen, sums, rows)
                loss = lead(labels, states, scores[:length], edges) + np.sqrt(n_wrong)
                tau = step_size(aggressiveness, loss, square)
            correct_item(a, labels, states, tau * item_weights[i], data, n_features, rows)
        counters[N_SEEN] += 1.0
        counters[N_WRONG] += n_wrong
