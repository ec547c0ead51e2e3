"""Implicit centring: maps of x - m answer as if the array had been centred, and weights are converted both ways."""

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.arrays import SparseWeights
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.feature_map import CoordinateParts, centered_weights, uncentered_weights
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.threads import Pool

N, F, K = 61, 5, 3
RNG = np.random.default_rng(0)
Z = np.round(RNG.standard_normal((N, F)) * 64) / 64  # so that float32 holds it with a shift
SHIFTS = {"near": np.array([0.0, 2.0, -1.0, 5.0, 1.0]), "far": np.array([0.0, 2000.0, -500.0, 5.0, 1e4])}
OFFSETS = np.arange(N + 1)
NODES = CoordinateParts.from_coords(np.arange(0, K * (F + 1), 2), K, F + 1)
TABLE = RNG.standard_normal((K, N))


def centered(features, weights):
    """Return the map less the means of its features."""
    return features.centered_at(features.means(weights))


def dense(x, n_threads=1):
    return centered(DenseMap.from_matrix(x, OFFSETS, True, Pool(n_threads)), None)


def sparse(x, weights=None):
    return centered(SparseMap(FeatureStore.from_matrix(x, OFFSETS).with_constant(), Pool(1)), weights)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shift", SHIFTS)
def test_a_dense_map_answers_as_if_the_array_were_centred(shift, kind, order):
    x = np.asarray(Z + SHIFTS[shift], dtype=kind, order=order)
    before, found = x.copy(), dense(x)
    expected = SparseMap(FeatureStore.from_matrix(Z - Z.mean(axis=0), OFFSETS).with_constant(), Pool(1))
    np.testing.assert_allclose(found.centre, [*(SHIFTS[shift] + Z.mean(axis=0)), 0.0], rtol=1e-14, atol=1e-14)
    weights, positive = RNG.standard_normal(NODES.n_nodes), RNG.random(N)
    close = {"rtol": 1e-9, "atol": 1e-9}
    for name, *given in (
        ("adjoint", NODES, TABLE), ("squares", NODES, TABLE), ("residual_squares", NODES, TABLE, positive),
        ("gram", positive), ("weighted_squares", positive), ("item_ranges", positive), ("eigenvalue_bound", positive),
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(found, name)(*given), getattr(expected, name)(*given), **close)
    images = []
    for features in (found, expected):
        features.image(NODES, weights, scores := np.zeros((K, N)))
        images.append(scores)
    np.testing.assert_allclose(*images, **close)
    np.testing.assert_allclose(found.feature_scales, expected.feature_scales, **close)
    np.testing.assert_allclose(found.store.values, expected.store.values, **close)
    screens = [features.screen(TABLE, 2.0) for features in (found, expected)]
    assert screens[0].coords.tolist() == screens[1].coords.tolist()
    rows = [f.screen_rows(TABLE, np.array([0]), 100.0, 0.0, 2) for f in (found, expected)]
    np.testing.assert_allclose(rows[0][1][:, 0], rows[1][1][:, 0], **close)
    some = found.take(np.arange(0, N, 3))[0]
    np.testing.assert_allclose(
        some.feature_scales[:-1], ((Z - Z.mean(axis=0))[::3] ** 2).max(axis=0), **close
    )
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shift", SHIFTS)
def test_threads_change_no_bit(shift):
    found = [dense(Z + SHIFTS[shift], n).adjoint(NODES, TABLE).tobytes() for n in (1, 2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("value", [0.1, 1e-300, 12345.678])
def test_nothing_is_left_of_a_feature_that_never_varies(value):
    x = Z.copy()
    x[:, 2] = value
    weights = RNG.random(N) + 0.1
    for features in (DenseMap.from_matrix(x, OFFSETS, True, Pool(1)), SparseMap(sparse(x).store, Pool(1))):
        scales = centered(features, weights).feature_scales
        assert scales[2] == 0.0
        assert (scales[[0, 1, 3, 4, 5]] > 0).all()


def test_columns_that_are_not_sparse_are_stored_without_their_mean():
    x = Z + np.array([0.0, 0.0, 1e4, 0.0, 30.0])
    x[RNG.random((N, F)) < [0.9, 0.7, 0.0, 0.3, 0.2]] = 0.0
    weights = RNG.random(N) + 0.5
    found = sparse(sp.csr_array(x), weights)
    means = weights @ x / weights.sum()
    np.testing.assert_allclose(found.centre, [0.0, 0.0, means[2], 0.0, 0.0, 0.0])
    expected = np.column_stack([x[:, :2], x[:, 2] - means[2], x[:, 3:], np.ones(N)])
    np.testing.assert_allclose(found.tile(slice(None), slice(None)), expected, rtol=1e-9)
    part = found.take(np.array([3, 8, 9]))[0]
    np.testing.assert_allclose(part.tile(slice(None), slice(None)), expected[[3, 8, 9]], rtol=1e-9)
    assert part.centre is found.centre


@pytest.mark.parametrize("form", ["binary", "words"])
def test_sparse_stores_stay_what_they_are(form):
    x = (RNG.random((N, F)) < 0.6).astype(float)
    if form == "words":
        x *= RNG.random((N, F))
    features = SparseMap(FeatureStore.from_matrix(sp.csr_array(x), OFFSETS).with_constant(), Pool(1))
    assert centered(features, None).store is features.store


def test_weights_go_there_and_back():
    features = dense(Z + SHIFTS["far"])
    coords = np.array([1, 4, 5, 14])  # states 0 and 2, of which one has an intercept
    given = SparseWeights(coords, np.arange(1.0, 5.0))
    weights = centered_weights(features, given)
    x = Z + SHIFTS["far"]
    nodes = CoordinateParts.from_coords(weights.coords, K, F + 1)
    features.image(nodes, weights.weights, scores := np.zeros((K, N)))
    np.testing.assert_allclose(scores[0], 1.0 * x[:, 1] + 2.0 * x[:, 4] + 3.0, rtol=1e-12)
    np.testing.assert_allclose(scores[2], 4.0 * x[:, 2], rtol=1e-12)
    back = uncentered_weights(features, weights)
    np.testing.assert_allclose(back.weights[np.isin(back.coords, coords)], given.weights, rtol=1e-9)
