"""Fixed scores: training the rest of a model around them is training with their weights held where they are.

The rest is an objective over the other features, with the fixed features' scores as its offset. It is held against the
objective of all features, and its optimum against scipy's on the references.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import margin_problems
import numpy as np
import pytest
import scipy.sparse as sp
from problems import curvature_at, make_problem, make_tree_problem
from references import Penalised

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.objective import Objective, build_objective, has_state, in_blocks
from crfqn.papers.blondel2013.fobos import FOBOS, FobosState
from crfqn.papers.zhong2014.feature_bcd import BlockState, FeatureBCD
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import Diagonal, ProxQN
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stochastic.state import SGDState
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool

NAMES = ("chain", "flat", "multiclass", "multitask", "ranking")
LIKELIHOODS, HINGES = NAMES[:2], NAMES[2:]
FIXED = np.array([0, 2, 3])  # features
every_loss = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True, eq=False)
class Around(Penalised):
    """The rest of a problem, in the weights of the features that are not fixed.

    Attributes
    ----------
    reference : its loss and gradient at dense weights of all coordinates, by definition
    whole, part : the library's objectives of all features, and of the rest
    fixed, rest : sorted coordinates of the whole; the coordinates of the part are the places in `rest`
    w_fixed : the weights of the fixed ones
    """

    reference: Any
    whole: Objective
    part: Objective
    fixed: np.ndarray
    rest: np.ndarray
    w_fixed: np.ndarray

    @property
    def n_coords(self) -> int:
        return self.rest.size

    def joined(self, w: np.ndarray) -> np.ndarray:
        """All weights."""
        dense = np.empty(self.whole.n_coords)
        dense[self.fixed], dense[self.rest] = self.w_fixed, w
        return dense

    def evaluate(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.reference(self.joined(w))
        return value, gradient[self.rest]

    def points(self, w: np.ndarray) -> tuple[Any, Any]:
        """The part's point at w, and the whole's at all weights."""
        everything = np.arange(self.whole.n_coords)
        return self.part.at(np.arange(w.size), w), self.whole.at(everything, self.joined(w))

    def some_weights(self, seed: int = 1, scale: float = 0.7) -> np.ndarray:
        return scale * np.random.default_rng(seed).normal(size=self.n_coords)


def margin_reference(problem):
    """Of W (F, K) as k F + f."""
    shape = problem.n_states, problem.x.shape[1]

    def evaluate(w):
        value, gradient = problem.evaluate(w.reshape(shape).T)
        return value, gradient.T.ravel()

    return evaluate


@cache
def around(name, has_weights=True):
    """A problem with random weights on the fixed features."""
    if name == "chain":
        problem = make_problem(4, n_items=14, n_features=8, longest=3, is_binary=False)
        matrix, reference, whole = problem.matrix, problem.evaluate, problem.objective()
    elif name == "flat":
        problem = make_tree_problem("flat", 3, n_items=60, n_features=8, has_weights=has_weights)
        matrix, reference, whole = problem.x, problem.evaluate, problem.objective()
    else:
        problem = margin_problems.make_problem(name, n_items=60, n_features=8)
        matrix, reference = problem.x, margin_reference(problem)
        whole = margin_problems.objective_of(problem)
    n_states, n_features = whole.n_states, matrix.shape[1]
    states = np.arange(n_states)[:, None]
    fixed = (states * n_features + FIXED).ravel()
    rest = np.setdiff1d(np.arange(whole.n_coords), fixed)
    w_fixed = 0.8 * np.random.default_rng(0).normal(size=fixed.size)
    offset = w_fixed.reshape(n_states, -1) @ matrix[:, FIXED].T
    store = FeatureStore.from_matrix(np.delete(matrix, FIXED, axis=1), whole.whole.map.offsets)
    part = build_objective(SparseMap(store, Pool(2)), whole.whole.loss, whole.whole.weights, offset=offset)
    return Around(reference, whole, part, fixed, rest, w_fixed)


@every_loss
def test_every_number_is_that_of_all_weights(name):
    case = around(name)
    coords = np.arange(case.n_coords)
    for scale in (0.0, 0.7, 5.0):
        w = case.some_weights(scale=scale)
        found, expected = case.points(w)
        value, gradient = case.evaluate(w)
        assert found.value == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found.gradient(coords), gradient, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(found.whole.scores, expected.whole.scores, atol=1e-12)
        np.testing.assert_allclose(found.item_losses, expected.item_losses, atol=1e-11)
        one, other = curvature_at(found), curvature_at(expected)
        for question in ("diagonal", "majorant", "feature_scale"):
            np.testing.assert_allclose(
                getattr(one, question)(coords), getattr(other, question)(case.rest), rtol=1e-9, atol=1e-11
            )
    screened = case.points(case.some_weights())[0].screen(1.0)
    gradient = case.evaluate(case.some_weights())[1]
    np.testing.assert_array_equal(screened.coords, np.flatnonzero(np.abs(gradient) > 1.0))


@every_loss
def test_models_of_the_hessian(name):
    case = around(name)
    found, expected = case.points(case.some_weights())
    models = [
        curvature_at(point).matrix(coords, 10**6, 6000)
        for point, coords in ((found, np.arange(case.n_coords)), (expected, case.rest))
    ]
    one, other = (model.toarray() if sp.issparse(model) else model for model in models)
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


@every_loss
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_rays_keep_what_is_fixed(name, step):
    case = around(name)
    w, direction = case.some_weights(), case.some_weights(2)
    coords = np.arange(case.n_coords)
    found = case.part.at(coords, w).along(coords, direction).at(step)
    assert found.value == pytest.approx(case.evaluate(w + step * direction)[0], rel=1e-11)


@every_loss
def test_parts_of_the_items_take_their_scores_along(name):
    case = around(name)
    w, coords = case.some_weights(), np.arange(case.n_coords)
    full = case.part.at(coords, w)
    items = np.array([1, 4, 9])
    taken = case.part.with_parts(lambda part: part.take(items)).at(coords, w)
    np.testing.assert_allclose(taken.item_losses, full.item_losses[items], rtol=1e-12, atol=1e-14)
    sampled = case.part.sample(3).at(coords, w)
    np.testing.assert_allclose(sampled.item_losses, full.item_losses[1::3], rtol=1e-12, atol=1e-14)
    blocks = in_blocks(case.part.whole, 9).at(coords, w)
    assert blocks.value == pytest.approx(full.value, rel=1e-12)
    np.testing.assert_allclose(blocks.gradient(coords), full.gradient(coords), rtol=1e-10, atol=1e-10)
    for scale in (0.1, 1.0):
        assert blocks.dual_value(scale) == pytest.approx(full.dual_value(scale), rel=1e-11)


SOLVERS = {
    "prox-qn": ProxQN(),
    "diagonal": ProxQN(metric=Diagonal()),
    "fista": FISTA(),
    "fista, bound": FISTA(lipschitz="bound"),
    "owl-qn": OWLQN(),
}


@cache
def optimum(name, l1, l2):
    return around(name).optimum(l1, l2)


@pytest.mark.usefixtures("compiled")
@every_loss
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("strengths", [(1.0, 0.0), (0.5, 0.5)], ids=str)
def test_the_optimum_around_what_is_fixed(name, solver, strengths):
    """Its certificate is true at every step, and closes."""
    case, (value, w) = around(name), optimum(name, *strengths)
    result = minimize(case.part, ElasticNet(*strengths), SOLVERS[solver], Run(tol=1e-6, max_iter=4000))
    assert result.status is Status.CONVERGED
    assert result.value == pytest.approx(value, rel=2e-6)
    proved = result.trace.value * (1 - result.trace.gap)
    assert np.nanmax(proved) <= value * (1 + 1e-6)
    assert (w != 0).any()


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_blocks_of_features_follow_the_fixed_scores(name):
    case = around(name)
    assert has_state(case.part, BlockState)
    result = minimize(case.part, ElasticNet(1.0), FeatureBCD(), Run(tol=1e-5, max_iter=900))
    assert result.status is Status.CONVERGED
    assert result.value == pytest.approx(optimum(name, 1.0, 0.0)[0], rel=2e-5)


@every_loss
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_no_weights_prove_more_than_the_optimum(name, l2):
    case, penalty = around(name), ElasticNet(1.0, l2)
    value, best = optimum(name, 1.0, l2)
    random, bounds = np.random.default_rng(3), []
    for scale in (0.0, 1e-3, 0.1, 1.0, 5.0):
        w = best + scale * random.normal(size=best.size)
        coords = np.arange(w.size)
        point = case.part.at(coords, w)
        g = point.gradient(coords)
        scales = penalty.dual_scales(coords, g)
        bounds.append(max(point.dual_value(s) - penalty.conjugate(coords, s * g) for s in scales))
    assert max(bounds) <= value * (1 + 1e-9)
    assert bounds[0] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_learning_item_by_item_refuses(name):
    """It knows scores of the weights alone."""
    case = around(name)
    with pytest.raises(UnsupportedObjectiveError, match=r"SGDL1 cannot train this: .* has an offset"):
        minimize(case.part, ElasticNet(1.0), SGDL1())
    with pytest.raises(UnsupportedObjectiveError, match="has an offset"):
        in_blocks(case.part.whole, 9).check_state(SGDState)
    assert case.whole.check_state(SGDState) is None


@pytest.mark.parametrize("name", HINGES)
def test_learning_rows_refuses(name):
    case = around(name)
    with pytest.raises(UnsupportedObjectiveError, match=r"FOBOS cannot train this: .* has an offset"):
        minimize(case.part, ElasticNet(1.0), FOBOS())
    assert case.whole.check_state(FobosState) is None


@pytest.mark.parametrize("wrong", ["shape", "nan"])
def test_offsets_that_cannot_be_used(wrong):
    part = around("chain").part
    offset = part.whole.offset[:, 1:] if wrong == "shape" else part.whole.offset.copy()
    if wrong == "nan":
        offset[1, 2] = np.nan
    with pytest.raises(InputError, match=r"offset: expected finite scores of shape \(3, \d+\), got"):
        build_objective(part.whole.map, part.whole.loss, offset=offset)
