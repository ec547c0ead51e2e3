"""A point with its gradient at the coordinates that are not zero or may leave zero, for solvers with sparse weights.

If the penalty has a kink at zero, a zero weight whose gradient is within the threshold stays zero. A scan of the full
gradient finds all other weights, and also proves a lower bound on the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS
from crfqn.kernels.sparse import found_in, places, sorted_union
from crfqn.objectives.point import Ray
from crfqn.penalties.penalty import LocalPenalty
from crfqn.result import Status
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.protocols import Coords, Penalty, Point, Screening, State, Vector


@dataclass(eq=False)
class ScreenedPoint:
    """A point, the sorted coordinates that may move, and the weights and the loss's gradient there, all (n,).

    Attributes
    ----------
    dual_value : a lower bound on the optimum that the scan of the gradient has proved, in nats
    max_excluded_violation : largest violation among the coordinates left out
    is_growing : whether violating coordinates have been left out since the violation was last below the threshold
    """

    penalty: Penalty
    point: Point
    coords: Coords
    w: Vector
    g: Vector
    dual_value: float = -np.inf
    max_excluded_violation: float = 0.0
    is_growing: bool = False

    @cached_property
    def local(self) -> LocalPenalty:
        """The penalty at the coordinates."""
        return self.penalty.at(self.coords)

    @cached_property
    def penalty_value(self) -> float:
        """The penalty of the weights, in nats."""
        return self.local.value(self.w)

    @property
    def value(self) -> float:
        """The objective at the point, penalty included."""
        return self.point.value + self.penalty_value

    @cached_property
    def violation(self) -> float:
        """The largest KKT violation among the coordinates (M of Algorithm 2 of Zhong et al.)."""
        return self.local.largest_violation(self.w, self.g)

    def state(self, is_screening: bool = True, end: Status | None = None, is_step: bool = False) -> State:
        """Return the state of a full gradient scan, or of a step within the coordinates; `end`, `is_step` : as of
        `State`."""
        violation = max(self.violation, self.max_excluded_violation) if is_screening else self.violation
        dual_value = self.dual_value if is_screening else -np.inf
        return State(
            self.point,
            self.value,
            violation,
            self.coords.size,
            dual_value,
            is_screening=is_screening,
            end=end,
            is_step=is_step,
        )

    def restricted_to(self, keep: NDArray[np.bool_]) -> ScreenedPoint:
        """Return the point with the coordinates of a mask, (n,)."""
        if keep.all():
            return self
        return replace(self, coords=self.coords[keep], w=self.w[keep], g=self.g[keep])

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Keep the coordinates of a mask, (n,), in place."""
        self.coords, self.w, self.g = self.coords[keep], self.w[keep], self.g[keep]
        self.local = self.penalty.at(self.coords)
        self.violation = self.local.largest_violation(self.w, self.g)

    def way_to(self, w: Vector, origin: Point | None = None) -> Ray:
        """Return the ray that reaches the weights `w` at length 1, from the point or another `origin`."""
        start = origin or self.point
        coords, (before, after) = aligned((start.coords, start.weights), (self.coords, w))
        moved = np.flatnonzero(before != after)
        return start.along(coords[moved], (after - before)[moved])

    def ray(self, d: Vector) -> Ray:
        """Return the ray along a direction."""
        moved = np.flatnonzero(d)
        return self.point.along(self.coords[moved], d[moved])

    def decrease(self, step: Vector, trial: Point) -> float:
        """Return the decrease of the objective from here to `trial` = w + step."""
        return self.point.value - trial.value - (self.local.value(self.w + step) - self.penalty_value)

    def accept(self, step: Vector, trial: Point) -> Vector:
        """Move to `trial` = w + step; return y, the change of the gradient."""
        before, g = self.g, trial.gradient(self.coords)
        self.point, self.w, self.g = trial, self.w + step, g
        self.penalty_value = self.local.value(self.w)
        self.violation = self.local.largest_violation(self.w, g)
        return g - before


def screen_point(
    penalty: Penalty, point: Point, also: Coords = NO_COORDS, proves_bound: bool = True
) -> ScreenedPoint:
    """Scan the full gradient.

    also : sorted coordinates to include, even if they stay zero
    proves_bound : whether to compute the lower bound that the scan proves
    """
    screening = penalty.screen(point)
    bound = best_bound(point, penalty, screening).dual_value if proves_bound else -np.inf
    return ScreenedPoint(penalty, point, *may_move(penalty, point, screening, also), bound)


def may_move(
    penalty: Penalty, point: Point, screening: Screening, also: Coords = NO_COORDS
) -> tuple[Coords, Vector, Vector]:
    """Return all coordinates that may leave zero, or are not zero, and the weights and the gradient there; screening :
    the result of `penalty.screen` at the point."""
    coords, g = screening.coords, screening.gradient
    asked = sorted_union(point.coords, penalty.unpenalised, also)
    missing = asked[~found_in(coords, asked)[1]]
    if missing.size:
        coords, (g, more_g) = aligned((coords, g), (missing, point.gradient(missing)))
        g += more_g
    w = np.zeros(coords.size)
    w[places(coords, point.coords)] = point.weights
    return coords, w, g


def curvature_at_entry(point: Point, coords: Coords) -> Vector:
    """Return the curvature that predicts the decrease of coordinates that may enter the working set, (n,)."""
    return point.curvature(coords).diagonal + point.objective.feature_scale(coords)


def aligned(*vectors: tuple[Coords, Vector]) -> tuple[Coords, list[Vector]]:
    """Return the union of sparse vectors' sorted coordinates, and each vector there, filled with zeros."""
    everything = sorted_union(*(coords for coords, _ in vectors))
    aligned_values = []
    for coords, values in vectors:
        full = np.zeros(everything.size)
        full[places(everything, coords)] = values
        aligned_values.append(full)
    return everything, aligned_values
