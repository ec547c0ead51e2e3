"""Small chains for the tests of `ChainCRF`, and trained models to compare."""

from __future__ import annotations

import numpy as np
from problems import Problem, make_problem

from crfqn import ChainCRF

PROBLEM = make_problem(11, n_items=30, n_features=7, n_states=3, longest=5)
BINARY = [[[f"f{j}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]


def dicts(problem: Problem) -> list[list[dict]]:
    return [[{f"f{j}": float(row[j]) for j in np.flatnonzero(row)} for row in item] for item in problem.items]


def fitted(problem: Problem = PROBLEM, **settings) -> ChainCRF:
    return ChainCRF(**{"l1": 0.5, **settings}).fit(problem.sequences, problem.targets)


def assert_same_model(left: ChainCRF, right: ChainCRF) -> None:
    """Bit by bit."""
    for name in ("coef_", "transition_coef_"):
        assert getattr(left, name).toarray().tobytes() == getattr(right, name).toarray().tobytes()
    assert left.result_.value == right.result_.value
    assert left.classes_.tolist() == right.classes_.tolist()


def same_paths(left: list, right: list) -> bool:
    return list(map(list, left)) == list(map(list, right))
