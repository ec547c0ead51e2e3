"""Small generated problems for losses of margins, and the library's objectives of them.

Shapes: N items of one position each, F features, K states; W (F, K), coordinates k F + f.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from margin_references import MarginProblem, Vector

from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.objectives.objective import Objective, build_objective
from crfqn.objectives.point import Point
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.threads import Pool

NAMES = ("multiclass", "multitask", "logistic", "ranking")
F, K = 6, 4  # features and states of what `make_problem` makes, and of `penalty_of`
HINGES = ("multiclass", "multitask", "ranking")
SINGLE = {
    "multiclass": MulticlassSquaredHinge,
    "multitask": MultitaskSquaredHinge,
    "logistic": MultinomialLogistic.of_labels,
}


@cache
def make_problem(
    name: str, seed: int = 0, n_items: int = 25, n_features: int = F, n_states: int = K
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
        starts = np.concatenate([[0], np.cumsum(problem.sets.sum(axis=1))])
        return MultilabelRanking(starts, np.nonzero(problem.sets)[1], problem.n_states)
    return SINGLE[problem.loss](problem.labels, problem.n_states)


def flat_objective(store: FeatureStore, loss: Any, weights: Any = None, n_threads: int = 1) -> Objective:
    """The library's objective of a loss of single positions over sparse features."""
    return build_objective(SparseMap(store, Pool(n_threads)), loss, weights)


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


PENALTIES = {  # (l1, l2, group), norm
    "L1/L2": ((0.0, 0.0, 2.0), "l2"),
    "L1/Linf": ((0.0, 0.0, 3.0), "linf"),
    "sparse group": ((0.5, 0.1, 1.0), "l2"),
    "sparse group Linf": ((0.4, 0.0, 1.5), "linf"),
    "L1": ((1.0, 0.0, 0.0), "l2"),
    "elastic net": ((0.5, 1.0, 0.0), "l2"),
    "L2": ((0.0, 1.0, 0.0), "l2"),
}


def penalty_of(kind: str, scale: float = 1.0) -> ElasticNet | GroupLasso:
    """One of `PENALTIES`, so many times as strong."""
    (l1, l2, group), norm = PENALTIES[kind]
    if group == 0:
        return ElasticNet(scale * l1, scale * l2)
    return GroupLasso(scale * group, scale * l1, scale * l2, norm, n_features=F, n_states=K)


def large(
    n_states: int, n_items: int = 900, n_features: int = 100, seed: int = 0, is_binary: bool = False
) -> tuple[Vector, Any, FeatureStore, GroupLasso]:
    """Enough entries for a team of threads, 40 large rows and 60 small ones."""
    random = np.random.default_rng(seed)
    is_large = np.isin(np.arange(n_features) % 5, (0, 3))
    x = random.normal(size=(n_items, n_features)) * np.where(is_large, 1.0, 4.0)
    x *= random.random(x.shape) < np.where(is_large, 0.7, 0.03)
    labels = random.integers(0, n_states, n_items).astype(np.int32)
    store = FeatureStore.from_matrix((x != 0) if is_binary else x, np.arange(n_items + 1))
    penalty = GroupLasso(30.0, n_features=n_features, n_states=n_states)
    return x, labels, store, penalty
