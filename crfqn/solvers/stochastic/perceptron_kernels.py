"""Corrections of labelling mistakes, an item at a time: of chains, by `viterbi.py`'s recursion, and of taxonomies.

An item is labelled by the weights so far. Where the labelling y' differs from the observed y,

    w += tau Delta,    Delta = Phi(x, y) - Phi(x, y')

with tau = 1 for the perceptron (Collins 2002, Figure 2), and for passive-aggressive learning (Crammer et al. 2006,
PA-I) tau = min(C, l / |Delta|^2), l = score(y') - score(y) + sqrt(number of wrong positions). What is kept of all the
weights is their mean: with k = 0, 1, ... the items before a correction, sum_k w_k / n = w - (sum of k tau Delta) / n.

AROW (Crammer, Kulesza and Dredze 2009, with a diagonal covariance V) corrects uncertain weights most and keeps no mean;
its l has the number of wrong positions itself, as CRFsuite's:

    w += l / (gamma + Delta' V Delta) V Delta,    1 / v_j += Delta_j^2 / gamma

The features of a taxonomy's label are those of its node and of the nodes above: what both labels have above them stays.
A state of a chain is a node that has none above it.

Shapes: F features, K states or nodes, width = K rounded up to LANES. An item has the positions a ... b - 1 of all, T of
a chain, one of a taxonomy. nodes : int64 (2 K,) and signs : float64 (2 K,), scratch.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.rows import add_picked, aligned_rows
from crfqn.kernels.viterbi import add_mask, came_from, extend_paths
from crfqn.solvers.stochastic.item_kernels import largest_item, new_item_columns, transpose_item

N_SEEN, N_WRONG = 0, 1  # places in `counters`


class AveragedRows(NamedTuple):
    """Weights, and what their mean lacks.

    weights : float64 (rows, width), a row a feature, then a row for each state that an edge comes from
    corrections : float64 (rows, width), the sum of k tau Delta; (0, width) where no mean is kept
    variances : float64 (rows, width), those of the weights; (0, width) but for AROW
    is_fixed, pattern_of : bool (patterns, width), weights that stay zero; int32 (rows,), each row's pattern
    counters : float64 (2,), items seen, positions that were wrong
    """

    weights: np.ndarray
    corrections: np.ndarray
    variances: np.ndarray
    is_fixed: np.ndarray
    pattern_of: np.ndarray
    counters: np.ndarray


@inner
def change_weight(row, state, tau, rows):
    """Add tau to one weight, and k tau to what the mean lacks."""
    if not rows.is_fixed[rows.pattern_of[row], state]:
        rows.weights[row, state] += tau
        if rows.corrections.shape[0] > 0:
            rows.corrections[row, state] += rows.counters[N_SEEN] * tau


@inner
def differing_nodes(right, wrong, parents, nodes, signs):
    """Write the nodes that one of two labels has on its way from the top and the other has not, with the sign 1 for
    those of `right` and -1 for those of `wrong`; returns their number."""
    n = 0
    while right != wrong:
        if right > wrong:  # the lower of the two in the tree, or beside it
            nodes[n], signs[n], right = right, 1.0, parents[right]
        else:
            nodes[n], signs[n], wrong = wrong, -1.0, parents[wrong]
        n += 1
    return n


@subkernel
def feature_changes(n, columns, change, sums):
    """Write the part that each of an item's n features has in Phi's change: sums[j] = sum_t x_tj change[t],
    float64 (n or more, width). A feature that is at several positions counts as one."""
    first_of = columns.first_of
    for j in range(n):
        for k in range(sums.shape[1]):
            sums[j, k] = 0.0
        add_picked(sums[j], change, columns.positions, first_of[j], first_of[j + 1], columns.x)


@subkernel
def free_square(chosen, sums, rows):
    """Set to 0 what belongs to weights that stay zero, and return the sum of the squares of the rest; chosen :
    int64 (n,), rows; sums : float64 (n or more, width), a change of each."""
    total = 0.0
    for j in range(chosen.size):
        is_fixed = rows.is_fixed[rows.pattern_of[chosen[j]]]
        for k in range(sums.shape[1]):
            if is_fixed[k]:
                sums[j, k] = 0.0
            total += sums[j, k] * sums[j, k]
    return total


@inner
def step_size(aggressiveness, loss, square):
    """Return min(C, l / |Delta|^2); 0 where no weight may change."""
    if square <= 0.0:
        return 0.0
    return loss / square if loss < aggressiveness * square else aggressiveness


@subkernel
def label_item(scores, edges, mask, delta, states):
    """Find the best labelling of an item: states int32 (T,); scores, delta : float64 (T, width); edges (K, width) with
    those of `mask`, whose start and end are added here."""
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
def item_change(labels, states, parents, nodes, signs, change, edge_change):
    """Write Delta by position, float64 (T, width), and that of the edges, float64 (K, width), of taxonomies (0,
    width)."""
    change[:] = 0.0
    edge_change[:] = 0.0
    for t in range(labels.size):
        for j in range(differing_nodes(labels[t], states[t], parents, nodes, signs)):
            change[t, nodes[j]] += signs[j]
        if t > 0:
            edge_change[labels[t - 1], labels[t]] += 1.0
            edge_change[states[t - 1], states[t]] -= 1.0


@subkernel
def change_by_row(n, columns, change, edge_change, first, sums):
    """Write the change of each row of the weights that an item of n features has, and return the rows, int64.

    sums : float64 (features and K, width), out: first of the features in `columns.present`, which gets the edges' rows
        behind them; these begin at `first`
    """
    n_states = edge_change.shape[0]  # 0 of taxonomies
    feature_changes(n, columns, change, sums)
    for j in range(n_states):
        columns.present[n + j] = first + j
        sums[n + j] = edge_change[j]
    return columns.present[: n + n_states]


@subkernel
def correct_item(a, labels, states, tau, data, parents, nodes, signs, first, rows):
    """w += tau Delta for an item whose positions begin at `a`; the edges' rows begin at `first`."""
    for t in range(labels.size):
        n = differing_nodes(labels[t], states[t], parents, nodes, signs)
        for e in range(data.indptr[a + t], data.indptr[a + t + 1] if n > 0 else data.indptr[a + t]):
            value = tau * (data.values[e] if data.values.size > 0 else 1.0)
            for j in range(n):
                change_weight(data.features[e], nodes[j], signs[j] * value, rows)
        if t > 0 and (labels[t] != states[t] or labels[t - 1] != states[t - 1]):
            change_weight(first + labels[t - 1], labels[t], tau, rows)
            change_weight(first + states[t - 1], states[t], -tau, rows)


@subkernel
def node_square(t, right, wrong, data, parents, nodes, signs, rows):
    """Return |Delta|^2 of an item of one position: of the nodes in which its labels differ, times its features."""
    total = 0.0
    for j in range(differing_nodes(right, wrong, parents, nodes, signs)):
        for e in range(data.indptr[t], data.indptr[t + 1]):
            value = data.values[e] if data.values.size > 0 else 1.0
            if not rows.is_fixed[rows.pattern_of[data.features[e]], nodes[j]]:
                total += value * value
    return total


@subkernel
def best_node(scores, parents, is_label, sums):
    """Return the label with the largest sum of scores on its way from the top; sums : float64 (K,), those sums, out."""
    best, most = -1, -np.inf
    for k in range(parents.size):
        sums[k] = scores[k] + (sums[parents[k]] if parents[k] >= 0 else 0.0)
        if is_label[k] and (sums[k] > most or best < 0):
            best, most = k, sums[k]
    return best


@subkernel
def adapt_weights(chosen, sums, loss, gamma, item_weight, rows):
    """Take AROW's step on an item: chosen : int64 (n,), rows; sums : float64 (n or more, width), Delta in each."""
    square = gamma
    for j in range(chosen.size):
        for k in range(sums.shape[1]):
            square += sums[j, k] * sums[j, k] * rows.variances[chosen[j], k]
    tau = item_weight * loss / square
    for j in range(chosen.size):
        for k in range(sums.shape[1]):
            variance = rows.variances[chosen[j], k]
            rows.weights[chosen[j], k] += tau * variance * sums[j, k]
            rows.variances[chosen[j], k] = variance * gamma / (gamma + variance * sums[j, k] * sums[j, k])


@kernel
def correct(order, data, structure, aggressiveness, rows):
    """Label each item of `order` and learn from its mistakes, by steps times its weight; `rows` change in place;
    aggressiveness : the largest step C of passive-aggressive learning, or AROW's gamma; 0 for the perceptron."""
    weights, counters, parents, mask = rows.weights, rows.counters, structure.parents, structure.mask
    n_states, width = parents.size, weights.shape[1]
    n_edge_rows = n_states if structure.is_chain else 0
    n_features = weights.shape[0] - n_edge_rows
    edges, adapts = weights[n_features:], rows.variances.shape[0] > 0
    needs_change = aggressiveness > 0.0 and (structure.is_chain or adapts)
    longest, most = largest_item(order, data)
    columns = new_item_columns(most, n_edge_rows, n_features, data.values.size == 0)
    scores, delta = aligned_rows(longest, width), aligned_rows(longest, width)
    change = aligned_rows(longest if needs_change else 0, width)
    edge_change, masked = aligned_rows(n_edge_rows, width), aligned_rows(n_edge_rows, width)
    sums = aligned_rows(min(most, n_features) + n_edge_rows if needs_change else 0, width)
    best, nodes, signs = np.empty(longest, np.int32), np.empty(2 * n_states, np.int64), np.empty(2 * n_states)
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        length, labels, states = b - a, data.targets[a:b], best[: b - a]
        scores[:length] = 0.0
        for t in range(length):
            add_picked(
                scores[t], weights, data.features, data.indptr[a + t], data.indptr[a + t + 1], data.values
            )
        if structure.is_chain:
            label_item(scores[:length], add_mask(edges, mask, masked), mask, delta[:length], states)
        else:
            states[0] = best_node(scores[0], parents, structure.is_label, delta[0])
        n_wrong = 0
        for t in range(length):
            n_wrong += labels[t] != states[t]
        if n_wrong > 0:
            tau = data.weights[i]
            if aggressiveness > 0.0:
                if structure.is_chain:
                    excess = lead(labels, states, scores[:length], edges)
                else:
                    excess = delta[0, states[0]] - delta[0, labels[0]]
                chosen, square = columns.present[:0], 0.0
                if needs_change:
                    item_change(labels, states, parents, nodes, signs, change[:length], edge_change)
                    n = transpose_item(a, b, data, columns)
                    chosen = change_by_row(n, columns, change, edge_change, n_features, sums)
                    square = free_square(chosen, sums, rows)
                else:
                    square = node_square(a, labels[0], states[0], data, parents, nodes, signs, rows)
                if adapts:
                    adapt_weights(chosen, sums, excess + n_wrong, aggressiveness, tau, rows)
                tau *= step_size(aggressiveness, excess + np.sqrt(n_wrong), square)
            if not adapts:
                correct_item(a, labels, states, tau, data, parents, nodes, signs, n_features, rows)
        counters[N_SEEN] += 1.0
        counters[N_WRONG] += n_wrong
