"""Kernel of the projection onto the epigraph of a maximum: Chierchia et al. (2015), proposition 3.3.

Shapes: n rows, k columns.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.projection import ALL_FINITE, PIVOT_SEED, simplex_level


@kernel
def epigraph_rows(x, heights, margins, method, tol, out, heights_out):
    """out[i], heights_out[i] <- the projection of (x[i], heights[i]) onto {(p, t): max_k p_k + margins_ik <= t};
    margins : (n, k), or (1, k) for all. Returns the first row out of range, or -1."""
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, PIVOT_SEED, np.uint64)
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
    return ALL_FINITE
