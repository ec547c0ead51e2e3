"""One row of the weights, seen and moved: Algorithm 2 of Blondel, Seki and Uehara (2013) and its line search.

A row is all weights of one feature. Its penalty is l1 ||w||_1 + l2/2 ||w||^2 + group ||w||, the last norm being the
Euclidean one or the largest entry (section 4.7).

Several threads may work on one row (`team.py`): positions are cut into parts, whose sums are added up in their order
whoever has found them. `data` stands for the entries and what the positions keep, as in `row_losses.py`:
(indices, values, labels, weights, margins, aid, losses).
"""

import numpy as np

from crfqn.kernels import bare_kernel, inner
from crfqn.kernels.columns import first_at
from crfqn.kernels.group_prox import beside_zero, leave_euclidean, leave_largest, shrink_block
from crfqn.kernels.row_losses import move, slopes
from crfqn.kernels.team import meet

# Where the parts of a row end, in twelfths of all entries: fixed, so that sums do not depend on the threads. They make
# even shares for 1, 2 and 4 threads, and shares of 7 to 5 for two of different speed.
TWELFTHS = (0, 3, 5, 6, 7, 9, 12)
PARTS = len(TWELFTHS) - 1
MOST_MEMBERS = 4
# The first part of each member of a team of 1, 2, 3 and 4, and where the last one's end.
FIRST_PARTS = np.array([[0, 6, 6, 6, 6], [0, 3, 6, 6, 6], [0, 2, 5, 6, 6], [0, 1, 3, 5, 6]])
LEAST_CURVATURE = 1e-12  # the paper's epsilon
MOST_TRIALS = 30
NO_PENALTY = (0.0, 0.0, 0.0, False)  # l1, l2, group, is_linf of free rows
# Vectors that an update needs: 0 the target, before it a slope; 1 the direction d, before it room of the violation;
# 2, 3 what falls to labels; 4 room of the prox; 5, 6 the slopes g and h; 7 the row's weights.
ROOM = 8


@inner
def length_of(x):
    """The Euclidean norm."""
    total = 0.0
    for r in range(x.size):
        total += x[r] * x[r]
    return np.sqrt(total)


@inner
def largest_of(x):
    """The largest size, by four at once: each waits for the one before it."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for r in range(0, x.size - 3, 4):
        a, b = max(a, abs(x[r])), max(b, abs(x[r + 1]))
        c, d = max(c, abs(x[r + 2])), max(d, abs(x[r + 3]))
    for r in range(x.size - x.size % 4, x.size):
        a = max(a, abs(x[r]))
    return max(max(a, b), max(c, d))


@inner
def is_zero(x):
    """Whether there are zeros only: of most rows the first number tells."""
    n = 0
    while n < x.size and x[n] == 0.0:
        n += 1
    return n == x.size


@inner
def copy_row(target, source):
    """target = source, one of which the compiler would copy first: they might overlap."""
    for r in range(target.size):
        target[r] = source[r]


@inner
def row_penalty(w, l1, l2, group, is_linf):
    """l1 ||w||_1 + l2/2 ||w||^2 + group ||w||."""
    total = 0.0
    for r in range(w.size):
        total += l1 * abs(w[r]) + 0.5 * l2 * w[r] * w[r]
    return total + (group * (largest_of(w) if is_linf else length_of(w)) if group > 0.0 else 0.0)


@inner
def dual_norm(g, l1, is_linf):
    """The sum of what l1 leaves of g, or its length: the dual of the largest size, and of the length."""
    total, squares = 0.0, 0.0
    for r in range(g.size):
        left = max(abs(g[r]) - l1, 0.0)
        total += left
        squares += left * left
    return total if is_linf else np.sqrt(squares)


@inner
def excess_of_zero(g, l1, group, is_linf):
    """How far -g is outside of the subdifferential at a zero row, in the dual norm; negative inside."""
    return dual_norm(g, l1, is_linf) - group + min(largest_of(g) - l1, 0.0)


@bare_kernel
def sum_penalties(table, is_free, l1, l2, group, is_linf):
    """The penalty of the rows of a table but the free ones."""
    total = 0.0
    for i in range(table.shape[0]):
        total += 0.0 if is_free[i] else row_penalty(table[i], l1, l2, group, is_linf)
    return total


@inner
def row_violation(w, g, l1, l2, group, is_linf, slope, room):
    """Equation 9 with its erratum: the distance of -g to the subdifferential at w."""
    for r in range(w.size):
        slope[r] = g[r] + l2 * w[r]
    if is_zero(w):
        shrink_block(slope, l1, group, is_linf, room)
        return length_of(slope)
    for r in range(w.size):
        slope[r] = beside_zero(slope[r], w[r], l1)
    if is_linf:
        leave_largest(slope, w, group, largest_of(w), room)
    else:
        leave_euclidean(slope, w, group, length_of(w))
    return length_of(slope)


@inner
def cut_entries(begin, end, indices, cuts, bounds):
    """bounds[p] = the first entry of a row at or behind the position cuts[p]."""
    low = begin
    for p in range(cuts.size):
        low = first_at(low, end, indices, cuts[p])
        bounds[p] = low


@bare_kernel
def cut_rows(features, indptr, indices, most_alone, cuts, bounds):
    """bounds[i] = the entries of the row features[i] at the cuts, int64 (rows, cuts).

    Rows with up to `most_alone` entries are not cut: of them only the first and the last bound are of use.
    """
    for i in range(features.size):
        begin, end = indptr[features[i]], indptr[features[i] + 1]
        if end - begin > most_alone:
            cut_entries(begin, end, indices, cuts, bounds[i])
        else:
            bounds[i, :-1], bounds[i, -1] = begin, end


@inner
def parts_of(ends, seat):
    """The first of a row's parts that a member takes, and the first that it does not.

    Of two members the first has `tilt` parts more than half of them, but of rows that have two parts one each.
    """
    (member, size, tilt), n_parts = seat, ends.size - 1
    if n_parts < PARTS:
        return member * n_parts // size, (member + 1) * n_parts // size
    first, last = FIRST_PARTS[size - 1, member], FIRST_PARTS[size - 1, member + 1]
    return (first + tilt if 0 < first < PARTS else first), (last + tilt if 0 < last < PARTS else last)


@inner
def are_aligned(ends, upcoming, seat):
    """Whether every member has the same positions of both rows, which may have different numbers of parts."""
    _, size, tilt = seat
    return ends.size == upcoming.size or (upcoming.size > 0 and size == 2 and tilt == 0)


@bare_kernel
def share_slopes(seat, loss, ends, data, shares, place, own):
    """The slopes of a row from a member's parts, each in two rows of `shares` from `place` on.

    seat : (member, size of its team, tilt), as in `parts_of`
    ends : int64 (parts + 1,), where the first part's entries begin, and where each part's end; own: room
    """
    indices, values, labels, weights, margins, aid, _ = data
    first, last = parts_of(ends, seat)
    for p in range(first, last):
        slopes(
            loss, ends[p], ends[p + 1], indices, values, labels, weights, margins, aid,
            shares[place + 2 * p], shares[place + 2 * p + 1], own,
        )  # fmt: skip


@inner
def add_shares(shares, place, n_parts, g, h):
    """g, h = the sums over all parts, in their order."""
    g[:] = 0.0
    h[:] = 0.0
    for p in range(n_parts):
        for r in range(g.size):
            g[r] += shares[place + 2 * p, r]
            h[r] += shares[place + 2 * p + 1, r]


@bare_kernel
def measure_row(w, g, strengths, room):
    """How far a zero row is from being wanted (inf for others), and equation 9."""
    l1, l2, group, is_linf = strengths
    outside = excess_of_zero(g, l1, group, is_linf) if is_zero(w) else np.inf
    if outside <= 0.0:
        return outside, 0.0
    return outside, row_violation(w, g, l1, l2, group, is_linf, room[0, : w.size], room[1, : w.size])


@bare_kernel
def propose_row(w, g, curvature, strengths, target, d, room):
    """Algorithm 2: target <- prox(w - g / curvature), d <- target - w; returns g'd, and whether d has anything."""
    l1, l2, group, is_linf = strengths
    for r in range(w.size):
        target[r] = w[r] - g[r] / curvature
    shrink_block(target, l1 / curvature, group / curvature, is_linf, room)
    slope, has_moved = 0.0, False
    for r in range(w.size):
        target[r] /= 1.0 + l2 / curvature
        d[r] = target[r] - w[r]
        slope += g[r] * d[r]
        has_moved = has_moved or d[r] != 0.0
    return slope, has_moved


@bare_kernel
def move_parts(seat, loss, ends, data, step, d, changes, place):
    """Move the margins of a member's parts by step * d; what each changes of the loss goes to `changes`."""
    indices, values, labels, weights, margins, aid, losses = data
    first, last = parts_of(ends, seat)
    for p in range(first, last):
        changes[place + p, 0] = move(
            loss, ends[p], ends[p + 1], indices, values, labels, weights, margins, aid, losses, step, d
        )


@bare_kernel
def descend_row(
    team, seat, n_meetings, loss, ends, upcoming, data, w, g, h, strengths, sigma, omega, shares, changes, room,
):  # fmt: skip
    """Algorithm 2 for one row: a step, its size by the line search of equation 7; w and the margins follow.

    The first step is nearly always taken. So several members go on to the slopes of the `upcoming` row before they
    meet, and meet once a row, if the positions of each are the same in both rows: nobody reads what another is moving.
    What is read after a meeting is written anew after the next one at the earliest: hence two places for shares and
    changes.

    Parameters
    ----------
    team, n_meetings : as in `team.py`, the meetings until now
    seat : (member, size, tilt), as in `parts_of`; without others size is 1
    ends, upcoming : int64 (parts + 1,), the row's and the next one's; (0,) without a next one
    g, h : float64 (width,), the slopes; strengths : (l1, l2, group, is_linf)
    shares : float64 (4 parts, width), of several members; changes : float64 (2 parts, LANES)
    room : float64 (ROOM, width), d's zeros beside the states

    Returns
    -------
    Steps rejected, meetings until now, and whether the slopes of the upcoming row are there.
    """
    member, size, _ = seat
    n, n_cuts, (l1, l2, group, is_linf) = w.size, changes.shape[0] // 2, strengths
    target, d, own = room[0, :n], room[1], room[2:4]
    curvature = max(largest_of(h[:n]), LEAST_CURVATURE)
    promise, has_moved = propose_row(w, g, curvature, strengths, target, d, room[4, :n])
    if not has_moved:
        return 0, n_meetings, False
    before, after = row_penalty(w, l1, l2, group, is_linf), row_penalty(target, l1, l2, group, is_linf)
    promise += after - before
    goes_on, change, alpha, step = size > 1 and are_aligned(ends, upcoming, seat), 0.0, 1.0, 1.0
    for trial in range(1, MOST_TRIALS + 2):
        turn = (n_meetings + 1) % 2
        move_parts(seat, loss, ends, data, step, d, changes, n_cuts * turn)
        is_ahead = goes_on and trial == 1
        if is_ahead:
            share_slopes(seat, loss, upcoming, data, shares, 2 * n_cuts * turn, own)
        if size > 1:
            n_meetings += 1
            meet(team, member, size, n_meetings)
        for p in range(ends.size - 1):
            change += changes[n_cuts * turn + p, 0]
        if change + after - before <= sigma * alpha * promise or trial > MOST_TRIALS:
            break
        step = alpha * (omega - 1.0) if trial < MOST_TRIALS else -alpha
        alpha += step
        for r in range(n):
            target[r] = w[r] + alpha * d[r]
        after = row_penalty(target, l1, l2, group, is_linf)
    copy_row(w, target)
    return trial - 1, n_meetings, is_ahead
