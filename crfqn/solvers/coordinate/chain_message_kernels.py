"""Forward and backward messages of chains, kept while block coordinate descent moves the scores of single positions.

A forward message depends on the scores up to its position, a backward message on those after it. So each item has two
marks: forward messages are valid up to `front`, backward messages from `back` on, and either is only extended as far as
a result needs it. With a feature at the positions s ... e of an item,

    its marginals                 need a_t up to e and b_t from s on;
    log Z after a move of it      needs a_s ... a_e anew and b_e as it is, since the positions before s and after e add
                                  the same as before;
    once it has moved             a_t is valid up to e, b_t from e on.

Messages are scaled as in `forward_backward.py`, each to a sum of 1, so that a marginal is a_t(k) b_t(k) over their sum;
items whose scores spread too far, or that scores or edges of -inf forbid something, are kept in logarithms, as in
`logarithms.py`. A position adds gain_t + shift_t to
log Z: the logarithm of its message's scale, and its largest score, which was subtracted.

`s` is a `ChainState` of `solvers/coordinate/feature_bcd_state.py`, which says what its arrays are. Their first axis
is named by the constants below: few arrays, because every one that is handed on costs compilation. Arrays with
rows of `width` numbers, K rounded up to LANES, are position-major.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE, padded_edges
from crfqn.kernels.logarithms import log_sum_exp, normalise
from crfqn.kernels.rows import add_products, exp_in_place

# Of s.rows; psi = exp(score - shift), or score - shift in logarithms.
SCORES, PSI, FORWARD, BACKWARD = range(4)
SHIFT, SPREAD, GAIN = range(3)  # of s.positions
WEIGHT, LOG_Z, OBSERVED, TRIAL_LOG_Z, TRIAL_OBSERVED, OUTSIDE = range(6)  # of s.items
FRONT, BACK, IS_LOG = range(3)  # of s.marks
KNOWN, TRIED, COUNTS = range(3)  # of s.edges; COUNTS: weighted observed transitions
# Of s.factors; the first numbers of LIMITS are the largest and the smallest edge.
M, M_TRANSPOSED, LIMITS, SCRATCH = range(4)


@subkernel
def run_forward(first, last, start, is_log, alpha, psi, edges, m, largest_edge, gains, work):
    """Compute the forward messages of the positions first ... last of an item, and their log scales into `gains`.

    start : the item's first position; work : float64 (K,), scratch
    """
    n_states, width = edges.shape[0], psi.shape[1]
    for t in range(first, last + 1):
        a, p = alpha[t], psi[t]
        if is_log:
            for k in range(n_states):
                a[k] = p[k]
                if t > start:
                    for j in range(n_states):
                        work[j] = alpha[t - 1, j] + edges[j, k]
                    a[k] += log_sum_exp(work, n_states)
            gains[t] = normalise(a, n_states)
            continue
        for k in range(width):
            a[k] = 0.0 if t > start else 1.0
        if t > start:
            add_products(a, m, 0, n_states, alpha[t - 1], 0, 1)
        total = 0.0
        for k in range(width):
            a[k] *= p[k]
            total += a[k]
        inverse = 1.0 / total
        for k in range(width):
            a[k] *= inverse
        gains[t] = np.log(total) + largest_edge if t > start else np.log(total)


@subkernel
def run_backward(first, last, is_log, beta, psi, edges, m_transposed, work):
    """Compute the backward messages of the positions last, last - 1 ... first, given that of last + 1."""
    n_states, width = edges.shape[0], psi.shape[1]
    for t in range(last, first - 1, -1):
        b, p, behind = beta[t], psi[t + 1], beta[t + 1]
        if is_log:
            for j in range(n_states):
                for k in range(n_states):
                    work[k] = edges[j, k] + p[k] + behind[k]
                b[j] = log_sum_exp(work, n_states)
            normalise(b, n_states)
            continue
        for k in range(width):
            work[k] = p[k] * behind[k]
            b[k] = 0.0
        add_products(b, m_transposed, 0, n_states, work, 0, 1)
        total = 0.0
        for k in range(width):
            total += b[k]
        inverse = 1.0 / total
        for k in range(width):
            b[k] *= inverse


@subkernel
def extend_messages(s, i, first, last):
    """Make the forward messages of item i valid up to `last`, and its backward messages from `first` on."""
    front, back, is_log = s.marks[FRONT, i], s.marks[BACK, i], s.marks[IS_LOG, i] != 0
    if last > front:
        largest_edge = s.factors[LIMITS, 0, 0]
        run_forward(
            front + 1, last, s.offsets[i], is_log, s.rows[FORWARD], s.rows[PSI], s.edges[TRIED], s.factors[M],
            largest_edge, s.positions[GAIN], s.factors[SCRATCH, 0],
        )  # fmt: skip
        s.n_steps[0] += last - front
        s.marks[FRONT, i] = last
    if first < back:
        run_backward(
            first, back - 1, is_log, s.rows[BACKWARD], s.rows[PSI], s.edges[TRIED], s.factors[M_TRANSPOSED],
            s.factors[SCRATCH, 0],
        )  # fmt: skip
        s.n_steps[1] += back - first
        s.marks[BACK, i] = first


@subkernel
def log_sum(a, b, is_log, n_states):
    """Return the logarithm of sum_k a(k) b(k), a and b messages of one position."""
    if is_log:
        work = np.empty(n_states)
        for k in range(n_states):
            work[k] = a[k] + b[k]
        return log_sum_exp(work, n_states)
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return np.log(total)


@subkernel
def log_z_within(first, last, is_log, alpha, beta, gains, shift, n_states):
    """Return the terms of log Z that belong to the positions first ... last, and to the backward message of `last`."""
    total = log_sum(alpha[last], beta[last], is_log, n_states)
    for t in range(first, last + 1):
        total += gains[t] + shift[t]
    return total


@subkernel
def load_row(t, rows, positions, delta, step, n_states):
    """Write psi = score + step * delta less the largest of it, at position t, and the position's shift and spread."""
    score, psi = rows[SCORES, t], rows[PSI, t]
    largest = smallest = score[0] + step * delta[0]
    for k in range(n_states, psi.size):
        psi[k] = 0.0
    for k in range(n_states):
        psi[k] = score[k] + step * delta[k]
        largest = psi[k] if psi[k] > largest else largest
        smallest = psi[k] if psi[k] < smallest else smallest
    for k in range(n_states):
        psi[k] -= largest
    positions[SHIFT, t], positions[SPREAD, t] = largest, largest - smallest


@subkernel
def exponentiate(psi, n_states, exponents):
    """exp(psi) in its place, zeros in the padding."""
    exp_in_place(psi, exponents)
    for k in range(n_states, psi.size):
        psi[k] = 0.0


@subkernel
def needs_logarithms(start, stop, spread, largest_edge, smallest_edge):
    """Return whether the scores of an item, at start ... stop - 1, spread too far for scaled messages."""
    widest = 0.0
    for t in range(start, stop):
        widest = spread[t] if spread[t] > widest else widest
    return not widest + 2 * (largest_edge - smallest_edge) < LARGEST_RANGE


@subkernel
def choose_form(s, i):
    """Choose scaled messages or logarithms for item i by the spread of its scores; returns whether that is a change.

    After a change no message but the last is valid, and `psi` holds the known scores.
    """
    start, stop, n_states = s.offsets[i], s.offsets[i + 1], s.edges.shape[1]
    is_log = needs_logarithms(
        start, stop, s.positions[SPREAD], s.factors[LIMITS, 0, 0], s.factors[LIMITS, 0, 1]
    )
    if s.marks[IS_LOG, i] == is_log:
        return False
    s.marks[FRONT, i], s.marks[BACK, i], s.marks[IS_LOG, i] = start - 1, stop - 1, is_log
    still = np.zeros(n_states)
    for t in range(start, stop):
        load_row(t, s.rows, s.positions, still, 0.0, n_states)
        if not is_log:
            exponentiate(s.rows[PSI, t], n_states, s.exponents)
    if start < stop:
        for k in range(n_states):
            s.rows[BACKWARD, stop - 1, k] = 0.0 if is_log else 1.0
    return True


@subkernel
def load_edges(edges, factors):
    """Write M and its transpose, and the largest and the smallest edge, into `factors`."""
    m, m_transposed, factors[LIMITS, 0, 0], factors[LIMITS, 0, 1] = padded_edges(edges)
    if edges.min() == -np.inf:
        factors[LIMITS, 0, 1] = -np.inf
    for j in range(m.shape[0]):
        for k in range(m.shape[0]):
            factors[M, j, k], factors[M_TRANSPOSED, j, k] = m[j, k], m_transposed[j, k]


@kernel
def load_chains(s):
    """Load the known scores and edges; messages are computed when they are needed."""
    load_edges(s.edges[TRIED], s.factors)
    still = np.zeros(s.edges.shape[1])
    for t in range(s.rows.shape[1]):
        load_row(t, s.rows, s.positions, still, 0.0, s.edges.shape[1])
    for i in range(s.items.shape[1]):
        s.marks[IS_LOG, i], s.items[OUTSIDE, i] = -1, np.nan
        choose_form(s, i)
