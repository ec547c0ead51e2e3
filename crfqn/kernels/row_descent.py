"""Sweeps over rows of the weights: Algorithm 1 of Blondel, Seki and Uehara (2013), by one thread or several at once.

Large rows are shared out: each thread works on the positions of its own (`row_step.py`). Small ones that have no
position in common (`row_colours.py`) go to a thread each. The updates, and with them the number of sweeps, are those of
one thread.
"""

import numpy as np

from crfqn.kernels import bare_kernel, inner, kernel
from crfqn.kernels.row_losses import fill_losses, slopes
from crfqn.kernels.row_step import (
    LEAST_CURVATURE,
    NO_PENALTY,
    PARTS,
    ROOM,
    add_shares,
    copy_row,
    cut_entries,
    descend_row,
    measure_row,
    move_parts,
    parts_of,
    propose_row,
    share_slopes,
)
from crfqn.kernels.rows import LANES, prefetch_number
from crfqn.kernels.team import join, looks_of, meet

MOST_HALVED = 1000  # entries of a row that has two parts only
AT_ONCE = 128  # entries of an upcoming row that are asked for; afterwards the processor sees where this leads
ROW_COST = 20  # what a row costs besides its entries, in entries
ALONE = (0, 1, 0)  # a seat


@inner
def stride_of(bounds):
    """Every how manieth cut of a row is in use: a moderate one has two parts."""
    return PARTS // 2 if bounds[-1] - bounds[0] < MOST_HALVED else 1


@inner
def ask_for(begin, end, data):
    """Ask for the entries begin ... end - 1 of a row that will come soon."""
    for e in range(begin, end, LANES):
        prefetch_number(data[0], e)
        if data[1].size > 0:
            prefetch_number(data[1], e)


@bare_kernel
def sweep_shared(
    team, seat, loss, order, bounds, data, strengths, is_free, table, violations, excess, sigma, omega, shares, changes,
    room,
):  # fmt: skip
    """Update rows one after another, all members at each; returns steps rejected, and how often they have met."""
    (member, size, _), n_states, n_parts = seat, table.shape[1], changes.shape[0] // 2
    g, h, w, n_rejected, n_meetings, is_ahead = room[5], room[6], room[7, :n_states], 0, 0, False
    for k in range(order.size):
        row, ends = order[k], bounds[k, :: stride_of(bounds[k])]
        upcoming = bounds[k + 1, :: stride_of(bounds[k + 1])] if k + 1 < order.size else ends[:0]
        if not is_ahead:
            n_meetings += 1
            share_slopes(seat, loss, ends, data, shares, 2 * n_parts * (n_meetings % 2), room[2:4])
            meet(team, member, size, n_meetings)
        if upcoming.size > 0:
            begin = upcoming[parts_of(upcoming, seat)[0]]
            ask_for(begin, min(begin + AT_ONCE, upcoming[-1]), data)
        add_shares(shares, 2 * n_parts * (n_meetings % 2), ends.size - 1, g, h)
        own = NO_PENALTY if is_free[row] else strengths
        copy_row(w, table[row])  # for each its own: the first writes the new one while others may still read
        outside, violation = measure_row(w, g[:n_states], own, room)
        if member == 0:
            excess[k], violations[k] = outside, violation
        is_ahead = False
        if outside > 0.0:
            n_more, n_meetings, is_ahead = descend_row(
                team, seat, n_meetings, loss, ends, upcoming, data, w, g, h, own, sigma, omega, shares, changes, room,
            )  # fmt: skip
            if member == 0:
                copy_row(table[row], w)
                n_rejected += n_more
    return n_rejected, n_meetings


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


@bare_kernel
def sweep_apart(
    team, member, size, n_meetings, loss, order, colours, bounds, data, strengths, is_free, table, violations, excess,
    sigma, omega, mine, loads, alone, room,
):  # fmt: skip
    """Update rows colour by colour, a member each; returns the steps that this member has rejected."""
    indices, values, labels, weights, margins, aid, _ = data
    g, h, n_rejected, start = room[5], room[6], 0, 0
    while start < order.size:
        start, n_mine = deal_colour(start, colours, bounds, member, loads, mine)
        for j in range(n_mine):
            k, soon = mine[j], bounds[mine[min(j + 1, n_mine - 1)]]
            w, ends = table[order[k]], bounds[k, :: bounds.shape[1] - 1]
            slopes(loss, ends[0], ends[1], indices, values, labels, weights, margins, aid, g, h, room[2:4])
            ask_for(soon[0], soon[-1], data)
            own = NO_PENALTY if is_free[order[k]] else strengths
            excess[k], violations[k] = measure_row(w, g[: w.size], own, room)
            if excess[k] > 0.0:
                n_more, _, _ = descend_row(
                    team, ALONE, 0, loss, ends, ends[:0], data, w, g, h, own, sigma, omega, room, alone, room
                )
                n_rejected += n_more
        n_meetings += 1
        meet(team, member, size, n_meetings)
    return n_rejected


@bare_kernel
def copy_rows(target, source, first, last):
    """target[i] = source[i] for the rows first ... last - 1."""
    for i in range(first, last):
        copy_row(target[i], source[i])


@kernel
def sweep_rows(
    team, n_members, rank, cuts, loss, order, indices, values, labels, weights, margins, aid, losses,
    l1, l2, group, is_linf, is_free, table, violations, excess, colours, bounds, sigma, omega, shares, changes,
    record, tilt, looks,
):  # fmt: skip
    """Update the rows table[order[0]], table[order[1]], ..., large ones first, then small ones by their colours.

    Steps are those of the generalised Hessian, with a line search (section 4.4.1).

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
    colours : int64 (steps,), sorted, as from `row_colours.py`; -1 for large rows, which are shared out
    bounds : int64 (steps, parts + 1), the rows' entries at the cuts
    sigma, omega : of the line search (equation 7)
    shares : float64 (4 parts, width), changes : float64 (2 parts, LANES): what the members tell each other
    record : float64 (N, width), out: the margins of the end; or (0, width)
    tilt : of two members the first has as many parts more; looks : int64 (members,), out, as in `team.py`

    Returns
    -------
    The number of steps that the line searches rejected, each told by one member; -1 to members who came too late.
    """
    member, size = join(team, n_members, rank)
    if size == 0:
        return -1
    data = indices, values, labels, weights, margins, aid, losses
    seat = member, size, tilt if size == 2 else 0
    strengths, n = (l1, l2, group, is_linf), np.searchsorted(colours, 0)
    room = np.zeros((ROOM, margins.shape[1]))
    mine, loads, alone = np.empty(order.size, np.int64), np.empty(size, np.int64), np.empty((2, LANES))
    n_rejected, n_meetings = sweep_shared(
        team, seat, loss, order[:n], bounds[:n], data, strengths, is_free, table, violations, excess,
        sigma, omega, shares, changes, room,
    )  # fmt: skip
    looks[member] += looks_of(team, member)
    n_rejected += sweep_apart(
        team, member, size, n_meetings, loss, order[n:], colours[n:], bounds[n:], data, strengths, is_free, table,
        violations[n:], excess[n:], sigma, omega, mine, loads, alone, room,
    )  # fmt: skip
    first, last = parts_of(cuts, seat)
    if aid.size == 0:  # otherwise they have followed
        fill_losses(loss, cuts[first], cuts[last], margins, aid, losses)
    if record.shape[0] > 0:
        copy_rows(record, margins, cuts[first], cuts[last])
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

    features : int64 (rows,), of the rows of `table`; constants : float64 (rows,), steps are 1 / constant
    shares : float64 (4 n_together parts, width)
    """
    member, size = join(team, n_members, rank)
    if size == 0:
        return -1
    n, width, n_parts, seat = table.shape[1], margins.shape[1], cuts.size - 1, (member, size, 0)
    data, strengths = (indices, values, labels, weights, margins, aid, losses), (l1, l2, group, is_linf)
    rows, ends = table if member == 0 else table.copy(), np.empty((n_together, n_parts + 1), np.int64)
    room, d, changes = np.zeros((ROOM, width)), np.zeros((n_together, width)), np.empty((n_parts, LANES))
    g, h, target = room[5], room[6], room[0, :n]
    has_moved = np.zeros(n_together, np.bool_)
    for meeting, start in enumerate(range(0, order.size, n_together)):
        batch = order[start : start + n_together]
        turn = 2 * n_parts * n_together * (meeting % 2)
        for j in range(batch.size):
            f = features[batch[j]]
            cut_entries(indptr[f], indptr[f + 1], indices, cuts, ends[j])
            share_slopes(seat, loss, ends[j], data, shares, turn + 2 * n_parts * j, room[2:4])
        meet(team, member, size, meeting + 1)
        for j in range(batch.size):
            row = batch[j]
            w, curvature = rows[row], max(constants[row], LEAST_CURVATURE)
            own = NO_PENALTY if is_free[row] else strengths
            add_shares(shares, turn + 2 * n_parts * j, n_parts, g, h)
            outside, violation = measure_row(w, g[:n], own, room)
            if member == 0:
                excess[start + j], violations[start + j] = outside, violation
            has_moved[j] = False
            if outside > 0.0:
                _, has_moved[j] = propose_row(w, g, curvature, own, target, d[j], room[4, :n])
                w[:] = target
        for j in range(batch.size):
            if has_moved[j]:
                move_parts(seat, loss, ends[j], data, 1.0, d[j], changes, 0)
    return 0
