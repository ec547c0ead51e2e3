"""Gram matrices, features that are made when asked for, and maps side by side: all against plain arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.linear import gram
from crfqn.objectives.linear.dense_map import DenseMap, HStackMap
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.papers.agarwal2014.generators import GeneratedMap
from crfqn.threads import Pool

OFFSETS = np.array([0, 2, 2, 7, 30])


def rows_of(n=30, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


class Squares:
    """Squares and doubles of a row's numbers."""

    def __init__(self, n_inputs):
        self.n_features = 2 * n_inputs

    def transform(self, rows, columns=slice(None)):
        return np.hstack([rows**2, 2 * rows])[:, columns]


def check_same(found, dense):
    """Images, adjoints, screenings and parts of one map as of the other."""
    random = np.random.default_rng(3)
    nodes = CoordinateParts.from_coords(
        np.flatnonzero(random.random(3 * dense.n_features) < 0.4), 3, dense.n_features
    )
    weights, residual = random.normal(size=nodes.n_nodes), random.normal(size=(3, dense.n_positions))
    scores = residual.copy(), residual.copy()
    found.image(nodes, weights, scores[0])
    dense.image(nodes, weights, scores[1])
    np.testing.assert_allclose(*scores, atol=1e-12)
    np.testing.assert_allclose(found.adjoint(nodes, residual), dense.adjoint(nodes, residual), atol=1e-12)
    np.testing.assert_allclose(found.feature_scales, dense.feature_scales)
    assert found.screen(residual, 3.0).coords.tolist() == dense.screen(residual, 3.0).coords.tolist()
    items = np.array([0, 2])
    parts, positions = found.take(items)
    assert positions.tolist() == dense.take(items)[1].tolist() == [0, 1, 2, 3, 4, 5, 6]
    c = random.random(positions.size)
    np.testing.assert_allclose(parts.gram(c), dense.take(items)[0].gram(c), atol=1e-12)
    np.testing.assert_allclose(
        found.values_at(np.arange(dense.n_features), np.array([4, 9])),
        dense.values_at(np.arange(dense.n_features), np.array([4, 9])),
        atol=1e-6,
    )
    assert (found.store.indices == dense.store.indices).all()


@pytest.mark.parametrize("has_constant", [False, True])
def test_generated_features(has_constant):
    rows, batch = rows_of(), Squares(4)
    found = GeneratedMap(rows, batch, OFFSETS, has_constant)
    dense = DenseMap(batch.transform(rows), OFFSETS, has_constant)
    check_same(found, dense)
    assert found.kept().matrix.tobytes() == dense.matrix.tobytes()
    assert GeneratedMap(rows.astype(np.float32), batch, OFFSETS).kept().matrix.dtype == np.float32


@pytest.mark.parametrize("has_constant", [False, True])
def test_maps_side_by_side(has_constant):
    rows, other = rows_of(), rows_of(d=3, seed=1)
    parts = [DenseMap(rows, OFFSETS), GeneratedMap(other, Squares(3), OFFSETS, has_constant)]
    whole = np.hstack([rows, Squares(3).transform(other)])
    check_same(HStackMap(parts), DenseMap(whole, OFFSETS, has_constant))


def test_maps_that_do_not_fit():
    last = DenseMap(rows_of(), OFFSETS)
    for other in (DenseMap(rows_of(), OFFSETS, True), DenseMap(rows_of(), np.arange(31))):
        with pytest.raises(InputError, match="maps over the same items"):
            HStackMap([other, last])


class TestGram:
    @pytest.mark.parametrize("has_constant", [False, True])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dense(self, has_constant, dtype):
        x = rows_of(300, 7).astype(dtype)
        full = np.hstack([x, np.ones((300, int(has_constant)))]).astype(np.float64)
        c = np.random.default_rng(1).random(300)
        found = DenseMap(x, np.arange(301), has_constant).gram(c)
        np.testing.assert_allclose(found, (full.T * c) @ full, rtol=1e-12, atol=1e-12)
        assert (found == found.T).all()

    @pytest.mark.parametrize("density", [0.002, 0.5], ids=["by index arrays", "by tiles"])
    @pytest.mark.parametrize("is_binary", [False, True])
    def test_sparse(self, density, is_binary):
        x = sp.random_array((200, 40), density=density, rng=np.random.default_rng(0), format="csr")
        if is_binary:
            x.data[:] = 1.0
        store = FeatureStore.from_matrix(x, np.arange(201), allow_empty=True)
        c = np.random.default_rng(1).random(200)
        found, dense = SparseMap(store).gram(c), x.toarray()
        np.testing.assert_allclose(found, (dense.T * c) @ dense, rtol=1e-12, atol=1e-12)

    def test_blocks_tiles_and_threads(self):
        x = rows_of(2 * gram.MIN_TILE_ROWS + 3, gram.GRAM_BLOCK_FEATURES + 5)
        found = []
        for n_threads in (1, 2):
            with Pool(n_threads) as pool:
                total = gram.GramSum(x.shape[1], pool)
                for first in range(0, x.shape[0], gram.MIN_TILE_ROWS):
                    part = slice(first, first + gram.MIN_TILE_ROWS)
                    total.add(x[part])
                found.append(total.matrix())
        assert found[0].tobytes() == found[1].tobytes()
        np.testing.assert_allclose(found[0], x.T @ x, atol=1e-9)

    def test_too_many_features(self):
        with pytest.raises(InputError, match=r"at most 32,768 features .* got 100,000 \(75 GiB\)"):
            gram.GramSum(100_000, Pool(1))
