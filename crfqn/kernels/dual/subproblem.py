"""The sub-problem of one item (Blondel, Fujino and Ueda 2014, equation 6), by five methods.

The dual variables alpha of an item are kept as b = C - alpha, the point of the simplex {b >= 0, sum b = c} (equation 7
less the factor ||x||): b_m > 0 where alpha_m < C_m, and b = c e_y at the start. Equation 6 is then the projection of

    b + g / ||x||^2,   g_m = w_m x + offset_m + [m != y]   (equation 4)

onto that simplex. Shapes: b, g, after, workspace float64 (K,); K states.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import bare_subkernel, inner
from crfqn.kernels.projection import (
    BISECTION,
    PIVOT,
    SORT,
    difference,
    gather_above,
    largest_and_sum,
    level_by_bisection,
    simplex_level,
)

SMO, FRANK_WOLFE = 3, 4
METHODS = {"sort": SORT, "pivot": PIVOT, "bisection": BISECTION, "smo": SMO, "frank-wolfe": FRANK_WOLFE}


class SubSolver(NamedTuple):
    """How sub-problems are solved.

    method : one of METHODS; tol : of the bisection; random : uint64 (1,), of the pivots
    """

    method: int
    tol: float
    random: np.ndarray


class Optimality(NamedTuple):
    """What equation 5 finds in the gradient of an item.

    best : the state with the largest g; violation : v_i; gap : c max g - b'g, the item's part of the duality gap
    slack : where b is a vertex, how far its state is above all others (below 0: it is not above); else -inf
    """

    best: int
    violation: float
    gap: float
    slack: float


@inner
def optimality(g, b, c):
    """Return what equation 5 finds: b > 0 only where g is largest."""
    best, largest, second, least, n_positive, product = 0, g[0], -np.inf, np.inf, 0, 0.0
    for m in range(b.size):
        if m > 0:
            if g[m] > largest:
                best, largest, second = m, g[m], largest
            else:
                second = max(second, g[m])
        if b[m] > 0.0:
            n_positive += 1
            least = min(least, g[m])
            product += b[m] * g[m]
    violation = largest - least
    slack = (largest - second if violation == 0.0 else -violation) if n_positive == 1 else -np.inf
    return Optimality(best, violation, c * largest - product, slack)


@bare_subkernel
def project(g, b, c, square, solver, after, workspace):
    """after <- argmin of equation 6 (Lemma 1): exactly, or by Algorithm 3, whose sum is c up to the tolerance."""
    for m in range(b.size):
        after[m] = b[m] + g[m] / square
    if solver.method == BISECTION:
        largest, _ = largest_and_sum(after)
        u = workspace[: gather_above(after, largest, -c, workspace)]
        level = level_by_bisection(u, -c, c, 0.0, solver.tol)
    else:
        largest, level = simplex_level(after, c, 0.0, solver.method, 0.0, workspace, solver.random)
    for m in range(b.size):
        above = difference(difference(after[m], largest), level)
        after[m] = above if above > 0.0 else 0.0


@inner
def exchange(g, b, square, best, cursor, after):
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


@bare_subkernel
def solve_block(g, b, c, square, best, cursor, solver, after, workspace):
    """after <- the next b of an item; returns the cursor of the exchanges. square : ||x||^2."""
    if solver.method == SMO:
        return exchange(g, b, square, best, cursor, after)
    if solver.method == FRANK_WOLFE or square == 0.0:  # without curvature the vertex itself is the solution
        step_to_vertex(g, b, c, square, best, after)
    else:
        project(g, b, c, square, solver, after, workspace)
    return cursor
