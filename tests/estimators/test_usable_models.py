"""Warnings of fitted models that are hardly what was meant: no weights, or items without a feature known to them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from callers import is_at_line_of

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF, crf_path
from crfqn.errors import EmptyModelWarning, UnknownFeaturesWarning
from crfqn.regularization_path import Grid

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((40, 5))
Y = np.array(["a", "b/c", "b/d"])[(X @ RANDOM.standard_normal((5, 3))).argmax(axis=1)]
SETS = RANDOM.integers(0, 2, (40, 3))
SEQUENCES = [[{"w": word} for word in text] for text in ("ab", "b", "ac", "cb")] * 3
TAGS = [["v" if position["w"] == "a" else "n" for position in item] for item in SEQUENCES]
FAMILIES = [
    (MulticlassCRF(), X, Y, "l1"),
    (MulticlassCRF(fit_intercept=False, solver="owl-qn"), X, Y, "l1"),
    (TaxonomyCRF(), X, Y, "l1"),
    (MulticlassClassifier(), X, Y, "group_l1"),
    (MulticlassClassifier(penalty="l1"), X, Y, "l1"),
    (MulticlassClassifier(feature_groups=2, loss="logistic"), X, Y, "group_l1"),
    (MultilabelRanker(cv=2), X, SETS, "group_l1"),
    (ChainCRF(), SEQUENCES, TAGS, "l1"),
]


@pytest.mark.parametrize(("model", "items", "labels", "name"), FAMILIES)
def test_a_model_without_weights_names_the_largest_useful_strength(model, items, labels, name):
    with pytest.warns(EmptyModelWarning, match=rf"^all weights are zero under {name} = 1e\+04") as caught:
        model.set_params(**{name: 1e4}).fit(items, labels)
    assert len(caught) == 1
    assert is_at_line_of(caught[0], __file__)
    largest = float(str(caught[0].message).rpartition(" ")[2])
    assert str(caught[0].message).endswith(f"the largest useful {name} is {largest:.4g}")
    with pytest.warns(EmptyModelWarning):
        model.set_params(**{name: 1.001 * largest}, tol=1e-9).fit(items, labels)
    model.set_params(**{name: 0.95 * largest}).fit(items, labels)
    assert model.coef_.nnz or model.transition_coef_.nnz


def test_a_loss_without_curvature_names_none():
    with pytest.warns(EmptyModelWarning, match="group_l1 = 1e[+]04; choose a smaller one"):
        MulticlassClassifier(loss="hinge", group_l1=1e4).fit(X, Y)


def test_paths_and_one_label_are_silent():
    path = crf_path(MulticlassCRF(), X, Y, grid=Grid(3), validation=(X, Y))
    assert path.models[0].coef_.nnz == 0
    MulticlassCRF(l1=1e4).fit(X, np.full(40, "a"))
    MulticlassClassifier(penalty="l2", l2=1e4).fit(X, Y)


def test_sequences_without_a_known_feature_are_counted():
    model = ChainCRF(l1=0.1).fit(SEQUENCES, TAGS)
    unknown = [[{"w": "x"}, {"v": "a"}], [{"w": "y"}]]
    message = r"^2 of 4 items \(3 positions\) have no feature that the model knows"
    for given in ([*unknown, *SEQUENCES[:2]], iter([*unknown, *SEQUENCES[:2]])):
        with pytest.warns(UnknownFeaturesWarning, match=message) as caught:
            model.predict(given)
        assert len(caught) == 1
        assert caught[0].message.n_items == 2
        assert is_at_line_of(caught[0], __file__)
    with pytest.warns(UnknownFeaturesWarning, match="^1 of 1 items"):
        model.decode([[["x"]]])
    # One that is known, none at all, and one that was seen in training and has no weight.
    model.predict([[{"w": "a"}, {"w": "x"}], [], [{}]])
    model.coef_ = scipy.sparse.csr_array(model.coef_.shape)
    model.predict(SEQUENCES)


def test_dense_arrays_never_warn_and_sparse_rows_without_entries_do():
    model = MulticlassCRF(l1=0.1).fit(X, Y)
    chain = ChainCRF(l1=0.1).fit([X], [Y])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(np.zeros((2, 5)))
        chain.predict([np.zeros((2, 5))])
    rows = scipy.sparse.csr_array(np.array([X[0], np.zeros(5), X[1]]))
    for method in (model.predict, model.decode):
        with pytest.warns(UnknownFeaturesWarning, match="^1 of 3 items have no feature that the model knows"):
            method(rows)
    with pytest.warns(UnknownFeaturesWarning, match=r"^1 of 2 items \(2 positions\)"):
        chain.predict([scipy.sparse.csr_array((2, 5)), rows])
    with pytest.warns(UnknownFeaturesWarning, match="^2 of 2 items"):
        MultilabelRanker(group_l1=0.1).fit(X, SETS).predict(scipy.sparse.csc_array((2, 5)))
