"""Data that a model fits almost without an error: heavy items and weak penalties, up to where all marginals are 0 or 1.

Their loss falls by many orders of magnitude on the way, their curvature with it, and in the end below the rounding
of the scores. The default solver has to prove its optimum all the same, without a warning of numpy.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from problems import make_problem, make_tree_problem

from crfqn import ChainCRF
from crfqn.objectives.curvature import token_model
from crfqn.objectives.marginals import Marginals
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.line_search import decrease_by_slopes
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run

pytestmark = [pytest.mark.usefixtures("compiled"), pytest.mark.filterwarnings("error")]
KINDS = ("chain", "forest", "labels at inner nodes", "flat")
HEAVY = (1.0, 1e4, 1e6)


def separable(kind, seed, weight=1.0):
    """Labels that a linear model gives without an error, all items as heavy."""
    random = np.random.default_rng(seed)
    if kind == "chain":
        problem = make_problem(seed, n_items=20, n_features=8, is_binary=False)
        targets = (problem.matrix @ random.normal(size=(8, 3))).argmax(axis=1).astype(np.int32)
        return replace(problem, targets=targets, weights=np.full(20, weight))
    problem = make_tree_problem(kind, seed, n_items=60, n_features=8)
    scores = problem.forest.label_scores(random.normal(size=(problem.n_states, 8)) @ problem.x.T)
    return replace(
        problem, targets=problem.forest.labels[scores.argmax(axis=0)], item_weights=np.full(60, weight)
    )


def two_positions(**settings):
    """A sequence of two positions that counts ten thousand times."""
    items, labels = [np.array([[1, 0.3], [-0.5, 2]])], [[0, 1]]
    return ChainCRF(0.1, **settings).fit(items, labels, sample_weight=[1e4]).result_


@pytest.mark.parametrize("solver", ["prox-qn", "prox-qn-paper", "owl-qn"])
def test_every_solver_finds_the_optimum_of_a_heavy_sequence(solver):
    result = two_positions(solver=solver)
    assert result.status is Status.CONVERGED
    assert result.value == pytest.approx(1.3603, rel=1e-3)


@pytest.mark.parametrize("l1", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("weight", HEAVY)
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_proved(kind, weight, l1):
    result = minimize(
        separable(kind, 0, weight).objective(), ElasticNet(l1), ProxQN(), Run(tol=1e-3, max_iter=2000)
    )
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-3


@pytest.mark.parametrize(
    ("decrease", "curvature", "expected"),
    [
        (-1e-6, 0.5e-8, 0.75e-8),  # less than the slope at the end leaves: rounding
        (1e-6, 0.5e-8, 0.75e-8),  # more than the slope at the start foretells
        (1e-8, 0.5e-8, 1e-8),  # between both: the values are believed
        (-0.5e-8, 2e-8, -0.5e-8),
        (-1e-6, 3e-8, -0.5e-8),  # uphill by the slopes, too
        (-1e-6, -1e-9, -1e-6),  # slopes of no convex function
        (-1e-6, np.nan, -1e-6),
    ],
)
def test_a_decrease_that_contradicts_the_slopes_is_rounding(decrease, curvature, expected):
    """Of a convex function it lies between what the slopes at both ends foretell: here 1e-8 less the curvature."""
    found = decrease_by_slopes(decrease, value=1e-3, slope=-1e-8, curvature=curvature)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("solver", [ProxQN(few_weights=0), ProxQN()], ids=["as if large", "default"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_another_method(kind, solver):
    problem = separable(kind, 1)
    result = minimize(problem.objective(), ElasticNet(0.01), solver, Run(tol=1e-5))
    assert result.value == pytest.approx(problem.optimum(0.01, 0.0)[0], rel=1e-5)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_the_hessian_is_positive_where_all_is_decided(kind, scale, form, monkeypatch):
    """Scaled to a unit diagonal, which a sum of rounding errors in the place of p (1 - p) would not survive."""
    problem = separable(kind, 0, 1e6)
    objective, coords = problem.objective(), np.arange(problem.n_coords)
    fit = minimize(objective, ElasticNet(1.0), ProxQN(), Run(tol=1e-3))
    point = objective.at(fit.coords, scale * fit.weights)
    monkeypatch.setattr("crfqn.objectives.curvature.SMALL_PRODUCT", 0)
    model = token_model(
        Marginals(point.whole), objective.split(coords), point.curvature(coords).diagonal, 10**6, 10**6,
        pair_multiplications=np.inf if form == "dense" else 1e-9,
    )  # fmt: skip
    assert sp.issparse(model) == (form == "sparse")
    model = model.toarray() if sp.issparse(model) else model
    # What 1e6 items' rounding of a marginal makes up counts as nothing.
    root = np.sqrt(np.maximum(np.diagonal(model).astype(float), 1e-16 * 1e6 * 100))
    least = np.linalg.eigvalsh(model / root / root[:, None]).min()
    assert least > (-1e-5 if form == "dense" else -0.05)  # the sparse one leaves out small entries
