"""Steps of block-coordinate Frank-Wolfe on structured hinges, an item at a time: chains by Viterbi with the
Hamming loss added, taxonomies by the best label with the tree loss added.

An item's dual variables are a distribution over its labellings. All that counts of it is what it expects, mu_i, as
counts of the states (and edges) that hold:

    w = (1 / l2) sum_i c_i X_i' (observed_i - mu_i)

A step moves mu_i towards the counts of the labelling that violates its margin most, y' = argmax_y L(y_i, y) + score(y):

    Delta = mu_i - counts(y'),   gap_i = -c_i <Delta, scores with L added>,
    gamma = min(1, l2 gap_i / (c_i^2 |X_i' Delta|^2)),   mu_i -= gamma Delta,   w += gamma (c_i / l2) X_i' Delta

(Lacoste-Julien et al. 2013, Algorithm 4; there lambda n = l2 and c_i = 1). Its weighted average of all w so far is
sum_k k w_k / sum_k k = w - 2 / (n (n + 1)) sum_k k (k - 1) / 2 (w_k - w_{k-1}), over the steps k = 1 ... n.

Shapes: as in `solvers/stochastic/perceptron_kernels.py`; N positions of all items.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import add_picked, aligned_rows, copy_rows
from crfqn.kernels.viterbi import add_mask
from crfqn.solvers.stochastic.item_kernels import largest_item, new_item_columns, transpose_item
from crfqn.solvers.stochastic.perceptron_kernels import (
    N_SEEN,
    best_node,
    change_by_row,
    feature_changes,
    free_square,
    label_item,
    mark_path,
)


@subkernel
def step_on_rows(chosen, sums, gap, mass, rows):
    """Move the weights along the best part of the way to y', and return gamma; gap : gap_i / c_i > 0; mass : c_i / l2.

    chosen, sums : int64 (n,), the rows that may move; float64 (n or more, width), X_i' Delta of each
    rows : `AveragedRows`, whose `corrections` are what the weighted average lacks
    """
    square = mass * free_square(chosen, sums, rows)
    gamma = gap / square if gap < square else 1.0
    length, n_before = mass * gamma, rows.counters[N_SEEN]
    lacked = length * 0.5 * n_before * (n_before + 1.0)
    for j in range(chosen.size):
        weights, corrections = rows.weights[chosen[j]], rows.corrections[chosen[j]]
        for k in range(weights.size):
            weights[k] += length * sums[j, k]
            corrections[k] += lacked * sums[j, k]
    return gamma


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
def improve_chains(order, data, node_counts, edge_counts, moves, gaps, rows, mask):
    """Measure the duality gap of each item of `order`, and, if it `moves`, take a step on it.

    data : ItemData, whose weights are c_i / l2, above 0 for the items of `order`; gaps : float64 (I,), gap_i / l2, out
    node_counts, edge_counts : float64 (N, width) and (I, K, width), mu; they change in place
    rows : AveragedRows, of whose counters N_SEEN counts the steps
    """
    weights, masses, targets = rows.weights, data.weights, data.targets
    n_states, width = edge_counts.shape[1], weights.shape[1]
    n_features = weights.shape[0] - n_states
    edges = weights[n_features:]
    longest, most = largest_item(order, data)
    columns = new_item_columns(most, n_states, n_features, data.values.size == 0)
    scores, delta = aligned_rows(longest, width), aligned_rows(longest, width)
    change, edge_change = aligned_rows(longest, width), aligned_rows(n_states, width)
    sums = aligned_rows(min(most, n_features) + n_states, width)
    found, masked = np.empty(longest, np.int32), aligned_rows(n_states, width)
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        length, states = b - a, found[: b - a]
        scores[:length] = 0.0
        for t in range(length):
            add_picked(
                scores[t], weights, data.features, data.indptr[a + t], data.indptr[a + t + 1], data.values
            )
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
        rows.counters[N_SEEN] += 1.0


@kernel
def improve_trees(order, data, node_counts, parents, is_label, moves, gaps, rows):
    """Measure the duality gap of each item, and take a step on it; parameters as in `improve_chains`."""
    weights, masses, targets = rows.weights, data.weights, data.targets
    n_features, width = weights.shape
    _, most = largest_item(order, data)
    columns = new_item_columns(most, 0, n_features, data.values.size == 0)
    sums, path_sums = aligned_rows(min(most, n_features), width), np.empty(parents.size)
    scores, change = aligned_rows(1, width), aligned_rows(1, width)
    for i in order:
        t = data.offsets[i]
        scores[0] = 0.0
        add_picked(scores[0], weights, data.features, data.indptr[t], data.indptr[t + 1], data.values)
        for k in range(parents.size):
            scores[0, k] += 0.5  # half a node of y' alone: the tree loss, less half the nodes above y
        mark_path(targets[t], parents, -1.0, scores[0])
        change[0] = node_counts[t]
        mark_path(best_node(scores[0], parents, is_label, path_sums), parents, -1.0, change[0])
        gap = 0.0
        for k in range(parents.size):
            gap -= change[0, k] * scores[0, k]
        gaps[i] = masses[i] * max(gap, 0.0)
        if not moves:
            continue
        if gap > 0.0:
            n = transpose_item(t, t + 1, data, columns)
            feature_changes(n, columns, change, sums)
            gamma = step_on_rows(columns.present[:n], sums, gap, masses[i], rows)
            for k in range(width):
                node_counts[t, k] -= gamma * change[0, k]
        rows.counters[N_SEEN] += 1.0
