"""Forward-backward over some items of a chain: log partitions, marginals, expected scores and counts of one pass.

The recursions are scaled (Rabiner 1989), not in logarithms. With the normalised messages a_t and b_t,

    forward   a_t(k) = psi_t(k) sum_j a_{t-1}(j) M(j, k) / c_t,     log Z = sum_t (log c_t + shift_t)
    backward  b_t(j) = sum_k M(j, k) u_{t+1}(k),                    u_t(k) = psi_t(k) b_t(k) / c_t
    p_t(k) = a_t(k) b_t(k),    P(y_t = j, y_{t+1} = k) = a_t(j) M(j, k) u_{t+1}(k)

where psi = exp(score - largest score of the position) and M = exp(edge - largest edge). M is a factor of every pair
marginal: the edge counts are M times one outer product, sum_t a_t u_{t+1}'.

If transitions depend on observed contexts c, M_c = exp(edges of context c - their largest) replaces M. The positions of
a context share its table: exponentials and counts are computed by context, the counts as M_c times the sum of
a_{t-1} u_t' over its positions t.

Numerics: a scaled message stays above exp(-(range of the position's scores + 2 range of the edges)). If that could
underflow, `logarithms.py` infers the item, slowly; this is rare. A score or an edge of -inf forbids a state or a
transition: psi or M is 0, and the ranges leave it out. A relevant message may then underflow whatever the ranges are.
It underflows in one of the two recursions only, so that sum_k p_1(k) differs from 1; such an item is inferred in
logarithms, too.

Memory: a chunk of items is copied into rows of `width` = K rounded up to LANES, small enough for the L2 cache. Inner
loops run over whole vector registers, and short items share the cost of starting them. The padding stays zero.

    scores, residual   float64 (K, N), label-major; K states, N positions, I items
    edges              float64 (K, K), from x to
    tables             float64 (C, K, K), edges of the C contexts, with `table_of` int32 (N,), the context of each
                       position: its table leads from the previous position to this one
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.logarithms import NO_TABLES, log_item, table_at
from crfqn.kernels.rows import LANES, add_products, exp_in_place, new_rows

CHUNK_POSITIONS = 256  # of a chunk, fixed by the L2 cache: five arrays of 256 x 32 numbers are 320 KB
OUTER_PRODUCT_POSITIONS = 32  # of a block, fixed by the L1 cache: two blocks of 32 x 32 numbers are 16 KB
MAX_SCORE_RANGE = 600.0  # nats, a numerical guard: exp(-600) = 3e-261 stays a normal number after a product
# Numerical guard: |sum_k p_1(k) - 1| above this means an underflow. The rounding of 100,000 positions is far below.
NORMALIZATION_TOLERANCE = 1e-9


@subkernel
def padded_edges(edges):
    """Return M and its transpose, (width, width), zero in the padding, and the largest and the smallest edge, as
    `exponentiate_edges` returns them."""
    width = (edges.shape[0] + LANES - 1) // LANES * LANES
    m, m_transposed = new_rows(width, width), new_rows(width, width)
    largest, smallest = exponentiate_edges(edges, m, m_transposed)
    return m, m_transposed, largest, smallest


@subkernel(counts=False)
def exponentiate_edges(edges, m, m_transposed):
    """Write M = exp(edge - largest) and its transpose; return the largest edge and the smallest above -inf. M is zero
    for an edge of -inf."""
    n_states, largest, smallest = edges.shape[0], -np.inf, np.inf
    for j in range(n_states):
        for k in range(n_states):
            largest = edges[j, k] if edges[j, k] > largest else largest
            smallest = edges[j, k] if -np.inf < edges[j, k] < smallest else smallest
    if largest == -np.inf:
        largest = smallest = 0.0
    for j in range(n_states):
        for k in range(n_states):
            m[j, k] = np.exp(edges[j, k] - largest)
            m_transposed[k, j] = m[j, k]
    return largest, smallest


@subkernel
def load_scores(scores, start, length, centred, psi, shift, spread):
    """Write centred[t, k] = scores[k, start + t] - shift[t] and psi = exp(centred) of one chunk; shift, spread : the
    largest score of each position, and its distance to the smallest above -inf, out."""
    n_states, width = scores.shape[0], psi.shape[1]
    for t in range(length):
        shift[t] = scores[0, start + t]
        spread[t] = shift[t]
    for k in range(1, n_states):
        row = scores[k, start : start + length]
        for t in range(length):
            shift[t] = row[t] if row[t] > shift[t] else shift[t]
            spread[t] = row[t] if row[t] < spread[t] else spread[t]
    for t in range(length):
        spread[t] = shift[t] - spread[t]
    whole = length // LANES * LANES
    for tile in range(0, whole, LANES):
        for k in range(n_states):
            for i in range(LANES):  # a constant count: the compiler unrolls it into one load and eight stores
                centred[tile + i, k] = scores[k, start + tile + i] - shift[tile + i]
    for t in range(whole, length):
        for k in range(n_states):
            centred[t, k] = scores[k, start + t] - shift[t]
    for t in range(length):
        for k in range(width):
            psi[t, k] = centred[t, k]
    exp_in_place(psi[:length].reshape(length * width))
    for t in range(length):
        for k in range(n_states, width):
            psi[t, k] = 0.0
        if spread[t] == np.inf:  # scores of -inf: write zeros, and the range of the others
            lowest = 0.0
            for k in range(n_states):
                if centred[t, k] == -np.inf:
                    centred[t, k], psi[t, k] = 0.0, 0.0
                else:
                    lowest = centred[t, k] if centred[t, k] < lowest else lowest
            spread[t] = -lowest


@inner
def forward_step(t, first, psi, table, n_states, alpha):
    """Write a_t into alpha[t], from alpha[t - 1] unless t is the first position; return c_t."""
    a, p = alpha[t], psi[t]
    for k in range(a.size):
        a[k] = 1.0 if t == first else 0.0
    if t > first:
        add_products(a, table, 0, n_states, alpha[t - 1], 0, 1)
    total = 0.0
    for k in range(a.size):
        a[k] *= p[k]
        total += a[k]
    inverse = 1.0 / total
    for k in range(a.size):
        a[k] *= inverse
    return total


@inner
def backward_step(u, m, m_transposed, context, n_states, b):
    """b(j) = sum_k M(j, k) u(k); u and `context`, if M depends on one, are those of the next position."""
    if m.ndim == 2:  # decided at compilation
        for j in range(b.size):
            b[j] = 0.0
        add_products(b, m_transposed, 0, n_states, u, 0, 1)
    else:
        for j in range(n_states):
            total = 0.0
            for k in range(u.size):
                total += m[context, j, k] * u[k]
            b[j] = total


@subkernel
def forward(psi, m, contexts, n_states, alpha, scale):
    """Run the forward recursion over one item: write a_t into alpha, 1 / c_t into scale; return sum_t log c_t.

    m : M, or M_c of all contexts, (C, K, width); contexts : the context of each position (`logarithms.py`)
    """
    log_scale = 0.0
    for t in range(psi.shape[0]):
        total = forward_step(t, 0, psi, table_at(m, contexts, t), n_states, alpha)
        scale[t] = 1.0 / total
        log_scale += np.log(total)
    return log_scale


@subkernel
def backward(psi, m, m_transposed, contexts, n_states, alpha, scale, p):
    """Run the backward recursion over one item: write node marginals into p, and replace psi_t by u_t."""
    length, width = psi.shape
    for t in range(length - 1, -1, -1):
        b, u, a = p[t], psi[t], alpha[t]
        for k in range(width):
            b[k] = 1.0 if t == length - 1 else 0.0
        if t < length - 1:
            context = contexts[t + 1] if m.ndim == 3 else 0
            backward_step(psi[t + 1], m, m_transposed, context, n_states, b)
        for k in range(width):
            u[k] *= b[k] * scale[t]
        for k in range(width):
            b[k] *= a[k]


@subkernel
def add_outer(alpha, u, length, raw, n_states):
    """raw[j] += sum_t alpha_t(j) u_{t+1} over a chunk, by blocks that stay in the L1 cache; u is zero at the first
    position of an item, so that no pair crosses items."""
    rows, width = alpha.shape
    flat = alpha.reshape(rows * width)
    for block in range(1, length, OUTER_PRODUCT_POSITIONS):
        stop = block + OUTER_PRODUCT_POSITIONS if block + OUTER_PRODUCT_POSITIONS < length else length
        for j in range(n_states):
            # Row e of u is multiplied by row e - 1 of alpha, `width` numbers earlier.
            add_products(raw[j], u, block, stop, flat, j - width, width)


@subkernel
def store_marginals(p, start, length, residual):
    """residual[k, start + t] = p[t, k] for one chunk."""
    whole = length // LANES * LANES
    for tile in range(0, whole, LANES):
        for k in range(residual.shape[0]):
            for i in range(LANES):
                residual[k, start + tile + i] = p[tile + i, k]
    for t in range(whole, length):
        for k in range(residual.shape[0]):
            residual[k, start + t] = p[t, k]


@subkernel
def expected_scores(p, centred, shift, length, expected):
    """expected[t] = sum_k p[t, k] score[t, k] of one chunk; the shift is added once, since the marginals sum to 1."""
    width = p.shape[1]
    for t in range(length):
        total = 0.0
        for k in range(width):
            total += p[t, k] * centred[t, k]
        expected[t] = total + shift[t]


@subkernel(counts=False)
def subtract_targets(targets, start, stop, scores, edges, weight, residual, edge_counts):
    """Multiply an item's marginals by its weight and subtract the observed counts; return the targets' score."""
    if weight != 1.0:
        for k in range(scores.shape[0]):
            for t in range(start, stop):
                residual[k, t] *= weight
    return subtract_observed(targets, start, stop, scores, edges, weight, residual, edge_counts)


@subkernel(counts=False)
def subtract_observed(targets, start, stop, scores, edges, weight, residual, edge_counts):
    """Subtract an item's observed counts, times its weight; return the targets' score."""
    score = 0.0
    if targets.size > 0:
        for t in range(start, stop):
            residual[targets[t], t] -= weight
            score += scores[targets[t], t]
            if t > start:
                edge_counts[targets[t - 1], targets[t]] -= weight
                score += edges[targets[t - 1], targets[t]]
    return score


@kernel
def subtract_all_observed(offsets, targets, scores, edges, weights, residual, edge_counts, target_scores):
    """Subtract the observed counts of all items, times their weights; write the targets' scores, float64 (I,)."""
    for i in range(offsets.size - 1):
        target_scores[i] = subtract_observed(
            targets, offsets[i], offsets[i + 1], scores, edges, weights[i], residual, edge_counts
        )


@kernel
def segment_messages(cuts, scores, edges, is_backward, before, entering):
    """Run one of the recursions through the segments cuts[s] ... cuts[s + 1] - 1 of an item, the backward one from its
    end, and write the messages that enter each segment.

    before : float64 (S, K), out: the message of the last position outside the segment, a or psi b, with the sum 1
    entering : float64 (S, K), out: the same after the transition, before' M or M before; 1 for the segment in which the
        recursion begins
    """
    m, m_transposed, _, _ = padded_edges(edges)
    if is_backward:
        m = m_transposed
    n_states, width, n_segments, longest = edges.shape[0], m.shape[0], cuts.size - 1, 0
    for s in range(n_segments):
        longest = max(longest, cuts[s + 1] - cuts[s])
    psi, alpha = new_rows(longest, width), new_rows(longest, width)
    centred = new_rows(longest, width)
    shift, spread, scale = np.empty(longest), np.empty(longest), np.empty(longest)
    message = new_rows(1, width)[0]
    message[:] = 1.0
    for number in range(n_segments):
        s = n_segments - 1 - number if is_backward else number
        length = cuts[s + 1] - cuts[s]
        for k in range(n_states):
            entering[s, k] = message[k]
        load_scores(scores, cuts[s], length, centred, psi, shift, spread)
        if is_backward:
            for t in range(length // 2):
                for k in range(width):
                    psi[t, k], psi[length - 1 - t, k] = psi[length - 1 - t, k], psi[t, k]
        for k in range(width):
            psi[0, k] *= message[k]
            message[k] = 0.0
        forward(psi[:length], m, NO_TABLES, n_states, alpha, scale)
        add_products(message, m, 0, n_states, alpha[length - 1], 0, 1)
        if number < n_segments - 1:
            for k in range(n_states):
                before[s + (-1 if is_backward else 1), k] = alpha[length - 1, k]


@subkernel
def pass_messages(psi, m, m_transposed, contexts, n_states, alpha, scale, p, weight):
    """Run both recursions over one item; replace psi by weight * u, zero at the first position. Return sum_t log c_t,
    or NaN if the recursions disagree because a message has underflowed."""
    length, width = psi.shape
    log_scale = forward(psi, m, contexts, n_states, alpha, scale)
    backward(psi, m, m_transposed, contexts, n_states, alpha, scale, p)
    total = 0.0
    for k in range(width):
        psi[0, k] = 0.0
        total += p[0, k]
    if not abs(total - 1.0) < NORMALIZATION_TOLERANCE:
        return np.nan
    if weight != 1.0:
        for t in range(1, length):
            for k in range(width):
                psi[t, k] *= weight
    return log_scale


@subkernel
def chunk_end(first, items, offsets):
    """Return the end of the largest chunk of neighbours in `items` that begins at place `first`: one item or more."""
    stop, start = first + 1, offsets[items[first]]
    while (
        stop < items.size
        and items[stop] == items[stop - 1] + 1
        and offsets[items[stop] + 1] - start <= CHUNK_POSITIONS
    ):
        stop += 1
    return stop


@subkernel
def longest_item(items, offsets):
    """Return the length of the longest of some items, or CHUNK_POSITIONS if that is larger."""
    longest = CHUNK_POSITIONS
    for i in items:
        length = offsets[i + 1] - offsets[i]
        longest = length if length > longest else longest
    return longest


@subkernel(counts=False)
def close_edges(raw, m, edges, edge_counts):
    """raw *= M and edge_counts += raw; return the expected edge score <edges, raw>."""
    expected, n_states = 0.0, edges.shape[0]
    for j in range(n_states):
        for k in range(n_states):
            raw[j, k] *= m[j, k]
    for j in range(n_states):
        for k in range(n_states):
            edge_counts[j, k] += raw[j, k]
    # A separate loop: in a loop that also stores, the order of the sum depends on the arrays' distance in memory.
    for j in range(n_states):
        for k in range(n_states):
            expected += edges[j, k] * raw[j, k] if m[j, k] > 0.0 else 0.0
    return expected


@subkernel
def infer_chunk(
    first, stop, offsets, scores, m, m_transposed, contexts, largest, ranges, weights,
    psi, alpha, p, centred, shift, spread, scale, sums,
):  # fmt: skip
    """Run both recursions over the items first ... stop - 1, a chunk.

    alpha, psi : out: a_t, and weight * u_t, zero at the first position of an item
    p : out: node marginals
    sums : out: log partitions and expected node scores. An item whose messages could underflow has a log partition of
        NaN, and zeros in alpha and psi.
    largest, ranges : float64 (C,), the largest edge of each table, and its distance to the smallest above -inf
    """
    n_states, start = scores.shape[0], offsets[first]
    load_scores(scores, start, offsets[stop] - start, centred, psi, shift, spread)
    for i in range(first, stop):
        a, b, widest, steepest, base = offsets[i] - start, offsets[i + 1] - start, 0.0, 0.0, 0.0
        for t in range(a, b):
            widest = spread[t] if spread[t] > widest else widest
            base += shift[t]
            if m.ndim == 3 and t > a:
                context = contexts[start + t]
                steepest = ranges[context] if ranges[context] > steepest else steepest
                base += largest[context]
        if m.ndim == 2 and b > a:
            steepest = ranges[0]
            base += (b - a - 1) * largest[0]
        sums[i, 0] = base
        if a == b:
            continue
        if widest + 2 * steepest < MAX_SCORE_RANGE:
            sums[i, 0] += pass_messages(
                psi[a:b], m, m_transposed, contexts[start + a : start + b], n_states, alpha[a:b],
                scale[a:b], p[a:b], weights[i],
            )  # fmt: skip
        else:
            sums[i, 0] = np.nan
        if np.isnan(sums[i, 0]):
            psi[a:b] = 0.0
            alpha[a:b] = 0.0
    expected_scores(p, centred, shift, offsets[stop] - start, scale)
    for i in range(first, stop):
        total = 0.0
        for t in range(offsets[i] - start, offsets[i + 1] - start):
            total += scale[t]
        sums[i, 1] = total


@kernel
def forward_backward(items, offsets, scores, edges, targets, weights, residual, edge_counts, sums):
    """Run inference over some items of a chain; return their weighted expected edge score, in nats.

    Parameters
    ----------
    items : int64 (n,), ascending
    offsets : int64 (I + 1,); targets : int32 (N,), or (0,) without known labels; weights : float64 (I,)
    residual : float64 (K, N), out: weight * (node marginals - observed), at the positions of these items only
    edge_counts : float64 (K, K), in and out: += weight * (expected - observed) transitions
    sums : float64 (I, 3), out, in nats: log partition, expected node score, score of the targets. An item whose
        messages could underflow has a log partition of NaN: `infer_in_logarithms` infers it.
    """
    m, m_transposed, largest_edge, smallest_edge = padded_edges(edges)
    largest, ranges = np.full(1, largest_edge), np.full(1, largest_edge - smallest_edge)
    n_states, width = edges.shape[0], m.shape[0]
    rows = longest_item(items, offsets)
    psi, alpha = new_rows(rows, width), new_rows(rows, width)
    p, centred = new_rows(rows, width), new_rows(rows, width)
    shift, spread, scale = np.empty(rows), np.empty(rows), np.empty(rows)
    raw = new_rows(width, width)
    place = 0
    while place < items.size:
        next_place = chunk_end(place, items, offsets)
        first, stop = items[place], items[next_place - 1] + 1
        start, length = offsets[first], offsets[stop] - offsets[first]
        infer_chunk(
            first, stop, offsets, scores, m, m_transposed, NO_TABLES, largest, ranges, weights,
            psi, alpha, p, centred, shift, spread, scale, sums,
        )  # fmt: skip
        add_outer(alpha, psi, length, raw, n_states)
        store_marginals(p, start, length, residual)
        for i in range(first, stop):
            if not np.isnan(sums[i, 0]):
                sums[i, 2] = subtract_targets(
                    targets, offsets[i], offsets[i + 1], scores, edges, weights[i], residual, edge_counts
                )
        place = next_place
    return close_edges(raw, m, edges, edge_counts)


@kernel
def forward_backward_tables(
    items, offsets, scores, factors, largest, ranges, table_of, weights, alpha, u, marginals, sums
):
    """Run both recursions over some items, int64 (n,), ascending, whose edges are the tables of contexts.

    factors, largest, ranges : from `exponentiate_tables`
    alpha, u : float64 (N, width), zeros on entry, out: a_t, and weight * u_t, zero at the first position of an item;
        `add_outer_products` computes the expected transitions from them
    marginals, sums : residual and sums of `forward_backward` without targets
    """
    width = factors.shape[2]
    rows = longest_item(items, offsets)
    p, centred = new_rows(rows, width), new_rows(rows, width)
    shift, spread, scale = np.empty(rows), np.empty(rows), np.empty(rows)
    place = 0
    while place < items.size:
        next_place = chunk_end(place, items, offsets)
        first, stop = items[place], items[next_place - 1] + 1
        start, end = offsets[first], offsets[stop]
        infer_chunk(
            first, stop, offsets, scores, factors, factors[0], table_of, largest, ranges, weights,
            u[start:end], alpha[start:end], p, centred, shift, spread, scale, sums,
        )  # fmt: skip
        store_marginals(p, start, end - start, marginals)
        for i in range(first, stop):
            for k in range(marginals.shape[0]):
                for t in range(offsets[i], offsets[i + 1]):
                    marginals[k, t] *= weights[i]
        place = next_place


@kernel
def infer_in_logarithms(
    items, offsets, scores, edges, table_of, targets, weights, residual, edge_counts, sums
):
    """Infer in logarithms the items that `forward_backward`, or `forward_backward_tables` without targets, has left
    out; return their weighted expected edge score. edges, edge_counts, table_of : as in `logarithms.py`."""
    n_states, expected = scores.shape[0], 0.0
    for i in items:
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        psi, alpha, p = np.empty((3, length, n_states))
        sums[i, 0], expected_edges = log_item(
            scores, edges, table_of, start, weights[i], psi, alpha, p, edge_counts
        )
        expected += expected_edges
        sums[i, 1] = 0.0
        for t in range(length):
            for k in range(n_states):
                sums[i, 1] += p[t, k] * scores[k, start + t] if p[t, k] > 0.0 else 0.0
                residual[k, start + t] = weights[i] * p[t, k]
        if edges.ndim == 2:
            sums[i, 2] = subtract_observed(
                targets, start, start + length, scores, edges, weights[i], residual, edge_counts
            )
    return expected


@kernel
def exponentiate_tables(first, last, tables, factors, largest, ranges):
    """Write M_c of the contexts first ... last - 1 into factors, float64 (C, K, width), zeros in the padding and for
    scores of -inf.

    largest, ranges : float64 (C,), out: the largest score, and its distance to the smallest above -inf
    """
    n_states, width = factors.shape[1:]
    for c in range(first, last):
        high, low = -np.inf, np.inf
        for j in range(n_states):
            for k in range(n_states):
                score = tables[c, j, k]
                high = max(high, score)
                low = min(low, score) if score > -np.inf else low
        largest[c], ranges[c] = high if high > -np.inf else 0.0, high - low if high > -np.inf else 0.0
        for j in range(n_states):
            for k in range(width):
                factors[c, j, k] = tables[c, j, k] - largest[c] if k < n_states else -np.inf
            exp_in_place(factors[c, j])
            for k in range(width):
                if k >= n_states or tables[c, j, k] == -np.inf:
                    factors[c, j, k] = 0.0


@kernel
def add_outer_products(first, last, starts, places, before, here, sums):
    """sums[c, j, k] += sum_t before[t - 1, j] here[t, k] over the positions t of the contexts first ... last - 1.

    starts, places : int64 (C + 1,) and (n,): the positions of context c are places[starts[c]] ... places[starts[c + 1]
        - 1]
    before, here : float64 (N, width); sums : float64 (C, K, K), in and out
    """
    n_states, width = sums.shape[1], here.shape[1]
    raw = new_rows(n_states, width)
    for c in range(first, last):
        for j in range(n_states):
            for k in range(width):
                raw[j, k] = 0.0
        for e in range(starts[c], starts[c + 1]):
            t = places[e]
            for j in range(n_states):
                factor = before[t - 1, j]
                if factor != 0.0:
                    for k in range(width):
                        raw[j, k] += factor * here[t, k]
        for j in range(n_states):
            for k in range(n_states):
                sums[c, j, k] += raw[j, k]
