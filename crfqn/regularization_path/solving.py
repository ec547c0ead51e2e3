"""Trainings along a regularisation path, from the largest l1 down, each from the optimum of the one before.

`prepare_path` builds the objective once, and finds the point of zero weights and the l1 that it is optimal for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import SparseWeights
from crfqn.errors import InputError
from crfqn.estimators.base import Problem, SparseLinearModel, given_result
from crfqn.estimators.blas import single_threaded_blas
from crfqn.estimators.strengths import automatic_strength
from crfqn.objectives.linear.feature_map import centred_weights
from crfqn.regularization_path.grid import Grid
from crfqn.result import OPTIMAL, Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.screening.strong_rule import StrongRule
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised
from crfqn.threads import Pool

Score = Callable[[SparseLinearModel], float]


@dataclass
class PreparedPath:
    """Training before its first step, from which the values of `path_parameter` ("l1" or "group_l1") are trained.

    `problem.model` is fitted except for its weights. At `point` all penalised weights are zero and the others
    (intercepts) optimal for that; `l1_max` is the smallest value that keeps them zero, `automatic` the one that "auto"
    stands for.
    """

    problem: Problem
    solver: Any
    point: Any
    path_parameter: str
    l1_max: float
    automatic: float

    def penalty_at(self, value: float) -> Any:
        """Return the penalty with another value of the varying parameter."""
        return replace(self.problem.penalty, **{self.path_parameter: float(value)})


@contextmanager
def prepare_path(
    estimator: SparseLinearModel, X: Any, y: Any, sample_weight: Any = None, path_parameter: str = "l1"
) -> Iterator[PreparedPath]:
    """Prepare a regularisation path; a context manager, whose threads are there as long as the block runs."""
    estimator._check_parameters()
    solver = estimator._make_solver()
    quiet = {"verbose": 0, "callback": None, "warm_start": False, path_parameter: 1.0}
    quiet["tol"] = estimator._tol_to(OPTIMAL)
    problem = clone(estimator).set_params(**quiet).prepare(X, y, sample_weight)
    del X, y
    same = ("callback", "verbose", "warm_start")  # a clone's callback would be another object
    problem.model.set_params(**{name: getattr(estimator, name) for name in same})
    objective, penalty = problem.objective, problem.penalty
    with single_threaded_blas(), Pool(estimator.n_threads) as pool:
        objective.pool = pool
        point = solve_unpenalised(objective.at(*problem.start), penalty.unpenalised)
        automatic = automatic_strength(path_parameter, objective, penalty.unpenalised)
        l1_max = largest_strength(path_parameter, objective, penalty, point)
        if l1_max == 0.0:
            raise InputError(
                f"{path_parameter}: expected features that tell the labels apart, but no weight would change the loss"
            )
        yield PreparedPath(problem, solver, point, path_parameter, l1_max, automatic)


@dataclass(frozen=True, eq=False)
class PathStep:
    """One value of a path: a fitted model, its score on the validation items (nan without), and `n_broken`, the weights
    that the strong rule had left out and the check of all gradients added."""

    model: SparseLinearModel
    score: float
    n_broken: int


@dataclass
class Waiting:
    """Early stopping after `patience` scores in succession, counted once one beats the first, that are no better than
    the best before them; None: never. Under strong penalties all models predict the same label."""

    patience: int | None
    first: float = np.nan
    best: float = np.nan
    n_worse: int = 0

    def is_over(self, score: float) -> bool:
        """Add a score; return whether to stop."""
        if np.isnan(self.first):
            self.first = self.best = score
        self.n_worse = 0 if score > self.best else self.n_worse + 1
        self.best = max(self.best, score)
        return self.patience is not None and self.best > self.first and self.n_worse >= self.patience


def solve_path(
    prepared: PreparedPath, values: NDArray[np.float64], grid: Grid, score: Score | None = None
) -> Iterator[PathStep]:
    """Train at every value, descending, yielding each step when done; end by an interrupt."""
    point, before = prepared.point, max(prepared.l1_max, float(values[0]))
    after = np.append(values[1:], 0.0)
    for value, following in zip(values.tolist(), after.tolist(), strict=True):
        tol = grid.tol(prepared.problem.model.tol) if following > 0 else prepared.problem.model.tol
        rule = StrongRule(prepared.solver, before, following, tol)
        result = train(prepared, value, rule, point)
        model = fitted(prepared, value, result)
        yield PathStep(model, np.nan if score is None else score(model), rule.n_broken)
        if result.status in (Status.INTERRUPTED, Status.CALLBACK):
            return
        point, before = rule.point, value
        if point is None or point.coords is not result.coords:
            point = prepared.problem.objective.at(result.coords, result.weights)


def refine(prepared: PreparedPath, model: SparseLinearModel) -> SparseLinearModel:
    """Return the model solved to `tol`; its passes, iterations and seconds are those of both trainings together."""
    before = model.result_
    rule = StrongRule(prepared.solver, np.inf, 0.0, prepared.problem.model.tol)
    value = getattr(model, prepared.path_parameter)
    start = centred_weights(prepared.problem.features, SparseWeights(before.coords, before.weights))
    result = train(prepared, value, rule, prepared.problem.objective.at(*start))
    total = {name: getattr(before, name) + getattr(result, name) for name in ("passes", "n_iter", "seconds")}
    return fitted(prepared, value, replace(result, **total))


def train(prepared: PreparedPath, value: float, rule: StrongRule, start: Any) -> Result:
    """Train at one value from the point `start`, whose gradient at all coordinates is known; return the result."""
    settings = prepared.problem.model
    return minimize(
        prepared.problem.objective,
        prepared.penalty_at(value),
        rule,
        start,
        tol=rule.tol,
        proves_zeros=rule.after == 0,
        max_iter=settings.max_iter,
        max_seconds=settings.max_seconds,
        callback=settings.callback,
    )


def fitted(prepared: PreparedPath, value: float, result: Result) -> SparseLinearModel:
    """Return an estimator fitted at this value with the weights of `result`; it shares labels and names with others."""
    problem = prepared.problem
    model = copy(problem.model)
    setattr(model, prepared.path_parameter, value)
    model._adopt_strengths({prepared.path_parameter: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one for all, at the path's end
        model._keep(given_result(problem.features, result))
    model._finish(problem)
    return model
