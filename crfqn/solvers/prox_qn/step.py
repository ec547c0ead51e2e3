"""A step: the quadratic model, solved by coordinate descent, and the search that makes the objective decrease.

    min_d  g'd + 1/2 d'(B + D) d + penalty(w + d)

is the model (paper, equation 2; Algorithm 2, lines 21-30); D, the damping, is a diagonal, none in the paper. Where a
step fails the paper searches along d (`Backtracking`); `LevenbergMarquardtSearch` solves the model again with a larger
diagonal,

    D = coordinate damping + scale * diagonal of B0 + majorant_share * majorant curvature.

The damping of a coordinate is the curvature that a step has met there beyond the model. Where the probability of a
state is almost 0, the model has no curvature. A dozen features that occur at the same positions may raise its score by
ten nats together, and the gradient of these coordinates then changes by a hundred times what was predicted. The
gradient at the trial shows which coordinates these are: (y - B d)_j / d_j is the diagonal that would have stopped
coordinate j in time. (Weights that leave zero together share one value, d'(y - B d) / d'd.)

Shapes: n active coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.coordinate_descent import Limits, Subproblem
from crfqn.kernels.coordinate_descent import QuadraticModelArrays as Model
from crfqn.penalties.penalty import Partition
from crfqn.result import Status
from crfqn.solvers.line_search import (  # fmt: skip
    BLURRED,
    backtracking,
    decrease_by_slopes,
    falls_enough,
    is_hidden,
)
from crfqn.solvers.protocols import Point, Vector, check_numbers, check_shares
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.prox_qn.metric import CompactBFGS, Metric, least_scale
from crfqn.solvers.screened_point import ScreenedPoint
from crfqn.time_limit import check_time


@dataclass(frozen=True)
class PaperSweeps:
    """The paper's inner_iter = min(max_inner, floor(d / |A|)) sweeps (line 22), which is a single one where all
    coordinates are active: a small problem then takes more than 300 steps instead of 50."""

    max_inner: int = 10

    def __post_init__(self) -> None:
        check_numbers(self, 1, "max_inner")

    def limits(self, of_step: float, n_coords: int, n_active: int) -> Limits:
        return Limits(min(self.max_inner, max(1, n_coords // n_active)), np.inf)


@dataclass(frozen=True)
class CostAwareSweeps:
    """At most `most` sweeps, until one decreases the model less for its operations than the step so far.

    Many sweeps pay if a pass is expensive and the metric is good; if a pass takes hardly longer than a sweep, as in
    text, fewer sweeps are cheaper. Without `is_cost_aware` equal problems in other forms, whose passes take other
    numbers of operations, take the same steps.
    """

    most: int = 60
    is_cost_aware: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "most")

    def limits(self, of_step: float, n_coords: int, n_active: int) -> Limits:
        return Limits(self.most, of_step if self.is_cost_aware else np.inf)


# `limits` returns when the descent ends; of_step : operations of a step beside its sweeps.
Sweeps: TypeAlias = PaperSweeps | CostAwareSweeps


class QuadraticModel:
    """The model at an active set; d : float64 (n,), the direction, zero until it is solved for; base_d : float32 (n,),
    B0 d where B0 is a matrix."""

    def __init__(
        self, active: ScreenedPoint, metric: CompactBFGS, limits: Limits, is_convex: bool = True
    ) -> None:
        self.active, self.metric, self.limits = active, metric, limits
        self.is_convex = is_convex
        self.restart()

    def restart(self) -> None:
        """Begin at d = 0, d^ = 0 (line 21)."""
        self.d, self.base_d = np.zeros(self.active.w.size), np.zeros(self.active.w.size, np.float32)
        self.is_fresh = True

    def solve(self, damping: Vector) -> float:
        """Descend from the present d on (lines 23-30); returns the slope Delta of Armijo's rule along d."""
        active, metric = self.active, self.metric
        model = Model(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
        problem = Subproblem(model, damping, active.g, active.w, self.limits)
        check_time()
        active.local.descend(problem, self.d, self.base_d)
        slope = active.slope(self.d)
        if not self.is_fresh and not slope < 0:
            # From a far trial there are too few sweeps to come back: only from 0 does every sweep descend.
            self.restart()
            return self.solve(damping)
        self.is_fresh = False
        return slope


class Step(NamedTuple):
    """A step that was made: s = w+ - w and y = g+ - g, (n,), and if it is known B0 s, (n,). Searches return a `Status`
    instead if there is none: why."""

    s: Vector
    y: Vector
    base_s: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Backtracking:
    """The paper's line search along d (lines 31-35): alpha = 1, beta, beta^2, ... until Armijo's rule (sigma) holds."""

    armijo: float = 0.01
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_shares(self, "armijo", "beta")

    def begin(self, metric: Metric, is_warm: bool, constants: Constants) -> Backtracking:
        return self

    def open_epoch(self, active: ScreenedPoint) -> None:
        """Do nothing: a backtracking search remembers nothing."""

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Do nothing: a backtracking search remembers nothing."""

    def move(self, active: ScreenedPoint, model: QuadraticModel) -> Step | Status:
        """Solve the model and search along d (lines 21-38)."""
        slope = model.solve(np.zeros(active.w.size))
        if is_hidden(-slope, active.value):
            return Status.STALLED
        ray = active.ray(model.d)

        def attempt(alpha: float) -> Point | None:
            trial = ray.at(alpha)
            decrease = active.decrease(alpha * model.d, trial)
            return trial if falls_enough(decrease, alpha * slope, self.armijo) else None

        found = backtracking(attempt, 1.0, self.beta)
        if isinstance(found, Status):
            return found
        s = found.length * model.d
        return Step(s, active.accept(s, found.outcome))


@dataclass(frozen=True)
class LevenbergMarquardtSearch:
    """Solve the model again with a larger diagonal when a step fails Armijo's rule: w + a d with a < 1, the result of
    backtracking, never makes a weight exactly zero."""

    armijo: float = 0.01

    def __post_init__(self) -> None:
        check_shares(self, "armijo")

    def begin(self, metric: Metric, is_warm: bool, constants: Constants) -> DampedSearch:
        share = constants.initial_damping if is_warm else 1.0
        damping = Damping(metric.is_measured, initial=share, majorant_share=share, constants=constants)
        return DampedSearch(self.armijo, damping)


@dataclass
class DampedSearch:
    """The damping of a run, and the majorant curvature of the present active set."""

    armijo: float
    damping: Damping

    def open_epoch(self, active: ScreenedPoint) -> None:
        """Measure the curvature that the coordinates may meet."""
        damping = self.damping
        damping.open_epoch(active.coords.size, is_complete=active.max_excluded_violation == 0.0)
        if damping.uses_majorant:
            self.majorant = majorant_curvature(active, damping.constants)
        else:
            self.majorant = np.zeros(active.coords.size)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        self.damping.restrict(keep)
        self.majorant = self.majorant[keep]

    def move(self, active: ScreenedPoint, model: QuadraticModel) -> Step | Status:
        """Solve and try, until a trial decreases the objective enough."""
        is_promising = False
        for _ in range(self.damping.constants.most_solutions):
            damping = self.damping.diagonal(model.metric.diagonal, self.majorant)
            slope = model.solve(damping)
            if is_hidden(-slope, active.value):
                break
            model_d = model.metric.times(model.d, model.base_d)
            if not 0 < model.d @ model_d + model.d @ (damping * model.d) < np.inf:
                # Entries left out of a sparse matrix, or rounding, have made B indefinite: the model has no minimum.
                model.metric.keep_diagonal()
                model.restart()
                continue
            is_promising = is_promising or not is_hidden(-slope, active.value, BLURRED)
            active.point.release()  # the trial takes the memory of its residuals, which only a failed step needs
            trial = active.ray(model.d).at(1.0)
            decrease, blocks = active.decrease(model.d, trial), active.local.blocks
            if not falls_enough(decrease, slope, self.armijo):
                y = trial.gradient(active.coords) - active.g
                if model.is_convex:
                    decrease = decrease_by_slopes(decrease, active.value, slope, float(y @ model.d))
            if falls_enough(decrease, slope, self.armijo):
                predicted = -slope - 0.5 * float(model.d @ model_d)
                y = active.accept(model.d, trial)
                ratio = decrease / predicted if predicted > 0 else 0.0
                self.damping.after_step(ratio, TriedStep(model.d, y, model_d, blocks))
                return Step(model.d, y, model.base_d)
            self.damping.after_failure(TriedStep(model.d, y, model_d, blocks))
            del trial  # as large as the data: the next one takes its memory
        return Status.LINE_SEARCH_FAILED if is_promising else Status.STALLED


def majorant_curvature(active: ScreenedPoint, constants: Constants) -> Vector:
    """Measure the curvature that each coordinate may meet on its way to a fit, (n,): a sweep over active columns."""
    majorant = active.point.curvature(active.coords).majorant
    return constants.majorant_scale * majorant + constants.min_majorant * least_scale(active)


class TriedStep(NamedTuple):
    """A trial w + d: y, the change of the gradient, and model_d = B d, (n,); the penalty's blocks."""

    d: Vector
    y: Vector
    model_d: Vector
    blocks: Partition

    def excess_curvature(self, excess_threshold: float) -> Vector:
        """Return the curvature beyond the model, one number for each block, spread over its coordinates (n,)."""
        surprise = np.maximum(self.blocks.total(self.d * (self.y - self.model_d)), 0.0)
        counts = surprise > excess_threshold * surprise.mean() if surprise.size else np.empty(0, bool)
        squares = self.blocks.total(self.d * self.d)
        per_block = np.zeros(surprise.size)
        np.divide(surprise, squares, out=per_block, where=counts & (squares > 0))
        return self.blocks.spread(per_block)


@dataclass
class Damping:
    """Diagonal that is added to B0.

    The majorant, the curvature that a coordinate may meet on its way to a fit (`majorant_curvature`), is needed while
    the model is poor: at w = 0 a rare label has hardly any curvature, and a Newton step sends its weights far beyond
    the optimum. Near the optimum the majorant would slow down the convergence. Therefore `majorant_share` is halved by
    every step that decreases the objective as predicted, and is `initial` again when new coordinates enter.
    """

    uses_majorant: bool = True
    scale: float = 0.0
    initial: float = 1.0
    majorant_share: float = 1.0
    constants: Constants = field(default_factory=Constants)

    def open_epoch(self, n_active: int, is_complete: bool) -> None:
        """Begin with a new active set; `is_complete`: every violating coordinate is in it."""
        self.scale, self.n_failures = 0.0, 0
        self.by_coordinate = np.zeros(n_active)
        if not is_complete:
            self.majorant_share = max(self.majorant_share, self.initial)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        self.by_coordinate = self.by_coordinate[keep]

    def diagonal(self, diagonal: Vector, majorant: Vector) -> Vector:
        """Return the diagonal to add to B0, (n,)."""
        damping = self.by_coordinate + self.scale * diagonal
        return damping + self.majorant_share * majorant if self.uses_majorant else damping

    def after_failure(self, trial: TriedStep) -> None:
        """Increase the damping where a failed trial met more curvature than the model has."""
        self._hold_back(trial)
        self.n_failures += 1
        if self.n_failures >= self.constants.patience:
            self.scale = max(self.constants.first_scale, 4.0 * self.scale)
            self.majorant_share = 1.0

    def after_step(self, ratio: float, trial: TriedStep) -> None:
        """Adapt by the trust-region rule; `ratio`: of the decrease to the predicted one."""
        self.n_failures = 0
        if ratio > 0.75:
            self.by_coordinate *= self.constants.damping_decrease
            self.scale = 0.25 * self.scale if self.scale > self.constants.smallest_scale else 0.0
            self.majorant_share = max(self.constants.min_damping, 0.5 * self.majorant_share)
        elif ratio < 0.5:
            self._hold_back(trial)

    def _hold_back(self, trial: TriedStep) -> None:
        excess = trial.excess_curvature(self.constants.excess_threshold)
        self.by_coordinate = np.maximum(self.by_coordinate, excess)


# A run's search: `open_epoch` and `restrict` follow the active set; `move` solves the model and moves the set's point
# to where the objective has fallen enough.
Search: TypeAlias = Backtracking | DampedSearch
Globalisation: TypeAlias = Backtracking | LevenbergMarquardtSearch
