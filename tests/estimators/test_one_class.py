"""One class in the training data: every estimator trains, and predicts it always, as scikit-learn's trees do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
    load,
)
from crfqn.choices import FLAT

ITEMS = [
    MulticlassCRF(),
    *(MulticlassClassifier(loss=loss) for loss in FLAT),
    MulticlassClassifier(loss="hinge", penalty="l2"),
    MulticlassSVC(),
    TaxonomyCRF(),
    TaxonomyCRF(l1=0, l2=1.0, loss="hinge"),
    MultilabelRanker(),
    GeneralizedLeastSquares(),
    CalibratedLeastSquares(),
    StagewiseRegression(max_iter=1),
]
CHAINS = [
    ChainCRF(),
    ChainCRF(l1=0, l2=1.0),
    ChainCRF(l1=0, l2=1.0, loss="hinge"),
    *(
        ChainCRF(l1=1.0, solver=name)
        for name in ("sgd", "averaged-perceptron", "passive-aggressive", "feature-bcd")
    ),
]
X = np.random.default_rng(0).normal(size=(12, 3)) * (np.arange(36).reshape(12, 3) % 2)
NEW = X[:5] + 1.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", ITEMS, ids=repr)
def test_items(model, form, tmp_path):
    model.fit(form(X), ["only"] * 12)
    assert model.classes_.tolist() == ["only"]
    assert model.result_.status.is_regular
    model.save(tmp_path / "model")
    for same in (model, load(tmp_path / "model")):
        assert same.predict(form(NEW)).tolist() == ["only"] * 5
        assert same.score(form(NEW), ["only"] * 5) == 1.0
        assert same.decision_function(form(NEW)).shape == (5, 1)
        if hasattr(same, "predict_proba"):
            np.testing.assert_array_equal(same.predict_proba(form(NEW)), np.ones((5, 1)))


@pytest.mark.parametrize("model", CHAINS, ids=repr)
def test_chains(model, tmp_path):
    lengths = (3, 1, 4)
    items = np.split(X[:8], np.cumsum(lengths)[:-1])
    labels = [["only"] * n for n in lengths]
    model.fit(items, labels)
    assert model.result_.status.is_regular
    model.save(tmp_path / "model")
    for same in (model, load(tmp_path / "model")):
        assert same.predict(items).tolist() == labels
        assert same.score(items, labels) == 1.0


def test_a_ranking_of_one_label():
    np.testing.assert_array_equal(MultilabelRanker().fit(X, [{"only"}] * 12).predict(NEW), np.ones((5, 1)))


def test_the_only_class_that_has_weight():
    y = ["only"] * 11 + ["other"]
    for kind in (MulticlassClassifier, MulticlassSVC):
        model = kind().fit(X, y, sample_weight=[1.0] * 11 + [0.0])
        assert model.predict(NEW).tolist() == ["only"] * 5
