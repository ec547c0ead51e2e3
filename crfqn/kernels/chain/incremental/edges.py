"""The block of a chain's edges for block coordinate descent: it is in all items, and a move needs all messages anew.

`s` and the names of its entries are those of `incremental_messages.py`.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.chain.incremental.messages import (
    BACK,
    BACKWARD,
    COUNTS,
    FORWARD,
    FRONT,
    GAIN,
    IS_LOG,
    KNOWN,
    LIMITS,
    LOG_Z,
    OBSERVED,
    PSI,
    SHIFT,
    TRIAL_LOG_Z,
    TRIAL_OBSERVED,
    TRIED,
    WEIGHT,
    M,
    choose_form,
    extend_messages,
    load_edges,
    log_z_within,
)
from crfqn.kernels.chain.marginals.forward_backward import CHUNK, add_outer
from crfqn.kernels.chain.marginals.logarithms import log_sum_exp
from crfqn.kernels.rows import aligned_rows


@kernel
def edge_slopes(s, g, h):
    """Write gradient g and curvature h of the edge weights, float64 (K K,) each.

    With P_t(j, k) = a_{t-1}(j) M(j, k) u_t(k): g = sum_t weight P_t - observed, h = sum_t weight P_t (1 - P_t). Both
    sums, of P and of its square, are outer products.
    """
    n_states, width, m, longest = s.edges.shape[1], s.rows.shape[2], s.factors[M], CHUNK
    for i in range(s.items.shape[1]):
        longest = max(longest, s.offsets[i + 1] - s.offsets[i])
    u, a = aligned_rows(longest, width), aligned_rows(longest, width)
    sums, squares = aligned_rows(width, width), aligned_rows(width, width)
    for j in range(n_states):
        for k in range(n_states):
            g[j * n_states + k], h[j * n_states + k] = -s.edges[COUNTS, j, k], 0.0
    for i in range(s.items.shape[1]):
        start, stop, weight = s.offsets[i], s.offsets[i + 1], s.items[WEIGHT, i]
        if stop - start < 2 or weight == 0.0:
            continue
        extend_messages(s, i, start, stop - 1)
        if s.marks[IS_LOG, i] != 0:
            add_log_pairs(start, stop, weight, s.rows, s.positions, s.edges[TRIED], g, h)
            continue
        length = stop - start
        load_backward_factors(start, stop, weight, s.rows, s.positions, s.factors[LIMITS, 0, 0], u)
        add_outer(s.rows[FORWARD, start:stop], u, length, sums, n_states)
        for t in range(length):
            for k in range(width):
                a[t, k] = s.rows[FORWARD, start + t, k] * s.rows[FORWARD, start + t, k]
                u[t, k] *= u[t, k] / weight
        add_outer(a[:length], u, length, squares, n_states)
    for j in range(n_states):
        for k in range(n_states):
            g[j * n_states + k] += sums[j, k] * m[j, k]
            h[j * n_states + k] += sums[j, k] * m[j, k] - squares[j, k] * m[j, k] * m[j, k]


@subkernel
def load_backward_factors(start, stop, weight, rows, positions, largest_edge, u):
    """u_t = weight psi_t b_t / (c_t sum_k a_t(k) b_t(k)), c_t the scale of the forward message; 0 at the start."""
    width = rows.shape[2]
    for t in range(start, stop):
        total = 0.0
        for k in range(width):
            u[t - start, k] = rows[PSI, t, k] * rows[BACKWARD, t, k]
            total += rows[FORWARD, t, k] * rows[BACKWARD, t, k]
        factor = weight / (total * np.exp(positions[GAIN, t] - largest_edge)) if t > start else 0.0
        for k in range(width):
            u[t - start, k] *= factor


@subkernel
def add_log_pairs(start, stop, weight, rows, positions, edges, g, h):
    """Add an item's pair marginals p to g and p (1 - p) to h, both weighted; its messages are in logarithms."""
    n_states = edges.shape[0]
    work = np.empty(n_states)
    for t in range(start + 1, stop):
        for k in range(n_states):
            work[k] = rows[FORWARD, t, k] + rows[BACKWARD, t, k]
        log_total = log_sum_exp(work, n_states) + positions[GAIN, t]
        for j in range(n_states):
            for k in range(n_states):
                log_pair = rows[FORWARD, t - 1, j] + (edges[j, k] + rows[PSI, t, k] + rows[BACKWARD, t, k])
                p = np.exp(log_pair - log_total)
                g[j * n_states + k] += weight * p
                h[j * n_states + k] += weight * p * (1.0 - p)


@kernel
def try_edges(s, delta, step):
    """Return the change of the loss when the edge weights move by step * delta, (K K,), from the accepted ones."""
    n_states, change = s.edges.shape[1], 0.0
    for j in range(n_states):
        for k in range(n_states):
            s.edges[TRIED, j, k] = s.edges[KNOWN, j, k] + step * delta[j * n_states + k]
    load_edges(s.edges[TRIED], s.factors)
    for i in range(s.items.shape[1]):
        start, stop, gain = s.offsets[i], s.offsets[i + 1], 0.0
        s.items[TRIAL_LOG_Z, i], s.items[TRIAL_OBSERVED, i] = s.items[LOG_Z, i], s.items[OBSERVED, i]
        if start == stop:
            continue
        choose_form(s, i)
        s.marks[FRONT, i], s.marks[BACK, i] = start - 1, stop - 1
        extend_messages(s, i, stop - 1, stop - 1)
        for t in range(start + 1, stop):
            gain += step * delta[s.targets[t - 1] * n_states + s.targets[t]]
        s.items[TRIAL_LOG_Z, i] = log_z_within(
            start, stop - 1, s.marks[IS_LOG, i] != 0, s.rows[FORWARD], s.rows[BACKWARD], s.positions[GAIN],
            s.positions[SHIFT], n_states,
        )  # fmt: skip
        s.items[TRIAL_OBSERVED, i] += gain
        change += s.items[WEIGHT, i] * ((s.items[TRIAL_LOG_Z, i] - s.items[LOG_Z, i]) - gain)
    return change


@kernel
def accept_edges(s):
    """Accept the edge weights that were tried last."""
    for j in range(s.edges.shape[1]):
        for k in range(s.edges.shape[1]):
            s.edges[KNOWN, j, k] = s.edges[TRIED, j, k]
    for i in range(s.items.shape[1]):
        s.items[LOG_Z, i], s.items[OBSERVED, i] = s.items[TRIAL_LOG_Z, i], s.items[TRIAL_OBSERVED, i]
