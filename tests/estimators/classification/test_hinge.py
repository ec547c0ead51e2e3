"""MulticlassClassifier with the multiclass hinge: its solver, one pass over batches."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import LinearSVC

from crfqn import MulticlassClassifier, load
from crfqn.errors import InputError
from crfqn.result import Status


def hinge(**settings):
    return MulticlassClassifier(**({"loss": "hinge", "penalty": "l2", "l2": 1.0} | settings))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X[:1200], y[:1200], X[1200:], y[1200:]


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_the_objective_is_that_of_liblinear(digits, form):
    X, y, *_ = digits
    model = hinge(fit_intercept=False, tol=1e-5, max_iter=5000).fit(form(X), y)
    theirs = LinearSVC(multi_class="crammer_singer", C=1.0, fit_intercept=False, tol=1e-6, max_iter=100_000)
    w = theirs.fit(X, y).coef_
    scores = X @ w.T
    raised = scores + 1.0
    raised[np.arange(len(y)), y] -= 1.0
    value = 0.5 * (w**2).sum() + (raised.max(axis=1) - scores[np.arange(len(y)), y]).sum()
    assert model.result_.status is Status.CONVERGED
    assert model.result_.value == pytest.approx(value, rel=2e-5)


def test_unpenalised_intercepts_have_a_certificate():
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0) + 1.0
    model = hinge(l2=5.0, max_iter=5000).fit(X, y)
    assert model.result_.status is Status.CONVERGED
    assert model.intercept_.sum() == pytest.approx(0.0, abs=1e-8)
    penalised = hinge(l2=5.0, penalize_intercept=True, max_iter=5000).fit(X, y)
    assert model.result_.value * (1.0 - model.result_.gap) < penalised.result_.value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e-2, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_gap_is_that_of_the_model_that_is_returned(C, fit_intercept):
    random = np.random.default_rng(1)
    X = random.standard_normal((30, 40))
    y = (X @ random.standard_normal((40, 3))).argmax(axis=1)
    model = hinge(l2=1.0 / C, fit_intercept=fit_intercept, max_iter=300).fit(X, y)
    coef, own = model.coef_.toarray(), (y, np.arange(30))
    fixed = np.tile(np.asarray(model.intercept_)[:, None], 30) if fit_intercept else np.zeros((3, 30))
    margins = np.ones((3, 30))
    margins[own] = 0.0

    def objective(factor):
        scores = factor * (coef @ X.T) + fixed
        return 0.5 / C * factor**2 * (coef**2).sum() + ((scores + margins).max(axis=0) - scores[own]).sum()

    found, value = model.result_, objective(1.0)
    assert found.value == pytest.approx(value, rel=1e-7)
    better = min(objective(1.0 + sign * share) for sign in (-1, 1) for share in np.geomspace(1e-12, 1e-1, 60))
    assert value - better <= found.gap * value + 1e-7 * value
    assert (found.status is Status.CONVERGED) == (found.gap <= model.tol_)


def test_one_pass_over_batches(digits):
    X, y, X_test, y_test = digits
    model = hinge(l2=0.1)
    with pytest.raises(InputError, match="classes: expected all labels in the first call"):
        model.partial_fit(X, y)
    for first in range(0, 1200, 100):
        part = slice(first, first + 100)
        model.partial_fit(X[part], y[part], classes=np.arange(10) if first == 0 else None)
    assert model.n_iter_ == 12
    assert model.result_.status is Status.LEARNED
    assert model.score(X_test, y_test) > 0.85
    with pytest.raises(InputError, match="classes: expected those of the first call"):
        model.partial_fit(X, y, classes=[1, 2])


def test_batches_are_one_pass_over_all_of_them(digits, tmp_path):
    """What a batch is forgotten for does not matter to the next one: the weights are all that it leaves."""
    X, y, *_ = digits
    whole = hinge().partial_fit(X[:300], y[:300], classes=np.arange(10))
    parts = hinge()
    for first in (0, 50, 200):
        last = {0: 50, 50: 200, 200: 300}[first]
        parts.partial_fit(scipy.sparse.csr_array(X[first:last]), y[first:last], classes=np.arange(10))
        parts.save(tmp_path / "model.crfqn")
        parts = load(tmp_path / "model.crfqn")
    np.testing.assert_allclose(parts.coef_.toarray(), whole.coef_.toarray(), atol=1e-12)
    np.testing.assert_allclose(parts.intercept_, whole.intercept_, atol=1e-12)


def test_item_weights_of_a_batch(digits):
    X, y, *_ = digits
    weights = np.arange(300) % 3
    found = hinge().partial_fit(X[:300], y[:300], classes=np.arange(10), sample_weight=weights)
    kept = weights > 0
    same = hinge().partial_fit(
        X[:300][kept], y[:300][kept], classes=np.arange(10), sample_weight=weights[kept]
    )
    np.testing.assert_allclose(found.coef_.toarray(), same.coef_.toarray())
    with pytest.raises(InputError, match="class_weight: 'balanced'"):
        hinge(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))


def test_only_the_hinge_learns_in_one_pass_and_goes_on_after_a_fit(digits):
    X, y = digits[0][:100], digits[1][:100]
    assert hasattr(hinge().fit(X, y), "partial_fit")
    assert not hasattr(MulticlassClassifier(tol=0.5).fit(X, y), "partial_fit")


@pytest.mark.parametrize(("settings", "message"), [
    ({"solver": "l-bfgs"}, r"penalty='l2' expected one of \['auto', 'dual', 'fbpd'\]"),
    ({"l2": 0.0}, "l2 > 0"),
])  # fmt: skip
def test_what_a_loss_without_curvature_cannot_have(digits, settings, message):
    with pytest.raises(InputError, match=message):
        hinge(**settings).fit(digits[0], digits[1])


def test_random_state_seeds_the_order(digits):
    X, y, *_ = digits
    fits = [hinge(random_state=seed, tol=0.1).fit(X, y).coef_.toarray() for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert np.abs(fits[0] - fits[2]).max() > 0
