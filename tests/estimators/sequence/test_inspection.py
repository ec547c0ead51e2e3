"""ChainCRF as sklearn-crfsuite's users know it: predictions as lists, weights by name, nested feature values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF
from crfqn.data.encoding import encode_sequences
from crfqn.errors import InputError
from crfqn.metrics import find_scorer, make_span_scorer, span_f1_score

X = [[{"w": w, "bias": 1.0} for w in words] for words in (["a", "b"], ["b", "a"], ["a", "a"], ["b", "b"])] * 3
Y = [["B-A" if position["w"] == "a" else "O" for position in item] for item in X]


def as_objects(lists):
    found = np.empty(len(lists), object)
    found[:] = lists
    return found


@pytest.fixture(scope="module")
def model():
    return ChainCRF(l1=0.1, n_threads=1).fit(X, Y)


class TestPredict:
    def test_equal_and_other_lengths_give_lists(self, model):
        for items in (X, [X[0], X[1][:1], []]):
            found = model.predict(items)
            assert found.shape == (len(items),)
            assert found.dtype == object
            assert all(type(labels) is list for labels in found)
        assert found.tolist() == [["B-A", "O"], ["O"], []]

    def test_single_items(self, model):
        assert model.predict_single(X[1]) == ["O", "B-A"]
        np.testing.assert_array_equal(
            model.predict_marginals_single(X[1]), model.predict_marginals(X[1:2])[0]
        )

    def test_probabilities_are_the_marginals_in_pipelines_too(self, model):
        pipeline = make_pipeline(FunctionTransformer(), model)
        known = [["O", None], *[None] * (len(X) - 1)]
        for arguments in ({}, {"known": known}):
            expected = model.predict_marginals(X, **arguments)
            for found in (model.predict_proba(X, **arguments), pipeline.predict_proba(X, **arguments)):
                assert all(map(np.array_equal, found, expected))
        assert found[0][0].tolist() == [0.0, 1.0]
        assert not hasattr(ChainCRF(loss="hinge"), "predict_proba")

    def test_cross_val_predict_and_seqeval_take_it(self):
        from seqeval.metrics import f1_score

        found = cross_val_predict(ChainCRF(l1=0.1, n_threads=1), X, Y, cv=2)
        assert f1_score(Y, list(found)) == span_f1_score(Y, found, scheme="IOB2") == 1.0

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_searches_take_scorers_and_weights(self):
        scoring = {"spans": make_span_scorer("IOB2"), "tokens": find_scorer("token_accuracy")}
        weights = np.ones(len(X))
        found = cross_validate(
            ChainCRF(l1=0.1, n_threads=1), X, Y, cv=2, scoring=scoring, params={"sample_weight": weights}
        )
        assert found["test_spans"].tolist() == found["test_tokens"].tolist() == [1.0, 1.0]
        search = GridSearchCV(ChainCRF(n_threads=1), {"l1": [0.1, 100.0]}, scoring=scoring["spans"], cv=2)
        assert search.fit(X, Y).best_params_ == {"l1": 0.1}

    @pytest.mark.parametrize("y", [Y, as_objects(Y)], ids=["lists", "objects"])
    def test_strings_of_scikit_learn_score_nothing(self, y):
        chain = ChainCRF(l1=0.1, n_threads=1)
        with pytest.raises(ValueError, match="legacy multi-label"):
            cross_validate(chain, X, y, cv=2, scoring="f1_weighted", error_score="raise")
        with pytest.warns(UserWarning, match="Scoring failed"):
            found = cross_validate(chain, X, y, cv=2, scoring="f1_weighted")
        assert np.isnan(found["test_score"]).all()

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_scores_of_all_positions(self, model):
        for name in ("accuracy", "f1_macro"):
            search = GridSearchCV(
                ChainCRF(n_threads=1), {"l1": [0.1, 100.0]}, cv=2, scoring=find_scorer(name)
            )
            search.fit(X, Y)
            assert (search.best_params_, search.best_score_) == ({"l1": 0.1}, 1.0)
        assert search.best_estimator_.score(X, Y) == 1.0

    def test_estimators_of_others_around_a_chain_may_be_scored_by_anything(self):
        class FirstLabel(ClassifierMixin, BaseEstimator):
            def fit(self, X, y):
                self.chain_ = ChainCRF(l1=0.1, n_threads=1).fit(X, [[label] * 2 for label in y])
                self.classes_ = self.chain_.classes_
                return self

            def predict(self, X):
                return np.array([labels[0] for labels in self.chain_.predict(X)])

        X = [[{"w": w}] * 2 for w in "abab"]
        assert cross_validate(FirstLabel(), X, list("abab"), cv=2, scoring="f1_macro")["test_score"].all()

    @pytest.mark.parametrize("model", [MulticlassCRF(l1=0.1), TaxonomyCRF(l1=0.1)], ids=str)
    def test_estimators_of_single_labels_take_the_strings(self, model):
        X, y = np.tile(np.eye(3), (4, 1)), ["a/x", "a/y", "b"] * 4
        found = cross_validate(model, X, y, cv=2, scoring=["accuracy", "f1_macro", "f1_weighted"])
        assert [found[f"test_{name}"].tolist() for name in ("accuracy", "f1_macro")] == [[1.0, 1.0]] * 2

    def test_metadata_is_routed_through_a_pipeline(self):
        from sklearn import config_context

        weights = np.ones(len(X))
        weights[1::2] = 0.0
        with config_context(enable_metadata_routing=True):
            chain = ChainCRF(l1=0.1, n_threads=1).set_fit_request(sample_weight=True)
            routed = make_pipeline(FunctionTransformer(), chain).fit(X, Y, sample_weight=weights)
        kept = ChainCRF(l1=0.1, n_threads=1).fit(X[::2], Y[::2])
        assert routed[-1].state_features_ == kept.state_features_


class TestWeightsByName:
    def test_they_are_the_weights(self, model):
        names, labels = model.feature_names_in_.tolist(), model.classes_.tolist()
        states = model.state_features_
        assert len(states) == model.coef_.nnz
        for (name, label), weight in states.items():
            assert weight == model.coef_[labels.index(label), names.index(name)] != 0.0
        assert len(model.transition_features_) == model.transition_coef_.nnz
        for (before, label), weight in model.transition_features_.items():
            assert weight == model.transition_coef_[labels.index(before), labels.index(label)]

    def test_top_features(self, model):
        every = model.top_features("B-A", None)
        assert {(name, "B-A"): weight for name, weight in every} == {
            key: weight for key, weight in model.state_features_.items() if key[1] == "B-A"
        }
        sizes = [abs(weight) for _, weight in every]
        assert sizes == sorted(sizes, reverse=True)
        assert model.top_features("B-A", 1) == every[:1]

    def test_columns_without_names(self):
        model = ChainCRF(l1=0.1, n_threads=1).fit(
            [np.eye(2), np.eye(2)[::-1]] * 3, [["a", "b"], ["b", "a"]] * 3
        )
        assert {name for name, _ in model.state_features_} <= {0, 1}

    @pytest.mark.parametrize("arguments", [("C",), ("O", 0), ("O", True)])
    def test_bad_arguments(self, model, arguments):
        with pytest.raises(InputError, match="expected"):
            model.top_features(*arguments)


def test_result_is_shown_in_a_line(model):
    shown = repr(model.result_)
    assert shown.startswith(f"Result({model.result_.status.name}, value=")
    assert len(shown) < 200
    assert "\n" not in shown


class TestNestedValues:
    def test_they_are_features_with_the_names_joined(self):
        position = {
            "f": ["x", "y"],
            "s": {"u"},
            "d": {"real": 2.5, "yes": True, "no": False, "deep": {"text": "t", "more": ("v",)}},
            "plain": "p",
        }
        found, vocabulary = encode_sequences([[position, {"plain": "p"}]])
        names = vocabulary.names
        values = dict(zip(names, found.matrix.toarray()[0].tolist(), strict=True))
        assert values == {
            "f:x": 1.0,
            "f:y": 1.0,
            "s:u": 1.0,
            "d:real": 2.5,
            "d:yes": 1.0,
            "d:no": 0.0,
            "d:deep:text=t": 1.0,
            "d:deep:more:v": 1.0,
            "plain=p": 1.0,
        }
        again, _ = encode_sequences([[position, {"plain": "p", "f": ["new"]}]], vocabulary)
        np.testing.assert_array_equal(again.matrix.toarray(), found.matrix.toarray())

    def test_a_string_twice_counts_twice(self):
        found, _ = encode_sequences([[{"f": ["x", "x"]}]])
        assert found.matrix.toarray().tolist() == [[2.0]]

    @pytest.mark.parametrize(("value", "message"), [
        ([1], "item 0, position 0: feature 'f': expected a list of strings, but it contains 1 of type int"),
        ({"a": None}, "feature 'f': feature 'a': expected a number, boolean, string, list or dict, got None"),
        ({1: 1.0}, "feature 'f': expected feature names that are strings, got 1 of type int"),
        ({"a": float("inf")}, r"feature 'f': feature 'a': expected a finite number of at most 1e\+12 in size, got inf"),
    ])  # fmt: skip
    def test_bad_values(self, value, message):
        with pytest.raises(InputError, match=message):
            encode_sequences([[{"f": value}]])
