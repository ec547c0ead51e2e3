"""The active set: the coordinates that an epoch works on, with their weights, gradient and penalty.

It opens with the non-zero weights and the most promising of the violating zeros, and only shrinks until the
epoch ends (paper, section 2.3 and Algorithm 2, lines 5-12).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.union import union
from crfqn.objectives.protocols import CurvatureView
from crfqn.solvers.certificate import best_dual_value
from crfqn.solvers.protocols import Coords, LocalPenalty, Objective, Penalty, Point, Ray, State, Vector

ROUGHNESS = 0.6  # of the sum of |residuals|: 0.1 took LSHTC1 85 passes to where this takes 30; 1.0 as many
LEAST_ROUGHNESS = 0.1  # in units of max x^2; with 1e-9, features of decided positions send weights to 1e9
SMALLEST_SHRINK = 0.1  # a restriction copies the metric: not worth it for fewer coordinates than this share


@dataclass(eq=False)
class ActiveSet:
    """A point seen through the coordinates that may move.

    Attributes
    ----------
    coords : sorted int64 (n,); w, g, unit, roughness : float64 (n,): weights, gradient of the loss, units of the
        curvature, and the curvature on the way to a fit
    local : the penalty at the coordinates
    outside : largest violation among the coordinates left out
    """

    penalty: Penalty
    point: Point
    coords: Coords
    w: Vector
    g: Vector
    outside: float = 0.0

    def __post_init__(self) -> None:
        self.local: LocalPenalty = self.penalty.at(self.coords)
        self.unit = curvature_at(self.point).feature_scale(self.coords)
        self.roughness = np.zeros(self.coords.size)
        self.penalty_value = self.local.value(self.w)

    @property
    def value(self) -> float:
        """The objective at the point, penalty included."""
        return self.point.value + self.penalty_value

    @property
    def violation(self) -> float:
        """The largest KKT violation within the set."""
        return self.local.largest_violation(self.w, self.g)

    def state(self, dual_value: float = -np.inf, is_screening: bool = False) -> State:
        """What the loop around the solver sees."""
        violation = max(self.violation, self.outside) if is_screening else self.violation
        return State(self.point, self.value, violation, self.coords.size, dual_value, is_screening)

    def measure_roughness(self) -> None:
        """Take the roughness of the present point; one sweep over the active columns."""
        self.roughness = (
            ROUGHNESS * curvature_at(self.point).majorant(self.coords) + LEAST_ROUGHNESS * self.unit
        )

    def slope(self, d: Vector) -> float:
        """Delta of the Armijo rule: g'd + penalty(w + d) - penalty(w)."""
        return float(self.g @ d) + self.local.value(self.w + d) - self.penalty_value

    def ray(self, d: Vector) -> Ray:
        """The ray along a direction."""
        moved = np.flatnonzero(d)
        return self.point.along(self.coords[moved], d[moved])

    def try_step(self, step: Vector, ray: Ray | None = None, alpha: float = 1.0) -> tuple[Point, float]:
        """The point w + step, `alpha` along the ray, and the decrease of the objective."""
        trial = (ray or self.ray(step)).at(alpha)
        change = self.local.value(self.w + step) - self.penalty_value
        return trial, self.point.value - trial.value - change

    def accept(self, step: Vector, trial: Point) -> Vector:
        """Move to `trial` = w + step; returns y, the change of the gradient."""
        before, g = self.g, trial.gradient(self.coords)
        self.point, self.w, self.g = trial, self.w + step, g
        self.penalty_value = self.local.value(self.w)
        return g - before

    def change_of_gradient(self, trial: Point) -> Vector:
        """Of the active coordinates, from here to the trial point."""
        return trial.gradient(self.coords) - self.g

    def shrink(self, margin: float | None, n_items: int) -> NDArray[np.bool_] | None:
        """Drop (blocks of) zeros that are pulled well inside the penalty's bound; returns what stays, None for all.

        `margin`: a share of the bound, or None for the paper's M / N (M the largest violation, N items).
        """
        bound = self.local.bound
        slack = margin * bound if margin is not None else self.violation / n_items
        keep = self.local.pull(self.w, self.g) > bound - slack
        if keep.mean() > 1.0 - SMALLEST_SHRINK:
            return None
        self.coords, self.w, self.g = self.coords[keep], self.w[keep], self.g[keep]
        self.local = self.penalty.at(self.coords)
        self.unit, self.roughness = self.unit[keep], self.roughness[keep]
        return keep


def curvature_at(point):
    return point.objective.view(CurvatureView).at(point)


def open_epoch(
    objective: Objective, penalty: Penalty, point: Point, max_entry: int | None
) -> tuple[ActiveSet, float]:
    """Look at all coordinates; returns the active set and the best dual value that the point proves."""
    screening = penalty.screen(point)
    dual_value = best_dual_value(point, penalty, screening)
    coords = union(screening.coords, point.coords, penalty.free)
    w, g = np.zeros(coords.size), np.zeros(coords.size)
    w[np.searchsorted(coords, point.coords)] = point.weights
    g[np.searchsorted(coords, screening.coords)] = screening.gradient
    is_inside = ~np.isin(coords, screening.coords)
    g[is_inside] = point.gradient(coords[is_inside])
    limit = coords.size if max_entry is None else max(max_entry, 2 * point.coords.size)
    if coords.size <= limit:
        return ActiveSet(penalty, point, coords, w, g), dual_value
    keep, outside = most_promising(penalty, point, coords, w, g, limit)
    return ActiveSet(penalty, point, coords[keep], w[keep], g[keep], outside), dual_value


def most_promising(
    penalty: Penalty, point: Point, coords: Coords, w: Vector, g: Vector, limit: int
) -> tuple[NDArray[np.intp], float]:
    """About `limit` coordinates, the blocks that promise the largest decrease, and the largest violation left out.

    A block alone would win violation^2 / (2 curvature). Ranking by the violation instead lets the most frequent
    features in, which are the most correlated ones.
    """
    local = penalty.at(coords)
    blocks, violation = local.blocks, local.violation(w, g)
    gain = violation**2 / blocks.spread(
        blocks.largest(curvature_at(point).diagonal(coords) + curvature_at(point).feature_scale(coords))
    )
    gain[(w != 0) | np.isin(coords, penalty.free)] = np.inf
    order = np.argsort(-blocks.largest(gain), kind="stable")
    n_before = np.cumsum(blocks.sizes[order]) - blocks.sizes[order]
    enters = np.zeros(order.size, bool)
    enters[order[n_before < limit]] = True
    keep = blocks.spread(enters)
    return np.flatnonzero(keep), float(violation[~keep].max(initial=0.0))
