"""Forward-backward over eight items in parallel, one item in each lane of the vector registers, for up to 64 states.

    x_t(k) = psi_t(k) sum_j x_{t-1}(j) M(j, k) / c_{t-1}     c_t = sum_k x_t(k), so that a_t = x_t / c_t
    b_t(j) = sum_k M(j, k) u_{t+1}(k),   u_t(k) = psi_t(k) b_t(k) / c_t,   p_t(k) = x_t(k) b_t(k) / c_t

In `forward_backward.py` a register holds states of one position. With 7 states the latency of sums across the register,
of a division and of a logarithm dominates the time of a step. Here a register holds one state of LANES items: all sums
are sums of registers, and one division serves eight positions.

The items of a group differ in length. After the end of an item psi, x, u and p are 0 in its lane; adding 1 to c_t there
and 1 to b_t at the item's last position keeps the recursions of the lane right. Numerics are those of
`forward_backward.py`. The product of the c_t is stored as mantissa and exponent: one logarithm an item is enough.

Shapes: K states, T positions of the longest item, `height` = K rounded up to SUMS_IN_FLIGHT, size = height * LANES.
Four arrays are the workspace of a group. Python allocates them, since numba needs 0.1 s to compile an allocation.

    work    float64 (3 T + height, size): four parts, `part` = T * size numbers each except for the last.
            T rows of scores less the largest one of the position, replaced by p
            T rows of psi, replaced by u
            T rows of x, replaced by weight * a
            a row for each state j: the sums over t and all groups of weight a_t(j) u_{t+1}(k)
            Columns from K * LANES on are zero
    lanes   float64 (INVERSE_ROWS + T, LANES): five rows of numbers of each lane's item, then 1 / c_t
    runs    int64 (2, LANES): the first position of each lane's item, and its length, 0 in a lane without an item
    tables  float64 (2, K rounded up to LANES, the same): M and its transpose, zero in the padding
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import (
    MAX_SCORE_RANGE,
    NORMALIZATION_TOLERANCE,
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
    load_lanes,
    mantissa,
    separate_block,
    smaller,
    spread,
    store_lanes,
)
from crfqn.kernels.rows import LANES, aligned_rows, exp_lanes

LN_2 = 0.6931471805599453  # log(2)
SUMS_IN_FLIGHT = 4  # independent sums, fixed by the latency of a multiply-add, four cycles
OUTER_PRODUCT_ROWS = 16  # of a block, fixed by the L1 cache: two blocks of 16 x 16 x 8 numbers are 32 KB


# Rows of `lanes`: the sum over t of the largest score; log Z without it and without edges; the expected score; the
# length as a float; the item's weight; 1 / c_t from INVERSE_ROWS on.
SHIFT_ROW, LOG_Z_ROW, EXPECTED_ROW, LENGTH_ROW, WEIGHT_ROW, INVERSE_ROWS = range(6)


def lanes_workspace(longest: int, n_states: int) -> tuple[np.ndarray, ...]:
    """Return work, lanes, runs and tables for items of up to `longest` positions."""
    height, longest, width = (
        -(-number // unit) * unit
        for number, unit in ((n_states, SUMS_IN_FLIGHT), (longest, LANES), (n_states, LANES))
    )
    work = aligned_rows(3 * longest + height, height * LANES)
    lanes = aligned_rows(INVERSE_ROWS + longest, LANES)
    return work, lanes, np.zeros((2, LANES), np.int64), np.zeros((2, width, width))


@subkernel(counts=False)
def fill_lanes(items, first, offsets, weights, scores, work, lanes, runs):
    """Copy the scores of up to LANES items, items[first] and the next ones, into the lanes; return their number and the
    longest length."""
    (n_states, n_positions), size, n_rows = scores.shape, work.shape[1], 0
    n_items = LANES if items.size - first > LANES else items.size - first
    for lane in range(LANES):
        runs[1, lane], lanes[WEIGHT_ROW, lane] = 0, 0.0
        if lane < n_items:
            i = items[first + lane]
            runs[0, lane], runs[1, lane] = offsets[i], offsets[i + 1] - offsets[i]
            lanes[WEIGHT_ROW, lane] = weights[i]
        lanes[LENGTH_ROW, lane] = runs[1, lane]
        n_rows = runs[1, lane] if runs[1, lane] > n_rows else n_rows
    for t in range(0, n_rows, LANES):
        for k in range(n_states):
            interleave_block(scores, runs, k * n_positions, t, work, t * size + k * LANES, size)
    return n_items, n_rows


@subkernel(counts=False)
def exponentiate(n_states, n_rows, part, work, lanes):
    """Subtract the largest score of each position and write psi = exp(the difference), 0 for scores of -inf; return the
    largest range of the scores above -inf of a position."""
    size, ends = work.shape[1], load_lanes(lanes, LENGTH_ROW * LANES)
    widest, shifts = spread(0.0), spread(0.0)
    for t in range(n_rows):
        base = t * size
        high = low = load_lanes(work, base)
        for k in range(1, n_states):
            x = load_lanes(work, base + k * LANES)
            high, low = larger(high, x), smaller(low, x)
        widest, shifts = larger(widest, high - low), shifts + high
        inside = is_less(spread(float(t)), ends)
        for place in range(base, base + n_states * LANES, LANES):
            x = load_lanes(work, place) - high
            store_lanes(work, place, x)
            store_lanes(work, part + place, inside * exp_lanes(x))
    store_lanes(lanes, SHIFT_ROW * LANES, shifts)
    store_lanes(lanes, INVERSE_ROWS * LANES, widest)
    largest = 0.0
    for lane in range(LANES):
        largest = lanes[INVERSE_ROWS, lane] if lanes[INVERSE_ROWS, lane] > largest else largest
    if largest < np.inf:
        return largest
    largest = 0.0
    for t in range(n_rows):
        for place in range(n_states * LANES):
            x = work[t, place]
            if x == -np.inf:
                work[t, place], work[part // size + t, place] = 0.0, 0.0
            elif -x > largest:
                largest = -x
    return largest


@inner
def four_sums(start, x, place, m, n_states, k):
    """Return start + sum_j x_j m[j, i] for i = k ... k + 3; x_j : the register at place + j * LANES of x."""
    s0 = s1 = s2 = s3 = start
    for j in range(n_states):
        value = load_lanes(x, place + j * LANES)
        s0 = s0 + value * spread(m[j, k])
        s1 = s1 + value * spread(m[j, k + 1])
        s2 = s2 + value * spread(m[j, k + 2])
        s3 = s3 + value * spread(m[j, k + 3])
    return s0, s1, s2, s3


@subkernel(counts=False)
def forward_lanes(m, n_states, n_rows, part, work, lanes):
    """Run the forward recursion: write x_t, 1 / c_t and sum_t log c_t. Return False if a score is NaN: the group must
    then not write NaN to the columns from K on, which the next groups use."""
    size, ends = work.shape[1], load_lanes(lanes, LENGTH_ROW * LANES)
    product, exponents = spread(1.0), spread(0.0)
    inverse, totals = spread(1.0), spread(0.0)
    for t in range(n_rows):
        total = is_less(ends, spread(t + 0.5))
        for k in range(0, size // LANES, SUMS_IN_FLIGHT):
            psi = part + t * size + k * LANES
            x = part + psi
            if t > 0:
                s0, s1, s2, s3 = four_sums(spread(0.0), work, 2 * part + (t - 1) * size, m, n_states, k)
            else:
                s0 = s1 = s2 = s3 = spread(1.0)
            s0 = s0 * inverse * load_lanes(work, psi)
            s1 = s1 * inverse * load_lanes(work, psi + LANES)
            s2 = s2 * inverse * load_lanes(work, psi + 2 * LANES)
            s3 = s3 * inverse * load_lanes(work, psi + 3 * LANES)
            store_lanes(work, x, s0)
            store_lanes(work, x + LANES, s1)
            store_lanes(work, x + 2 * LANES, s2)
            store_lanes(work, x + 3 * LANES, s3)
            total = total + ((s0 + s1) + (s2 + s3))
        inverse = spread(1.0) / total
        store_lanes(lanes, (INVERSE_ROWS + t) * LANES, inverse)
        totals = totals + total  # stays NaN once a total is
        product = product * total
        exponents = exponents + exponent(product)
        product = mantissa(product)
    store_lanes(lanes, LOG_Z_ROW * LANES, totals)
    has_nan = False
    for lane in range(LANES):
        has_nan = has_nan or lanes[LOG_Z_ROW, lane] != lanes[LOG_Z_ROW, lane]
    store_lanes(lanes, LOG_Z_ROW * LANES, exponents)
    store_lanes(lanes, EXPECTED_ROW * LANES, product)
    for lane in range(LANES):
        lanes[LOG_Z_ROW, lane] = lanes[LOG_Z_ROW, lane] * LN_2 + np.log(lanes[EXPECTED_ROW, lane])
    return not has_nan


@inner
def end_state(place, b, inverse, weighted_inverse, part, work):
    """Write u, p and the normalised x of one state of LANES positions; return p times the score."""
    psi, x = part + place, 2 * part + place
    g, messages = b * inverse, load_lanes(work, x)
    p = messages * g
    expected = p * load_lanes(work, place)
    store_lanes(work, psi, load_lanes(work, psi) * g)
    store_lanes(work, place, p)
    store_lanes(work, x, messages * weighted_inverse)
    return expected


@subkernel(counts=False)
def backward_lanes(m_transposed, n_states, n_rows, part, work, lanes):
    """Run the backward recursion: replace psi_t by u_t, the scores by p_t and x_t by weight a_t; write the expected
    scores."""
    size = work.shape[1]
    ends, weights = load_lanes(lanes, LENGTH_ROW * LANES), load_lanes(lanes, WEIGHT_ROW * LANES)
    expected = spread(0.0)
    for t in range(n_rows - 1, -1, -1):
        inverse = load_lanes(lanes, (INVERSE_ROWS + t) * LANES)
        weighted = inverse * weights
        is_last = is_less(spread(float(t)), ends) - is_less(spread(t + 1.0), ends)
        for j in range(0, size // LANES, SUMS_IN_FLIGHT):
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
    store_lanes(lanes, EXPECTED_ROW * LANES, expected + load_lanes(lanes, SHIFT_ROW * LANES))


@kernel(counts=False)
def forward_backward_lanes(
    items, offsets, scores, edges, targets, weights, residual, edge_counts, sums, work, lanes, runs, tables
):
    """Run inference over some items in a workspace for the longest one; return their weighted expected edge score, in
    nats.

    Items of similar length should be neighbours in `items`, int64 (n,). If a scaled message of a group could underflow,
    all its items have log partitions of NaN and no other result. Other parameters as in `forward_backward`.
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
        is_safe = widest < MAX_SCORE_RANGE - 2 * (largest_edge - smallest_edge)
        if is_safe and forward_lanes(m, n_states, n_rows, part, work, lanes):
            backward_lanes(m_transposed, n_states, n_rows, part, work, lanes)
            for lane in range(
                n_items
            ):  # marginals that do not sum to 1 show an underflow: `forward_backward.py`
                total = 0.0
                for k in range(n_states):
                    total += work[0, k * LANES + lane]
                is_safe = is_safe and abs(total - 1.0) < NORMALIZATION_TOLERANCE
        else:
            is_safe = False
        if not is_safe:
            for lane in range(n_items):
                sums[items[first + lane], 0] = np.nan
            continue
        for begin in range(
            0, n_rows - 1, OUTER_PRODUCT_ROWS
        ):  # blocks of positions that stay in the L1 cache
            n = OUTER_PRODUCT_ROWS if n_rows - 1 - begin > OUTER_PRODUCT_ROWS else n_rows - 1 - begin
            before, after = 2 * part + begin * size, part + (begin + 1) * size
            for j in range(0, size, 4 * LANES):
                for k in range(0, size, 2 * LANES):
                    add_outer_4_2(work, raw + j // LANES * size + k, before + j, after + k, size, n)
        for t in range(0, n_rows, LANES):
            for k in range(n_states):
                separate_block(work, t * size + k * LANES, size, runs, k * n_positions, t, residual)
        for lane in range(n_items):
            i = items[first + lane]
            sums[i, 0] = lanes[SHIFT_ROW, lane] + lanes[LOG_Z_ROW, lane] + (runs[1, lane] - 1) * largest_edge
            sums[i, 1] = lanes[EXPECTED_ROW, lane]
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
