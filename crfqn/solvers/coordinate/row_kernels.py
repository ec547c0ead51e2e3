"""Sweeps over rows of the weights: Algorithms 1 and 2 of Blondel, Seki and Uehara (2013), by one thread or several.

Threads share every row: positions are cut into PARTS stretches of about as many entries, and a thread has the same
ones in every row. It computes their part of the slopes, waits for the others at a barrier, adds up all parts in their
order, takes the step that all others take, and moves the margins of its own positions. So the updates are those of one
thread, bit by bit. Equations and algorithms are numbered as in the paper.

Shapes: N positions, K states, width = K rounded up to LANES. A row's `ends`: int64 (PARTS + 1,), see
`StoredRows`. w, g of a row: float64 (K,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.margins import LOGISTIC, RANKING, fill_losses, move, slopes
from crfqn.kernels.row_norm import (
    UNPENALISED,
    clip_in_metric,
    kkt_excess,
    largest_of,
    row_penalty,
    row_violation,
    shrink_block,
    shrink_in_metric,
)
from crfqn.kernels.sparse import first_at
from crfqn.kernels.thread_group import barrier, join

PARTS = 4  # even shares for 1, 2 and 4 threads
LEAST_CURVATURE = 1e-12  # the paper's epsilon
MOST_TRIALS = 30


class StoredRows(NamedTuple):
    """Rows of the weights that are kept, float64 (rows, K), with is_unpenalised : bool (rows,), and ends :
    int64 (rows, PARTS + 1), where the first part's entries begin, and where each part's end."""

    weights: np.ndarray
    ends: np.ndarray
    is_unpenalised: np.ndarray


class StepRule(NamedTuple):
    """Choice of L_j and alpha_j (section 4.4).

    sigma, omega, constants : of the line search, equation 7; float64 (rows,), Lipschitz constants in its place, or (0,)
    min_curvature_ratio : lower bound on the second derivative of a state, relative to the largest of its row; 1 is the
        paper's L_j
    """

    sigma: float
    omega: float
    min_curvature_ratio: float
    constants: np.ndarray


class Shared(NamedTuple):
    """Results of parts that threads exchange, in two copies that take turns: a copy that is read after a barrier is
    written again after the next one at the earliest.

    slopes : float64 (2, PARTS, 2, width), g and h of a part; changes : float64 (2, PARTS, LANES), of the loss
    """

    slopes: np.ndarray
    changes: np.ndarray


class RowWorkspace(NamedTuple):
    """A thread's slot in its group (`thread_group.py`), the parts that it takes, first_part ... last_part - 1, the
    number of barriers it has come to, int64 (1,), and its own vectors, float64 (width,).

    g, h, scratch : slopes and curvatures of the row; float64 (2, width), see `margins.slopes`
    w, target, d, spare : the row before and after the step; the direction, zero beside the states; scratch
    """

    group: np.ndarray
    member: int
    size: int
    first_part: int
    last_part: int
    barriers: np.ndarray
    g: np.ndarray
    h: np.ndarray
    scratch: np.ndarray
    w: np.ndarray
    target: np.ndarray
    d: np.ndarray
    spare: np.ndarray


@kernel
def cut_rows(features, indptr, indices, cuts, ends):
    """ends[i] = where the parts of the row features[i] begin and end, int64 (rows, PARTS + 1); cuts :
    int64 (PARTS + 1,), the first position of each part."""
    for i in range(features.size):
        begin, end = indptr[features[i]], indptr[features[i] + 1]
        ends[i, 0], ends[i, PARTS] = begin, end
        for p in range(1, PARTS):
            ends[i, p] = first_at(ends[i, p - 1], end, indices, cuts[p])


@subkernel(counts=False)
def prepare_row(ends, state, shared, work):
    """Compute the slopes of the upcoming row (Algorithm 3), each member its parts, and wait for the others. A member's
    positions are the same in all rows: nobody moves what another one is reading."""
    work.barriers[0] += 1
    part_slopes = shared.slopes[work.barriers[0] % 2]
    for p in range(work.first_part, work.last_part):
        if ends[p] < ends[p + 1]:
            slopes(state, ends[p], ends[p + 1], part_slopes[p, 0], part_slopes[p, 1], work.scratch)
    barrier(work.group, work.member, work.size, work.barriers[0])


@subkernel(counts=False)
def proximal_step(n, curvature, least, penalty, work):
    """Write target = prox(w - g / L_j) and d = target - w (equations 3 and 4); returns g'd, and whether d != 0.

    A state's own curvature, at least `least`, takes the place of L_j (`curvature`): rare states then take steps as long
    as common ones.
    """
    w, g, target, d = work.w, work.g, work.target, work.d
    if least < curvature:
        h = work.spare
        for r in range(n):
            h[r] = max(work.h[r], least)
            target[r] = h[r] * w[r] - g[r]
        if penalty.is_linf:
            clip_in_metric(target[:n], h[:n], penalty)
        else:
            shrink_in_metric(target[:n], h[:n], penalty)
    else:
        for r in range(n):
            target[r] = w[r] - g[r] / curvature
        l1, l2, group, is_linf = penalty
        shrink_block(target[:n], l1 / curvature, group / curvature, is_linf, work.spare[:n])
        for r in range(n):
            target[r] /= 1.0 + l2 / curvature
    slope, has_moved = 0.0, False
    for r in range(n):
        d[r] = target[r] - w[r]
        slope += g[r] * d[r]
        has_moved = has_moved or d[r] != 0.0
    return slope, has_moved


@subkernel(counts=False)
def update_row(row, upcoming, state, rows, penalty, rule, shared, work):
    """Take the step of one row (Algorithm 2), its weights in work.w; returns its violation and `kkt_excess`. The first
    step is nearly always taken: so all compute the slopes of the upcoming row before the barrier."""
    ends, n, has_search = rows.ends[row], rows.weights.shape[1], rule.constants.size == 0
    w, g, h, target, d = work.w[:n], work.g, work.h, work.target[:n], work.d
    strengths = UNPENALISED if rows.is_unpenalised[row] else penalty
    # G and h of the row: the parts' sums, in their order.
    part_slopes = shared.slopes[work.barriers[0] % 2]
    g[:] = 0.0
    h[:] = 0.0
    for p in range(PARTS):
        if ends[p] < ends[p + 1]:
            for r in range(g.size):
                g[r] += part_slopes[p, 0, r]
                h[r] += part_slopes[p, 1, r]
    excess, violation, slope, has_moved = kkt_excess(w, g[:n], strengths), 0.0, 0.0, False
    if excess > 0.0:
        violation = row_violation(w, g[:n], strengths, target, work.spare[:n])
        curvature = max(largest_of(h[:n]) if has_search else rule.constants[row], LEAST_CURVATURE)
        least = max(rule.min_curvature_ratio * curvature, LEAST_CURVATURE) if has_search else curvature
        slope, has_moved = proximal_step(n, curvature, least, strengths, work)
    if not has_moved:
        prepare_row(upcoming, state, shared, work)
        return violation, excess
    # target = w + alpha d with alpha = 1, omega, omega^2, ... until equation 7 holds; the margins follow.
    alpha = change = 0.0
    before = row_penalty(w, strengths)
    predicted_decrease = slope + row_penalty(target, strengths) - before
    for trial in range(MOST_TRIALS + 1):
        next_alpha = rule.omega**trial if trial < MOST_TRIALS else 0.0
        part_changes = shared.changes[(work.barriers[0] + 1) % 2]
        for p in range(work.first_part, work.last_part):
            if ends[p] < ends[p + 1]:
                part_changes[p, 0] = move(state, ends[p], ends[p + 1], next_alpha - alpha, d)
        prepare_row(upcoming, state, shared, work)
        if not has_search:
            break
        step_change = 0.0
        for p in range(PARTS):
            step_change += part_changes[p, 0] if ends[p] < ends[p + 1] else 0.0
        change += step_change
        alpha = next_alpha
        if trial > 0:
            for r in range(n):
                target[r] = w[r] + alpha * d[r]
        if change + row_penalty(target, strengths) - before <= rule.sigma * alpha * predicted_decrease:
            break
    for r in range(n):
        w[r] = target[r]
        if work.member == 0:
            rows.weights[row, r] = target[r]
    return violation, excess


@kernel
def sweep_rows(
    group, n_members, rank, order, state, rows, penalty, rule, shared, cuts, margins_out, findings
):
    """Update the rows order[0], order[1], ..., numbers in `rows`: the inner loop of Algorithm 1.

    group, n_members, rank : as in `thread_group.join`; cuts : int64 (PARTS + 1,), the first position of each part
    margins_out : float64 (N, width), out: a copy of the margins after the sweep; or (0, width) for none
    findings : float64 (steps, 2), out: the row's violation before the step (equation 9), and its `kkt_excess`
    """
    member, size = join(group, n_members, rank)
    if size == 0:
        return
    vectors, n = np.zeros((8, state.margins.shape[1])), rows.weights.shape[1]
    first, last = member * PARTS // size, (member + 1) * PARTS // size
    work = RowWorkspace(
        group, member, size, first, last, np.zeros(1, np.int64), vectors[0], vectors[1], vectors[2:4],
        vectors[4], vectors[5], vectors[6], vectors[7],
    )  # fmt: skip
    nothing = np.zeros(PARTS + 1, np.int64)
    prepare_row(rows.ends[order[0]] if order.size > 0 else nothing, state, shared, work)
    for k in range(order.size):
        if k == 0 or order[k] != order[k - 1]:  # whose weights may only now be written
            for m in range(n):
                work.w[m] = rows.weights[order[k], m]
        upcoming = rows.ends[order[k + 1]] if k + 1 < order.size else nothing
        violation, excess = update_row(order[k], upcoming, state, rows, penalty, rule, shared, work)
        if member == 0:
            findings[k, 0], findings[k, 1] = violation, excess
    if state.loss != LOGISTIC and state.loss != RANKING:  # whose losses follow every move
        fill_losses(state, cuts[first], cuts[last])
    for i in range(cuts[first] if margins_out.shape[0] > 0 else cuts[last], cuts[last]):
        for r in range(margins_out.shape[1]):
            margins_out[i, r] = state.margins[i, r]


# Anderson acceleration (Anderson 1965; Bertrand and Massias 2021): the extrapolated point combines past ones with the
# weights that the Gram matrix of the steps between them gives. points : float64 (points, N, width), margins as in
# `kernels/margins.py`; entries that are -inf, beside the states and at labels, stay so, and count as steps of 0.


@kernel
def add_step_products(first, last, points, weights, gram):
    """gram[a, b] += sum_i weight_i <u_a(i), u_b(i)> for a >= b over the positions i = first ... last - 1, u_a : the
    step from point a to a + 1; gram : float64 (points - 1, points - 1)."""
    n_steps, width = points.shape[0] - 1, points.shape[2]
    steps = np.empty((n_steps, width))
    for i in range(first, last):
        for a in range(n_steps):
            for r in range(width):
                u = points[a + 1, i, r] - points[a, i, r]
                steps[a, r] = u if u == u else 0.0
        for a in range(n_steps):
            for b in range(a + 1):
                total = 0.0
                for r in range(width):
                    total += steps[a, r] * steps[b, r]
                gram[a, b] += weights[i] * total


@kernel
def combine(first, last, points, shares, out):
    """out[i] = sum_k shares[k] points[k, i] for the positions first ... last - 1."""
    for i in range(first, last):
        row = out[i]
        row[:] = 0.0
        for k in range(shares.size):
            for r in range(row.size):
                row[r] += shares[k] * points[k, i, r]
        for r in range(row.size):
            row[r] = row[r] if row[r] == row[r] else -np.inf


@kernel
def list_weights(features, n_features, table):
    """Return the sorted coordinates state * n_features + feature of the weights that are not zero, and the weights;
    features : sorted int64 (rows,), of the rows of `table`, float64 (rows, K)."""
    n_rows, n_states = table.shape
    n_nonzero, place = 0, 0
    for i in range(n_rows):
        for k in range(n_states):
            n_nonzero += table[i, k] != 0.0
    coords, weights = np.empty(n_nonzero, np.int64), np.empty(n_nonzero)
    for k in range(n_states):
        for i in range(n_rows):
            if table[i, k] != 0.0:
                coords[place], weights[place] = k * n_features + features[i], table[i, k]
                place += 1
    return coords, weights
