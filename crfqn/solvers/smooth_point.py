"""A point of a smooth problem with its full gradient, for the solvers L-BFGS and GLS.

Shapes: n, the number of all coordinates.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from crfqn.arrays import Screening
from crfqn.kernels.sparse import places
from crfqn.result import Status
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, State, Vector

# Smallest curvature of a coordinate, in units of its feature's max x^2: a numerical guard, as positions whose label is
# certain have none.
CURVATURE_FLOOR = 1e-3


class SmoothPoint:
    """A point with the objective and its gradient `slopes` (n,), both with the quadratic penalty."""

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
        if l2 is None:  # a number if it is the same for all
            is_number = penalty.is_uniform and not penalty.unpenalised.size
            l2 = penalty.l2 if is_number else penalty.l2_of(coords)
        self.l2 = l2
        self.slopes = self.l2 * self.w
        self.slopes += point.gradient(coords)
        self.value = point.value + 0.5 * float(self.w @ (self.l2 * self.w))

    def curvature(self) -> Vector:
        """Return the diagonal of the Hessian plus a floor, (n,), all above 0; 1 for weights that have no effect."""
        diagonal = self.point.curvature(self.coords).diagonal + self.l2
        diagonal += CURVATURE_FLOOR * self.point.objective.feature_scale(self.coords)
        diagonal[~(diagonal > 0)] = 1.0
        return diagonal

    def moved(self, direction: Vector, length: float) -> SmoothPoint:
        """Return the point w + length * direction, with its full gradient."""
        w = length * direction
        w += self.w
        point = self.objective.at(self.coords, w)
        return SmoothPoint(self.objective, self.penalty, self.coords, point, self.l2)

    def state(self, end: Status | None = None, is_step: bool = False) -> State:
        """Return the state that a solver yields; `end`, `is_step` : as of `State`."""
        violation = float(max(self.slopes.max(initial=0.0), -self.slopes.min(initial=0.0)))
        return State(
            self.point,
            self.value,
            violation,
            self.coords.size,
            self.dual_value(),
            is_screening=True,
            end=end,
            is_step=is_step,
            least_gap=self.least_gap,
        )

    def dual_value(self) -> float:
        """Return the lower bound on the optimum that the point proves.

        If the loss has a dual and all weights are penalised, the gap is ||g + l2 w||^2 / (2 l2), because the loss and
        its conjugate at the residual add up to <scores, residual> = w'g.
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
        """The gap of the bound from this point's mixtures: the sum of slopes^2 / (2 l2) over penalised weights."""
        if self.penalty.l2 == 0:
            return 0.0
        slopes, l2 = self.slopes, self.l2
        if isinstance(l2, np.ndarray):
            slopes, l2 = slopes[l2 > 0], l2[l2 > 0]
        return 0.5 * float(slopes @ (slopes / l2))
