"""`MulticlassCRF`: predictions, strongest features, and what it says."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from multiclass_items import N_CLASSES, NAMES, X, Y, assert_same_model, fitted
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

import crfqn
from crfqn import MulticlassCRF, TaxonomyCRF, threads
from crfqn.errors import InputError


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

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
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
    @pytest.mark.parametrize(("settings", "message"), [
        ({"l1": -1}, r"^l1: expected None, 'auto' or a finite number >= 0, got -1$"),
        ({"fit_intercept": 1}, r"^fit_intercept: expected True or False, got 1$"),
        ({"penalize_intercept": "no"}, r"^penalize_intercept: expected True or False, got 'no'$"),
        ({"class_weight": "equal"}, r"^class_weight: expected None, 'balanced' or a dict .*, got 'equal'$"),
        ({"class_weight": [1, 2]}, r"^class_weight: expected None, 'balanced' or a dict .*, got \[1, 2\]$"),
        ({"class_weight": {0: -1.0}}, r"^class_weight: expected finite numbers >= 0, got -1.0 for label 0$"),
        ({"class_weight": {2: np.nan}}, r"^class_weight: expected finite numbers >= 0, got nan for label 2$"),
        ({"class_weight": dict.fromkeys(range(4), 0.0)}, "at least one item of positive weight, got none"),
        ({"class_weight": {0: 1.0, 7: 2.0}}, r"^class_weight: no item has the label 7; the labels are 0, 1, 2, 3$"),
    ])  # fmt: skip
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
            (X, np.where(Y == 1, np.nan, Y), r"^item \d+: expected a label, got nan$"),
            (X, [None, *NAMES[1:]], "^item 0: expected a string or number as label, got None$"),
            (X, np.array([3, *NAMES[1:]], object), "^expected labels of one kind"),
            (np.where(X > 3, np.nan, X), Y, "Input X contains NaN"),
            (1j * X, Y, "Complex data not supported"),
            (np.array([["a"] * 2] * 90), Y, "not compatible with arrays of bytes"),
            (1e20 * X, Y, r"item 0: feature 0: .* 1e\+12 in size, got 4e\+20"),
            (X[:, :0], Y, "0 feature"),
            (X[:0], Y[:0], "0 sample"),
        ],
    )  # fmt: skip
    def test_data(self, X, y, message):
        with pytest.raises(ValueError, match=message):
            MulticlassCRF().fit(X, y)

    @pytest.mark.parametrize(("weights", "message"), [
        (np.ones(89), r"^sample_weight: expected 90 numbers, one an item, got shape \(89,\)"),
        (np.r_[np.ones(89), -1], "^sample_weight: expected finite numbers >= 0, got -1.0 for item 89$"),
        (np.zeros(90), "^sample_weight: expected at least one positive weight, got only zeros$"),
    ])  # fmt: skip
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
        with pytest.raises(
            InputError, match=r"has the label 'artt'; the labels are 'art', 'sport'; did you mean art\?$"
        ):
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
            ConvergenceWarning, match=r"limit of iterations .*\(relative gap [\d.e-]+, .*tol 1e-06, 2 it"
        ):
            assert fitted(fit_intercept=False, max_iter=2, tol=1e-6).n_iter_ == 2

    def test_a_limit_warns_with_the_violation_where_there_is_no_gap(self):
        expected = (
            r"limit of iterations .*\(no certified gap, largest violation [\d.e-]+, tol 1e-06, 2 iterations\)"
        )
        with pytest.warns(ConvergenceWarning, match=expected):
            assert fitted(l1=0.0, max_iter=2, tol=1e-6).n_iter_ == 2

    def test_an_interrupt_ends_a_search(self):
        calls = []

        def interrupt(row):
            calls.append(row)
            raise KeyboardInterrupt

        search = GridSearchCV(MulticlassCRF(callback=interrupt), {"l1": [0.5, 1.0]}, cv=2)
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, Y)
        assert len(calls) == 1


def test_the_public_class():
    assert crfqn.MulticlassCRF is MulticlassCRF
