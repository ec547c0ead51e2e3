"""Newton's method on the support: a small problem that is nearly solved, solved until rounding is all that is left.

A method that compares values sees no step shorter than some 1e-8 of the weights: the objective is flat there to the
last digit. What it ends with depends on the order in which sums are taken, hence on the processor. Newton's method
on the weights that are not zero,

    (H + penalty'') d = -(g + penalty'),

goes on until the gradient itself is rounding. Weights that would change sign, and rows that would turn round, become
zero; zeros whose gradient is above its threshold enter by a proximal step. H of a hinge is the generalised Hessian.

Shapes: n weights that are not zero or unpenalised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.line_search import ROUNDING, Trial, backtracking, is_hidden
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Vector
from crfqn.solvers.screened_point import ScreenedPoint, screen_point

MOST_OPERATIONS = 5e7  # of a step, multiplications for H and its factors: some milliseconds
MOST_STEPS = 30
RIDGES = tuple(10.0**power for power in range(-8, 1))  # of the diagonal: H comes in single precision
LEAST_GAIN = 0.9  # of the violation, where values say nothing any more
NOISE = 10.0  # roundings that the sum over the items may be off
FLOOR = 1e-3  # of the curvature, in units of max x^2


def newton_on_support(objective: Objective, penalty: Penalty, point: Point) -> ScreenedPoint | None:
    """Return the point that Newton steps lead to, screened; None where there are none to be taken.

    That is where the problem is not small, the objective has no Hessian or the penalty no derivatives (the largest size
    of a row), and where the point cannot be improved.
    """
    if not objective.has_curvature:
        return None
    here, found = screen_point(penalty, point), None
    for _ in range(MOST_STEPS):
        there = enter(objective, here) or newton_step(objective, here)
        if there is None:
            return found
        here = found = there
    return found


def newton_step(objective: Objective, here: ScreenedPoint) -> ScreenedPoint | None:
    """Return the first acceptable of the points w + d, w + d / 2, ...; None if there is none."""
    is_unpenalised = np.isin(here.coords, here.penalty.unpenalised)
    inside = np.flatnonzero((here.w != 0) | is_unpenalised)
    coords, w = here.coords[inside], here.w[inside]
    system = newton_system(objective, here, inside)
    if system is None:
        return None
    slopes, hessian = system
    for ridge in RIDGES:
        d = -solved(hessian, slopes, ridge)
        slope = float(slopes @ d)
        if slope < 0:
            break
    else:
        return None

    def attempt(length: float) -> Trial[ScreenedPoint | None] | None:
        v = kept_in_orthant(here.penalty, coords, w, w + length * d)
        there = accepted(objective, here, coords, v, -length * slope)
        if there is None and is_hidden(-length * slope, here.value):
            return None
        return Trial(there, there is not None)

    return backtracking(attempt, 1.0, 0.5).outcome


def newton_system(
    objective: Objective, here: ScreenedPoint, inside: NDArray[np.intp]
) -> tuple[Vector, NDArray[np.float64]] | None:
    """Return gradient and Hessian of the whole objective, (n,) and (n, n), at the places `inside` of `here`."""
    n, coords = inside.size, here.coords[inside]
    if n == 0 or n**2 * (n + objective.n_positions) > MOST_OPERATIONS:
        return None
    local, w = here.penalty.at(coords), here.w[inside]
    columns = (local.hessian_times(w, one) for one in np.eye(n))
    bent = [column for column in columns if column is not None]
    if not bent:
        return None
    model = here.point.hessian_model(coords, objective.n_positions, n)
    if model is None:
        return None
    dense = model if isinstance(model, np.ndarray) else model.toarray()
    return here.g[inside] + local.gradient(w), dense.astype(np.float64) + np.stack(bent)


def solved(hessian: NDArray[np.float64], slopes: Vector, ridge: float) -> Vector:
    """Return (H + ridge D)^-1 slopes, D the diagonal; coordinates without curvature stay where they are."""
    diagonal = np.diagonal(hessian)
    scale = np.divide(1.0, np.sqrt(np.abs(diagonal)), out=np.zeros(slopes.size), where=diagonal > 0)
    scaled = hessian * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] = 1.0 + ridge
    return scale * np.linalg.solve(scaled, scale * slopes)


def kept_in_orthant(penalty: Penalty, coords: Coords, w: Vector, v: Vector) -> Vector:
    """Return v, zero where the penalty has a kink between it and w: a sign changes, or a row turns round."""
    local, product = penalty.at(coords), w * v
    has_turned = local.blocks.spread(local.blocks.total(product) <= 0) & (local.threshold > 0)
    has_changed = (product <= 0) & (penalty.l1_of(coords) > 0)
    return np.where(has_turned | has_changed, 0.0, v)


def enter(objective: Objective, here: ScreenedPoint) -> ScreenedPoint | None:
    """Take a proximal step of the zeros that may leave zero, if they violate more than the other weights."""
    local = here.penalty.at(here.coords)
    violation = local.violation(here.w, here.g)
    is_zero = local.blocks.spread(local.blocks.largest(np.abs(here.w)) == 0)
    is_zero &= ~np.isin(here.coords, here.penalty.unpenalised)
    outside = np.flatnonzero(is_zero & (violation > 0))
    if outside.size == 0 or violation[outside].max() <= violation[~is_zero].max(initial=0.0):
        return None
    coords, g = here.coords[outside], here.g[outside]
    point = here.point
    sizes = point.curvature(coords).diagonal + FLOOR * point.feature_scale(coords)
    length = 1.0 / float(sizes.sum())
    v = here.penalty.prox(coords, -length * g, length)
    gain = 0.5 * float(v @ v) / length
    return accepted(objective, here, coords, v, gain) if v.any() else None


def accepted(
    objective: Objective, here: ScreenedPoint, coords: Coords, v: Vector, predicted_decrease: float
) -> ScreenedPoint | None:
    """Return the point with the weights v at `coords`, if it is better: by value, or where that is hidden, violation.

    predicted_decrease : what the step would win to first order
    """
    w = here.w.copy()
    w[np.searchsorted(here.coords, coords)] = v
    used = np.flatnonzero(w)
    there = screen_point(here.penalty, objective.at(here.coords[used], w[used]))
    unseen = NOISE * ROUNDING * abs(here.value)
    if not there.value <= here.value + unseen:
        return None
    is_visible = here.value - there.value > max(1e-4 * predicted_decrease, unseen)
    is_better = violation_of(there) <= LEAST_GAIN * violation_of(here)
    return there if is_visible or is_better else None


def violation_of(seen: ScreenedPoint) -> float:
    """Return the largest violation over all coordinates."""
    return seen.penalty.at(seen.coords).largest_violation(seen.w, seen.g)
