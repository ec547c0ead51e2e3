"""Sums over the margins of past points for Anderson acceleration (Anderson 1965; Bertrand and Massias 2021).

The extrapolated point combines the past ones with the weights that the Gram matrix of the steps between them gives.

points : float64 (points, N, width), margins as in `losses.py`; entries that are -inf, beside the states and at labels,
stay so, and count as steps of 0.
"""

import numpy as np

from crfqn.kernels import kernel


@kernel
def add_step_products(first, last, points, weights, gram):
    """gram[a, b] += sum_i weight_i <u_a(i), u_b(i)> for a >= b over the positions i = first ... last - 1.

    u_a : the step from point a to a + 1; gram : float64 (points - 1, points - 1)
    """
    n_steps, width = points.shape[0] - 1, points.shape[2]
    steps = np.empty((n_steps, width))
    for i in range(first, last):
        for a in range(n_steps):
            for r in range(width):
                u = points[a + 1, i, r] - points[a, i, r]
                steps[a, r] = u if u == u else 0.0
        for a in range(n_steps):
            for b in range(a + 1):
                total = 0.0
                for r in range(width):
                    total += steps[a, r] * steps[b, r]
                gram[a, b] += weights[i] * total


@kernel
def combine(first, last, points, shares, out):
    """out[i] = sum_k shares[k] points[k, i] for the positions first ... last - 1."""
    for i in range(first, last):
        row = out[i]
        row[:] = 0.0
        for k in range(shares.size):
            for r in range(row.size):
                row[r] += shares[k] * points[k, i, r]
        for r in range(row.size):
            row[r] = row[r] if row[r] == row[r] else -np.inf
