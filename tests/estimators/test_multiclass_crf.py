"""MulticlassCRF for its user: the optimum against scikit-learn's, intercepts, weights of items and classes, messages.

scikit-learn's checks are in test_estimator_checks.py, model files in test_persistence.py.
"""

from __future__ import annotations

import doctest
import warnings
from copy import copy
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import crfqn
from crfqn import MulticlassCRF, TaxonomyCRF, threads
from crfqn.errors import InputError
from crfqn.estimators.classification import multiclass_crf as multiclass_module
from crfqn.estimators.classification.labels.item_weights import item_weights
from crfqn.result import Status

RNG = np.random.default_rng(41)
X = RNG.poisson(0.7, (90, 12)) * RNG.choice([0.5, 1.0, 2.0], (90, 12))
W = RNG.normal(size=(12, 4))
Y = np.argmax(X @ W + RNG.gumbel(size=(90, 4)) - [0.0, -1.0, 0.0, 1.0], axis=1)
NAMES = np.array(["b", "a", "d", "c"])[Y]
N_CLASSES = 4


def fitted(**settings) -> MulticlassCRF:
    return MulticlassCRF(**{"l1": 0.5, **settings}).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> MulticlassCRF:
    return fitted()


def objective(model: MulticlassCRF, X: Any, y: Any, weights: Any = 1.0) -> float:
    """What the estimator says that it minimises, from its public attributes and dense arrays."""
    coef, b = model.coef_.toarray(), model.intercept_
    scores = np.asarray(X, float) @ coef.T + b
    codes = np.searchsorted(model.classes_, y)
    losses = logsumexp(scores, axis=1) - scores[np.arange(codes.size), codes]
    paid = [coef.ravel(), b] if model.penalize_intercept else [coef.ravel()]
    penalty = sum(model.l1 * np.abs(w).sum() + 0.5 * (model.l2 or 0.0) * (w @ w) for w in paid)
    return float((weights * losses).sum() + penalty)


def assert_same_model(left: MulticlassCRF, right: MulticlassCRF) -> None:
    """Bit by bit."""
    assert left.coef_.toarray().tobytes() == right.coef_.toarray().tobytes()
    assert left.intercept_.tobytes() == right.intercept_.tobytes()
    assert left.result_.value == right.result_.value


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
        theirs = MulticlassCRF(l1=l1 * share, l2=l1 * (1 - share))
        theirs.coef_, theirs.intercept_ = sp.csr_array(saga.coef_), saga.intercept_
        theirs.classes_ = saga.classes_
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

    def test_it_is_all_that_is_left_under_a_strong_penalty(self):
        model = fitted(l1=1e6, tol=1e-12)
        assert model.coef_.nnz == 0
        np.testing.assert_allclose(model.predict_proba(X[:1])[0], np.bincount(Y) / Y.size, atol=1e-6)

    def test_with_a_penalty_it_is_a_feature_that_is_always_1(self):
        model = fitted(penalize_intercept=True, l2=0.1)
        wider = MulticlassCRF(l1=0.5, l2=0.1, fit_intercept=False).fit(np.c_[X, np.ones(len(X))], Y)
        np.testing.assert_allclose(wider.coef_.toarray()[:, :-1], model.coef_.toarray(), atol=1e-4)
        np.testing.assert_allclose(wider.coef_.toarray()[:, -1], model.intercept_, atol=1e-4)
        assert max(wider.result_.gap, model.result_.gap) <= 1e-3

    def test_none(self):
        model = fitted(fit_intercept=False)
        assert model.intercept_.tolist() == [0.0] * N_CLASSES
        assert model.result_.gap <= 1e-3

    def test_changing_the_parameter_does_not_change_the_fitted_model(self):
        model = fitted()
        before = model.predict_proba(X)
        assert model.set_params(fit_intercept=False).predict_proba(X).tobytes() == before.tobytes()


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
    def test_matrices_of_all_kinds(self, model, make):
        other = MulticlassCRF(l1=0.5).fit(make(X), Y)
        assert_close_model(model, other)
        np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(make(X)), atol=1e-4)

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
    TIGHT: ClassVar = {"l1": 0.4, "l2": 0.3, "tol": 1e-9}  # strongly convex: one optimum

    @pytest.mark.filterwarnings("ignore:stopped. rounding:sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 3: 0.0}], ids=str)
    def test_weights_are_repetitions(self, class_weight):
        counts = np.random.default_rng(0).integers(0, 4, len(X))
        again = np.repeat(np.arange(len(X)), counts)
        weighted = MulticlassCRF(**self.TIGHT, class_weight=class_weight).fit(X, Y, sample_weight=counts)
        repeated = MulticlassCRF(**self.TIGHT, class_weight=class_weight).fit(X[again], Y[again])
        assert weighted.classes_.tolist() == repeated.classes_.tolist()
        assert weighted.result_.value == pytest.approx(repeated.result_.value, rel=1e-9)
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)

    def test_weight_0_is_left_out_with_the_labels_that_only_it_has(self, model):
        more, y = np.r_[X, 9 * np.ones((2, 12))], np.r_[Y, 99, 0]
        other = MulticlassCRF(l1=0.5).fit(sp.csc_array(more), y, sample_weight=np.r_[np.ones(len(X)), 0, 0])
        assert other.classes_.tolist() == [0, 1, 2, 3]
        assert_same_model(MulticlassCRF(l1=0.5).fit(sp.csr_array(X), Y), other)

    def test_unit_weights_change_nothing(self, model):
        assert_same_model(model, MulticlassCRF(l1=0.5).fit(X, Y, sample_weight=np.ones(len(X), int)))
        assert_same_model(model, MulticlassCRF(l1=0.5, class_weight={}).fit(X, Y))

    def test_weights_of_classes_are_weights_of_their_items(self):
        factors = {"a": 3.0, "d": 0.5}
        own = np.linspace(0.5, 2.0, len(X))
        left = MulticlassCRF(l1=1.0, class_weight=factors).fit(X, NAMES, sample_weight=own)
        weights = own * [factors.get(name, 1.0) for name in NAMES]
        assert_same_model(left, MulticlassCRF(l1=1.0).fit(X, NAMES, sample_weight=weights))
        assert left.result_.value == pytest.approx(objective(left, X, NAMES, weights), rel=1e-12)

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
    def test_it_needs_fewer_passes_to_the_same_value(self):
        cold = fitted(tol=1e-6)
        warm = fitted(l1=0.55, tol=1e-6, warm_start=True)
        warm.set_params(l1=0.5).fit(X, Y)
        assert warm.result_.passes < cold.result_.passes
        assert warm.result_.value == pytest.approx(cold.result_.value, rel=1e-6)
        again = warm.fit(X, Y)
        assert (again.n_iter_, again.result_.passes) == (0, 1)

    def test_without_it_every_fit_starts_anew(self, model):
        assert_same_model(model, fitted().fit(X, Y))

    @pytest.mark.parametrize("what", ["classes", "features"])
    def test_weights_that_do_not_fit_are_not_used(self, what):
        other_X, other_y = (X[:, :-1], Y) if what == "features" else (X, Y + 5)
        warm = fitted(warm_start=True).fit(other_X, other_y)
        assert_same_model(warm, MulticlassCRF(l1=0.5).fit(other_X, other_y))

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


class TestPrediction:
    def test_the_ways_to_predict_agree(self, model):
        scores, log_p = model.decision_function(X), model.predict_log_proba(X)
        np.testing.assert_allclose(scores, X @ model.coef_.toarray().T + model.intercept_, atol=1e-12)
        np.testing.assert_allclose(log_p, scores - logsumexp(scores, axis=1)[:, None], atol=1e-12)
        p = model.predict_proba(X)
        np.testing.assert_allclose(np.log(p), log_p, atol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(model.predict_marginals(X), p)
        best = model.decode(X)
        np.testing.assert_array_equal(best.labels, model.predict(X))
        np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
        np.testing.assert_array_equal(best.log_probability, log_p.max(axis=1))
        np.testing.assert_array_equal(model.log_likelihood(X, Y), log_p[np.arange(len(X)), Y])
        assert model.score(X, Y) == np.mean(model.predict(X) == Y)

    def test_the_likelihood_is_what_training_minimised(self, model):
        loss = -model.log_likelihood(X, Y).sum()
        assert model.result_.value == pytest.approx(loss + 0.5 * np.abs(model.coef_.data).sum(), rel=1e-12)

    def test_two_classes_have_one_score(self):
        model = MulticlassCRF(l1=0.3).fit(X, NAMES < "c")
        scores, p = model.decision_function(X), model.predict_proba(X)
        assert scores.shape == (len(X),)
        assert p.shape == (len(X), 2)
        np.testing.assert_allclose(scores, np.log(p[:, 1] / p[:, 0]), atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), scores > 0)

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
    def test_blocks_do_not_matter(self, model, make):
        verbs = ("predict", "predict_proba", "predict_log_proba", "decision_function")
        whole = [getattr(model, verb)(make(X)) for verb in verbs]
        best, likelihood = model.decode(make(X)), model.log_likelihood(make(X), Y)
        model = copy(model)
        model.BLOCK_NUMBERS = 7 * N_CLASSES
        for verb, expected in zip(verbs, whole, strict=True):
            np.testing.assert_allclose(getattr(model, verb)(make(X)), expected, rtol=1e-12, atol=1e-14)
        found = model.decode(make(X))
        np.testing.assert_array_equal(found.labels, best.labels)
        np.testing.assert_allclose(found.log_probability, best.log_probability, rtol=1e-12)
        np.testing.assert_allclose(model.log_likelihood(make(X), Y), likelihood, rtol=1e-12)

    def test_ties_go_to_the_first_class(self):
        model = fitted(l1=1e6, fit_intercept=False)
        assert set(model.predict(X)) == {0}
        assert (model.predict_proba(X) == 0.25).all()

    def test_large_scores(self):
        model = fitted(l1=0.01)
        p = model.predict_proba(1e6 * X)
        assert np.isfinite(p).all()
        assert np.isfinite(model.decode(1e6 * X).log_probability).all()

    @pytest.mark.parametrize("n_threads", [2, 3])
    def test_bit_identical_for_any_number_of_threads(self, n_threads):
        one, other = fitted(n_threads=1), fitted(n_threads=n_threads)
        assert_same_model(one, other)
        assert one.result_.trace.value.tobytes() == other.result_.trace.value.tobytes()
        assert one.predict_proba(X).tobytes() == other.predict_proba(X).tobytes()


class TestFewRows:
    def test_they_need_no_threads(self, model, monkeypatch):
        started = []
        monkeypatch.setattr(
            threads, "ThreadPoolExecutor", lambda *arguments, **options: started.append(arguments)
        )
        expected, many = model.predict(X), copy(model)
        many.n_threads = 4
        for form in (X[:3], sp.csr_array(X[:3])):
            assert many.predict(form).tolist() == expected[:3].tolist()
            np.testing.assert_allclose(many.predict_proba(form), model.predict_proba(X)[:3], rtol=1e-12)
        assert started == []

    def test_one_by_one_as_all_together(self, model):
        together = model.decision_function(X)
        for i in range(0, len(X), 7):
            for form in (X[[i]], sp.csr_array(X[[i]]), sp.csc_array(X[[i]])):
                np.testing.assert_allclose(model.decision_function(form), together[[i]], atol=1e-12)


class TestTop:
    @pytest.mark.parametrize("k", [1, 3, np.int64(4)])
    def test_the_most_probable_come_first(self, model, k):
        labels, probabilities = model.predict_top(X, k)
        p = model.predict_proba(X)
        np.testing.assert_array_equal(labels[:, 0], model.predict(X))
        np.testing.assert_array_equal(probabilities, -np.sort(-p, axis=1)[:, :k])
        for row, names, expected in zip(p, labels, probabilities, strict=True):
            np.testing.assert_array_equal(row[np.searchsorted(model.classes_, names)], expected)

    def test_no_more_than_there_are(self, model):
        with pytest.raises(InputError, match=r"^k: expected an integer from 1 to 4, got 5$"):
            model.predict_top(X, 5)


class TestFlatIsAStar:
    @pytest.mark.parametrize("settings", [
        {"fit_intercept": False}, {"fit_intercept": True}, {"fit_intercept": True, "penalize_intercept": True},
        {"fit_intercept": False, "solver": "prox-qn-paper"},
    ], ids=str)  # fmt: skip
    def test_same_iterates_and_weights(self, settings):
        flat, star = MulticlassCRF(l1=0.5, **settings), TaxonomyCRF(l1=0.5, **settings)
        flat.fit(X, NAMES)
        star.fit(X, NAMES)
        assert star.tree_.names == ("a", "b", "c", "d")
        assert_same_model(flat, star)
        assert flat.result_.trace.value.tobytes() == star.result_.trace.value.tobytes()
        np.testing.assert_array_equal(flat.predict_proba(X), star.predict_proba(X))
        np.testing.assert_allclose(star.predict_nodes(X), star.predict_proba(X), atol=1e-14)


class TestMessages:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"l1": -1}, r"^l1: expected a finite number >= 0, got -1$"),
            ({"fit_intercept": 1}, r"^fit_intercept: expected True or False, got 1$"),
            ({"penalize_intercept": "no"}, r"^penalize_intercept: expected True or False, got 'no'$"),
            (
                {"class_weight": "equal"},
                r"^class_weight: expected None, 'balanced' or a dict .*, got 'equal'$",
            ),
            (
                {"class_weight": [1, 2]},
                r"^class_weight: expected None, 'balanced' or a dict .*, got \[1, 2\]$",
            ),
            (
                {"class_weight": {0: -1.0}},
                r"^class_weight: expected finite numbers >= 0, got -1.0 for label 0$",
            ),
            (
                {"class_weight": {2: np.nan}},
                r"^class_weight: expected finite numbers >= 0, got nan for label 2$",
            ),
            (
                {"class_weight": dict.fromkeys(range(4), 0.0)},
                "at least one item of positive weight, got none",
            ),
            (
                {"class_weight": {0: 1.0, 7: 2.0}},
                r"^class_weight: no item has the label 7; the labels are 0, 1, 2, 3$",
            ),
        ],
    )
    def test_parameters(self, settings, message):
        model = MulticlassCRF(**settings)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "coef_")
        assert not hasattr(model, "n_features_in_")

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (X, None, "requires y to be passed"),
            (X, Y[:-1], "inconsistent numbers of samples"),
            (X, X[:, 0] + 0.1, "Unknown label type: continuous"),
            (X, np.where(Y == 1, np.nan, Y), "Input y contains NaN"),
            (X, [None, *NAMES[1:]], "^item 0: expected a string or number as label, got None$"),
            (X, np.array([3, *NAMES[1:]], object), "^expected labels of one kind"),
            (np.where(X > 3, np.nan, X), Y, "Input X contains NaN"),
            (1j * X, Y, "Complex data not supported"),
            (np.array([["a"] * 2] * 90), Y, "not compatible with arrays of bytes"),
            (1e20 * X, Y, r"up to 1e\+12 in size, but feature 8 reaches .*: scale it"),
            (X[:, :0], Y, "0 feature"),
            (X[:0], Y[:0], "0 sample"),
        ],
    )  # fmt: skip
    def test_data(self, X, y, message):
        with pytest.raises(ValueError, match=message):
            MulticlassCRF().fit(X, y)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(89), r"^sample_weight: expected 90 numbers, one an item, got shape \(89,\)"),
            (np.r_[np.ones(89), -1], "^sample_weight: expected finite numbers >= 0, got -1.0 for item 89$"),
            (np.zeros(90), "^sample_weight: expected at least one positive weight, got only zeros$"),
        ],
    )
    def test_item_weights(self, weights, message):
        with pytest.raises(InputError, match=message):
            MulticlassCRF().fit(X, Y, sample_weight=weights)

    @pytest.mark.parametrize(
        "verb", ["predict", "predict_proba", "predict_log_proba", "predict_marginals", "decision_function", "decode"]
    )  # fmt: skip
    def test_prediction(self, model, verb):
        with pytest.raises(NotFittedError, match="This MulticlassCRF instance is not fitted yet"):
            getattr(MulticlassCRF(), verb)(X)
        with pytest.raises(ValueError, match="X has 11 features, but MulticlassCRF is expecting 12"):
            getattr(model, verb)(X[:, 1:])
        with pytest.raises(ValueError, match="Input X contains NaN"):
            getattr(model, verb)(np.where(X > 3, np.nan, X))

    @pytest.mark.parametrize(
        "form", [list, tuple, np.array, lambda rows: np.fromiter(rows, object, len(rows))]
    )
    def test_rows_of_parts(self, form):
        rows = form([("a", "b") if label else ("a", "c") for label in Y])
        with pytest.raises(
            InputError, match=r"^expected one label an item, got .*; rows of parts are for Taxo"
        ):
            MulticlassCRF().fit(X, rows)

    def test_class_weights_of_some_or_of_others(self):
        fitted(class_weight={0: 2.0})
        fitted(class_weight=dict.fromkeys(range(9), 1.0))  # complete, and more: a fold may lack a class
        with pytest.raises(InputError, match=r"no item has the label 'artt'; the labels are 'art', 'sport'$"):
            MulticlassCRF(class_weight={"artt": 3}).fit(X, np.where(Y == 0, "art", "sport"))

    def test_likelihood_of_unknown_labels(self, model):
        with pytest.raises(InputError, match=r"^item 89: label 9 is not among the 4 known classes$"):
            model.log_likelihood(X, np.r_[Y[:-1], 9])
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.log_likelihood(X, Y[:-1])

    @pytest.mark.parametrize(
        "change",
        [{"y": Y[:-1]}, {"y": X[:, 0] + 0.1}, {"X": 1e20 * X[:, :5]}, {"sample_weight": np.zeros(90)}],
        ids=["number of labels", "labels", "size", "weights"],
    )
    def test_a_failed_fit_keeps_the_old_model(self, change):
        model = fitted()
        before = model.predict_proba(X)
        with pytest.raises(ValueError, match=r"."):
            model.fit(**{"X": X[:, :5], "y": Y, **change})
        assert model.n_features_in_ == 12
        assert model.predict_proba(X).tobytes() == before.tobytes()


class TestEnds:
    def test_a_limit_warns_with_the_gap(self):
        with pytest.warns(
            ConvergenceWarning, match=r"limit of iterations .*\(relative gap [\d.e-]+, tol 1e-06, 2 it"
        ):
            assert fitted(fit_intercept=False, max_iter=2, tol=1e-6).n_iter_ == 2

    def test_a_limit_warns_with_the_violation_where_there_is_no_gap(self):
        expected = (
            r"limit of iterations .*\(no certified gap, largest violation [\d.e-]+, tol 1e-06, 2 iterations\)"
        )
        with pytest.warns(ConvergenceWarning, match=expected):
            assert fitted(l1=0.0, max_iter=2, tol=1e-6).n_iter_ == 2

    def test_callback_can_stop(self):
        rows = []
        with pytest.warns(ConvergenceWarning, match="a callback asked for it"):
            model = fitted(callback=lambda row: rows.append(row) or row.iteration == 2)
        assert (model.result_.status, model.n_iter_) == (Status.CALLBACK, 2)
        assert rows == model.result_.trace.rows

    def test_interrupt_keeps_a_usable_model(self):
        def interrupt(row):
            if row.iteration == 4:
                raise KeyboardInterrupt

        model = MulticlassCRF(l1=0.5, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert (model.result_.status, model.n_iter_) == (Status.INTERRUPTED, 4)
        assert model.score(X, Y) > 0.5

    def test_an_interrupt_ends_a_search(self):
        calls = []

        def interrupt(row):
            calls.append(row)
            raise KeyboardInterrupt

        search = GridSearchCV(MulticlassCRF(callback=interrupt), {"l1": [0.5, 1.0]}, cv=2)
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, Y)
        assert len(calls) == 1

    def test_verbose_writes_to_stderr_only(self, capfd):
        fitted(verbose=1)
        out, err = capfd.readouterr()
        assert out == ""
        assert "objective" in err


def test_docstring_example():
    failures, tests = doctest.testmod(multiclass_module)
    assert (failures, tests > 0) == (0, True)
    assert crfqn.MulticlassCRF is MulticlassCRF
