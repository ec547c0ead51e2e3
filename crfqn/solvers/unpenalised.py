"""Unpenalised coordinates (intercepts) solved exactly, the other weights held: what a duality gap needs of them.

An unpenalised coordinate has the conjugate 0 at a gradient of 0 and infinity elsewhere, so that a point proves a bound
only where that gradient is zero. At min over b of loss(w, b) it is, for any w: n of them are found by Newton's method,
in the scores only, at about the price of as many inference passes as it takes steps. At zero penalised weights the
gradient then tells the largest useful strength of a penalty (`largest_strength`).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from crfqn.kernels.sparse import entries_at
from crfqn.result import Status
from crfqn.solvers.line_search import ROUNDING, HiddenDecrease, backtracking
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Vector

MOST_STEPS = 60
ARMIJO = 1e-4  # the share of the predicted decrease that a step must bring
NEGLIGIBLE_GAIN = 1e-13  # of the loss: a hoped gain that needs no further step
MOST_DENSE = 100  # coordinates with a matrix; beyond, secant pairs and the diagonal
MAX_PAIRS = 30  # secant pairs
MAX_LENGTH = 8.0  # of a step, in the coordinate's unit: a saturated intercept has hardly any curvature
LARGEST_GRADIENT = 1e300  # where gradients overflow no strength is large enough
RIDGE_OF_HESSIAN = 1e-6  # of the diagonal: a constant added to all intercepts changes nothing


def solve_unpenalised(point: Point, unpenalised: Coords) -> Point:
    """Return the point with its unpenalised coordinates (n,) at their minimum, as far as Newton's method gets.

    The Hessian is the token-wise model for up to 100 coordinates, which is exact where items have one position; for
    more it is the diagonal with secant pairs. Near the end values cannot tell two points apart, and gradients decide.
    """
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=MAX_PAIRS)
    if unpenalised.size == 0:
        return point
    g = point.gradient(unpenalised)
    for _ in range(MOST_STEPS):
        # What the loss may still win: by convexity it is g'(w - w*), which is less than this unless an optimal w*_j is
        # over ten times as far from zero as w_j. No bound rests on it (see `certificate.unpenalised_slack`).
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
        if float(d @ y) > 2.0 * ROUNDING * float(np.linalg.norm(d) * np.linalg.norm(y)):
            pairs.append((alpha * d, y))
        g = after
    return point


def unpenalised_direction(
    point: Point, unpenalised: Coords, g: Vector, pairs: deque[tuple[Vector, Vector]]
) -> Vector:
    """Return H^-1 g, no entry longer than `MAX_LENGTH` by its own curvature; without a matrix by the recursion of
    L-BFGS from the inverse of a diagonal (Nocedal and Wright, Algorithm 7.4)."""
    unit = point.objective.feature_scale(unpenalised)
    diagonal = np.maximum(point.curvature(unpenalised).diagonal, np.abs(g) * np.sqrt(unit) / MAX_LENGTH)
    diagonal[diagonal == 0] = 1.0
    is_small = unpenalised.size <= MOST_DENSE
    matrix = point.hessian_model(unpenalised, 1 << 62, MOST_DENSE) if is_small else None
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
    """Return the first of the steps 1, 1/2, 1/4, ... that wins enough, with its length and the gradient there.

    Where rounding hides what is to be won, the first that makes the slope along the direction smaller.
    """
    slope, unseen = float(g @ d), 2.0 * ROUNDING * abs(point.value)
    if not slope < 0:
        return None
    ray = point.along(unpenalised, d)

    def attempt(alpha: float) -> tuple[Point, Vector] | None:
        trial = ray.at(alpha)
        if not trial.value <= point.value + ARMIJO * alpha * slope + unseen:
            if -alpha * slope <= unseen:
                raise HiddenDecrease
            return None
        after = trial.gradient(unpenalised)
        is_flatter = np.abs(after).max() < np.abs(g).max()
        return (trial, after) if is_flatter or -alpha * slope > 10 * unseen else None

    found = backtracking(attempt, 1.0, 0.5)
    return None if isinstance(found, Status) else (found.outcome[0], found.length, found.outcome[1])


def largest_strength(name: str, objective: Objective, penalty: Penalty, point: Point) -> float:
    """Return the smallest l1 or group_l1 (`name`) of a penalty, the others given, under which no weight leaves zero.

    It is found by scans for gradients above a threshold that falls by halves; 0 where no gradient is left.
    """
    threshold = objective.total_weight
    while threshold < LARGEST_GRADIENT and point.screen(threshold).coords.size:
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
