"""Globalisation of Prox-QN: the paper's line search, or solving the model again with more damping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.line_search import (  # fmt: skip
    BLURRED,
    MOST_TRIALS,
    Trial,
    backtracking,
    decrease_by_slopes,
    falls_enough,
    is_hidden,
)
from crfqn.solvers.protocols import Point, Vector
from crfqn.solvers.prox_qn.active_set import ActiveSet
from crfqn.solvers.prox_qn.damping import WARM_SHARE, Damping, TriedStep
from crfqn.solvers.prox_qn.metric import Metric, majorant_curvature
from crfqn.solvers.prox_qn.quadratic_model import QuadraticModel
from crfqn.solvers.settings import check_shares

# Share of the metric's curvature along a step. Where data are separable the curvature falls by e with every step that a
# new metric makes, and one of 20 steps before makes them as many times too short, as do its secant pairs.
OUTDATED = 0.25
MOST_SOLUTIONS = MOST_TRIALS // 2  # damping grows fourfold from trial to trial, a line search halves


class Step(NamedTuple):
    """A step that was made: s = w+ - w and y = g+ - g, (n,), and where they are known B0 s, (n,), and s'B s."""

    s: Vector
    y: Vector
    base_s: NDArray[np.floating] | None = None
    curvature: float = 0.0

    @property
    def is_outdated(self) -> bool:
        """Whether the curvature along the step is far below the metric's, which belongs to other weights."""
        return float(self.s @ self.y) < OUTDATED * self.curvature


class Globalised(NamedTuple):
    """A step, or None; and whether there should have been one: rounding does not hide what it could win."""

    step: Step | None
    has_failed: bool


class Search(Protocol):
    """Memory of a run's steps."""

    def open_epoch(self, active: ActiveSet) -> None: ...

    def restrict(self, keep: NDArray[np.bool_]) -> None: ...

    def move(self, active: ActiveSet, model: QuadraticModel) -> Globalised:
        """Solve the model and move the active set's point to where the objective has fallen enough."""
        ...


class Globalisation(Protocol):
    """Settings."""

    def begin(self, metric: Metric, is_warm: bool) -> Search:
        """Return the search of a run; `is_warm`: there are weights to start from."""
        ...


@dataclass(frozen=True)
class Backtracking:
    """The paper's line search along d (lines 31-35): alpha = 1, beta, beta^2, ... until Armijo's rule holds.

    Parameters
    ----------
    armijo : float, sigma
    beta : float
    """

    armijo: float = 0.01
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_shares(self, "armijo", "beta")

    def begin(self, metric: Metric, is_warm: bool) -> Backtracking:
        return self

    def open_epoch(self, active: ActiveSet) -> None:
        """Do nothing: a backtracking search remembers nothing."""

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Do nothing: a backtracking search remembers nothing."""

    def move(self, active: ActiveSet, model: QuadraticModel) -> Globalised:
        """Solve the model and search along d (lines 21-38)."""
        slope = model.solve(np.zeros(active.w.size))
        if is_hidden(-slope, active.value):
            return Globalised(None, has_failed=False)
        ray = active.ray(model.d)

        def attempt(alpha: float) -> Trial[Point]:
            trial, decrease = active.try_step(alpha * model.d, ray, alpha)
            return Trial(trial, falls_enough(decrease, alpha * slope, self.armijo))

        found = backtracking(attempt, 1.0, self.beta)
        if found.outcome is None:
            return Globalised(None, found.has_failed)
        s = found.length * model.d
        return Globalised(Step(s, active.accept(s, found.outcome)), has_failed=False)


@dataclass(frozen=True)
class Resolving:
    """Solve the model again with a larger diagonal when a step fails.

    w + a d with a < 1 never makes a weight exactly zero: on OCR (l1 = 100) backtracking kept 72,000 coordinates active
    for 300 iterations, where this has 1,500 to 2,600.

    Parameters
    ----------
    armijo : float, sigma of the sufficient decrease
    """

    armijo: float = 0.01

    def __post_init__(self) -> None:
        check_shares(self, "armijo")

    def begin(self, metric: Metric, is_warm: bool) -> ResolvingSearch:
        share = WARM_SHARE if is_warm else 1.0
        return ResolvingSearch(self.armijo, Damping(metric.is_measured, initial=share, majorant_share=share))


@dataclass
class ResolvingSearch:
    """The damping of a run, and the curvature that it is measured by."""

    armijo: float
    damping: Damping

    def open_epoch(self, active: ActiveSet) -> None:
        """Measure the curvature that the coordinates may meet."""
        self.damping.open_epoch(active.coords.size, is_complete=active.outside == 0.0)
        uses_majorant = self.damping.uses_majorant
        self.majorant = majorant_curvature(active) if uses_majorant else np.zeros(active.coords.size)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Follow an active set that shrinks."""
        self.damping.restrict(keep)
        self.majorant = self.majorant[keep]

    def move(self, active: ActiveSet, model: QuadraticModel) -> Globalised:
        """Solve and try, until a trial decreases the objective enough."""
        is_promising = False
        for _ in range(MOST_SOLUTIONS):
            damping = self.damping.diagonal(model.metric.diagonal, self.majorant)
            slope = model.solve(damping)
            if is_hidden(-slope, active.value):
                break
            model_d = model.metric_times_d()
            if not 0 < model.d @ model_d + model.d @ (damping * model.d) < np.inf:
                # What was left out of a sparse matrix, or rounding, has made B indefinite: no minimum to step to.
                model.metric.keep_diagonal()
                model.restart()
                continue
            is_promising = is_promising or not is_hidden(-slope, active.value, BLURRED)
            trial, decrease = active.try_step(model.d, active.ray(model.d))
            blocks = active.local.blocks
            if not falls_enough(decrease, slope, self.armijo):
                y = active.change_of_gradient(trial)
                decrease = decrease_by_slopes(decrease, active.value, slope, float(y @ model.d))
            if falls_enough(decrease, slope, self.armijo):
                curvature = float(model.d @ model_d)
                predicted = -slope - 0.5 * curvature
                y = active.accept(model.d, trial)
                ratio = decrease / predicted if predicted > 0 else 0.0
                self.damping.after_step(ratio, TriedStep(model.d, y, model_d, blocks))
                return Globalised(Step(model.d, y, model.base_d, curvature), has_failed=False)
            self.damping.after_failure(TriedStep(model.d, y, model_d, blocks))
            del trial  # as large as the data: the next one takes its memory
        return Globalised(None, has_failed=is_promising)
