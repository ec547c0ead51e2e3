"""Prox-QN: the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014), Algorithm 2.

An epoch begins with a full gradient scan, works on an active set from which zeros leave, and ends when the violation of
the set is small enough; the next epoch begins with all coordinates again. A step solves the quadratic model by
coordinate descent, makes the objective decrease, and adds a secant pair to the metric. `ProxQN.paper()` is the method
as printed. The default replaces some of its parts, which makes it an order of magnitude faster (docs/prox-qn.md).

The default starts from the optimum of a sample, under a penalty that decreases to the requested one: a pass over every
16th item takes 1/16 of the time, and active sets are small under strong penalties. For text it starts with epochs of
stochastic gradient steps instead. Both starts split long items into segments.
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

# Positions below which there are no online epochs: they would change the time of a fit by -40 to +45 ms, and cost 4 s
# of compilation in the first fit of an installation. Measured on parts of two texts, of 600 to 2,400 positions.
MIN_POSITIONS = 2500
# Weights up to which there are no online epochs: B0 is a full matrix, and Prox-QN needs no better start.
MAX_FULL_METRIC_WEIGHTS = 1000
MAX_ONLINE_WEIGHTS = 10_000_000  # a limit of memory: two float64 for each weight, 160 MB
ONLINE_SGD = SGDL1(calibration_items=300)


@dataclass(frozen=True)
class OnlineStart:
    """Epochs of stochastic gradient steps for text, whose rare features are missing in samples.

    A step is on an item, or on a segment of a long one.

    epochs : the number of epochs (>= 0)
    max_epoch_cost : the maximum cost of an epoch, in passes; if it is exceeded, the run starts from samples
    """

    epochs: int = 6
    max_epoch_cost: float = 4.0

    def suits(self, objective: Objective, penalty: Penalty) -> bool:
        """Return whether a run begins with the epochs: `SGDL1` needs one l1 and one l2 for all weights, and the data
        must be text of enough positions."""
        operations = objective.operations
        # A step reads and writes the weights of all states for each entry.
        epoch_operations = operations.inference + FETCH_OPERATIONS * operations.entries * operations.n_states
        return (
            self.epochs > 0
            and penalty.is_separable
            and penalty.is_uniform
            and operations.has_sequences
            and operations.has_rare_features
            and objective.n_positions >= MIN_POSITIONS
            and objective.n_coords > MAX_FULL_METRIC_WEIGHTS
            and objective.n_node_coords <= MAX_ONLINE_WEIGHTS
            and epoch_operations <= self.max_epoch_cost * operations.of_pass
            and has_state(objective.without_bigram_features(), SGDState)
        )

    def states(self, objective: Objective, penalty: Penalty, start: Point) -> Generator[State, None, Point]:
        """Run the epochs; yield the states of the sample that the learning rate is chosen on, and return the point
        after the epochs, at which weights of bigram features are 0."""
        plain = objective.without_bigram_features().with_truncated_items()
        origin = start.sparse_weights
        eta0 = yield from ONLINE_SGD.calibrate(plain, penalty, origin)
        random, online = (
            np.random.default_rng(ONLINE_SGD.random_state),
            plain.state(SGDState, origin, penalty),
        )
        for _ in range(self.epochs):
            online.learn(random.permutation(online.n_items), eta0)
        if plain is not objective:
            objective.n_passes += plain.n_passes
        weights = online.weights()
        online.release()
        del online  # its dense weights may be larger than the data
        return objective.at(*weights)


class Stage(NamedTuple):
    """A stage of the warm start: every stride-th item, under `penalty_factor` times the requested penalty."""

    stride: int
    penalty_factor: float


@dataclass(frozen=True)
class WarmStart:
    """The start of the default: minimise over samples of the items under stronger penalties, or run online epochs.

    stages : the stages, in order; those whose sample is too small are left out
    fewest_positions : the minimum size of a sample, in positions
    fewest_by_weight : the minimum number of positions of a sample, as a fraction of the number of weights. A smaller
        sample is overfitted, and its optimum is far from that of all items
    """

    stages: tuple[Stage, ...] = (Stage(16, 10.0), Stage(16, 3.0), Stage(4, 1.0))
    fewest_positions: int = 2000
    fewest_by_weight: float = 0.01

    def states(
        self, solver: Solver, objective: Objective, penalty: Penalty, start: Point, constants: Constants
    ) -> Generator[State, None, Point]:
        """Run the stages; yield their states with `sample_fraction`, and return the point to start from. A pass over a
        sample counts as its fraction of a pass over all items."""
        online = OnlineStart(constants.online_epochs, constants.max_epoch_cost)
        if online.suits(objective, penalty):
            return (yield from online.states(objective, penalty, start))
        minimum = max(self.fewest_positions, self.fewest_by_weight * objective.n_coords)
        useful = [stage for stage in self.stages if objective.n_positions // stage.stride >= minimum]
        whole, weights = objective.with_truncated_items(), start.sparse_weights
        samples = {1: whole}
        for stride in sorted(
            {stage.stride for stage in useful} - {1}
        ):  # a sample of the smallest sample that contains it
            finer = max(coarse for coarse in samples if stride % coarse == 0)
            samples[stride] = samples[finer].sample(stride // finer)
        for stage in useful:
            sample = samples[stage.stride]
            share = sample.total_weight / whole.total_weight
            if share == 0:
                continue
            scaled, before = penalty.scaled(share * stage.penalty_factor), sample.n_passes
            goal = constants.stage_tolerance * scaled.min_threshold
            for n_steps, state in enumerate(solver.steps(sample, scaled, sample.at(*weights))):
                objective.n_passes += share * (sample.n_passes - before)
                before = sample.n_passes
                weights = state.point.sparse_weights
                yield replace(state, sample_fraction=share)
                if n_steps >= constants.stage_steps or (state.is_screening and state.violation <= goal):
                    break
        return start if weights.coords is start.coords else objective.at(*weights)


@dataclass(frozen=True)
class ProxQN(Solver):
    """Settings of Prox-QN.

    Parameters
    ----------
    metric : Identity, Diagonal or TokenWise
        B0 (section 2.1), gamma I in the paper.
    memory : int >= 1
        The number m of secant pairs (paper: 10).
    sweeps : PaperSweeps or CostAwareSweeps
        The number of sweeps over the quadratic model (line 22).
    globalisation : Backtracking or LevenbergMarquardtSearch
        The search that makes the objective decrease (lines 31-35).
    entry : AllCoordinates or TopViolators
        The coordinates with which an epoch begins (lines 3 and 17).
    shrinking : ByLastViolation or ByShareOfBound
        The zeros that leave the active set (line 8).
    cooling : float within (0, 1)
        An epoch ends if its violation is below this fraction of that at its beginning (lines 13 and 18; the paper
        gives no number). A smaller value takes longer epochs, hence fewer full gradient scans.
    few_weights : int >= 0
        A problem of fewer weights is solved completely in one epoch, if all violating coordinates are active and B0 is
        a full matrix; this takes milliseconds.
    warm_start : WarmStart or None
        The start if no weights are given; None for zero.
    constants : Constants
        The constants of the default.

    Notes
    -----
    `paper()` deviates from the printed algorithm as follows:

    - `minimize` decides on the global stop (line 14), after each full gradient scan;
    - with more than 10 million coordinates an epoch begins with the violating ones, see `AllCoordinates`;
    - a pair without positive curvature is not added to the memory, and the curvature of a coordinate in the model is
      limited to a thousandth of gamma from below;
    - gamma is 1 at the beginning of an epoch, when the memory is empty (line 17 clears S and Y only);
    - a search ends after 40 trials, or if rounding hides the decrease.

    As in the paper, N is the number of items, although g is a sum over them.
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
        uses_curvature = self.entry.uses_curvature or self.metric.is_measured
        return Requirements(("has_curvature",) if uses_curvature else ())

    @classmethod
    def paper(cls) -> ProxQN:
        """Return the method as printed, up to the deviations in the notes."""
        return cls(
            metric=Identity(), sweeps=PaperSweeps(max_inner=10), globalisation=Backtracking(), entry=AllCoordinates(),
            shrinking=ByLastViolation(), few_weights=0, warm_start=None,
        )  # fmt: skip

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each step, and one after each full gradient scan."""
        point, passes_before = start, objective.n_passes
        if self.warm_start is not None and start.coords.size == 0:
            metric = self.metric
            if isinstance(metric, TokenWise):  # a metric that is about as exact as the samples
                n_positions = min(metric.n_positions, self.constants.sampled_positions)
                metric = replace(metric, n_positions=n_positions)
            sampled = replace(self, warm_start=None, metric=metric)
            point = yield from self.warm_start.states(sampled, objective, penalty, start, self.constants)
        del start
        search = self.globalisation.begin(self.metric, point.coords.size > 0, self.constants)
        is_growing, last_violation = False, np.inf  # line 3: M^ = infinity
        while True:
            # Lines 3 and 17: the gradient at all coordinates, and the working set.
            active = self.entry.open(objective, penalty, point, is_growing)
            yield active.state()  # line 14: `minimize` may return w
            del (
                point
            )  # its scores and residuals are as large as the data, and only those of the newest are needed
            is_growing = active.is_growing
            n_steps, end, last_violation = yield from self.epoch(
                objective, active, search, passes_before, last_violation
            )
            if n_steps == 0:  # no step decreases the objective, although every violating coordinate may move
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
        """Run lines 4-42 on a working set; yield a state after each step, and return the number of steps, the reason
        for the end, and M^, the largest violation of the last iteration."""
        constants, excluded = self.constants, active.max_excluded_violation
        # A small problem is solved completely. Line 18: the violation at which the epoch ends.
        is_small = objective.n_coords < self.few_weights and self.metric.is_full and excluded == 0
        cooling = constants.final_tolerance if is_small else self.cooling
        goal = max(cooling * max(active.violation, excluded), self.entry.excluded_fraction * excluded)
        renewal_goal = constants.epoch_reduction * active.violation
        # Lines 3 and 17: S, Y, Q, Q^ are empty.
        base = self.metric.base(active, constants, objective.n_passes - passes_before)
        metric = CompactBFGS(*base, self.memory)
        search.open_epoch(active)
        n, largest_gain, is_exhausted = 0, 0.0, False
        while True:
            # Lines 5-12: shrink the working set, and take M^ for the next iteration.
            stays = self.shrinking.shrink(active, last_violation, objective.n_items)
            if stays is not None:
                metric.restrict(stays)
                search.restrict(stays)
            last_violation = active.violation
            # Line 13: the shrinking stopping criterion, or a larger decrease is predicted outside the set.
            if active.coords.size == 0 or (n > 0 and (active.violation <= goal or is_exhausted)):
                return n, Status.STALLED, last_violation
            if n > 0 and n % self.metric.refresh == 0:
                if not self.metric.is_measured:
                    metric.rescale()  # line 40: gamma
                elif (
                    is_small or active.violation <= renewal_goal
                ):  # screen all coordinates before B0 is measured
                    return n, Status.STALLED, last_violation
                else:
                    metric.rebase(*self.metric.base(active, constants, objective.n_passes - passes_before))
            # Line 22: inner_iter.
            step_operations = objective.operations.of_pass + constants.overhead
            limits = self.sweeps.limits(step_operations, objective.n_coords, active.coords.size)
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
