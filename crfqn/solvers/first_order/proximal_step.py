"""A proximal gradient step and the search for its length: what Prox-GD, FISTA and SpaRSA share.

    x+ = prox(y - t g(y), t penalty)

They differ in when they take x+ for good enough, and in the length that they try first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from crfqn.solvers.line_search import ROUNDING, Trial, backtracking, is_hidden, unit_length
from crfqn.solvers.protocols import Point, Ray, Vector
from crfqn.solvers.screened_point import ScreenedPoint

DOUBLE = 2.0  # until a first trial fails: the first step is a guess
TOO_SMALL = (
    1e-4  # of the rounding: many steps that the objective cannot see still bring the certificate nearer
)


@dataclass(eq=False)
class StepSize:
    """t, in units of weight a unit of gradient; fixed, or found by trial.

    Attributes
    ----------
    is_fixed : no trial is refused
    is_settled : a trial has been refused, or never will be
    """

    t: float
    is_fixed: bool
    backtrack: float
    growth: float

    def __post_init__(self) -> None:
        self.is_settled = self.is_fixed

    def lengthen(self) -> None:
        """Lengthen the next trial; twice as long before any has been refused."""
        if not self.is_fixed:
            self.t *= self.growth if self.is_settled else DOUBLE


@dataclass(frozen=True)
class Step:
    """An accepted step: the ray to x+ (at its 1) and x+ itself, its weights at the screened coordinates."""

    ray: Ray
    point: Point
    w: Vector


class Predicted(NamedTuple):
    """Prediction that a trial of length t is measured by.

    Attributes
    ----------
    d : x+ - y, at the view's coordinates
    bound : g'd + ||d||^2 / 2t; change : penalty(x+) - penalty(y)
    rounding : of the objective at y
    """

    t: float
    d: Vector
    bound: float
    change: float
    rounding: float


def first_length(here: ScreenedPoint) -> float:
    """Return the length of a step that moves the weights by 1 if it may."""
    return unit_length(here.penalty.violation(here.coords, here.w, here.g))


def proximal_step(
    here: ScreenedPoint,
    size: StepSize,
    origin: Point,
    accepts: Callable[[ScreenedPoint, Point, Predicted], bool],
) -> tuple[Step | None, bool]:
    """Return the first trial that is accepted, or None; and whether there should have been one.

    `origin`: where the ray to x+ begins.
    """
    penalty, w, penalty_value = here.penalty, here.w, here.penalty.value(here.coords, here.w)
    value = here.point.value + penalty_value

    def attempt(t: float) -> Trial[Step] | None:
        size.t = t
        x = penalty.prox(here.coords, w - t * here.g, t)
        d = x - w
        bound = float(here.g @ d) + 0.5 * float(d @ d) / t
        change = penalty.value(here.coords, x) - penalty_value
        if is_hidden(-(bound + change), value, TOO_SMALL):
            return None
        ray = here.way_to(x, origin)
        trial = ray.at(1.0)
        predicted = Predicted(t, d, bound, change, ROUNDING * abs(value))
        is_accepted = size.is_fixed or accepts(here, trial, predicted)
        if not is_accepted:
            size.is_settled = True
        return Trial(Step(ray, trial, x), is_accepted)

    found = backtracking(attempt, size.t, size.backtrack)
    return found.outcome, found.has_failed
