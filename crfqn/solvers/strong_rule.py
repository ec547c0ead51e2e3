"""The sequential strong rule (Tibshirani et al. 2012): along a path of decreasing l1 most weights need no gradient.

If the gradient changes by no more than l1 does, |g_j(before)| < 2 l1 - l1(before) implies w_j = 0 at the new optimum.
This is a heuristic. A solver runs on the other coordinates, the candidates. Then all coordinates are screened, those
that break the rule become candidates, and the solver goes on until none does. The last scan is the first one of the
next value of l1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crfqn.kernels.sparse import union
from crfqn.solvers.protocols import (
    Coords,
    Objective,
    Penalty,
    Point,
    Requirements,
    Screening,
    Solver,
    State,
    requirements,
)
from crfqn.solvers.screened_point import ScreenedPoint, screen_point

SCAN_AGAIN = 0.5  # of the gap that was expected at the last scan: below it all coordinates are scanned again
MIN_THRESHOLD = 0.5  # of l1: with a threshold below it the candidates cost more than all coordinates


def strong_threshold(l1: float, before: float) -> float:
    """Return what |g_j| at the optimum of the l1 `before` exceeds for a candidate j; 0 if the step is too long."""
    threshold = 2.0 * l1 - before
    return threshold if threshold > MIN_THRESHOLD * l1 else 0.0


@dataclass
class StrongRule(Solver):
    """A solver on the candidates of the strong rule, which is checked; it starts from the optimum before.

    Parameters
    ----------
    solver : the method
    before : float, the larger l1 whose optimum the start is
    after : float, the smaller l1 that comes next, so that the check can find its candidates too; or 0
    tol : float, the relative gap (without certificate: the violation by l1) that is worth a check

    Attributes
    ----------
    point : where the last check was
    n_checks, n_screening_violations : int, the full gradient scans, and how many weights broke the rule
    """

    solver: Solver
    before: float
    after: float
    tol: float
    point: Point | None = None
    n_checks: int = field(default=0, init=False)
    n_screening_violations: int = field(default=0, init=False)

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return requirements(self.solver, objective, penalty)

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield the solver's steps; full gradient scans are the first state and the checks."""
        threshold = strong_threshold(penalty.l1, self.before)
        if threshold == 0.0 or not penalty.is_separable or penalty.ridge.coords.size:
            for state in self.solver.steps(objective, penalty, start):  # the rule excludes too little
                self.point = state.point
                yield state
            return
        may_enter = penalty.with_strengths(l1=threshold).screen(start).coords
        candidates = union(may_enter, start.coords, penalty.unpenalised)
        self.point, point = start, start
        initial = screen_point(penalty, start).state()
        yield initial
        # From zero, `minimize` measures violations by the first one.
        scale = penalty.min_threshold if start.coords.size else min(penalty.min_threshold, initial.violation)
        goal = self.tol
        while True:
            restricted = Restricted(penalty, candidates)
            last = yield from self.restricted_steps(objective, restricted, point, goal, scale)
            point = last.point
            checked, broken = self.check(penalty, point, candidates)
            end = last.end if last.is_final and broken.size == 0 else None
            yield checked.state(end=end)
            if end is not None:
                return
            candidates = union(candidates, broken)
            if broken.size == 0:  # the loop around asks for a smaller gap than was expected to be enough
                goal *= 0.5

    def restricted_steps(
        self, objective: Objective, penalty: Any, start: Point, goal: float, scale: float
    ) -> Generator[State, None, State]:
        """Yield steps until the restricted problem is solved to the relative gap `goal`; returns the last state."""
        value, dual_value, expected = np.inf, -np.inf, goal
        for state in self.solver.steps(objective, penalty, start):
            if state.sample_fraction < 1.0:
                yield state
                continue
            if not state.is_screening:
                yield replace(state, dual_value=-np.inf)
                # The relative gap that a full scan would find if all coordinates violated no more than the active set:
                # a sum over the items; without certificate the violation by `scale`.
                if penalty.unpenalised.size > 0:
                    gap = state.violation / scale
                else:
                    l1 = penalty.min_threshold
                    bound = state.point.dual_value(l1 / (l1 + state.violation))
                    gap = (state.value - bound) / abs(state.value)
                if gap > expected:
                    continue
                expected = SCAN_AGAIN * gap
                state = screen_point(penalty, state.point).state()
            value, dual_value = min(value, state.value), max(dual_value, state.dual_value)
            is_proved = value - dual_value <= goal * abs(value)
            is_still = penalty.unpenalised.size > 0 and state.violation <= goal * scale
            if is_proved or is_still or state.is_final:
                break
        return state

    def check(self, penalty: Penalty, point: Point, candidates: Coords) -> tuple[ScreenedPoint, Coords]:
        """Scan the full gradient; returns the screened point, and the coordinates that break the rule."""
        if self.after > 0:
            threshold = min(penalty.l1, strong_threshold(self.after, penalty.l1) or penalty.l1)
            point.screen(penalty.with_strengths(l1=threshold).min_l1)
        self.point = point
        checked = screen_point(penalty, point)
        violation = penalty.violation(checked.coords, checked.w, checked.g)
        broken = checked.coords[(violation > 0) & ~np.isin(checked.coords, candidates)]
        self.n_checks, self.n_screening_violations = (
            self.n_checks + 1,
            self.n_screening_violations + broken.size,
        )
        return checked, broken


class Restricted:
    """A penalty under which only the `candidates`, sorted, may leave zero: their gradients are a full scan. The solver
    notices nothing; what it proves holds for the problem in these weights, whose optimum may lie higher."""

    def __init__(self, whole: Penalty, candidates: Coords) -> None:
        self.whole, self.candidates = whole, candidates

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def scaled(self, factor: float) -> Restricted:
        """Return the penalty with all strengths times `factor`, of the same candidates."""
        return Restricted(self.whole.scaled(factor), self.candidates)

    def screen(self, point: Point) -> Screening:
        """Return the candidates that may leave zero: a sweep over their columns."""
        screening = Screening(self.candidates, point.gradient(self.candidates))
        bounds = np.maximum(self.whole.l1_of(self.candidates), self.whole.min_l1)
        return screening.restricted_to(np.abs(screening.gradient) > bounds)
