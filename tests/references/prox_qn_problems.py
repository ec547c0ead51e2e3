"""Problems and variants of Prox-QN, for all of its tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from problems import dense_weights, ends_within, make_problem, make_tree_problem
from references import Penalised

from crfqn.objectives.curvature import MAX_SPARSE_PAIRS, PAIR_MULTIPLICATIONS, token_model
from crfqn.objectives.marginals import Marginals
from crfqn.penalties import ElasticNet
from crfqn.result import Result
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import (
    Diagonal,
    Identity,
    ProxQN,
    Stage,
    TokenWise,
    TopViolators,
    WarmStart,
)  # fmt: skip
from crfqn.solvers.stopping import Run

CHAINS = {
    "binary": make_problem(1),
    "two labels": make_problem(2, n_items=25, n_features=10, n_states=2, longest=5),
    "real": make_problem(3, is_binary=False),
    "wide": make_problem(4, n_items=30, n_features=25, n_states=3),
    "length 1": make_problem(5, n_items=30, longest=1),
    "weighted": replace(make_problem(6), weights=np.array([0.5, 3, 1, 2, 0.1, 1, 1, 7, 1, 2, 0.3, 1])),
}
TAXONOMIES = {
    "forest": make_tree_problem("forest", 1),
    "inner labels": make_tree_problem("labels at inner nodes", 2, n_items=60, is_binary=True),
    "flat": make_tree_problem("flat", 3, n_items=60, n_features=12),
    "weighted forest": make_tree_problem("forest", 4, n_features=8, has_weights=True),
}
PROBLEMS = CHAINS | TAXONOMIES


@dataclass(frozen=True)
class Priced(TokenWise):
    """The token-wise metric with other prices of its forms, as in `token_model`: what large problems have it do."""

    pair: float = PAIR_MULTIPLICATIONS
    max_pairs: float = MAX_SPARSE_PAIRS

    def matrix(self, active, n_passes):
        point, coords = active.point, active.coords
        split, diagonal = point.objective.split(coords), point.curvature(coords).diagonal
        return token_model(
            Marginals(point.whole), split, diagonal, self.n_positions, self.max_dense, pair_multiplications=self.pair,
            max_pairs=self.max_pairs,
        )  # fmt: skip


SOLVERS = {
    "default": ProxQN(),
    "diagonal": ProxQN(metric=Diagonal()),
    "identity": ProxQN(metric=Identity()),
    "paper": ProxQN.paper(),
    # What large problems do: start on samples, let few coordinates in, sample and refresh the metric.
    "as if large": ProxQN(few_weights=0),
    "warm-up": ProxQN(
        warm_start=WarmStart((Stage(4, 3.0), Stage(4, 1.0), Stage(2, 1.0)), fewest_positions=1)
    ),
    "few may enter": ProxQN(entry=TopViolators(3)),
    # Of so few positions the pairs are cheaper than products, unless they are said to be dear.
    "sampled metric": ProxQN(metric=Priced(10, refresh=2, pair=np.inf)),
    "dense metric": ProxQN(metric=Priced(pair=np.inf)),
    "sparse metric": ProxQN(metric=Priced(pair=1e-9)),
    "no room for a matrix": ProxQN(metric=Priced(max_dense=0, max_pairs=0)),
    "short memory": ProxQN(memory=1),
}


@cache
def optimum(name: str, l1: float, l2: float) -> float:
    return PROBLEMS[name].optimum(l1, l2)[0]


def run(problem: Penalised, l1: float, l2: float = 0.0, solver: ProxQN | None = None, **settings) -> Result:
    settings = {"tol": 1e-6, **settings}
    with ends_within():
        return minimize(problem.objective(), ElasticNet(l1, l2), solver or ProxQN(), Run(**settings))


def value_of(problem: Penalised, result: Result, l1: float, l2: float = 0.0) -> float:
    return problem.value(dense_weights(problem, result.coords, result.weights), l1, l2)
