"""A problem in some of its weights only: a full gradient scan is then one of those.

The solver on it notices nothing. What it proves holds for the restricted problem, whose optimum may lie higher.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from crfqn.solvers.protocols import Coords, Objective, Point, Ray, Screening, State, Vector


class Restricted:
    """An objective in the `candidates` (sorted coordinates) only, or in all of them (None).

    Penalties on rows screen whole rows, which are not restricted.
    """

    def __init__(self, whole: Objective, candidates: Coords | None) -> None:
        self.whole, self.candidates = whole, candidates

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @property
    def n_passes(self) -> float:
        return self.whole.n_passes

    @n_passes.setter
    def n_passes(self, n_passes: float) -> None:
        self.whole.n_passes = n_passes

    def sample(self, stride: int) -> Restricted:
        """Return the same candidates over every stride-th item."""
        return Restricted(self.whole.sample(stride), self.candidates)

    def at(self, coords: Coords, weights: Vector) -> RestrictedPoint:
        """Evaluate at sparse weights."""
        return RestrictedPoint(self, self.whole.at(coords, weights))


class RestrictedPoint:
    """A point that shows the candidates only where it is asked for all coordinates."""

    def __init__(self, objective: Restricted, whole: Point) -> None:
        self.objective, self.whole = objective, whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def screen(self, threshold: float) -> Screening:
        """Return the candidates with |gradient| > threshold: a sweep over their columns."""
        candidates = self.objective.candidates
        if candidates is None:
            return self.whole.screen(threshold)
        return Screening(candidates, self.whole.gradient(candidates)).above(threshold)

    def along(self, coords: Coords, direction: Vector) -> RestrictedRay:
        """Return the ray w + step * direction."""
        return RestrictedRay(self.objective, self.whole.along(coords, direction))


@dataclass(eq=False)
class RestrictedRay:
    """A ray to restricted points."""

    objective: Restricted
    whole: Ray

    def at(self, step: float) -> RestrictedPoint:
        """Return the point w + step * direction."""
        return RestrictedPoint(self.objective, self.whole.at(step))


def as_whole(state: State, **changes: Any) -> State:
    """Return a restricted problem's state with the point of the whole problem."""
    return replace(state, point=getattr(state.point, "whole", state.point), **changes)
