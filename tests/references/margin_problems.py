"""Small generated problems for losses of margins, and the library's objectives of them.

Shapes: N items of one position each, F features, K states; W (F, K), coordinates k F + f.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from margin_references import MarginProblem, Vector

from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.losses.logistic import MultinomialLogistic
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.threads import Pool

NAMES = ("multiclass", "multitask", "logistic", "ranking")
HINGES = ("multiclass", "multitask", "ranking")
SINGLE = {
    "multiclass": MulticlassSquaredHinge,
    "multitask": MultitaskSquaredHinge,
    "logistic": MultinomialLogistic.of_labels,
}


def make_problem(
    name: str, seed: int = 0, n_items: int = 25, n_features: int = 6, n_states: int = 4
) -> MarginProblem:
    """Random items with weights, one of them 0; of a ranking two items have no pairs."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_items, n_features)) * (random.random((n_items, n_features)) < 0.6)
    sets = np.eye(n_states, dtype=np.int64)[random.integers(0, n_states, n_items)]
    if name == "ranking":
        sets = (random.random((n_items, n_states)) < 0.4).astype(np.int64)
        sets[0], sets[1] = 0, 1  # no relevant label, and no irrelevant one: no pairs
    weights = random.choice([0.5, 1.0, 2.0], n_items)
    weights[2] = 0.0
    return MarginProblem(name, x, sets, weights)


def loss_of(problem: MarginProblem) -> Any:
    """The library's loss of the scores."""
    if problem.loss == "ranking":
        return MultilabelRanking.from_indicators(problem.sets)
    return SINGLE[problem.loss](problem.labels, problem.n_states)


def flat_objective(store: FeatureStore, loss: Any, weights: Any = None, n_threads: int = 1) -> Objective:
    """The library's objective of a loss of single positions over sparse features."""
    return Objective(SparseMap(store, Pool(n_threads)), loss, weights)


def objective_of(problem: MarginProblem) -> Objective:
    """The library's objective of a reference."""
    store = FeatureStore.from_matrix(problem.x, np.arange(problem.weights.size + 1))
    return flat_objective(store, loss_of(problem), problem.weights)


def point_at(problem: MarginProblem, w: Vector, objective: Any = None) -> Point:
    """The point at W (F, K), given by the non-zeros."""
    flat_weights = w.T.ravel()
    coords = np.flatnonzero(flat_weights)
    return (objective or objective_of(problem)).at(coords, flat_weights[coords])


def weights_like(problem: MarginProblem, seed: int = 1, scale: float = 0.5) -> Vector:
    """Random W (F, K)."""
    return scale * np.random.default_rng(seed).normal(size=(problem.x.shape[1], problem.n_states))
