"""A step of Prox-QN: coordinate descent on the quadratic model, and the search that makes the objective decrease.

The model is (paper, equation 2; Algorithm 2, lines 21-30)

    min_d  g'd + 1/2 d'(B + D) d + penalty(w + d),

D a diagonal damping, 0 in the paper. If a step fails, `Backtracking` searches along d as in the paper, and
`LevenbergMarquardtSearch` solves the model again with a larger diagonal,

    D = coordinate damping + scale * diagonal of B0 + majorant_share * majorant curvature.

The damping of a coordinate j is its excess curvature (y - B d)_j / d_j at an earlier trial: with this diagonal the
model would have predicted the gradient at the trial. States whose probability is almost 0 have excess curvature: the
model has none there, but several features that occur at the same positions may together raise their scores by many
nats. (Weights that leave zero together have a common value, d'(y - B d) / d'd.)

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
from crfqn.solvers.line_search import UNRELIABLE_ROUNDINGS, backtracking, decrease_by_slopes, is_hidden
from crfqn.solvers.protocols import Point, Vector, check_numbers, check_shares
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.prox_qn.metric import CompactBFGS, Metric, min_scale
from crfqn.solvers.screened_point import ScreenedPoint
from crfqn.time_limit import check_time


@dataclass(frozen=True)
class PaperSweeps:
    """The paper's inner_iter = min(max_inner, floor(d / |A|)) sweeps (line 22), one if all coordinates are active.

    max_inner : the maximum number of sweeps (>= 1)
    """

    max_inner: int = 10

    def __post_init__(self) -> None:
        check_numbers(self, 1, "max_inner")

    def limits(self, step_operations: float, n_coords: int, n_active: int) -> Limits:
        """Return when the descent ends; step_operations : the operations of a step without its sweeps."""
        return Limits(min(self.max_inner, max(1, n_coords // n_active)), np.inf)


@dataclass(frozen=True)
class CostAwareSweeps:
    """Sweeps until one decreases the model by less per operation than the step so far, up to a maximum.

    More sweeps are efficient if a pass takes long and the metric is exact; in text a pass takes about as long as a
    sweep.

    most : the maximum number of sweeps (>= 1)
    is_cost_aware : whether sweeps may end before the maximum. If not, the steps do not depend on how the features are
        stored, which changes the operations of a pass
    """

    most: int = 60
    is_cost_aware: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "most")

    def limits(self, step_operations: float, n_coords: int, n_active: int) -> Limits:
        """Return when the descent ends; step_operations : the operations of a step without its sweeps."""
        return Limits(self.most, step_operations if self.is_cost_aware else np.inf)


Sweeps: TypeAlias = PaperSweeps | CostAwareSweeps


class QuadraticModel:
    """The quadratic model at an active set.

    d : float64 (n,), the direction, 0 before the first solution
    base_d : float32 (n,), B0 d if B0 is a matrix
    """

    def __init__(
        self, active: ScreenedPoint, metric: CompactBFGS, limits: Limits, is_convex: bool = True
    ) -> None:
        self.active, self.metric, self.limits = active, metric, limits
        self.is_convex = is_convex
        self.restart()

    def restart(self) -> None:
        """Set d = 0, d^ = 0 (line 21)."""
        self.d, self.base_d = np.zeros(self.active.w.size), np.zeros(self.active.w.size, np.float32)
        self.is_fresh = True

    def solve(self, damping: Vector) -> float:
        """Run coordinate descent from the present d (lines 23-30); return Delta of Armijo's rule,
        g'd + penalty(w + d) - penalty(w)."""
        active, metric = self.active, self.metric
        model = Model(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
        problem = Subproblem(model, damping, active.g, active.w, self.limits)
        check_time()
        active.local.descend(problem, self.d, self.base_d)
        slope = float(active.g @ self.d) + active.local.value(active.w + self.d) - active.penalty_value
        if not self.is_fresh and not slope < 0:
            # Every sweep from 0 descends; from another d the slope may still be positive after the last sweep.
            self.restart()
            return self.solve(damping)
        self.is_fresh = False
        return slope


class Step(NamedTuple):
    """An accepted step: s = w+ - w, y = g+ - g, and B0 s if it is known, all (n,). Searches return a `Status` instead
    if there is none."""

    s: Vector
    y: Vector
    base_s: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Backtracking:
    """The paper's line search along d (lines 31-35): alpha = 1, beta, beta^2, ... until Armijo's rule holds.

    armijo : sigma, the fraction of the predicted decrease that a step must reach, within (0, 1)
    beta : the factor of alpha after a refused trial, within (0, 1)
    """

    armijo: float = 0.01
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_shares(self, "armijo", "beta")

    def begin(self, metric: Metric, is_warm: bool, constants: Constants) -> Backtracking:
        """Return the search of a run."""
        return self

    def open_epoch(self, active: ScreenedPoint) -> None:
        """Do nothing: the search has no state."""

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Do nothing: the search has no state."""

    def move(self, active: ScreenedPoint, model: QuadraticModel) -> Step | Status:
        """Solve the model, search along d, and move the point of the active set (lines 21-38)."""
        slope = model.solve(np.zeros(active.w.size))
        if is_hidden(-slope, active.value):
            return Status.STALLED
        ray = active.ray(model.d)

        def attempt(alpha: float) -> Point | None:
            trial = ray.at(alpha)
            decrease = active.decrease(alpha * model.d, trial)
            return trial if decrease >= -self.armijo * (alpha * slope) else None

        found = backtracking(attempt, 1.0, self.beta)
        if isinstance(found, Status):
            return found
        s = found.length * model.d
        return Step(s, active.accept(s, found.outcome))


@dataclass(frozen=True)
class LevenbergMarquardtSearch:
    """Solve the model again with a larger diagonal if a step fails Armijo's rule. Unlike backtracking, whose
    w + alpha d with alpha < 1 has no new zeros, this keeps weights sparse.

    armijo : sigma, the fraction of the predicted decrease that a step must reach, within (0, 1)
    """

    armijo: float = 0.01

    def __post_init__(self) -> None:
        check_shares(self, "armijo")

    def begin(self, metric: Metric, is_warm: bool, constants: Constants) -> DampedSearch:
        """Return the search of a run; is_warm : whether it starts from weights that are not all zero."""
        share = constants.initial_damping if is_warm else 1.0
        damping = Damping(metric.is_measured, initial=share, majorant_share=share, constants=constants)
        return DampedSearch(self.armijo, damping)


@dataclass
class DampedSearch:
    """The search of a run: its damping, and the majorant curvature of the present active set, (n,)."""

    armijo: float
    damping: Damping

    def open_epoch(self, active: ScreenedPoint) -> None:
        """Compute the majorant curvature of a new active set."""
        damping = self.damping
        damping.open_epoch(active.coords.size, is_complete=active.max_excluded_violation == 0.0)
        if damping.uses_majorant:
            self.majorant = majorant_curvature(active, damping.constants)
        else:
            self.majorant = np.zeros(active.coords.size)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Keep the coordinates of a mask, (n,)."""
        self.damping.restrict(keep)
        self.majorant = self.majorant[keep]

    def move(self, active: ScreenedPoint, model: QuadraticModel) -> Step | Status:
        """Solve the model with increasing damping until a trial fulfils Armijo's rule; move the point there."""
        is_reliable = False  # whether a predicted decrease has been well above rounding
        for _ in range(self.damping.constants.most_solutions):
            damping = self.damping.diagonal(model.metric.diagonal, self.majorant)
            slope = model.solve(damping)
            if is_hidden(-slope, active.value):
                break
            model_d = model.metric.times(model.d, model.base_d)
            if not 0 < model.d @ model_d + model.d @ (damping * model.d) < np.inf:
                # B is indefinite, by rounding or because a sparse matrix lacks entries: the model has no minimum.
                model.metric.keep_diagonal()
                model.restart()
                continue
            is_reliable = is_reliable or not is_hidden(-slope, active.value, UNRELIABLE_ROUNDINGS)
            active.point.release()  # the trial reuses the memory of its residuals
            trial = active.ray(model.d).at(1.0)
            decrease, blocks = active.decrease(model.d, trial), active.local.blocks
            if not decrease >= -self.armijo * slope:
                y = trial.gradient(active.coords) - active.g
                if model.is_convex:
                    decrease = decrease_by_slopes(decrease, active.value, slope, float(y @ model.d))
            if decrease >= -self.armijo * slope:
                predicted = -slope - 0.5 * float(model.d @ model_d)
                y = active.accept(model.d, trial)
                ratio = decrease / predicted if predicted > 0 else 0.0
                self.damping.after_step(ratio, TriedStep(model.d, y, model_d, blocks))
                return Step(model.d, y, model.base_d)
            self.damping.after_failure(TriedStep(model.d, y, model_d, blocks))
            del trial  # it is as large as the data; the next one reuses its memory
        return Status.LINE_SEARCH_FAILED if is_reliable else Status.STALLED


def majorant_curvature(active: ScreenedPoint, constants: Constants) -> Vector:
    """Return the curvature that each coordinate may have on the way to the optimum, (n,), in a sweep over columns."""
    majorant = active.point.curvature(active.coords).majorant
    return constants.majorant_scale * majorant + constants.min_majorant * min_scale(active)


class TriedStep(NamedTuple):
    """A trial w + d: y, the change of the gradient, and model_d = B d, all (n,); the blocks of the penalty."""

    d: Vector
    y: Vector
    model_d: Vector
    blocks: Partition

    def excess_curvature(self, excess_threshold: float) -> Vector:
        """Return d'(y - B d) / d'd of each block at its coordinates, (n,); 0 if it is negative, or if d'(y - B d)
        is below the fraction `excess_threshold` of the mean."""
        excess = np.maximum(self.blocks.total(self.d * (self.y - self.model_d)), 0.0)
        counts = excess > excess_threshold * excess.mean() if excess.size else np.empty(0, bool)
        squares = self.blocks.total(self.d * self.d)
        per_block = np.zeros(excess.size)
        np.divide(excess, squares, out=per_block, where=counts & (squares > 0))
        return self.blocks.spread(per_block)


@dataclass
class Damping:
    """The diagonal D that is added to B0.

    The majorant (`majorant_curvature`) is needed while the model is inexact: at w = 0 a rare label has almost no
    curvature, and a Newton step moves its weights far beyond the optimum. Near the optimum the majorant would slow down
    the convergence. `majorant_share` is therefore halved by every step that decreases the objective as predicted, and
    raised to `initial` if violating coordinates are outside the active set.

    uses_majorant : whether the majorant is part of D
    scale : the factor of B0's diagonal
    by_coordinate : float64 (n,), the damping of single coordinates
    """

    uses_majorant: bool = True
    scale: float = 0.0
    initial: float = 1.0
    majorant_share: float = 1.0
    constants: Constants = field(default_factory=Constants)

    def open_epoch(self, n_active: int, is_complete: bool) -> None:
        """Begin with a new active set; is_complete : whether it has every violating coordinate."""
        self.scale, self.n_failures = 0.0, 0
        self.by_coordinate = np.zeros(n_active)
        if not is_complete:
            self.majorant_share = max(self.majorant_share, self.initial)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Keep the coordinates of a mask, (n,)."""
        self.by_coordinate = self.by_coordinate[keep]

    def diagonal(self, diagonal: Vector, majorant: Vector) -> Vector:
        """Return D, (n,); diagonal : that of B0."""
        damping = self.by_coordinate + self.scale * diagonal
        return damping + self.majorant_share * majorant if self.uses_majorant else damping

    def after_failure(self, trial: TriedStep) -> None:
        """Raise the damping to the excess curvature of a failed trial; after `patience` failures damp all."""
        self._raise_to_excess(trial)
        self.n_failures += 1
        if self.n_failures >= self.constants.patience:
            self.scale = max(self.constants.first_scale, 4.0 * self.scale)
            self.majorant_share = 1.0

    def after_step(self, ratio: float, trial: TriedStep) -> None:
        """Adapt by the trust-region rule; ratio : the decrease of the objective divided by the predicted one."""
        self.n_failures = 0
        self.by_coordinate *= self.constants.damping_decrease * (0.5 if ratio > 0.75 else 1.0)
        if ratio > 0.75:
            self.scale = 0.25 * self.scale if self.scale > self.constants.smallest_scale else 0.0
            self.majorant_share = max(self.constants.min_damping, 0.5 * self.majorant_share)
        elif ratio < 0.5:
            self._raise_to_excess(trial)

    def _raise_to_excess(self, trial: TriedStep) -> None:
        excess = trial.excess_curvature(self.constants.excess_threshold)
        self.by_coordinate = np.maximum(self.by_coordinate, excess)


Search: TypeAlias = Backtracking | DampedSearch
Globalisation: TypeAlias = Backtracking | LevenbergMarquardtSearch
