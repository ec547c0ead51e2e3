"""The sequential strong rule (Tibshirani et al. 2012), which excludes coordinates along a path of decreasing l1.

If the gradient changes by at most the change of l1, then |g_j(before)| < 2 l1 - l1(before) implies w_j = 0 at the new
optimum. This is a heuristic: the solver runs on the other coordinates, the candidates; then all coordinates are
screened, those that violate the rule become candidates, and the solver continues until there are none. The last scan
is the first one for the next value of l1.
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

# All coordinates are scanned if the expected gap is below this fraction of that at the last scan.
SCAN_FRACTION = 0.5
MIN_THRESHOLD = 0.5  # fraction of l1: with a smaller threshold almost all coordinates are candidates


def strong_threshold(l1: float, before: float) -> float:
    """Return the threshold of |g_j| at the optimum for the l1 `before` that candidates exceed; 0 for no exclusion."""
    threshold = 2.0 * l1 - before
    return threshold if threshold > MIN_THRESHOLD * l1 else 0.0


@dataclass
class StrongRule(Solver):
    """A solver on the candidates of the strong rule, with checks of the excluded coordinates.

    Parameters
    ----------
    solver : the solver
    before : float, the larger l1, whose optimum is the start
    after : float, the next smaller l1, whose candidates the check finds too; 0 for none
    tol : float, the relative gap at which all coordinates are checked; without a gap the violation, in units of l1

    Attributes
    ----------
    point : the point of the last check
    n_checks, n_screening_violations : int, the number of full gradient scans, and of weights that violated the rule
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
        """Yield the states of the solver; the first one and those of the checks have full gradient scans."""
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
        # If a run starts from zero, `minimize` measures violations by the first one.
        scale = penalty.min_threshold if start.coords.size else min(penalty.min_threshold, initial.violation)
        goal = self.tol
        while True:
            restricted = RestrictedPenalty(penalty, candidates)
            last = yield from self.restricted_steps(objective, restricted, point, goal, scale)
            point = last.point
            checked, violating = self.check(penalty, point, candidates)
            end = last.end if last.is_final and violating.size == 0 else None
            yield checked.state(end=end)
            if end is not None:
                return
            candidates = union(candidates, violating)
            if violating.size == 0:  # the gap of the whole problem is larger than expected
                goal *= 0.5

    def restricted_steps(
        self, objective: Objective, penalty: Any, start: Point, goal: float, scale: float
    ) -> Generator[State, None, State]:
        """Yield states until the restricted problem is solved to the relative gap `goal`; return the last state."""
        value, dual_value, expected = np.inf, -np.inf, goal
        for state in self.solver.steps(objective, penalty, start):
            if state.sample_fraction < 1.0:
                yield state
                continue
            if not state.is_screening:
                yield replace(state, dual_value=-np.inf)
                # The relative gap of a full scan if the violation of all coordinates is that of the active set; without
                # a gap the violation in units of `scale`.
                if penalty.unpenalised.size > 0:
                    gap = state.violation / scale
                else:
                    l1 = penalty.min_threshold
                    bound = state.point.dual_value(l1 / (l1 + state.violation))
                    gap = (state.value - bound) / abs(state.value)
                if gap > expected:
                    continue
                expected = SCAN_FRACTION * gap
                state = screen_point(penalty, state.point).state()
            value, dual_value = min(value, state.value), max(dual_value, state.dual_value)
            is_proved = value - dual_value <= goal * abs(value)
            is_still = penalty.unpenalised.size > 0 and state.violation <= goal * scale
            if is_proved or is_still or state.is_final:
                break
        return state

    def check(self, penalty: Penalty, point: Point, candidates: Coords) -> tuple[ScreenedPoint, Coords]:
        """Scan the full gradient; return the screened point, and the coordinates that violate the rule."""
        if self.after > 0:
            threshold = min(penalty.l1, strong_threshold(self.after, penalty.l1) or penalty.l1)
            point.screen(penalty.with_strengths(l1=threshold).min_l1)
        self.point = point
        checked = screen_point(penalty, point)
        violation = penalty.violation(checked.coords, checked.w, checked.g)
        violating = checked.coords[(violation > 0) & ~np.isin(checked.coords, candidates)]
        self.n_checks += 1
        self.n_screening_violations += violating.size
        return checked, violating


@dataclass(frozen=True, eq=False)
class RestrictedPenalty:
    """A penalty under which only the sorted coordinates `candidates` may leave zero. A solver needs no change; its
    bounds are those of the problem in these weights, whose optimum may be higher."""

    whole: Penalty
    candidates: Coords

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def scaled(self, factor: float) -> RestrictedPenalty:
        """Return the penalty with all strengths times `factor`, of the same candidates."""
        return RestrictedPenalty(self.whole.scaled(factor), self.candidates)

    def screen(self, point: Point) -> Screening:
        """Return the candidates that may leave zero, in a sweep over their columns."""
        screening = Screening(self.candidates, point.gradient(self.candidates))
        bounds = np.maximum(self.whole.l1_of(self.candidates), self.whole.min_l1)
        return screening.restricted_to(np.abs(screening.gradient) > bounds)
