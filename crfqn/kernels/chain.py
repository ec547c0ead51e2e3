"""Forward-backward over the items of one part of the data: everything that one inference pass returns.

Scaled recursions (Rabiner 1989) rather than logarithms: with a_t, b_t the normalised messages,

    forward   a_t(k) = psi_t(k) sum_j a_{t-1}(j) M(j, k) / c_t,     log Z = sum_t (log c_t + shift_t)
    backward  b_t(j) = sum_k M(j, k) u_{t+1}(k),                    u_t(k) = psi_t(k) b_t(k) / c_t
    p_t(k) = a_t(k) b_t(k),    P(y_t = j, y_{t+1} = k) = a_t(j) M(j, k) u_{t+1}(k)

where psi = exp(score - largest score of the position) and M = exp(edge - largest edge). M is a factor of
every pair marginal, so the edge counts need one outer product sum_t a_t u_{t+1}' and M only once.

Numerics: a scaled message stays above exp(-(range of the position's scores + 2 range of the edges)). Where
that could underflow the item is done in logarithms by `chain_log.py`: slow, and hardly ever needed.

Memory: scores and residual are label-major (K, N). A chunk of items is copied into rows of `width` = K
rounded up to LANES, small enough for the L2 cache, so that every inner loop runs over whole vector
registers and no short item pays for starting one; the padding stays zero.

Shapes: K states, N positions, I items. scores, residual: float64 (K, N); edges: float64 (K, K), from x to.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.chain_log import log_item
from crfqn.kernels.exponential import exp_in_place

LANES = 8
CHUNK = 256  # positions: four arrays of 256 x 32 numbers are 256 KB
LARGEST_RANGE = 600.0  # exp(-600) = 3e-261: far from the smallest normal number even after a product


@kernel
def padded_edges(edges):
    """M = exp(edge - largest) and its transpose, both (width, width), zeros in the padding."""
    n_states = edges.shape[0]
    width = (n_states + LANES - 1) // LANES * LANES
    m = np.zeros((width, width))
    m_transposed = np.zeros((width, width))
    largest = edges.max()
    for j in range(n_states):
        for k in range(n_states):
            m[j, k] = np.exp(edges[j, k] - largest)
            m_transposed[k, j] = m[j, k]
    return m, m_transposed


@kernel
def load_scores(scores, start, length, psi, shift, spread, exponents):
    """psi[t, k] = exp(scores[k, start + t] - shift[t]) for one chunk.

    shift[t], spread[t]: the largest score of the position, and the largest less the smallest.
    """
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
    for tile in range(0, length, LANES):
        for k in range(n_states):
            for t in range(tile, min(tile + LANES, length)):
                psi[t, k] = scores[k, start + t] - shift[t]
    exp_in_place(psi[:length].reshape(length * width), exponents)
    for t in range(length):
        for k in range(n_states, width):
            psi[t, k] = 0.0


@kernel
def times_matrix(vector, matrix, out):
    """out = vector' matrix, eight rows at a time: one load and store of `out` serves eight products."""
    width = matrix.shape[0]
    for k in range(width):
        out[k] = 0.0
    for j in range(0, width, LANES):
        r0, r1, r2, r3 = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
        r4, r5, r6, r7 = matrix[j + 4], matrix[j + 5], matrix[j + 6], matrix[j + 7]
        v0, v1, v2, v3 = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        v4, v5, v6, v7 = vector[j + 4], vector[j + 5], vector[j + 6], vector[j + 7]
        for k in range(width):
            low = v0 * r0[k] + v1 * r1[k] + v2 * r2[k] + v3 * r3[k]
            high = v4 * r4[k] + v5 * r5[k] + v6 * r6[k] + v7 * r7[k]
            out[k] += low + high


@kernel
def forward(psi, m, alpha, scale):
    """The forward recursion of one item; returns sum_t log c_t and leaves 1 / c_t in `scale`."""
    length, width = psi.shape
    log_scale = 0.0
    for t in range(length):
        a, p = alpha[t], psi[t]
        if t == 0:
            for k in range(width):
                a[k] = 1.0
        else:
            times_matrix(alpha[t - 1], m, a)
        total = 0.0
        for k in range(width):
            a[k] *= p[k]
            total += a[k]
        scale[t] = 1.0 / total
        log_scale += np.log(total)
        for k in range(width):
            a[k] *= scale[t]
    return log_scale


@kernel
def backward(psi, m_transposed, alpha, scale, p):
    """The backward recursion of one item: node marginals into p, and u_t in the place of psi_t."""
    length, width = psi.shape
    for t in range(length - 1, -1, -1):
        b, u, a = p[t], psi[t], alpha[t]
        if t == length - 1:
            for k in range(width):
                b[k] = 1.0
        else:
            times_matrix(psi[t + 1], m_transposed, b)
        for k in range(width):
            u[k] *= b[k] * scale[t]
        for k in range(width):
            b[k] *= a[k]


@kernel
def add_outer(alpha, u, length, raw):
    """raw += sum_t alpha_t u_{t+1}' over a chunk; u is zero where an item starts and behind the end."""
    width = alpha.shape[1]
    for t in range(0, length - 1, 4):
        a0, a1, a2, a3 = alpha[t], alpha[t + 1], alpha[t + 2], alpha[t + 3]
        u0, u1, u2, u3 = u[t + 1], u[t + 2], u[t + 3], u[t + 4]
        for j in range(width):
            row = raw[j]
            x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
            for k in range(width):
                row[k] += x0 * u0[k] + x1 * u1[k] + x2 * u2[k] + x3 * u3[k]


@kernel
def store_marginals(p, start, length, scores, residual, expected):
    """residual[k, start + t] = p[t, k] for one chunk; expected[t] = the position's expected score."""
    for t in range(length):
        expected[t] = 0.0
    for tile in range(0, length, LANES):
        for k in range(scores.shape[0]):
            for t in range(tile, min(tile + LANES, length)):
                residual[k, start + t] = p[t, k]
                expected[t] += p[t, k] * scores[k, start + t]


@kernel
def subtract_targets(targets, start, stop, scores, edges, weight, residual, edge_counts):
    """Weigh an item's marginals and take the observed counts from them; returns the targets' score."""
    if weight != 1.0:
        for k in range(scores.shape[0]):
            for t in range(start, stop):
                residual[k, t] *= weight
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
def pass_messages(psi, m, m_transposed, alpha, scale, p, weight):
    """Forward and backward over one item; psi becomes weight * u, zero at the first position."""
    length, width = psi.shape
    log_scale = forward(psi, m, alpha, scale)
    backward(psi, m_transposed, alpha, scale, p)
    for k in range(width):
        psi[0, k] = 0.0
    if weight != 1.0:
        for t in range(1, length):
            for k in range(width):
                psi[t, k] *= weight
    return log_scale


@kernel
def chunk_end(first, last, offsets):
    """The item behind the largest chunk that starts at item `first`: at least one item."""
    stop = first + 1
    while stop < last and offsets[stop + 1] - offsets[first] <= CHUNK:
        stop += 1
    return stop


@kernel
def longest_item(first, last, offsets):
    """The length of the longest of these items."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@kernel
def close_edges(raw, m, edges, edge_counts):
    """edge_counts += raw * M; returns the expected edge score <edges, raw * M>."""
    expected = 0.0
    for j in range(edges.shape[0]):
        for k in range(edges.shape[0]):
            count = raw[j, k] * m[j, k]
            edge_counts[j, k] += count
            expected += edges[j, k] * count
    return expected


@kernel
def forward_backward(first, last, offsets, scores, edges, targets, weights, residual, edge_counts, sums):
    """One inference pass over items first..last-1 of a chain; returns their weighted expected edge score.

    Parameters
    ----------
    offsets : int64 (I + 1,); targets : int32 (N,), or (0,) where no labels are known; weights : float64 (I,)
    residual : float64 (K, N), out: weight * (node marginals - observed), of these items' positions only.
    edge_counts : float64 (K, K), in and out: += weight * (expected - observed) transitions.
    sums : float64 (I, 3), out: log partition, expected node score, score of the targets.
    """
    m, m_transposed = padded_edges(edges)
    largest_edge = edges.max()
    edge_range = largest_edge - edges.min()
    width = m.shape[0]
    rows = max(CHUNK, longest_item(first, last, offsets)) + LANES
    psi, alpha, p = np.zeros((rows, width)), np.zeros((rows, width)), np.zeros((rows, width))
    shift, spread, scale = np.empty(rows), np.empty(rows), np.empty(rows)
    exponents, raw = np.empty(rows * width, np.int64), np.zeros((width, width))
    expected_edges = 0.0
    chunk = first
    while chunk < last:
        stop, start = chunk_end(chunk, last, offsets), offsets[chunk]
        length = offsets[stop] - start
        load_scores(scores, start, length, psi, shift, spread, exponents)
        for i in range(chunk, stop):
            a, b, widest, sums[i, 0] = offsets[i] - start, offsets[i + 1] - start, 0.0, 0.0
            for t in range(a, b):
                widest = max(widest, spread[t])
                sums[i, 0] += shift[t]
            if widest + 2 * edge_range < LARGEST_RANGE:
                sums[i, 0] += (b - a - 1) * largest_edge
                sums[i, 0] += pass_messages(
                    psi[a:b], m, m_transposed, alpha[a:b], scale[a:b], p[a:b], weights[i]
                )
            else:
                sums[i, 0], expected = log_item(
                    scores, edges, start + a, weights[i], psi[a:b], alpha[a:b], p[a:b], edge_counts
                )
                expected_edges += expected
        for t in range(length, length + LANES):
            for k in range(width):
                psi[t, k] = 0.0
        add_outer(alpha, psi, length, raw)
        store_marginals(p, start, length, scores, residual, scale)
        for i in range(chunk, stop):
            sums[i, 1] = 0.0
            for t in range(offsets[i] - start, offsets[i + 1] - start):
                sums[i, 1] += scale[t]
            sums[i, 2] = subtract_targets(
                targets, offsets[i], offsets[i + 1], scores, edges, weights[i], residual, edge_counts
            )
        chunk = stop
    return expected_edges + close_edges(raw, m, edges, edge_counts)
