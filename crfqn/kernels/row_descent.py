"""Block coordinate descent over rows of the weights: Algorithms 1 and 2 of Blondel, Seki and Uehara (2013).

A row is all weights of one feature. Its penalty is l1 ||w||_1 + l2/2 ||w||^2 + group ||w||, the last norm being the
Euclidean one or the largest entry (section 4.7).
"""

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.group_prox import beside_zero, leave_euclidean, leave_largest, shrink_block
from crfqn.kernels.row_losses import move, slopes

LEAST_CURVATURE = 1e-12  # the paper's epsilon
MOST_TRIALS = 30


@inner
def length_of(x):
    """The Euclidean norm."""
    total = 0.0
    for r in range(x.size):
        total += x[r] * x[r]
    return np.sqrt(total)


@inner
def largest_of(x):
    """The largest size."""
    largest = 0.0
    for r in range(x.size):
        largest = max(largest, abs(x[r]))
    return largest


@inner
def row_penalty(w, l1, l2, group, is_linf):
    """l1 ||w||_1 + l2/2 ||w||^2 + group ||w||."""
    total = 0.0
    for r in range(w.size):
        total += l1 * abs(w[r]) + 0.5 * l2 * w[r] * w[r]
    return total + (group * (largest_of(w) if is_linf else length_of(w)) if group > 0.0 else 0.0)


@inner
def excess_of_zero(g, l1, group, is_linf):
    """How far -g is outside of the subdifferential at a zero row, in the dual norm; negative inside."""
    total, squares = 0.0, 0.0
    for r in range(g.size):
        left = max(abs(g[r]) - l1, 0.0)
        total += left
        squares += left * left
    return (total if is_linf else np.sqrt(squares)) - group + min(largest_of(g) - l1, 0.0)


@inner
def row_violation(w, g, l1, l2, group, is_linf, slope, room):
    """Equation 9 with its erratum: the distance of -g to the subdifferential at w."""
    for r in range(w.size):
        slope[r] = g[r] + l2 * w[r]
    largest = largest_of(w)
    if largest == 0.0:
        shrink_block(slope, l1, group, is_linf, room)
        return length_of(slope)
    for r in range(w.size):
        slope[r] = beside_zero(slope[r], w[r], l1)
    if is_linf:
        leave_largest(slope, w, group, largest, room)
    else:
        leave_euclidean(slope, w, group, length_of(w))
    return length_of(slope)


@kernel
def sweep_rows(
    loss, order, features, indptr, indices, values, labels, weights, margins, aid, losses,
    l1, l2, group, is_linf, is_free, constants, sigma, omega, table, violations, excess,
):  # fmt: skip
    """Update the rows table[order[0]], table[order[1]], ..., one after another.

    Parameters
    ----------
    loss, labels, weights, margins, aid, losses : as in `row_losses.py`; margins, aid and losses follow
    order : int64 (steps,); features : int64 (rows,), the feature of each row of `table`, float64 (rows, K)
    l1, l2, group, is_linf : the penalty; is_free : bool (rows,), rows without one
    constants : float64 (rows,), the step is 1 / constant (section 4.4.2); or (0,): from the generalised Hessian, with
        a line search (section 4.4.1)
    sigma, omega : of the line search (equation 7)
    violations, excess : float64 (steps,), out: equation 9, and for zero rows how far they are from being wanted, inf
        for others

    Returns
    -------
    The number of steps that the line searches rejected.
    """
    n, width = table.shape[1], margins.shape[1]
    g, h, d = np.empty(width), np.empty(width), np.zeros(width)
    target, slope, room = np.empty(n), np.empty(n), np.empty(n)
    n_rejected = 0
    for k in range(order.size):
        row = order[k]
        w, begin, end = table[row], indptr[features[row]], indptr[features[row] + 1]
        a1, a2, a3 = (0.0, 0.0, 0.0) if is_free[row] else (l1, l2, group)
        slopes(loss, begin, end, indices, values, labels, weights, margins, aid, g, h)
        is_zero = largest_of(w) == 0.0
        excess[k] = excess_of_zero(g[:n], a1, a3, is_linf) if is_zero else np.inf
        violations[k] = 0.0
        if excess[k] <= 0.0:
            continue
        violations[k] = row_violation(w, g[:n], a1, a2, a3, is_linf, slope, room)
        curvature = max(constants[row] if constants.size > 0 else largest_of(h[:n]), LEAST_CURVATURE)
        for r in range(n):
            target[r] = w[r] - g[r] / curvature
        shrink_block(target, a1 / curvature, a3 / curvature, is_linf, room)
        promise, has_moved = 0.0, False
        for r in range(n):
            target[r] /= 1.0 + a2 / curvature
            d[r] = target[r] - w[r]
            promise += g[r] * d[r]
            has_moved = has_moved or d[r] != 0.0
        if not has_moved:
            continue
        before, after = row_penalty(w, a1, a2, a3, is_linf), row_penalty(target, a1, a2, a3, is_linf)
        promise += after - before
        change = move(loss, begin, end, indices, values, labels, weights, margins, aid, losses, 1.0, d)
        if constants.size == 0:
            alpha = 1.0
            for trial in range(1, MOST_TRIALS + 1):
                if change + after - before <= sigma * alpha * promise:
                    break
                n_rejected += 1
                step = alpha * (omega - 1.0) if trial < MOST_TRIALS else -alpha
                alpha += step
                change += move(
                    loss, begin, end, indices, values, labels, weights, margins, aid, losses, step, d
                )
                for r in range(n):
                    target[r] = w[r] + alpha * d[r]
                after = row_penalty(target, a1, a2, a3, is_linf)
        for r in range(n):
            w[r] = target[r]
    return n_rejected
