"""The steps of a fit. Each makes one value of another, and none needs an estimator:

    encode(data, settings) -> Encoded       the labelled items, and the space of their weights
    pose(encoded, settings) -> Problem      what is minimised, under which penalty, and from where
    run(problem, settings) -> Training      the training, by `minimize`

Each family of estimators encodes its data (`chain_data.py`, `item_data.py`); the other two steps are here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from crfqn.arrays import NO_COORDS, NO_WEIGHTS, Coords, SparseWeights
from crfqn.blas import single_threaded_blas
from crfqn.estimators.automatic import Strengths, chosen_strengths, described, learns_from_mistakes
from crfqn.estimators.by_feature import with_data_by_feature
from crfqn.estimators.checkpoint import Checkpoint
from crfqn.estimators.settings import Settings
from crfqn.estimators.sources import Encoded
from crfqn.estimators.training import reason_of_empty
from crfqn.messages import tell
from crfqn.model.space import Space
from crfqn.objectives.linear.feature_map import FeatureMap, centred_weights, given_weights
from crfqn.objectives.support import Support
from crfqn.penalties import Ridge
from crfqn.penalties.penalty import Layout
from crfqn.result import Result
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run, ValidationSet
from crfqn.threads import Pool


@dataclass(eq=False)
class Problem:
    """A fit without its training: what is minimised, from where, and what the weights are of.

    space : labels and features of the weights
    features : the map of the items that count (of the first part, where they are in several), which may centre them
    objective, penalty : the two terms, under `strengths`; `objective.pool` has one thread unless it is set
    intercepts : the coordinates that are not penalised whatever the factors of features
    source : the items, where the model takes more of them than weights; else they may be freed
    """

    space: Space
    features: FeatureMap
    objective: Any
    penalty: Any
    strengths: Strengths
    start: SparseWeights
    intercepts: Coords = field(default_factory=lambda: NO_COORDS)
    validation: ValidationSet | None = None
    source: Any = None

    @property
    def has_free_features(self) -> bool:
        """Whether features, not only intercepts, are unpenalised: then no bound on the optimum is proved in general."""
        return bool(self.penalty.unpenalised.size > self.intercepts.size)

    def given_weights(self, result: Result) -> SparseWeights:
        """Return the weights of a result of the features as they were given, before the map centred them."""
        return given_weights(self.features, SparseWeights(result.coords, result.weights))


def pose(
    encoded: Encoded,
    settings: Settings,
    start: SparseWeights | None = None,
    validation: ValidationSet | None = None,
) -> Problem:
    """Return the problem of encoded items; `start` and `validation` are of the features as they were given."""
    space = encoded.space
    with single_threaded_blas(), Pool(settings.n_threads) as pool:
        objective = encoded.objective(pool)
        features: FeatureMap = objective.first.map
        n_features, n_states, intercepts = features.n_features, objective.n_states, space.unpenalised
        dense = (n_features * np.arange(n_states)[:, None] + np.arange(space.n_dense)).reshape(-1)
        strengths = chosen_strengths(settings.strengths_asked, objective, intercepts, dense)
        if (
            settings.verbose
            and strengths != settings.strengths_asked
            and not learns_from_mistakes(settings.solver)
        ):
            tell(f"strengths: {described(strengths)}")
        layout = with_data_by_feature(settings, space, Layout(n_features, n_states, intercepts))
        penalty: Any = settings.penalty_of(strengths, layout)
        if dense.size:
            penalty = replace(penalty, ridge=Ridge(dense, float(settings.dense_l2)))
        objective.pool = Pool(1)  # the one that it was made with closes
    start = start_within(encoded.support, start)
    begin = NO_WEIGHTS if start is None else centred_weights(features, start)
    if validation is not None:
        score = validation.score
        validation = replace(validation, score=lambda weights: score(given_weights(features, weights)))
    source = encoded.source if encoded.keeps_source else None
    return Problem(space, features, objective, penalty, strengths, begin, intercepts, validation, source)


class Training(NamedTuple):
    """A training that has ended: its result, with weights of the features as the map has them, and why no penalised
    weight is left, None where some are."""

    result: Result
    reason_of_empty: str | None


def run(problem: Problem, settings: Settings, callbacks: AbstractContextManager[Any]) -> Training:
    """Train."""
    solver = settings.make_solver()
    checkpoint = None
    if settings.checkpoint is not None:
        checkpoint = Checkpoint(settings.checkpoint, settings.checkpoint_every)
        if settings.verbose and checkpoint.exists:
            tell(f"found {checkpoint.path}")
    with single_threaded_blas(), Pool(settings.n_threads) as pool, callbacks as callback:
        problem.objective.pool = pool
        result = minimize(
            problem.objective,
            problem.penalty,
            solver,
            Run(
                start=problem.start,
                tol=settings.tol_,
                stop=settings.stop,
                max_iter=settings.max_iter,
                max_seconds=settings.max_seconds,
                callback=callback,
                to_rounding=True,
                held_out=problem.validation,
                checkpoint=checkpoint,
            ),
        )
        return Training(result, reason_of_empty(problem.objective, problem.penalty, result))


def start_within(support: Support | None, start: SparseWeights | None) -> SparseWeights | None:
    """Return what of a start lies on a support."""
    if start is None or support is None:
        return start
    stays = support.contains(start.coords)
    return SparseWeights(start.coords[stays], start.weights[stays])
