"""The penalty of one row of the weights: its value, its prox, its dual norm and its subdifferential.

    l1 ||w||_1 + l2/2 ||w||^2 + group ||w||,   the last norm Euclidean or the largest size (is_linf)

A row is all weights of one feature (Blondel, Seki and Uehara 2013, equation 4 and section 4.7). w, g: float64 (K,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import bare_kernel, bare_subkernel, inner
from crfqn.kernels.subproblem.coordinates import soft_threshold
from crfqn.kernels.subproblem.proximal import beside_zero, leave_euclidean, leave_largest, shrink_block

MOST_NEWTON, SOLVED = 50, 1e-9  # steps to the length of a row, and the share of it that ends them


class RowStrengths(NamedTuple):
    """The penalty's strengths for a row."""

    l1: float
    l2: float
    group: float
    is_linf: bool


UNPENALISED = RowStrengths(0.0, 0.0, 0.0, False)


@inner
def length_of(x):
    """Return the Euclidean norm."""
    total = 0.0
    for r in range(x.size):
        total += x[r] * x[r]
    return np.sqrt(total)


@inner
def largest_of(x):
    """Return the largest size, by four maxima at once: each waits for its last result."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for r in range(0, x.size - 3, 4):
        a, b = max(a, abs(x[r])), max(b, abs(x[r + 1]))
        c, d = max(c, abs(x[r + 2])), max(d, abs(x[r + 3]))
    for r in range(x.size - x.size % 4, x.size):
        a = max(a, abs(x[r]))
    return max(max(a, b), max(c, d))


@inner
def is_zero(x):
    """Return whether all numbers are zero; in most rows that are not, the first number is not."""
    n = 0
    while n < x.size and x[n] == 0.0:
        n += 1
    return n == x.size


@inner
def row_penalty(w, penalty):
    """Return the penalty of a row w; penalty : RowStrengths."""
    l1, l2, group, is_linf = penalty
    total = 0.0
    for r in range(w.size):
        total += l1 * abs(w[r]) + 0.5 * l2 * w[r] * w[r]
    return total + (group * (largest_of(w) if is_linf else length_of(w)) if group > 0.0 else 0.0)


@bare_kernel
def sum_penalties(weights, is_unpenalised, penalty):
    """Return the penalty of all rows of weights, float64 (rows, K); is_unpenalised : bool (rows,)."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += 0.0 if is_unpenalised[i] else row_penalty(weights[i], penalty)
    return total


@inner
def dual_norm(g, l1, is_linf):
    """Return the dual norm of max(|g| - l1, 0): the sum, dual to the largest size, or the Euclidean length."""
    total, squares = 0.0, 0.0
    for r in range(g.size):
        left = max(abs(g[r]) - l1, 0.0)
        total += left
        squares += left * left
    return total if is_linf else np.sqrt(squares)


@inner
def kkt_excess(w, g, penalty):
    """Return the dual norm less its threshold for a zero row, which stays zero unless this is positive; inf for others.

    Below the L1 threshold it is smaller still, by how far the largest |g| is below l1.
    """
    if not is_zero(w):
        return np.inf
    return dual_norm(g, penalty.l1, penalty.is_linf) - penalty.group + min(largest_of(g) - penalty.l1, 0.0)


@bare_subkernel
def row_violation(w, g, penalty, slope, spare):
    """Return the distance of -g to the subdifferential at w (equation 9, corrected), the length of `slope`, out.

    spare : scratch as long as w
    """
    l1, l2, group, is_linf = penalty
    for r in range(w.size):
        slope[r] = g[r] + l2 * w[r]
    if is_zero(w):
        shrink_block(slope, l1, group, is_linf, spare)
        return length_of(slope)
    for r in range(w.size):
        slope[r] = beside_zero(slope[r], w[r], l1)
    if is_linf:
        leave_largest(slope, w, group, largest_of(w), spare)
    else:
        leave_euclidean(slope, w, group, length_of(w))
    return length_of(slope)


@bare_subkernel
def shrink_row(v, curvature, penalty, spare):
    """v <- argmin_u curvature / 2 ||u - v||^2 + penalty(u)."""
    l1, l2, group, is_linf = penalty
    shrink_block(v, l1 / curvature, group / curvature, is_linf, spare)
    for r in range(v.size):
        v[r] /= 1.0 + l2 / curvature


@bare_subkernel
def shrink_in_metric(z, h, penalty):
    """z <- argmin_u 1/2 u' diag(h) u - z'u + penalty(u) for the Euclidean norm; h, positive, is overwritten.

    Where ||soft(z, l1)|| > group, u_r = soft(z_r, l1) t / (h_r t + l2 t + group) with t = ||u||, the root of

        phi(t) = sum_r soft(z_r, l1)^2 / ((h_r + l2) t + group)^2 = 1.

    Newton's method on phi^(-1/2), nearly linear and concave, comes to it from the left (More and Sorensen 1983).
    """
    l1, l2, group, _ = penalty
    squares = 0.0
    for r in range(z.size):
        z[r] = soft_threshold(z[r], l1)
        h[r] += l2
        squares += z[r] * z[r]
    if squares <= group * group:
        for r in range(z.size):
            z[r] = 0.0
        return
    t = 0.0
    for _ in range(MOST_NEWTON if group > 0.0 else 0):
        phi, slope = 0.0, 0.0
        for r in range(z.size):
            inverse = 1.0 / (h[r] * t + group)
            part = z[r] * inverse
            phi += part * part
            slope += part * part * h[r] * inverse
        step = (phi * np.sqrt(phi) - phi) / slope
        t += step
        if step <= SOLVED * t:
            break
    for r in range(z.size):
        z[r] = z[r] / (h[r] + (group / t if group > 0.0 else 0.0))
