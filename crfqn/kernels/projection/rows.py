"""Projections of the rows of a matrix, each onto a simplex, an L1 ball or an epigraph of its own.

Shapes: n rows, k columns; x, out float64 (n, k), which may be the same array; radii, heights float64 (n,).
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.projection.level import difference, simplex_level

SEED = 1
ALL_FINE = -1


@kernel
def simplex_rows(x, radii, method, tol, out):
    """out[i] <- the projection of x[i] onto {b >= 0, sum b = radii[i]}; returns the first row out of range, or -1."""
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, SEED, np.uint64)
    for i in range(x.shape[0]):
        row, target = x[i], out[i]
        largest, level = simplex_level(row, radii[i], 0.0, method, tol, workspace, random)
        if np.isnan(level):
            return i
        for j in range(row.size):
            b = difference(difference(row[j], largest), level)
            target[j] = b if b > 0.0 else 0.0
    return ALL_FINE


@kernel
def ball_rows(x, radii, method, tol, clips, out):
    """out[i] <- the projection of x[i] onto the L1 ball of radii[i], or x[i] less that (clips), the prox of its dual.

    Returns the first row out of range, or -1.
    """
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, SEED, np.uint64)
    sizes = np.empty(x.shape[1])
    for i in range(x.shape[0]):
        row, target, total = x[i], out[i], 0.0
        for j in range(row.size):
            sizes[j] = abs(row[j])
            total += sizes[j]
        if not total < np.inf:
            return i
        threshold = 0.0
        if total > radii[i]:
            largest, level = simplex_level(sizes, radii[i], 0.0, method, tol, workspace, random)
            threshold = max(largest + level, 0.0)
        for j in range(row.size):
            left = max(sizes[j] - threshold, 0.0)
            size = min(sizes[j], threshold) if clips else left
            target[j] = size if row[j] > 0.0 else -size
    return ALL_FINE


@kernel
def epigraph_rows(x, heights, margins, method, tol, out, heights_out):
    """out[i], heights_out[i] <- the projection of (x[i], heights[i]) onto {(p, t): max_k p_k + margins_ik <= t}.

    margins : float64 (n, k) or (1, k) for all. Returns the first row out of range, or -1.
    """
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, SEED, np.uint64)
    nu = np.empty(x.shape[1])
    for i in range(x.shape[0]):
        row, target, shift = x[i], out[i], margins[i if margins.shape[0] > 1 else 0]
        for j in range(row.size):
            nu[j] = row[j] + shift[j]
        largest, level = simplex_level(nu, -heights[i], 1.0, method, tol, workspace, random)
        if np.isnan(level):
            return i
        theta = heights[i] if largest <= heights[i] else largest + level
        for j in range(row.size):
            target[j] = min(row[j], theta - shift[j])
        heights_out[i] = theta
    return ALL_FINE
