"""Coordinate descent on the quadratic model with an L1 term (paper, section 2.2; Algorithm 2, lines 23-30).

    min_d  g'd + 1/2 d'(B + damping) d + sum_j l1_j |w_j + d_j| + l2_j/2 (w_j + d_j)^2,   B = B0 - Q Q^

with B0 a diagonal, a dense or a sparse matrix, and Q (n, 2m), Q^ (2m, n) the compact secant corrections. d^ = Q^ d and
B0 d (of a matrix) are kept up to date, so that a coordinate costs O(m), and a row of B0 more only where it moves.
"""

import numpy as np

from crfqn.kernels import inner, kernel

LEAST_SHARE = 1e-3  # of B0's diagonal: rounding must not leave a coordinate without curvature


@inner
def soft_threshold(x, threshold):
    """The minimiser of 1/2 (v - x)^2 + threshold |v|."""
    if x > threshold:
        return x - threshold
    if x < -threshold:
        return x + threshold
    return 0.0


@inner
def add_scaled(target, source, scale):
    """target += scale * source."""
    for i in range(target.size):
        target[i] += scale * source[i]


@inner
def inner_product(x, y):
    """sum_i x_i y_i."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@inner
def add_entries(target, indices, data, begin, end, scale):
    """target += scale * a row of a compressed matrix."""
    for e in range(begin, end):
        target[np.uint64(indices[e])] += scale * data[e]


@inner
def own_curvature(diagonal, q, q_hat):
    """B's diagonal entry, of the diagonal entry of B0 and the rows of Q and Q^ transposed."""
    own, least = diagonal - inner_product(q, q_hat), LEAST_SHARE * diagonal
    return own if own > least else least


@inner
def add_base_row(target, dense, indptr, indices, data, j, scale):
    """target += scale * row j of the matrix B0; nothing where B0 is a diagonal."""
    if dense.shape[0] > 0:
        add_scaled(target, dense[j], scale)
    elif indptr.size > 0:
        add_entries(target, indices, data, indptr[j], indptr[j + 1], scale)


@kernel
def descend(
    dense, indptr, indices, data, diagonal, q, q_hat, damping, g, w, l1, l2, max_sweeps, tolerance, d, base_d
):
    """Sweep cyclically over the coordinates until the model is solved well enough.

    Parameters
    ----------
    dense : float32 (n, n) B0, or (0, 0); indptr, indices, data : B0's rows compressed, int32 (n + 1,), int32 and
        float32, or empty; where both are missing B0 is the diagonal. diagonal : float64 (n,) of B0
    q, q_hat : float64 (n, 2m), Q and Q^ transposed; damping, g, w, l1, l2 : float64 (n,)
    tolerance : stop when a sweep's largest move, in gradient units, is below tolerance * the first sweep's
    d : float64 (n,), in and out: the direction (zeros to start with); base_d : float32 (n,), in and out: B0 d

    Returns
    -------
    The number of sweeps made.
    """
    n = g.size
    is_matrix = dense.shape[0] > 0 or indptr.size > 0
    curvature = np.empty(n)
    d_hat = np.zeros(q.shape[1])
    for j in range(n):
        curvature[j] = own_curvature(diagonal[j], q[j], q_hat[j]) + damping[j] + l2[j]
        if d[j] != 0:
            add_scaled(d_hat, q_hat[j], d[j])
    first_move = 0.0
    for sweep in range(max_sweeps):
        largest_move = 0.0
        for j in range(n):
            base_part = base_d[j] if is_matrix else diagonal[j] * d[j]
            c = w[j] + d[j]
            slope = g[j] + base_part - inner_product(q[j], d_hat) + damping[j] * d[j] + l2[j] * c
            a = curvature[j]
            target = soft_threshold(c - slope / a, l1[j] / a)
            z = target - c
            if z != 0.0:
                d[j] = d[j] + z if target != 0.0 else -w[j]  # not a rounding beside zero
                add_scaled(d_hat, q_hat[j], z)
                add_base_row(base_d, dense, indptr, indices, data, j, np.float32(z))
                move = a * (z if z > 0.0 else -z)
                largest_move = move if move > largest_move else largest_move
        if sweep == 0:
            first_move = largest_move
        if largest_move <= tolerance * first_move:
            return sweep + 1
    return max_sweeps
