"""MulticlassClassifier with blocks of features (`feature_groups`) and a bound on the loss (`loss_bound`)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from crfqn import MulticlassClassifier, load
from crfqn.choices import BY_FEATURE
from crfqn.errors import InputError
from crfqn.estimators.automatic import LINEAR_SOLVERS
from crfqn.result import Status

STRENGTH = 6.0  # drops some blocks of the irises and keeps others
GROUPS = ["sepal", "sepal", "petal", "petal"]


@pytest.fixture(scope="module")
def irises():
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def model(**settings):
    given = {"loss": "hinge", "penalty": "l1/l2", "group_l1": STRENGTH, "feature_groups": 2, "tol": 1e-5}
    return MulticlassClassifier(**(given | {"max_iter": 3000} | settings))


@pytest.fixture(scope="module")
def regularised(irises):
    return model().fit(*irises)


def coefficients(fitted):
    return fitted.coef_.toarray() if hasattr(fitted.coef_, "toarray") else fitted.coef_


def hinge_of(fitted, X, y):
    scores = X @ coefficients(fitted).T + fitted.intercept_
    own = scores[np.arange(y.size), y]
    raised = scores + 1.0
    raised[np.arange(y.size), y] = own
    return float((raised.max(axis=1) - own).sum())


def norms_of(fitted, norm):
    blocks = coefficients(fitted).reshape(3, 2, 2)
    return np.abs(blocks).max(axis=2) if norm == "l1/linf" else np.linalg.norm(blocks, axis=2)


@pytest.mark.parametrize("norm", ["l1/l2", "l1/linf"])
def test_the_objective_has_a_norm_for_each_block_and_class(irises, norm):
    found = model(penalty=norm).fit(*irises)
    norms = norms_of(found, norm)
    assert found.result_.status is Status.CONVERGED
    assert found.result_.value == pytest.approx(hinge_of(found, *irises) + STRENGTH * norms.sum(), rel=1e-10)
    assert 0 < np.count_nonzero(norms) < norms.size
    dropped = coefficients(found).reshape(3, 2, 2)[norms == 0]
    assert not dropped.any()


def test_blocks_by_size_and_by_label_are_the_same(irises, regularised):
    X, y = irises
    by_size = coefficients(regularised)
    for labels in ([7, 7, 3, 3], np.array([True, True, False, False])):
        np.testing.assert_allclose(coefficients(model(feature_groups=labels).fit(X, y)), by_size, atol=1e-4)
    mixed = [2, 0, 3, 1]
    found = model(feature_groups=[GROUPS[j] for j in mixed]).fit(X[:, mixed], y)
    np.testing.assert_allclose(coefficients(found), by_size[:, mixed], atol=1e-4)


def test_other_losses_have_blocks_too(irises):
    found = model(loss="squared-hinge").fit(*irises)
    kept = norms_of(found, "l1/l2") > 0
    np.testing.assert_array_equal(np.repeat(kept, 2, axis=1), coefficients(found) != 0)


@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
def test_every_solver_has_blocks_or_says_which_do(irises, solver):
    loss = "hinge" if solver == "fbpd" else "logistic"
    asked = model(loss=loss, solver=solver)
    if solver in BY_FEATURE["feature_groups"].solvers:
        value = model(loss=loss).fit(*irises).result_.value
        assert asked.fit(*irises).result_.value == pytest.approx(value, rel=1e-4)
        return
    with pytest.raises(
        InputError, match=f"^feature_groups: '{solver}' takes no groups, 'auto', 'prox-qn', .* do; "
    ):
        asked.fit(*irises)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_a_feature_that_no_item_has_stays_zero_in_a_block_that_does_not(irises, loss):
    X, y = irises
    found = model(loss=loss, feature_groups=[0, 0, 1, 1, 1]).fit(np.column_stack([X, np.zeros(y.size)]), y)
    weights = coefficients(found)
    assert not weights[:, 4].any()
    np.testing.assert_allclose(weights[:, :4], coefficients(model(loss=loss).fit(X, y)), atol=1e-2)


def test_a_bound_is_the_other_form_of_a_strength(irises, regularised):
    """At the loss of the regularised model the least penalty is that model's (Chierchia et al. 2015, section 2.2)."""
    bound = hinge_of(regularised, *irises)
    found = model(group_l1=1.0, loss_bound=bound).fit(*irises)
    assert found.result_.status is Status.WITHIN_BOUND
    assert hinge_of(found, *irises) <= bound * (1.0 + 2e-5)
    assert norms_of(found, "l1/l2").sum() == pytest.approx(norms_of(regularised, "l1/l2").sum(), rel=1e-3)


def test_settings_are_kept(irises, tmp_path):
    found = model(feature_groups=np.array(GROUPS), loss_bound=60.0).fit(*irises)
    found.save(tmp_path / "irises.crfqn")
    kept = load(tmp_path / "irises.crfqn")
    assert kept.feature_groups == GROUPS
    assert kept.loss_bound == 60.0
    np.testing.assert_array_equal(kept.predict(irises[0]), found.predict(irises[0]))
    np.testing.assert_array_equal(clone(kept).fit(*irises).coef_.toarray(), found.coef_.toarray())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_groups": 0}, "feature_groups: expected None, a block size >= 1 or 4 labels, one a feature, got 0"),
        ({"feature_groups": True}, "feature_groups: .* got True"),
        ({"feature_groups": [0, 1]}, r"feature_groups: expected .* 4 labels, one a feature"),
        ({"feature_groups": [0.5, 1.0, 2.0, 3.0]}, "feature_groups: expected .* 4 labels"),
        ({"penalty": "l1", "l1": 1.0, "group_l1": None}, "feature_groups: .* 'l1' has no groups; expected None"),
        ({"loss_bound": -1.0}, r"loss_bound: expected None or a finite number > 0, got -1\.0"),
        ({"loss_bound": np.inf}, "loss_bound: expected None or a finite number > 0, got inf"),
        ({"loss_bound": "3"}, "loss_bound: expected None or a finite number > 0, got '3'"),
        ({"loss_bound": 9.0, "loss": "logistic"}, "loss_bound: a bound on the loss needs loss='hinge', got loss='log"),
        ({"loss_bound": 9.0, "solver": "dual"}, r"solver: with loss='hinge' .* expected one of \['auto', 'fbpd'\]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_named(irises, settings, message):
    with pytest.raises(InputError, match=message):
        model(**settings).fit(*irises)
