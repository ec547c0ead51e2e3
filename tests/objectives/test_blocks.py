"""Blocks of items: the sum of their losses is the loss of all, in every number that a solver asks for."""

from __future__ import annotations

import numpy as np
import pytest
from problems import curvature_at, make_likelihood

from crfqn import MulticlassCRF
from crfqn.features import FeatureStore
from crfqn.objectives import sum as blocks
from crfqn.objectives.blocks import BlockedObjective, likelihood
from crfqn.penalties import ElasticNet
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
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
    parts = BlockedObjective.of_blocks(whole, n_positions).parts
    longest = np.diff(whole.map.store.offsets).max()
    assert np.concatenate([part.targets for part in parts]).tolist() == whole.targets.tolist()
    assert all(0 < part.n_positions <= max(n_positions, longest) for part in parts)
    assert (len(parts) == 1) == (n_positions == 1000)


@pytest.mark.parametrize("n_positions", [7, 20])
def test_every_number_is_that_of_all_items(whole, n_positions):
    total = BlockedObjective.of_blocks(whole, n_positions)
    point, expected = total.at(*weights_of(whole)), whole.at(*weights_of(whole))
    coords = np.arange(whole.n_coords)
    for name in ("n_coords", "n_items", "n_positions", "total_weight"):
        assert getattr(total, name) == getattr(whole, name)
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    nodes = coords[: coords.size - whole.loss.structure.n_edges]
    np.testing.assert_allclose(
        curvature_at(point).majorant(nodes), curvature_at(expected).majorant(nodes), rtol=1e-11
    )
    for name in ("gradient", "curvature", "unit"):
        np.testing.assert_allclose(
            getattr(point, name)(coords),
            getattr(expected, name)(coords),
            rtol=1e-11,
            atol=1e-11,
            err_msg=name,
        )
    for scale in (0.1, 0.9, 1.0):
        assert point.dual_value(scale) == pytest.approx(expected.dual_value(scale), rel=1e-12)
    # Of an edge it is the size of a sum of residuals: the blocks' own sizes add up to more.
    assert (curvature_at(point).majorant(coords) >= curvature_at(expected).majorant(coords) - 1e-9).all()
    models = (curvature_at(p).matrix(coords, whole.n_positions * 10, 10**6) for p in (point, expected))
    np.testing.assert_allclose(*models, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0, 1e9])
def test_screening_finds_what_all_items_find(whole, threshold):
    total = BlockedObjective.of_blocks(whole, 7)
    found, expected = (o.at(*weights_of(whole)).screen(threshold) for o in (total, whole))
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-11, atol=1e-12)


def test_points_along_a_ray(whole):
    total = BlockedObjective.of_blocks(whole, 7)
    direction = weights_of(whole, seed=2)
    for step in (1.0, 0.25):
        points = (o.at(*weights_of(whole)).along(*direction).at(step) for o in (total, whole))
        assert next(points).value == pytest.approx(next(points).value, rel=1e-12)


def test_passes_are_counted(whole):
    total = BlockedObjective.of_blocks(whole, 7)
    point = total.at(*weights_of(whole))
    assert point.value == point.value
    assert total.n_passes == pytest.approx(1.0)
    point.gradient(np.arange(3))
    assert total.n_passes == pytest.approx(2.0)
    point.screen(0.5)
    assert total.n_passes == pytest.approx(4.0)


def test_a_sample_is_made_of_every_part(whole):
    sample = BlockedObjective.of_blocks(whole, 20).sample(2)
    assert 0.3 * whole.n_items < sample.n_items < 0.7 * whole.n_items


def test_the_optimum_is_the_same(whole):
    results = [
        minimize(o, ElasticNet(0.5, 0.0), ProxQN(), tol=1e-8)
        for o in (whole, BlockedObjective.of_blocks(whole, 13))
    ]
    assert results[1].status.is_success
    assert results[1].value == pytest.approx(results[0].value, rel=1e-7)


def test_large_problems_come_in_blocks(monkeypatch):
    whole = taxonomy_objective()
    arguments = (whole.map.store, whole.loss.structure, whole.targets, whole.weights)
    assert isinstance(likelihood(*arguments), CRFObjective)
    monkeypatch.setattr(blocks, "MOST_NUMBERS", 7 * 57 - 1)
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 70)
    total = likelihood(*arguments)
    assert [part.n_items for part in total.parts] == [10, 10, 10, 10, 10, 7]


def test_an_estimator_does_not_notice(monkeypatch):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 5)), random.integers(0, 3, 80)
    plain = MulticlassCRF(tol=1e-6).fit(x, y)
    monkeypatch.setattr(blocks, "MOST_NUMBERS", 100)
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 60)
    cut = MulticlassCRF(tol=1e-6).fit(x, y)
    np.testing.assert_allclose(cut.coef_.toarray(), plain.coef_.toarray(), atol=1e-4)
    np.testing.assert_array_equal(cut.predict(x), plain.predict(x))
