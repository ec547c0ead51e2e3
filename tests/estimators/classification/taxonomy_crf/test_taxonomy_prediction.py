"""TaxonomyCRF: prediction down the tree, against the definition."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from taxonomy_items import ANY, LEAVES, PADDED, PARENTS, X, Y, class_scores, fitted, membership

import crfqn
from crfqn import TaxonomyCRF
from crfqn.model.label_index import LabelIndex, descend_tree, name_array
from crfqn.taxonomy.tree import LabelTree


class TestPrediction:
    @pytest.fixture(params=["leaves", "nodes"])
    def either(self, request, model, any_model):
        return model if request.param == "leaves" else any_model

    def test_against_the_definition(self, either):
        scores = class_scores(either)
        log_p = scores - logsumexp(scores, axis=1)[:, None]
        np.testing.assert_allclose(either.decision_function(X), scores, atol=1e-12)
        np.testing.assert_allclose(either.predict_log_proba(X), log_p, atol=1e-12)
        np.testing.assert_allclose(either.predict_proba(X), np.exp(log_p), atol=1e-12)
        np.testing.assert_array_equal(either.predict(X), either.classes_[scores.argmax(axis=1)])
        decoding = either.decode(X)
        np.testing.assert_array_equal(decoding.labels, either.predict(X))
        np.testing.assert_allclose(decoding.log_probability, log_p.max(axis=1), atol=1e-12)
        nodes = np.exp(log_p) @ membership(either.classes_)
        np.testing.assert_allclose(either.predict_nodes(X), nodes, atol=1e-12)
        np.testing.assert_array_equal(either.predict_marginals(X), either.predict_nodes(X))
        code = [either.classes_.tolist().index(name) for name in Y]
        np.testing.assert_allclose(either.log_likelihood(X, Y), log_p[np.arange(120), code], atol=1e-12)

    def test_nodes_sum_up_the_tree(self, either):
        p, of_labels = either.predict_nodes(X), either.predict_proba(X)
        assert p.shape == (120, 9)
        parents = either.tree_.parents
        np.testing.assert_allclose(p[:, parents == -1].sum(axis=1), 1.0, atol=1e-12)
        for k in np.unique(parents[parents >= 0]):
            own = of_labels[:, either.classes_ == either.tree_.names[k]].sum(axis=1)
            np.testing.assert_allclose(p[:, k], own + p[:, parents == k].sum(axis=1), atol=1e-12)

    @pytest.mark.parametrize("k", [1, 3, np.int64(6)])
    def test_top(self, model, k):
        labels, probabilities = model.predict_top(X, k)
        assert labels.shape == probabilities.shape == (120, k)
        np.testing.assert_array_equal(labels[:, 0], model.predict(X))
        assert (np.diff(probabilities, axis=1) <= 0).all()
        p = model.predict_proba(X)
        np.testing.assert_array_equal(probabilities, -np.sort(-p, axis=1)[:, :k])
        for row, names, expected in zip(p, labels, probabilities, strict=True):
            np.testing.assert_array_equal(row[np.searchsorted(model.classes_, names)], expected)

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_ties_of_the_top_go_by_class(self):
        model = fitted(l1=1e6)
        assert model.predict_top(X[:2], 6).labels.tolist() == [sorted(LEAVES)] * 2
        assert set(model.predict(X)) == {"a/x"}

    @pytest.mark.parametrize("threshold", [0, 0.4, 0.7, 0.95, 1.0])
    def test_threshold(self, either, threshold):
        found = either.predict(X, threshold=threshold)
        p, names = either.predict_nodes(X), either.tree_.names
        for i, name in enumerate(found):
            node = int(p[i, :3].argmax())
            if p[i, node] < threshold:
                assert name is None
                continue
            while True:
                below = [k for k in range(9) if PARENTS[k] == node]
                if not below or max(p[i, below]) < threshold:
                    break
                node = max(below, key=lambda k: p[i, k])
            assert name == names[node]

    def test_a_threshold_stops_higher_the_higher_it_is(self, model):
        found = [model.predict(X, threshold=t) for t in (0.0, 0.5, 0.9, 1.0)]
        depths = [np.array([-1 if name is None else name.count("/") for name in names]) for names in found]
        assert all((lower >= higher).all() for lower, higher in itertools.pairwise(depths))
        assert set(model.predict(X, threshold=0.0)) <= set(LEAVES)
        assert depths[0].sum() > depths[2].sum()

    def test_a_threshold_and_rows_of_parts(self, model):
        rows = fitted(y=PADDED).predict(X, threshold=0.7)
        assert rows.shape == (120, 3)
        names = ["" if name is None else name for name in model.predict(X, threshold=0.7)]
        assert ["/".join(filter(None, row)) for row in rows] == names
        assert "" in names

    def test_blocks_do_not_matter(self, any_model):
        def everything(any_model):
            return [
                any_model.predict(X), any_model.predict_nodes(X), any_model.predict(X, threshold=0.5),
                *any_model.predict_top(X, 4), *any_model.decode(X), any_model.log_likelihood(X, ANY),
            ]  # fmt: skip

        in_blocks = copy.copy(any_model)
        in_blocks.BLOCK_NUMBERS = 7 * 9
        for expected, found in zip(everything(any_model), everything(in_blocks), strict=True):
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
            else:
                np.testing.assert_array_equal(found, expected)

    def test_changing_parameters_does_not_change_the_fitted_model(self):
        model = fitted(y=PADDED)
        before = model.predict(X)
        model.set_params(taxonomy=["q/r"], labels="nodes", separator=".", fit_intercept=True)
        np.testing.assert_array_equal(model.predict(X), before)


def test_descend_by_hand():
    parents = np.array([-1, -1, 0, 0, 1, 2, 2], np.int32)
    p = np.array([[0.6, 0.4, 0.35, 0.25, 0.4, 0.3, 0.05], [0.5, 0.5, 0.5, 0.0, 0.5, 0.2, 0.3]]).T
    for threshold, expected in [(0.0, [5, 6]), (0.3, [5, 6]), (0.33, [2, 2]), (0.5, [0, 2]), (0.6, [0, -1])]:
        assert descend_tree(p >= threshold, p, parents).tolist() == expected


@pytest.mark.parametrize(("names", "kind"), [
    (["a", "bc"], "U"), ([1, 2], "i"), ([True, False], "b"), ([1, 2.5], "f"), (["a", 2], "O"), (["a\0", "b"], "O"),
])  # fmt: skip
def test_arrays_of_names_hold_the_names(names, kind):
    found = name_array(names)
    assert found.dtype.kind == kind
    assert found.tolist() == names


def test_classes_that_cannot_be_sorted_keep_the_order_of_the_tree():
    tree = LabelTree.star(["b", 2, "a"])
    space = LabelIndex.of_tree(tree, np.arange(3), None, "/")
    assert space.classes.tolist() == ["b", 2, "a"]
    assert space.nodes.tolist() == [0, 1, 2]


def test_the_public_class():
    assert crfqn.TaxonomyCRF is TaxonomyCRF
