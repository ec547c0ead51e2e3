"""Margins of several points in a row, for extrapolation: products of their steps, and their combinations.

Margins are affine in the weights, so those of a combination whose shares add up to 1 are combined by the same shares.
What is -inf beside the states and at labels stays so, and counts as a step of 0.

trail : float64 (points, N, width), margins as in `row_losses.py`
"""

import numpy as np

from crfqn.kernels import kernel

RUN = 32  # positions


@kernel
def add_step_products(first, last, every, trail, weights, gram):
    """gram[a, b] += sum_i weight_i <u_a(i), u_b(i)> over positions, u_a the step from point a to a + 1.

    Of first ... last - 1 those of every how manieth run of RUN.
    """
    n_steps, width = trail.shape[0] - 1, trail.shape[2]
    steps = np.empty((n_steps, width))
    for i in range(first, last):
        if (i // RUN) % every > 0:
            continue
        for a in range(n_steps):
            before, after, step = trail[a, i], trail[a + 1, i], steps[a]
            for r in range(width):
                u = after[r] - before[r]
                step[r] = u if u == u else 0.0
        for a in range(n_steps):
            for b in range(a + 1):
                total = 0.0
                for r in range(width):
                    total += steps[a, r] * steps[b, r]
                gram[a, b] += weights[i] * total


@kernel
def combine(first, last, trail, shares, out):
    """out[i] = sum_k shares[k] trail[k, i] for the positions first ... last - 1."""
    for i in range(first, last):
        row = out[i]
        row[:] = 0.0
        for k in range(shares.size):
            part = trail[k, i]
            for r in range(row.size):
                row[r] += shares[k] * part[r]
        for r in range(row.size):
            row[r] = row[r] if row[r] == row[r] else -np.inf
