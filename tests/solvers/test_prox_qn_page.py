"""Algorithm 2 as the manual prints it, in plain numpy, takes the steps of `ProxQN.paper()`."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from problems import dense_weights
from prox_qn_problems import PROBLEMS

from crfqn.penalties import ElasticNet
from crfqn.solvers.prox_qn import ProxQN

pytestmark = pytest.mark.usefixtures("compiled")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "prox-qn.md"
N_STEPS = 25


@pytest.fixture(scope="module")
def printed():
    """Return the names that the page's first block defines."""
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1], names)
    return names


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_page_takes_the_steps_of_the_solver(printed, name):
    problem, l1 = PROBLEMS[name], 0.5
    objective = problem.objective()
    every = np.arange(problem.n_coords)

    def evaluate(w):
        coords = np.flatnonzero(w)
        point = objective.at(coords, w[coords])
        return point.value, point.gradient(every)

    start = objective.at(np.empty(0, np.int64), np.empty(0))
    states = ProxQN.paper().steps(objective, ElasticNet(l1), start)
    solver_steps = (state.point for state in states if not state.is_screening)
    page_steps = printed["prox_qn"](evaluate, np.zeros(problem.n_coords), l1, problem.n_items)
    n_steps = 0
    for point, w in islice(zip(solver_steps, page_steps, strict=False), N_STEPS):
        solver_w = dense_weights(problem, point.coords, point.weights)
        np.testing.assert_allclose(solver_w, w, rtol=1e-6, atol=1e-7)
        n_steps += 1
    assert n_steps > 5
