"""Prox-QN: the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014), Algorithm 2.

An epoch opens with a look at all coordinates, works on an active set that only shrinks, and ends when that set is
solved well enough; the next one takes every coordinate back. A step solves the quadratic model by coordinate
descent, searches along the direction in score space, and adds a secant pair to the metric.

`ProxQN.paper()` is the method as printed. The defaults make it an order of magnitude faster; each of them is a
setting with its measured reason. "OCR" below: handwritten words, l1 = 100, 215,358 weights.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count

import numpy as np

from crfqn.errors import InputError
from crfqn.objectives.protocols import CurvatureView
from crfqn.solvers.active_set import ActiveSet, curvature_at, open_epoch
from crfqn.solvers.compact_bfgs import NO_MATRIX, CompactBFGS, add_to_diagonal
from crfqn.solvers.damping import WARM_CAUTION, Damping, Trial
from crfqn.solvers.protocols import Matrix, Objective, Penalty, Point, Requirements, State, Vector
from crfqn.solvers.warm_up import WARM_UP, Stage, warm_start

METRICS = ("token-wise", "diagonal", "identity")
MOST_TRIALS = 20
TINY, TO_THE_END = 1000, 1e-9
PROGRESS = 0.5
EXHAUSTED = 0.1  # of an epoch's largest gain: where others wait to come in, a step that wins less ends it
ROUGH = 0.25  # of the positions of a sparse metric while the active set grows: LSHTC1 takes two thirds of the time
WARM_POSITIONS = 600  # of a metric in the warm-up; 1,500 took as many passes afterwards
FLOOR = 1e-3  # of the curvature, in units of max x^2: where every position is decided there is none
ROUNDING = 4 * np.finfo(float).eps  # a predicted decrease below this share of the objective cannot be seen


class Outcome(Enum):
    """How a step went."""

    MOVED = "w has moved"
    AT_REST = "the model's minimum is here, or rounding hides its decrease"
    FAILED = "no trial decreased the objective enough"


@dataclass(frozen=True)
class ProxQN:
    """Settings of Prox-QN.

    Parameters
    ----------
    metric : {"token-wise", "diagonal", "identity"}
        B0. "identity" is the paper's gamma I. "diagonal" takes the curvature from the marginals. "token-wise" is
        the Hessian without the covariance between positions, formed from a sample of the positions: on OCR 14
        passes to a relative objective of 1e-3 against 150 with the diagonal.
    metric_positions : int
        Positions sampled for the token-wise metric: 1,500 of 47,144 take as many passes as all on OCR, at 1/30 of
        the time that forming it takes.
    max_dense : int
        The largest active set with a dense metric (n^2 float32: 144 MB); beyond, the diagonal serves, or a sparse
        metric where few active features meet.
    refresh : int
        Steps between two token-wise metrics within an epoch: 20 to 40 were equally good, 8 cost time. An epoch that has
        halved its violation by then ends instead, and all coordinates are looked at.
    memory : int
        Secant pairs m (paper: 10).
    max_sweeps, sweep_tolerance : int, float
        Coordinate descent stops when a sweep moves less than this share of the first. On OCR 10 sweeps took 116
        passes to a gap of 1e-3 where 30 took 39, on LSHTC1 30 took 127 to 1e-4 where 60 took 102: a metric this good
        deserves to be solved. The paper has at most 10 sweeps.
    budget_sweeps : bool
        The paper's inner_iter = min(max_sweeps, floor(d / |A|)). It leaves one sweep where all coordinates are
        active: on a small problem 300 steps did not do what 50 do.
    max_entry : int or None
        At most max(max_entry, 2 non-zeros) coordinates are active in an epoch, those that promise the largest
        decrease; None lets all in. Without a bound the first step on OCR makes 59,000 weights non-zero, against
        1,487 at the optimum, and a quarter of the run goes into getting rid of them.
    outside : float
        An epoch does not solve below this share of the largest violation left outside its active set: 53 passes
        to 1e-3 on OCR without a warm-up, instead of 111.
    cooling : float
        An epoch ends when its violation has fallen to this share of the violation that it opened with, or, where others
        wait to come in, with a step that wins less than a tenth of the best one (LSHTC1, l1 = 2: 20 passes to 1e-4
        instead of 30; OCR, l1 = 50: 15 to 1e-3 instead of 19). A problem of fewer than 1,000 weights is solved to the
        end once its active set is complete: that costs milliseconds.
    shrink_margin : float or None
        Zeros leave the active set when |g| < (1 - margin) l1; None is the paper's l1 - M / N.
    armijo : float
        sigma of the sufficient decrease.
    backtrack : float or None
        beta of the paper's line search. None solves the model again with a larger diagonal instead: w + a d with
        a < 1 never makes a weight exactly zero; on OCR backtracking once kept 72,000 coordinates active.
    warm_up : tuple of Stage
        Samples of the items and stronger penalties to start from, see `warm_up.py`: 9 passes to 1e-2 on OCR
        instead of 46.
    """

    metric: str = "token-wise"
    metric_positions: int = 1500
    max_dense: int = 6000
    refresh: int = 20
    memory: int = 10
    max_sweeps: int = 60
    sweep_tolerance: float = 0.01
    budget_sweeps: bool = False
    max_entry: int | None = 2000
    outside: float = 0.5
    cooling: float = 0.1
    shrink_margin: float | None = 0.1
    armijo: float = 0.01
    backtrack: float | None = None
    warm_up: tuple[Stage, ...] = WARM_UP

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InputError(f"metric: expected one of {METRICS}, got {self.metric!r}")
        self._check("memory max_sweeps refresh metric_positions max_entry", ">= 1", lambda x: x >= 1)
        self._check("armijo cooling backtrack", "between 0 and 1", lambda x: 0 < x < 1)
        self._check("sweep_tolerance outside shrink_margin max_dense", ">= 0", lambda x: x >= 0)

    def _check(self, names: str, what: str, is_allowed: Callable[[float], bool]) -> None:
        for name in names.split():
            setting = getattr(self, name)
            if setting is not None and not is_allowed(setting):
                raise InputError(f"{name}: expected a number {what}, got {setting!r}")

    def requires(self, objective: Objective) -> Requirements:
        return Requirements((CurvatureView,))

    @classmethod
    def paper(cls) -> ProxQN:
        """The method as printed.

        Left as it is here: sums in the place of means (M / N keeps its N), and active sets that shrink by less
        than a tenth are not copied.
        """
        return cls(
            metric="identity",
            max_sweeps=10,
            sweep_tolerance=0.0,
            budget_sweeps=True,
            max_entry=None,
            outside=0.0,
            shrink_margin=None,
            backtrack=0.5,
            warm_up=(),
        )

    def sampled(self) -> ProxQN:
        """The method for the samples of the warm-up: no warm-up of its own, and a metric as rough as they are."""
        return replace(self, warm_up=(), metric_positions=min(self.metric_positions, WARM_POSITIONS))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """One state a step, and one each time all coordinates are looked at."""
        point = start
        if self.warm_up and start.coords.size == 0:
            point = yield from warm_start(self.sampled(), self.warm_up, objective, penalty, start)
        caution = WARM_CAUTION if point.coords.size else 1.0
        damping = Damping(self.metric != "identity", opening=caution, caution=caution)
        is_growing = False
        while True:
            active, dual_value = open_epoch(objective, penalty, point, self.max_entry)
            is_growing = active.outside > 0 or (is_growing and active.violation > penalty.strength)
            del start, point  # their scores and residuals are as large as the data: only the newest stays
            opening = active.state(dual_value, is_screening=True)
            violation = opening.violation
            yield opening
            del opening
            is_tiny = objective.n_coords < TINY and self.metric == "token-wise"
            cooling = TO_THE_END if is_tiny and active.outside == 0 else self.cooling
            goal = max(cooling * violation, self.outside * active.outside)
            share = ROUGH if is_growing else 1.0
            n_steps, has_failed = yield from self.epoch(objective, active, goal, damping, share)
            if n_steps == 0:  # nothing moves, although every promising coordinate may
                last = active.state(dual_value, is_screening=True)
                yield replace(last, is_final=True, has_failed=has_failed)
                return
            start = point = active.point

    def epoch(
        self, objective: Objective, active: ActiveSet, goal: float, damping: Damping, share: float
    ) -> Generator[State, None, tuple[int, bool]]:
        """Steps on an active set until its violation is below `goal` or cannot be improved.

        `share`: of the positions of a sparse metric. Returns the number of steps, and whether the last search failed.
        """
        opening = active.violation
        metric = CompactBFGS(*self.base_metric(objective, active, None, share), self.memory)
        damping.open_epoch(active.coords.size, is_complete=active.outside == 0.0)
        if damping.is_cautious:
            active.measure_roughness()
        largest_gain = 0.0
        for step in count(1):
            before = active.value
            outcome = self.step(objective, active, metric, damping)
            if outcome is not Outcome.MOVED:
                return step - 1, outcome is Outcome.FAILED
            yield active.state()
            gain = before - active.value
            largest_gain = max(largest_gain, gain)
            is_exhausted = active.outside > 0.0 and gain < EXHAUSTED * largest_gain
            if active.violation <= goal or is_exhausted:
                return step, False
            kept = active.shrink(self.shrink_margin, objective.n_items)
            if kept is not None:
                metric.restrict(kept)
                damping.restrict(kept)
            is_stale = self.metric != "identity" and step % self.refresh == 0
            if is_stale and (active.violation <= PROGRESS * opening or goal <= TO_THE_END * opening):
                return step, False  # as the metric is formed anew anyway, all coordinates may be looked at
            if is_stale or self.metric == "identity":
                metric.rebase(*self.base_metric(objective, active, metric, share))
        raise AssertionError("count() has no end")

    def base_metric(
        self, objective: Objective, active: ActiveSet, metric: CompactBFGS | None, share: float
    ) -> tuple[Vector, Matrix]:
        """B0: its diagonal and, where it is more, the matrix."""
        n = active.coords.size
        if self.metric == "identity":
            return np.full(n, metric.gamma if metric is not None and metric.n_pairs else 1.0), NO_MATRIX
        floor = FLOOR * active.unit
        base: Matrix | None = None
        if self.metric == "token-wise":
            base = curvature_at(active.point).matrix(
                active.coords, self.metric_positions, self.max_dense, share
            )
        if base is None:
            return curvature_at(active.point).diagonal(active.coords) + floor, NO_MATRIX
        diagonal = base.diagonal() + floor
        add_to_diagonal(base, floor)
        return diagonal, base

    def step(self, objective: Objective, active: ActiveSet, metric: CompactBFGS, damping: Damping) -> Outcome:
        """Algorithm 2, lines 21-41; says how it went."""
        if active.coords.size == 0:
            return Outcome.AT_REST
        d, base_d = np.zeros(active.w.size), np.zeros(active.w.size, np.float32)
        sweeps, blocks = self.max_sweeps, active.local.blocks
        if self.budget_sweeps:
            sweeps = min(sweeps, max(1, objective.n_coords // active.coords.size))
        for _ in range(MOST_TRIALS):
            active.local.descend(
                (*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat),
                damping.of(metric.diagonal, active.roughness),
                active.g, active.w, sweeps, self.sweep_tolerance, d, base_d, objective.pool,
            )  # fmt: skip
            slope = active.slope(d)
            if not d.any() or -slope <= ROUNDING * abs(active.value):
                return Outcome.AT_REST
            if self.backtrack is not None:
                return self.search(active, metric, damping, d, slope)
            trial, decrease = active.try_step(d)
            model_d = metric.times(d, base_d)
            if decrease >= -self.armijo * slope:
                predicted = -slope - 0.5 * float(d @ model_d)
                y = active.accept(d, trial)
                metric.update(d, y, base_d)
                damping.after_step(
                    decrease / predicted if predicted > 0 else 0.0, Trial(d, y, model_d, blocks)
                )
                return Outcome.MOVED
            damping.after_failure(Trial(d, active.change_of_gradient(trial), model_d, blocks))
            del trial  # as large as the data: the next one takes its memory
        return Outcome.FAILED

    def search(
        self, active: ActiveSet, metric: CompactBFGS, damping: Damping, d: Vector, slope: float
    ) -> Outcome:
        """The paper's line search, lines 31-35: alpha = 1, beta, beta^2, ... until the Armijo rule holds."""
        assert self.backtrack is not None
        ray = active.ray(d)
        for power in range(MOST_TRIALS):
            alpha = self.backtrack**power
            trial, decrease = active.try_step(alpha * d, ray, alpha)
            if decrease >= -self.armijo * alpha * slope:
                step = alpha * d
                y = active.accept(step, trial)
                if damping.is_cautious:
                    met = Trial(step, y, metric.times(step), active.local.blocks)
                    damping.after_step(1.0 if power == 0 else 0.0, met)
                metric.update(step, y)
                return Outcome.MOVED
        return Outcome.FAILED
