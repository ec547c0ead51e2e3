"""A point seen through every coordinate that is not zero or may leave zero: what first-order methods work on.

Where the penalty has a kink, a zero weight whose gradient stays within it cannot move; all the others are found by one
scan of the full gradient, which also proves a lower bound on the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS
from crfqn.kernels.sparse import found_in, union
from crfqn.solvers.certificate import best_dual_value
from crfqn.solvers.protocols import Coords, Penalty, Point, Ray, Screening, State, Vector


@dataclass(frozen=True, eq=False)
class ScreenedPoint:
    """A point, the coordinates that may move, sorted, and the weights and the loss's gradient there, all (n,)."""

    penalty: Penalty
    point: Point
    coords: Coords
    w: Vector
    g: Vector
    dual_value: float

    @property
    def value(self) -> float:
        """The objective at the point, penalty included."""
        return self.point.value + self.penalty.value(self.point.coords, self.point.weights)

    def state(self, **kinds: Any) -> State:
        """Return the state of a full gradient scan."""
        return State(
            self.point,
            self.value,
            self.penalty.at(self.coords).largest_violation(self.w, self.g),
            self.coords.size,
            self.dual_value,
            is_screening=True,
            **kinds,
        )

    def only(self, keep: NDArray[np.bool_]) -> ScreenedPoint:
        """Return the view through fewer coordinates."""
        if keep.all():
            return self
        return replace(self, coords=self.coords[keep], w=self.w[keep], g=self.g[keep])

    def way_to(self, w: Vector, origin: Point | None = None) -> Ray:
        """Return the ray that has the weights `w` at its step 1, from the point or another `origin`."""
        start = origin or self.point
        coords, (before, after) = aligned((start.coords, start.weights), (self.coords, w))
        moved = np.flatnonzero(before != after)
        return start.along(coords[moved], (after - before)[moved])


def screen_point(penalty: Penalty, point: Point, also: Coords = NO_COORDS) -> ScreenedPoint:
    """Scan the full gradient; `also`: sorted coordinates to take in, whether they may move or not."""
    screening = penalty.screen(point)
    bound = best_dual_value(point, penalty, screening)
    return ScreenedPoint(penalty, point, *may_move(penalty, point, screening, also), bound)


def may_move(
    penalty: Penalty, point: Point, screening: Screening, also: Coords = NO_COORDS
) -> tuple[Coords, Vector, Vector]:
    """Return all coordinates that may leave zero, or are not zero, and the weights and the gradient there.

    screening : what `penalty.screen` has found at the point
    """
    coords, g = screening.coords, screening.gradient
    more = union(penalty.unpenalised, also)
    asked = union(point.coords, more) if more.size else point.coords
    place, is_there = found_in(coords, asked)
    rest = asked[~is_there]
    if rest.size:
        coords, (g, more_g) = aligned((coords, g), (rest, point.gradient(rest)))
        g += more_g
    w = np.zeros(coords.size)
    is_known = asked is point.coords and rest.size == 0
    w[place if is_known else np.searchsorted(coords, point.coords)] = point.weights
    return coords, w, g


def aligned(*vectors: tuple[Coords, Vector]) -> tuple[Coords, list[Vector]]:
    """Return the union of sparse vectors' sorted coordinates, and each vector there, 0 where it has no entry."""
    everything = union(*(coords for coords, _ in vectors))
    dense = []
    for coords, values in vectors:
        full = np.zeros(everything.size)
        full[np.searchsorted(everything, coords)] = values
        dense.append(full)
    return everything, dense


def entries(coords: Coords, vector: tuple[Coords, Vector]) -> Vector:
    """Return the entries of a sparse vector at sorted `coords`."""
    out = np.zeros(coords.size)
    place, is_there = found_in(vector[0], coords)
    out[is_there] = vector[1][place[is_there]]
    return out
