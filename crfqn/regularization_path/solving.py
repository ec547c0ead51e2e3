"""Trainings under many strengths over one store of the data, each from the optimum of one before.

`solve_path` descends from the largest l1, `solve_around` goes from the first strengths to their neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import SparseWeights
from crfqn.blas import single_threaded_blas
from crfqn.errors import InputError
from crfqn.estimators.automatic import Strengths, automatic_strength
from crfqn.estimators.base import Problem, SparseLinearModel, given_result
from crfqn.objectives.linear.feature_map import centred_weights
from crfqn.regularization_path.grid import Grid
from crfqn.result import OPTIMAL, Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Estimated
from crfqn.solvers.strong_rule import StrongRule
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised
from crfqn.threads import Pool

Score = Callable[[SparseLinearModel], float]
CUT_OFF = (Status.INTERRUPTED, Status.CALLBACK)  # trainings that somebody has ended


@dataclass
class PreparedPath:
    """Training before its first step, from which all strengths are trained; `problem.model` is fitted except for its
    weights."""

    problem: Problem
    solver: Any


@dataclass
class Descent(PreparedPath):
    """Training from which the values of `parameter`, "l1" or "group_l1", are trained from the largest down.

    At `point` all penalised weights are zero and the others (intercepts) optimal for that; `l1_max` is the smallest
    value that keeps them zero, `automatic` the one that "auto" stands for.
    """

    parameter: str
    point: Any
    l1_max: float
    automatic: float


@contextmanager
def prepare_around(
    estimator: SparseLinearModel, X: Any, y: Any, sample_weight: Any = None, **changes: Any
) -> Iterator[PreparedPath]:
    """Prepare trainings of an estimator, some parameters replaced; a context manager, whose threads are there as long
    as the block runs."""
    estimator._check_parameters()
    if estimator.checkpoint is not None:
        raise InputError(
            f"checkpoint: expected None, as paths and grids keep none, got {estimator.checkpoint!r}"
        )
    solver = estimator._make_solver()
    quiet = {"verbose": 0, "callback": None, "warm_start": False}
    problem = clone(estimator).set_params(**quiet, **changes).prepare(X, y, sample_weight)
    del X, y
    # A clone's callback would be another object.
    problem.model.set_params(**{name: getattr(estimator, name) for name in quiet})
    with single_threaded_blas(), Pool(estimator.n_threads) as pool:
        problem.objective.pool = pool
        yield PreparedPath(problem, solver)


@contextmanager
def prepare_path(
    estimator: SparseLinearModel, X: Any, y: Any, sample_weight: Any = None, path_parameter: str = "l1"
) -> Iterator[Descent]:
    """Prepare a regularisation path as `prepare_around` does, with the largest value of what varies."""
    changes = {path_parameter: 1.0, "tol": estimator._tol_to(OPTIMAL)}
    with prepare_around(estimator, X, y, sample_weight, **changes) as prepared:
        problem = prepared.problem
        objective, penalty = problem.objective, problem.penalty
        point = solve_unpenalised(objective.at(*problem.start), penalty.unpenalised)
        automatic = automatic_strength(path_parameter, objective, penalty.unpenalised, penalty.ridge.coords)
        l1_max = largest_strength(path_parameter, objective, penalty, point)
        if l1_max == 0.0:
            raise InputError(
                f"{path_parameter}: expected features that tell the labels apart, but no weight would change the loss"
            )
        yield Descent(problem, prepared.solver, path_parameter, point, l1_max, automatic)


@dataclass(frozen=True, eq=False)
class PathStep:
    """The training under one value: a fitted model, its score on the validation items (nan without), and `n_broken`,
    the weights that the strong rule had left out and the check of all gradients added."""

    model: SparseLinearModel
    score: float
    n_broken: int = 0

    @property
    def is_cut_off(self) -> bool:
        """Whether somebody has ended the training: what comes after it would be, too."""
        return self.model.result_.status in CUT_OFF


def solve_path(
    prepared: Descent, values: NDArray[np.float64], grid: Grid, score: Score | None = None
) -> Iterator[PathStep]:
    """Train at every value, descending, yielding each step when done; end by an interrupt."""
    point, before = prepared.point, max(prepared.l1_max, float(values[0]))
    after = np.append(values[1:], 0.0)
    for value, following in zip(values.tolist(), after.tolist(), strict=True):
        tol = grid.tol(prepared.problem.model.tol) if following > 0 else prepared.problem.model.tol
        rule = StrongRule(prepared.solver, before, following, tol)
        strengths = {prepared.parameter: value}
        result = train(prepared, strengths, rule, point, tol, proves_zeros=following == 0)
        step = PathStep(model := fitted(prepared, strengths, result), scored(model, score), rule.n_broken)
        yield step
        if step.is_cut_off:
            return
        point, before = rule.point, value
        if point is None or point.coords is not result.coords:
            point = prepared.problem.objective.at(result.coords, result.weights)


def solve_around(
    prepared: PreparedPath, values: Sequence[Strengths], score: Score | None = None
) -> Iterator[PathStep]:
    """Train under all strengths, each from the optimum of the nearest before it, as `solve_path` does; as near to the
    optimum as `fit`, so that scores are those of its models."""
    stop = prepared.problem.model._tolerance
    solved: list[tuple[NDArray[np.float64], SparseWeights]] = []
    for strengths in values:
        place = np.log([*strengths.values()])
        start = prepared.problem.start
        if solved:
            _, start = min(solved, key=lambda one: float(np.square(one[0] - place).sum()))
        result = train(
            prepared, strengths, prepared.solver, start, stop, proves_zeros=False, to_rounding=True
        )
        solved.append((place, SparseWeights(result.coords, result.weights)))
        yield (step := PathStep(model := fitted(prepared, strengths, result), scored(model, score)))
        if step.is_cut_off:
            return


def scored(model: SparseLinearModel, score: Score | None) -> float:
    """Return the model's score, nan without any."""
    return np.nan if score is None else score(model)


def refine(prepared: PreparedPath, strengths: Strengths, before: Result, tol: float) -> SparseLinearModel:
    """Return the model of a result under strengths, proved to `tol`; its passes, iterations and seconds are those of
    both trainings together."""
    start = centred_weights(prepared.problem.features, SparseWeights(before.coords, before.weights))
    result = train(prepared, strengths, prepared.solver, start, tol)
    total = {name: getattr(before, name) + getattr(result, name) for name in ("passes", "n_iter", "seconds")}
    return fitted(prepared, strengths, replace(result, **total))


def train(
    prepared: PreparedPath,
    strengths: Strengths,
    solver: Any,
    start: Any,
    tol: float | Estimated,
    proves_zeros: bool = True,
    to_rounding: bool = False,
) -> Result:
    """Train under strengths from `start`, weights or a point of them; return the result."""
    settings = prepared.problem.model
    return minimize(
        prepared.problem.objective,
        prepared.problem.penalty.with_strengths(**strengths),
        solver,
        start,
        tol=tol,
        proves_zeros=proves_zeros,
        to_rounding=to_rounding,
        max_iter=settings.max_iter,
        max_seconds=settings.max_seconds,
        callback=settings.callback,
    )


def fitted(prepared: PreparedPath, strengths: Strengths, result: Result) -> SparseLinearModel:
    """Return an estimator fitted under strengths with the weights of `result`; it shares labels and names with
    others."""
    problem = prepared.problem
    model = copy(problem.model)
    for name, value in strengths.items():
        setattr(model, name, value)
    model._adopt_strengths(strengths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one for all, at the path's end
        model._keep(given_result(problem.features, result))
    model._finish(problem)
    return model
