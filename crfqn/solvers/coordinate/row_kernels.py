"""Sweeps over rows of the weights: Algorithms 1 and 2 of Blondel, Seki and Uehara (2013), by one thread or several.

Threads share every row: the positions are cut into N_ROW_PARTS parts with about equal numbers of entries, and a thread
has the same parts in every row. Each thread computes the slopes of its parts, passes a barrier, adds up all parts in
their order, computes the step, and moves the margins of its positions. The updates therefore are bit by bit those of
one thread. Equations and algorithms are numbered as in the paper.

Shapes: N positions, K states, width = K rounded up to LANES. A row's `ends`: int64 (N_ROW_PARTS + 1,), see
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

N_ROW_PARTS = 4  # parts of a row that threads share: equal shares for 1, 2 and 4 threads
MIN_CURVATURE = 1e-12  # lower bound on L_j: the paper's epsilon
MAX_TRIALS = 30  # of a line search: with omega = 0.5 the last step is 1e-9


class StoredRows(NamedTuple):
    """Stored rows of the weights, float64 (rows, K).

    ends : int64 (rows, N_ROW_PARTS + 1), the first entry of the first part, and the end of each part
    is_unpenalised : bool (rows,)
    """

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
    """Results of the parts that threads exchange, in two copies that alternate: after a barrier one copy is read and
    the other is written.

    slopes : float64 (2, N_ROW_PARTS, 2, width), g and h of a part
    changes : float64 (2, N_ROW_PARTS, LANES), of the loss
    """

    slopes: np.ndarray
    changes: np.ndarray


class RowWorkspace(NamedTuple):
    """The state of a thread in its group (`thread_group.py`), and its vectors, float64 (width,).

    first_part, last_part : its parts are first_part ... last_part - 1
    barriers : int64 (1,), the number of barriers that it has passed
    g, h, scratch : slopes and curvatures of the row; float64 (2, width), see `margins.slopes`
    w, target, d, spare : the row before and after the step; the direction, zero after the K states; scratch
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
    """Write the ends of the parts of the row of features[i] to ends[i], see `StoredRows`; cuts : int64
    (N_ROW_PARTS + 1,), the first position of each part, and N."""
    for i in range(features.size):
        begin, end = indptr[features[i]], indptr[features[i] + 1]
        ends[i, 0], ends[i, N_ROW_PARTS] = begin, end
        for p in range(1, N_ROW_PARTS):
            ends[i, p] = first_at(ends[i, p - 1], end, indices, cuts[p])


@subkernel(counts=False)
def prepare_row(ends, state, shared, work):
    """Compute the slopes of the upcoming row (Algorithm 3) over the member's parts, and pass a barrier. A member has
    the same positions in all rows, so no member moves margins that another one reads."""
    work.barriers[0] += 1
    part_slopes = shared.slopes[work.barriers[0] % 2]
    for p in range(work.first_part, work.last_part):
        if ends[p] < ends[p + 1]:
            slopes(state, ends[p], ends[p + 1], part_slopes[p, 0], part_slopes[p, 1], work.scratch)
    barrier(work.group, work.member, work.size, work.barriers[0])


@subkernel(counts=False)
def proximal_row_step(n, curvature, minimum, penalty, work):
    """Write target = prox(w - g / L_j) and d = target - w (equations 3 and 4); return g'd, and whether d != 0.

    If minimum < L_j (`curvature`), each state has its own curvature max(h_r, minimum) instead of L_j: rare states then
    take steps as long as common ones.
    """
    w, g, target, d = work.w, work.g, work.target, work.d
    if minimum < curvature:
        h = work.spare
        for r in range(n):
            h[r] = max(work.h[r], minimum)
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
    """Update one row, whose weights are in work.w (Algorithm 2); return its violation and `kkt_excess`. The first trial
    of the line search is nearly always taken, so the slopes of the upcoming row are computed before its barrier."""
    ends, n, has_search = rows.ends[row], rows.weights.shape[1], rule.constants.size == 0
    w, g, h, target, d = work.w[:n], work.g, work.h, work.target[:n], work.d
    strengths = UNPENALISED if rows.is_unpenalised[row] else penalty
    # G and h of the row (Algorithm 3), the sums over the parts in their order.
    part_slopes = shared.slopes[work.barriers[0] % 2]
    g[:] = 0.0
    h[:] = 0.0
    for p in range(N_ROW_PARTS):
        if ends[p] < ends[p + 1]:
            for r in range(g.size):
                g[r] += part_slopes[p, 0, r]
                h[r] += part_slopes[p, 1, r]
    excess, violation, slope, has_moved = kkt_excess(w, g[:n], strengths), 0.0, 0.0, False
    if excess > 0.0:
        violation = row_violation(w, g[:n], strengths, target, work.spare[:n])
        curvature = max(largest_of(h[:n]) if has_search else rule.constants[row], MIN_CURVATURE)
        minimum = max(rule.min_curvature_ratio * curvature, MIN_CURVATURE) if has_search else curvature
        slope, has_moved = proximal_row_step(n, curvature, minimum, strengths, work)
    if not has_moved:
        prepare_row(upcoming, state, shared, work)
        return violation, excess
    # Try target = w + alpha d for alpha = 1, omega, omega^2, ... until equation 7 holds, and move the margins.
    alpha = change = 0.0
    before = row_penalty(w, strengths)
    predicted_decrease = slope + row_penalty(target, strengths) - before
    for trial in range(MAX_TRIALS + 1):
        next_alpha = rule.omega**trial if trial < MAX_TRIALS else 0.0
        part_changes = shared.changes[(work.barriers[0] + 1) % 2]
        for p in range(work.first_part, work.last_part):
            if ends[p] < ends[p + 1]:
                part_changes[p, 0] = move(state, ends[p], ends[p + 1], next_alpha - alpha, d)
        prepare_row(upcoming, state, shared, work)
        if not has_search:
            break
        step_change = 0.0
        for p in range(N_ROW_PARTS):
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

    group, n_members, rank : as in `thread_group.join`; cuts : int64 (N_ROW_PARTS + 1,), the first position of each part
    margins_out : float64 (N, width), out: a copy of the margins after the sweep; or (0, width) for none
    findings : float64 (steps, 2), out: the row's violation before the step (equation 9), and its `kkt_excess`
    """
    member, size = join(group, n_members, rank)
    if size == 0:
        return
    vectors, n = np.zeros((8, state.margins.shape[1])), rows.weights.shape[1]
    first, last = member * N_ROW_PARTS // size, (member + 1) * N_ROW_PARTS // size
    work = RowWorkspace(
        group, member, size, first, last, np.zeros(1, np.int64), vectors[0], vectors[1], vectors[2:4],
        vectors[4], vectors[5], vectors[6], vectors[7],
    )  # fmt: skip
    nothing = np.zeros(N_ROW_PARTS + 1, np.int64)
    prepare_row(rows.ends[order[0]] if order.size > 0 else nothing, state, shared, work)
    for k in range(order.size):
        if (
            k == 0 or order[k] != order[k - 1]
        ):  # member 0 may not have written the weights of the same row yet
            for m in range(n):
                work.w[m] = rows.weights[order[k], m]
        upcoming = rows.ends[order[k + 1]] if k + 1 < order.size else nothing
        violation, excess = update_row(order[k], upcoming, state, rows, penalty, rule, shared, work)
        if member == 0:
            findings[k, 0], findings[k, 1] = violation, excess
    if state.loss != LOGISTIC and state.loss != RANKING:  # `move` updates the losses of these two
        fill_losses(state, cuts[first], cuts[last])
    for i in range(cuts[first] if margins_out.shape[0] > 0 else cuts[last], cuts[last]):
        for r in range(margins_out.shape[1]):
            margins_out[i, r] = state.margins[i, r]


# Anderson acceleration (Anderson 1965; Bertrand and Massias 2021): the extrapolated point is a combination of past
# points, whose shares follow from the Gram matrix of the steps between them. points : float64 (points, N, width),
# margins as in `kernels/margins.py`; entries of -inf, after the K states and at labels, stay -inf and are steps of 0.


@kernel
def add_step_products(first, last, points, weights, gram):
    """Add sum_i weight_i <u_a(i), u_b(i)> to gram[a, b], a >= b, over the positions i = first ... last - 1.

    u_a : the step from point a to point a + 1; gram : float64 (points - 1, points - 1)
    """
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
    """Write sum_k shares[k] points[k, i] to out[i] for the positions i = first ... last - 1."""
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
    """Return the sorted coordinates state * n_features + feature of the non-zero weights, and the weights; features :
    sorted int64 (rows,), of the rows of `table`, float64 (rows, K)."""
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
