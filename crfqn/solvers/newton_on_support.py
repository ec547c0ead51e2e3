"""Newton's method on the support, which solves a small problem until rounding is all that is left.

A method that compares values of the objective cannot make steps shorter than some 1e-8 of the weights: the objective is
flat there to the last digit, and where the method ends depends on the order of sums, hence on the processor. Newton's
method on the n weights that are not zero or not penalised,

    (H + penalty'') d = -(g + penalty'),

goes on until the gradient itself is rounding. Weights that would change their sign, and rows that would reverse their
direction, become zero; zeros whose gradient is above its threshold enter by a proximal step. H of a hinge is the
generalised Hessian.

`newton_check` checks the end of a run on a problem of any size. The decrease of the last steps says little if the
method itself fails, for example with a metric in single precision that resolves only the mean of the features, or after
a line search that has shortened all steps. The check computes H p = (g(w + e p) - g(w)) / e in double precision, in a
Krylov space (Nocedal and Wright 2006, section 7.1) of a limited number of directions. It tries the minima of the
quadratic model there, from long steps to short ones (Levenberg and Marquardt). A decrease that it finds is certain: a
run that far from its optimum has not ended, whatever was estimated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.result import Status
from crfqn.solvers.line_search import ROUNDING, HiddenDecrease, backtracking, is_hidden
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Vector
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry, screen_point

MOST_OPERATIONS = 5e7  # of a step, multiplications for H and its factors: some milliseconds
EDGE_PAIR = 30  # of them, for a pair of edge weights at a position
MOST_STEPS = 30
RIDGES_OF_HESSIAN = tuple(10.0**power for power in range(-8, 1))  # of the diagonal, in single precision
MAX_VIOLATION_RATIO = 0.9  # factor by which the violation has to fall where values differ by rounding only
ROUNDINGS_OF_SUM = 10.0  # roundings that the sum over the items may be off
CURVATURE_FLOOR = 1e-3  # of the curvature, in units of max x^2

# Of the check at the end of a run.
DIFFERENCE_LENGTH = 1e-3  # e of the differences of gradients, in units of sqrt(objective) and the norm of D
MAX_MODELS = 20
TOL_OF_NEWTON_STEPS = 0.1
DEPENDENT = 1e-10  # a direction that loses all but this share is in the space already
LEVENBERG_SHIFTS = 10.0 ** np.arange(-14, 1)  # in units of the largest curvature in the space


def newton_on_support(objective: Objective, penalty: Penalty, point: Point) -> ScreenedPoint | None:
    """Return the point that Newton steps lead to, screened; None where the problem is not small, the objective has no
    Hessian, the penalty no derivatives (the largest size of a row), or the point cannot be improved."""
    if not is_small(objective, penalty, point):
        return None
    here = first = screen_point(penalty, point)
    for _ in range(MOST_STEPS):
        better = enter(objective, here) or newton_step(objective, here)
        if better is None:
            break
        here = better
    return None if here is first else here


def is_small(objective: Objective, penalty: Penalty, point: Point) -> bool:
    """Return whether Newton steps on the support of a point may be taken."""
    is_inside = np.isin(point.coords[point.weights != 0], penalty.unpenalised, invert=True)
    n_inside = int(is_inside.sum()) + penalty.unpenalised.size
    return objective.has_curvature and price_of_step(objective, n_inside) <= MOST_OPERATIONS


def newton_step(objective: Objective, here: ScreenedPoint) -> ScreenedPoint | None:
    """Return the first acceptable of the points w + d, w + d / 2, ...; None if none is."""
    inside = np.flatnonzero((here.w != 0) | here.penalty.is_smooth(here.coords))
    n, coords, w = inside.size, here.coords[inside], here.w[inside]
    if n == 0 or price_of_step(objective, n) > MOST_OPERATIONS:
        return None
    # Gradient and Hessian of the whole objective, (n,) and (n, n).
    local = here.penalty.at(coords)
    columns = [column for one in np.eye(n) if (column := local.hessian_times(w, one)) is not None]
    model = here.point.hessian_model(coords, objective.n_positions, n) if columns else None
    if model is None:
        return None
    loss_hessian = model if isinstance(model, np.ndarray) else model.toarray()
    hessian = loss_hessian.astype(np.float64) + np.stack(columns)
    slopes = here.g[inside] + local.gradient(w)
    for ridge in RIDGES_OF_HESSIAN:
        d = -solve_with_ridge(hessian, slopes, ridge)
        slope = float(slopes @ d)
        if slope < 0:
            break
    else:
        return None

    def attempt(length: float) -> ScreenedPoint | None:
        v = w + length * d
        # Zero where the penalty has a kink between w and v: a sign changes, or a row turns round.
        has_turned = local.blocks.spread(local.blocks.total(w * v) <= 0) & (local.threshold > 0)
        v[has_turned | ((w * v <= 0) & (here.penalty.l1_of(coords) > 0))] = 0.0
        trial = accepted(objective, here, coords, v, -length * slope)
        if trial is None and is_hidden(-length * slope, here.value):
            raise HiddenDecrease
        return trial

    found = backtracking(attempt, 1.0, 0.5)
    return None if isinstance(found, Status) else found.outcome


def price_of_step(objective: Objective, n: int) -> float:
    """Return the multiplications for H of `n` weights and for its factors."""
    n_edges = min(n, objective.n_coords - objective.n_node_coords)
    return float(n**3 + objective.n_positions * (n**2 + EDGE_PAIR * n_edges**2))


def solve_with_ridge(hessian: NDArray[np.float64], slopes: Vector, ridge: float) -> Vector:
    """Return (H + ridge D)^-1 slopes, D the diagonal; coordinates without curvature stay where they are."""
    diagonal = np.diagonal(hessian)
    scale = np.divide(1.0, np.sqrt(np.abs(diagonal)), out=np.zeros(slopes.size), where=diagonal > 0)
    scaled = hessian * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] = 1.0 + ridge
    return scale * np.linalg.solve(scaled, scale * slopes)


def enter(objective: Objective, here: ScreenedPoint) -> ScreenedPoint | None:
    """Take a proximal step of the zeros that may leave zero, if they violate more than the other weights."""
    local, violation = here.local, here.local.violation(here.w, here.g)
    is_zero = local.blocks.spread(local.blocks.largest(np.abs(here.w)) == 0)
    is_zero &= ~here.penalty.is_smooth(here.coords)
    outside = np.flatnonzero(is_zero & (violation > 0))
    if outside.size == 0 or violation[outside].max() <= violation[~is_zero].max(initial=0.0):
        return None
    coords, point = here.coords[outside], here.point
    curvature = point.curvature(coords).diagonal + CURVATURE_FLOOR * point.objective.feature_scale(coords)
    length = 1.0 / float(curvature.sum())
    v = here.penalty.prox(coords, -length * here.g[outside], length)
    gain = 0.5 * float(v @ v) / length
    return accepted(objective, here, coords, v, gain) if v.any() else None


def accepted(
    objective: Objective, here: ScreenedPoint, coords: Coords, v: Vector, predicted_decrease: float
) -> ScreenedPoint | None:
    """Return the point with the weights v at `coords`, if it is better: by value, or where that is hidden, violation;
    predicted_decrease : what the step would win to first order."""
    w = here.w.copy()
    w[np.searchsorted(here.coords, coords)] = v
    used = np.flatnonzero(w)
    trial = screen_point(here.penalty, objective.at(here.coords[used], w[used]))
    unseen = ROUNDINGS_OF_SUM * ROUNDING * abs(here.value)
    if not trial.value <= here.value + unseen:
        return None
    is_lower = here.value - trial.value > max(1e-4 * predicted_decrease, unseen)
    return trial if is_lower or trial.violation <= MAX_VIOLATION_RATIO * here.violation else None


def newton_check(seen: ScreenedPoint, tol: float, most_steps: int) -> tuple[ScreenedPoint, float]:
    """Return the lowest point found from a screened one, and the decrease, as a share of the objective there.

    Steps go on while they win more than the share `tol`, or `TOL_OF_NEWTON_STEPS` times that if they are Newton steps
    in all weights. Each direction of `most_steps` takes a pass over the data.
    """
    first = seen.value
    for _ in range(MAX_MODELS):
        least = tol * abs(seen.value) * (TOL_OF_NEWTON_STEPS if seen.coords.size <= most_steps else 1.0)
        trial = lower_point(seen, most_steps, least)
        if trial is None:
            break
        before, seen = seen.value, trial
        if before - seen.value <= least:
            break
    return seen, (first - seen.value) / abs(seen.value)


def lower_point(seen: ScreenedPoint, most_steps: int, least: float) -> ScreenedPoint | None:
    """Return the lowest point that the model leads to, screened; None if it predicts a decrease below `least` nats."""
    here = seen.restricted_to((seen.w != 0) | seen.penalty.is_smooth(seen.coords))
    if here.coords.size == 0:
        return None
    slopes = here.g + here.local.gradient(here.w)
    basis, model = krylov(here, slopes, most_steps)
    if model.size == 0:
        return None
    roots, turn = np.linalg.eigh(model)
    c, best = turn.T @ (basis @ slopes), None
    lowest = seen.value
    for ridge in LEVENBERG_SHIFTS * max(float(roots[-1]), 0.0):
        lifted = np.maximum(roots, 0.0) + ridge
        if not lifted.all():
            continue  # no curvature: no minimum
        promise = float(c @ (c / lifted)) - 0.5 * float(roots @ (c / lifted) ** 2)
        if promise > abs(seen.value):
            continue  # kinks that the model does not know are all that bounds it
        if promise <= max(least, seen.value - lowest):
            break
        trial = here.way_to(here.w - basis.T @ (turn @ (c / lifted))).at(1.0)
        value = trial.value + seen.penalty.value(trial.coords, trial.weights)
        if value < lowest:
            best, lowest = trial, value
    return None if best is None else screen_point(seen.penalty, best)


def krylov(here: ScreenedPoint, slopes: Vector, most_steps: int) -> tuple[Vector, Vector]:
    """Return a basis V (k, n) of Krylov's space, orthonormal by the diagonal D of the curvature, and V H V' (k, k)."""
    diagonal = curvature_at_entry(here.point, here.coords) + here.penalty.l2
    diagonal[diagonal == 0] = 1.0
    short = DIFFERENCE_LENGTH * np.sqrt(abs(here.value))
    basis, images = np.empty((0, slopes.size)), np.empty((0, slopes.size))
    following = slopes / diagonal
    for _ in range(min(most_steps, slopes.size)):
        size = np.sqrt(float(following @ (diagonal * following)))
        for _ in range(2):  # once leaves rounding
            following = following - basis.T @ (basis @ (diagonal * following))
        left = np.sqrt(float(following @ (diagonal * following)))
        if not left > DEPENDENT * size:
            break
        v = following / left
        g = here.way_to(here.w + short * v).at(1.0).gradient(here.coords)
        image, of_penalty = (g - here.g) / short, here.local.hessian_times(here.w, v)
        image = image if of_penalty is None else image + of_penalty
        basis, images = np.vstack([basis, v]), np.vstack([images, image])
        following = image / diagonal
    model = basis @ images.T
    return basis, 0.5 * (model + model.T)
