"""Block coordinate descent on Prox-QN's quadratic model under block norms: `coordinate_descent.py` by whole rows.

    min_d  g'd + 1/2 d'(B + damping) d + sum_b h_b(w_b + d_b) + l2_b/2 ||w_b + d_b||^2,   B = B0 - Q Q^

with h_b = l1_b ||.||_1 + group_b ||.|| of `row_norm.py`. A block takes a proximal gradient step on a model with the
curvature L_b times the identity (Tseng and Yun 2009):

    v = prox_{h / L} (c - slope / L),   c = w_b + d_b,   z = v - c,

which decreases the model if z' B_bb z <= L ||z||^2. L_b starts from its lower bound, the largest entry of the diagonal
of B_bb, and grows if B_bb has a larger curvature along z. Gershgorin's bound of B_bb would need no such check, but it
is larger, and the steps are shorter in proportion.

Shapes: n coordinates of the model, 2m columns of Q. A block's coordinates are `members`, int64.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.coordinate_descent import (
    COORDINATE_OPERATIONS,
    QuadraticModelArrays,
    add_entries,
    add_scaled,
    inner_product,
    own_curvature,
    row_operations,
)
from crfqn.kernels.row_norm import shrink_block

BOUND_GROWTH = 1.1  # L_b becomes this factor times the curvature that exceeded it, against repeated growth
CURVATURE_ROUNDING = 1e-5  # relative rounding error of a curvature with a float32 B0
# Numerical guard: a move this many times the largest one of the first sweep means that rounding has made B indefinite,
# so that the model has no minimum.
DIVERGENCE_RATIO = 1e6


class BlockPenalty(NamedTuple):
    """Blocks and their strengths.

    order, starts : int64 (n,) and (n_blocks + 1,), see `penalties.blocks`
    l1, group, l2 : float64 (n_blocks,)
    is_linf : whether the norm is the largest size instead of the Euclidean length
    """

    order: np.ndarray
    starts: np.ndarray
    l1: np.ndarray
    group: np.ndarray
    l2: np.ndarray
    is_linf: bool


class GroupProblem(NamedTuple):
    """The model and the penalty as an objective of d; damping, g, w : float64 (n,)."""

    model: QuadraticModelArrays
    penalty: BlockPenalty
    damping: np.ndarray
    g: np.ndarray
    w: np.ndarray


class Direction(NamedTuple):
    """Direction d, float64 (n,), and its products: d_hat = Q^ d, float64 (2m,), and base_d = B0 d, float32 (n,), which
    is updated if B0 is a matrix."""

    d: np.ndarray
    d_hat: np.ndarray
    base_d: np.ndarray


class Workspace(NamedTuple):
    """Arrays of all steps.

    bounds : float64 (n_blocks,), L_b
    zeros : float64 (n,), workspace, zero between calls
    block : float64 (5, largest block): z, the new weights, the old weights, the slope, workspace
    secant : float64 (2, 2m): Q^ z and Q' z
    """

    bounds: np.ndarray
    zeros: np.ndarray
    block: np.ndarray
    secant: np.ndarray


@inner
def base_curvature(model, members, z, zeros):
    """Return z' B0 z of a block."""
    total = 0.0
    if model.dense.shape[0] > 0:
        for i in range(members.size):
            row, part = model.dense[members[i]], 0.0
            for k in range(members.size):
                part += row[members[k]] * z[k]
            total += part * z[i]
        return total
    if model.indptr.size == 0:
        for i in range(members.size):
            total += model.diagonal[members[i]] * z[i] * z[i]
        return total
    for i in range(members.size):
        zeros[members[i]] = z[i]
    for i in range(members.size):
        if z[i] != 0.0:
            j = members[i]
            for e in range(model.indptr[j], model.indptr[j + 1]):
                total += z[i] * model.data[e] * zeros[np.uint64(model.indices[e])]
    for i in range(members.size):
        zeros[members[i]] = 0.0
    return total


@inner
def propose_block(b, members, bound, problem, work):
    """Write z, the new weights and the secant products of the step with curvature `bound`, from the old weights and the
    slope in work.block. Return ||z||^2 and the part of the damping in z' B z."""
    model, penalty, n = problem.model, problem.penalty, members.size
    z, moved, center, slope = work.block[0, :n], work.block[1, :n], work.block[2, :n], work.block[3, :n]
    q_hat_z, q_z = work.secant[0], work.secant[1]
    square, damped = 0.0, 0.0
    for i in range(n):
        moved[i] = center[i] - slope[i] / bound
    shrink_block(moved, penalty.l1[b] / bound, penalty.group[b] / bound, penalty.is_linf, work.block[4, :n])
    q_hat_z[:], q_z[:] = 0.0, 0.0
    for i in range(n):
        j = members[i]
        moved[i] *= bound / (bound + penalty.l2[b])
        z[i] = moved[i] - center[i]
        if z[i] != 0.0:
            square += z[i] * z[i]
            damped += problem.damping[j] * z[i] * z[i]
            add_scaled(q_hat_z, model.q_hat[j], z[i])
            add_scaled(q_z, model.q[j], z[i])
    return square, damped


@subkernel(counts=False)
def step_block(b, members, problem, direction, work):
    """Take the step of a block, increasing L_b until it bounds the curvature along z; update d and d_hat. Return
    ||z||^2."""
    n, model, damping, d = members.size, problem.model, problem.damping, direction.d
    is_matrix = model.dense.shape[0] > 0 or model.indptr.size > 0
    z, moved, center, slope = work.block[0, :n], work.block[1, :n], work.block[2, :n], work.block[3, :n]
    for i in range(n):
        j = members[i]
        base_d = direction.base_d[j] if is_matrix else model.diagonal[j] * d[j]
        center[i] = problem.w[j] + d[j]
        slope[i] = problem.g[j] + base_d - inner_product(model.q[j], direction.d_hat) + damping[j] * d[j]
    while True:
        square, damped = propose_block(b, members, work.bounds[b], problem, work)
        if n == 1 or square == 0.0:
            break
        curved = base_curvature(model, members, z, work.zeros)
        curved += damped - inner_product(work.secant[1], work.secant[0])
        if not curved > (1.0 + CURVATURE_ROUNDING) * work.bounds[b] * square:  # NaN ends the loop, too
            break
        work.bounds[b] = BOUND_GROWTH * curved / square
    if not square > 0.0:
        return 0.0
    add_scaled(direction.d_hat, work.secant[0], 1.0)
    for i in range(n):
        if z[i] != 0.0:  # otherwise d would be rounded again, without a change of B0 d
            d[members[i]] = moved[i] - problem.w[members[i]]
    return square


@subkernel(counts=False)
def add_moves(members, z, model, base_d):
    """base_d += the rows of B0 times the moves of a block; return the number of operations."""
    operations = 0.0
    for i in range(members.size):
        j, move = members[i], np.float32(z[i])
        operations += row_operations(model, j)
        if move != 0.0 and model.dense.shape[0] > 0:
            add_scaled(base_d, model.dense[j], move)
        elif move != 0.0 and model.indptr.size > 0:
            add_entries(base_d, model.indices, model.data, model.indptr[j], model.indptr[j + 1], move)
    return operations


@subkernel
def new_workspace(problem):
    """Return a `Workspace`; the first bound of a block is the largest diagonal entry of B_bb + damping."""
    penalty, model, n, m = problem.penalty, problem.model, problem.g.size, problem.model.q.shape[1]
    widest = 1
    for b in range(penalty.starts.size - 1):
        widest = max(widest, penalty.starts[b + 1] - penalty.starts[b])
    work = Workspace(np.zeros(penalty.starts.size - 1), np.zeros(n), np.empty((5, widest)), np.empty((2, m)))
    for b in range(work.bounds.size):
        for i in range(penalty.starts[b], penalty.starts[b + 1]):
            j = penalty.order[i]
            curvature = own_curvature(model.diagonal[j], model.q[j], model.q_hat[j]) + problem.damping[j]
            work.bounds[b] = max(work.bounds[b], curvature)
    return work


@kernel
def descend_groups(subproblem, penalty, d, base_d):
    """Sweep cyclically over the blocks until the model is solved well enough; return the number of sweeps.

    The sweeps stop as in `coordinate_descent.descend`. d is 0 if the model has no minimum.

    d, base_d : as in `coordinate_descent.descend`
    """
    model, damping, g, w, limits = subproblem
    problem = GroupProblem(model, penalty, damping, g, w)
    direction = Direction(d, np.zeros(model.q.shape[1]), base_d)
    work, first_move = new_workspace(problem), 0.0
    for j in range(g.size):
        if d[j] != 0:
            add_scaled(direction.d_hat, model.q_hat[j], d[j])
    decrease, spent = 0.0, limits.step_operations
    for sweep in range(limits.max_sweeps):
        gain, operations, largest_move = 0.0, (COORDINATE_OPERATIONS + 3.0 * model.q.shape[1]) * g.size, 0.0
        for b in range(penalty.starts.size - 1):
            members = penalty.order[penalty.starts[b] : penalty.starts[b + 1]]
            square = step_block(b, members, problem, direction, work)
            if square > 0.0:
                largest_move = max(largest_move, work.bounds[b] * np.sqrt(square))
                gain += 0.5 * work.bounds[b] * square
                operations += add_moves(members, work.block[0], model, base_d)
        if sweep == 0:
            first_move = largest_move
        elif not largest_move <= DIVERGENCE_RATIO * first_move:
            d[:] = 0.0
            base_d[:] = 0.0
            return sweep + 1
        decrease, spent = decrease + gain, spent + operations
        if largest_move == 0.0 or gain * spent < decrease * operations:
            return sweep + 1
    return limits.max_sweeps
