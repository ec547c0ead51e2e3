"""Stochastic gradient steps on single items of a chain or a taxonomy, with the lazy L1 penalty.

Tsuruoka, Tsujii and Ananiadou (2009), Figure 2. Let u be the total penalty accrued so far and q_j the part of it that
weight j has received. Then ApplyPenalty is

    w_j > 0:  w_j' = max(0, w_j - (u + q_j)),     w_j < 0:  w_j' = min(0, w_j + (u - q_j)),     q_j += w_j' - w_j

A step reads and writes the rows of the item's features only. The penalty that has accrued since a row was last used is
applied before its weights are used, so that the iterates equal those with the penalty applied to all weights after
every step. (The paper applies it after the step only, so that the weights of rare features are used without it.) The
quadratic penalty shrinks all weights in every step by the common scale s: w = s v, with v, u and q in units of s.

Weights and received penalties of a row are adjacent in memory, since the rows of a step are in no predictable order.
The recursions are those of `kernels/forward_backward.py` and `kernels/taxonomy.py`, for a single item by position. All
items have the edge rows, which come after those of the features.

Shapes: as in `item_kernels.py`; an item has n features.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import MAX_SCORE_RANGE, add_outer, exponentiate_edges, pass_messages
from crfqn.kernels.logarithms import NO_TABLES, log_item
from crfqn.kernels.rows import add_picked, exp_in_place
from crfqn.kernels.taxonomy import tile_down, tile_exponentials, tile_up
from crfqn.kernels.viterbi import add_mask, mask_ends
from crfqn.solvers.stochastic.item_kernels import score_position

STEPS, ACCRUED, SCALE = 0, 1, 2  # indices in `LearnedWeights.counters`
ETA0, N_ITEMS, L1, L2 = 0, 1, 2, 3  # indices in `rates`
# The value of s below which the penalty is applied to all weights and s is 1 again: a numerical guard.
MIN_SCALE = 1e-30
MIN_ACCRUED = 1e-300  # replaces u = 0, since an infinite share times 0 is nan: a numerical guard


class ItemColumns(NamedTuple):
    """Entries of one item by feature: scratch for the largest item, allocated in Python.

    present : int64, the features of the item, followed by the rows of the edges of a chain
    first_of : int64, the j-th feature has the entries first_of[j] ... first_of[j + 1] - 1
    positions, x : int32, float64: the position of each entry within the item, and its value; x is (0,) if all are 1
    index_of : int32 (F,), the index of each feature in `present`; -1 between calls
    """

    present: np.ndarray
    first_of: np.ndarray
    positions: np.ndarray
    x: np.ndarray
    index_of: np.ndarray


class GradientSteps(NamedTuple):
    """The arguments of gradient steps besides items, weights and scratch.

    rates : float64 (4,), eta0, N, l1, l2
    relevance : as of `chain_residual`, None for taxonomies; parents : as of the structure, None for chains
    columns : ItemColumns
    """

    rates: np.ndarray
    relevance: np.ndarray | None
    parents: np.ndarray | None
    columns: ItemColumns


@inner
def apply_lazy_penalty_to_row(row, share, accrued):
    """Apply the accrued penalty to one row (ApplyPenalty).

    The results of both cases of the sign are added, one of which is 0: a branch would become a masked store, which is
    several times slower. Comparisons keep NaN, so that divergence is detected.
    """
    width = share.size
    weights, received = row[:width], row[width:]
    for k in range(width):
        z, q, u = weights[k], received[k], accrued * share[k]
        # u - |q| may be slightly below 0 by rounding, and must not move a weight of 0.
        from_above, from_below = u + q, u - q
        from_above = 0.0 if from_above < 0.0 else from_above
        from_below = 0.0 if from_below < 0.0 else from_below
        positive, negative = z - from_above, z + from_below
        positive = 0.0 if positive < 0.0 else positive
        negative = 0.0 if negative > 0.0 else negative
        shrunk = positive + negative
        weights[k] = shrunk
        received[k] = q + (shrunk - z)


@inner
def step_row(row, share, gradient, eta, scaled_eta):
    """Subtract scaled_eta * gradient from v, scaled_eta = eta / s; unpenalised weights have no scale."""
    for k in range(share.size):
        row[k] -= (scaled_eta if share[k] > 0.0 else eta) * gradient[k]


@kernel
def apply_lazy_penalty(rows):
    """Apply the accrued penalty to every row and rescale them to s = 1; rows : LearnedWeights."""
    table, _, _, shares, pattern_of, counters = rows
    accrued, scale, width = max(counters[ACCRUED], MIN_ACCRUED), counters[SCALE], shares.shape[1]
    for r in range(table.shape[0]):
        row, share = table[r], shares[pattern_of[r]]
        apply_lazy_penalty_to_row(row, share, accrued)
        if scale != 1.0:
            for k in range(width):
                factor = scale if share[k] > 0.0 else 1.0
                row[k] *= factor
                row[width + k] *= factor
    counters[ACCRUED] *= scale
    counters[SCALE] = 1.0


@subkernel
def transpose_item(a, b, data, columns):
    """Sort the entries of the positions a ... b - 1 by feature into `columns`; return the number of features."""
    indptr, features, values = data.indptr, data.features, data.values
    present, first_of, index_of = columns.present, columns.first_of, columns.index_of
    n = 0
    for e in range(indptr[a], indptr[b]):
        f = features[e]
        if index_of[f] < 0:
            index_of[f], present[n], first_of[n + 1] = n, f, 0
            n += 1
        first_of[index_of[f] + 1] += 1
    first_of[0] = 0
    for j in range(n):
        first_of[j + 1] += first_of[j]
    # Each feature's start moves to its end; then all are shifted by one place.
    for t in range(b - a):
        for e in range(indptr[a + t], indptr[a + t + 1]):
            j = index_of[features[e]]
            columns.positions[first_of[j]] = t
            if values.size > 0:
                columns.x[first_of[j]] = values[e]
            first_of[j] += 1
    for j in range(n, 0, -1):
        first_of[j] = first_of[j - 1]
        index_of[present[j - 1]] = -1
    first_of[0] = 0
    return n


@subkernel
def centre_scores(scores, n_states, psi):
    """Write psi = exp(score - largest score of the position), 0 for -inf; return the largest range of the finite scores
    of a position."""
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
def infer_item(scores, edges, weight, space, result):
    """Write weight * node marginals to space.residuals[result], and weight * expected transitions to
    space.counts[result]."""
    length, width = scores.shape
    psi, alpha = space.psi[:length], space.alpha[:length]
    p, edge_counts = space.residuals[result, :length], space.counts[result]
    m, m_transposed, n_states = space.m, space.m_transposed, edges.shape[0]
    for j in range(n_states):
        for k in range(width):
            edge_counts[j, k] = 0.0
    widest = centre_scores(scores, n_states, psi)
    largest_edge, smallest_edge = exponentiate_edges(edges, m, m_transposed)
    log_scale = np.nan
    if widest + 2 * (largest_edge - smallest_edge) < MAX_SCORE_RANGE:
        log_scale = pass_messages(psi, m, m_transposed, NO_TABLES, n_states, alpha, space.numbers, p, weight)
    if not np.isnan(log_scale):
        add_outer(alpha, psi, length, edge_counts, n_states)
        for j in range(n_states):
            for k in range(n_states):
                edge_counts[j, k] *= m[j, k]
    else:
        by_state = np.empty((n_states, length))
        for k in range(n_states):
            for t in range(length):
                by_state[k, t] = scores[t, k]
        log_item(by_state, edges, NO_TABLES, np.int64(0), weight, psi, alpha, p, edge_counts)
    for t in range(length):
        for k in range(width):
            p[t, k] *= weight


@subkernel(counts=False)
def chain_residual(i, data, mask, relevance, rows, scores, space):
    """Write the residual of a chain, weight * (marginals - marginals of the observed labels), to residuals[0], and that
    of its transitions to counts[0]. relevance : float64 (positions, K), 0 for labels that are not possible; (0, K) if
    the labels are those of `data.targets`; None if the structure is no chain; mask : TransitionMask."""
    if relevance is None:
        return
    a, weight, length, width = data.offsets[i], data.weights[i], *scores.shape
    n_states, is_partial = relevance.shape[1], relevance.shape[0] > 0
    first_edge = rows.weights.shape[0] - n_states
    for j in range(n_states):
        share = rows.shares[rows.pattern_of[first_edge + j]]
        for k in range(width):
            space.edges[j, k] = rows.weights[first_edge + j, k] * (
                rows.counters[SCALE] if share[k] > 0.0 else 1.0
            )
    edges = add_mask(space.edges[:n_states], mask, space.masked[:n_states])
    if length > 0:
        mask_ends(scores, mask)
    residual, counts = space.residuals[0, :length], space.counts[0]
    for result in range(2 if is_partial else 1):  # all labellings, then those that the labels allow
        if result == 1:
            for t in range(length):
                for k in range(n_states):
                    scores[t, k] = -np.inf if relevance[a + t, k] == 0.0 else scores[t, k]
        infer_item(scores, edges, weight, space, result)
    if is_partial:
        for t in range(length):
            for k in range(width):
                residual[t, k] -= space.residuals[1, t, k]
        for j in range(n_states):
            for k in range(width):
                counts[j, k] -= space.counts[1, j, k]
    else:
        for t in range(length):
            residual[t, data.targets[a + t]] -= weight
            if t > 0:
                counts[data.targets[a + t - 1], data.targets[a + t]] -= weight


@subkernel
def node_residual(i, data, parents, is_label, space):
    """Write the residual of a taxonomy's item to residuals[0]: weight * (the probability that the label is node k or
    below it - 1 if the target is, else 0). parents : None if the structure is no taxonomy."""
    if parents is None:
        return
    n_nodes = parents.size
    tile, shifted = space.psi[0, :n_nodes], space.alpha[0, :n_nodes]
    scores, residual = space.scores[0, :n_nodes], space.residuals[0, 0]
    largest, total, expected = np.empty(1), np.empty(1), np.empty(1)
    tile_down(0, 1, parents, is_label, scores.reshape(n_nodes, 1), tile, largest)
    tile_exponentials(1, is_label, tile, largest, expected, shifted)
    tile_up(1, parents, tile, total)
    weight, k = data.weights[i], data.targets[data.offsets[i]]
    for node in range(n_nodes):
        residual[node] = weight * (tile[node] / total[0])
    while k >= 0:
        residual[k] -= weight
        k = parents[k]


@subkernel(counts=False)
def follow_gradient(i, data, structure, rows, gradient_steps, space):
    """Take a gradient step on item i; return whether the scale has become too small."""
    rates, relevance, parents, columns = gradient_steps
    table, _, _, shares, pattern_of, counters = rows
    first_of, x = columns.first_of, columns.x
    a, b, scale = data.offsets[i], data.offsets[i + 1], counters[SCALE]
    scores, gradient = space.scores[: b - a], space.gradient[0]
    residual, edge_counts = space.residuals[0, : b - a], space.counts[0]
    n, n_edge_rows = transpose_item(a, b, data, columns), structure.parents.size if structure.is_chain else 0
    first_edge, accrued = table.shape[0] - n_edge_rows, max(counters[ACCRUED], MIN_ACCRUED)
    for j in range(n_edge_rows):
        columns.present[n + j] = first_edge + j
    for row in columns.present[: n + n_edge_rows]:
        apply_lazy_penalty_to_row(table[row], shares[pattern_of[row]], accrued)
    for t in range(b - a):
        score_position(a + t, data, table, scores[t])
        for k in range(scores.shape[1]):
            scores[t, k] *= scale
    for j in range(n if scale != 1.0 else 0):  # unpenalised weights have no scale
        row = columns.present[j]
        share = shares[pattern_of[row]]
        for e in range(first_of[j], first_of[j + 1] if pattern_of[row] > 0 else first_of[j]):
            missing, t = (1.0 - scale) * (x[e] if x.size > 0 else 1.0), columns.positions[e]
            for k in range(share.size):
                scores[t, k] += missing * table[row, k] if share[k] == 0.0 else 0.0
    chain_residual(i, data, structure.mask, relevance, rows, scores, space)
    node_residual(i, data, parents, structure.is_label, space)
    eta = rates[ETA0] / (1.0 + counters[STEPS] / rates[N_ITEMS])
    for j in range(n):
        for k in range(gradient.size):
            gradient[k] = 0.0
        add_picked(gradient, residual, columns.positions, first_of[j], first_of[j + 1], x)
        row = columns.present[j]
        step_row(table[row], shares[pattern_of[row]], gradient, eta, eta / scale)
    for row in range(first_edge, table.shape[0]):
        step_row(table[row], shares[pattern_of[row]], edge_counts[row - first_edge], eta, eta / scale)
    counters[ACCRUED] += eta * rates[L1] / (rates[N_ITEMS] * scale)
    counters[SCALE] /= 1.0 + eta * rates[L2] / rates[N_ITEMS]  # the quadratic penalty's proximal step
    counters[STEPS] += 1.0
    return not counters[SCALE] > MIN_SCALE
