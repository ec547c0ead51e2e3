"""The tolerance of `tol="auto"`: what it is for each penalty, and that it costs no accuracy."""

from functools import partial

import numpy as np
import pytest

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF


@pytest.mark.parametrize(("model", "tol"), [
    (MulticlassCRF(), 0.03),
    (MulticlassCRF(l1=1.0), 1e-3),
    (MulticlassCRF(l1=1.0, l2=1.0), 1e-3),
    (MulticlassCRF(penalty="l2"), 1e-3),
    (MulticlassCRF(penalty="l1/l2"), 1e-3),
    (TaxonomyCRF(), 0.03),
    (TaxonomyCRF(l1=2), 1e-3),
    (TaxonomyCRF(l1=0, l2=1), 1e-3),
    (MulticlassClassifier(), 1e-3),
    (MulticlassClassifier(penalty="l1"), 0.01),
    (MulticlassClassifier(loss="hinge", penalty="l2"), 0.01),
    (MultilabelRanker(), 1e-3),
    (ChainCRF(), 0.03),
    (ChainCRF(l1=0, l2=20), 0.03),
    (MulticlassCRF(penalty="l2", tol=0.2), 0.2),
], ids=str)  # fmt: skip
def test_what_it_stands_for(model, tol):
    assert model.tol_ == tol


def intents(n_classes=60, n_items=6, n_words=900, seed=0):
    """Short questions as rows of length 1: words of their class, of another one for a tenth, and any."""
    random = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, n_words + 1)
    frequency /= frequency.sum()
    topics = np.stack([random.choice(n_words, 8, replace=False) for _ in range(n_classes)])

    def part(n):
        y = np.repeat(np.arange(n_classes), n)
        X = np.zeros((y.size, n_words))
        for row, label in zip(X, y, strict=True):
            topic = topics[random.integers(n_classes) if random.random() < 0.1 else label]
            np.add.at(row, random.choice(topic, 3), 1.0)
            np.add.at(row, random.choice(n_words, 6, p=frequency), 1.0)
        return X / np.linalg.norm(X, axis=1, keepdims=True), y

    return part(n_items), part(10)


@pytest.mark.parametrize("make", [partial(MulticlassCRF, penalty="l2"), partial(TaxonomyCRF, l1=0.0)])
def test_a_strong_penalty_of_many_classes_costs_no_accuracy(make):
    """To 3 % of the objective, which such a penalty keeps near that of no weights, scores are up to .2 lower."""
    (X, y), (X_new, y_new) = intents()
    loose, by_default, close = (
        make(l2=10.0, **more).fit(X, y) for more in ({"tol": 0.03}, {}, {"tol": 1e-4})
    )
    lost = [close.score(X_new, y_new) - model.score(X_new, y_new) for model in (loose, by_default)]
    assert lost[1] <= 0.02 < lost[0]
