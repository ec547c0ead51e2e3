"""Forward-backward over eight items at a time, an item in each lane of the vector registers: for few states.

In `forward_backward.py` a register holds states of one position: with 7 states every step waits for sums across the
register, a division and a logarithm, and so does every item. Here a register holds one state of LANES items; all sums
run over registers, and one division serves eight positions.

    x_t(k) = psi_t(k) sum_j x_{t-1}(j) M(j, k) / c_{t-1}     c_t = sum_k x_t(k), so that a_t = x_t / c_t
    b_t(j) = sum_k M(j, k) u_{t+1}(k),   u_t(k) = psi_t(k) b_t(k) / c_t,   p_t(k) = x_t(k) b_t(k) / c_t

Behind the end of an item that is shorter than the longest of its group psi, x, u and p are 0, and two numbers that are
added keep the rest of its lane right: 1 to c_t there, 1 to b_t at its last position. Numerics as in
`forward_backward.py`; the product of the c_t is kept as mantissa and exponent, so that one logarithm an item is enough.

Shapes: K states, T positions of the longest item, `height` = K rounded up to TOGETHER, size = height * LANES. Four
arrays are the workspace of a group of items; they are made in Python, as an allocation takes numba .1 s to compile:

    work    float64 (3 T + height, size): T rows of scores less the largest of the position, then p; T of psi, then u; T
            of x, then weight * a; and the sums over t of weight a_t(j) u_{t+1}(k) of all groups, a row for each j.
            `part` = T * size numbers lie between two of them. Columns from K * LANES on are zero
    lanes   float64 (PER_POSITION + T, LANES): five rows for each lane's item, then 1 / c_t
    runs    int64 (2, LANES): where each lane's item starts, and its length, 0 in a lane without an item
    tables  float64 (2, K rounded up to LANES, as many): M and its transpose, zero in the padding
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import (
    AGREEMENT,
    LARGEST_RANGE,
    close_edges,
    exponentiate_edges,
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

LN_2 = 0.6931471805599453
TOGETHER = 4  # sums that are formed at a time: each multiply-add waits four cycles for the one before
BLOCK = 16  # positions of an outer product: two blocks of 16 x 16 x 8 numbers are 32 KB


# Rows of `lanes`: the sum over t of the largest score; log Z without it and without edges; the expected score; the
# length as a number; the item's weight; and from PER_POSITION on 1 / c_t.
LARGEST, LOG_Z, EXPECTED, ENDS, WEIGHTS, PER_POSITION = range(6)


def lanes_workspace(longest: int, n_states: int) -> tuple[np.ndarray, ...]:
    """Return work, lanes, runs and tables for items of at most `longest` positions."""
    height, longest, width = (
        -(-number // unit) * unit
        for number, unit in ((n_states, TOGETHER), (longest, LANES), (n_states, LANES))
    )
    work = aligned_rows(3 * longest + height, height * LANES)
    lanes = aligned_rows(PER_POSITION + longest, LANES)
    return work, lanes, np.zeros((2, LANES), np.int64), np.zeros((2, width, width))


@subkernel(counts=False)
def fill_lanes(items, first, offsets, weights, scores, work, lanes, runs):
    """Put the scores of items[first] ... into the lanes, as many items as there are; returns their number and the
    longest length."""
    (n_states, n_positions), size, n_rows = scores.shape, work.shape[1], 0
    n_items = LANES if items.size - first > LANES else items.size - first
    for lane in range(LANES):
        runs[1, lane], lanes[WEIGHTS, lane] = 0, 0.0
        if lane < n_items:
            i = items[first + lane]
            runs[0, lane], runs[1, lane], lanes[WEIGHTS, lane] = (
                offsets[i],
                offsets[i + 1] - offsets[i],
                weights[i],
            )
        lanes[ENDS, lane] = runs[1, lane]
        n_rows = runs[1, lane] if runs[1, lane] > n_rows else n_rows
    for t in range(0, n_rows, LANES):
        for k in range(n_states):
            interleave_block(scores, runs, k * n_positions, t, work, t * size + k * LANES, size)
    return n_items, n_rows


@subkernel(counts=False)
def exponentiate(n_states, n_rows, part, work, lanes):
    """Subtract each position's largest score, write psi = exp(the rest); returns the widest range of the scores, those
    of -inf left out, for which zeros are written."""
    size, ends = work.shape[1], load(lanes, ENDS * LANES)
    widest, shifts = spread(0.0), spread(0.0)
    for t in range(n_rows):
        base = t * size
        high = low = load(work, base)
        for k in range(1, n_states):
            x = load(work, base + k * LANES)
            high, low = larger(high, x), smaller(low, x)
        widest, shifts = larger(widest, high - low), shifts + high
        inside = is_less(spread(float(t)), ends)
        for place in range(base, base + n_states * LANES, LANES):
            x = load(work, place) - high
            store(work, place, x)
            store(work, part + place, inside * exp_lanes(x))
    store(lanes, LARGEST * LANES, shifts)
    store(lanes, PER_POSITION * LANES, widest)
    most = 0.0
    for lane in range(LANES):
        most = lanes[PER_POSITION, lane] if lanes[PER_POSITION, lane] > most else most
    if most < np.inf:
        return most
    most = 0.0
    for t in range(n_rows):
        for place in range(n_states * LANES):
            x = work[t, place]
            if x == -np.inf:
                work[t, place], work[part // size + t, place] = 0.0, 0.0
            elif -x > most:
                most = -x
    return most


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


@subkernel(counts=False)
def forward_lanes(m, n_states, n_rows, part, work, lanes):
    """Run the forward recursion: x_t, 1 / c_t and sum_t log c_t. Returns False where a score is NaN: the columns from K
    on, which stay from group to group, must not learn of it."""
    size, ends = work.shape[1], load(lanes, ENDS * LANES)
    product, exponents = spread(1.0), spread(0.0)
    inverse, totals = spread(1.0), spread(0.0)
    for t in range(n_rows):
        total = is_less(ends, spread(t + 0.5))
        for k in range(0, size // LANES, TOGETHER):
            psi = part + t * size + k * LANES
            x = part + psi
            if t > 0:
                s0, s1, s2, s3 = four_sums(spread(0.0), work, 2 * part + (t - 1) * size, m, n_states, k)
            else:
                s0 = s1 = s2 = s3 = spread(1.0)
            s0 = s0 * inverse * load(work, psi)
            s1 = s1 * inverse * load(work, psi + LANES)
            s2 = s2 * inverse * load(work, psi + 2 * LANES)
            s3 = s3 * inverse * load(work, psi + 3 * LANES)
            store(work, x, s0)
            store(work, x + LANES, s1)
            store(work, x + 2 * LANES, s2)
            store(work, x + 3 * LANES, s3)
            total = total + ((s0 + s1) + (s2 + s3))
        inverse = spread(1.0) / total
        store(lanes, (PER_POSITION + t) * LANES, inverse)
        totals = totals + total  # NaN for good, once it is
        product = product * total
        exponents = exponents + exponent(product)
        product = mantissa(product)
    store(lanes, LOG_Z * LANES, totals)
    has_nan = False
    for lane in range(LANES):
        has_nan = has_nan or lanes[LOG_Z, lane] != lanes[LOG_Z, lane]
    store(lanes, LOG_Z * LANES, exponents)
    store(lanes, EXPECTED * LANES, product)
    for lane in range(LANES):
        lanes[LOG_Z, lane] = lanes[LOG_Z, lane] * LN_2 + np.log(lanes[EXPECTED, lane])
    return not has_nan


@inner
def end_state(place, b, inverse, weighted_inverse, part, work):
    """Finish a state of LANES positions: u, p and the normalised x in their places; returns p times the score."""
    psi, x = part + place, 2 * part + place
    g, messages = b * inverse, load(work, x)
    p = messages * g
    expected = p * load(work, place)
    store(work, psi, load(work, psi) * g)
    store(work, place, p)
    store(work, x, messages * weighted_inverse)
    return expected


@subkernel(counts=False)
def backward_lanes(m_transposed, n_states, n_rows, part, work, lanes):
    """Run the backward recursion: u_t for psi_t, p_t for the scores, weight a_t for x_t; and the expected scores."""
    size, ends, weights = work.shape[1], load(lanes, ENDS * LANES), load(lanes, WEIGHTS * LANES)
    expected = spread(0.0)
    for t in range(n_rows - 1, -1, -1):
        inverse = load(lanes, (PER_POSITION + t) * LANES)
        weighted = inverse * weights
        is_last = is_less(spread(float(t)), ends) - is_less(spread(t + 1.0), ends)
        for j in range(0, size // LANES, TOGETHER):
            place = t * size + j * LANES
            if t < n_rows - 1:
                s0, s1, s2, s3 = four_sums(is_last, work, part + (t + 1) * size, m_transposed, n_states, j)
            else:
                s0 = s1 = s2 = s3 = is_last
            e0 = end_state(place, s0, inverse, weighted, part, work)
            e1 = end_state(place + LANES, s1, inverse, weighted, part, work)
            e2 = end_state(place + 2 * LANES, s2, inverse, weighted, part, work)
            e3 = end_state(place + 3 * LANES, s3, inverse, weighted, part, work)
            expected = expected + ((e0 + e1) + (e2 + e3))
    store(lanes, EXPECTED * LANES, expected + load(lanes, LARGEST * LANES))


@kernel(counts=False)
def forward_backward_lanes(
    items, offsets, scores, edges, targets, weights, residual, edge_counts, sums, work, lanes, runs, tables
):
    """Run inference over some items in the workspace for the longest; returns their weighted expected edge score, in
    nats.

    Items of similar length should be neighbours in `items`, int64 (n,). A group where scores range so widely that a
    scaled message could underflow is left alone, and has log partitions of NaN. Others as in `forward_backward`.
    """
    m, m_transposed = tables[0], tables[1]
    largest_edge, smallest_edge = exponentiate_edges(edges, m, m_transposed)
    (n_states, n_positions), size = scores.shape, work.shape[1]
    part = (work.shape[0] - size // LANES) // 3 * size
    raw = 3 * part
    pairs = work[raw // size :]
    for j in range(pairs.shape[0]):
        for k in range(size):
            pairs[j, k] = 0.0
    for first in range(0, items.size, LANES):
        n_items, n_rows = fill_lanes(items, first, offsets, weights, scores, work, lanes, runs)
        widest = exponentiate(n_states, n_rows, part, work, lanes)
        is_safe = widest < LARGEST_RANGE - 2 * (largest_edge - smallest_edge)
        if is_safe and forward_lanes(m, n_states, n_rows, part, work, lanes):
            backward_lanes(m_transposed, n_states, n_rows, part, work, lanes)
            for lane in range(n_items):  # marginals that do not sum to 1: see `forward_backward.py`
                total = 0.0
                for k in range(n_states):
                    total += work[0, k * LANES + lane]
                is_safe = is_safe and abs(total - 1.0) < AGREEMENT
        else:
            is_safe = False
        if not is_safe:
            for lane in range(n_items):
                sums[items[first + lane], 0] = np.nan
            continue
        for begin in range(0, n_rows - 1, BLOCK):  # blocks of positions that stay in the first cache
            n = BLOCK if n_rows - 1 - begin > BLOCK else n_rows - 1 - begin
            before, after = 2 * part + begin * size, part + (begin + 1) * size
            for j in range(0, size, 4 * LANES):
                for k in range(0, size, 2 * LANES):
                    add_outer_4_2(work, raw + j // LANES * size + k, before + j, after + k, size, n)
        for t in range(0, n_rows, LANES):
            for k in range(n_states):
                separate_block(work, t * size + k * LANES, size, runs, k * n_positions, t, residual)
        for lane in range(n_items):
            i = items[first + lane]
            sums[i, 0] = lanes[LARGEST, lane] + lanes[LOG_Z, lane] + (runs[1, lane] - 1) * largest_edge
            sums[i, 1] = lanes[EXPECTED, lane]
            sums[i, 2] = subtract_targets(
                targets, offsets[i], offsets[i + 1], scores, edges, weights[i], residual, edge_counts
            )
    for j in range(n_states):
        for k in range(n_states):
            total = 0.0
            for lane in range(LANES):
                total += pairs[j, k * LANES + lane]
            pairs[j, k] = total
    return close_edges(pairs, m, edges, edge_counts)
