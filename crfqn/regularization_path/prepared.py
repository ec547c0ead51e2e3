"""Preparation of a training before its first step: the objective, built once, and the point of zero weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from crfqn.errors import InputError
from crfqn.estimators.base import SparseCRF
from crfqn.estimators.strengths.automatic import automatic_strength
from crfqn.estimators.training.blas import single_threaded_blas
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.solvers.largest_strength import largest_strength
from crfqn.solvers.protocols import State
from crfqn.solvers.unpenalised import solve_unpenalised
from crfqn.threads import Pool


class NoStep:
    """Solver that makes no step and keeps its arguments, for an estimator's `fit` to build its objective only."""

    objective: Any
    penalty: Any
    start: Any

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[State]:
        """Yield one state, the start, as the last."""
        self.objective, self.penalty, self.start = objective, penalty, start
        yield State(start, start.value, np.nan, 0, is_final=True)


@dataclass
class PreparedPath:
    """Training before its first step, from which the values of a regularisation path are trained.

    Attributes
    ----------
    model : the estimator, fitted except for its weights, which are zero
    objective, penalty : what it minimises
    solver : the solver of the estimator
    point : Point where all penalised weights are zero; the others (intercepts) are optimal for that
    path_parameter : "l1" or "group_l1", the parameter that varies
    l1_max : the smallest value of it under which all penalised weights stay zero
    automatic : the value of it that "auto" stands for
    """

    model: SparseCRF
    objective: Any
    penalty: Any
    solver: Any
    point: Any
    path_parameter: str
    l1_max: float
    automatic: float

    @property
    def features(self) -> FeatureMap:
        """A map of the features that are trained on, of all items or of some."""
        return self.objective.parts[0].map

    def penalty_at(self, value: float) -> Any:
        """Return the penalty with another value of the varying parameter."""
        return replace(self.penalty, **{self.path_parameter: float(value)})


@contextmanager
def prepare_path(
    estimator: SparseCRF, X: Any, y: Any, sample_weight: Any = None, path_parameter: str = "l1"
) -> Iterator[PreparedPath]:
    """Prepare a regularisation path; a context manager, whose threads are there as long as the block runs."""
    found = NoStep()
    model = clone(estimator)
    model._check_parameters()
    solver = estimator._make_solver()
    model.set_params(solver=found, verbose=0, callback=None, warm_start=False, **{path_parameter: 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it makes no step
        model.fit(X, y, sample_weight)
    del X, y
    same = ("solver", "callback", "verbose", "warm_start")  # a clone's callback would be another object
    model.set_params(**{name: getattr(estimator, name) for name in same})
    objective, penalty, point = found.objective, found.penalty, found.start
    with single_threaded_blas(), Pool(estimator.n_threads) as pool:
        objective.pool = pool
        point = solve_unpenalised(point, penalty.unpenalised)
        automatic = automatic_strength(path_parameter, objective, penalty.unpenalised)
        l1_max = largest_strength(path_parameter, objective, penalty, point)
        if l1_max == 0.0:
            raise InputError(
                f"{path_parameter}: expected features that tell the labels apart, but no weight would change the loss"
            )
        yield PreparedPath(model, objective, penalty, solver, point, path_parameter, l1_max, automatic)
