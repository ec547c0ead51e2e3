"""Small problems are solved until rounding is all that is left, and every convergence is a proved distance."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassClassifier, MulticlassCRF, MultilabelRanker
from crfqn.result import Status

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 6))
Y = (X[:, :3] + 0.8 * RANDOM.normal(size=(40, 3))).argmax(axis=1)
SETS = (X[:, :3] + 0.8 * RANDOM.normal(size=(40, 3)) > 0).astype(int)
TIMES = RANDOM.integers(1, 4, size=40)
LOSSES = ("squared-hinge", "multitask-squared-hinge", "logistic")

MODELS = {
    **{f"{loss}, rows": MulticlassClassifier(loss=loss) for loss in LOSSES},
    **{f"{loss}, l2": MulticlassClassifier(loss=loss, penalty="l2", l2=0.5) for loss in LOSSES},
    **{
        f"{loss}, elastic net": MulticlassClassifier(loss=loss, penalty="elastic-net", l1=1.0, l2=0.5)
        for loss in LOSSES
    },
    "sparse rows": MulticlassClassifier(
        loss="logistic", penalty="sparse-group", group_l1=1.0, l1=0.5, l2=0.1
    ),
    "ranker": MultilabelRanker(),
    "ranker, l2": MultilabelRanker(penalty="l2", l2=0.5),
    "crf": MulticlassCRF(l1=0.5, l2=0.1),
    "crf, l2": MulticlassCRF(l1=0.0, l2=0.5),
}
each_model = pytest.mark.parametrize("name", MODELS)


def weights_of(model):
    return np.c_[model.coef_.toarray(), model.intercept_]


@each_model
def test_an_item_twice_is_an_item_of_weight_two(name):
    """1e-7 apart in a method that compares values: they are equal to the last digit there."""
    y = SETS if "ranker" in name else Y
    weighted = MODELS[name].fit(X, y, sample_weight=TIMES)
    weights = weights_of(weighted)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(40), TIMES))
    repeated = weights_of(MODELS[name].fit(X[order], y[order]))
    assert weights.any()
    np.testing.assert_allclose(weights, repeated, rtol=0, atol=1e-10)


@each_model
def test_what_ends_as_converged_is_within_the_tolerance(name):
    """For items too many to be small: the rule was a violation of tol times the first one, whatever that means."""
    random = np.random.default_rng(2)
    x = random.normal(size=(600, 30)) * 1.5 ** random.normal(size=30)
    y = (x[:, :5] + random.normal(size=(600, 5))).argmax(axis=1)
    model = MODELS[name].set_params(max_iter=5000, tol=1e-3).fit(x, y)
    assert model.result_.status is Status.CONVERGED
    found, gap = model.result_.value, model.result_.gap
    optimum = model.set_params(tol=1e-7).fit(x, y).result_.value
    assert found - optimum <= (gap + 1e-12) * found
    assert gap <= 1e-3
    model.set_params(tol=1e-3)


@pytest.mark.parametrize(
    "model",
    [MulticlassClassifier(loss="logistic", penalty="l2", l2=0.0), MulticlassCRF(l1=0.0)],
    ids=["classifier", "crf"],
)
def test_without_penalty_nothing_is_claimed(model):
    with pytest.warns(ConvergenceWarning, match="nothing tells how far the optimum is"):
        model.fit(X, Y)
    assert model.result_.status is Status.STATIONARY
    assert np.isnan(model.result_.gap)
