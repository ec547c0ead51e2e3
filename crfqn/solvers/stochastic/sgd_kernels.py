"""Stochastic gradient steps over chains and taxonomies: the inference of one item, then its step.

The recursions are those of `kernels/forward_backward.py` and `kernels/taxonomy.py`, for a single item: scores come
position by position, so nothing is transposed. Edge rows belong to every item, and come after those of the features.
Shapes: as in `item_kernels.py`; T positions of an item of a chain; K nodes of a taxonomy.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE, add_outer, padded_edges, pass_messages
from crfqn.kernels.logarithms import NO_TABLES, log_item
from crfqn.kernels.rows import aligned_rows, copy_rows, exp_in_place
from crfqn.kernels.taxonomy import tile_down, tile_exponentials, tile_up
from crfqn.kernels.viterbi import add_mask, mask_ends
from crfqn.solvers.stochastic.item_kernels import (
    SCALE,
    apply_lazy_penalty_to_rows,
    end_step,
    largest_item,
    learn_features,
    learning_rate,
    new_item_columns,
    score_item,
    step_row,
    transpose_item,
)


@subkernel
def centre_scores(scores, n_states, psi):
    """Write psi = exp(score - largest score of the position), 0 for -inf; returns the widest range of a position's
    scores, without those of -inf."""
    length, width = scores.shape
    widest = 0.0
    for t in range(length):
        largest = scores[t, 0]
        for k in range(n_states):
            largest = scores[t, k] if scores[t, k] > largest else largest
        smallest = largest
        for k in range(n_states):
            smallest = scores[t, k] if -np.inf < scores[t, k] < smallest else smallest
        widest = largest - smallest if largest - smallest > widest else widest
        for k in range(width):
            psi[t, k] = scores[t, k] - largest if k < n_states else 0.0
    exp_in_place(psi.reshape(length * width))
    for t in range(length):
        for k in range(width):
            psi[t, k] = psi[t, k] if k < n_states and scores[t, k] != -np.inf else 0.0
    return widest


@subkernel
def load_edges(chosen, rows, edges):
    """Write the edge weights s v of the rows `chosen` into edges, float64 (K, width)."""
    scale = rows.counters[SCALE]
    for j in range(chosen.size):
        row = chosen[j]
        share = rows.shares[rows.pattern_of[row]]
        for k in range(share.size):
            edges[j, k] = rows.table[row, k] * (scale if share[k] > 0.0 else 1.0)


@subkernel
def infer_item(scores, edges, weight, psi, alpha, scale, p, edge_counts):
    """Write weight * node marginals to p (T, width), weight * expected transitions to edge_counts (width, width)."""
    length, width = scores.shape
    n_states = edges.shape[0]
    for j in range(n_states):
        for k in range(width):
            edge_counts[j, k] = 0.0
    widest = centre_scores(scores, n_states, psi)
    m, m_transposed, largest_edge, smallest_edge = padded_edges(edges)
    log_scale = np.nan
    if widest + 2 * (largest_edge - smallest_edge) < LARGEST_RANGE:
        log_scale = pass_messages(psi, m, m_transposed, NO_TABLES, n_states, alpha, scale, p, weight)
    if not np.isnan(log_scale):
        add_outer(alpha, psi, length, edge_counts, n_states)
        for j in range(n_states):
            for k in range(n_states):
                edge_counts[j, k] *= m[j, k]
    else:
        by_state = np.ascontiguousarray(scores[:, :n_states].T)
        log_item(by_state, edges, NO_TABLES, np.int64(0), weight, psi, alpha, p, edge_counts)
    for t in range(length):
        for k in range(width):
            p[t, k] *= weight


@subkernel
def subtract_labels(labels, weight, residual, edge_counts):
    """Subtract the observed labels and transitions, times the item's weight, from the expected ones."""
    for t in range(labels.size):
        residual[t, labels[t]] -= weight
        if t > 0:
            edge_counts[labels[t - 1], labels[t]] -= weight


@subkernel
def forbid_labels(relevance, scores):
    """Write -inf to the scores of labels that are not possible."""
    for t in range(relevance.shape[0]):
        for k in range(relevance.shape[1]):
            if relevance[t, k] == 0.0:
                scores[t, k] = -np.inf


@subkernel
def subtract_from(whole, part):
    """Replace `part` by whole - part, in all rows of `whole`."""
    for j in range(whole.shape[0]):
        for k in range(whole.shape[1]):
            part[j, k] = whole[j, k] - part[j, k]


@subkernel
def node_residual(scores, parents, is_label, target, weight, tile, shifted, residual):
    """residual[k] = weight * (P(the label is k or under it) - [the target is]), float64 (width,); tile, shifted :
    float64 (K,), scratch."""
    n_nodes = parents.size
    largest, total, expected = np.empty(1), np.empty(1), np.empty(1)
    tile_down(0, 1, parents, is_label, scores[:n_nodes].reshape(n_nodes, 1), tile, largest)
    tile_exponentials(1, is_label, tile, largest, expected, shifted)
    tile_up(1, parents, tile, total)
    for k in range(n_nodes):
        residual[k] = weight * (tile[k] / total[0])
    k = target
    while k >= 0:
        residual[k] -= weight
        k = parents[k]


@kernel
def learn(order, data, structure, relevance, rows, rates):
    """Take a step on each item of `order` while the scale is in range; returns the number of steps; table and counters
    of `rows` change in place. relevance : float64 (positions, K), 0 for labels that are not possible, or (0, K): those
    of `data.targets` are."""
    table, shares, pattern_of, counters = rows
    is_chain, mask = structure.is_chain, structure.mask
    n_states, width = structure.parents.size, shares.shape[1]
    n_edge_rows = n_states if is_chain else 0
    n_features = table.shape[0] - n_edge_rows
    longest, most = largest_item(order, data)
    columns = new_item_columns(most, n_edge_rows, n_features, data.values.size == 0)
    scores, psi = aligned_rows(longest, width), aligned_rows(longest, width)
    alpha, p = aligned_rows(longest, width), aligned_rows(longest, width)
    side = width if is_chain else 0
    edge_counts, gradient = aligned_rows(side, width), aligned_rows(1, width)[0]
    scale, edge_rows = np.empty(longest), n_features + np.arange(n_edge_rows)
    edges = aligned_rows(n_edge_rows, width)
    masked, free_counts = aligned_rows(n_edge_rows, width), aligned_rows(side, width)
    is_partial = relevance.shape[0] > 0
    free = aligned_rows(longest if is_partial else 0, width)
    tile, shifted = np.empty(n_states), np.empty(n_states)
    for done in range(order.size):
        i = order[done]
        a, b = data.offsets[i], data.offsets[i + 1]
        length, weight = b - a, data.weights[i]
        n = transpose_item(a, b, data, columns)
        for k in range(n_edge_rows):
            columns.present[n + k] = edge_rows[k]
        apply_lazy_penalty_to_rows(columns.present[: n + n_edge_rows], rows)
        score_item(a, b, n, data, columns, rows, scores[:length])
        if is_chain:
            load_edges(edge_rows, rows, edges)
            if length > 0:
                mask_ends(scores[:length], mask)
            allowed_edges = add_mask(edges, mask, masked)
            for turn in range(2 if is_partial else 1):  # all labellings, and those that fit
                if turn == 1:
                    copy_rows(free, p[:length])
                    copy_rows(free_counts, edge_counts)
                    forbid_labels(relevance[a:b], scores)
                infer_item(
                    scores[:length], allowed_edges, weight, psi[:length], alpha[:length], scale, p[:length], edge_counts
                )  # fmt: skip
            if is_partial:
                subtract_from(free[:length], p)
                subtract_from(free_counts, edge_counts)
            else:
                subtract_labels(data.targets[a:b], weight, p, edge_counts)
        else:
            node_residual(
                scores[0], structure.parents, structure.is_label, data.targets[a], weight, tile, shifted, p[0]
            )
        eta = learning_rate(counters, rates)
        scaled_eta = eta / counters[SCALE]
        learn_features(n, columns, p, gradient, rows, eta, scaled_eta)
        for j in range(n_edge_rows):
            row = edge_rows[j]
            step_row(table[row], shares[pattern_of[row]], edge_counts[j], eta, scaled_eta)
        if not end_step(eta, counters, rates):
            return done + 1
    return order.size
