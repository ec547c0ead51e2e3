"""Corrections of labelling mistakes, an item at a time: of chains, by `viterbi.py`'s recursion, and of taxonomies.

An item is labelled by the weights so far. Where the labelling y' differs from the observed y,

    w += tau Delta,    Delta = Phi(x, y) - Phi(x, y')

with tau = 1 for the perceptron (Collins 2002, Figure 2), and for passive-aggressive learning (Crammer et al. 2006,
PA-I) tau = min(C, l / |Delta|^2), l = score(y') - score(y) + sqrt(number of wrong positions). What is kept of all the
weights is their mean: with k = 0, 1, ... the items before a correction, sum_k w_k / n = w - (sum of k tau Delta) / n.

The features of a taxonomy's label are those of its node and of the nodes above: what both labels have above them stays.

Shapes: F features, K states or nodes, width = K rounded up to LANES. An item has the positions a ... b - 1 of all, T of
a chain. Of chains, the rows of the edges come after those of the features. Of taxonomies, parents : int32 (K,), -1 at
the top; is_label : bool (K,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.rows import add_picked, aligned_rows
from crfqn.kernels.viterbi import add_mask, came_from, extend_paths
from crfqn.solvers.stochastic.item_kernels import largest_item

N_SEEN, N_WRONG = 0, 1  # places in `counters`


class AveragedRows(NamedTuple):
    """Weights, and what their mean lacks.

    weights : float64 (rows, width), a row a feature, then a row for each state that an edge comes from
    corrections : float64 (rows, width), the sum of k tau Delta; (0, width) where no mean is kept
    is_fixed, pattern_of : bool (patterns, width), weights that stay zero; int32 (rows,), each row's pattern
    counters : float64 (2,), items seen, positions that were wrong
    """

    weights: np.ndarray
    corrections: np.ndarray
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


@subkernel
def squares_of(a, to, source, data, first, changes):
    """Return |X_i' (counts(to) - counts(source))|^2 of what `correct_item` has added to `changes`, zeros before and
    after."""
    total = 0.0
    for t in range(to.size):
        if to[t] != source[t]:
            for e in range(data.indptr[a + t], data.indptr[a + t + 1]):
                row = changes[data.features[e]]
                total += row[to[t]] * row[to[t]] + row[source[t]] * row[source[t]]
                row[to[t]] = row[source[t]] = 0.0
        if t > 0 and (to[t] != source[t] or to[t - 1] != source[t - 1]):
            for states in (to, source):
                row = changes[first + states[t - 1]]
                total += row[states[t]] * row[states[t]]
                row[states[t]] = 0.0
    return total


@kernel
def correct_chains(order, data, n_states, aggressiveness, rows, changes, mask):
    """Label each item of `order` and learn from its mistakes, by steps times its weight; `rows` change in place.

    aggressiveness : the largest step C of passive-aggressive learning; 0 for the perceptron
    changes : float64 like the weights, zeros, scratch; not used by the perceptron
    """
    weights, counters = rows.weights, rows.counters
    width, n_features = weights.shape[1], weights.shape[0] - n_states
    edges = weights[n_features:]
    change_rows = AveragedRows(changes, changes[:0], rows.is_fixed, rows.pattern_of, counters)
    longest, _ = largest_item(order, data)
    scores, delta = aligned_rows(longest, width), aligned_rows(longest, width)
    found, masked = np.empty(longest, np.int32), aligned_rows(n_states, width)
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        length, labels, states = b - a, data.targets[a:b], found[: b - a]
        scores[:length] = 0.0
        for t in range(length):
            add_picked(
                scores[t], weights, data.features, data.indptr[a + t], data.indptr[a + t + 1], data.values
            )
        label_item(scores[:length], add_mask(edges, mask, masked), mask, delta[:length], states)
        n_wrong = 0
        for t in range(length):
            n_wrong += labels[t] != states[t]
        if n_wrong > 0:
            tau = 1.0
            if aggressiveness > 0.0:
                correct_item(a, labels, states, 1.0, data, n_features, change_rows)
                square = squares_of(a, labels, states, data, n_features, changes)
                loss = lead(labels, states, scores[:length], edges) + np.sqrt(n_wrong)
                tau = step_size(aggressiveness, loss, square)
            correct_item(a, labels, states, tau * data.weights[i], data, n_features, rows)
        counters[N_SEEN] += 1.0
        counters[N_WRONG] += n_wrong


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
def mark_path(node, parents, amount, signs):
    """Add `amount` to the signs of a node and of those above it."""
    while node >= 0:
        signs[node] += amount
        node = parents[node]


@kernel
def correct_tree(order, data, parents, is_label, aggressiveness, rows):
    """Label each item of `order` and learn from its mistakes; parameters as in `correct_chains`."""
    weights, counters = rows.weights, rows.counters
    scores, sums = aligned_rows(1, weights.shape[1])[0], np.empty(parents.size)
    signs = np.zeros(parents.size)
    for i in order:
        t = data.offsets[i]
        scores[:] = 0.0
        add_picked(scores, weights, data.features, data.indptr[t], data.indptr[t + 1], data.values)
        right, found = data.targets[t], best_node(scores, parents, is_label, sums)
        if right != found:
            mark_path(right, parents, 1.0, signs)
            mark_path(found, parents, -1.0, signs)
            tau = 1.0
            if aggressiveness > 0.0:
                square = path_square(t, data, signs, right, parents, rows)
                square += path_square(t, data, signs, found, parents, rows)
                tau = step_size(aggressiveness, sums[found] - sums[right] + 1.0, square)
            correct_path(t, data, signs, right, parents, tau * data.weights[i], rows)
            correct_path(t, data, signs, found, parents, tau * data.weights[i], rows)
            mark_path(right, parents, -1.0, signs)
            mark_path(found, parents, 1.0, signs)
            counters[N_WRONG] += 1.0
        counters[N_SEEN] += 1.0


@subkernel
def path_square(t, data, signs, node, parents, rows):
    """Return a label's part of |Delta|^2: its nodes that the other label has not, times the item's features."""
    total, k = 0.0, node
    while k >= 0:
        if signs[k] != 0.0:
            for e in range(data.indptr[t], data.indptr[t + 1]):
                value = data.values[e] if data.values.size > 0 else 1.0
                if not rows.is_fixed[rows.pattern_of[data.features[e]], k]:
                    total += value * value
        k = parents[k]
    return total


@subkernel
def correct_path(t, data, signs, node, parents, tau, rows):
    """w += tau Delta for a node and those above it."""
    k = node
    while k >= 0:
        if signs[k] != 0.0:
            for e in range(data.indptr[t], data.indptr[t + 1]):
                value = data.values[e] if data.values.size > 0 else 1.0
                change_weight(data.features[e], k, tau * signs[k] * value, rows)
        k = parents[k]
