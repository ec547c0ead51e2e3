"""Stochastic gradient steps with a cumulative L1 penalty, an item at a time: what all structures share.

Tsuruoka, Tsujii and Ananiadou (2009), Figure 2. With u the penalty that every weight could have received until now
and q_j the one that weight j has received, ApplyPenalty is

    w_j > 0:  w_j' = max(0, w_j - (u + q_j)),     w_j < 0:  w_j' = min(0, w_j + (u - q_j)),     q_j += w_j' - w_j

An item touches the rows of the features that it has, and no others. A row is settled when it is needed: whatever
penalty has fallen due since it was last seen is taken from it before its weights are used, so that the iterates are
those of a penalty applied to all weights after every step. (In print the penalty comes after the step only, and the
weights of a rare feature are used with their debts.)

The quadratic penalty shrinks every weight in every step. It sits in one number, the scale s: w = s v, with v, u and q
in units of s.

Memory: a step walks some thousand rows in no order that the processor could foresee, so weights and penalties of a row
lie side by side, and a row is fetched while those before it are worked on.

Shapes: F features, K states, width = K rounded up to LANES. table: float64 (rows, 2 width), a row a feature, then a row
for each state that an edge comes from: the weights v, zeros up to `width`, the penalties q received, zeros.
shares: float64 (patterns, width), 1 for a penalised weight, 0 for a free one, infinity for one that stays zero;
pattern_of: int32 (rows,). clock: float64 (3,), steps done, due u, scale s. rates: float64 (4,), eta0, N, l1, l2.
"""

from crfqn.kernels import inner, kernel
from crfqn.kernels.rows import add_picked, prefetch

STEPS, DUE, SCALE = 0, 1, 2  # places in `clock`
ETA0, ITEMS, L1, L2 = 0, 1, 2, 3  # places in `rates`
SMALLEST_SCALE = 1e-30
NOTHING = 1e-300  # in the place of u = 0: infinite shares times 0 would be no number
AHEAD = 6  # rows between the one in work and the one fetched
WIDEST_FETCH = 256  # numbers of a row worth fetching: in longer rows the processor sees what comes next


@inner
def apply_lazy_penalty_to_row(row, share, accrued):
    """ApplyPenalty to one row.

    Both cases of the sign are added up, since the other one's is 0: a branch would become a masked store, several times
    slower. Comparisons are such that NaN passes: a run that diverges must be seen to.
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
        settled = positive + negative
        weights[k] = settled
        received[k] = q + (settled - z)


@inner
def step_row(row, share, gradient, eta, scaled_eta):
    """v -= eta / s gradient; free weights have no scale."""
    for k in range(share.size):
        row[k] -= (scaled_eta if share[k] > 0.0 else eta) * gradient[k]


@kernel
def apply_lazy_penalty_to_rows(chosen, table, shares, pattern_of, counters):
    """Settle some rows."""
    accrued = max(counters[DUE], NOTHING)
    for j in range(chosen.size):
        if j + AHEAD < chosen.size and table.shape[1] <= WIDEST_FETCH:
            prefetch(table, chosen[j + AHEAD])
        row = chosen[j]
        apply_lazy_penalty_to_row(table[row], shares[pattern_of[row]], accrued)


@kernel
def apply_lazy_penalty(table, shares, pattern_of, counters):
    """Settle every row and return to s = 1."""
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


@kernel
def learning_rate(counters, rates):
    """eta_k = eta0 / (1 + k / N)."""
    return rates[ETA0] / (1.0 + counters[STEPS] / rates[ITEMS])


@kernel
def end_step(eta, counters, rates):
    """u += eta l1 / N, then the quadratic penalty's proximal step, s /= 1 + eta l2 / N; whether s may go on."""
    counters[DUE] += eta * rates[L1] / (rates[ITEMS] * counters[SCALE])
    counters[SCALE] /= 1.0 + eta * rates[L2] / rates[ITEMS]
    counters[STEPS] += 1.0
    return counters[SCALE] > SMALLEST_SCALE


@kernel
def largest_item(order, offsets, indptr):
    """The most positions and the most entries of an item."""
    n_positions = n_entries = 0
    for i in order:
        a, b = offsets[i], offsets[i + 1]
        n_positions = max(n_positions, b - a)
        n_entries = max(n_entries, indptr[b] - indptr[a])
    return n_positions, n_entries


@kernel
def turn_item(a, b, indptr, features, values, place, present, first_of, where, x):
    """The entries of the positions a ... b - 1 by feature; returns how many features they have.

    present: their numbers; where, x: positions (less a) and values, of the j-th one from first_of[j] to
    first_of[j + 1]. place: int32 (F,), -1 before and after.
    """
    n = 0
    for e in range(indptr[a], indptr[b]):
        f = features[e]
        if place[f] < 0:
            place[f], present[n], first_of[n + 1] = n, f, 0
            n += 1
        first_of[place[f] + 1] += 1
    first_of[0] = 0
    for j in range(n):
        first_of[j + 1] += first_of[j]
    # Each feature's start moves to its end; then all go back by one place.
    for t in range(b - a):
        for e in range(indptr[a + t], indptr[a + t + 1]):
            j = place[features[e]]
            where[first_of[j]] = t
            if values.size > 0:
                x[first_of[j]] = values[e]
            first_of[j] += 1
    for j in range(n, 0, -1):
        first_of[j] = first_of[j - 1]
        place[present[j - 1]] = -1
    first_of[0] = 0
    return n


@kernel
def score_item(
    a, b, chosen, first_of, where, x, indptr, features, values, table, shares, pattern_of, scale, scores
):
    """scores[t] = sum_f x_tf w_f for the positions t of an item, whose features `chosen` are settled."""
    for t in range(b - a):
        for k in range(scores.shape[1]):
            scores[t, k] = 0.0
        add_picked(scores[t], table, features, indptr[a + t], indptr[a + t + 1], values)
        for k in range(scores.shape[1]):
            scores[t, k] *= scale
    if scale == 1.0:
        return
    for j in range(chosen.size):  # free weights have no scale
        share = shares[pattern_of[chosen[j]]]
        if pattern_of[chosen[j]] > 0:
            for e in range(first_of[j], first_of[j + 1]):
                missing = (1.0 - scale) * (x[e] if x.size > 0 else 1.0)
                for k in range(share.size):
                    scores[where[e], k] += missing * table[chosen[j], k] if share[k] == 0.0 else 0.0


@kernel
def learn_features(
    chosen, first_of, where, x, residual, gradient, table, shares, pattern_of, eta, scaled_eta
):
    """A gradient step on the rows of an item's features; `gradient` (width,) is scratch."""
    for j in range(chosen.size):
        if j + AHEAD < chosen.size and table.shape[1] <= WIDEST_FETCH:
            prefetch(table, chosen[j + AHEAD])
        for k in range(gradient.size):
            gradient[k] = 0.0
        add_picked(gradient, residual, where, first_of[j], first_of[j + 1], x)
        row = chosen[j]
        step_row(table[row], shares[pattern_of[row]], gradient, eta, scaled_eta)
