"""The logistic loss with a margin: equation 20 of Chierchia et al. (2015)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_iris

from crfqn import MulticlassClassifier, load
from crfqn.errors import InputError

MARGIN, L2 = 1.5, 0.5


@pytest.fixture(scope="module")
def irises():
    X, y = load_iris(return_X_y=True)
    return X - X.mean(axis=0), y


def equation_20(weights, X, y, margin=MARGIN):
    """The loss of all items, as printed."""
    scores = np.column_stack([X, np.ones(len(X))]) @ weights.reshape(-1, 3)
    leads = scores - scores[np.arange(len(y)), y][:, None] + margin
    leads[np.arange(len(y)), y] = 0.0
    return logsumexp(leads, axis=1).sum()


def weights_of(model):
    return np.vstack([model.coef_.toarray().T, model.intercept_])


def fit(irises, **settings):
    return MulticlassClassifier(loss="logistic", margin=MARGIN, tol=1e-7, stop="certificate", **settings).fit(
        *irises
    )


@pytest.mark.parametrize("solver", ["auto", "bcd", "prox-qn", "fista"])
def test_the_optimum_is_that_of_equation_20(irises, solver):
    def objective(weights):
        return equation_20(weights, *irises) + 0.5 * L2 * np.sum(weights.reshape(-1, 3)[:4] ** 2)

    found = fit(irises, penalty="l2", l2=L2, solver=solver, max_iter=20000)
    best = minimize(objective, np.zeros(15), options={"gtol": 1e-7}).fun
    assert objective(weights_of(found).ravel()) == pytest.approx(best, rel=1e-6)
    assert found.result_.value == pytest.approx(best, rel=1e-6)
    assert found.result_.gap <= 1e-7 * (1 + 1e-9)


def test_rows_and_files_keep_it(irises, tmp_path):
    found = fit(irises, group_l1=5.0)
    lengths = 5.0 * np.linalg.norm(found.coef_.toarray(), axis=0).sum()
    assert found.result_.value == pytest.approx(equation_20(weights_of(found), *irises) + lengths, rel=1e-9)
    found.save(tmp_path / "irises.crfqn")
    kept = load(tmp_path / "irises.crfqn")
    assert kept.margin == MARGIN
    np.testing.assert_array_equal(clone(kept).fit(*irises).coef_.toarray(), found.coef_.toarray())


@pytest.mark.parametrize(("settings", "message"), [
    ({"margin": 1.0, "loss": "hinge"}, "margin: with loss='hinge' it is 1; expected 0, got 1.0"),
    ({"margin": -1.0}, "margin: expected a finite number >= 0, got -1.0"),
    ({"margin": 1.0, "solver": "fobos"}, "offset"),
])  # fmt: skip
def test_margins_that_cannot_be(irises, settings, message):
    with pytest.raises(InputError, match=message):
        MulticlassClassifier(**{"loss": "logistic", "group_l1": 1.0} | settings).fit(*irises)
