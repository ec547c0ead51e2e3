"""The algorithms as the manual prints them, in plain numpy, take the steps of the multiclass solvers."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from crfqn.arrays import NO_COORDS, NO_VALUES
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassHinge, MulticlassSquaredHinge
from crfqn.objectives.objective import build_objective
from crfqn.papers.chierchia2015.regularised import FBPD
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.threads import Pool

pytestmark = pytest.mark.usefixtures("compiled")

DOCS = Path(__file__).resolve().parents[2] / "docs"
N, F, K, N_STEPS = 40, 7, 4, 25


def printed(page):
    """Return the names that the first block of a page defines."""
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)[1], names)
    return names


def items(seed):
    """Return sparse items of some features, and their labels."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(N, F)) * (random.random((N, F)) < 0.6)
    y = random.integers(0, K, N).astype(np.int32)
    x[np.arange(N), y] += 1.0
    return x, y


def objective_of(x, y, loss):
    store = FeatureStore.from_matrix(scipy.sparse.csr_array(x), np.arange(N + 1))
    return build_objective(SparseMap(store, Pool(1)), loss(y, K))


def assert_equal_steps(solver, objective, penalty, page_steps, has_screenings=False):
    """Compare the weights (K, F) after each step of a solver with those that a page's algorithm yields."""
    states = solver.steps(objective, penalty, objective.at(NO_COORDS, NO_VALUES))
    points = (state.point for state in states if not (has_screenings and state.is_screening))
    n_steps = 0
    for point, table in islice(zip(points, page_steps, strict=False), N_STEPS):
        weights = np.zeros(K * F)
        weights[point.coords] = point.weights
        np.testing.assert_allclose(weights.reshape(K, F), table, rtol=1e-7, atol=1e-9)
        n_steps += 1
    assert n_steps == N_STEPS


@pytest.mark.parametrize("seed", [0, 1])
def test_block_coordinate_descent(seed):
    x, y = items(seed)
    page_steps = printed("bcd.md")["block_coordinate_descent"](x, y, K, 0.02)
    solver = RowDescent(min_curvature_ratio=1.0, free_share=0.0, shrink=False, memory=0, shuffle=False)
    assert_equal_steps(
        solver,
        objective_of(x, y, MulticlassSquaredHinge),
        GroupLasso(N * 0.02, n_features=F, n_states=K),
        (table.T for table in page_steps),
        has_screenings=True,
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_dual_decomposition(seed):
    x, y = items(seed)
    order = np.random.default_rng(seed).permutation(N)
    page_steps = printed("dual-decomposition.md")["dual_decomposition"](x, y, K, 0.5, order)
    solver = DualDecomposition("sort", shrink=False, reshuffle=False, faces=False, random_state=seed)
    assert_equal_steps(
        solver, objective_of(x, y, MulticlassHinge), ElasticNet(0.0, 2.0), (w for w, _ in page_steps)
    )


@pytest.mark.parametrize("omega", [0.5, 2.0])
def test_fbpd(omega):
    x, y = items(0)
    objective, names = objective_of(x, y, MulticlassHinge), printed("fbpd.md")
    norm = objective.state(HingeSplitting).norm("differences")

    def prox(weights, tau):
        return names["soft_threshold"](weights, 0.7 * tau)

    page_steps = names["fbpd"](x, y, K, 1.0, prox, 1.0 / (omega * norm), omega / norm)
    solver = FBPD(norm="differences", omega=omega, n_steps=1, restarts=False)
    start = np.zeros((K, F))  # the solver's first state
    assert_equal_steps(
        solver, objective, ElasticNet(0.7), (table for table in [start, *islice(page_steps, N_STEPS)])
    )
