"""Prox-QN: the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014), Algorithm 2.

An epoch opens with a full gradient scan, works on an active set that only shrinks, and ends when that set is solved
well enough; the next one takes every coordinate back. A step solves the quadratic model by coordinate descent, makes
sure that the objective falls, and adds a secant pair to the metric. `ProxQN.paper()` is the method as printed; the
default exchanges parts for others that make it an order of magnitude faster, each with its reason. "OCR" there:
handwritten words, l1 = 100, 215,358 weights.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from crfqn.solvers.memory import remembered
from crfqn.solvers.protocols import (
    Memory,
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_numbers,
    check_shares,
)
from crfqn.solvers.prox_qn.active_set import (
    AllCoordinates,
    ByLastViolation,
    ByShareOfBound,
    Shrinking,
    TopViolators,
    WorkingSetRule,
)
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.prox_qn.metric import CompactBFGS, Identity, Metric, TokenWise
from crfqn.solvers.prox_qn.step import (
    Backtracking,
    DampedResolve,
    Globalisation,
    Globalised,
    PaperSweeps,
    PricedSweeps,
    QuadraticModel,
    Search,
    Sweeps,
)
from crfqn.solvers.prox_qn.warm_start import WarmStart
from crfqn.solvers.screened_point import ScreenedPoint, point_of


@remembered
@dataclass
class EpochMemory:
    """Memory from epoch to epoch: the search, the passes before the run, and M^ of Algorithm 2, the largest violation
    an iteration before."""

    search: Search
    passes_before: float
    last_violation: float = np.inf


@dataclass
class Epoch:
    """An epoch after n steps: its active set, its metric, and when it ends."""

    active: ScreenedPoint
    metric: CompactBFGS
    end: EpochStopping
    n: int = 0

    def memory(self, run: EpochMemory) -> Memory:
        """Return what `of_memory` makes the epoch of again, and the memory of those before it."""
        own = {"metric": self.metric, "end": self.end, "n": self.n}
        return {"active": self.active.memory(), "run": run, "epoch": own}

    @classmethod
    def of_memory(cls, objective: Objective, penalty: Penalty, memory: Memory) -> Epoch:
        """Return the epoch of a memory."""
        active = ScreenedPoint.of_memory(objective, penalty, memory["active"], is_screened=False)
        return cls(active, **memory["epoch"])


@dataclass(frozen=True)
class ProxQN(Solver):
    """Settings of Prox-QN: its parts, and three numbers.

    Parameters
    ----------
    metric : Identity, Diagonal or TokenWise, which B0 is (section 2.1): gamma I in the paper
    memory : int, the secant pairs m (paper: 10)
    sweeps : PaperSweeps or PricedSweeps, how well the quadratic model is solved (line 22)
    globalisation : Backtracking or DampedResolve, what makes a step a descent (lines 31-35)
    entry : AllCoordinates or TopViolators, the coordinates that open an epoch (lines 3 and 17)
    shrinking : ByLastViolation or ByShareOfBound, the zeros that leave it (line 8)
    cooling : float
        An epoch ends when its violation has fallen to this share of the one that it opened with (lines 13 and 18; the
        paper gives no number).
    few_weights : int
        A problem of fewer weights is solved to the end in one epoch, once all that violate are active and the metric
        knows how they depend on each other: that costs milliseconds.
    warm_start : WarmStart or None, where to begin when no weights are given
    constants : Constants, of the default's parts

    Notes
    -----
    `paper()` deviates from the printed algorithm in this:

    - the loop around the solvers decides on the global stop (line 14), whenever all coordinates have been screened;
    - of more than 10 million coordinates the violating ones open an epoch, see `AllCoordinates`;
    - a pair without positive curvature is not added to the memory, and a coordinate's curvature in the model is at
      least a thousandth of gamma;
    - gamma returns to 1 when an epoch opens, as the memory does (line 17 clears S and Y only);
    - an epoch ends after a step with s'y < 0, which of a convex loss rounding alone can be;
    - a search ends after 40 trials, or where rounding hides the decrease.

    N is the number of items, though g is a sum over them: so it is printed.
    """

    metric: Metric = field(default_factory=TokenWise)
    memory: int = 10
    sweeps: Sweeps = field(default_factory=PricedSweeps)
    globalisation: Globalisation = field(default_factory=DampedResolve)
    entry: WorkingSetRule = field(default_factory=TopViolators)
    shrinking: Shrinking = field(default_factory=ByShareOfBound)
    cooling: float = 0.1
    few_weights: int = 1000
    warm_start: WarmStart | None = field(default_factory=WarmStart)
    constants: Constants = field(default_factory=Constants, repr=False)

    resumes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "memory")
        check_numbers(self, 0, "few_weights")
        check_shares(self, "cooling")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        uses_curvature = self.entry.uses_curvature or self.metric.uses_curvature
        return Requirements(("has_curvature",) if uses_curvature else ())

    @classmethod
    def paper(cls) -> ProxQN:
        """Return the method as printed; the notes above say what deviates."""
        return cls(
            metric=Identity(), sweeps=PaperSweeps(max_inner=10), globalisation=Backtracking(), entry=AllCoordinates(),
            shrinking=ByLastViolation(), few_weights=0, warm_start=None,
        )  # fmt: skip

    def steps(
        self, objective: Objective, penalty: Penalty, start: Point, memory: Memory | None = None
    ) -> Iterator[State]:
        """Yield a state for each step, and one each time all coordinates are screened."""
        point, constants, kept = start, self.constants, memory or {}
        passes_before, is_growing, epoch = objective.n_passes, False, None
        is_cold = memory is None and start.coords.size == 0
        if self.warm_start is not None and (is_cold or "warm_start" in kept):
            sampled = replace(self, warm_start=None, metric=self.metric.for_samples(constants))
            point = yield from self.warm_start.states(
                sampled, objective, penalty, start, constants, kept.get("warm_start")
            )
        if "run" in kept:
            run = kept["run"]
        else:
            search = self.globalisation.begin(self.metric, point.coords.size > 0, constants)
            run = EpochMemory(search, passes_before)  # line 3: M^ = infinity
        if "epoch" in kept:
            epoch = Epoch.of_memory(objective, penalty, kept)
        elif "opened" in kept:
            point, is_growing = point_of(objective, kept["opened"]), kept["was_growing"]
        del memory, kept
        while True:
            if epoch is None:
                # Lines 3 and 17: the gradient at all coordinates, and all of them in the working set.
                active = self.entry.open(objective, penalty, point, is_growing)
                yield active.state(
                    memory=opened(point, is_growing, run)
                )  # line 14: the loop around may return w
            else:
                active = epoch.active
            del start, point  # their scores and residuals are as large as the data: only the newest stays
            is_growing = active.is_growing
            n_steps, has_failed = yield from self.epoch(objective, active, run, epoch)
            if n_steps == 0:  # nothing moves, although every promising coordinate may
                yield active.state(is_final=True, has_failed=has_failed)
                return
            start = point = active.point
            epoch = None

    def epoch(
        self, objective: Objective, active: ScreenedPoint, run: EpochMemory, epoch: Epoch | None = None
    ) -> Generator[State, None, tuple[int, bool]]:
        """Run lines 4-42, or the rest of an epoch from its last step on; returns the number of steps made, and
        whether a search has failed."""
        if epoch is None:
            end = EpochStopping(active, self.goal(objective, active), self.constants)
            # Lines 3 and 17: S, Y, Q, Q^ are empty.
            n_passes = objective.n_passes - run.passes_before
            metric = CompactBFGS(*self.metric.base(active, self.constants, n_passes), self.memory)
            epoch = Epoch(active, metric, end)
            run.search.open_epoch(active)
        metric, end = epoch.metric, epoch.end
        while True:
            n = epoch.n
            if n > 0:
                yield active.state(is_screening=False, memory=partial(epoch.memory, run))
                if end.is_outdated:
                    return n, False
            # Lines 5-12: shrink the working set, and take M^ for the next time.
            kept = self.shrinking.shrink(active, run.last_violation, objective.n_items)
            if kept is not None:
                metric.restrict(kept)
                run.search.restrict(kept)
            run.last_violation = active.violation
            # Line 13: the shrinking stopping criterion.
            if n > 0 and end.is_reached(active):
                return n, False
            if n > 0 and n % self.metric.refresh == 0:
                if self.metric.is_measured and end.spares_metric(active):
                    return n, False
                self.metric.renew(metric, active, self.constants, objective.n_passes - run.passes_before)
            before = active.value
            step, has_failed = self.step(objective, active, metric, run.search)
            if step is None:
                return n, has_failed
            is_outdated = float(step.s @ step.y) < self.constants.outdated * step.curvature
            end.after_step(active, before - active.value, is_outdated)
            epoch.n += 1

    def step(
        self, objective: Objective, active: ScreenedPoint, metric: CompactBFGS, search: Search
    ) -> Globalised:
        """Make a step, lines 21-41."""
        if active.coords.size == 0:
            return Globalised(None, has_failed=False)
        # Line 22: inner_iter.
        of_step = objective.operations.of_pass + self.constants.overhead
        limits = self.sweeps.limits(of_step, objective.n_coords, active.coords.size)
        # Lines 21 and 23-30, the inner problem; 31-35, the line search; 36-38, g, y and s.
        model = QuadraticModel(active, metric, limits, objective.pool, objective.is_convex)
        found = search.move(active, model)
        # Lines 39-41: S, Y, Q, D, L, S'S, R and Q^ on the working set.
        if found.step is not None:
            metric.update(found.step.s, found.step.y, found.step.base_s)
        return found

    def goal(self, objective: Objective, active: ScreenedPoint) -> float:
        """Return the violation at which the epoch ends, a share of the one that it opens with (line 18)."""
        is_small = objective.n_coords < self.few_weights and self.metric.is_full
        cooling = self.constants.to_the_end if is_small and active.outside == 0 else self.cooling
        return self.entry.goal(cooling * max(active.violation, active.outside), active)


def opened(point: Point, was_growing: bool, run: EpochMemory) -> Callable[[], Memory]:
    """Return the memory of a state at which an epoch has opened: it is opened again."""
    kept = {"point": [point.coords, point.weights], "told": point.told}
    return lambda: {"opened": kept, "was_growing": was_growing, "run": run}


@remembered
class EpochStopping:
    """When an epoch ends: the shrinking stopping criterion (line 13), and ends before that; active : the working set
    that it opens with; goal : the violation at which it ends (line 18)."""

    def __init__(self, active: ScreenedPoint, goal: float, constants: Constants) -> None:
        self.goal, self.constants = goal, constants
        self.first_violation = active.violation
        self.solves_to_the_end = goal <= constants.to_the_end * max(active.violation, active.outside)
        self.largest_gain, self.is_exhausted, self.is_outdated = 0.0, False, False

    def after_step(self, active: ScreenedPoint, gain: float, is_outdated: bool) -> None:
        """Compare what a step has won, in nats, with the best one before; is_outdated : the metric is that of other
        weights."""
        self.is_outdated = is_outdated
        self.largest_gain = max(self.largest_gain, gain)
        self.is_exhausted = active.outside > 0 and gain < self.constants.exhausted * self.largest_gain

    def is_reached(self, active: ScreenedPoint) -> bool:
        """Return whether the set is solved well enough, or others promise more (line 13)."""
        return active.violation <= self.goal or self.is_exhausted

    def spares_metric(self, active: ScreenedPoint) -> bool:
        """Return whether to end before the metric is formed anew: all coordinates may as well be screened then."""
        return active.violation <= self.constants.progress * self.first_violation or self.solves_to_the_end
