"""scikit-learn's own checks, all of them, on every classifier with each of its losses; and its tools around them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from callers import is_at_line_of
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from crfqn import (
    CalibratedLeastSquares,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
)
from crfqn.solvers.prox_qn import ProxQN

CLASSES = [MulticlassCRF, TaxonomyCRF]
# A class with each of its losses, and with and without intercepts; other settings have tests beside the estimator's.
CHECKED = [
    MulticlassCRF(),
    TaxonomyCRF(fit_intercept=True),
    MulticlassClassifier(),
    MulticlassClassifier(loss="logistic", solver="bcd"),
    MulticlassClassifier(loss="multitask-squared-hinge", penalty="l2", fit_intercept=False),
    MulticlassClassifier(loss="hinge", penalty="l2", l2=1.0),
    MulticlassSVC(),
    MultilabelRanker(),
    GeneralizedLeastSquares(),
    CalibratedLeastSquares(max_iter=20),
    StagewiseRegression(batch_size=40, max_iter=4),
    StagewiseRegression(
        update="logistic", inner_iter=1, batch_size=40, max_iter=4
    ),  # a check sets max_iter to 1000
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings(
    "ignore::crfqn.errors.EmptyModelWarning"
)  # of features far from the origin, and few
@pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
@pytest.mark.filterwarnings("ignore:.*(requires|does not have).*:sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(CHECKED)
def test_all_checks(estimator, check):
    check(estimator)


# In a process of its own: where the check is missing, it is killed.
DAMAGED = """
import numpy as np, scipy.sparse as sp
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, Sequences, TaxonomyCRF

rng = np.random.default_rng(0)
X = sp.csr_array(rng.normal(size=(60, 50)) * (rng.random((60, 50)) < 0.5))
y = rng.integers(0, 3, 60)
sound = Sequences(X, np.arange(61))

def outcome(method, *arguments):
    try:
        method(*arguments)
        return "accepted"
    except ValueError as error:
        return str(error)

for kind in (ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF):
    is_chain = kind is ChainCRF
    model = kind(tol=0.1).fit(sound if is_chain else X, [[label] for label in y] if is_chain else y)
    for layout in ("csr", "csc"):
        for index in (10**8, -5):
            bad = X.asformat(layout, copy=True)
            bad.indices[-1] = index
            for name in ("predict", "decode", "predict_marginals", "decision_function"):
                if hasattr(model, name):
                    found = outcome(getattr(model, name), [bad] if is_chain else bad)
                    print(kind.__name__, layout, index, name, found, sep="|")
            found = outcome(kind().fit, [bad] if is_chain else bad, [y] if is_chain else y)
            print(kind.__name__, layout, index, "fit", found, sep="|")
"""


def test_damaged_sparse_matrices_are_refused():
    run = subprocess.run([sys.executable, "-c", DAMAGED], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    outcomes = [line.split("|") for line in run.stdout.splitlines()]
    assert len(outcomes) >= 5 * 2 * 2 * 3
    for kind, layout, index, name, found in outcomes:
        expected = f"damaged sparse matrix: index {index} is outside 0 ... {59 if layout == 'csc' else 49}"
        assert found.removeprefix("item 0: ") == expected, (kind, name)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return MaxAbsScaler().fit_transform(X[5:]), np.array(["setosa", "versicolor", "virginica"])[y[5:]]


@pytest.mark.parametrize("kind", CLASSES)
class TestTools:
    def test_clone_and_parameters(self, kind):
        model = kind(l1=3.0, solver=ProxQN(memory=3), class_weight={"a": 2.0}, callback=print)
        twin = clone(model)
        assert twin.get_params()["solver"] == ProxQN(memory=3)
        assert (twin.l1, twin.class_weight) == (3.0, {"a": 2.0})
        assert repr(kind(l1=2.0, n_threads=1)) == f"{kind.__name__}(l1=2.0, n_threads=1)"
        with pytest.raises(NotFittedError):
            check_is_fitted(twin)

    def test_tags(self, kind):
        tags = get_tags(kind())
        assert tags.estimator_type == "classifier"
        assert tags.input_tags.sparse
        assert tags.input_tags.two_d_array
        assert tags.target_tags.required
        assert [get_tags(kind(fit_intercept=has)).classifier_tags.poor_score for has in (False, True)] == [
            True,
            False,
        ]

    def test_fitted_attributes_end_in_an_underscore(self, kind, iris):
        model = kind().fit(*iris)
        public = {name for name in vars(model) if not name.startswith("_")}
        assert {name for name in public if not name.endswith("_")} == set(model.get_params())

    @pytest.mark.parametrize("has_intercept", [False, True])
    def test_it_learns(self, kind, has_intercept, iris):
        model = kind(l1=0.1, fit_intercept=has_intercept)
        assert cross_val_score(model, *iris, cv=3, error_score="raise").mean() > 0.9

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_grid_search_and_weights(self, kind, iris):
        search = GridSearchCV(kind(), {"l1": [0.1, 300.0], "class_weight": [None, "balanced"]}, cv=3)
        assert search.fit(*iris).best_params_["l1"] == 0.1
        weights = np.linspace(0.5, 2.0, iris[1].size)
        found = cross_validate(kind(), *iris, params={"sample_weight": weights}, cv=2, error_score="raise")
        assert (found["test_score"] > 0.5).all()

    def test_a_pipeline_over_texts(self, kind):
        texts = ["a cat and a dog", "dog, cat", "a car", "two cars, a road", "the road of a car"] * 3
        y = ["animals", "animals", "traffic", "traffic", "traffic"] * 3
        model = make_pipeline(TfidfVectorizer(), kind(l1=0.1)).fit(texts, y)
        assert model.score(texts, y) == 1.0
        assert model.predict(["my cat and my dog"]).tolist() == ["animals"]

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copies_of_a_fitted_model(self, kind, duplicate, iris):
        model = kind(fit_intercept=True).fit(*iris)
        twin = duplicate(model)
        assert twin.predict_proba(iris[0]).tobytes() == model.predict_proba(iris[0]).tobytes()
        for name in ("coords", "weights"):
            np.testing.assert_array_equal(getattr(twin.result_, name), getattr(model.result_, name))
        assert twin.set_params(warm_start=True).fit(*iris).n_iter_ == 0

    def test_a_pickle_has_the_weights_once(self, kind, iris):
        y = iris[1][::5]
        X = np.random.default_rng(0).normal(size=(y.size, 2000))
        model = kind(l1=0, l2=1.0, tol=1e-3).fit(X, y)
        assert model.coef_.nnz == model.coef_.size == np.prod(model.coef_.shape)
        assert len(pickle.dumps(model)) < 1.1 * 8 * model.coef_.nnz
        twin = pickle.loads(pickle.dumps(model))
        assert (twin.coef_ != model.coef_).nnz == 0
        model.coef_ = 2 * model.coef_  # the result has the weights of the model
        assert (model.result_.weights != twin.result_.weights).any()
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(model)).result_.weights, model.result_.weights
        )

    def test_names_of_columns(self, kind, iris):
        pandas = pytest.importorskip("pandas")
        X, y = iris
        frame = pandas.DataFrame(X, columns=list("abcd"))
        model = kind().fit(frame, pandas.Series(y))
        assert model.feature_names_in_.tolist() == list("abcd")
        np.testing.assert_array_equal(model.predict(frame), kind().fit(X, y).predict(X))
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[list("dabc")])
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(frame.rename(columns={"a": "e"}), y, sample_weight=-np.ones(y.size))
        assert model.feature_names_in_.tolist() == list("abcd")
        assert not hasattr(model.fit(X, y), "feature_names_in_")

    def test_warnings_come_from_the_caller(self, kind, iris):
        with pytest.warns(ConvergenceWarning, match=r"limit of iterations") as caught:
            kind(max_iter=1).fit(sp.csr_array(iris[0]), iris[1])
        (warning,) = caught
        assert is_at_line_of(warning, __file__)
