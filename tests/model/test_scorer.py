"""Scores of many items at once, whichever way they are summed, against products by scipy."""

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.model import compiled_engine
from crfqn.model.compiled_engine import Scorer
from crfqn.model.weights import WeightMatrix
from crfqn.threads import Pool

N, F, K = 3000, 40, 12
RNG = np.random.default_rng(0)
X = sp.random_array((N, F), density=0.4, format="csr", rng=RNG)
INTERCEPT = RNG.standard_normal(K)
WEIGHTS = {
    "full": lambda: RNG.standard_normal((K, F)),
    "every third": lambda: np.where(np.arange(K * F).reshape(K, F) % 3 == 0, 1.5, 0.0),
    "of few features": lambda: RNG.standard_normal((K, F)) * (np.arange(F) % 8 == 0),
    "one of a feature": lambda: np.where(np.arange(F) % K == np.arange(K)[:, None], -2.0, 0.0),
    "none": lambda: np.zeros((K, F)),
}
FORMS = {
    "csr": lambda: X,
    "csr of float32": lambda: X.astype(np.float32),
    "csr of int64": lambda: sp.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape
    ),
    "csc": X.tocsc,
    "array": X.toarray,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("n_block", "n_threads"), [(N, 1), (N, 2), (999, 2), (5, 1)])
def test_every_way_sums_the_same(form, weights, n_block, n_threads, monkeypatch):
    monkeypatch.setattr(compiled_engine, "ITEMS_PER_PRODUCT", 700)  # several stretches
    table, rows = WEIGHTS[weights](), FORMS[form]()
    coef = WeightMatrix.of_sparse(sp.csr_array(table))
    with Pool(n_threads) as pool:
        parts = list(Scorer(coef, INTERCEPT, pool).blocks(rows, n_block))
    assert [part.shape[1] for part in parts] == [min(n_block, N - first) for first in range(0, N, n_block)]
    expected = rows @ table.T + INTERCEPT
    np.testing.assert_allclose(
        np.concatenate(parts, axis=1).T, expected, rtol=1e-6 if "32" in form else 1e-12, atol=1e-12
    )


def test_csr_rows_are_multiplied_by_the_table_of_weights(monkeypatch):
    ways, rows = [], sp.vstack([X, X, X], format="csr")  # more entries than are scored one by one
    for name in ("_products", "by_feature"):
        way = getattr(Scorer, name)
        monkeypatch.setattr(Scorer, name, lambda *a, way=way, name=name: ways.append(name) or way(*a))
    with Pool(1) as pool:
        for name in ("full", "one of a feature"):
            list(
                Scorer(WeightMatrix.of_sparse(sp.csr_array(WEIGHTS[name]())), INTERCEPT, pool).blocks(
                    rows, 3 * N
                )
            )
    assert ways == ["_products", "by_feature"]


@pytest.mark.parametrize(
    ("n_states", "share", "expected"),
    [(60, 0.2, "_products"), (146, 0.2, "by_feature"), (146, 0.7, "_products"), (600, 0.3, "by_feature")],
)
def test_a_table_of_many_states_must_be_half_full(n_states, share, expected, monkeypatch):
    """Of 146 states with a fifth of the weights it took three times as long as the store."""
    ways = []
    for name in ("_products", "by_feature"):
        way = getattr(Scorer, name)
        monkeypatch.setattr(Scorer, name, lambda *a, way=way, name=name: ways.append(name) or way(*a))
    table = np.where(RNG.random((n_states, F)) < share, 1.5, 0.0)
    with Pool(1) as pool:
        (scores,) = Scorer(WeightMatrix.of_sparse(sp.csr_array(table)), np.zeros(n_states), pool).blocks(X, N)
    assert ways == [expected]
    np.testing.assert_allclose(scores.T, X @ table.T, atol=1e-12)


def test_rows_without_entries():
    coef = WeightMatrix.of_sparse(sp.csr_array(WEIGHTS["full"]()))
    rows = sp.csr_array((20_000, F))
    with Pool(2) as pool:
        (scores,) = Scorer(coef, INTERCEPT, pool).blocks(rows, 20_000)
    np.testing.assert_array_equal(scores, np.repeat(INTERCEPT[:, None], 20_000, axis=1))
