"""Block coordinate descent over the features of a CRF: the loss while blocks move, and a sweep over many in one call.

A block is all states' weights of one feature; a chain has one block more, its edges. For each in turn, with its
gradient g and curvature h (Sokolovska, Lavergne, Cappe and Yvon 2010, section 3.3: the covariance between positions is
left out, and `floor` is a lower bound on h),

    d(k) = argmin_d g(k) d + h(k)/2 d^2 + l1 |w(k) + d| + l2/2 (w(k) + d)^2

and a step along d, at first of length 1, that satisfies Armijo's rule: the objective decreases by `armijo` times the
predicted decrease. The change of the loss is computed on the feature's items only. A move is tried in place and then
accepted, or tried again with another step, of which 0 undoes it.

Either `chain` or `tree` is given and the other is None: the compiler then leaves out what belongs to it. The first axis
of the states' arrays is named by constants: each array that is passed on takes time of the compiler.

Shapes: I items, N positions, K states, `width` = K rounded up to LANES, rows of states position-major. w, g, h, d and
l1, l2 of a block: float64 (its coordinates,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.coordinate_descent import soft_threshold
from crfqn.kernels.forward_backward import MAX_SCORE_RANGE, backward_step, forward_step, padded_edges
from crfqn.kernels.logarithms import log_backward_step, log_forward_step, log_pairs, log_sum_exp, normalise
from crfqn.kernels.margins import entry_value
from crfqn.kernels.rows import MIN_EXPONENT, copy_rows, exp_in_place

MAX_TRIALS = 80  # halvings: if the curvature is at its floor, the first step is 1e10 times the gradient
WEIGHT, LOG_Z, OBSERVED, TRIAL_LOG_Z, TRIAL_OBSERVED, OUTSIDE, TOTAL = range(7)  # of items
# Of a chain's rows; psi = exp(score - shift), in logarithms score - shift.
SCORES, PSI, FORWARD, BACKWARD = range(4)
SHIFT, SPREAD, GAIN = range(3)  # of its positions
FRONT, BACK, IS_LOG = range(3)  # of its marks
KNOWN, TRIED, COUNTS = range(3)  # of its edges
M, M_TRANSPOSED, LIMITS, SCRATCH = range(4)  # of its factors; LIMITS[0]: the largest and the smallest edge
SUMS, P = range(2)  # of a tree's rows


class ChainState(NamedTuple):
    """Items of a chain, with the messages that are known.

    indptr, indices, values : the feature store; offsets : int64 (I + 1,); item_of : int64 (N,); targets : int32 (N,)
    rows : float64 (4, N, width): known scores, psi, forward and backward messages
    positions : float64 (3, N): the largest score, the largest less the smallest, the message's log scale
    items : float64 (7, I): weight, log Z, the targets' score; the last two after the latest trial; log Z less what the
        feature's stretch adds to it, NaN between moves
    marks : int64 (3, I): the last valid forward and the first valid backward message; 1 for logarithms
    edges : float64 (3, K, K): as known, as tried last, observed counts, weighted
    factors : float64 (4, width, width): exp(edge - largest), its transpose, extremes, scratch
    n_steps : int64 (2,), forward and backward messages computed
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    item_of: np.ndarray
    targets: np.ndarray
    rows: np.ndarray
    positions: np.ndarray
    items: np.ndarray
    marks: np.ndarray
    edges: np.ndarray
    factors: np.ndarray
    n_steps: np.ndarray


class TreeState(NamedTuple):
    """Items of a taxonomy, with their marginals; feature store, targets and items as in `ChainState`, and Z of the
    latest trial, its largest term 1.

    parents, is_label : int32 (K,); bool (K,); n_steps : int64 (2,), ways down and ways up
    rows : float64 (2, N, K), path sums and marginals
    paths : float64 (K,), path sums of the latest move
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    parents: np.ndarray
    is_label: np.ndarray
    targets: np.ndarray
    rows: np.ndarray
    items: np.ndarray
    paths: np.ndarray
    n_steps: np.ndarray


class SweepRule(NamedTuple):
    """Constants of the line search and of shrinking.

    armijo, backtrack : the required share of the predicted decrease, and the factor of the next trial step
    floor, shrink_share, shrink_slack : lower bound on the curvature; see `block_violation`
    noise : in nats; predicted decreases below it are rounding
    """

    armijo: float
    backtrack: float
    floor: float
    shrink_share: float
    shrink_slack: float
    noise: float


@inner
def weigh_trial(s, i, log_z, gain):
    """Store an item's log Z and targets' score after a trial, which raises the score by `gain`; return the change of
    its loss."""
    s.items[TRIAL_LOG_Z, i], s.items[TRIAL_OBSERVED, i] = log_z, s.items[OBSERVED, i] + gain
    return s.items[WEIGHT, i] * ((log_z - s.items[LOG_Z, i]) - gain)


@inner
def accept_trial(s, i):
    """Make an item's log Z and targets' score those of the latest trial."""
    s.items[LOG_Z, i], s.items[OBSERVED, i] = s.items[TRIAL_LOG_Z, i], s.items[TRIAL_OBSERVED, i]
    s.items[OUTSIDE, i] = np.nan


# Messages of chains. A forward message depends on the scores up to its position, a backward message on those after it.
# So each item has two marks: forward messages are valid up to `front`, backward messages from `back` on, and either is
# only extended as far as a result needs it. With a feature at the positions s ... e of an item,
#
#     its marginals                 need a_t up to e and b_t from s on;
#     log Z after a move of it      needs a_s ... a_e computed again and the same b_e: the terms of the positions
#                                   before s and after e have not changed;
#     once it has moved             a_t is valid up to e, b_t from e on.
#
# Messages are scaled as in `forward_backward.py`, each to a sum of 1, so that a marginal is a_t(k) b_t(k) over their
# sum; items whose scores spread too far, or that scores or edges of -inf forbid something, are kept in logarithms, as
# in `logarithms.py`. A position adds gain_t + shift_t to log Z: the logarithm of its message's scale, and its largest
# score, which was subtracted.


@inner
def scale_row(row, total):
    """Divide a row by a number."""
    inverse = 1.0 / total
    for k in range(row.size):
        row[k] *= inverse


@subkernel
def extend_messages(s, i, first, last):
    """Make the forward messages of item i valid up to `last`, and its backward messages from `first` on."""
    front, back, start, is_log = s.marks[FRONT, i], s.marks[BACK, i], s.offsets[i], s.marks[IS_LOG, i] != 0
    alpha, beta, psi, work = s.rows[FORWARD], s.rows[BACKWARD], s.rows[PSI], s.factors[SCRATCH, 0]
    edges, n_states, width = s.edges[TRIED], s.edges.shape[1], s.rows.shape[2]
    for t in range(front + 1, last + 1):
        if is_log:
            s.positions[GAIN, t] = log_forward_step(t, start, psi[t], edges, alpha, work)
        else:
            total = forward_step(t, start, psi, s.factors[M], n_states, alpha)
            s.positions[GAIN, t] = np.log(total) + (s.factors[LIMITS, 0, 0] if t > start else 0.0)
    for t in range(back - 1, first - 1, -1):
        if is_log:
            log_backward_step(t, psi[t + 1], edges, beta, work)
            continue
        for k in range(width):
            work[k] = psi[t + 1, k] * beta[t + 1, k]
        backward_step(work, s.factors[M], s.factors[M_TRANSPOSED], 0, n_states, beta[t])
        total = 0.0
        for k in range(width):
            total += beta[t, k]
        scale_row(beta[t], total)
    s.n_steps[0] += max(last - front, 0)
    s.n_steps[1] += max(back - first, 0)
    s.marks[FRONT, i], s.marks[BACK, i] = max(front, last), min(back, first)


@subkernel
def log_z_within(s, i, first, last):
    """Return the terms of log Z that belong to the positions first ... last, and to the backward message of `last`."""
    a, b, work, total = s.rows[FORWARD, last], s.rows[BACKWARD, last], s.factors[SCRATCH, 0], 0.0
    if s.marks[IS_LOG, i] != 0:
        for k in range(s.edges.shape[1]):
            work[k] = a[k] + b[k]
        total = log_sum_exp(work, s.edges.shape[1])
    else:
        for k in range(a.size):
            total += a[k] * b[k]
        total = np.log(total)
    for t in range(first, last + 1):
        total += s.positions[GAIN, t] + s.positions[SHIFT, t]
    return total


@inner
def load_row(s, t, delta, step, is_log):
    """Write psi at position t, of score + step * delta less the largest of it, and the position's shift and spread."""
    score, psi, n_states = s.rows[SCORES, t], s.rows[PSI, t], s.edges.shape[1]
    largest = smallest = score[0] + step * delta[0]
    for k in range(n_states):
        psi[k] = score[k] + step * delta[k]
        largest = psi[k] if psi[k] > largest else largest
        smallest = psi[k] if psi[k] < smallest else smallest
    for k in range(n_states):
        psi[k] -= largest
    if not is_log:
        exp_in_place(psi)
    for k in range(n_states, psi.size):
        psi[k] = 0.0
    s.positions[SHIFT, t], s.positions[SPREAD, t] = largest, largest - smallest


@inner
def needs_logarithms(s, i):
    """Return whether the scores of an item spread too far for scaled messages."""
    widest = 0.0
    for t in range(s.offsets[i], s.offsets[i + 1]):
        widest = s.positions[SPREAD, t] if s.positions[SPREAD, t] > widest else widest
    return not widest + 2 * (s.factors[LIMITS, 0, 0] - s.factors[LIMITS, 0, 1]) < MAX_SCORE_RANGE


@subkernel
def choose_form(s, i):
    """Choose scaled messages or logarithms for item i by the spread of its scores; returns whether that is a change.
    After one no message but the last is valid, and `psi` holds the known scores."""
    start, stop, n_states, is_log = s.offsets[i], s.offsets[i + 1], s.edges.shape[1], needs_logarithms(s, i)
    if s.marks[IS_LOG, i] == is_log:
        return False
    s.marks[FRONT, i], s.marks[BACK, i], s.marks[IS_LOG, i] = start - 1, stop - 1, is_log
    still = np.zeros(n_states)
    for t in range(start, stop):
        load_row(s, t, still, 0.0, is_log)
    if start < stop:
        for k in range(n_states):
            s.rows[BACKWARD, stop - 1, k] = 0.0 if is_log else 1.0
    return True


@subkernel
def load_trial_edges(s):
    """Write M and its transpose, and the largest and the smallest edge, of those tried last."""
    edges, factors = s.edges[TRIED], s.factors
    m, m_transposed, factors[LIMITS, 0, 0], factors[LIMITS, 0, 1] = padded_edges(edges)
    if edges.min() == -np.inf:
        factors[LIMITS, 0, 1] = -np.inf
    copy_rows(factors[M], m)
    copy_rows(factors[M_TRANSPOSED], m_transposed)


@kernel
def load_chains(s):
    """Load the known scores and edges; messages are computed when they are needed."""
    load_trial_edges(s)
    still = np.zeros(s.edges.shape[1])
    for t in range(s.rows.shape[1]):
        load_row(s, t, still, 0.0, True)
    for i in range(s.items.shape[1]):
        s.marks[IS_LOG, i] = -1
        choose_form(s, i)


@inner
def item_stop(s, e, end):
    """Return the first entry after e that belongs to another item, `end` if there is none."""
    stop = s.offsets[s.item_of[s.indices[e]] + 1]
    e += 1
    while e < end and s.indices[e] < stop:
        e += 1
    return e


@subkernel
def node_slopes(s, feature, g, h):
    """Write g(k) = sum_t weight x_tf (p_t(k) - observed) and h(k) = sum_t weight x_tf^2 p_t(k) (1 - p_t(k))."""
    e, end, n_states = s.indptr[feature], s.indptr[feature + 1], s.edges.shape[1]
    p, sums, squares = s.factors[SCRATCH, 1], s.factors[SCRATCH, 2], s.factors[SCRATCH, 3]  # whole registers
    sums[:], squares[:] = 0.0, 0.0
    while e < end:
        i, stop = s.item_of[s.indices[e]], item_stop(s, e, end)
        extend_messages(s, i, np.int64(s.indices[e]), np.int64(s.indices[stop - 1]))
        weight, is_log = s.items[WEIGHT, i], s.marks[IS_LOG, i] != 0
        for c in range(e, stop):
            t, x, total = s.indices[c], entry_value(s.values, c), 0.0
            a, b = s.rows[FORWARD, t], s.rows[BACKWARD, t]
            if is_log:
                for k in range(n_states):
                    p[k] = a[k] + b[k]
                normalise(p, n_states)
                for k in range(p.size):
                    p[k] = np.exp(p[k]) if k < n_states else 0.0
                total = 1.0
            else:
                for k in range(p.size):
                    p[k] = a[k] * b[k]
                    total += p[k]
            factor, slope, square = 1.0 / total, weight * x, weight * x * x
            for k in range(p.size):
                q = factor * p[k]
                sums[k] += slope * q
                squares[k] += square * q * (1.0 - q)
            sums[s.targets[t]] -= slope
        e = stop
    for k in range(n_states):
        g[k], h[k] = sums[k], squares[k]


@inner
def load_entries(s, e, stop, delta, step, is_log):
    """Load the scores of an item's entries, moved by step x delta."""
    for c in range(e, stop):
        load_row(s, np.int64(s.indices[c]), delta, step * entry_value(s.values, c), is_log)


@subkernel
def try_nodes(s, feature, delta, step):
    """Return the change of the loss when the scores of a feature's positions t move by step x_tf delta, (K,)."""
    e, end, change = s.indptr[feature], s.indptr[feature + 1], 0.0
    while e < end:
        i, stop = s.item_of[s.indices[e]], item_stop(s, e, end)
        first, last = np.int64(s.indices[e]), np.int64(s.indices[stop - 1])
        if np.isnan(s.items[OUTSIDE, i]):  # the first time in a move
            extend_messages(s, i, last, last)
            s.items[OUTSIDE, i] = s.items[LOG_Z, i] - log_z_within(s, i, first, last)
        outside, gain, is_log = s.items[OUTSIDE, i], 0.0, s.marks[IS_LOG, i] != 0
        load_entries(s, e, stop, delta, step, is_log)
        if needs_logarithms(s, i) != is_log:
            choose_form(s, i)  # it loads the known scores everywhere: once more
            load_entries(s, e, stop, delta, step, not is_log)
        # If the messages around the stretch are of the other form, the whole item is the stretch.
        if s.marks[FRONT, i] < first - 1 or s.marks[BACK, i] > last:
            first, last, outside = s.offsets[i], s.offsets[i + 1] - 1, 0.0
        s.marks[FRONT, i], s.marks[BACK, i] = first - 1, last
        extend_messages(s, i, last, last)
        for c in range(e, stop):
            gain += step * entry_value(s.values, c) * delta[s.targets[s.indices[c]]]
        change += weigh_trial(s, i, outside + log_z_within(s, i, first, last), gain)
        e = stop
    return change


@subkernel
def edge_slopes(s, g, h):
    """Write g = sum_t weight P_t - observed and h = sum_t weight P_t (1 - P_t), P_t the pair marginals; (K K,) each."""
    n_states, edges, psi = s.edges.shape[1], s.edges[TRIED], s.rows[PSI]
    pairs = np.empty((n_states, n_states))
    counts = s.edges[COUNTS].reshape(g.size)
    for e in range(g.size):
        g[e], h[e] = -counts[e], 0.0
    for i in range(s.items.shape[1]):
        start, stop, weight = s.offsets[i], s.offsets[i + 1], s.items[WEIGHT, i]
        if stop - start < 2 or weight == 0.0:
            continue
        extend_messages(s, i, start, stop - 1)
        for t in range(start + 1, stop):
            a, b = s.rows[FORWARD, t - 1], s.rows[BACKWARD, t]
            if s.marks[IS_LOG, i] != 0:
                log_pairs(psi.T[:n_states], edges, t, a, b, pairs)
            else:
                total = 0.0
                for j in range(n_states):
                    for k in range(n_states):
                        pairs[j, k] = a[j] * s.factors[M, j, k] * (psi[t, k] * b[k])
                        total += pairs[j, k]
                for j in range(n_states):
                    scale_row(pairs[j], total)
            for j in range(n_states):
                for k in range(n_states):
                    p = pairs[j, k]
                    g[j * n_states + k] += weight * p
                    h[j * n_states + k] += weight * p * max(1.0 - p, 0.0)


@subkernel
def try_edges(s, delta, step):
    """Return the change of the loss when the edge weights move by step * delta, (K K,), from the accepted ones."""
    n_states, change = s.edges.shape[1], 0.0
    tried, known = s.edges[TRIED].reshape(delta.size), s.edges[KNOWN].reshape(delta.size)
    for e in range(delta.size):
        tried[e] = known[e] + step * delta[e]
    load_trial_edges(s)
    for i in range(s.items.shape[1]):
        start, stop, gain, log_z = s.offsets[i], s.offsets[i + 1], 0.0, s.items[LOG_Z, i]
        if start < stop:
            choose_form(s, i)
            s.marks[FRONT, i], s.marks[BACK, i] = start - 1, stop - 1
            extend_messages(s, i, stop - 1, stop - 1)
            log_z = log_z_within(s, i, start, stop - 1)
        for t in range(start + 1, stop):
            gain += step * delta[s.targets[t - 1] * n_states + s.targets[t]]
        change += weigh_trial(s, i, log_z, gain)
    return change


# Taxonomies: each item has rows with its path sums and marginals. A move of a feature's weights by delta adds x D to
# the path sums of the items that have the feature, D being the path sums of delta. All labels of these items are
# visited, since each is a term of Z.
#
#     try      path sums + step x D -> exponentials in the place of p, log Z      (the downward pass of `taxonomy.py`)
#     accept   exponentials -> their sums under each node, over Z                 (the upward pass)
#
# A flat model is the taxonomy without parents.


@subkernel
def sum_paths(parents, delta, out):
    """out(k) = the sum of delta over node k and all its ancestors; out may be delta itself."""
    for k in range(parents.size):
        out[k] = delta[k] if parents[k] < 0 else delta[k] + out[parents[k]]


@subkernel
def go_down(s, t, step):
    """Write exp(label score - largest) of item t's path sums plus step * s.paths into its row of p; returns log Z."""
    sums, p, paths = s.rows[SUMS, t], s.rows[P, t], s.paths
    largest, total = -np.inf, 0.0
    for k in range(sums.size):
        p[k] = sums[k] + step * paths[k]
        if s.is_label[k]:
            largest = p[k] if p[k] > largest else largest
    for k in range(sums.size):
        p[k] = p[k] - largest if s.is_label[k] else MIN_EXPONENT
    exp_in_place(p)
    for k in range(p.size):
        total += p[k]
    s.n_steps[0] += 1
    s.items[TOTAL, t] = total
    return largest + np.log(total)


@subkernel
def go_up(s, t):
    """Turn the exponentials in item t's row of p into node marginals."""
    p, parents = s.rows[P, t], s.parents
    scale_row(p, s.items[TOTAL, t])
    for k in range(p.size - 1, -1, -1):
        if parents[k] >= 0:
            p[parents[k]] += p[k]
    s.n_steps[1] += 1


@kernel
def load_trees(s):
    """Compute the marginals of all items; the path sums take the place of the scores."""
    for t in range(s.rows.shape[1]):
        sum_paths(s.parents, s.rows[SUMS, t], s.rows[SUMS, t])
        go_down(s, t, 0.0)
        go_up(s, t)


@kernel
def block_slopes(chain, tree, block, g, h):
    """Write gradient and curvature of a block's weights."""
    if tree is not None:
        g[:], h[:] = 0.0, 0.0
        for c in range(tree.indptr[block], tree.indptr[block + 1]):
            t, x = tree.indices[c], entry_value(tree.values, c)
            p, k, slope = tree.rows[P, t], tree.targets[t], tree.items[WEIGHT, t] * x
            for j in range(p.size):
                g[j] += slope * p[j]
                h[j] += slope * x * p[j] * (1.0 - p[j])
            while k >= 0:
                g[k] -= slope
                k = tree.parents[k]
    if chain is not None:
        if block + 1 < chain.indptr.size:
            node_slopes(chain, block, g, h)
        else:
            edge_slopes(chain, g, h)


@kernel
def try_block(chain, tree, block, delta, step):
    """Return the change of the loss when a block's weights move by step * delta, from the accepted ones."""
    change = 0.0
    if tree is not None:
        sum_paths(tree.parents, delta, tree.paths)
        for c in range(tree.indptr[block], tree.indptr[block + 1]):
            t, size = np.int64(tree.indices[c]), step * entry_value(tree.values, c)
            gain = size * tree.paths[tree.targets[t]]
            change += weigh_trial(tree, t, go_down(tree, t, size), gain)
    if chain is not None:
        is_node = block + 1 < chain.indptr.size
        change = try_nodes(chain, block, delta, step) if is_node else try_edges(chain, delta, step)
    return change


@kernel
def accept_block(chain, tree, block, delta, step, w):
    """Accept the move of a block that was tried last, and change its weights w; of step 0, forget it."""
    if tree is not None:
        for c in range(tree.indptr[block], tree.indptr[block + 1]):
            t, size = np.int64(tree.indices[c]), step * entry_value(tree.values, c)
            for k in range(tree.paths.size):
                tree.rows[SUMS, t, k] += size * tree.paths[k]
            go_up(tree, t)
            accept_trial(tree, t)
    if chain is not None:
        if block + 1 < chain.indptr.size:
            for c in range(chain.indptr[block], chain.indptr[block + 1]):
                t, size = chain.indices[c], step * entry_value(chain.values, c)
                for k in range(chain.edges.shape[1]):
                    chain.rows[SCORES, t, k] += size * delta[k]
                accept_trial(chain, chain.item_of[t])
        else:
            copy_rows(chain.edges[KNOWN], chain.edges[TRIED])
            for i in range(chain.items.shape[1]):
                accept_trial(chain, i)
    for k in range(w.size):
        w[k] += step * delta[k]


@subkernel
def block_violation(w, g, l1, l2, shrink_share, shrink_slack):
    """Return the largest KKT violation of a block, and whether the block stays in the working set: not if all its
    weights are 0 and |g| <= (1 - shrink_share) l1 - shrink_slack for each."""
    largest, is_kept = 0.0, False
    for k in range(w.size):
        if w[k] != 0:
            violation = abs(g[k] + l2[k] * w[k] + (l1[k] if w[k] > 0 else -l1[k]))
            is_kept = True
        else:
            violation = abs(g[k]) - l1[k]
            # Without a gradient a weight has nowhere to go, whatever it costs.
            is_kept |= g[k] != 0 and abs(g[k]) > (1.0 - shrink_share) * l1[k] - shrink_slack
        largest = violation if violation > largest else largest
    return largest, is_kept


@subkernel
def newton_direction(w, g, h, l1, l2, floor, d):
    """Fill d as above; returns the predicted decrease, negative: g'd + penalty(w + d) - penalty(w)."""
    slope = 0.0
    for k in range(w.size):
        curvature = h[k] if h[k] > floor else floor
        d[k] = soft_threshold(curvature * w[k] - g[k], l1[k]) / (curvature + l2[k]) - w[k]
        slope += g[k] * d[k]
    return slope + penalty_change(w, d, 1.0, l1, l2)


@subkernel
def penalty_change(w, d, step, l1, l2):
    """Return penalty(w + step d) - penalty(w)."""
    change = 0.0
    for k in range(w.size):
        if d[k] != 0:
            v = w[k] + step * d[k]
            change += l1[k] * (abs(v) - abs(w[k])) + 0.5 * l2[k] * (v - w[k]) * (v + w[k])
    return change


@subkernel
def search_length(chain, tree, block, w, d, slope, l1, l2, rule):
    """Search along d by Armijo's rule; moves w and the loss; returns the change of the objective, 0 for a failure.

    It gives up where rounding would hide the predicted decrease; the last trial, of step 0, restores what was before.
    slope : the predicted decrease for a step of 1
    """
    step, change, has_failed = 1.0, 0.0, False
    for trial in range(MAX_TRIALS):
        change = try_block(chain, tree, block, d, step) + penalty_change(w, d, step, l1, l2)
        has_failed = step == 0.0
        if has_failed or change <= rule.armijo * step * slope:  # false for NaN
            break
        step *= rule.backtrack
        if -step * slope <= rule.noise or trial == MAX_TRIALS - 2:
            step = 0.0
    accept_block(chain, tree, block, d, step, w)
    return 0.0 if has_failed else change


@kernel
def sweep(chain, tree, blocks, places, nodes, edges, l1, l2, rule, violations, is_kept):
    """Update the blocks one after the other; returns how many have moved, and how many searches failed.

    blocks, places : int64 (B,), and each feature's row in `nodes`, -1 for the edges
    nodes, edges : float64 (rows, K) and (E,), the weights, in and out
    l1, l2 : float64 (coordinates of all blocks,), block after block; l1 is infinite where no weight may be
    violations, is_kept : (B,), out: violation before the update, whether the block stays after shrinking
    """
    n_moved = n_failed = first = 0
    workspace = np.empty((3, max(nodes.shape[1], edges.size)))
    for i in range(blocks.size):
        block, w = blocks[i], edges
        if places[i] >= 0:
            w = nodes[places[i]]
        n = w.size
        g, h, d = workspace[0, :n], workspace[1, :n], workspace[2, :n]
        a, b = l1[first : first + n], l2[first : first + n]
        first += n
        block_slopes(chain, tree, block, g, h)
        violations[i], is_kept[i] = block_violation(w, g, a, b, rule.shrink_share, rule.shrink_slack)
        if not is_kept[i]:
            continue
        slope = newton_direction(w, g, h, a, b, rule.floor, d)
        if -slope <= rule.noise:
            continue
        if search_length(chain, tree, block, w, d, slope, a, b, rule) < 0:
            n_moved += 1
        else:
            n_failed += 1
    return n_moved, n_failed
