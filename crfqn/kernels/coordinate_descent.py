"""Coordinate descent on Prox-QN's quadratic model with an L1 term, and its vector loops.

    min_d  g'd + 1/2 d'(B + damping) d + sum_j l1_j |w_j + d_j| + l2_j/2 (w_j + d_j)^2,   B = B0 - Q Q^

(Zhong et al. 2014, section 2.2 and Algorithm 2, lines 23-30). B0 is a diagonal, dense or sparse matrix; Q (n, 2m) and
Q^ (2m, n) are the compact secant corrections. The products d^ = Q^ d and, for a matrix, B0 d are updated with d: the
slope of a coordinate then costs O(m), and only a coordinate that moves adds a row of B0.
Shapes: n coordinates of the model.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel

# Lower bound of B's diagonal as a fraction of B0's: a numerical guard, since rounding could cancel the curvature.
MIN_CURVATURE_SHARE = 1e-3
# Costs in the operations that `objectives/curvature.py` counts: a coordinate without its products with Q; an entry of a
# row of B0, gathered if B0 is sparse and read in registers of 8 if it is dense.
COORDINATE_OPERATIONS, SPARSE_ENTRY_OPERATIONS, DENSE_ENTRY_OPERATIONS = 10.0, 3.0, 0.125


class QuadraticModelArrays(NamedTuple):
    """Matrix B = B0 - Q Q^ of the model. B0 is diagonal if neither `dense` nor the sparse rows are given.

    dense : float32 (n, n), B0, or (0, 0)
    indptr, indices, data : int32 (n + 1,), int32, float32, the rows of a sparse B0, or empty
    diagonal : float64 (n,), of B0
    q, q_hat : float64 (n, 2m), Q, and Q^ transposed
    """

    dense: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    diagonal: np.ndarray
    q: np.ndarray
    q_hat: np.ndarray


class Limits(NamedTuple):
    """Stopping rules of coordinate descent.

    max_sweeps : maximum number of sweeps
    step_operations : cost of a step without its sweeps, in operations; infinite: only `max_sweeps` limits these
    """

    max_sweeps: int
    step_operations: float


class Subproblem(NamedTuple):
    """The model with `damping` added to its diagonal, at the weights w with gradient g; each float64 (n,)."""

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
    """target += scale * a row of a compressed matrix, its entries begin ... end - 1."""
    for e in range(begin, end):
        target[np.uint64(indices[e])] += scale * data[e]


@inner
def own_curvature(diagonal, q, q_hat):
    """Return a diagonal entry of B from that of B0 and the coordinate's rows of Q and of Q^ transposed."""
    own, minimum = diagonal - inner_product(q, q_hat), MIN_CURVATURE_SHARE * diagonal
    return own if own > minimum else minimum


@inner
def row_operations(model, j):
    """Return the number of operations of adding row j of B0 to B0 d."""
    if model.indptr.size > 0:
        return SPARSE_ENTRY_OPERATIONS * (model.indptr[j + 1] - model.indptr[j])
    return DENSE_ENTRY_OPERATIONS * model.dense.shape[0]


@kernel(counts=False)
def descend(problem, l1, l2, d, base_d, curvature, d_hat):
    """Sweep cyclically over the coordinates until the model is solved well enough; return the number of sweeps.

    The decrease of the model shrinks from sweep to sweep. The sweeps stop when the last one has decreased the model by
    less per operation than the whole step so far, whose cost includes the pass over the data that follows it. From
    then on a step with a new gradient gains more.

    l1, l2 : float64 (n,)
    d, base_d : float64 (n,), the direction, and float32 (n,), B0 d, in and out
    curvature, d_hat : float64 (n,) and (2m,), workspaces
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
    decrease, spent = 0.0, limits.step_operations
    for sweep in range(limits.max_sweeps):
        gain, operations = 0.0, (COORDINATE_OPERATIONS + q.shape[1]) * n
        for j in range(n):
            base_part = base_d[j] if is_matrix else diagonal[j] * d[j]
            c = w[j] + d[j]
            slope = g[j] + base_part - inner_product(q[j], d_hat) + damping[j] * d[j] + l2[j] * c
            a = curvature[j]
            target = soft_threshold(c - slope / a, l1[j] / a)
            z = target - c
            if z != 0.0:
                d[j] = d[j] + z if target != 0.0 else -w[j]  # exactly: the weight becomes 0
                add_scaled(d_hat, q_hat[j], z)
                if model.dense.shape[0] > 0:
                    add_scaled(base_d, model.dense[j], np.float32(z))
                elif is_matrix:
                    begin, end = model.indptr[j], model.indptr[j + 1]
                    add_entries(base_d, model.indices, model.data, begin, end, np.float32(z))
                operations += row_operations(model, j)
                gain += 0.5 * a * z * z
        decrease, spent = decrease + gain, spent + operations
        if gain == 0.0 or gain * spent < decrease * operations:  # less per operation than the step so far
            return sweep + 1
    return limits.max_sweeps
