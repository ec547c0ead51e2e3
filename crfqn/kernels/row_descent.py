"""Block coordinate descent over rows of the weights: Algorithms 1 and 2 of Blondel, Seki and Uehara (2013).

A row is all weights of one feature. Its penalty is l1 ||w||_1 + l2/2 ||w||^2 + group ||w||, the last norm being the
Euclidean one or the largest entry (section 4.7).

Several threads may work on one large row, each on the positions of its own (`team.py`), or on small rows that have no
position in common (`row_colours.py`): the updates, and with them the number of sweeps, are those of one thread.
"""

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.columns import first_at
from crfqn.kernels.group_prox import beside_zero, leave_euclidean, leave_largest, shrink_block
from crfqn.kernels.row_losses import fill_losses, move, slopes
from crfqn.kernels.rows import LANES, prefetch_number
from crfqn.kernels.team import join, meet

LEAST_CURVATURE = 1e-12  # the paper's epsilon
MOST_TRIALS = 30
MOST_HALVED = 1000  # entries of a row that has half of the parts
AT_ONCE = 128  # entries of an upcoming row that are asked for; afterwards the processor sees where this leads
ROW_COST = 20  # what a row costs besides its entries, in entries


@inner
def length_of(x):
    """The Euclidean norm."""
    total = 0.0
    for r in range(x.size):
        total += x[r] * x[r]
    return np.sqrt(total)


@inner
def largest_of(x):
    """The largest size."""
    largest = 0.0
    for r in range(x.size):
        largest = max(largest, abs(x[r]))
    return largest


@inner
def row_penalty(w, l1, l2, group, is_linf):
    """l1 ||w||_1 + l2/2 ||w||^2 + group ||w||."""
    total = 0.0
    for r in range(w.size):
        total += l1 * abs(w[r]) + 0.5 * l2 * w[r] * w[r]
    return total + (group * (largest_of(w) if is_linf else length_of(w)) if group > 0.0 else 0.0)


@inner
def excess_of_zero(g, l1, group, is_linf):
    """How far -g is outside of the subdifferential at a zero row, in the dual norm; negative inside."""
    total, squares = 0.0, 0.0
    for r in range(g.size):
        left = max(abs(g[r]) - l1, 0.0)
        total += left
        squares += left * left
    return (total if is_linf else np.sqrt(squares)) - group + min(largest_of(g) - l1, 0.0)


@inner
def row_violation(w, g, l1, l2, group, is_linf, slope, room):
    """Equation 9 with its erratum: the distance of -g to the subdifferential at w."""
    for r in range(w.size):
        slope[r] = g[r] + l2 * w[r]
    largest = largest_of(w)
    if largest == 0.0:
        shrink_block(slope, l1, group, is_linf, room)
        return length_of(slope)
    for r in range(w.size):
        slope[r] = beside_zero(slope[r], w[r], l1)
    if is_linf:
        leave_largest(slope, w, group, largest, room)
    else:
        leave_euclidean(slope, w, group, length_of(w))
    return length_of(slope)


@inner
def cut_entries(begin, end, indices, cuts, stride, first, last, bounds):
    """bounds[p] = the first entry of a row at or behind the position cuts[p * stride], for p = first ... last."""
    low = begin
    for p in range(first, last + 1):
        low = first_at(low, end, indices, cuts[p * stride])
        bounds[p] = low


@kernel
def cut_rows(features, indptr, indices, cuts, bounds):
    """bounds[i] = the entries of the row features[i] at the cuts, int64 (rows, cuts)."""
    for i in range(features.size):
        f = features[i]
        cut_entries(indptr[f], indptr[f + 1], indices, cuts, 1, 0, cuts.size - 1, bounds[i])


@kernel
def share_slopes(
    loss, first, last, bounds, indices, values, labels, weights, margins, aid, shares, place, own
):
    """The slopes of a row from its parts first ... last - 1, each in two rows of `shares` from `place` on."""
    for p in range(first, last):
        slopes(
            loss, bounds[p], bounds[p + 1], indices, values, labels, weights, margins, aid,
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


@kernel
def measure_row(w, g, l1, l2, group, is_linf, slope, room):
    """How far a zero row is from being wanted (inf for others), and equation 9."""
    outside = excess_of_zero(g, l1, group, is_linf) if largest_of(w) == 0.0 else np.inf
    return outside, row_violation(w, g, l1, l2, group, is_linf, slope, room) if outside > 0.0 else 0.0


@kernel
def propose_row(w, g, curvature, l1, l2, group, is_linf, target, d, room):
    """Algorithm 2: target <- prox(w - g / curvature), d <- target - w; returns g'd, and whether d has anything."""
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


@inner
def shared_ends(bounds):
    """Where the first part of a large row begins, and where each ends."""
    return bounds[:: 2 if bounds[-1] - bounds[0] < MOST_HALVED else 1]


@inner
def ask_for(begin, end, indices, values):
    """Ask for the entries begin ... end - 1 of a row that will come soon."""
    for e in range(begin, end, LANES):
        prefetch_number(indices, e)
        if values.size > 0:
            prefetch_number(values, e)


@inner
def deal_colour(start, colours, bounds, member, loads, mine):
    """Deal the steps of a colour to the members, each to the one with the least work: where it ends, how many are mine.

    loads : int64 (members,), mine : int64, out
    """
    k, n_mine = start, 0
    loads[:] = 0
    while k < colours.size and colours[k] == colours[start]:
        owner = np.argmin(loads)
        loads[owner] += ROW_COST + bounds[k, -1] - bounds[k, 0]
        if owner == member:
            mine[n_mine] = k
            n_mine += 1
        k += 1
    return k, n_mine


@inner
def parts_of(ends, member, size):
    """The first of a row's parts that a member takes, and the first that it does not."""
    n_parts = ends.size - 1
    return member * n_parts // size, (member + 1) * n_parts // size


@kernel
def share_own_slopes(
    member, size, loss, ends, indices, values, labels, weights, margins, aid, shares, place, own
):
    """The slopes of a row from a member's own parts."""
    first, last = parts_of(ends, member, size)
    share_slopes(loss, first, last, ends, indices, values, labels, weights, margins, aid, shares, place, own)


@kernel
def descend_row(
    team, member, size, n_meetings, loss, ends, upcoming, indices, values, labels, weights, margins, aid, losses,
    w, g, h, l1, l2, group, is_linf, sigma, omega, shares, changes, room,
):  # fmt: skip
    """Algorithm 2 for one row: a step, its size by the line search of equation 7; w and the margins follow.

    The first step is nearly always taken. So several members go on to the slopes of the `upcoming` row before they
    meet, and meet once a row.

    Returns
    -------
    Steps rejected, meetings until now, and whether the slopes of the upcoming row are there.
    """
    n, n_cuts = w.size, changes.shape[0] // 2
    target, d, own = room[0, :n], room[1], room[2:4]
    curvature = max(largest_of(h[:n]), LEAST_CURVATURE)
    promise, has_moved = propose_row(w, g, curvature, l1, l2, group, is_linf, target, d, room[4])
    if not has_moved:
        return 0, n_meetings, False
    before, after = row_penalty(w, l1, l2, group, is_linf), row_penalty(target, l1, l2, group, is_linf)
    promise += after - before
    first, last = parts_of(ends, member, size)
    change, alpha, step, is_ahead = 0.0, 1.0, 1.0, False
    for trial in range(1, MOST_TRIALS + 2):
        # What is read after a meeting is written anew after the next one at the earliest: hence two places.
        turn = (n_meetings + 1) % 2
        for p in range(first, last):
            changes[n_cuts * turn + p, 0] = move(
                loss, ends[p], ends[p + 1], indices, values, labels, weights, margins, aid, losses, step, d
            )
        if size > 1:
            is_ahead = trial == 1 and upcoming.size > 0
            if is_ahead:
                share_own_slopes(
                    member, size, loss, upcoming, indices, values, labels, weights, margins, aid,
                    shares, 2 * n_cuts * turn, own,
                )  # fmt: skip
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
    w[:] = target
    return trial - 1, n_meetings, is_ahead and trial == 1


@kernel
def sweep_rows(
    team, n_members, rank, cuts, loss, order, indices, values, labels, weights, margins, aid, losses,
    l1, l2, group, is_linf, is_free, table, violations, excess, colours, bounds, sigma, omega, shares, changes,
):  # fmt: skip
    """Update the rows table[order[0]], table[order[1]], ..., one after another; for several threads at once.

    Steps are those of the generalised Hessian, with a line search (section 4.4.1). Large rows come first and are shared
    out: positions are cut into parts, each member of the team takes the entries of some parts, then all of them add up
    the parts' sums in their order and come to the same step. Small rows of one colour have no position in common, so
    that their order does not matter: each goes to one member, and the team meets at the colour's end. Either way the
    updates do not depend on the number of members.

    Parameters
    ----------
    team, n_members, rank : as in `team.py`
    cuts : int64 (parts + 1,), the first position of each part
    loss, labels, weights, margins, aid, losses : as in `row_losses.py`; margins and aid follow, losses are those of
        the end
    order : int64 (steps,), rows of `table`, float64 (rows, K)
    l1, l2, group, is_linf : the penalty; is_free : bool (rows,), rows without one
    violations, excess : float64 (steps,), out: equation 9, and for zero rows how far they are from being wanted, inf
        for others
    colours : int64 (steps,), sorted, as from `row_colours.py`; -1 for rows to share out
    bounds : int64 (steps, parts + 1), the rows' entries at the cuts
    sigma, omega : of the line search (equation 7)
    shares : float64 (4 parts, width), changes : float64 (2 parts, LANES): what the members tell each other

    Returns
    -------
    The number of steps that the line searches rejected, each told by one member; -1 to members who came too late.
    """
    member, size = join(team, n_members, rank)
    if size == 0:
        return -1
    n, width, n_cuts = table.shape[1], margins.shape[1], cuts.size - 1
    # Members read their own copies of a row that all of them update.
    rows, room, alone = table if member == 0 else table.copy(), np.zeros((7, width)), np.empty((2, LANES))
    g, h, own = room[5], room[6], room[2:4]
    n_shared, n_rejected, n_meetings, is_ahead = np.searchsorted(colours, 0), 0, 0, False
    for k in range(n_shared):
        row = order[k]
        ends = shared_ends(bounds[k])
        if not is_ahead:
            share_own_slopes(
                member, size, loss, ends, indices, values, labels, weights, margins, aid,
                shares, 2 * n_cuts * ((n_meetings + 1) % 2), own,
            )  # fmt: skip
            n_meetings += 1
            meet(team, member, size, n_meetings)
        add_shares(shares, 2 * n_cuts * (n_meetings % 2), ends.size - 1, g, h)
        a1, a2, a3 = (0.0, 0.0, 0.0) if is_free[row] else (l1, l2, group)
        outside, violation = measure_row(rows[row], g[:n], a1, a2, a3, is_linf, room[0, :n], room[1, :n])
        if member == 0:
            excess[k], violations[k] = outside, violation
        is_ahead = False
        if outside > 0.0:
            upcoming = shared_ends(bounds[k + 1]) if k + 1 < n_shared else bounds[k, :0:1]
            if upcoming.size > 0:
                begin = upcoming[parts_of(upcoming, member, size)[0]]
                ask_for(begin, min(begin + AT_ONCE, upcoming[-1]), indices, values)
            n_more, n_meetings, is_ahead = descend_row(
                team, member, size, n_meetings, loss, ends, upcoming, indices, values, labels, weights, margins, aid,
                losses, rows[row], g, h, a1, a2, a3, is_linf, sigma, omega, shares, changes, room,
            )  # fmt: skip
            n_rejected += n_more if member == 0 else 0
    mine, loads, start = np.empty(order.size - n_shared, np.int64), np.empty(size, np.int64), n_shared
    while start < order.size:
        stop, n_mine = deal_colour(start, colours, bounds, member, loads, mine)
        for j in range(n_mine):
            k = mine[j]
            row, ends, upcoming = order[k], bounds[k, ::n_cuts], bounds[mine[min(j + 1, n_mine - 1)], ::n_cuts]
            slopes(loss, ends[0], ends[1], indices, values, labels, weights, margins, aid, g, h, own)
            a1, a2, a3 = (0.0, 0.0, 0.0) if is_free[row] else (l1, l2, group)
            excess[k], violations[k] = measure_row(
                table[row], g[:n], a1, a2, a3, is_linf, room[0, :n], room[1, :n]
            )
            ask_for(upcoming[0], upcoming[1], indices, values)
            if excess[k] > 0.0:
                n_more, _, _ = descend_row(
                    team, 0, 1, 0, loss, ends, upcoming, indices, values, labels, weights, margins, aid, losses,
                    table[row], g, h, a1, a2, a3, is_linf, sigma, omega, shares, alone, room,
                )  # fmt: skip
                n_rejected += n_more
        start = stop
        n_meetings += 1
        meet(team, member, size, n_meetings)
    if aid.size == 0:  # otherwise they have followed
        first, last = parts_of(cuts, member, size)
        fill_losses(loss, cuts[first], cuts[last], margins, aid, losses)
    return n_rejected


@kernel
def sweep_together(
    team, n_members, rank, cuts, loss, order, indices, values, labels, weights, margins, aid, losses,
    l1, l2, group, is_linf, is_free, table, violations, excess, features, indptr, constants, n_together, shares,
):  # fmt: skip
    """Update the rows of `order` by constant steps, `n_together` at once, all from the same margins.

    One at a time that is Algorithm 2 without its line search (section 4.4.2); several, different ones, are the parallel
    coordinate descent of Richtarik and Takac (2012), the constants allowing for it. The members of a team share out
    positions as in `sweep_rows`, and meet once for all rows together.

    features : int64 (rows,), of the rows of `table`; constants : float64 (rows,), steps are 1 / constant; shares : float64 (4 n_together parts, width)
    """
    member, size = join(team, n_members, rank)
    if size == 0:
        return -1
    n, width, n_parts = table.shape[1], margins.shape[1], cuts.size - 1
    first, last = member * n_parts // size, (member + 1) * n_parts // size
    rows, bounds = table if member == 0 else table.copy(), np.empty((n_together, n_parts + 1), np.int64)
    g, h, d, own = np.empty(width), np.empty(width), np.zeros((n_together, width)), np.empty((2, width))
    target, slope, room = np.empty(n), np.empty(n), np.empty(n)
    has_moved = np.zeros(n_together, np.bool_)
    for meeting, start in enumerate(range(0, order.size, n_together)):
        batch = order[start : start + n_together]
        turn = 2 * n_parts * n_together * (meeting % 2)
        for j in range(batch.size):
            begin, end = indptr[features[batch[j]]], indptr[features[batch[j]] + 1]
            cut_entries(begin, end, indices, cuts, 1, first, last, bounds[j])
            share_slopes(
                loss, first, last, bounds[j], indices, values, labels, weights, margins, aid,
                shares, turn + 2 * n_parts * j, own,
            )  # fmt: skip
        meet(team, member, size, meeting + 1)
        for j in range(batch.size):
            row = batch[j]
            w, curvature = rows[row], max(constants[row], LEAST_CURVATURE)
            a1, a2, a3 = (0.0, 0.0, 0.0) if is_free[row] else (l1, l2, group)
            add_shares(shares, turn + 2 * n_parts * j, n_parts, g, h)
            outside, violation = measure_row(w, g[:n], a1, a2, a3, is_linf, slope, room)
            if member == 0:
                excess[start + j], violations[start + j] = outside, violation
            has_moved[j] = False
            if outside > 0.0:
                _, has_moved[j] = propose_row(w, g, curvature, a1, a2, a3, is_linf, target, d[j], room)
                w[:] = target
        for j in range(batch.size):
            for p in range(first, last):
                if has_moved[j]:
                    move(
                        loss, bounds[j, p], bounds[j, p + 1], indices, values, labels, weights, margins, aid,
                        losses, 1.0, d[j],
                    )  # fmt: skip
    return 0
