"""The norm of a row of weights and its parts: value, proximal step, dual norm and distance to the subdifferential.

    h(w) = l1 ||w||_1 + l2/2 ||w||^2 + group ||w||,   the last norm Euclidean or the largest size (is_linf)

For group penalties, row descent, block coordinate descent on a quadratic model, and FOBOS. The prox of h is the soft
threshold by l1, then the prox of group ||.|| (Jenatton, Mairal, Obozinski and Bach 2011, theorem 1), then the division
by 1 + l2. The prox of a norm and the projection onto the dual ball add up to the input (Moreau): the prox of the
largest size clips at the level above which the entries sum to `group`, and the clipped part is the projection onto an
L1 ball.

Shapes: w, g, v and scratch of a row are float64 (weights of the row,). Blocks as in `penalties.blocks`: order (n,),
starts (n_blocks + 1,) int64, with l1, group, l2 float64 (n_blocks,) and w, g float64 (n,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.coordinate_descent import soft_threshold

# Numerical guard: a weight whose size is above this fraction of the largest size counts as tied with it. Weights that
# were clipped at one level differ by the rounding of w + d.
MIN_TIED_SHARE = 1.0 - 1e-10
# Newton's method for the length of a row: maximum number of steps, and the relative length of the last one.
MAX_NEWTON_STEPS, NEWTON_TOLERANCE = 50, 1e-9


class RowStrengths(NamedTuple):
    """The strengths of the penalty of a row."""

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
    """Return the largest size, from four independent maxima that hide the latency of `max`."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for r in range(0, x.size - 3, 4):
        a, b = max(a, abs(x[r])), max(b, abs(x[r + 1]))
        c, d = max(c, abs(x[r + 2])), max(d, abs(x[r + 3]))
    for r in range(x.size - x.size % 4, x.size):
        a = max(a, abs(x[r]))
    return max(max(a, b), max(c, d))


@inner
def is_zero(x):
    """Return whether all numbers are zero; the loop ends at the first nonzero."""
    n = 0
    while n < x.size and x[n] == 0.0:
        n += 1
    return n == x.size


@inner
def row_penalty(w, strengths):
    """Return h(w)."""
    l1, l2, group, is_linf = strengths
    total = 0.0
    for r in range(w.size):
        total += l1 * abs(w[r]) + 0.5 * l2 * w[r] * w[r]
    return total + (group * (largest_of(w) if is_linf else length_of(w)) if group > 0.0 else 0.0)


@kernel(counts=False)
def sum_penalties(weights, is_unpenalised, strengths):
    """Return the penalty of all rows of weights, float64 (rows, K); is_unpenalised : bool (rows,)."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += 0.0 if is_unpenalised[i] else row_penalty(weights[i], strengths)
    return total


@inner
def kkt_excess(w, g, strengths):
    """Return the dual norm of the gradient of a zero row minus `group`; infinity for nonzero rows.

    The dual norm is the sum or the Euclidean length of max(|g| - l1, 0). The row stays zero unless the result is
    positive. If all |g| are below l1, the distance of the largest one to l1 is subtracted, so that the result still
    orders the rows.
    """
    if not is_zero(w):
        return np.inf
    total, squares = 0.0, 0.0
    for r in range(g.size):
        excess = max(abs(g[r]) - strengths.l1, 0.0)
        total += excess
        squares += excess * excess
    dual_norm = total if strengths.is_linf else np.sqrt(squares)
    return dual_norm - strengths.group + min(largest_of(g) - strengths.l1, 0.0)


@inner
def level_by_michelot(v, mass):
    """Return the level with sum_i max(v_i - level, 0) = mass > 0, by Michelot's fixed-point iteration (1986). It ends
    when the number of values above the level no longer decreases."""
    level, before = -np.inf, v.size + 1
    while True:
        total, n_above = 0.0, 0
        for i in range(v.size):
            if v[i] > level:
                total += v[i]
                n_above += 1
        if n_above == 0 or n_above >= before:  # none above: rounding of a tiny mass
            return level
        level, before = (total - mass) / n_above, n_above


@inner
def shrink_block(v, l1, group, is_linf, sizes):
    """v <- argmin_u 1/2 ||u - v||^2 + l1 ||u||_1 + group ||u||; sizes : workspace of the size of v."""
    if l1 > 0.0:
        for i in range(v.size):
            v[i] = soft_threshold(v[i], l1)
    if group <= 0.0:
        return
    if not is_linf:
        norm = length_of(v)
        scale = 1.0 - group / norm if norm > group else 0.0
        for i in range(v.size):
            v[i] *= scale
        return
    total = 0.0
    for i in range(v.size):
        sizes[i] = abs(v[i])
        total += sizes[i]
    level = level_by_michelot(sizes, group) if total > group else 0.0
    for i in range(v.size):
        if sizes[i] > level:
            v[i] = level if v[i] > 0.0 else -level


@subkernel(counts=False)
def row_violation(w, g, strengths, slope, scratch):
    """Return the distance of -g to the subdifferential of h at w: the length of `slope`, which is written.

    At w = 0 the slope is the prox of g, since the rest of g is its projection onto the subdifferential. Otherwise a
    zero weight has the subgradient of l1 |w_r| with the smallest slope. For the largest size a projection onto a
    simplex distributes `group` over the weights of that size, with their signs.
    """
    l1, l2, group, is_linf = strengths
    for r in range(w.size):
        slope[r] = g[r] + l2 * w[r]
    if is_zero(w):
        shrink_block(slope, l1, group, is_linf, scratch)
        return length_of(slope)
    for r in range(w.size):
        if w[r] != 0.0:
            slope[r] += l1 if w[r] > 0.0 else -l1
        else:
            slope[r] = soft_threshold(slope[r], l1)
    if not is_linf:
        norm = length_of(w)
        for r in range(w.size):
            slope[r] += group * w[r] / norm
        return length_of(slope)
    top, n = MIN_TIED_SHARE * largest_of(w), 0
    for r in range(w.size):
        if abs(w[r]) >= top:
            scratch[n] = -slope[r] if w[r] > 0.0 else slope[r]
            n += 1
    level = level_by_michelot(scratch[:n], group) if group > 0.0 else np.inf
    for r in range(w.size):
        if abs(w[r]) >= top:
            size = -slope[r] if w[r] > 0.0 else slope[r]
            slope[r] = size if size < level else level
    return length_of(slope)


@subkernel(counts=False)
def shrink_in_metric(z, curvature, strengths):
    """z <- argmin_u 1/2 u' diag(curvature) u - z'u + h(u) for the Euclidean norm; curvature, positive, is overwritten.

    If ||soft(z, l1)|| > group, then u_r = soft(z_r, l1) t / ((c_r + l2) t + group) with t = ||u||, the root of

        phi(t) = sum_r soft(z_r, l1)^2 / ((c_r + l2) t + group)^2 = 1.

    Newton's method on phi^(-1/2), which is nearly linear and concave, converges to it from below (More and Sorensen
    1983). Otherwise u = 0.
    """
    l1, l2, group, _ = strengths
    squares = 0.0
    for r in range(z.size):
        z[r] = soft_threshold(z[r], l1)
        curvature[r] += l2
        squares += z[r] * z[r]
    if squares <= group * group:
        for r in range(z.size):
            z[r] = 0.0
        return
    t = 0.0
    for _ in range(MAX_NEWTON_STEPS if group > 0.0 else 0):
        phi, slope = 0.0, 0.0
        for r in range(z.size):
            inverse = 1.0 / (curvature[r] * t + group)
            part = z[r] * inverse
            phi += part * part
            slope += part * part * curvature[r] * inverse
        step = (phi * np.sqrt(phi) - phi) / slope
        t += step
        if step <= NEWTON_TOLERANCE * t:
            break
    for r in range(z.size):
        z[r] = z[r] / (curvature[r] + (group / t if group > 0.0 else 0.0))


@subkernel(counts=False)
def clip_in_metric(z, curvature, strengths):
    """z <- argmin_u 1/2 u' diag(curvature) u - z'u + h(u) for the largest size; curvature, positive, is overwritten.

    u_r = soft(z_r, l1) / (c_r + l2), clipped at the level with sum_r max(|soft(z_r, l1)| - (c_r + l2) level, 0) =
    group. The level increases from 0 by Michelot's iteration (1986), until the number of states above it is constant.
    """
    l1, l2, group, _ = strengths
    for r in range(z.size):
        curvature[r] += l2
        z[r] = soft_threshold(z[r], l1) / curvature[r]
    level, before = 0.0, z.size + 1
    while group > 0.0:
        total, curvature_above, n_above = -group, 0.0, 0
        for r in range(z.size):
            if abs(z[r]) > level:
                total += curvature[r] * abs(z[r])
                curvature_above += curvature[r]
                n_above += 1
        if n_above == 0 or n_above >= before:
            break
        if total <= 0.0:
            level = 0.0
            break
        level, before = total / curvature_above, n_above
    for r in range(z.size if group > 0.0 else 0):
        z[r] = min(max(z[r], -level), level)


@kernel
def prox_blocks(order, starts, w, l1, group, l2, is_linf, out):
    """out <- argmin_v 1/2 ||v - w||^2 + h(v), block by block."""
    workspace, sizes = np.empty(order.size), np.empty(order.size)
    for b in range(starts.size - 1):
        begin, end = starts[b], starts[b + 1]
        v = workspace[begin:end]
        for i in range(begin, end):
            workspace[i] = w[order[i]]
        shrink_block(v, l1[b], group[b], is_linf, sizes[begin:end])
        for i in range(begin, end):
            out[order[i]] = workspace[i] / (1.0 + l2[b])


@kernel
def block_distances(order, starts, w, g, l1, group, l2, is_linf, out):
    """out[b] = the distance of -g to the subdifferential of h at w, block by block, (n_blocks,)."""
    weights, gradient = np.empty(order.size), np.empty(order.size)
    slope, scratch = np.empty(order.size), np.empty(order.size)
    for i in range(order.size):
        weights[i], gradient[i] = w[order[i]], g[order[i]]
    for b in range(starts.size - 1):
        begin, end = starts[b], starts[b + 1]
        strengths = RowStrengths(l1[b], l2[b], group[b], is_linf)
        out[b] = row_violation(
            weights[begin:end], gradient[begin:end], strengths, slope[begin:end], scratch[begin:end]
        )
