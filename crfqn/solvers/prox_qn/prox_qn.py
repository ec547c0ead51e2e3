"""Prox-QN: the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014), Algorithm 2.

An epoch opens with a full gradient scan, works on an active set that only shrinks, and ends when that set is solved
well enough; the next epoch begins with all coordinates again. A step solves the quadratic model by coordinate descent,
makes sure that the objective decreases, and adds a secant pair to the metric. `ProxQN.paper()` is the method as
printed. The default replaces some of its parts, which makes it an order of magnitude faster (docs/prox-qn.md).

The default starts from the optimum of a sample, under a penalty that decreases to the requested one. A pass over every
16th item costs 1/16 of a pass, and the optimum of the sample differs from that of all items by the sampling error.
Strong penalties come first because their active sets are small. Text is learned item by item instead. The start cuts
long items into segments, so that one text in a single item starts as its sentences would.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from crfqn.objectives.curvature import FETCH_OPERATIONS
from crfqn.objectives.objective import has_state
from crfqn.result import Status
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
    CostAwareSweeps,
    Globalisation,
    LevenbergMarquardtSearch,
    PaperSweeps,
    QuadraticModel,
    Search,
    Sweeps,
)
from crfqn.solvers.screened_point import ScreenedPoint
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stochastic.state import SGDState

# Below it a fit without the epochs takes a fifth longer, mostly 10 to 35 ms, and the first one of an installation 10 s
# less: steps on items, and the sparse curvature of the many weights that they set, are half of all compilation.
FEWEST_POSITIONS = 2500
FEW_WEIGHTS = 1000  # metrics know how all of them depend on each other: nothing to win by a better start
MOST_WEIGHTS = 10_000_000  # two dense numbers each, 160 MB
ONLINE = SGDL1(calibration_items=300)


@dataclass(frozen=True)
class OnlineStart:
    """A few epochs of stochastic gradients, item by item, for text: where most features are rare, a sample knows
    nothing of most weights.

    On CoNLL-2000 (l1 = 1) six epochs and 13 passes come as near to the optimum as 90 passes after samples; 4 cost more
    passes than they save time. Long items are learned segment by segment: 1,300 sentences of it in one item took 204
    passes with a step an epoch, 35 with segments.

    max_epoch_cost : maximum cost of an epoch, in passes; above it the run starts from subsamples (six epochs save some
        25 passes)
    """

    epochs: int = 6
    max_epoch_cost: float = 4.0

    def suits(self, objective: Objective, penalty: Penalty) -> bool:
        """Return whether to learn item by item, as `SGDL1` does: one l1 and l2 for all weights, and text
        that is long enough."""
        operations = objective.operations
        # Scores, inference, penalty and step, item by item: all weights of each entry.
        of_epoch = operations.inference + FETCH_OPERATIONS * operations.entries * operations.n_states
        return (
            self.epochs > 0
            and penalty.is_separable
            and penalty.is_uniform
            and operations.has_sequences
            and operations.has_rare_features
            and objective.n_positions >= FEWEST_POSITIONS
            and objective.n_coords > FEW_WEIGHTS
            and objective.n_node_coords <= MOST_WEIGHTS
            and of_epoch <= self.max_epoch_cost * operations.of_pass
            and has_state(objective.without_bigram_features(), SGDState)
        )

    def states(self, objective: Objective, penalty: Penalty, start: Point) -> Generator[State, None, Point]:
        """Run the epochs; yields the states of the sample that finds their rate, and returns where they lead, without
        weights of bigram features."""
        plain = objective.without_bigram_features().with_truncated_items()
        origin = start.sparse_weights
        eta0 = yield from ONLINE.calibrate(plain, penalty, origin)
        random, online = np.random.default_rng(ONLINE.random_state), plain.state(SGDState, origin, penalty)
        for _ in range(self.epochs):
            online.learn(random.permutation(online.n_items), eta0)
        if plain is not objective:
            objective.n_passes += plain.n_passes
        weights = online.weights()
        online.release()
        del online  # its dense weights are larger than the data
        return objective.at(*weights)


class Stage(NamedTuple):
    """Minimise over every stride-th item with `penalty_factor` times the requested penalty."""

    stride: int
    penalty_factor: float


@dataclass(frozen=True)
class WarmStart:
    """Samples of the items under stronger penalties, or a few epochs item by item.

    fewest_positions : the minimum size of a sample
    fewest_by_weight : the minimum size of a sample as a share of the number of weights: a smaller one is overfitted,
        and its optimum is far from that of all items
    """

    stages: tuple[Stage, ...] = (Stage(16, 10.0), Stage(16, 3.0), Stage(4, 1.0))
    fewest_positions: int = 2000
    fewest_by_weight: float = 0.01

    def states(
        self, solver: Solver, objective: Objective, penalty: Penalty, start: Point, constants: Constants
    ) -> Generator[State, None, Point]:
        """Run the stages; yields their states, marked with the sample's share, and returns where to start. Counts a
        sample's passes as its share of a pass over all items."""
        online = OnlineStart(constants.online_epochs, constants.max_epoch_cost)
        if online.suits(objective, penalty):
            return (yield from online.states(objective, penalty, start))
        fewest = max(self.fewest_positions, self.fewest_by_weight * objective.n_coords)
        useful = [stage for stage in self.stages if objective.n_positions // stage.stride >= fewest]
        whole, weights = objective.with_truncated_items(), start.sparse_weights
        samples = {1: whole}
        for stride in sorted({stage.stride for stage in useful} - {1}):  # from the smallest that contains it
            finer = max(coarse for coarse in samples if stride % coarse == 0)
            samples[stride] = samples[finer].sample(stride // finer)
        for stage in useful:
            sample = samples[stage.stride]
            share = sample.total_weight / whole.total_weight
            if share == 0:
                continue
            scaled, before = penalty.scaled(share * stage.penalty_factor), sample.n_passes
            least = constants.stage_tolerance * scaled.min_threshold
            for n_steps, state in enumerate(solver.steps(sample, scaled, sample.at(*weights))):
                objective.n_passes += share * (sample.n_passes - before)
                before = sample.n_passes
                weights = state.point.sparse_weights
                yield replace(state, sample_fraction=share)
                if n_steps >= constants.stage_steps or (state.is_screening and state.violation <= least):
                    break
        return start if weights.coords is start.coords else objective.at(*weights)


@dataclass(frozen=True)
class ProxQN(Solver):
    """Settings of Prox-QN: its parts, and three numbers.

    Parameters
    ----------
    metric : Identity, Diagonal or TokenWise, which B0 is (section 2.1): gamma I in the paper
    memory : int, the secant pairs m (paper: 10)
    sweeps : PaperSweeps or CostAwareSweeps, how well the quadratic model is solved (line 22)
    globalisation : Backtracking or LevenbergMarquardtSearch, what makes a step a descent (lines 31-35)
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
    - a search ends after 40 trials, or where rounding hides the decrease.

    N is the number of items, though g is a sum over them: so it is printed.
    """

    metric: Metric = field(default_factory=TokenWise)
    memory: int = 10
    sweeps: Sweeps = field(default_factory=CostAwareSweeps)
    globalisation: Globalisation = field(default_factory=LevenbergMarquardtSearch)
    entry: WorkingSetRule = field(default_factory=TopViolators)
    shrinking: Shrinking = field(default_factory=ByShareOfBound)
    cooling: float = 0.1
    few_weights: int = 1000
    warm_start: WarmStart | None = field(default_factory=WarmStart)
    constants: Constants = field(default_factory=Constants, repr=False)

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

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state for each step, and one each time all coordinates are screened."""
        point, passes_before = start, objective.n_passes
        if self.warm_start is not None and start.coords.size == 0:
            sampled = replace(self, warm_start=None, metric=self.metric.for_samples(self.constants))
            point = yield from self.warm_start.states(sampled, objective, penalty, start, self.constants)
        del start
        search = self.globalisation.begin(self.metric, point.coords.size > 0, self.constants)
        is_growing, last_violation = False, np.inf  # line 3: M^ = infinity
        while True:
            # Lines 3 and 17: the gradient at all coordinates, and all of them in the working set.
            active = self.entry.open(objective, penalty, point, is_growing)
            yield active.state()  # line 14: the loop around may return w
            del point  # its scores and residuals are as large as the data: only the newest stays
            is_growing = active.is_growing
            n_steps, end, last_violation = yield from self.epoch(
                objective, active, search, passes_before, last_violation
            )
            if n_steps == 0:  # nothing moves, although every promising coordinate may
                yield active.state(end=end)
                return
            point = active.point

    def epoch(
        self,
        objective: Objective,
        active: ScreenedPoint,
        search: Search,
        passes_before: float,
        last_violation: float,
    ) -> Generator[State, None, tuple[int, Status, float]]:
        """Run lines 4-42 on a working set; yields a state a step, and returns the number of steps, why there is no
        other, and M^, the largest violation an iteration before."""
        constants, excluded = self.constants, active.max_excluded_violation
        # A problem of few weights is solved to the end. Line 18: the violation at which the epoch ends.
        is_small = objective.n_coords < self.few_weights and self.metric.is_full and excluded == 0
        cooling = constants.final_tolerance if is_small else self.cooling
        goal = self.entry.goal(cooling * max(active.violation, excluded), active)
        enough = constants.epoch_reduction * active.violation
        # Lines 3 and 17: S, Y, Q, Q^ are empty.
        base = self.metric.base(active, constants, objective.n_passes - passes_before)
        metric = CompactBFGS(*base, self.memory)
        search.open_epoch(active)
        n, largest_gain, is_exhausted = 0, 0.0, False
        while True:
            # Lines 5-12: shrink the working set, and take M^ for the next time.
            stays = self.shrinking.shrink(active, last_violation, objective.n_items)
            if stays is not None:
                metric.restrict(stays)
                search.restrict(stays)
            last_violation = active.violation
            # Line 13: the shrinking stopping criterion, or other coordinates promise more than these.
            if active.coords.size == 0 or (n > 0 and (active.violation <= goal or is_exhausted)):
                return n, Status.STALLED, last_violation
            if n > 0 and n % self.metric.refresh == 0:
                # Before a metric is measured anew all coordinates may as well be screened.
                if self.metric.is_measured and (is_small or active.violation <= enough):
                    return n, Status.STALLED, last_violation
                self.metric.renew(metric, active, constants, objective.n_passes - passes_before)
            # Line 22: inner_iter.
            of_step = objective.operations.of_pass + constants.overhead
            limits = self.sweeps.limits(of_step, objective.n_coords, active.coords.size)
            # Lines 21 and 23-30, the inner problem; 31-35, the line search; 36-38, g, y and s.
            before = active.value
            step = search.move(active, QuadraticModel(active, metric, limits, objective.is_convex))
            if isinstance(step, Status):
                return n, step, last_violation
            # Lines 39-41: S, Y, Q, D, L, S'S, R and Q^ on the working set.
            metric.update(*step)
            gain = before - active.value
            largest_gain = max(largest_gain, gain)
            is_exhausted = excluded > 0 and gain < constants.min_relative_decrease * largest_gain
            n += 1
            yield active.state(is_screening=False)
