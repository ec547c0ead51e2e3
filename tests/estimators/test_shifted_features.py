"""Where intercepts are free, a shift of the features changes intercepts only: not the iterations, nor the optimum."""

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import (
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MultilabelRanker,
    TaxonomyCRF,
    load,
)
from crfqn.model.label_index import LabelIndex
from crfqn.regularization_path import Grid, crf_path

RNG = np.random.default_rng(1000)
Z = np.round(RNG.standard_normal((150, 6)) * 64) / 64  # so that no digit is lost in the sum with a shift
Y = (2 * Z @ RNG.standard_normal((6, 3)) + RNG.gumbel(size=(150, 3))).argmax(axis=1)
NAMES = np.array(["a/x", "a/y", "b"])[Y]
SETS = np.eye(3, dtype=int)[Y] ^ (np.arange(150) % 4 == 0)[:, None]
FORMS = {"3": (3.0, np.asarray), "float32": (1e3, np.float32), "csr": (1e4, sp.csr_array)}


def classifier(**settings):
    return lambda: MulticlassClassifier(**settings)


def crf(solver, **settings):
    return lambda: MulticlassCRF(**{"l1": 0.5, "solver": solver, **settings})


MODELS = {
    **{
        solver: (crf(solver), Y)
        for solver in ("auto", "owl-qn", "fista", "spa-rsa", "prox-gd", "feature-bcd")
    },
    "l-bfgs": (crf("l-bfgs", l1=0.0, l2=0.5), Y),
    "sgd": (crf("sgd", max_iter=10), Y),
    "averaged-perceptron": (crf("averaged-perceptron", max_iter=5), Y),
    "passive-aggressive": (crf("passive-aggressive", max_iter=5), Y),
    "automatic strength": (lambda: MulticlassCRF(), Y),
    "rows": (classifier(group_l1=0.5), Y),
    "row descent": (classifier(group_l1=0.5, solver="bcd"), Y),
    "constant steps": (classifier(group_l1=0.5, solver="bcd-constant", max_iter=50), Y),
    "fobos": (classifier(group_l1=0.5, loss="logistic", solver="fobos", max_iter=20), Y),
    "against the rest": (classifier(group_l1=0.5, loss="multitask-squared-hinge"), Y),
    "automatic rows": (classifier(), Y),
    "gram metric": (classifier(l2=0.5, penalty="l2"), Y),
    "dual": (classifier(l2=0.5, loss="hinge", penalty="l2"), Y),
    "splitting": (classifier(group_l1=0.5, loss="hinge", tol=1e-2), Y),
    "ranking": (lambda: MultilabelRanker(group_l1=0.5), SETS),
    "taxonomy": (lambda: TaxonomyCRF(l1=0.0, group_l1=0.5, fit_intercept=True), NAMES),
    "least squares": (lambda: GeneralizedLeastSquares(l2=0.5), Y),
}


def shifted(form):
    shift, make = FORMS[form]
    return make(Z + shift), shift


@pytest.fixture(autouse=True)
def unfinished():
    """Epochs of stochastic methods end where they end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        yield


@pytest.fixture(scope="module")
def centred_fits():
    """The model of each name on the features as they are without a shift, trained once."""
    fits = {}

    def fit(name):
        if name not in fits:
            make, y = MODELS[name]
            fits[name] = make().fit(Z, y)
        return fits[name]

    return fit


@pytest.mark.parametrize(
    ("name", "form"),
    [*product(MODELS, ("float32", "csr")), ("auto", "3"), ("rows", "3"), ("least squares", "3")],
)
def test_a_shift_changes_the_intercepts_only(name, form, centred_fits):
    make, y = MODELS[name]
    X, shift = shifted(form)
    expected, found = centred_fits(name), make().fit(X, y)
    assert found.result_.status is expected.result_.status
    assert found.result_.n_iter <= 1.2 * expected.result_.n_iter + 2
    assert found.result_.value == pytest.approx(expected.result_.value, rel=1e-6)
    assert found.fitted_strengths == pytest.approx(expected.fitted_strengths, rel=1e-12)
    np.testing.assert_allclose(found.coef_.toarray(), expected.coef_.toarray(), atol=1e-4)
    intercepts = found.intercept_ + shift * found.coef_.sum(axis=1)
    if name not in ("against the rest", "least squares", "taxonomy"):  # else centred otherwise
        intercepts = LabelIndex.flat(found.classes_).centered(intercepts)
        np.testing.assert_allclose(intercepts, expected.intercept_, atol=1e-3)
    assert np.mean(found.predict(X) == expected.predict(Z)) > 0.99


def test_the_weights_of_the_result_are_those_of_the_model():
    X = Z + 1e4
    model = MulticlassCRF(l1=0.5).fit(X, Y)
    weights = np.zeros((3, 7))
    weights.reshape(-1)[model.result_.coords] = model.result_.weights
    np.testing.assert_array_equal(weights[:, :6], model.coef_.toarray())
    np.testing.assert_array_equal(weights[:, 6], model.intercept_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_start_is_where_the_other_model_ended(form, tmp_path):
    X = form(Z + 1e4)
    model = MulticlassCRF(l1=0.5).fit(X, Y)
    model.save(tmp_path / "model")
    for start in (model, load(tmp_path / "model")):
        again = MulticlassCRF(l1=0.5).fit(X, Y, start=start)
        assert again.n_iter_ <= 3
        np.testing.assert_allclose(again.coef_.toarray(), model.coef_.toarray(), atol=1e-6)
    assert model.set_params(warm_start=True).fit(X, Y).n_iter_ <= 3


def test_paths_and_validation_see_models_of_the_features_as_given():
    X = Z + 1e4
    paths = [crf_path(MulticlassCRF(), x, Y, grid=Grid(n_values=4)) for x in (Z, X)]
    np.testing.assert_allclose(paths[0].l1, paths[1].l1, rtol=1e-9)
    for one, other in zip(*(path.models for path in paths), strict=True):
        np.testing.assert_allclose(one.coef_.toarray(), other.coef_.toarray(), atol=1e-3)
        assert one.score(Z, Y) == pytest.approx(other.score(X, Y), abs=0.01)
    model = MulticlassCRF(l1=0.5).fit(X, Y, validation=(X, Y))
    assert model.result_.held_out.best == model.score(X, Y)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_batches_share_one_centre(form):
    X = Z + 1e4
    model = MulticlassCRF(solver="averaged-perceptron", random_state=0)
    for batch in (slice(0, 50), slice(50, 51), slice(51, 150)) * 5:
        model.partial_fit(form(X[batch]), Y[batch], classes=[0, 1, 2])
    assert model.score(X, Y) > 0.8


def test_thresholds_of_unseen_items():
    X = Z + 1e4
    models = [MultilabelRanker(group_l1=0.5, cv=3).fit(x, SETS) for x in (Z, X)]
    np.testing.assert_allclose(models[0].threshold_coef_, models[1].threshold_coef_, atol=1e-3)


def test_columns_of_years_money_and_pixels_train_like_standardised_ones():
    scales, means = np.array([1e-3, 10.0, 3e5, 60.0, 1.0, 1e4]), np.array([5.0, 1990.0, 1e6, 128.0, 0.0, 3e7])
    X = Z * scales + means
    found, expected = (MulticlassCRF(l1=0.0, l2=0.5).fit(x, Y) for x in (X, Z * scales))
    assert found.n_iter_ <= 1.2 * expected.n_iter_ + 2
    assert found.result_.status.is_success
    assert found.score(X, Y) == expected.score(Z * scales, Y)


@pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"penalize_intercept": True}])
def test_without_free_intercepts_features_stay_as_they_are(settings):
    found, expected = (MulticlassCRF(l1=0.5, **settings).fit(x, Y) for x in (Z + 1.0, sp.csr_array(Z + 1.0)))
    assert found.result_.value == pytest.approx(expected.result_.value, rel=1e-3)
    assert found.result_.value > MulticlassCRF(l1=0.5).fit(Z, Y).result_.value + 1.0
