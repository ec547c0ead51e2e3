"""Blocks of items: the sum of their losses is the loss of all, in every number that a solver asks for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from margin_problems import NAMES, make_problem, objective_of
from margin_references import optimum
from problems import curvature_at, make_likelihood

from crfqn import MulticlassCRF
from crfqn.data.features import FeatureStore
from crfqn.objectives.objective import build_objective, in_blocks
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import Diagonal, ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

PARENTS = np.array([-1, -1, 0, 0, 1, 1, 1], np.int32)
IS_LABEL = np.array([False, False, True, True, True, True, True])


def taxonomy_objective(seed=0, n_items=57, n_features=9):
    random = np.random.default_rng(seed)
    x = random.random((n_items, n_features)) * (random.random((n_items, n_features)) < 0.5)
    targets = random.integers(2, 7, n_items).astype(np.int32)
    store = FeatureStore.from_matrix(x, np.arange(n_items + 1))
    return make_likelihood(
        store, Taxonomy(PARENTS, IS_LABEL, n_items), targets, random.integers(0, 3, n_items) + 0.0
    )


def chain_objective(seed=0, n_items=23, n_states=3, n_features=6):
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, 6, n_items))])
    x = (random.random((offsets[-1], n_features)) < 0.5).astype(float)
    targets = random.integers(0, n_states, offsets[-1]).astype(np.int32)
    return make_likelihood(FeatureStore.from_matrix(x, offsets), Chain(offsets, n_states), targets)


@pytest.fixture(params=[taxonomy_objective, chain_objective])
def whole(request):
    return request.param()


def weights_of(objective, seed=1):
    random = np.random.default_rng(seed)
    coords = np.flatnonzero(random.random(objective.n_coords) < 0.6)
    return coords, random.normal(size=coords.size)


@pytest.mark.parametrize("n_positions", [1, 7, 20, 1000])
def test_blocks_hold_every_item_once(whole, n_positions):
    parts = in_blocks(whole.whole, n_positions).parts
    longest = np.diff(whole.whole.map.store.offsets).max()
    assert np.concatenate([part.loss.targets for part in parts]).tolist() == whole.whole.loss.targets.tolist()
    assert all(0 < part.n_positions <= max(n_positions, longest) for part in parts)
    assert (len(parts) == 1) == (n_positions == 1000)


@pytest.mark.parametrize("n_positions", [7, 20])
def test_every_number_is_that_of_all_items(whole, n_positions):
    total = in_blocks(whole.whole, n_positions)
    point, expected = total.at(*weights_of(whole)), whole.at(*weights_of(whole))
    coords = np.arange(whole.n_coords)
    for name in ("n_coords", "n_items", "n_positions", "total_weight"):
        assert getattr(total, name) == getattr(whole, name)
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    nodes = coords[: coords.size - whole.whole.loss.structure.edge_layout.size]
    np.testing.assert_allclose(
        curvature_at(point).majorant(nodes), curvature_at(expected).majorant(nodes), rtol=1e-11
    )
    np.testing.assert_allclose(point.gradient(coords), expected.gradient(coords), rtol=1e-11, atol=1e-11)
    for name in ("diagonal", "feature_scale"):
        found, whole_ones = (getattr(curvature_at(p), name)(coords) for p in (point, expected))
        np.testing.assert_allclose(found, whole_ones, rtol=1e-11, atol=1e-11, err_msg=name)
    for scale in (0.1, 0.9, 1.0):
        assert point.dual_value(scale) == pytest.approx(expected.dual_value(scale), rel=1e-12)
    # Of an edge it is the size of a sum of residuals: the blocks' own sizes add up to more.
    assert (curvature_at(point).majorant(coords) >= curvature_at(expected).majorant(coords) - 1e-9).all()
    models = (curvature_at(p).matrix(coords, whole.n_positions * 10, 10**6) for p in (point, expected))
    np.testing.assert_allclose(*models, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0, 1e9])
def test_screening_finds_what_all_items_find(whole, threshold):
    total = in_blocks(whole.whole, 7)
    found, expected = (o.at(*weights_of(whole)).screen(threshold) for o in (total, whole))
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-11, atol=1e-12)


def test_points_along_a_ray(whole):
    total = in_blocks(whole.whole, 7)
    direction = weights_of(whole, seed=2)
    for step in (1.0, 0.25):
        points = (o.at(*weights_of(whole)).along(*direction).at(step) for o in (total, whole))
        assert next(points).value == pytest.approx(next(points).value, rel=1e-12)


def test_a_point_keeps_its_parts(whole):
    """Whatever it is asked costs one pass, where there is room for its residuals."""
    total = in_blocks(whole.whole, 7)
    point = total.at(*weights_of(whole))
    for _ in range(2):
        assert np.isfinite(point.value + point.dual_value(0.5))
        point.gradient(np.arange(3))
        point.screen(0.5)
        point.curvature(np.arange(whole.n_coords))
        point.screen_rows(0.5, 0.0, 2)
        assert total.n_passes == pytest.approx(1.0)


def test_passes_are_counted_where_nothing_fits(whole):
    total = in_blocks(whole.whole, 7, max_kept=1)
    point = total.at(*weights_of(whole))
    assert point.value == point.value
    assert total.n_passes == pytest.approx(1.0)
    point.gradient(np.arange(3))
    assert total.n_passes == pytest.approx(2.0)
    point.screen(0.5)
    assert total.n_passes == pytest.approx(4.0)
    following = total.at(*weights_of(whole, seed=2))
    assert following.value == following.value
    before = total.n_passes
    following.gradient(
        total.likely_coords[1:]
    )  # found along with the value, as it was the last that was asked for
    assert total.n_passes == before


@pytest.mark.parametrize("share", [0.4, 1.0, 2.0])
def test_points_keep_no_more_than_they_may(whole, share):
    """The newest has the room; answers are the same whatever is kept."""
    most = int(share * whole.n_states * whole.n_positions)
    total = in_blocks(whole.whole, 7, max_kept=most)
    coords, points = np.arange(whole.n_coords), [total.at(*weights_of(whole, seed)) for seed in range(4)]
    for point in points:
        assert np.isfinite(point.value)
        assert sum(p.held.n_kept for p in points) <= most
    assert (points[-1].held.n_kept == whole.n_states * whole.n_positions) == (share >= 1)
    assert points[0].held.n_kept == 0
    plain = in_blocks(whole.whole, 7, max_kept=1)
    for seed, point in enumerate(points):
        assert (
            point.gradient(coords).tobytes() == plain.at(*weights_of(whole, seed)).gradient(coords).tobytes()
        )


# Passes to a gap of 1e-4: those of one piece, and at most so many where no point of blocks keeps anything.
CEILINGS = {
    "FISTA": (FISTA(), ElasticNet(0.5, 0.5), 2.3),
    "Prox-QN": (ProxQN(), ElasticNet(0.5, 0.0), 1.7),
    "L-BFGS": (LBFGS(warm_up=False), ElasticNet(0.0, 0.5), 1.2),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_solvers_need_no_more_passes_than_in_one_piece(whole, name):
    solver, penalty, times = CEILINGS[name]
    problems = whole, in_blocks(whole.whole, 7), in_blocks(whole.whole, 7, max_kept=1)
    one, kept, anew = (minimize(problem, penalty, solver, Run(tol=1e-4)) for problem in problems)
    assert one.status is kept.status is anew.status is Status.CONVERGED
    assert kept.passes <= one.passes + 3
    assert anew.passes <= times * one.passes + 2


def test_a_sample_is_made_of_every_part(whole):
    sample = in_blocks(whole.whole, 20).sample(2)
    assert 0.3 * whole.n_items < sample.n_items < 0.7 * whole.n_items


def test_the_optimum_is_the_same(whole):
    results = [
        minimize(o, ElasticNet(0.5, 0.0), ProxQN(), Run(tol=3e-8))
        for o in (whole, in_blocks(whole.whole, 13))
    ]
    assert results[1].status.is_success
    assert results[1].value == pytest.approx(results[0].value, rel=1e-7)


def test_large_problems_come_in_blocks():
    whole = taxonomy_objective()
    arguments = (whole.whole.map, whole.whole.loss, whole.whole.weights)
    assert build_objective(*arguments).whole is not None
    assert build_objective(*arguments, max_part_scores=7 * 57).whole is not None
    total = build_objective(*arguments, max_part_scores=7 * 57 - 1, block_scores=70)
    assert total.whole is None
    assert [part.n_items for part in total.parts] == [10, 10, 10, 10, 10, 7]
    assert total.total_weight == whole.total_weight


class InBlocks:
    """Prox-QN on blocks of what it is given."""

    def steps(self, objective, penalty, start):
        total = in_blocks(objective.whole, 20)
        assert len(total.parts) > 1
        return ProxQN().steps(total, penalty, total.at(*start.sparse_weights))


def test_an_estimator_does_not_notice():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 5)), random.integers(0, 3, 80)
    plain, cut = (MulticlassCRF(tol=1e-6, solver=solver).fit(x, y) for solver in ("prox-qn", InBlocks()))
    np.testing.assert_allclose(cut.coef_.toarray(), plain.coef_.toarray(), atol=1e-4)
    np.testing.assert_array_equal(cut.predict(x), plain.predict(x))


class TestLossesOfMargins:
    """What is true of likelihoods is true of every loss: duals add up, whatever they are made of."""

    @pytest.fixture(params=NAMES)
    def problem(self, request):
        return make_problem(request.param, n_items=60, n_features=7)

    @pytest.fixture
    def pair(self, problem):
        whole = objective_of(problem)
        total = in_blocks(whole.whole, 11)
        assert len(total.parts) == 6
        return total, whole

    def points(self, pair, seed=1):
        return (objective.at(*weights_of(pair[1], seed)) for objective in pair)

    def test_value_gradient_and_dual_value(self, pair):
        found, expected = self.points(pair)
        coords = np.arange(pair[1].n_coords)
        assert found.value == pytest.approx(expected.value, rel=1e-13)
        np.testing.assert_allclose(found.item_losses, expected.item_losses, rtol=1e-13)
        np.testing.assert_allclose(found.gradient(coords), expected.gradient(coords), rtol=1e-11, atol=1e-11)
        for scale in (1e-3, 0.3, 1.0):
            assert found.dual_value(scale) == pytest.approx(expected.dual_value(scale), rel=1e-12)

    @pytest.mark.parametrize("threshold", [0.0, 3.0, 10.0, 1e9])
    def test_screening(self, pair, threshold):
        found, expected = (point.screen(threshold) for point in self.points(pair))
        np.testing.assert_array_equal(found.coords, expected.coords)
        np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-11, atol=1e-11)

    @pytest.mark.parametrize("norm", ["l2", "linf"])
    @pytest.mark.parametrize("l1", [0.0, 2.0])
    def test_screening_of_rows(self, pair, norm, l1):
        """The rows above the bound and the point's own, and perhaps others: a penalty leaves those out."""
        w = np.arange(0, 28, 7), np.ones(4)  # one row, whole
        found, expected = (objective.at(*w) for objective in pair)
        everywhere = np.arange(pair[1].n_coords)
        g, dense = expected.gradient(everywhere), np.isin(everywhere, w[0]).astype(float)
        dual_norm = (
            GroupLasso(1.0, l1, 0.0, norm, n_features=7, n_states=4).at(everywhere).dual_norm(dense, g)
        )
        bound = float(np.median(dual_norm[np.isfinite(dual_norm)]))
        penalty = GroupLasso(bound, l1, 0.0, norm, n_features=7, n_states=4)
        ones, others = penalty.screen(found), penalty.screen(expected)
        assert w[0].size < ones.coords.size < everywhere.size
        np.testing.assert_array_equal(ones.coords, others.coords)
        np.testing.assert_allclose(ones.gradient, g[ones.coords], rtol=1e-11, atol=1e-11)
        order = 2 if norm == "l2" else 1
        rows = found.screen_rows(bound, l1, order)
        assert np.isin(ones.coords, rows.coords).all()
        np.testing.assert_allclose(rows.gradient, g[rows.coords], rtol=1e-11, atol=1e-11)

    def test_curvature(self, pair):
        coords = np.arange(pair[1].n_coords)
        found, expected = (curvature_at(point) for point in self.points(pair))
        for name in ("diagonal", "majorant", "feature_scale"):
            one, other = (getattr(curvature, name)(coords) for curvature in (found, expected))
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=name)
        models = (curvature.matrix(coords, 600, 1000) for curvature in (found, expected))
        one, other = (model.toarray() if sp.issparse(model) else model for model in models)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
        assert pair[1].hessian_bound() <= pair[0].hessian_bound() * (1 + 1e-9)

    @pytest.mark.parametrize("solver", [ProxQN(), ProxQN(metric=Diagonal()), FISTA()], ids=str)
    def test_the_optimum_is_the_same(self, problem, pair, solver):
        penalty = GroupLasso(2.0, n_features=7, n_states=4)
        results = [minimize(objective, penalty, solver, Run(tol=1e-7, max_iter=3000)) for objective in pair]
        reference, _ = optimum(problem, (0.0, 0.0, 2.0), "l2", n_steps=3000)
        assert [result.status for result in results] == [Status.CONVERGED] * 2
        assert results[0].value == pytest.approx(results[1].value, rel=2e-7)
        assert results[0].value == pytest.approx(reference, rel=2e-7)
