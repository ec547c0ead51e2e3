"""The prox and the subdifferential of block norms, for the group penalties and the solvers' kernels.

    h(v) = l1 ||v||_1 + group ||v||,   the norm Euclidean or the largest size (is_linf)

The prox of h is the soft threshold by l1 followed by the prox of group ||.|| (Jenatton, Mairal, Obozinski and Bach
2011, theorem 1). A norm's prox and the projection onto its dual ball add up to v: the prox of the largest size clips v
at the level above which lies a mass of `group`, and what it cuts off is the projection onto an L1 ball.

Shapes: n coordinates; blocks as in `penalties.blocks`: order (n,), starts (n_blocks + 1,) int64; l1, group, l2: float64
(n_blocks,). A single block's weights v, w and slopes are float64 (coordinates of the block,).
"""

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.coordinate_descent import soft_threshold

AT_THE_TOP = 1.0 - 1e-10  # of the largest size: weights clipped at one level differ by the rounding of w + d


@inner
def simplex_level(v, mass):
    """Return the level with sum_i max(v_i - level, 0) = mass > 0, by Michelot's fixed-point iteration (1986): the
    values above it become fewer until they stay; rounding may bring one back that lies at the level itself."""
    level, before = -np.inf, v.size + 1
    while True:
        total, n_above = 0.0, 0
        for i in range(v.size):
            if v[i] > level:
                total += v[i]
                n_above += 1
        if n_above == 0 or n_above >= before:  # none above: rounding, where the mass is tiny
            return level
        level, before = (total - mass) / n_above, n_above


@inner
def shorten(v, length):
    """v <- v (1 - length / ||v||), or 0: the prox of length ||.||_2."""
    square = 0.0
    for i in range(v.size):
        square += v[i] * v[i]
    norm = np.sqrt(square)
    scale = 1.0 - length / norm if norm > length else 0.0
    for i in range(v.size):
        v[i] *= scale


@inner
def clip(v, mass, sizes):
    """v <- sign(v) min(|v|, level), or 0: the prox of mass ||.||_inf; sizes : workspace for |v|."""
    total = 0.0
    for i in range(v.size):
        sizes[i] = abs(v[i])
        total += sizes[i]
    level = simplex_level(sizes, mass) if total > mass else 0.0
    for i in range(v.size):
        if sizes[i] > level:
            v[i] = level if v[i] > 0.0 else -level


@inner
def shrink_block(v, l1, group, is_linf, sizes):
    """v <- argmin_u 1/2 ||u - v||^2 + l1 ||u||_1 + group ||u||; sizes : workspace as long as v."""
    if l1 > 0.0:
        for i in range(v.size):
            v[i] = soft_threshold(v[i], l1)
    if group > 0.0:
        if is_linf:
            clip(v, group, sizes)
        else:
            shorten(v, group)


@kernel
def prox_blocks(order, starts, w, l1, group, l2, is_linf, out):
    """out <- argmin_v 1/2 ||v - w||^2 + h(v) + l2/2 ||v||^2, block by block."""
    workspace, sizes = np.empty(order.size), np.empty(order.size)
    for b in range(starts.size - 1):
        begin, end = starts[b], starts[b + 1]
        v = workspace[begin:end]
        for i in range(begin, end):
            workspace[i] = w[order[i]]
        shrink_block(v, l1[b], group[b], is_linf, sizes[begin:end])
        for i in range(begin, end):
            out[order[i]] = workspace[i] / (1.0 + l2[b])


@inner
def beside_zero(slope, w, l1):
    """Return a coordinate's slope plus the subgradient of l1 |w_j| that brings it nearest to 0."""
    if w != 0.0:
        return slope + (l1 if w > 0.0 else -l1)
    return soft_threshold(slope, l1)


@inner
def leave_euclidean(slope, w, group, norm):
    """slope += the gradient of group ||w||_2, at w != 0 of the length `norm`."""
    for i in range(w.size):
        slope[i] += group * w[i] / norm


@inner
def leave_largest(slope, w, group, largest, workspace):
    """slope += the subgradient of group ||w||_inf that brings it nearest to 0, at w != 0: `group` is shared out among
    the coordinates of the largest size, with their signs, by a projection onto a simplex."""
    n = 0
    for i in range(w.size):
        if abs(w[i]) >= AT_THE_TOP * largest:
            workspace[n] = -slope[i] if w[i] > 0.0 else slope[i]
            n += 1
    level = simplex_level(workspace[:n], group) if group > 0.0 else np.inf
    for i in range(w.size):
        if abs(w[i]) >= AT_THE_TOP * largest:
            size = -slope[i] if w[i] > 0.0 else slope[i]
            slope[i] = size if size < level else level


@kernel
def block_distances(order, starts, w, g, l1, group, l2, is_linf, out):
    """out[b] = the distance of -g to the subdifferential of h + l2/2 ||.||^2 at w, block by block, (n_blocks,); at w =
    0 the length of the prox of -g, which is -g less its projection onto the subdifferential."""
    slope, weights, workspace = np.empty(order.size), np.empty(order.size), np.empty(order.size)
    for b in range(starts.size - 1):
        begin, end = starts[b], starts[b + 1]
        square, largest = 0.0, 0.0
        for i in range(begin, end):
            j = order[i]
            weights[i], slope[i] = w[j], g[j] + l2[b] * w[j]
            square += w[j] * w[j]
            largest = max(largest, abs(w[j]))
        r, v, spare = slope[begin:end], weights[begin:end], workspace[begin:end]
        if largest == 0.0:
            shrink_block(r, l1[b], group[b], is_linf, spare)
        else:
            for i in range(begin, end):
                slope[i] = beside_zero(slope[i], weights[i], l1[b])
            if is_linf:
                leave_largest(r, v, group[b], largest, spare)
            else:
                leave_euclidean(r, v, group[b], np.sqrt(square))
        square = 0.0
        for i in range(begin, end):
            square += slope[i] * slope[i]
        out[b] = np.sqrt(square)
