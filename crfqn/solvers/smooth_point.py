"""A point of a problem without kinks: what L-BFGS and GLS share. Shapes: n coordinates, all there are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from crfqn.arrays import Screening
from crfqn.kernels.sparse import places
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, State, Vector

CURVATURE_FLOOR = 1e-3  # of the curvature, in units of max x^2


class SmoothPoint:
    """A point with the objective and its slopes at all coordinates (n,), the quadratic penalty included."""

    def __init__(
        self,
        objective: Objective,
        penalty: Penalty,
        coords: Coords,
        point: Point,
        l2: Vector | float | None = None,
    ) -> None:
        self.objective, self.penalty, self.coords, self.point = objective, penalty, coords, point
        self.w = point.weights
        if point.coords is not coords:
            self.w = np.zeros(coords.size)
            self.w[places(coords, point.coords)] = point.weights
        if l2 is None:  # a number where it is the same for all
            is_number = penalty.is_uniform and not penalty.unpenalised.size
            l2 = penalty.l2 if is_number else penalty.l2_of(coords)
        self.l2 = l2
        self.slopes = self.l2 * self.w
        self.slopes += point.gradient(coords)
        self.value = point.value + 0.5 * float(self.w @ (self.l2 * self.w))

    def curvature(self) -> Vector:
        """Return the diagonal of the Hessian, (n,): above 0 where all is decided, 1 for weights of no effect."""
        diagonal = self.point.curvature(self.coords).diagonal + self.l2
        diagonal += CURVATURE_FLOOR * self.point.objective.feature_scale(self.coords)
        diagonal[~(diagonal > 0)] = 1.0
        return diagonal

    def moved(self, direction: Vector, length: float) -> SmoothPoint:
        """Return the point w + length * direction, evaluated at all coordinates: those of features that no item has
        stay zero."""
        w = length * direction
        w += self.w
        point = self.objective.at(self.coords, w)
        return SmoothPoint(self.objective, self.penalty, self.coords, point, self.l2)

    def state(self, **kinds: Any) -> State:
        """Return the state for the loop around the solver."""
        return State(
            self.point,
            self.value,
            float(max(self.slopes.max(initial=0.0), -self.slopes.min(initial=0.0))),
            self.coords.size,
            self.dual_value(),
            is_screening=True,
            least_gap=self.least_gap,
            **kinds,
        )

    def dual_value(self) -> float:
        """Return the lower bound on the optimum that the point proves.

        Where the loss has a dual and no weight is unpenalised it is known without one: the loss and its conjugate at
        the residual add up to <scores, residual> = w'g, which leaves ||g + l2 w||^2 / (2 l2) between the bounds.
        """
        if (
            self.penalty.unpenalised.size
            or self.penalty.l2 == 0
            or not np.isfinite(self.point.dual_value(1.0))
        ):
            gradient = self.slopes - self.l2 * self.w
            return best_bound(self.point, self.penalty, Screening(self.coords, gradient)).dual_value
        return self.value - self.least_gap

    @cached_property
    def least_gap(self) -> float:
        """What the bound from this point's own mixtures leaves open, slopes^2 / (2 l2) over penalised weights."""
        if self.penalty.l2 == 0:
            return 0.0
        slopes, l2 = self.slopes, self.l2
        if isinstance(l2, np.ndarray):
            slopes, l2 = slopes[l2 > 0], l2[l2 > 0]
        return 0.5 * float(slopes @ (slopes / l2))
