"""Training on dense arrays: the same models as from index arrays, without making any, in less memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.estimators.item_data import item_features
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.threads import Pool

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 20))
Y = np.argmax(X[:, :4] + 0.5 * RNG.gumbel(size=(300, 4)), axis=1)
TABLE = (X[:, :4] + 0.5 * RNG.normal(size=(300, 4)) > 0.3).astype(int)
MODELS = {
    "l1": (lambda: MulticlassCRF(l1=3.0, tol=1e-6), Y),
    "l2": (lambda: MulticlassCRF(penalty="l2", l2=2.0, tol=1e-6), Y),
    "rows": (lambda: MulticlassClassifier(group_l1=8.0, tol=1e-6), Y),
    "logistic rows": (lambda: MulticlassClassifier(loss="logistic", group_l1=4.0, tol=1e-6), Y),
    "against the rest": (
        lambda: MulticlassClassifier(loss="multitask-squared-hinge", group_l1=8.0, tol=1e-6),
        Y,
    ),
    "ranking": (lambda: MultilabelRanker(group_l1=8.0, tol=1e-6), TABLE),
    "taxonomy": (lambda: TaxonomyCRF(l1=2.0, tol=1e-6), np.array(["a/b", "a/c", "d/e", "d/f"])[Y]),
}


@pytest.fixture
def n_stores(monkeypatch):
    """Count the feature stores that are made of matrices."""
    made, build = [], FeatureStore.from_matrix
    monkeypatch.setattr(FeatureStore, "from_matrix", lambda *a, **k: made.append(1) or build(*a, **k))
    return lambda: len(made)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_models_are_those_of_index_arrays(name, kind, n_stores):
    make, y = MODELS[name]
    data = X.astype(kind)
    dense = make().fit(data, y)
    found = dense.predict(data)
    assert n_stores() == 0
    sparse = make().fit(sp.csr_array(data), y)
    assert n_stores() > 0
    gaps = max(dense.result_.gap, 0.0) + max(sparse.result_.gap, 0.0) + 1e-12
    assert abs(dense.result_.value - sparse.result_.value) <= gaps * sparse.result_.value
    if (
        name == "taxonomy"
    ):  # a shift of the weights of all tops is free within kinks: several weights are optimal
        np.testing.assert_allclose(dense.predict_proba(data), sparse.predict_proba(data), atol=5e-3)
    else:
        np.testing.assert_allclose(dense.coef_.toarray(), sparse.coef_.toarray(), atol=5e-3)
    np.testing.assert_array_equal(found, sparse.predict(sp.csr_array(data)))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_do_not_matter(n_threads):
    data = RNG.normal(size=(9000, 5))
    y = np.argmax(data[:, :3], axis=1)
    one, more = (MulticlassCRF(l1=50.0, n_threads=n).fit(data, y) for n in (1, n_threads))
    assert one.coef_.data.tobytes() == more.coef_.data.tobytes()
    assert one.decision_function(data).tobytes() == more.decision_function(data).tobytes()


def test_which_data_are_dense():
    half = np.where(np.arange(20) % 2, X, 0.0)
    with Pool(1) as pool:
        assert isinstance(item_features(half, False, pool), DenseMap)
        assert item_features(X, False, pool).matrix is X
        assert item_features((9 * X).astype(np.int8), True, pool).matrix.dtype == np.float32
        half[:, 1] = 0.0
        for sparse in (half, sp.csr_array(X)):
            assert isinstance(item_features(sparse, True, pool), SparseMap)


def test_values_too_large():
    data = X.copy()
    data[3, 5] = 1e14
    with pytest.raises(
        InputError,
        match=r"^item 3: feature 5: expected a finite number of at most 1e\+12 in size, got 100000000000000\.0$",
    ):
        MulticlassCRF().fit(data, Y)


def peak_of(data) -> int:
    """The most bytes that a training allocates."""
    model = MulticlassCRF(l1=100.0, n_threads=1)
    tracemalloc.start()
    model.fit(data, np.arange(data.shape[0]) % 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
def test_it_takes_less_memory_than_index_arrays():
    data = RNG.normal(size=(12_000, 200)).astype(np.float32)
    peak_of(data[:100])  # compiled
    assert peak_of(data) <= 0.6 * peak_of(sp.csr_array(data))
