"""Coordinate descent on Prox-QN's quadratic model with an L1 term, and the vector loops that this takes.

    min_d  g'd + 1/2 d'(B + damping) d + sum_j l1_j |w_j + d_j| + l2_j/2 (w_j + d_j)^2,   B = B0 - Q Q^

(Zhong et al. 2014, section 2.2 and Algorithm 2, lines 23-30), with B0 a diagonal, a dense or a sparse matrix, and the
compact secant corrections Q (n, 2m), Q^ (2m, n). d^ = Q^ d and B0 d (of a matrix) are kept up to date, so that a
coordinate costs O(m), and a row of B0 more only where it moves. Shapes: n coordinates of the model.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel

LEAST_SHARE = 1e-3  # of B0's diagonal: rounding must not leave a coordinate without curvature
# Operations, as `objectives/curvature.py` counts them: of a coordinate beside its products with Q, and of an entry of
# a row of B0, which is fetched where B0 is sparse and comes in registers of 8 where it is dense.
COORDINATE, SPARSE_ENTRY, DENSE_ENTRY = 10.0, 3.0, 0.125


class QuadraticModelArrays(NamedTuple):
    """Matrix B = B0 - Q Q^ of the model.

    dense : float32 (n, n), B0, or (0, 0)
    indptr, indices, data : int32 (n + 1,), int32, float32, rows of a sparse B0, or empty; without either B0 is its
        diagonal
    diagonal, q, q_hat : float64 (n,), of B0; float64 (n, 2m), Q, and Q^ transposed
    """

    dense: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    diagonal: np.ndarray
    q: np.ndarray
    q_hat: np.ndarray


class Limits(NamedTuple):
    """When coordinate descent ends.

    most : sweeps
    step_operations : of a step beside its sweeps, which these are weighed against; infinite: they are not
    """

    most: int
    step_operations: float


class Subproblem(NamedTuple):
    """The model with more on its diagonal, at weights w and their gradient g; damping, g, w : float64 (n,)."""

    model: QuadraticModelArrays
    damping: np.ndarray
    g: np.ndarray
    w: np.ndarray
    limits: Limits


@inner
def soft_threshold(x, threshold):
    """Return the minimiser of 1/2 (v - x)^2 + threshold |v|."""
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
    """Return sum_i x_i y_i."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@inner
def add_entries(target, indices, data, begin, end, scale):
    """target += scale * the row of a compressed matrix that has the entries begin ... end - 1."""
    for e in range(begin, end):
        target[np.uint64(indices[e])] += scale * data[e]


@inner
def own_curvature(diagonal, q, q_hat):
    """Return B's diagonal entry, given that of B0 and the coordinate's rows of Q and of Q^ transposed."""
    own, least = diagonal - inner_product(q, q_hat), LEAST_SHARE * diagonal
    return own if own > least else least


@inner
def row_operations(model, j):
    """Return what adding row j of B0 takes."""
    if model.indptr.size > 0:
        return SPARSE_ENTRY * (model.indptr[j + 1] - model.indptr[j])
    return DENSE_ENTRY * model.dense.shape[0]


@kernel(counts=False)
def descend(problem, l1, l2, d, base_d, curvature, d_hat):
    """Sweep cyclically over the coordinates until the model is solved well enough; returns the number of sweeps made.

    Sweeps win less and less. The next one is not worth its price when the last one has won less for an operation than
    the step so far, the pass that has to follow it included: rather than that, the next step gets a new gradient.
    l1, l2 : float64 (n,); d : float64 (n,), the direction, and base_d : float32 (n,), B0 d, in and out;
    curvature, d_hat : float64 (n,) and (2m,), any numbers, overwritten
    """
    model, damping, g, w, limits = problem
    n, diagonal, q, q_hat = g.size, model.diagonal, model.q, model.q_hat
    is_matrix = model.dense.shape[0] > 0 or model.indptr.size > 0
    for i in range(d_hat.size):
        d_hat[i] = 0.0
    for j in range(n):
        curvature[j] = own_curvature(diagonal[j], q[j], q_hat[j]) + damping[j] + l2[j]
        if d[j] != 0:
            add_scaled(d_hat, q_hat[j], d[j])
    won, spent = 0.0, limits.step_operations
    for sweep in range(limits.most):
        gain, operations = 0.0, (COORDINATE + q.shape[1]) * n
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
                if model.dense.shape[0] > 0:
                    add_scaled(base_d, model.dense[j], np.float32(z))
                elif is_matrix:
                    begin, end = model.indptr[j], model.indptr[j + 1]
                    add_entries(base_d, model.indices, model.data, begin, end, np.float32(z))
                operations += row_operations(model, j)
                gain += 0.5 * a * z * z
        won, spent = won + gain, spent + operations
        if gain == 0.0 or gain * spent < won * operations:  # less for an operation than the step so far
            return sweep + 1
    return limits.most
