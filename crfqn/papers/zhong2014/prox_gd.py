"""Proximal gradient descent, plain (the paper's Prox-GD) and accelerated: FISTA of Beck and Teboulle (2009).

    x+ = prox(y - t g(y), t penalty)

Prox-GD continues from y = x+; FISTA extrapolates, y = x+ + beta (x+ - x), and drops its momentum when it points uphill
(O'Donoghue and Candes 2015). A weight that is zero at y leaves zero only where the penalty's bound is exceeded: the
iterates are sparse, and so are all vectors here. X (x+ - x) is computed once, y is reached in score space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from crfqn.errors import InputError
from crfqn.kernels.sparse import entries_at
from crfqn.result import Status
from crfqn.solvers.line_search import VALUE_ROUNDING, unit_length
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_numbers,
    check_shares,
)
from crfqn.solvers.screened_point import ScreenedPoint, screen_point
from crfqn.solvers.sparsa import Predicted, ProximalStep, StepSize, search_proximal_step

SCREEN_EVERY = 10  # steps of FISTA between two full gradient scans of its iterate, not of the extrapolation
RESTART_RULES = ("function", "gradient", None)


@dataclass(frozen=True)
class ProxGD(Solver):
    """Settings of proximal gradient descent.

    Parameters
    ----------
    lipschitz : float, "bound" or None
        L, with the fixed step 1 / L: a bound on the largest eigenvalue of the loss's Hessian, or "bound" for the one
        of the objective, which holds at all weights and is therefore far above the eigenvalues of a run. None finds
        steps by backtracking.
    backtrack : float
        The factor by which a refused step is shortened.
    growth : float
        The factor by which an accepted step is lengthened for the next.
    """

    lipschitz: float | str | None = None
    backtrack: float = 0.5
    growth: float = 1.25

    def __post_init__(self) -> None:
        lipschitz = self.lipschitz
        is_known = lipschitz in (None, "bound")
        if not (is_known or (isinstance(lipschitz, (int, float)) and 0 < lipschitz < np.inf)):
            raise InputError(f'lipschitz: expected a finite number > 0, "bound" or None, got {lipschitz!r}')
        check_shares(self, "backtrack")
        check_numbers(self, 1, "growth")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(("is_smooth",) if self.lipschitz == "bound" else ())

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state a step; each has screened all coordinates."""
        here = screen_point(penalty, start)
        del start
        yield here.state()
        size = self.first_size(objective, here)
        while True:
            step = search_proximal_step(here, size, here.point, is_below)
            if isinstance(step, Status):
                yield here.state(end=step)
                return
            here = screen_point(penalty, step.point)
            size.lengthen()
            del step
            yield here.state(is_step=True)

    def first_size(self, objective: Objective, here: ScreenedPoint) -> StepSize:
        """Return 1 / L, or the length of a step that moves the weights by 1."""
        if self.lipschitz is None:
            length = unit_length(here.penalty.violation(here.coords, here.w, here.g))
            return StepSize(length, False, self.backtrack, self.growth)
        is_bound = self.lipschitz == "bound"
        constant = max(objective.hessian_bound(), VALUE_ROUNDING) if is_bound else float(self.lipschitz)
        return StepSize(1.0 / constant, True, self.backtrack, self.growth, is_settled=True)


@dataclass(frozen=True)
class FISTA(ProxGD):
    """Settings of accelerated proximal gradient descent: those of `ProxGD`, and when to drop the momentum.

    A step costs two inference passes, at the extrapolation and at the iterate. Steps are lengthened at restarts only:
    within a run of momentum they must not grow.

    Parameters
    ----------
    restart : {"gradient", "function", None}
        Drop the momentum when the step and the momentum point to different sides, or when the objective has risen.
    """

    restart: str | None = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restart not in RESTART_RULES:
            raise InputError(f"restart: expected one of {RESTART_RULES}, got {self.restart!r}")

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state a step, and one each time all coordinates of an iterate are screened."""
        here = screen_point(penalty, start)  # at y, which is x without momentum
        yield here.state()
        size, x, value, momentum = self.first_size(objective, here), start, here.value, 1.0
        del start
        for n in count(1):
            step = search_proximal_step(here, size, x, is_below)
            if isinstance(step, Status) and here.point is not x:
                here, momentum = screen_point(penalty, x), 1.0
                continue
            if isinstance(step, Status):
                yield here.state(end=step)
                return
            new_value = step.point.value + penalty.value(here.coords, step.w)
            # The state at x+, as far as the coordinates that could move; the bound is that of y.
            gradient = step.point.gradient(here.coords)
            violation = here.local.largest_violation(step.w, gradient)
            yield State(step.point, new_value, violation, here.coords.size, here.dual_value)
            if n % SCREEN_EVERY == 0:
                yield screen_point(penalty, step.point).state()
            y, momentum = self.extrapolation(here, step, x, momentum, has_risen=new_value > value, size=size)
            x, value = step.point, new_value
            del step
            here = screen_point(penalty, y)

    def extrapolation(
        self,
        here: ScreenedPoint,
        step: ProximalStep,
        x: Point,
        momentum: float,
        has_risen: bool,
        size: StepSize,
    ) -> tuple[Point, float]:
        """Return y of the next step, and its momentum t_k: Beck and Teboulle's equations 4.2 and 4.3."""
        if self.restart == "gradient":
            before = entries_at(here.coords, x.coords, x.weights)
            is_uphill = float((here.w - step.w) @ (step.w - before)) > 0
        else:
            is_uphill = self.restart == "function" and has_risen
        if is_uphill or not size.is_settled:
            size.lengthen()
            return step.point, 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        return step.ray.at(1.0 + (momentum - 1.0) / following), following


def is_below(here: ScreenedPoint, trial: Point, predicted: Predicted) -> bool:
    """Return whether the loss has risen by no more than g'd + ||d||^2 / 2t. If rounding hides that, test the bound
    (g(x+) - g)'d <= ||d||^2 / 2t, which implies it by convexity and has no differences of large numbers."""
    excess = trial.value - here.point.value - predicted.bound
    if excess > predicted.rounding or not np.isfinite(excess):
        return False
    d = predicted.d
    rise = float((trial.gradient(here.coords) - here.g) @ d) if excess > -predicted.rounding else -np.inf
    return rise <= 0.5 * float(d @ d) / predicted.t
