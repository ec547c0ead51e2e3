"""Proximal gradients with Barzilai-Borwein steps: SpaRSA of Wright, Nowak and Figueiredo (2009).

    x+ = prox(x - g / alpha, penalty / alpha),   alpha = s'r / s's

s is the last step and r the change of the gradient along it, so that alpha I is the multiple of the identity nearest
to the Hessian. A step may increase the objective: it is accepted if the objective is below the largest of the last
M + 1 values (equation 22), or below the last one (monotone).
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
from crfqn.solvers.line_search import VALUE_ROUNDING, HiddenDecrease, backtracking, is_hidden, unit_length
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

# Factor of the next trial's length until a trial is refused: the first length is a guess.
INITIAL_GROWTH = 2.0
# A search stops if the predicted decrease is below this fraction of the objective's rounding error. It is below 1 since
# steps that do not change the value still tighten the certificate.
STALL_ROUNDINGS = 1e-4


@dataclass(eq=False)
class StepSize:
    """Length t of a step, in units of weight per unit of gradient.

    is_fixed : whether every trial is accepted
    backtrack, growth : factors of the length after a refused trial, and from one step to the next
    is_settled : whether a trial has been refused, or none is ever refused
    """

    t: float
    is_fixed: bool
    backtrack: float
    growth: float
    is_settled: bool = False

    def lengthen(self) -> None:
        """Lengthen the next trial, by `INITIAL_GROWTH` until a trial has been refused."""
        if not self.is_fixed:
            self.t *= self.growth if self.is_settled else INITIAL_GROWTH


@dataclass(frozen=True)
class ProximalStep:
    """An accepted step: the ray that reaches x+ at length 1, the point x+, and its weights at the coordinates, (n,)."""

    ray: Ray
    point: Point
    w: Vector


class Predicted(NamedTuple):
    """Prediction for a trial of length t from y.

    d : x+ - y at the screened coordinates, (n,)
    bound : g'd + ||d||^2 / 2t, in nats
    change : penalty(x+) - penalty(y), in nats
    rounding : the rounding error of the objective at y, in nats
    """

    t: float
    d: Vector
    bound: float
    change: float
    rounding: float


def search_proximal_step(
    here: ScreenedPoint,
    size: StepSize,
    origin: Point,
    accepts: Callable[[ScreenedPoint, Point, Predicted], bool],
) -> ProximalStep | Status:
    """Return the first trial that is accepted, or the reason why there is none; origin : the start of the ray to x+."""
    penalty, w, penalty_value = here.penalty, here.w, here.penalty.value(here.coords, here.w)
    value = here.point.value + penalty_value

    def attempt(t: float) -> ProximalStep | None:
        size.t = t
        x = penalty.prox(here.coords, w - t * here.g, t)
        d = x - w
        bound = float(here.g @ d) + 0.5 * float(d @ d) / t
        change = penalty.value(here.coords, x) - penalty_value
        if is_hidden(-(bound + change), value, STALL_ROUNDINGS):
            raise HiddenDecrease
        ray = here.way_to(x, origin)
        trial = ray.at(1.0)
        predicted = Predicted(t, d, bound, change, VALUE_ROUNDING * abs(value))
        if size.is_fixed or accepts(here, trial, predicted):
            return ProximalStep(ray, trial, x)
        size.is_settled = True
        return None

    found = backtracking(attempt, size.t, size.backtrack)
    return found if isinstance(found, Status) else found.outcome


@dataclass(frozen=True)
class SpaRSA(Solver):
    """Settings of SpaRSA, by default those of the paper's experiments.

    Parameters
    ----------
    monotone : bool
        Whether every step must decrease the objective.
    memory : int >= 0
        M: unless `monotone`, a step must be below the largest of the last M + 1 values.
    sigma : float within (0, 1)
        The required decrease is sigma/2 alpha ||x+ - x||^2.
    factor : float > 1
        eta, the factor of alpha after a refused trial.
    least_curvature, most_curvature : float > 0
        Bounds of alpha, in nats per squared unit of weight.

    Notes
    -----
    A step takes an inference pass and a full gradient scan, a refused trial a pass. If the required decrease is below
    the rounding error, an equal value is accepted. If the measured curvature is not positive, alpha is kept.

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
        bounds = self.least_curvature, self.most_curvature
        first_length = unit_length(penalty.violation(here.coords, here.w, here.g))
        alpha = float(np.clip(1.0 / first_length, *bounds))
        while True:
            size = StepSize(1.0 / alpha, False, 1.0 / self.factor, 1.0)

            def accepts(here: ScreenedPoint, trial: Point, predicted: Predicted) -> bool:
                required = 0.5 * self.sigma * float(predicted.d @ predicted.d) / predicted.t
                value = trial.value + penalty.value(here.coords, here.w) + predicted.change
                return value <= max(values) - required + predicted.rounding

            step = search_proximal_step(here, size, here.point, accepts)
            if isinstance(step, Status):
                yield here.state(end=step)
                return
            # s'r / s's of Barzilai and Borwein (1988).
            moved = np.flatnonzero(step.w != here.w)
            s = (step.w - here.w)[moved]
            r = step.point.gradient(here.coords[moved]) - here.g[moved]
            curvature = float(s @ r) / float(s @ s)
            alpha = float(np.clip(curvature, *bounds)) if curvature > 0 else 1.0 / size.t
            here = screen_point(penalty, step.point)
            values.append(here.value)
            del step
            yield here.state(is_step=True)
