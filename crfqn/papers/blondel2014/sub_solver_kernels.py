"""The sub-solvers of Blondel, Fujino and Ueda (2014), with linear scores or those of a kernel.

`crfqn/solvers/dual/decomposition_kernels.py` has the equations, the shapes, and the sweep of exact projections. With a
kernel the scores of the items that are worked on follow every update, by multiples of the item's row of the Gram matrix
between them: scores float64 (K, N).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.projection import (
    BISECTION,
    PIVOT,
    SORT,
    difference,
    gather_above,
    largest_and_sum,
    level_by_bisection,
)
from crfqn.solvers.dual.decomposition_kernels import (
    DECREASE,
    UPDATES,
    augment_scores,
    move_weights,
    optimality,
    project,
    record_optimality,
    take_step,
)

SMO, FRANK_WOLFE = 3, 4  # codes of methods, after those of projections
SUB_SOLVER_CODES = {
    "sort": SORT,
    "pivot": PIVOT,
    "bisection": BISECTION,
    "smo": SMO,
    "frank-wolfe": FRANK_WOLFE,
}


class SubSolver(NamedTuple):
    """Settings of a sub-solver.

    method : one of the values of SUB_SOLVER_CODES
    tol, random : tolerance of the bisection; uint64 (1,), the state of the pivots' generator
    """

    method: int
    tol: float
    random: np.ndarray


@subkernel(counts=False)
def project_by_bisection(g, b, c, square, tol, after, workspace):
    """after <- argmin of equation 6 by Algorithm 3: its sum is c up to the tolerance."""
    for m in range(b.size):
        after[m] = b[m] + g[m] / square
    largest, _ = largest_and_sum(after)
    u = workspace[: gather_above(after, largest, -c, workspace)]
    level = level_by_bisection(u, -c, c, 0.0, tol)
    for m in range(b.size):
        above = difference(difference(after[m], largest), level)
        after[m] = above if above > 0.0 else 0.0


@inner
def move_mass(g, b, square, best, cursor, after):
    """after <- b with mass moved to the best state from the next positive one (supplement A); returns that one."""
    q = cursor
    for _ in range(b.size):
        q = q + 1 if q + 1 < b.size else 0
        if b[q] > 0.0 and q != best:
            break
    moved = min((g[best] - g[q]) / (2.0 * square), b[q])
    for m in range(b.size):
        after[m] = b[m]
    if q != best and moved > 0.0:
        after[best] += moved
        after[q] = b[q] - moved
    return q


@inner
def step_to_vertex(g, b, c, square, best, after):
    """after <- b + gamma (c e_best - b) with the gamma that is best (supplement B)."""
    slope, length = 0.0, 0.0
    for m in range(b.size):
        d = (c if m == best else 0.0) - b[m]
        slope += g[m] * d
        length += d * d
    gamma = min(max(slope / (square * length), 0.0), 1.0) if length > 0.0 else 0.0
    for m in range(b.size):
        after[m] = (1.0 - gamma) * b[m]
    after[best] += gamma * c


@subkernel(counts=False)
def solve_block(g, b, c, square, best, cursor, solver, after, workspace):
    """after <- the next b of an item; returns the cursor of the exchanges. square : ||x||^2."""
    if solver.method == SMO:
        return move_mass(g, b, square, best, cursor, after)
    if solver.method == FRANK_WOLFE or square == 0.0:  # without curvature the vertex itself is the solution
        step_to_vertex(g, b, c, square, best, after)
    elif solver.method == BISECTION:
        project_by_bisection(g, b, c, square, solver.tol, after, workspace)
    else:
        project(g, b, c, square, solver.method, solver.random, after, workspace)
    return cursor


@kernel
def sweep_items_by(order, rows, gram, squares, items, table, solver, threshold, slacks, findings):
    """Visit the items of `order` under the multiclass hinge, as `sweep_items` does, by any sub-solver.

    rows, gram : DualRows, or None for a kernel; None for linear scores, or a square matrix, float64, whose first N rows
        and columns are the Gram matrix
    squares : float64 (N,), ||x||^2
    table : float64, in and out, the weights (F, width), or the scores of all items (K, N)
    """
    n = items.b.shape[1]
    g, after, workspace = np.zeros(table.shape[1] if gram is None else n), np.zeros(n), np.zeros(n + 1)
    states, changes = np.zeros(n, np.int64), np.zeros(n)
    findings[:] = 0.0
    for t in range(order.size):
        i = order[t]
        b, c, square = items.b[i], items.masses[i], squares[i]
        if rows is not None:
            augment_scores(i, rows, table, items, g)
        if gram is not None:
            offset = items.offsets[i if items.offsets.shape[0] > 1 else 0]
            for m in range(n):
                g[m] = table[m, i] + offset[m] + 1.0
            g[items.labels[i]] -= 1.0
        seen = optimality(g[:n], b, c)
        if not record_optimality(seen, t, g, threshold, slacks, findings):
            continue
        items.cursors[i] = solve_block(
            g[:n], b, c, square, seen.best, items.cursors[i], solver, after, workspace
        )
        n_states, decrease = take_step(g, b, after, square, states, changes)
        if rows is not None:
            move_weights(i, rows, n_states, states, changes, table)
        if gram is not None:
            for s in range(n_states):
                target, change = table[states[s]], changes[s]
                for j in range(target.size):
                    target[j] += change * gram[i, j]
        findings[DECREASE] += decrease
        findings[UPDATES] += 1.0
