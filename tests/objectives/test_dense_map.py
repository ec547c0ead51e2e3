"""The dense map, and one of dense columns beside sparse ones, answer like the sparse one, as do models on them."""

import gc
import weakref

import numpy as np
import pytest
from problems import curvature_at

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.linear import feature_map
from crfqn.objectives.linear.dense_map import DenseMap, HStackMap
from crfqn.objectives.linear.feature_map import (
    MAX_TILE_POSITIONS,
    MIN_TILE_FEATURES,
    CoordinateParts,
    scores_of,
)
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.objectives.losses.likelihood import Likelihood, MultinomialLogistic
from crfqn.objectives.objective import build_objective
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.threads import Pool

N_STATES = 3
SHAPES = {
    "small": (37, 5),
    "two tiles": (MAX_TILE_POSITIONS + 11, 7),
    "two feature tiles": (50, MIN_TILE_FEATURES + 9),
}


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Slabs and tiles of the least sizes, of which small arrays have several."""
    monkeypatch.setattr(feature_map, "TILE_SUMS", 1)
    monkeypatch.setattr(feature_map, "TILE_ENTRIES", 1)


def make_maps(shape="small", dtype=np.float64, order="C", has_constant=True, n_threads=1, seed=0):
    """The same features dense and sparse, cut into items of one to four positions."""
    random = np.random.default_rng(seed)
    n, n_features = SHAPES[shape]
    x = np.asarray(random.normal(size=(n, n_features)), dtype=dtype, order=order)
    lengths = random.integers(1, 5, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.append(offsets[offsets < n], n)
    store = FeatureStore.from_matrix(x, offsets)
    dense = DenseMap.from_matrix(x, offsets, has_constant, Pool(n_threads))
    return dense, SparseMap(store.with_constant() if has_constant else store, Pool(n_threads))


def make_hybrid(has_constant, is_binary=False):
    """Three dense columns beside sparse ones, and the same features in one sparse map."""
    random = np.random.default_rng(0)
    dense, rest = random.normal(size=(37, 3)), random.random((37, 4)) < 0.4
    rest = rest if is_binary else rest * random.normal(size=rest.shape)
    offsets = np.array([0, 3, 4, 9, 20, 22, 37])
    stores = [FeatureStore.from_matrix(x, offsets) for x in (rest, np.hstack([dense, rest]))]
    own, whole = (SparseMap(s.with_constant() if has_constant else s, Pool(1)) for s in stores)
    return HStackMap([DenseMap.from_matrix(dense, offsets), own]), whole


@pytest.fixture(params=[(s, c) for s in (*SHAPES, "hybrid", "binary") for c in (True, False)], ids=str)
def maps(request):
    shape, has_constant = request.param
    if shape in SHAPES:
        return make_maps(shape, has_constant=has_constant)
    return make_hybrid(has_constant, is_binary=shape == "binary")


def random_nodes(n_features, share, seed=1):
    random = np.random.default_rng(seed)
    coords = np.flatnonzero(random.random(N_STATES * n_features) < share)
    return CoordinateParts.from_coords(coords, N_STATES, n_features), random.normal(size=coords.size)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_image_and_adjoint(maps, share):
    dense, sparse = maps
    nodes, weights = random_nodes(dense.n_features, share)
    table = np.random.default_rng(2).normal(size=(N_STATES, dense.n_positions))
    scores = table.copy(), table.copy()
    dense.image(nodes, weights, scores[0])
    sparse.image(nodes, weights, scores[1])
    np.testing.assert_allclose(*scores, atol=1e-12)
    inverse = np.random.default_rng(3).random(dense.n_positions)
    for name, *more in (("adjoint", table), ("squares", table), ("residual_squares", table, inverse)):
        found = [getattr(features, name)(nodes, *more) for features in maps]
        assert found[0].shape == found[1].shape
        np.testing.assert_allclose(*found, atol=1e-9)


def test_screens_and_counts(maps):
    dense, sparse = maps
    table = np.random.default_rng(2).normal(size=(N_STATES, dense.n_positions))
    found = [features.screen(table, 5.0) for features in maps]
    assert found[0].coords.tolist() == found[1].coords.tolist()
    np.testing.assert_allclose(found[0].gradient, found[1].gradient, atol=1e-9)
    for order in (1, 2):
        rows = [features.screen_rows(table, np.array([1, 3]), 6.0, 0.5, order) for features in maps]
        chosen = [dict(zip(f.tolist(), g.T.tolist(), strict=True)) for f, g in rows]
        assert {1, 3} <= chosen[0].keys() & chosen[1].keys()
        for feature in chosen[0]:  # either may have rows below the bound besides
            np.testing.assert_allclose(
                chosen[0][feature], chosen[1].get(feature, chosen[0][feature]), atol=1e-9
            )
    limits = np.linspace(-1.0, 8.0, dense.n_features)
    assert dense.count_small(table, limits) == sparse.count_small(table, limits)


def test_sums_over_columns(maps):
    dense, sparse = maps
    random = np.random.default_rng(4)
    items, positions = random.random(dense.n_items), random.random(dense.n_positions)
    np.testing.assert_allclose(dense.item_ranges(items), sparse.item_ranges(items))
    np.testing.assert_allclose(dense.weighted_squares(positions), sparse.weighted_squares(positions))
    np.testing.assert_allclose(dense.gram(positions), sparse.gram(positions), atol=1e-9)
    if isinstance(dense, HStackMap):
        assert dense.eigenvalue_bound(positions) >= np.linalg.eigvalsh(sparse.gram(positions))[-1]
    else:
        np.testing.assert_allclose(dense.eigenvalue_bound(positions), sparse.eigenvalue_bound(positions))
    nodes, _ = random_nodes(dense.n_features, 0.5)
    assert dense.count_active(nodes).tolist() == sparse.count_active(nodes).tolist()
    assert dense.count_entries(nodes) == sparse.count_entries(nodes)
    assert dense.mean_occurrence == pytest.approx(sparse.mean_occurrence)
    np.testing.assert_allclose(dense.feature_scales, sparse.feature_scales)
    assert dense.largest_value == pytest.approx(sparse.largest_value)
    assert (dense.n_items, dense.n_positions, dense.n_features) == (
        sparse.n_items, sparse.n_positions, sparse.n_features,
    )  # fmt: skip
    features, some = np.array([0, 2, dense.n_features - 1]), np.array([3, 0, 11])
    np.testing.assert_array_equal(dense.values_at(features, some), sparse.values_at(features, some))


def test_some_items(maps):
    dense, sparse = maps
    items = np.array([0, 2, 5])
    (some, positions), (other, same) = dense.take(items), sparse.take(items)
    assert positions.tolist() == same.tolist()
    assert some.offsets.tolist() == other.offsets.tolist()
    np.testing.assert_array_equal(some.store.values, other.store.values)


def test_columns_less_their_means():
    hybrid, sparse = make_hybrid(has_constant=True)
    centre = hybrid.means()
    assert (centre != 0).tolist() == [True] * 3 + [False] * 5
    of_both = np.where(np.arange(centre.size) == 3, 0.5, centre)
    for found in (hybrid.centered_at(centre), hybrid.centered_at(of_both)):
        nodes, weights = random_nodes(found.n_features, 1.0)
        expected = np.zeros((N_STATES, found.n_positions))
        sparse.centered_at(found.centre).image(nodes, weights, expected)
        scores = np.zeros_like(expected)
        found.image(nodes, weights, scores)
        np.testing.assert_allclose(scores, expected, atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_array_is_not_copied(dtype, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(20, 3)), dtype=dtype, order=order)
    assert DenseMap.from_matrix(x, np.arange(21)).matrix is x


def test_small_integers_become_float32():
    for dtype in (np.uint8, np.int16, bool):
        assert DenseMap.from_matrix(np.ones((3, 2), dtype), np.arange(4)).matrix.dtype == np.float32
    assert DenseMap.from_matrix(np.ones((3, 2), np.int64), np.arange(4)).matrix.dtype == np.float64


def test_values_that_are_not_finite_are_named():
    x = np.ones((6, 2))
    x[4, 1] = np.inf
    with pytest.raises(InputError, match="item 1, position 1, feature 1 is inf"):
        DenseMap.from_matrix(x, np.array([0, 3, 6]))


def losses(features):
    random = np.random.default_rng(5)
    labels = random.integers(0, N_STATES, features.n_positions).astype(np.int32)
    if features.n_items == features.n_positions:
        return [MulticlassSquaredHinge(labels, N_STATES), MultinomialLogistic.of_labels(labels, N_STATES)]
    return [Likelihood(Chain(features.offsets, N_STATES), labels)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_flat", [False, True])
def test_objectives_on_both_maps_agree(is_flat, dtype):
    dense, sparse = make_maps("two tiles", dtype)
    if is_flat:
        offsets = np.arange(dense.n_positions + 1)
        dense = DenseMap.from_matrix(dense.matrix, offsets, True)
        sparse = SparseMap(FeatureStore.from_matrix(dense.matrix, offsets).with_constant())
    for loss in losses(dense):
        one, other = build_objective(dense, loss), build_objective(sparse, loss)
        coords = np.arange(0, one.n_coords, 3)
        weights = np.random.default_rng(6).normal(size=coords.size)
        points = one.at(coords, weights), other.at(coords, weights)
        assert points[0].value == pytest.approx(points[1].value, rel=1e-12)
        np.testing.assert_allclose(*(p.gradient(one.support.coords()) for p in points), atol=1e-9)
        for name in ("diagonal", "majorant", "feature_scale"):
            np.testing.assert_allclose(*(getattr(curvature_at(p), name)(coords) for p in points), atol=1e-9)
        models = [curvature_at(p).matrix(coords, 10**9, 6000) for p in points]
        np.testing.assert_allclose(
            *(np.asarray(m.toarray() if hasattr(m, "toarray") else m) for m in models), atol=1e-3
        )
        assert one.hessian_bound() == pytest.approx(other.hessian_bound())
        if not isinstance(loss, MulticlassSquaredHinge):
            feature_ranges = [objective.ranges.at(objective.split(coords)) for objective in (one, other)]
            np.testing.assert_allclose(*feature_ranges)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_no_bit(n_threads):
    found = []
    for n in (1, n_threads):
        dense, _ = make_maps("two feature tiles", np.float32, n_threads=n)
        objective = build_objective(dense, losses(dense)[0])
        result = minimize(objective, ElasticNet(l1=2.0), FISTA(), Run(max_iter=20))
        found.append((result.coords.tobytes(), result.weights.tobytes(), result.value))
    assert found[0] == found[1]


@pytest.mark.parametrize("has_groups", [False, True])
def test_training_reaches_the_same_optimum(has_groups):
    dense, _ = make_maps()
    offsets = np.arange(dense.n_positions + 1)
    dense = DenseMap.from_matrix(dense.matrix, offsets)
    sparse = SparseMap(FeatureStore.from_matrix(dense.matrix, offsets))
    groups = GroupLasso(2.0, n_features=dense.n_features, n_states=N_STATES)
    penalty = groups if has_groups else ElasticNet(l1=1.0)
    for loss in losses(dense):
        results = [
            minimize(build_objective(m, loss), penalty, FISTA(), Run(tol=1e-7, max_iter=5000))
            for m in (dense, sparse)
        ]
        assert results[0].value == pytest.approx(results[1].value, rel=1e-6)
        assert results[0].status.is_success


def test_an_array_is_let_go_at_once():
    """Without waiting for the collector of cycles: stages make an array each, and many would be there at a time."""
    gc.disable()
    try:
        features = DenseMap(np.random.default_rng(0).normal(size=(50, 3)), np.arange(51))
        scores_of(features, np.ones((2, 3)))
        kept = weakref.ref(features)
        del features
        assert kept() is None
    finally:
        gc.enable()
