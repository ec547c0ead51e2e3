"""Scorers of hierarchical metrics, in scikit-learn's searches and cross-validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hierarchies import MEASURES, NAMES, ZOO
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from crfqn import TaxonomyCRF, metrics
from crfqn.errors import InputError
from crfqn.metrics import hierarchical_f1_score, hierarchical_scorer, level_accuracy, tree_induced_error


class OwnTree(ClassifierMixin, BaseEstimator):
    """A classifier that keeps its taxonomy, as TaxonomyCRF does."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression(C=self.C).fit(X, y, sample_weight)
        self.classes_, self.tree_ = self.model_.classes_, ZOO
        return self

    def predict(self, X):
        return self.model_.predict(X)


def path_to(name):
    return [ZOO.names[k] for k in ZOO.path(ZOO.node_of(name))]


class Rows(BaseEstimator):
    """A classifier of rows of names, padded with "", as in hiclass: no mixin, `classes_` a list of arrays."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, ["/".join(filter(None, row)) for row in y])
        self.classes_ = [np.unique(column) for column in np.transpose(y)]
        return self

    def predict(self, X):
        return np.array([[*row.split("/"), ""][:3] for row in self.model_.predict(X)])


EXPECTED = {
    **{name: getattr(metrics, f"{name}_score") for name in NAMES},
    "tree_induced_error": lambda *labels, **options: -tree_induced_error(*labels, **options),
    "level_accuracy:1": lambda *labels, **options: level_accuracy(*labels, **options)[0],
    "level_accuracy:3": lambda *labels, **options: level_accuracy(*labels, **options)[2],
}


class TestDefaults:
    @pytest.mark.parametrize("measure", MEASURES)
    def test_no_taxonomy_is_the_labels_own(self, measure):
        y_true, y_pred = ["a/b", "a/c", "d"], ["a/c", "a/c", "a/b"]
        np.testing.assert_array_equal(measure(y_true, y_pred), measure(y_true, y_pred, None))

    def test_a_hint_for_edges_in_an_array(self):
        edges = np.array([("u", "x"), ("u", "y")])
        with pytest.raises(
            InputError, match=r"^y_true: .*; a 2-column array holds paths: pass a list of tuples"
        ):
            hierarchical_f1_score(["x"], ["y"], edges)


class TestScorers:
    @pytest.mark.parametrize("name", EXPECTED)
    @pytest.mark.parametrize("taxonomy", [ZOO, ZOO.to_networkx()])
    def test_the_score_of_the_predictions(self, name, taxonomy, fitted):
        model, X, y = fitted
        scorer, weights = hierarchical_scorer(name, taxonomy), np.arange(len(y))
        assert scorer(model, X, y) == EXPECTED[name](y, model.predict(X), ZOO)
        weighted = EXPECTED[name](y, model.predict(X), ZOO, sample_weight=weights)
        assert scorer(model, X, y, sample_weight=weights) == weighted

    @pytest.mark.parametrize("name", EXPECTED)
    def test_in_cross_val_score(self, name, blobs):
        X, y = blobs
        found = cross_val_score(LogisticRegression(), X, y, cv=3, scoring=hierarchical_scorer(name, ZOO))
        assert found.shape == (3,)
        assert np.isfinite(found).all()
        assert (found < 0).all() if name == "tree_induced_error" else ((found > 0) & (found < 1)).all()

    def test_the_fold_is_what_counts(self, blobs):
        X, y = blobs
        folds = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
        found = cross_val_score(
            LogisticRegression(), X, y, cv=folds, scoring=hierarchical_scorer("lca_f1", ZOO)
        )
        expected = [
            metrics.lca_f1_score(y[test], LogisticRegression().fit(X[train], y[train]).predict(X[test]), ZOO)
            for train, test in folds
        ]
        assert found.tolist() == expected

    @pytest.mark.parametrize("name", EXPECTED)
    def test_the_estimators_own_tree(self, name, blobs):
        X, y = blobs
        scorer = hierarchical_scorer(name)
        model = OwnTree().fit(X, y)
        expected = EXPECTED[name](y, model.predict(X), ZOO)
        assert scorer(model, X, y) == expected
        pipeline = make_pipeline(StandardScaler(), OwnTree(C=0.1)).fit(X, y)
        assert scorer(pipeline, X, y) == EXPECTED[name](y, pipeline.predict(X), ZOO)
        weights = np.arange(len(y))
        weighted = EXPECTED[name](y, model.predict(X), ZOO, sample_weight=weights)
        assert scorer(model, X, y, sample_weight=weights) == weighted

    def test_in_a_search(self, blobs):
        X, y = blobs
        scoring = {
            "error": hierarchical_scorer("tree_induced_error"),
            "f1": hierarchical_scorer("lca_f1", ZOO),
        }
        grid = {"owntree__C": [1e-6, 1.0]}
        search = GridSearchCV(
            make_pipeline(StandardScaler(), OwnTree()), grid, scoring=scoring, refit="error", cv=2
        ).fit(X, y)
        errors = search.cv_results_["mean_test_error"]
        assert search.best_params_ == {"owntree__C": [1e-6, 1.0][int(errors.argmax())]}
        assert errors.max() < 0
        nested = hierarchical_scorer("tree_induced_error")(search, X, y)
        assert nested == -tree_induced_error(y, search.predict(X), ZOO)

    def test_weights_in_a_search(self, blobs):
        X, y = blobs
        weights = np.random.default_rng(0).random(len(y))
        found = [
            GridSearchCV(OwnTree(), {"C": [0.1, 1.0]}, cv=2, scoring=scoring)
            .fit(X, y, sample_weight=weights)
            .cv_results_["mean_test_score"]
            for scoring in (hierarchical_scorer("lca_f1"), hierarchical_scorer("lca_f1", ZOO))
        ]
        np.testing.assert_array_equal(*found)

    def test_rows(self, blobs):
        X, y = blobs
        rows = np.array([[*path_to(name), ""][:3] for name in y])
        model = Rows().fit(X, rows)
        found = cross_validate(
            Rows(), X, rows, cv=2, scoring={name: hierarchical_scorer(name) for name in EXPECTED}
        )
        assert all(np.isfinite(found[f"test_{name}"]).all() for name in EXPECTED)
        for name, score in EXPECTED.items():
            expected = score(y, [next(part for part in row[::-1] if part) for row in model.predict(X)], ZOO)
            paths = sorted({"/".join(filter(None, row)) for row in rows})
            assert hierarchical_scorer(name)(model, X, rows) == hierarchical_scorer(name, paths)(
                model, X, rows
            )
            assert hierarchical_scorer(name)(model, X, rows) == expected

    def test_labels_that_a_fold_has_not_seen(self):
        """A tree that was inferred from a fold's labels grows by those of the test; any other does not."""
        X, y = np.eye(4).repeat(4, axis=0)[:-2], ["a/b"] * 4 + ["a/c"] * 4 + ["d/e"] * 4 + ["d/f/g"] * 2
        folds = [(np.arange(12), np.arange(10, 14)), (np.arange(14), np.arange(14))]
        for name in EXPECTED:
            score = cross_val_score(
                TaxonomyCRF(l1=0.1), X, y, cv=folds, scoring=hierarchical_scorer(name), error_score="raise"
            )
            assert np.isfinite(score).all()
        model = TaxonomyCRF(l1=0.1).fit(X[:12], y[:12])
        found = hierarchical_scorer("hierarchical_f1")(model, X, y)
        assert found == hierarchical_f1_score(y, model.predict(X))
        dotted = [label.replace("/", ".") for label in y]
        model = TaxonomyCRF(l1=0.1, separator=".").fit(X[:12], dotted[:12])
        assert hierarchical_scorer("hierarchical_f1")(model, X, dotted) == found
        model = TaxonomyCRF(taxonomy=["a/b", "a/c", "d/e"], l1=0.1).fit(X[:12], y[:12])
        with pytest.raises(InputError, match="no node named 'd/f/g'"):
            hierarchical_scorer("hierarchical_f1")(model, X, y)

    def test_a_decision_trees_own_tree_is_another(self, blobs):
        X, y = blobs
        model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
        assert hierarchical_scorer("hierarchical_f1")(model, X, y) == model.score(X, y)

    @pytest.mark.parametrize("taxonomy", [None, ZOO])
    @pytest.mark.parametrize("name", EXPECTED)
    def test_pickles(self, name, taxonomy, blobs):
        X, y = blobs
        scorer = hierarchical_scorer(name, taxonomy)
        model = OwnTree().fit(X, y)
        assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)
        assert len(repr(scorer)) < 200
