"""A proximal gradient step and the search for its length: what Prox-GD, FISTA and SpaRSA share.

    x+ = prox(y - t g(y), t penalty)

They differ in when they take x+ for good enough, and in the length that they try first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crfqn.solvers.overview import MOST_TRIALS, ROUNDING, Overview
from crfqn.solvers.protocols import Point, Ray, Vector

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

    def shorten(self) -> None:
        """After a refused trial."""
        self.t, self.is_settled = self.t * self.backtrack, True

    def lengthen(self) -> None:
        """Where a longer step may be tried; twice as long before any trial has been refused."""
        if not self.is_fixed:
            self.t *= self.growth if self.is_settled else DOUBLE


@dataclass(frozen=True)
class Step:
    """Where a step leads: the ray to x+ (at its 1) and x+ itself, its weights at the view's coordinates."""

    ray: Ray
    point: Point
    w: Vector


class Promise(NamedTuple):
    """What a trial of length t is measured by.

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


def first_length(here: Overview) -> float:
    """The length of a step that moves the weights by 1 if it may."""
    violation = here.penalty.violation(here.coords, here.w, here.g)
    return 1.0 / max(float(np.linalg.norm(violation)), ROUNDING)


def proximal_step(
    here: Overview, size: StepSize, origin: Point, accepts: Callable[[Overview, Point, Promise], bool]
) -> tuple[Step | None, bool]:
    """The first trial that is accepted, or None; and whether there should have been one.

    `origin`: where the ray to x+ begins.
    """
    penalty, w, penalty_value = here.penalty, here.w, here.penalty.value(here.coords, here.w)
    rounding = ROUNDING * abs(here.point.value + penalty_value)
    for _ in range(MOST_TRIALS):
        x = penalty.prox(here.coords, w - size.t * here.g, size.t)
        d = x - w
        bound = float(here.g @ d) + 0.5 * float(d @ d) / size.t
        change = penalty.value(here.coords, x) - penalty_value
        if bound + change >= -TOO_SMALL * rounding:
            return None, False
        ray = here.way_to(x, origin)
        trial = ray.at(1.0)
        if size.is_fixed or accepts(here, trial, Promise(size.t, d, bound, change, rounding)):
            return Step(ray, trial, x), False
        size.shorten()
    return None, True
