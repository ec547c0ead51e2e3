"""L-BFGS (Liu and Nocedal 1989) for smooth objectives: an L2 penalty, or none.

Without an L1 term no weight is zero, and vectors have all coordinates: about 2 m + 10 numbers for each, or m / 2 + 12
with more than a million coordinates (see `SecantPairs`). scipy's L-BFGS is not used, because it cannot be stopped
between two iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crfqn.errors import InputError
from crfqn.result import Status
from crfqn.solvers.line_search import UNRELIABLE_ROUNDINGS, VALUE_ROUNDING, strong_wolfe, unit_length
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    Vector,
    check_numbers,
)
from crfqn.solvers.prox_qn.prox_qn import OnlineStart
from crfqn.solvers.quasi_newton.secant_pairs import SecantPairs
from crfqn.solvers.smooth_point import SmoothPoint


@dataclass(frozen=True)
class LBFGS(Solver):
    """Settings of L-BFGS.

    Parameters
    ----------
    memory : int >= 1
        The number m of secant pairs; half as many are kept with more than a million weights.
    armijo, wolfe : float, 0 < armijo < wolfe < 1
        c1 and c2 of the strong Wolfe conditions.
    scaling : float from 0 to 1
        The iterates are v = c^(scaling / 2) w, c the diagonal of the Hessian at the start: 0 is the plain method, 1
        scales the diagonal to 1, which overestimates the curvature of features that occur together.
    warm_up : bool
        Whether to begin with online epochs if the data are text, as Prox-QN does (`OnlineStart`).
    """

    needs: ClassVar[Requirements] = Requirements(("has_curvature",), ("is_quadratic",))

    memory: int = 10
    armijo: float = 1e-4
    wolfe: float = 0.9
    scaling: float = 0.7
    warm_up: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "memory")
        if not 0 < self.armijo < self.wolfe < 1:
            raise InputError(
                f"armijo, wolfe: expected 0 < armijo < wolfe < 1, got {self.armijo!r} and {self.wolfe!r}"
            )
        if not 0 <= self.scaling <= 1:
            raise InputError(f"scaling: expected a number from 0 to 1, got {self.scaling!r}")

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each step, all with the full gradient."""
        coords = objective.support.coords()
        if self.warm_up and start.coords.size == 0 and OnlineStart().suits(objective, penalty):
            start = yield from OnlineStart().states(objective, penalty, start)
        here = SmoothPoint(objective, penalty, coords, start)
        del start
        unit = here.curvature() ** (-0.5 * self.scaling)  # v = w / unit
        pairs = SecantPairs(self.memory, here.coords)
        yield here.state()
        while True:
            direction = unit * pairs.times(unit * here.slopes)
            np.negative(direction, out=direction)
            if not len(pairs):
                direction *= unit_length(direction)
            decrease, unseen = -float(here.slopes @ direction), VALUE_ROUNDING * abs(here.value)
            trial = self.search(here, direction) if decrease > unseen else None
            has_failed = trial is None and decrease > UNRELIABLE_ROUNDINGS * unseen
            if has_failed and len(pairs):
                pairs = SecantPairs(self.memory, here.coords)  # try steepest descent before giving up
                continue
            if trial is None:
                yield here.state(end=Status.LINE_SEARCH_FAILED if has_failed else Status.STALLED)
                return
            del direction
            y = trial.slopes - here.slopes
            s = trial.w - here.w
            pairs.update(np.divide(s, unit, out=s), np.multiply(unit, y, out=y))
            del s, y
            here = trial
            del trial
            yield here.state(is_step=True)

    def search(self, here: SmoothPoint, direction: Vector) -> SmoothPoint | None:
        """Return a trial along the direction that fulfils the strong Wolfe conditions, or None."""
        trials: dict[float, SmoothPoint] = {}
        here.point.release()  # a trial reuses the memory of its residuals

        def at(step: float) -> tuple[float, float]:
            if step not in trials:
                trials.clear()  # each is as large as the data
                trials[step] = here.moved(direction, step)
            return trials[step].value, float(trials[step].slopes @ direction)

        step = strong_wolfe(at, (here.value, float(here.slopes @ direction)), self.armijo, self.wolfe)
        if step is None:
            return None
        at(step)
        return trials[step]
