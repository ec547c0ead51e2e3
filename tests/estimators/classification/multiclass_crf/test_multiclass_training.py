"""`MulticlassCRF.fit`: the optimum, intercepts, inputs, weights, warm starts."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from multiclass_items import N_CLASSES, NAMES, X, Y, assert_same_model, fitted
from scipy.special import logsumexp
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

from crfqn import MulticlassCRF
from crfqn.data.items import item_weights
from crfqn.result import Status


def objective(model: MulticlassCRF, X: Any, y: Any, weights: Any = 1.0) -> float:
    """What the estimator says that it minimises, from its public attributes and dense arrays."""
    coef, b = model.coef_.toarray(), model.intercept_
    scores = np.asarray(X, float) @ coef.T + b
    codes = np.searchsorted(model.classes_, y)
    losses = logsumexp(scores, axis=1) - scores[np.arange(codes.size), codes]
    paid = [coef.ravel(), b] if model.penalize_intercept else [coef.ravel()]
    penalty = sum(model.l1 * np.abs(w).sum() + 0.5 * (model.l2 or 0.0) * (w @ w) for w in paid)
    return float((weights * losses).sum() + penalty)


def assert_close_model(left: MulticlassCRF, right: MulticlassCRF) -> None:
    """As far as they are solved: products of arrays sum up in another order than index arrays do."""
    np.testing.assert_allclose(left.coef_.toarray(), right.coef_.toarray(), atol=1e-4)
    np.testing.assert_allclose(left.intercept_, right.intercept_, atol=1e-4)
    assert left.result_.value == pytest.approx(right.result_.value, rel=1e-6)


class TestOptimum:
    @pytest.mark.parametrize("has_intercept", [False, True])
    @pytest.mark.parametrize(("l1", "share"), [(0.5, 1.0), (4.0, 1.0), (1.0, 0.5)])
    def test_it_is_that_of_scikit_learn(self, has_intercept, l1, share):
        """saga over the elastic net; `share` of the penalty is L1."""
        saga = LogisticRegression(
            penalty="elasticnet", l1_ratio=share, C=1.0 / l1, solver="saga", fit_intercept=has_intercept,
            tol=1e-9, max_iter=20_000, random_state=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # releases differ in what they call the penalty
            saga.fit(X, Y)
        model = fitted(l1=l1 * share, l2=l1 * (1 - share), fit_intercept=has_intercept, tol=1e-6)
        theirs = copy(model)
        theirs.coef_, theirs.intercept_ = sp.csr_array(saga.coef_), saga.intercept_
        expected = objective(theirs, X, Y)
        assert model.result_.value == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(model.predict_proba(X), saga.predict_proba(X), atol=1e-3)

    @pytest.mark.parametrize("settings", [
        {"fit_intercept": False}, {}, {"penalize_intercept": True}, {"l2": 0.7}, {"l1": 0.0, "l2": 0.3},
        {"solver": "prox-qn-paper"},
    ], ids=str)  # fmt: skip
    def test_the_value_is_that_of_the_attributes(self, settings):
        model = fitted(**settings)
        assert model.result_.value == pytest.approx(objective(model, X, Y), rel=1e-12)
        assert model.result_.status is Status.CONVERGED

    def test_attributes(self, model):
        assert isinstance(model.coef_, sp.csr_array)
        assert model.coef_.shape == (N_CLASSES, 12)
        assert (model.coef_.data != 0).all()
        assert model.intercept_.shape == (N_CLASSES,)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        assert model.n_features_in_ == 12
        assert model.n_iter_ == model.result_.n_iter > 0
        assert model.result_.n_nonzero == model.coef_.nnz + np.count_nonzero(model.intercept_)
        assert not hasattr(model, "feature_names_in_")

    def test_two_classes_keep_two_rows(self):
        model = MulticlassCRF(l1=0.3).fit(X, Y > 1)
        assert model.coef_.shape == (2, 12)
        assert model.classes_.tolist() == [False, True]
        np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-12)


class TestIntercept:
    def test_without_a_penalty_every_class_is_predicted_as_often_as_it_comes(self):
        model = fitted(l1=2.0, tol=1e-6)
        counts = model.predict_proba(X).sum(axis=0)
        np.testing.assert_allclose(counts, np.bincount(Y), atol=3e-6)
        assert abs(model.intercept_.sum()) < 1e-12
        assert model.intercept_.all()
        assert model.result_.gap <= 1e-6

    def test_changing_the_parameter_does_not_change_the_fitted_model(self):
        model = fitted()
        before = model.predict_proba(X)
        assert model.set_params(fit_intercept=False).predict_proba(X).tobytes() == before.tobytes()


EXACT = {"l2": 0.5, "tol": 1e-9}  # near enough to the one optimum that weights can be compared


@pytest.fixture(scope="module")
def exact() -> MulticlassCRF:
    return fitted(**EXACT)


class TestInputs:
    @pytest.mark.parametrize(
        "make",
        [
            sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, np.asfortranarray, np.ndarray.tolist,
            lambda X: X.astype(np.float32), lambda X: sp.csc_matrix(X, dtype=np.float32),
            lambda X: X.astype(object),
        ],
        ids=["csr", "csc", "coo", "matrix", "fortran", "lists", "float32", "csc float32", "objects"],
    )  # fmt: skip
    def test_matrices_of_all_kinds(self, exact, make):
        other = MulticlassCRF(l1=0.5, **EXACT).fit(make(X), Y)
        assert_close_model(exact, other)
        np.testing.assert_allclose(exact.predict_proba(X), other.predict_proba(make(X)), atol=1e-4)

    def test_sparse_matrices_are_the_same_in_every_format(self):
        first = MulticlassCRF(l1=0.5).fit(sp.csr_array(X), Y)
        for make in (sp.csc_array, sp.coo_array, sp.csr_matrix, lambda X: sp.csc_matrix(X, dtype=np.float32)):
            other = MulticlassCRF(l1=0.5).fit(make(X), Y)
            assert_same_model(first, other)
            np.testing.assert_array_equal(first.predict_proba(make(X)), other.predict_proba(make(X)))

    @pytest.mark.parametrize("kind", [np.int64, np.int8, bool, np.uint16])
    def test_integers_and_booleans(self, kind):
        counts = (2 * X).astype(kind)
        left = MulticlassCRF().fit(counts, Y)
        assert_same_model(left, MulticlassCRF().fit(counts.astype(float), Y))

    @pytest.mark.parametrize(
        ("y", "kind"),
        [
            (NAMES, "U"), (NAMES.tolist(), "U"), (NAMES.astype(object), "U"), (Y - 7, "i"), (Y.astype(float), "f"),
            (Y.astype(np.uint8), "u"), (Y > 1, "b"),
        ],
        ids=["str", "list", "objects", "int", "float", "uint8", "bool"],
    )  # fmt: skip
    def test_labels_keep_their_kind(self, y, kind):
        model = MulticlassCRF(l1=0.5).fit(X, y)
        assert model.classes_.dtype.kind == kind
        assert model.classes_.tolist() == sorted(set(np.asarray(y).tolist()))
        assert model.predict(X).dtype == model.classes_.dtype
        assert model.score(X, y) > 0.6

    def test_a_column_of_labels(self, model):
        with pytest.warns(DataConversionWarning, match="column-vector"):
            assert_same_model(model, MulticlassCRF(l1=0.5).fit(X, Y[:, None]))

    def test_inputs_are_left_alone(self):
        matrix, targets, weights = sp.csr_array(X), Y.copy(), np.linspace(0, 2, len(X))
        arrays = [matrix.data, matrix.indices, matrix.indptr, targets, weights]
        copies = [array.copy() for array in arrays]
        for array in arrays:
            array.setflags(write=False)
        MulticlassCRF(class_weight="balanced").fit(matrix, targets, weights)
        for array, before in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, before)


class TestWeights:
    def test_unit_weights_change_nothing(self, model):
        assert_same_model(model, MulticlassCRF(l1=0.5).fit(X, Y, sample_weight=np.ones(len(X), int)))
        assert_same_model(model, MulticlassCRF(l1=0.5, class_weight={}).fit(X, Y))

    def test_balanced_classes_count_the_same(self):
        own = np.r_[np.zeros(5), np.linspace(0.5, 2.0, len(X) - 5)]
        weights = item_weights(own, "balanced", np.arange(5), Y.astype(np.int32))  # class 4 never comes
        np.testing.assert_allclose(np.bincount(Y, weights), own.sum() / 4)
        assert (weights[:5] == 0).all()
        rare = MulticlassCRF(l1=3.0, class_weight="balanced").fit(X, Y)
        recall = [(rare.predict(X) == k)[k == Y].mean() for k in range(N_CLASSES)]
        plain = [(fitted(l1=3.0).predict(X) == k)[k == Y].mean() for k in range(N_CLASSES)]
        assert min(recall) > min(plain)

    def test_score_weighs_items(self, model):
        is_even = np.arange(len(X)) % 2 == 0
        assert model.score(X, Y, sample_weight=is_even) == pytest.approx(model.score(X[is_even], Y[is_even]))


class TestWarmStart:
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("way", ["start", "warm_start"])
    def test_labels_in_common_are_kept(self, way):
        old = MulticlassCRF(l1=0.3, penalize_intercept=True).fit(X, Y)
        gone = old.classes_[0]
        stays = gone != Y
        settings = {"callback": lambda row: True, "penalize_intercept": True}
        if way == "start":
            model = MulticlassCRF(**settings).fit(X[stays], Y[stays], start=old)
        else:
            model = copy(old).set_params(warm_start=True, **settings).fit(X[stays], Y[stays])
        assert old.coef_[1:].nnz > 0
        np.testing.assert_array_equal(model.coef_.toarray(), old.coef_.toarray()[1:])
        np.testing.assert_array_equal(model.intercept_, old.intercept_[1:])

    def test_verbose_says_what_was_kept(self, capsys):
        model = fitted(warm_start=True)
        n = model.result_.n_nonzero
        model.set_params(verbose=1).fit(X, Y)
        labels = f"{model.classes_.size} of {model.classes_.size} labels"
        features = f"{model.n_features_in_} of {model.n_features_in_} features"
        line = f"start: {n} of {n} weights kept; in common {labels}, {features}"
        assert capsys.readouterr().err.splitlines()[0] == line
        model.fit(X[:, :-1], Y)
        assert capsys.readouterr().err.startswith("start: nothing kept, other features without names")

    def test_an_intercept_may_come_or_go(self):
        warm = fitted(warm_start=True)
        warm.set_params(fit_intercept=False).fit(X, Y)
        assert warm.result_.value == pytest.approx(fitted(fit_intercept=False).result_.value, rel=2e-3)
        warm.set_params(fit_intercept=True).fit(X, Y)
        assert warm.result_.value == pytest.approx(fitted().result_.value, rel=2e-3)
