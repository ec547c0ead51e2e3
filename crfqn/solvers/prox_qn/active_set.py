"""The active set: the coordinates that an epoch works on, with their weights, gradient and penalty.

It opens with all coordinates, or with the non-zero weights and the most promising of the violating zeros, and only
shrinks until the epoch ends (paper, section 2.3 and Algorithm 2, lines 5-12).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.protocols import Coords, LocalPenalty, Penalty, Point, Ray, State, Vector


@dataclass(eq=False)
class ActiveSet:
    """A point seen through the coordinates that may move.

    Attributes
    ----------
    coords : sorted int64 (n,); w, g : float64 (n,): weights and gradient of the loss
    local : the penalty at the coordinates
    outside : largest violation among the coordinates left out
    is_growing : coordinates have waited to come in since the last epoch whose optimum was near
    """

    penalty: Penalty
    point: Point
    coords: Coords
    w: Vector
    g: Vector
    outside: float = 0.0
    is_growing: bool = False

    def __post_init__(self) -> None:
        self.local: LocalPenalty = self.penalty.at(self.coords)
        self.penalty_value = self.local.value(self.w)

    @property
    def value(self) -> float:
        """The objective at the point, penalty included."""
        return self.point.value + self.penalty_value

    @property
    def violation(self) -> float:
        """The largest KKT violation within the set (M of Algorithm 2)."""
        return self.local.largest_violation(self.w, self.g)

    def state(self, dual_value: float = -np.inf, is_screening: bool = False) -> State:
        """Return what the loop around the solver sees."""
        violation = max(self.violation, self.outside) if is_screening else self.violation
        return State(self.point, self.value, violation, self.coords.size, dual_value, is_screening)

    def slope(self, d: Vector) -> float:
        """Return Delta of the Armijo rule: g'd + penalty(w + d) - penalty(w)."""
        return float(self.g @ d) + self.local.value(self.w + d) - self.penalty_value

    def ray(self, d: Vector) -> Ray:
        """Return the ray along a direction."""
        moved = np.flatnonzero(d)
        return self.point.along(self.coords[moved], d[moved])

    def try_step(self, step: Vector, ray: Ray, alpha: float = 1.0) -> tuple[Point, float]:
        """Evaluate the point w + step, `alpha` along the ray, and the decrease of the objective."""
        trial = ray.at(alpha)
        change = self.local.value(self.w + step) - self.penalty_value
        return trial, self.point.value - trial.value - change

    def accept(self, step: Vector, trial: Point) -> Vector:
        """Move to `trial` = w + step; returns y, the change of the gradient."""
        before, g = self.g, trial.gradient(self.coords)
        self.point, self.w, self.g = trial, self.w + step, g
        self.penalty_value = self.local.value(self.w)
        return g - before

    def change_of_gradient(self, trial: Point) -> Vector:
        """Return the change of the active coordinates' gradient from here to the trial point, (n,)."""
        return trial.gradient(self.coords) - self.g

    def shrink(self, slack: float | Vector, least: float) -> NDArray[np.bool_] | None:
        """Drop (blocks of) zeros whose dual norm is not above their threshold less the slack.

        Parameters
        ----------
        least : float, a share of the set: fewer are not worth the copy

        Returns
        -------
        What stays, bool (n,), or None for all.
        """
        keep = self.local.dual_norm(self.w, self.g) > self.local.threshold - slack
        if keep.all() or keep.mean() > 1.0 - least:
            return None
        self.coords, self.w, self.g = self.coords[keep], self.w[keep], self.g[keep]
        self.local = self.penalty.at(self.coords)
        return keep
