"""Newton's method on the support, which solves small problems to the rounding error, and a Newton check for all others.

A solver that compares objective values cannot take steps shorter than about 1e-8 of the weights, since the values are
then equal up to rounding; its result depends on the order of sums, hence on the processor. Newton's method on the n
weights that are not zero or not penalised,

    (H + penalty'') d = -(g + penalty'),

continues until the gradient is at its rounding error. Weights that would change their sign, and rows that would reverse
their direction, become zero; zeros whose gradient is above its threshold enter by a proximal step. H of a hinge is the
generalised Hessian.

`newton_check` searches a lower objective at the end of a run, on a problem of any size, because small last steps may
also have other reasons than a near optimum, for example a metric in single precision. It computes
H p = (g(w + e p) - g(w)) / e in a Krylov space (Nocedal and Wright 2006, section 7.1) of a limited number of
directions, and tries the minima of the quadratic model there, from long steps to short ones (Levenberg and Marquardt).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.penalties.penalty import LocalPenalty
from crfqn.result import Status
from crfqn.solvers.line_search import VALUE_ROUNDING, HiddenDecrease, backtracking, is_hidden
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Vector
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry, screen_point

# Multiplications of a step, for H and its factorisation, up to which a problem is small: some milliseconds.
MAX_OPERATIONS = 5e7
EDGE_PAIR_OPERATIONS = 30  # multiplications for a pair of edge weights at a position
MAX_NEWTON_STEPS = 30  # a guard against runs without end; rounding stops them earlier
# Fractions of the diagonal that are added to H until d descends: H is in single precision.
RIDGES_OF_HESSIAN = tuple(10.0**power for power in range(-8, 1))
# Factor by which a step must decrease the violation if values differ by rounding only.
MAX_VIOLATION_RATIO = 0.9
# Error of the sum over the items, in rounding errors of the objective: a numerical guard.
ROUNDINGS_OF_SUM = 10.0
# Smallest curvature of a coordinate, in units of its feature's max x^2: a numerical guard.
CURVATURE_FLOOR = 1e-3
# Largest ratio of the violations after and before a step for H to serve another step, corrected by BFGS.
MAX_RATIO_FOR_BFGS = 0.25
ROUNDING_OF_GRADIENT = 1e-14  # rounding error of a violation, as a fraction of the largest gradient

# Constants of the Newton check.
# e of the differences of gradients, in units of sqrt(objective) and the norm of D: a numerical guard.
DIFFERENCE_LENGTH = 1e-3
MAX_MODELS = 20  # quadratic models of a check; a guard against checks without end
# Fraction of the tolerance at which the check stops if the Krylov space is the whole space.
TOL_OF_NEWTON_STEPS = 0.1
# Norm of the new part of a direction, as a fraction, below which the space is complete.
MAX_DEPENDENCE = 1e-10
LEVENBERG_SHIFTS = 10.0 ** np.arange(-14, 1)  # in units of the largest curvature in the space


def newton_on_support(objective: Objective, penalty: Penalty, point: Point) -> ScreenedPoint | None:
    """Return the screened point after Newton steps; None if the problem is not small, the objective has no Hessian, the
    penalty no derivatives (the maximum norm of rows), or the point cannot be improved."""
    if not is_small(objective, penalty, point):
        return None
    here = first = screen_point(penalty, point, proves_bound=False)
    support, hessian = on_support(here), None
    for _ in range(MAX_NEWTON_STEPS):
        if here.violation <= ROUNDING_OF_GRADIENT * np.abs(here.g).max(initial=0.0):
            break
        better = enter_zeros(objective, here)
        if better is None and hessian is not None:
            better = newton_step(objective, here, support, hessian)
        if better is None:
            hessian = form_hessian(objective, here, support)
            better = None if hessian is None else newton_step(objective, here, support, hessian)
        if better is None:
            break
        before, support = support, on_support(better)
        is_slow = better.violation > MAX_RATIO_FOR_BFGS * here.violation
        hessian, here = None if hessian is None or is_slow else hessian.corrected(before, support), better
    return None if here is first else screen_point(penalty, here.point)


def is_small(objective: Objective, penalty: Penalty, point: Point) -> bool:
    """Return whether a Newton step on the support of a point takes no more than `MAX_OPERATIONS`."""
    is_inside = np.isin(point.coords[point.weights != 0], penalty.unpenalised, invert=True)
    n_inside = int(is_inside.sum()) + penalty.unpenalised.size
    return objective.has_curvature and newton_operations(objective, n_inside) <= MAX_OPERATIONS


@dataclass(frozen=True)
class Hessian:
    """H + penalty'' on the weights that are not zero or not penalised, (n, n).

    After a step that decreases the violation enough, the BFGS formula (Nocedal and Wright 2006, equation 6.19) corrects
    it by the change of the gradient, without another Hessian.
    """

    coords: Coords
    matrix: NDArray[np.float64]

    def corrected(self, before: Support, after: Support) -> Hessian | None:
        """Return the matrix for the next step; None if it must be formed there."""
        if not np.array_equal(after.coords, self.coords):
            return None
        s, y = after.w - before.w, after.slopes - before.slopes
        image = self.matrix @ s
        if not min(float(s @ y), float(s @ image)) > 0:
            return None
        change = np.outer(y, y / (s @ y)) - np.outer(image, image / (s @ image))
        return Hessian(after.coords, self.matrix + change)


class Support(NamedTuple):
    """The coordinates that Newton's method moves, their weights and the gradient of the whole objective, all (n,), and
    the penalty there."""

    coords: Coords
    w: Vector
    slopes: Vector
    local: LocalPenalty


def on_support(here: ScreenedPoint) -> Support:
    """Return the coordinates that are not zero or not penalised."""
    inside = np.flatnonzero((here.w != 0) | here.penalty.is_smooth(here.coords))
    coords, w = here.coords[inside], here.w[inside]
    local = here.penalty.at(coords)
    return Support(coords, w, here.g[inside] + local.gradient(w), local)


def form_hessian(objective: Objective, here: ScreenedPoint, support: Support) -> Hessian | None:
    """Return the Hessian at a point; None if it takes too many operations, or if there is none."""
    coords, w, _, local = support
    n = coords.size
    if n == 0 or newton_operations(objective, n) > MAX_OPERATIONS:
        return None
    if here.penalty.is_separable:  # the Hessian is diagonal
        rows = [np.diag(second) for second in [local.hessian_times(w, np.ones(n))] if second is not None]
    else:
        rows = [row for one in np.eye(n) if (row := local.hessian_times(w, one)) is not None]
    model = here.point.hessian_model(coords, objective.n_positions, n) if rows else None
    if model is None:
        return None
    loss_hessian = model if isinstance(model, np.ndarray) else model.toarray()
    return Hessian(coords, loss_hessian.astype(np.float64) + np.vstack(rows))


def newton_step(
    objective: Objective, here: ScreenedPoint, support: Support, hessian: Hessian
) -> ScreenedPoint | None:
    """Return the first point among w + d, w + d / 2, ... that is accepted; None if there is none."""
    coords, w, slopes, local = support
    if not np.array_equal(coords, hessian.coords):
        return None
    for ridge in RIDGES_OF_HESSIAN:
        d = -solve_with_ridge(hessian.matrix, slopes, ridge)
        slope = float(slopes @ d)
        if slope < 0:
            break
    else:
        return None

    def attempt(length: float) -> ScreenedPoint | None:
        v = w + length * d
        # Weights become zero if the penalty has a kink between w and v: a sign changes, or a row reverses.
        has_turned = local.blocks.spread(local.blocks.total(w * v) <= 0) & (local.threshold > 0)
        v[has_turned | ((w * v <= 0) & (here.penalty.l1_of(coords) > 0))] = 0.0
        trial = accepted(objective, here, coords, v, -length * slope)
        if trial is None and is_hidden(-length * slope, here.value):
            raise HiddenDecrease
        return trial

    found = backtracking(attempt, 1.0, 0.5)
    return None if isinstance(found, Status) else found.outcome


def newton_operations(objective: Objective, n: int) -> float:
    """Return the number of multiplications for H of `n` weights and for its factorisation."""
    n_edges = min(n, objective.n_coords - objective.n_node_coords)
    return float(n**3 + objective.n_positions * (n**2 + EDGE_PAIR_OPERATIONS * n_edges**2))


def solve_with_ridge(hessian: NDArray[np.float64], slopes: Vector, ridge: float) -> Vector:
    """Return (H + ridge D)^-1 slopes, D the diagonal of H; 0 for coordinates without curvature."""
    diagonal = np.diagonal(hessian)
    scale = np.divide(1.0, np.sqrt(np.abs(diagonal)), out=np.zeros(slopes.size), where=diagonal > 0)
    scaled = hessian * scale[:, None] * scale
    np.fill_diagonal(scaled, 1.0 + ridge)
    return scale * np.linalg.solve(scaled, scale * slopes)


def enter_zeros(objective: Objective, here: ScreenedPoint) -> ScreenedPoint | None:
    """Take a proximal step of the zeros that may leave zero, if their largest violation exceeds that of the others."""
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
    """Return the point with the weights v at `coords` if its value is lower, or if the values differ by rounding only
    and its violation is smaller; predicted_decrease : of the step, to first order, in nats."""
    w = here.w.copy()
    w[np.searchsorted(here.coords, coords)] = v
    used = np.flatnonzero(w)
    trial = screen_point(here.penalty, objective.at(here.coords[used], w[used]), proves_bound=False)
    unseen = ROUNDINGS_OF_SUM * VALUE_ROUNDING * abs(here.value)
    if not trial.value <= here.value + unseen:
        return None
    is_lower = here.value - trial.value > max(1e-4 * predicted_decrease, unseen)
    return trial if is_lower or trial.violation <= MAX_VIOLATION_RATIO * here.violation else None


def newton_check(seen: ScreenedPoint, tol: float, max_directions: int) -> tuple[ScreenedPoint, float]:
    """Return the lowest point found from a screened one, and the decrease, relative to the objective there; infinite
    if that is 0.

    The check continues while a step decreases the objective by more than the fraction `tol` of it, or by
    `TOL_OF_NEWTON_STEPS` times that if the Krylov space is the whole space. A direction takes a pass over the data.
    """
    first = seen.value
    for _ in range(MAX_MODELS):
        factor = TOL_OF_NEWTON_STEPS if seen.coords.size <= max_directions else 1.0
        min_decrease = tol * abs(seen.value) * factor
        trial = lower_point(seen, max_directions, min_decrease)
        if trial is None:
            break
        before, seen = seen.value, trial
        if before - seen.value <= min_decrease:
            break
    return seen, (first - seen.value) / abs(seen.value) if seen.value != 0 else np.inf


def lower_point(seen: ScreenedPoint, max_directions: int, min_decrease: float) -> ScreenedPoint | None:
    """Return the lowest point among the minima of the damped model, screened; None if they predict a decrease below
    `min_decrease`, in nats, or none is lower."""
    here = seen.restricted_to((seen.w != 0) | seen.penalty.is_smooth(seen.coords))
    if here.coords.size == 0:
        return None
    slopes = here.g + here.local.gradient(here.w)
    basis, model = krylov_model(here, slopes, max_directions)
    if model.size == 0:
        return None
    roots, turn = np.linalg.eigh(model)
    c, best = turn.T @ (basis @ slopes), None
    lowest = seen.value
    for ridge in LEVENBERG_SHIFTS * max(float(roots[-1]), 0.0):
        lifted = np.maximum(roots, 0.0) + ridge
        if not lifted.all():
            continue  # without curvature there is no minimum
        predicted = float(c @ (c / lifted)) - 0.5 * float(roots @ (c / lifted) ** 2)
        if predicted > abs(seen.value):
            continue  # more than the objective has: the step is bounded only by kinks, which are not in the model
        if predicted <= max(min_decrease, seen.value - lowest):
            break
        trial = here.way_to(here.w - basis.T @ (turn @ (c / lifted))).at(1.0)
        value = trial.value + seen.penalty.value(trial.coords, trial.weights)
        if value < lowest:
            best, lowest = trial, value
    return None if best is None else screen_point(seen.penalty, best)


def krylov_model(here: ScreenedPoint, slopes: Vector, max_directions: int) -> tuple[Vector, Vector]:
    """Return a basis V (k, n) of the Krylov space, orthonormal by the diagonal D of curvature, and V H V' (k, k)."""
    diagonal = curvature_at_entry(here.point, here.coords) + here.penalty.l2
    diagonal[diagonal == 0] = 1.0
    short = DIFFERENCE_LENGTH * np.sqrt(abs(here.value))
    basis, images = np.empty((0, slopes.size)), np.empty((0, slopes.size))
    following = slopes / diagonal
    for _ in range(min(max_directions, slopes.size)):
        size = np.sqrt(float(following @ (diagonal * following)))
        for _ in range(2):  # twice, because of rounding
            following = following - basis.T @ (basis @ (diagonal * following))
        left = np.sqrt(float(following @ (diagonal * following)))
        if not left > MAX_DEPENDENCE * size:
            break
        v = following / left
        g = here.way_to(here.w + short * v).at(1.0).gradient(here.coords)
        image, of_penalty = (g - here.g) / short, here.local.hessian_times(here.w, v)
        image = image if of_penalty is None else image + of_penalty
        basis, images = np.vstack([basis, v]), np.vstack([images, image])
        following = image / diagonal
    model = basis @ images.T
    return basis, 0.5 * (model + model.T)
