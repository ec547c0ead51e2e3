"""Stochastic gradient steps on single items of a chain or a taxonomy, with the lazy L1 penalty.

Tsuruoka, Tsujii and Ananiadou (2009), Figure 2. With u the penalty that every weight could have received until now and
q_j the one that weight j has received, ApplyPenalty is

    w_j > 0:  w_j' = max(0, w_j - (u + q_j)),     w_j < 0:  w_j' = min(0, w_j + (u - q_j)),     q_j += w_j' - w_j

An item touches the rows of its features only. All that has accrued since a row was last used is applied before its
weights are used, so that the iterates are those of a penalty applied to all weights after every step. (In print it
comes after the step only, and the weights of a rare feature are used without the penalty that they lack.) The quadratic
penalty shrinks every weight in every step: it sits in the scale s: w = s v, with v, u and q in units of s.

Memory: a step walks some thousand rows in no order that the processor could foresee, so weights and penalties of a row
lie side by side.

The recursions are those of `kernels/forward_backward.py` and `kernels/taxonomy.py`, for a single item: scores come
position by position, so nothing is transposed. Edge rows belong to every item, and come after those of the features.

Shapes: as in `item_kernels.py`; an item has n features. rates: float64 (4,), eta0, N, l1, l2.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE, add_outer, exponentiate_edges, pass_messages
from crfqn.kernels.logarithms import NO_TABLES, log_item
from crfqn.kernels.rows import add_picked, exp_in_place
from crfqn.kernels.taxonomy import tile_down, tile_exponentials, tile_up
from crfqn.kernels.viterbi import add_mask, mask_ends
from crfqn.solvers.stochastic.item_kernels import score_position

STEPS, DUE, SCALE = 0, 1, 2  # places in `counters`
ETA0, ITEMS, L1, L2 = 0, 1, 2, 3  # places in `rates`
SMALLEST_SCALE = 1e-30
NOTHING = 1e-300  # in the place of u = 0: infinite shares times 0 would be no number


class LazyRows(NamedTuple):
    """Weights with the penalties that they have received.

    table : float64 (rows, 2 width), a row a feature, then a row for each state that an edge comes from: the weights v,
        zeros up to `width`, the penalties q received, zeros
    shares : float64 (patterns, width), 1 for a penalised weight, 0 for an unpenalised one, infinity for one that stays
        zero
    pattern_of : int32 (rows,), each row's pattern; pattern 0 has no unpenalised weights
    counters : float64 (3,), steps done, accrued penalty u, scale s
    """

    table: np.ndarray
    shares: np.ndarray
    pattern_of: np.ndarray
    counters: np.ndarray


class ItemColumns(NamedTuple):
    """Entries of one item by feature, with room for the largest item: scratch, made in Python.

    present : int64, the item's features, from the first on; behind them, in chains, the rows of the edges
    first_of : int64, the j-th feature has the entries first_of[j] ... first_of[j + 1] - 1
    positions, x : int32, by entry, counted from the item's first position; float64, the value, (0,) where all are 1
    index_of : int32 (F,), -1 between uses: each feature's index in `present`
    """

    present: np.ndarray
    first_of: np.ndarray
    positions: np.ndarray
    x: np.ndarray
    index_of: np.ndarray


class ChainSpace(NamedTuple):
    """Scratch of a chain's longest item of T positions, made in Python, on the boundaries of cache lines.

    by_position : float64 (5, T, width): psi, alpha, the scores, and what `infer_item` writes, once or twice
    by_pair : float64 (7, width, width): the edges, the same with what is forbidden, M, its transpose, the transitions
        that `infer_item` counts, once or twice; and a gradient in the first row of the last
    norms : float64 (T,)
    """

    by_position: np.ndarray
    by_pair: np.ndarray
    norms: np.ndarray


PSI, ALPHA, SCORES, RESULT = 0, 1, 2, 3  # places in `by_position`
EDGES, MASKED, M, M_TRANSPOSED, COUNTS, GRADIENT = 0, 1, 2, 3, 4, 6  # places in `by_pair`


@inner
def apply_lazy_penalty_to_row(row, share, accrued):
    """Apply the accrued penalty to one row (ApplyPenalty).

    Both cases of the sign are added up, since the other one's is 0: a branch would become a masked store, several times
    slower. Comparisons let NaN pass, so that a run that diverges is noticed.
    """
    width = share.size
    weights, received = row[:width], row[width:]
    for k in range(width):
        z, q, u = weights[k], received[k], accrued * share[k]
        # Rounding may leave u - |q| a little below 0: a weight of 0 must not move for that.
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
    """v -= scaled_eta * gradient, scaled_eta = eta / s; unpenalised weights have no scale."""
    for k in range(share.size):
        row[k] -= (scaled_eta if share[k] > 0.0 else eta) * gradient[k]


@subkernel
def apply_lazy_penalty_to_rows(chosen, rows):
    """Apply the accrued penalty to the rows `chosen`; rows : LazyRows."""
    table, accrued = rows.table, max(rows.counters[DUE], NOTHING)
    for row in chosen:
        apply_lazy_penalty_to_row(table[row], rows.shares[rows.pattern_of[row]], accrued)


@kernel
def apply_lazy_penalty(rows):
    """Apply the accrued penalty to every row and return to s = 1; rows : LazyRows."""
    table, shares, pattern_of, counters = rows
    accrued, scale, width = max(counters[DUE], NOTHING), counters[SCALE], shares.shape[1]
    for r in range(table.shape[0]):
        row, share = table[r], shares[pattern_of[r]]
        apply_lazy_penalty_to_row(row, share, accrued)
        if scale != 1.0:
            for k in range(width):
                factor = scale if share[k] > 0.0 else 1.0
                row[k] *= factor
                row[width + k] *= factor
    counters[DUE] *= scale
    counters[SCALE] = 1.0


@subkernel
def transpose_item(a, b, data, columns):
    """Sort the entries of the positions a ... b - 1 by feature into `columns`; returns the number of features."""
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
    # Each feature's start moves to its end; then all go back by one place.
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
def score_item(a, b, n, data, columns, rows, scores):
    """scores[t] = sum_f x_tf w_f for the positions t of an item, to whose n features the penalty has been applied."""
    table, scale, x, first_of = rows.table, rows.counters[SCALE], columns.x, columns.first_of
    for t in range(b - a):
        score_position(a + t, data, table, scores[t])
        for k in range(scores.shape[1]):
            scores[t, k] *= scale
    if scale == 1.0:
        return
    for j in range(n):  # unpenalised weights have no scale
        row = columns.present[j]
        share = rows.shares[rows.pattern_of[row]]
        if rows.pattern_of[row] > 0:
            for e in range(first_of[j], first_of[j + 1]):
                missing, t = (1.0 - scale) * (x[e] if x.size > 0 else 1.0), columns.positions[e]
                for k in range(share.size):
                    scores[t, k] += missing * table[row, k] if share[k] == 0.0 else 0.0


@subkernel
def learn_features(n, columns, residual, gradient, rows, eta, scaled_eta):
    """Take a gradient step on the rows of an item's n features; residual : float64 (positions, width), of the item;
    gradient : float64 (width,), scratch."""
    table, chosen, first_of = rows.table, columns.present[:n], columns.first_of
    for j in range(n):
        for k in range(gradient.size):
            gradient[k] = 0.0
        add_picked(gradient, residual, columns.positions, first_of[j], first_of[j + 1], columns.x)
        row = chosen[j]
        step_row(table[row], rows.shares[rows.pattern_of[row]], gradient, eta, scaled_eta)


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
def load_item(i, first_edge, data, columns, rows, scores):
    """Prepare item i and write its scores: sort its entries by feature, apply the penalty to the rows of its features
    and to those of the edges, from `first_edge` on; returns the number of its features."""
    a, b = data.offsets[i], data.offsets[i + 1]
    n, n_edge_rows = transpose_item(a, b, data, columns), rows.table.shape[0] - first_edge
    for j in range(n_edge_rows):
        columns.present[n + j] = first_edge + j
    apply_lazy_penalty_to_rows(columns.present[: n + n_edge_rows], rows)
    score_item(a, b, n, data, columns, rows, scores)
    return n


@subkernel
def learn_item(n, first_edge, columns, residual, edge_counts, gradient, rows, rates):
    """Take a gradient step on the rows of an item's n features and on those of the edges; the penalty that is due
    grows. Returns whether the scale has become too small."""
    table, counters = rows.table, rows.counters
    eta = rates[ETA0] / (1.0 + counters[STEPS] / rates[ITEMS])
    scaled_eta = eta / counters[SCALE]
    learn_features(n, columns, residual, gradient, rows, eta, scaled_eta)
    for row in range(first_edge, table.shape[0]):
        share = rows.shares[rows.pattern_of[row]]
        step_row(table[row], share, edge_counts[row - first_edge], eta, scaled_eta)
    counters[DUE] += eta * rates[L1] / (rates[ITEMS] * counters[SCALE])
    counters[SCALE] /= 1.0 + eta * rates[L2] / rates[ITEMS]  # the quadratic penalty's proximal step
    counters[STEPS] += 1.0
    return not counters[SCALE] > SMALLEST_SCALE


@subkernel
def infer_item(scores, edges, weight, space, result):
    """Write weight * node marginals and weight * expected transitions to by_position[RESULT + result] and
    by_pair[COUNTS + result] of the space."""
    length, width = scores.shape
    psi, alpha = space.by_position[PSI, :length], space.by_position[ALPHA, :length]
    p, edge_counts = space.by_position[RESULT + result, :length], space.by_pair[COUNTS + result]
    m, m_transposed, n_states = space.by_pair[M], space.by_pair[M_TRANSPOSED], edges.shape[0]
    for j in range(n_states):
        for k in range(width):
            edge_counts[j, k] = 0.0
    widest = centre_scores(scores, n_states, psi)
    largest_edge, smallest_edge = exponentiate_edges(edges, m, m_transposed)
    log_scale = np.nan
    if widest + 2 * (largest_edge - smallest_edge) < LARGEST_RANGE:
        log_scale = pass_messages(psi, m, m_transposed, NO_TABLES, n_states, alpha, space.norms, p, weight)
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


@kernel
def learn_chains(order, data, mask, relevance, rows, rates, columns, space):
    """Take a step on each item of `order` while the scale is in range; returns the number of steps; table and counters
    of `rows` change in place. relevance : float64 (positions, K), 0 for labels that are not possible, or (0, K): those
    of `data.targets` are; mask : TransitionMask."""
    n_states, width, scale = relevance.shape[1], rows.shares.shape[1], rows.counters
    first_edge, is_partial = rows.table.shape[0] - n_states, relevance.shape[0] > 0
    for done in range(order.size):
        i = order[done]
        a, b, weight = data.offsets[i], data.offsets[i + 1], data.weights[i]
        scores = space.by_position[SCORES, : b - a]
        n = load_item(i, first_edge, data, columns, rows, scores)
        for j in range(n_states):
            share = rows.shares[rows.pattern_of[first_edge + j]]
            for k in range(width):
                space.by_pair[EDGES, j, k] = rows.table[first_edge + j, k] * (
                    scale[SCALE] if share[k] > 0.0 else 1.0
                )
        edges = add_mask(space.by_pair[EDGES, :n_states], mask, space.by_pair[MASKED, :n_states])
        if b > a:
            mask_ends(scores, mask)
        residual, counts = space.by_position[RESULT, : b - a], space.by_pair[COUNTS]
        for result in range(2 if is_partial else 1):  # all labellings, then those that fit
            if result == 1:
                for t in range(b - a):
                    for k in range(n_states):
                        scores[t, k] = -np.inf if relevance[a + t, k] == 0.0 else scores[t, k]
            infer_item(scores, edges, weight, space, result)
        if is_partial:
            for t in range(b - a):
                for k in range(width):
                    residual[t, k] -= space.by_position[RESULT + 1, t, k]
            for j in range(n_states):
                for k in range(width):
                    counts[j, k] -= space.by_pair[COUNTS + 1, j, k]
        else:
            for t in range(a, b):
                residual[t - a, data.targets[t]] -= weight
                if t > a:
                    counts[data.targets[t - 1], data.targets[t]] -= weight
        if learn_item(n, first_edge, columns, residual, counts, space.by_pair[GRADIENT, 0], rows, rates):
            return done + 1
    return order.size


@kernel
def learn_documents(order, data, structure, rows, rates, columns, space):
    """Take a step on each item of a taxonomy, as `learn_chains` does on chains; space : float64 (5, width), scratch.

    The residual of a node is weight * (P(the label is k or under it) - [the target is]).
    """
    parents, is_label, n_rows = structure.parents, structure.is_label, rows.table.shape[0]
    n_nodes = parents.size
    scores, residual, gradient = space[0:1], space[1:2], space[2]
    tile, shifted = space[3, :n_nodes], space[4, :n_nodes]
    largest, total, expected = np.empty(1), np.empty(1), np.empty(1)
    for done in range(order.size):
        i = order[done]
        n = load_item(i, n_rows, data, columns, rows, scores)
        tile_down(0, 1, parents, is_label, space[0, :n_nodes].reshape(n_nodes, 1), tile, largest)
        tile_exponentials(1, is_label, tile, largest, expected, shifted)
        tile_up(1, parents, tile, total)
        weight, k = data.weights[i], data.targets[data.offsets[i]]
        for node in range(n_nodes):
            residual[0, node] = weight * (tile[node] / total[0])
        while k >= 0:
            residual[0, k] -= weight
            k = parents[k]
        if learn_item(n, n_rows, columns, residual, residual, gradient, rows, rates):
            return done + 1
    return order.size
