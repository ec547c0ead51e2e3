"""Forward-backward over eight items at a time, an item in each lane of the vector registers: for few states.

In `forward_backward.py` a register holds states of one position: with 7 states every step waits for sums across the
register, a division and a logarithm, and so does every item. Here a register holds one state of LANES items; all sums
run over registers, and one division serves eight positions.

    x_t(k) = psi_t(k) sum_j x_{t-1}(j) M(j, k) / c_{t-1}     c_t = sum_k x_t(k), so that a_t = x_t / c_t
    b_t(j) = sum_k M(j, k) u_{t+1}(k),   u_t(k) = psi_t(k) b_t(k) / c_t,   p_t(k) = x_t(k) b_t(k) / c_t

Behind the end of an item that is shorter than the longest of its group psi, x, u and p are 0, and two numbers that are
added keep the rest of its lane right: 1 to c_t there, 1 to b_t at its last position. Numerics as in
`forward_backward.py`; the product of the c_t is kept as mantissa and exponent, so that one logarithm an item is enough.

Shapes: K states, T positions of the longest item, `height` = K rounded up to TOGETHER. Arrays (T, height, LANES), the
items' scores interleaved; the rows from K on are zero. M and its transpose: float64 (K, height).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import (
    AGREEMENT,
    LARGEST_RANGE,
    close_edges,
    padded_edges,
    subtract_targets,
)
from crfqn.kernels.numba_internals import (
    add_outer_4_2,
    exponent,
    interleave_block,
    is_less,
    larger,
    load,
    mantissa,
    separate_block,
    smaller,
    spread,
    store,
)
from crfqn.kernels.rows import LANES, aligned_rows, exp_lanes

TOGETHER = 4  # sums that are formed at a time: each multiply-add waits four cycles for the one before
BLOCK = 16  # positions of an outer product: two blocks of 16 x 16 x 8 numbers are 32 KB


class Group(NamedTuple):
    """Workspace of a group of up to LANES items; starts, lengths : int64 (LANES,), 0 in a lane without an item; ends,
    weights : float64 (LANES,), the lengths again, and the items' weights."""

    starts: np.ndarray
    lengths: np.ndarray
    ends: np.ndarray
    weights: np.ndarray
    centred: np.ndarray  # scores less the largest of the position; then the node marginals p
    psi: np.ndarray  # then u
    alpha: np.ndarray  # x, then weight * a
    inverse: np.ndarray  # 1 / c_t, float64 (T, LANES)
    raw: np.ndarray  # float64 (height, height, LANES): sum_t weight a_t(j) u_{t+1}(k), of all groups
    sums: (
        np.ndarray
    )  # float64 (3, LANES): sum_t largest score, log Z without it and without edges, expected score


@subkernel
def new_lanes(longest, n_states):
    """Return the workspace for items of at most `longest` positions."""
    height = -(-n_states // TOGETHER) * TOGETHER
    size, longest = height * LANES, -(-longest // LANES) * LANES
    return Group(
        np.zeros(LANES, np.int64),
        np.zeros(LANES, np.int64),
        np.zeros(LANES),
        np.zeros(LANES),
        aligned_rows(longest, size),
        aligned_rows(longest, size),
        aligned_rows(longest, size),
        aligned_rows(longest, LANES),
        aligned_rows(height, size),
        np.zeros((3, LANES)),
    )


@subkernel
def interleave(scores, n_rows, group):
    """Write centred[t, k, lane] = scores[k, start of the lane's item + t], 0 behind its end, for t < n_rows."""
    n_states, n_positions = scores.shape
    size = group.centred.shape[1]
    for t in range(0, n_rows, LANES):
        for k in range(n_states):
            interleave_block(
                scores,
                group.starts,
                group.lengths,
                k * n_positions,
                t,
                group.centred,
                t * size + k * LANES,
                size,
            )


@subkernel
def exponentiate(n_states, n_rows, group):
    """Subtract each position's largest score, write psi = exp(centred); returns the widest range of the scores."""
    centred, psi, ends = group.centred, group.psi, load(group.ends, 0)
    size = centred.shape[1]
    widest, shifts = spread(0.0), spread(0.0)
    for t in range(n_rows):
        base = t * size
        high = low = load(centred, base)
        for k in range(1, n_states):
            x = load(centred, base + k * LANES)
            high, low = larger(high, x), smaller(low, x)
        widest, shifts = larger(widest, high - low), shifts + high
        inside = is_less(spread(float(t)), ends)
        for k in range(n_states):
            x = load(centred, base + k * LANES) - high
            store(centred, base + k * LANES, x)
            store(psi, base + k * LANES, inside * exp_lanes(x))
    store(group.sums, 0, shifts)
    store(group.inverse, 0, widest)
    most = 0.0
    for lane in range(LANES):
        most = group.inverse[0, lane] if group.inverse[0, lane] > most else most
    return forbid_lanes(n_states, n_rows, group) if most == np.inf else most


@subkernel
def forbid_lanes(n_states, n_rows, group):
    """Write zeros where a centred score is -inf; returns the widest range of the others."""
    centred, psi, most = group.centred, group.psi, 0.0
    for t in range(n_rows):
        for place in range(n_states * LANES):
            x = centred[t, place]
            if x == -np.inf:
                centred[t, place], psi[t, place] = 0.0, 0.0
            elif -x > most:
                most = -x
    return most


@subkernel
def agree(n_states, n_items, group):
    """Return whether the marginals of each item's first position sum to 1: see `forward_backward.py`."""
    for lane in range(n_items):
        total = 0.0
        for k in range(n_states):
            total += group.centred[0, k * LANES + lane]
        if not abs(total - 1.0) < AGREEMENT:
            return False
    return True


@inner
def four_sums(start, x, place, m, n_states, k):
    """Return start + sum_j x_j m[j, i] for i = k ... k + 3, x_j the register number j behind `place`."""
    s0 = s1 = s2 = s3 = start
    for j in range(n_states):
        value = load(x, place + j * LANES)
        s0 = s0 + value * spread(m[j, k])
        s1 = s1 + value * spread(m[j, k + 1])
        s2 = s2 + value * spread(m[j, k + 2])
        s3 = s3 + value * spread(m[j, k + 3])
    return s0, s1, s2, s3


@subkernel
def forward_lanes(m, n_states, n_rows, group):
    """Run the forward recursion: x_t into alpha, 1 / c_t into inverse, sum_t log c_t into sums[1]. Returns False where
    a score is NaN: the rows from K on, which stay from group to group, must not learn of it."""
    alpha, psi, ends = group.alpha, group.psi, load(group.ends, 0)
    size = alpha.shape[1]
    product, exponents = spread(1.0), spread(0.0)
    inverse, totals = spread(1.0), spread(0.0)
    for t in range(n_rows):
        base = t * size
        total = is_less(ends, spread(t + 0.5))
        for k in range(0, size // LANES, TOGETHER):
            place = base + k * LANES
            if t > 0:
                s0, s1, s2, s3 = four_sums(spread(0.0), alpha, base - size, m, n_states, k)
            else:
                s0 = s1 = s2 = s3 = spread(1.0)
            s0 = s0 * inverse * load(psi, place)
            s1 = s1 * inverse * load(psi, place + LANES)
            s2 = s2 * inverse * load(psi, place + 2 * LANES)
            s3 = s3 * inverse * load(psi, place + 3 * LANES)
            store(alpha, place, s0)
            store(alpha, place + LANES, s1)
            store(alpha, place + 2 * LANES, s2)
            store(alpha, place + 3 * LANES, s3)
            total = total + ((s0 + s1) + (s2 + s3))
        inverse = spread(1.0) / total
        store(group.inverse, t * LANES, inverse)
        totals = totals + total  # NaN for good, once it is
        product = product * total
        exponents = exponents + exponent(product)
        product = mantissa(product)
    store(group.sums, LANES, totals)
    if np.isnan(group.sums[1].sum()):
        return False
    store(group.sums, LANES, exponents)
    store(group.sums, 2 * LANES, product)
    for lane in range(LANES):
        group.sums[1, lane] = group.sums[1, lane] * np.log(2.0) + np.log(group.sums[2, lane])
    return True


@inner
def end_state(place, b, inverse, weighted_inverse, group):
    """Finish a state of LANES positions: u, p and the normalised x in their places; returns p times the score."""
    g = b * inverse
    x = load(group.alpha, place)
    p = x * g
    expected = p * load(group.centred, place)
    store(group.psi, place, load(group.psi, place) * g)
    store(group.centred, place, p)
    store(group.alpha, place, x * weighted_inverse)
    return expected


@subkernel
def backward_lanes(m_transposed, n_states, n_rows, group):
    """Run the backward recursion: u_t for psi_t, p_t for centred, weight a_t for x_t; expected scores into sums[2]."""
    psi, ends, weights = group.psi, load(group.ends, 0), load(group.weights, 0)
    size = psi.shape[1]
    expected, shifts = spread(0.0), load(group.sums, 0)
    for t in range(n_rows - 1, -1, -1):
        base = t * size
        inverse = load(group.inverse, t * LANES)
        weighted = inverse * weights
        is_last = is_less(spread(float(t)), ends) - is_less(spread(t + 1.0), ends)
        for j in range(0, size // LANES, TOGETHER):
            place = base + j * LANES
            if t < n_rows - 1:
                s0, s1, s2, s3 = four_sums(is_last, psi, base + size, m_transposed, n_states, j)
            else:
                s0 = s1 = s2 = s3 = is_last
            e0 = end_state(place, s0, inverse, weighted, group)
            e1 = end_state(place + LANES, s1, inverse, weighted, group)
            e2 = end_state(place + 2 * LANES, s2, inverse, weighted, group)
            e3 = end_state(place + 3 * LANES, s3, inverse, weighted, group)
            expected = expected + ((e0 + e1) + (e2 + e3))
    store(group.sums, 2 * LANES, expected + shifts)


@subkernel
def add_pairs(n_rows, group):
    """raw[j, k] += sum_t alpha_t(j) u_{t+1}(k), lane by lane, by blocks of positions that stay in the first cache."""
    alpha, u, raw = group.alpha, group.psi, group.raw
    size = alpha.shape[1]
    for begin in range(0, n_rows - 1, BLOCK):
        n = min(BLOCK, n_rows - 1 - begin)
        for j in range(0, size, 4 * LANES):
            for k in range(0, size, 2 * LANES):
                before, after = begin * size + j, (begin + 1) * size + k
                add_outer_4_2(raw, j // LANES * size + k, alpha, before, u, after, size, n)


@subkernel
def separate(n_rows, group, residual):
    """residual[k, start of the lane's item + t] = p[t, k, lane]."""
    n_states, n_positions = residual.shape
    size = group.centred.shape[1]
    for t in range(0, n_rows, LANES):
        for k in range(n_states):
            separate_block(
                group.centred,
                t * size + k * LANES,
                size,
                group.starts,
                group.lengths,
                k * n_positions,
                t,
                residual,
            )


@subkernel
def sum_lanes(raw, n_states):
    """Return the sums over the lanes of every pair of states, float64 (K, K)."""
    result = np.zeros((n_states, n_states))
    for j in range(n_states):
        for k in range(n_states):
            for lane in range(LANES):
                result[j, k] += raw[j, k * LANES + lane]
    return result


@subkernel
def fill_lanes(items, first, offsets, weights, group):
    """Put items[first] ... into the lanes, as many as there are; returns their number and the longest length."""
    n_rows, n_items = 0, min(LANES, items.size - first)
    for lane in range(LANES):
        if lane < n_items:
            i = items[first + lane]
            group.starts[lane], group.lengths[lane] = offsets[i], offsets[i + 1] - offsets[i]
            group.weights[lane] = weights[i]
        else:
            group.lengths[lane], group.weights[lane] = 0, 0.0
        group.ends[lane] = group.lengths[lane]
        n_rows = max(n_rows, group.lengths[lane])
    return n_items, n_rows


@kernel
def forward_backward_lanes(
    items, longest, offsets, scores, edges, targets, weights, residual, edge_counts, sums, refused
):
    """Run inference over some items, none longer than `longest`; returns their weighted expected edge score, in nats.

    Items of similar length should be neighbours in `items`, int64 (n,). A group where scores range so widely that a
    scaled message could underflow is left alone, and refused, bool (I,), out, is true for it. Others as in
    `forward_backward`.
    """
    m, m_transposed, largest_edge, smallest_edge = padded_edges(edges)
    allowed = LARGEST_RANGE - 2 * (largest_edge - smallest_edge)
    n_states = edges.shape[0]
    group = new_lanes(longest, n_states)
    for first in range(0, items.size, LANES):
        n_items, n_rows = fill_lanes(items, first, offsets, weights, group)
        interleave(scores, n_rows, group)
        is_safe = exponentiate(n_states, n_rows, group) < allowed
        if is_safe and forward_lanes(m, n_states, n_rows, group):
            backward_lanes(m_transposed, n_states, n_rows, group)
            is_safe = agree(n_states, n_items, group)
        else:
            is_safe = False
        if not is_safe:
            for lane in range(n_items):
                refused[items[first + lane]] = True
            continue
        add_pairs(n_rows, group)
        separate(n_rows, group, residual)
        for lane in range(n_items):
            i = items[first + lane]
            sums[i, 0] = group.sums[0, lane] + group.sums[1, lane] + (group.lengths[lane] - 1) * largest_edge
            sums[i, 1] = group.sums[2, lane]
            sums[i, 2] = subtract_targets(
                targets, offsets[i], offsets[i + 1], scores, edges, weights[i], residual, edge_counts
            )
    return close_edges(sum_lanes(group.raw, n_states), m, edges, edge_counts)
