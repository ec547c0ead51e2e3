"""Proximal gradients with Barzilai-Borwein steps: SpaRSA of Wright, Nowak and Figueiredo (2009).

    x+ = prox(x - g / alpha, penalty / alpha),   alpha = s'r / s's

where s is the last step and r the change of the gradient along it: alpha I is the multiple of the identity nearest to
the Hessian there. Such steps are long, and the objective need not decrease at every one: it stays below the largest of
the last values (equation 22), or below the last one (monotone).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crfqn.errors import InputError
from crfqn.objectives.point import Ray
from crfqn.result import Status
from crfqn.solvers.line_search import ROUNDING, HiddenDecrease, backtracking, is_hidden, unit_length
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Solver,
    State,
    Vector,
    check_integers,
    check_shares,
)
from crfqn.solvers.screened_point import ScreenedPoint, screen_point

DOUBLE = 2.0  # until a first trial fails: the first step is a guess
TOO_SMALL = 1e-4  # of the rounding: steps that the objective cannot see still bring the certificate nearer


@dataclass(eq=False)
class StepSize:
    """Length t of a step, in units of weight a unit of gradient; is_fixed : no trial is refused; is_settled : a trial
    has been refused, or never will be."""

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
class ProximalStep:
    """An accepted step: the ray to x+ (at its 1) and x+ itself, its weights at the screened coordinates."""

    ray: Ray
    point: Point
    w: Vector


class Predicted(NamedTuple):
    """Prediction for a trial of length t. d : x+ - y, at the screened coordinates; bound : g'd + ||d||^2 / 2t; change :
    penalty(x+) - penalty(y); rounding : of the objective at y."""

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
) -> ProximalStep | Status:
    """Return the first trial that is accepted, or why there is none; `origin`: where the ray to x+ begins."""
    penalty, w, penalty_value = here.penalty, here.w, here.penalty.value(here.coords, here.w)
    value = here.point.value + penalty_value

    def attempt(t: float) -> ProximalStep | None:
        size.t = t
        x = penalty.prox(here.coords, w - t * here.g, t)
        d = x - w
        bound = float(here.g @ d) + 0.5 * float(d @ d) / t
        change = penalty.value(here.coords, x) - penalty_value
        if is_hidden(-(bound + change), value, TOO_SMALL):
            raise HiddenDecrease
        ray = here.way_to(x, origin)
        trial = ray.at(1.0)
        predicted = Predicted(t, d, bound, change, ROUNDING * abs(value))
        if size.is_fixed or accepts(here, trial, predicted):
            return ProximalStep(ray, trial, x)
        size.is_settled = True
        return None

    found = backtracking(attempt, size.t, size.backtrack)
    return found if isinstance(found, Status) else found.outcome


@dataclass(frozen=True)
class SpaRSA(Solver):
    """Settings of SpaRSA; those of the paper's experiments by default.

    Parameters
    ----------
    monotone : bool
        Ask each step to lower the objective.
    memory : int
        M: otherwise a step has to stay below the largest of the last M + 1 values.
    sigma : float within (0, 1)
        By sigma/2 alpha ||x+ - x||^2 at least.
    factor : float > 1
        By which alpha grows after a refused trial (eta).
    least_curvature, most_curvature : float > 0
        Bounds of alpha, in nats a squared unit of weight.

    Notes
    -----
    A step costs an inference pass and a full gradient scan, a refused trial a pass. Where rounding hides the
    decrease that is asked for, staying level is enough; where it hides the curvature too, alpha stays as it is.

    References
    ----------
    Wright, Nowak, Figueiredo: Sparse reconstruction by separable approximation. IEEE Transactions on Signal Processing
    57(7), 2009: the algorithm "SpaRSA", equations 7 and 22; monotone: M = 0, section II-E.
    """

    monotone: bool = False
    memory: int = 5
    sigma: float = 0.01
    factor: float = 2.0
    least_curvature: float = 1e-30
    most_curvature: float = 1e30

    def __post_init__(self) -> None:
        check_integers(self, 0, "memory")
        check_shares(self, "sigma")
        if not 1 < self.factor < np.inf:
            raise InputError(f"factor: expected a finite number > 1, got {self.factor!r}")
        if not 0 < self.least_curvature <= self.most_curvature < np.inf:
            raise InputError(
                "expected 0 < least_curvature <= most_curvature < infinity, "
                f"got {self.least_curvature!r} and {self.most_curvature!r}"
            )

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state a step; each has screened all coordinates."""
        here = screen_point(penalty, start)
        del start
        yield here.state()
        values: deque[float] = deque([here.value], maxlen=1 if self.monotone else self.memory + 1)
        alpha = self.within(1.0 / first_length(here))
        while True:
            size = StepSize(1.0 / alpha, False, 1.0 / self.factor, 1.0)

            def accepts(here: ScreenedPoint, trial: Point, predicted: Predicted) -> bool:
                asked = 0.5 * self.sigma * float(predicted.d @ predicted.d) / predicted.t
                value = trial.value + penalty.value(here.coords, here.w) + predicted.change
                return value <= max(values) - asked + predicted.rounding

            step = proximal_step(here, size, here.point, accepts)
            if isinstance(step, Status):
                yield here.state(end=step)
                return
            # s'r / s's of Barzilai and Borwein (1988).
            moved = np.flatnonzero(step.w != here.w)
            s = (step.w - here.w)[moved]
            r = step.point.gradient(here.coords[moved]) - here.g[moved]
            curvature = float(s @ r) / float(s @ s)
            alpha = self.within(curvature) if curvature > 0 else 1.0 / size.t
            here = screen_point(penalty, step.point)
            values.append(here.value)
            del step
            yield here.state(is_step=True)

    def within(self, alpha: float) -> float:
        """Return alpha, or the nearer of its bounds."""
        return min(max(alpha, self.least_curvature), self.most_curvature)
