"""Newton's method for the unpenalised coordinates b (intercepts) at fixed penalised weights, for the duality gap.

The conjugate of an unpenalised coordinate is 0 at a gradient of 0 and infinite elsewhere, so that a point proves a
bound only if that gradient is 0, as at min_b loss(w, b). A step takes about an inference pass. If all penalised
weights are 0, the gradient at the minimum gives the largest useful strength of a penalty (`largest_strength`).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from crfqn.kernels.sparse import entries_at
from crfqn.result import Status
from crfqn.solvers.line_search import VALUE_ROUNDING, HiddenDecrease, backtracking
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Vector

MAX_NEWTON_STEPS = 60  # a guard against runs without end; rounding or convergence stops them earlier
ARMIJO_FRACTION = 1e-4  # fraction of the predicted decrease that a step must reach (c1 of Nocedal and Wright)
NEGLIGIBLE_GAIN = 1e-13  # fraction of the loss; steps stop if they can gain no more: a numerical guard
# Coordinates up to which the Hessian is a matrix; above, secant pairs and the diagonal.
MAX_HESSIAN_SIZE = 100
MAX_PAIRS = 30  # secant pairs
# Length of a step in units of 1 / max |x|: a saturated intercept has almost no curvature. A numerical guard.
MAX_LENGTH = 8.0
MAX_GRADIENT = 1e300  # if gradients overflow, no strength is large enough
# Fraction of the diagonal: adding a constant to all intercepts of a model changes nothing, so the Hessian is singular.
RIDGE_OF_HESSIAN = 1e-6


def solve_unpenalised(point: Point, unpenalised: Coords) -> Point:
    """Return the point with its unpenalised coordinates (n,) minimised by Newton's method.

    The Hessian of up to `MAX_HESSIAN_SIZE` coordinates is the token-wise model, which is exact if items have one
    position; that of more is the diagonal with secant pairs. Near the minimum, where values differ by rounding only, a
    step is accepted if it decreases the gradient.
    """
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=MAX_PAIRS)
    if unpenalised.size == 0:
        return point
    g = point.gradient(unpenalised)
    for _ in range(MAX_NEWTON_STEPS):
        # By convexity g'(w - w*) bounds the decrease of the loss; it is below this unless an optimal |w*_j| is over
        # ten times 1 + |w_j|. No bound depends on it (see `certificate.unpenalised_slack`).
        w = entries_at(unpenalised, point.coords, point.weights)
        if 10.0 * float(np.abs(g) @ (1.0 + np.abs(w))) <= NEGLIGIBLE_GAIN * abs(point.value):
            break
        d = -unpenalised_direction(point, unpenalised, g, pairs)
        step = search_unpenalised(point, unpenalised, g, d)
        if step is None and pairs:
            pairs.clear()
            continue
        if step is None:
            break
        point, alpha, after = step
        y = after - g
        if float(d @ y) > 2.0 * VALUE_ROUNDING * float(np.linalg.norm(d) * np.linalg.norm(y)):
            pairs.append((alpha * d, y))
        g = after
    return point


def unpenalised_direction(
    point: Point, unpenalised: Coords, g: Vector, pairs: deque[tuple[Vector, Vector]]
) -> Vector:
    """Return H^-1 g, whose diagonal is raised so that no entry exceeds `MAX_LENGTH`; without a matrix by the recursion
    of L-BFGS from the inverse of the diagonal (Nocedal and Wright, Algorithm 7.4)."""
    unit = point.objective.feature_scale(unpenalised)
    diagonal = np.maximum(point.curvature(unpenalised).diagonal, np.abs(g) * np.sqrt(unit) / MAX_LENGTH)
    diagonal[diagonal == 0] = 1.0
    is_small = unpenalised.size <= MAX_HESSIAN_SIZE
    matrix = point.hessian_model(unpenalised, 1 << 62, MAX_HESSIAN_SIZE) if is_small else None
    if matrix is None:
        out, shares = g.copy(), []
        for s, y in reversed(pairs):
            shares.append(float(s @ out) / float(s @ y))
            out -= shares[-1] * y
        out /= diagonal
        for (s, y), share in zip(pairs, reversed(shares), strict=True):
            out += (share - float(y @ out) / float(s @ y)) * s
        return out
    hessian = np.array(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), np.float64)
    scale = 1.0 / np.sqrt(diagonal)
    hessian *= scale[:, None] * scale
    hessian[np.diag_indices_from(hessian)] = 1.0 + RIDGE_OF_HESSIAN
    return scale * np.linalg.lstsq(hessian, scale * g, rcond=RIDGE_OF_HESSIAN)[0]


def search_unpenalised(
    point: Point, unpenalised: Coords, g: Vector, d: Vector
) -> tuple[Point, float, Vector] | None:
    """Return the first of the steps 1, 1/2, 1/4, ... that decreases the loss enough, its length and its gradient.

    If the predicted decrease is near the rounding error, the step must also decrease the largest gradient.
    """
    slope, unseen = float(g @ d), 2.0 * VALUE_ROUNDING * abs(point.value)
    if not slope < 0:
        return None
    ray = point.along(unpenalised, d)

    def attempt(alpha: float) -> tuple[Point, Vector] | None:
        trial = ray.at(alpha)
        if not trial.value <= point.value + ARMIJO_FRACTION * alpha * slope + unseen:
            if -alpha * slope <= unseen:
                raise HiddenDecrease
            return None
        after = trial.gradient(unpenalised)
        is_flatter = np.abs(after).max() < np.abs(g).max()
        return (trial, after) if is_flatter or -alpha * slope > 10 * unseen else None

    found = backtracking(attempt, 1.0, 0.5)
    return None if isinstance(found, Status) else (found.outcome[0], found.length, found.outcome[1])


def largest_strength(name: str, objective: Objective, penalty: Penalty, point: Point) -> float:
    """Return the smallest l1 or group_l1 (`name`), the other strengths fixed, under which no weight leaves zero.

    The gradient is scanned for entries above a threshold that is halved until there are some; 0 if all are 0.
    """
    threshold = objective.total_weight
    while threshold < MAX_GRADIENT and point.screen(threshold).coords.size:
        threshold *= 4.0
    lowest = 1e-12 * threshold
    while threshold > lowest:
        threshold /= 2.0
        under = penalty.with_strengths(**{name: threshold})
        screening = point.screen(under.min_l1) if name == "l1" else under.screen(point)
        strengths = penalty.strengths_at(name, screening.coords, screening.gradient)
        largest = float(strengths.max(initial=0.0))
        if largest > threshold:
            return largest
    return 0.0
