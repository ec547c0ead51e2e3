"""Blocks of weights in chains, for block coordinate descent: a feature's, and the edges, which are in all items.

A move is tried in place and then accepted, or tried again with another step, of which 0 undoes it. `s` is a
`ChainState` (`feature_bcd_state.py`); the names of its entries are explained in `chain_message_kernels.py`.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import CHUNK, add_outer
from crfqn.kernels.logarithms import log_sum_exp, normalise
from crfqn.kernels.rows import aligned_rows, exp_in_place
from crfqn.solvers.coordinate.chain_message_kernels import (
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
    OUTSIDE,
    PSI,
    SCORES,
    SCRATCH,
    SHIFT,
    SPREAD,
    TRIAL_LOG_Z,
    TRIAL_OBSERVED,
    TRIED,
    WEIGHT,
    M,
    choose_form,
    extend_messages,
    load_edges,
    load_row,
    log_z_within,
    needs_logarithms,
)


@subkernel
def item_stop(e, end, indices, stop):
    """Return the first entry after e that lies at the position `stop` or behind, `end` if there is none."""
    e += 1
    while e < end and indices[e] < stop:
        e += 1
    return e


@kernel
def node_slopes(s, feature, g, h):
    """Write gradient g and curvature h of a feature's weights, float64 (K,) each.

    g(k) = sum_t weight x_tf (p_t(k) - observed),   h(k) = sum_t weight x_tf^2 p_t(k) (1 - p_t(k))
    """
    e, end, n_states = s.indptr[feature], s.indptr[feature + 1], s.edges.shape[1]
    indices, values, targets, item_of, offsets = s.indices, s.values, s.targets, s.item_of, s.offsets
    front, back, is_log, weights = s.marks[FRONT], s.marks[BACK], s.marks[IS_LOG], s.items[WEIGHT]
    alpha, beta, p = s.rows[FORWARD], s.rows[BACKWARD], s.factors[SCRATCH, 1]
    slopes, squares = s.factors[SCRATCH, 2], s.factors[SCRATCH, 3]  # padded: whole registers
    for k in range(slopes.size):
        slopes[k] = squares[k] = 0.0
    while e < end:
        i = item_of[indices[e]]
        stop = item_stop(e, end, indices, offsets[i + 1])
        first, last = np.int64(indices[e]), np.int64(indices[stop - 1])
        if front[i] < last or back[i] > first:
            extend_messages(s, i, first, last)
        add_slopes(
            e, stop, indices, values, weights[i], is_log[i] != 0, alpha, beta, targets, n_states, p, slopes, squares
        )  # fmt: skip
        e = stop
    for k in range(n_states):
        g[k], h[k] = slopes[k], squares[k]


@subkernel
def add_slopes(e, stop, indices, values, weight, is_log, alpha, beta, targets, n_states, p, g, h):
    """Add the terms of an item's entries e ... stop - 1 to a feature's gradient and curvature, (width,); p: scratch."""
    width = p.size
    for c in range(e, stop):
        t, x = indices[c], weight
        a, b, square = alpha[t], beta[t], weight
        if values.size > 0:
            x *= values[c]
            square = x * values[c]
        factor = 1.0
        if is_log:
            for k in range(n_states):
                p[k] = a[k] + b[k]
            normalise(p, n_states)
            for k in range(width):
                p[k] = np.exp(p[k]) if k < n_states else 0.0
        else:
            total = 0.0
            for k in range(width):
                p[k] = a[k] * b[k]
                total += p[k]
            factor = 1.0 / total
        for k in range(width):
            q = factor * p[k]
            g[k] += x * q
            h[k] += square * q * (1.0 - q)
        g[targets[t]] -= x


@kernel
def try_nodes(s, feature, delta, step):
    """Return the change of the loss when the scores of a feature's positions t move by step x_tf delta, (K,)."""
    begin, end, change = s.indptr[feature], s.indptr[feature + 1], 0.0
    move_scores(s, begin, end, delta, step)
    indices, item_of, offsets, n_states = s.indices, s.item_of, s.offsets, s.edges.shape[1]
    front, back, is_log = s.marks[FRONT], s.marks[BACK], s.marks[IS_LOG]
    alpha, beta, gains, shift = s.rows[FORWARD], s.rows[BACKWARD], s.positions[GAIN], s.positions[SHIFT]
    log_z, trial, weights = s.items[LOG_Z], s.items[TRIAL_LOG_Z], s.items[WEIGHT]
    e = begin
    while e < end:
        i = item_of[indices[e]]
        stop = item_stop(e, end, indices, offsets[i + 1])
        first, last, rest = np.int64(indices[e]), np.int64(indices[stop - 1]), s.items[OUTSIDE, i]
        if front[i] < first - 1 or back[i] > last:  # the messages beside the stretch are of another form
            first, last, rest = offsets[i], offsets[i + 1] - 1, 0.0
        front[i], back[i] = first - 1, last
        extend_messages(s, i, last, last)
        trial[i] = rest + log_z_within(first, last, is_log[i] != 0, alpha, beta, gains, shift, n_states)
        gain = 0.0
        for c in range(e, stop):
            gain += step * (s.values[c] if s.values.size > 0 else 1.0) * delta[s.targets[indices[c]]]
        s.items[TRIAL_OBSERVED, i] = s.items[OBSERVED, i] + gain
        change += weights[i] * ((trial[i] - log_z[i]) - gain)
        e = stop
    return change


@subkernel
def move_scores(s, e, end, delta, step):
    """Load the moved scores of a feature's entries e ... end - 1, and choose the form of their items' messages.

    The first time in a move it stores the other positions' part of each item's log Z (OUTSIDE).
    """
    begin, n_states, outside, edge_limits = e, s.edges.shape[1], s.items[OUTSIDE], s.factors[LIMITS, 0]
    indices, values, item_of, offsets = s.indices, s.values, s.item_of, s.offsets
    front, back, is_log, rows, positions = s.marks[FRONT], s.marks[BACK], s.marks[IS_LOG], s.rows, s.positions
    alpha, beta = rows[FORWARD], rows[BACKWARD]
    gains, shift, spread = positions[GAIN], positions[SHIFT], positions[SPREAD]
    while e < end:
        i = item_of[indices[e]]
        stop = item_stop(e, end, indices, offsets[i + 1])
        if np.isnan(outside[i]):
            first, last = np.int64(indices[e]), np.int64(indices[stop - 1])
            if front[i] < last or back[i] > last:
                extend_messages(s, i, last, last)
            within = log_z_within(first, last, is_log[i] != 0, alpha, beta, gains, shift, n_states)
            outside[i] = s.items[LOG_Z, i] - within
        load_entries(e, stop, indices, values, rows, positions, delta, step, n_states)
        if needs_logarithms(offsets[i], offsets[i + 1], spread, edge_limits[0], edge_limits[1]) != is_log[i]:
            choose_form(s, i)  # it loads the known scores everywhere: once more
            load_entries(e, stop, indices, values, rows, positions, delta, step, n_states)
        e = stop
    exponentiate_entries(begin, end, indices, item_of, is_log, rows[PSI], n_states, s.exponents)


@subkernel
def load_entries(e, stop, indices, values, rows, positions, delta, step, n_states):
    """Load the scores of an item's entries, moved by step x delta."""
    for c in range(e, stop):
        x = values[c] if values.size > 0 else 1.0
        load_row(np.int64(indices[c]), rows, positions, delta, step * x, n_states)


@subkernel
def exponentiate_entries(e, end, indices, item_of, is_log, psi, n_states, exponents):
    """Replace psi by exp(psi) at a feature's entries e ... end - 1, except for items in logarithms.

    Many rows are handed to one call of `exp_in_place`, which costs about as much as for a single row.
    """
    width = psi.shape[1]
    most = exponents.size // width
    batch = np.empty(most * width)
    while e < end:
        stop = e + most if e + most < end else end
        for c in range(e, stop):
            row, t = (c - e) * width, indices[c]
            for k in range(width):
                batch[row + k] = psi[t, k]
        exp_in_place(batch[: (stop - e) * width], exponents)
        for c in range(e, stop):
            row, t = (c - e) * width, indices[c]
            if is_log[item_of[t]] == 0:
                for k in range(n_states):
                    psi[t, k] = batch[row + k]
        e = stop


@kernel
def accept_nodes(s, feature, delta, step):
    """Accept the move that was tried last; with step 0, which has to be tried before, forget it."""
    n_states = s.edges.shape[1]
    for c in range(s.indptr[feature], s.indptr[feature + 1]):
        t, x = s.indices[c], s.values[c] if s.values.size > 0 else 1.0
        for k in range(n_states):
            s.rows[SCORES, t, k] += step * x * delta[k]
        i = s.item_of[t]
        s.items[LOG_Z, i], s.items[OBSERVED, i] = s.items[TRIAL_LOG_Z, i], s.items[TRIAL_OBSERVED, i]
        s.items[OUTSIDE, i] = np.nan


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
