"""Stochastic gradient steps on single items of a chain or a taxonomy, with the lazy L1 penalty.

Tsuruoka, Tsujii and Ananiadou (2009), Figure 2. With u the penalty that every weight could have received until now and
q_j the one that weight j has received, ApplyPenalty is

    w_j > 0:  w_j' = max(0, w_j - (u + q_j)),     w_j < 0:  w_j' = min(0, w_j + (u - q_j)),     q_j += w_j' - w_j

An item touches the rows of its features only. All that has accrued since a row was last used is applied before its
weights are used, so that the iterates are those of a penalty applied to all weights after every step. (In print it
comes after the step only, and the weights of a rare feature are used without the penalty that they lack.) The quadratic
penalty shrinks every weight in every step: it sits in the scale s: w = s v, with v, u and q in units of s.

Memory: a step walks some thousand rows in no order that the processor could foresee, so weights and penalties of a row
lie side by side, and a row is fetched while those before it are worked on.

The recursions are those of `kernels/forward_backward.py` and `kernels/taxonomy.py`, for a single item: scores come
position by position, so nothing is transposed. Edge rows belong to every item, and come after those of the features.

Shapes: as in `item_kernels.py`; an item has n features. rates: float64 (4,), eta0, N, l1, l2.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE, add_outer, padded_edges, pass_messages
from crfqn.kernels.logarithms import NO_TABLES, log_item
from crfqn.kernels.numba_internals import prefetch
from crfqn.kernels.rows import add_picked, aligned_rows, exp_in_place
from crfqn.kernels.taxonomy import tile_down, tile_exponentials, tile_up
from crfqn.kernels.viterbi import add_mask, mask_ends
from crfqn.solvers.stochastic.item_kernels import largest_item, score_position

STEPS, DUE, SCALE = 0, 1, 2  # places in `counters`
ETA0, ITEMS, L1, L2 = 0, 1, 2, 3  # places in `rates`
SMALLEST_SCALE = 1e-30
NOTHING = 1e-300  # in the place of u = 0: infinite shares times 0 would be no number
AHEAD = 6  # rows between the one in work and the one fetched
WIDEST_FETCH = 256  # numbers of a row worth fetching: in longer rows the processor sees what comes next


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
    """Entries of one item by feature, with room for the largest item.

    present : int64, the item's features, from the first on; behind them, in chains, the rows of the edges
    first_of : int64, the j-th feature has the entries first_of[j] ... first_of[j + 1] - 1
    positions, x : int32, by entry, counted from the item's first position; float64, the value, (0,) where all are 1
    index_of : int32 (F,), -1 between uses: scratch, each feature's index in `present`
    """

    present: np.ndarray
    first_of: np.ndarray
    positions: np.ndarray
    x: np.ndarray
    index_of: np.ndarray


class ChainSpace(NamedTuple):
    """Scratch of the messages of a chain: psi, alpha, free, float64 (T, width); scale, float64 (T,); edges and masked,
    (K, width); free_counts, (width, width). `free` and `free_counts` belong to all labellings, of items whose labels
    are known in part."""

    psi: np.ndarray
    alpha: np.ndarray
    scale: np.ndarray
    edges: np.ndarray
    masked: np.ndarray
    free: np.ndarray
    free_counts: np.ndarray


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
    for j in range(chosen.size):
        if j + AHEAD < chosen.size and table.shape[1] <= WIDEST_FETCH:
            prefetch(table, chosen[j + AHEAD])
        row = chosen[j]
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
def new_item_columns(most, n_edge_rows, n_features, is_binary):
    """Return `ItemColumns` for items of up to `most` entries, and for so many rows of edges."""
    return ItemColumns(
        np.empty(most + n_edge_rows, np.int64), np.empty(most + 1, np.int64), np.empty(most, np.int32),
        np.empty(0 if is_binary else most), np.full(n_features, -1, np.int32),
    )  # fmt: skip


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
        if j + AHEAD < n and table.shape[1] <= WIDEST_FETCH:
            prefetch(table, chosen[j + AHEAD])
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
def chain_residual(labels, weight, relevance, edges, mask, scores, space, p, edge_counts):
    """Write weight * (expected - observed labels) to p (T, width), and the same of transitions to edge_counts (width,
    width); relevance : float64 (T, K), 0 for labels that are not possible, or (0, K) where `labels` are known; edges :
    those of `mask` included."""
    length = labels.size
    psi, alpha, scale = space.psi[:length], space.alpha[:length], space.scale
    if length > 0:
        mask_ends(scores, mask)
    if relevance.shape[0] == 0:
        infer_item(scores, edges, weight, psi, alpha, scale, p, edge_counts)
        for t in range(length):
            p[t, labels[t]] -= weight
            if t > 0:
                edge_counts[labels[t - 1], labels[t]] -= weight
        return
    free, free_counts = space.free[:length], space.free_counts
    infer_item(scores, edges, weight, psi, alpha, scale, free, free_counts)
    for t in range(length):
        for k in range(relevance.shape[1]):
            scores[t, k] = -np.inf if relevance[t, k] == 0.0 else scores[t, k]
    infer_item(scores, edges, weight, psi, alpha, scale, p, edge_counts)  # of all labellings that fit
    for whole, part in ((free, p), (free_counts, edge_counts)):
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
    n_states, width = structure.parents.size, shares.shape[1]
    n_edge_rows = n_states if structure.is_chain else 0
    n_features, side = table.shape[0] - n_edge_rows, width if structure.is_chain else 0
    edge_rows = n_features + np.arange(n_edge_rows)
    longest, most = largest_item(order, data)
    columns = new_item_columns(most, n_edge_rows, n_features, data.values.size == 0)
    scores, residual = aligned_rows(longest, width), aligned_rows(longest, width)
    edge_counts, gradient = aligned_rows(side, width), aligned_rows(1, width)[0]
    space = ChainSpace(
        aligned_rows(longest, width), aligned_rows(longest, width), np.empty(longest),
        aligned_rows(n_edge_rows, width), aligned_rows(n_edge_rows, width),
        aligned_rows(longest if relevance.shape[0] > 0 else 0, width), aligned_rows(side, width),
    )  # fmt: skip
    tile, shifted = np.empty(n_states), np.empty(n_states)
    for done in range(order.size):
        i = order[done]
        a, b, weight = data.offsets[i], data.offsets[i + 1], data.weights[i]
        length, labels = b - a, data.targets[a:b]
        n = transpose_item(a, b, data, columns)
        columns.present[n : n + n_edge_rows] = edge_rows
        apply_lazy_penalty_to_rows(columns.present[: n + n_edge_rows], rows)
        score_item(a, b, n, data, columns, rows, scores[:length])
        if structure.is_chain:
            load_edges(edge_rows, rows, space.edges)
            chain_residual(
                labels, weight, relevance[a:b], add_mask(space.edges, structure.mask, space.masked), structure.mask,
                scores[:length], space, residual[:length], edge_counts,
            )  # fmt: skip
        else:
            node_residual(
                scores[0],
                structure.parents,
                structure.is_label,
                labels[0],
                weight,
                tile,
                shifted,
                residual[0],
            )
        eta = rates[ETA0] / (1.0 + counters[STEPS] / rates[ITEMS])
        scaled_eta = eta / counters[SCALE]
        learn_features(n, columns, residual, gradient, rows, eta, scaled_eta)
        for j in range(n_edge_rows):
            row = edge_rows[j]
            step_row(table[row], shares[pattern_of[row]], edge_counts[j], eta, scaled_eta)
        counters[DUE] += eta * rates[L1] / (rates[ITEMS] * counters[SCALE])
        counters[SCALE] /= 1.0 + eta * rates[L2] / rates[ITEMS]  # the quadratic penalty's proximal step
        counters[STEPS] += 1.0
        if not counters[SCALE] > SMALLEST_SCALE:
            return done + 1
    return order.size
