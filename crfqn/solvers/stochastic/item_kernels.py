"""What learning item by item takes whatever the structure: an item's entries by feature, and the lazy L1 penalty.

Tsuruoka, Tsujii and Ananiadou (2009), Figure 2. With u the penalty that every weight could have received until now and
q_j the one that weight j has received, ApplyPenalty is

    w_j > 0:  w_j' = max(0, w_j - (u + q_j)),     w_j < 0:  w_j' = min(0, w_j + (u - q_j)),     q_j += w_j' - w_j

An item touches the rows of its features only. All that has accrued since a row was last used is applied before its
weights are used, so that the iterates are those of a penalty applied to all weights after every step. (In print it
comes after the step only, and the weights of a rare feature are used without the penalty that they lack.) The quadratic
penalty shrinks every weight in every step: it sits in the scale s: w = s v, with v, u and q in units of s.

Memory: a step walks some thousand rows in no order that the processor could foresee, so weights and penalties of a row
lie side by side, and a row is fetched while those before it are worked on.

Shapes: F features, K states, width = K rounded up to LANES. An item has the positions a ... b - 1 of all, and n
features. rates: float64 (4,), eta0, N, l1, l2.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.numba_internals import prefetch
from crfqn.kernels.rows import add_picked
from crfqn.kernels.viterbi import TransitionMask

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


class ItemData(NamedTuple):
    """Items: their positions' features, compressed by position (CSR; values (0,): all are 1), targets :
    int32 (positions,), and weights : float64 (items,); offsets : int64 (items + 1,)."""

    offsets: np.ndarray
    indptr: np.ndarray
    features: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class ItemStructure(NamedTuple):
    """Structure of all items, a chain or a taxonomy, whose items have one position each.

    parents, is_label : int32 (K,), the node above each, which has a lower number, or -1: no state of a chain has one;
        bool (K,)
    mask : TransitionMask, of chains
    is_chain : whether rows of the edges come after those of the features
    """

    parents: np.ndarray
    is_label: np.ndarray
    mask: TransitionMask
    is_chain: bool


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
def learning_rate(counters, rates):
    """Return eta_k = eta0 / (1 + k / N) for step k, counted from 0."""
    return rates[ETA0] / (1.0 + counters[STEPS] / rates[ITEMS])


@subkernel
def end_step(eta, counters, rates):
    """u += eta l1 / N, then the quadratic penalty's proximal step, s /= 1 + eta l2 / N; returns if s is in range."""
    counters[DUE] += eta * rates[L1] / (rates[ITEMS] * counters[SCALE])
    counters[SCALE] /= 1.0 + eta * rates[L2] / rates[ITEMS]
    counters[STEPS] += 1.0
    return counters[SCALE] > SMALLEST_SCALE


@subkernel
def largest_item(order, data):
    """Return the most positions and the most entries that one of the items `order` has."""
    n_positions = n_entries = 0
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        n_positions = max(n_positions, b - a)
        n_entries = max(n_entries, data.indptr[b] - data.indptr[a])
    return n_positions, n_entries


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
        for k in range(scores.shape[1]):
            scores[t, k] = 0.0
        add_picked(scores[t], table, data.features, data.indptr[a + t], data.indptr[a + t + 1], data.values)
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


@kernel
def count_means(n_features, weights, corrections, share, counts):
    """counts[k] += the features f with weights[f, k] - share corrections[f, k] other than 0; counts: int64 (K,)."""
    for f in range(n_features):
        for k in range(counts.size):
            counts[k] += weights[f, k] - share * corrections[f, k] != 0.0


@kernel
def write_means(n_features, weights, corrections, share, heads, coords, means):
    """Write these numbers, and their coordinates k F + f, in ascending order of the coordinates; heads : int64 (K,),
    where each state's begin, changed."""
    for f in range(n_features):
        for k in range(heads.size):
            mean = weights[f, k] - share * corrections[f, k]
            if mean != 0.0:
                coords[heads[k]], means[heads[k]] = k * n_features + f, mean
                heads[k] += 1
