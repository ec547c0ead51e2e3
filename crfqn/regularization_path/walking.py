"""Trainings along a regularisation path, from the largest l1 down, each from the optimum of the one before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import SparseWeights
from crfqn.estimators.base import SparseCRF, given_result
from crfqn.objectives.linear.centring import centred_weights
from crfqn.objectives.point import LazyPoint
from crfqn.regularization_path.grid import Grid
from crfqn.regularization_path.prepared import PreparedPath
from crfqn.result import Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.screening.strong_rule import StrongRule

Score = Callable[[SparseCRF], float]


@dataclass(frozen=True, eq=False)
class Step:
    """One value of a regularisation path.

    Attributes
    ----------
    model : fitted estimator
    score : on the validation items, nan without
    n_broken : weights that the strong rule had left out and the check of all gradients added
    """

    model: SparseCRF
    score: float
    n_broken: int


@dataclass
class Waiting:
    """Early stopping after `patience` scores in succession that are no better than the best before them; None: never.

    Counting starts once a score is better than the first: under strong penalties all models predict the same label.
    """

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


def walk(
    prepared: PreparedPath,
    values: NDArray[np.float64],
    grid: Grid,
    score: Score | None = None,
) -> Iterator[Step]:
    """Train at every value, descending, yielding each step when done; end by an interrupt."""
    point, before = prepared.point, max(prepared.l1_max, float(values[0]))
    after = np.append(values[1:], 0.0)
    for value, following in zip(values.tolist(), after.tolist(), strict=True):
        tol = grid.tol(prepared.model.tol) if following > 0 else prepared.model.tol
        rule = StrongRule(prepared.solver, before, following, tol)
        result = train(prepared, value, rule, point)
        model = fitted(prepared, value, result)
        found = score(model) if score is not None else np.nan
        yield Step(model, found, rule.n_broken)
        if result.status is Status.INTERRUPTED or result.status is Status.CALLBACK:
            return
        point, before = rule.point, value
        if point is None or isinstance(point, LazyPoint) or point.coords is not result.coords:
            point = prepared.objective.at(result.coords, result.weights)


def refine(prepared: PreparedPath, model: SparseCRF) -> SparseCRF:
    """Return the model solved to `tol`; its passes, iterations and seconds are those of both trainings together."""
    before = model.result_
    rule = StrongRule(prepared.solver, np.inf, 0.0, prepared.model.tol)
    value = getattr(model, prepared.path_parameter)
    start = centred_weights(prepared.features, SparseWeights(before.coords, before.weights))
    result = train(prepared, value, rule, prepared.objective.at(*start))
    total = {name: getattr(before, name) + getattr(result, name) for name in ("passes", "n_iter", "seconds")}
    return fitted(prepared, value, replace(result, **total))


def train(prepared: PreparedPath, value: float, rule: StrongRule, start: Any) -> Result:
    """Train at one value from the point `start`, whose gradient at all coordinates is known; return the result."""
    settings = prepared.model
    return minimize(
        prepared.objective,
        prepared.penalty_at(value),
        rule,
        start,
        tol=rule.tol,
        proves_zeros=rule.after == 0,
        max_iter=settings.max_iter,
        max_seconds=settings.max_seconds,
        callback=settings.callback,
    )


def fitted(prepared: PreparedPath, value: float, result: Result) -> SparseCRF:
    """Return an estimator fitted at this value with the weights of `result`; it shares labels and names with others."""
    result_model = copy(prepared.model)
    setattr(result_model, prepared.path_parameter, value)
    result_model._adopt_strengths({prepared.path_parameter: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one for all, at the path's end
        result_model._keep(given_result(prepared.features, result))
    whole = getattr(prepared.objective, "whole", None)
    if whole is not None:  # there is none of a bound on a loss, and nothing to learn besides the weights
        result_model._finish(whole.map, whole.loss, whole.weights)
    return result_model
