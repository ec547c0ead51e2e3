"""TaxonomyCRF for its user: every form of taxonomy and labels, the optimum, prediction down the tree, messages.

What it shares with MulticlassCRF (weights, blocks, ends) is tested there; inference in test_taxonomy.py, the forms of
taxonomies in test_taxonomies.py, model files in test_persistence.py.
"""

from __future__ import annotations

import copy
import doctest
import itertools
import re
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

import crfqn
from crfqn import MulticlassCRF, TaxonomyCRF
from crfqn.errors import DataError, InputError
from crfqn.estimators.classification import taxonomy as taxonomy_module
from crfqn.estimators.classification.labels.label_space import LabelSpace, TreeSpace, name_array
from crfqn.estimators.classification.taxonomy import descend
from crfqn.result import Status
from crfqn.structures.taxonomy import Taxonomy
from crfqn.taxonomy.tree import LabelTree

# a has the leaves a/x, a/y and the inner node a/z with a/z/1, a/z/2; b has b/w; c is a leaf at the top.
LEAVES = ["a/x", "a/y", "a/z/1", "a/z/2", "b/w", "c"]
NODES = ["a", "b", "c", "a/x", "a/y", "a/z", "b/w", "a/z/1", "a/z/2"]
PARENTS = [-1, -1, -1, 0, 0, 0, 1, 5, 5]
RNG = np.random.default_rng(71)
X = RNG.poisson(0.8, (120, 10)) / 2.0


def draw(names: list[str]) -> np.ndarray:
    """Labels that hang on the features through all nodes on their paths."""
    node_scores = X @ np.random.default_rng(72).normal(size=(10, len(NODES)))
    scores = [sum(node_scores[:, NODES.index(name)] for name in prefixes(label)) for label in names]
    return np.array(names)[np.argmax(np.array(scores) + RNG.gumbel(size=(len(names), 120)), axis=0)]


def prefixes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


Y = draw(LEAVES)
ANY = draw(NODES)
EDGES = [(None, name) if len(prefixes(name)) == 1 else tuple(prefixes(name)[-2:]) for name in NODES]
GRAPH = LabelTree.from_edges(EDGES).to_networkx()
TUPLES = [tuple(name.split("/")) for name in Y]
PADDED = np.array([[*row, "", ""][:3] for row in TUPLES])


def fitted(taxonomy=None, y=Y, **settings) -> TaxonomyCRF:
    return TaxonomyCRF(taxonomy=taxonomy, **{"l1": 0.5, **settings}).fit(X, y)


@pytest.fixture(scope="module")
def model() -> TaxonomyCRF:
    return fitted()


@pytest.fixture(scope="module")
def any_model() -> TaxonomyCRF:
    return fitted(GRAPH, ANY, labels="nodes", fit_intercept=True)


def membership(labels) -> np.ndarray:
    """1 where the node (column, in the order of NODES) is the label (row) or above it."""
    return np.array([[float(node in prefixes(label)) for node in NODES] for label in labels])


def class_scores(model: TaxonomyCRF, X=X) -> np.ndarray:
    """(I, classes) by the definition: the sum over the path."""
    assert list(model.tree_.names) == NODES
    return (X @ model.coef_.toarray().T + model.intercept_) @ membership(model.classes_).T


def assert_same_model(left: TaxonomyCRF, right: TaxonomyCRF) -> None:
    assert left.tree_.names == right.tree_.names
    assert left.coef_.toarray().tobytes() == right.coef_.toarray().tobytes()
    assert left.intercept_.tobytes() == right.intercept_.tobytes()
    assert left.result_.value == right.result_.value
    assert left.classes_.tolist() == right.classes_.tolist()


class TestFit:
    def test_attributes(self, model):
        assert isinstance(model.coef_, sp.csr_array)
        assert model.coef_.shape == (9, 10)
        assert (model.tree_.names, model.tree_.parents.tolist()) == (tuple(NODES), PARENTS)
        assert model.classes_.tolist() == sorted(LEAVES)
        assert model.intercept_.tolist() == [0.0] * 9
        assert model.n_features_in_ == 10
        assert model.result_.status is Status.CONVERGED
        assert 0 <= model.result_.gap <= 1e-3
        assert model.score(X, Y) > 0.5

    @pytest.mark.parametrize("l2", [0.0, 0.3])
    @pytest.mark.parametrize("labels", ["leaves", "nodes"])
    def test_the_optimum(self, labels, l2):
        """Against L-BFGS-B on the labels' path scores, weights split into their signs."""
        y, l1 = (Y, 0.7) if labels == "leaves" else (ANY, 0.7)
        model = fitted(GRAPH, y, labels=labels, l1=l1, l2=l2, tol=1e-5)
        above = membership(model.classes_)
        observed = (y[:, None] == model.classes_).astype(float)

        def split(uv):
            w = (uv[:90] - uv[90:]).reshape(9, 10)
            scores = X @ w.T @ above.T
            log_z = logsumexp(scores, axis=1)
            g = (((np.exp(scores - log_z[:, None]) - observed) @ above).T @ X + l2 * w).ravel()
            value = log_z.sum() - (scores * observed).sum() + l1 * uv.sum() + 0.5 * l2 * (w**2).sum()
            return value, np.concatenate([g, -g]) + l1

        options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}
        found = minimize(
            split, np.zeros(180), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 180, options=options
        )
        assert found.fun * (1 - 1e-6) <= model.result_.value <= found.fun * (1 + 1.1e-5)
        w = model.coef_.toarray().ravel()
        own = split(np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)]))[0]
        assert model.result_.value == pytest.approx(own, rel=1e-12)

    @pytest.mark.parametrize("form", ["graph", "mapping", "paths", "tuples", "padded", "file", "tree"])
    def test_forms_of_the_taxonomy(self, form, tmp_path):
        path = tmp_path / "taxonomy.txt"
        path.write_text("\n".join(LEAVES))
        taxonomy = {
            "graph": GRAPH,
            "mapping": {child: parent for parent, child in EDGES},
            "paths": LEAVES,
            "tuples": [tuple(name.split("/")) for name in LEAVES],
            "padded": np.unique(PADDED, axis=0),
            "file": path,
            "tree": LabelTree.from_edges(EDGES),
        }[form]
        unique = {"l2": 0.5, "tol": 1e-7}
        model, other = fitted(**unique), fitted(taxonomy, **unique)
        assert set(other.tree_.names) == set(NODES)
        assert set(other.tree_.to_networkx().edges) == set(GRAPH.edges)
        np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-4)

    def test_pairs(self):
        is_deep = Y != "c"  # pairs cannot name a top without children
        pairs = [edge for edge in EDGES if edge[0] is not None]
        left = TaxonomyCRF(taxonomy=pairs).fit(X[is_deep], Y[is_deep])
        assert left.tree_.names == ("a", "b", "a/x", "a/y", "a/z", "b/w", "a/z/1", "a/z/2")

    @pytest.mark.parametrize("form", ["list", "objects", "tuples", "lists", "padded"])
    def test_forms_of_labels(self, model, form):
        y = {
            "list": Y.tolist(),
            "objects": Y.astype(object),
            "tuples": TUPLES,
            "lists": [list(row) for row in TUPLES],
            "padded": PADDED,
        }[form]
        other = fitted(y=y)
        assert_same_model(model, other)
        found, expected = other.predict(X), model.predict(X)
        if form in ("list", "objects"):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(other.decode(X).labels, expected)
        else:
            assert found.shape == (120, 3)
            assert ["/".join(filter(None, row)) for row in found] == expected.tolist()
            np.testing.assert_array_equal(other.decode(X).labels, found)
        assert other.score(X, y) == other.score(X, Y) == model.score(X, y) == np.mean(expected == Y)
        np.testing.assert_array_equal(other.log_likelihood(X, y), model.log_likelihood(X, Y))

    def test_rows_are_as_wide_as_the_deepest_node(self):
        is_flat = Y != "a/z/1"
        y = [row for row, keep in zip(TUPLES, is_flat & (Y != "a/z/2"), strict=True) if keep]
        model = TaxonomyCRF(taxonomy=GRAPH).fit(X[is_flat & (Y != "a/z/2")], y)
        assert model.predict(X).shape == (120, 3)

    def test_another_separator(self, model):
        other = fitted(y=np.char.replace(Y, "/", "."), separator=".")
        assert other.tree_.names == tuple(name.replace("/", ".") for name in NODES)
        assert other.coef_.toarray().tobytes() == model.coef_.toarray().tobytes()
        assert fitted(y=np.char.replace(Y, "/", ".")).tree_.n_nodes == 6  # no separator in them: a star

    def test_numbers_as_names_beside_strings(self):
        tree = nx.DiGraph([("root", 1), ("root", 2), (1, 11), (1, 12), (2, 21), (2, 22)])
        y = np.array([11, 12, 21, 22])[np.searchsorted(LEAVES, Y) % 4]
        model = fitted(tree, y)
        assert model.classes_.dtype.kind == "i"
        assert model.predict(X).dtype.kind == "i"
        sure = model.predict(X, threshold=0.9).tolist()
        assert {type(name) for name in sure} <= {str, int}
        assert "root" in sure

    def test_leaves_without_items_can_be_predicted(self):
        graph = nx.compose(GRAPH, nx.DiGraph([("a/z", "a/z/3"), ("d", "d/new")]))
        model = fitted(graph)
        assert model.classes_.tolist() == sorted([*LEAVES, "a/z/3", "d/new"])
        p = model.predict_proba(X)[:, model.classes_.tolist().index("a/z/3")]
        assert ((p > 0) & (p < 0.5)).all()
        assert model.log_likelihood(X[:1], ["d/new"])[0] < 0

    def test_any_node_can_be_a_label(self, any_model):
        assert any_model.classes_.tolist() == sorted(NODES)
        assert any_model.score(X, ANY) > 0.4
        assert fitted(GRAPH, Y, labels="nodes").classes_.tolist() == sorted(NODES)

    def test_weights_of_classes_by_name(self):
        weights = np.where(Y == "c", 3.0, np.where(Y == "a/x", 0.0, 1.0))
        left = fitted(GRAPH, class_weight={"c": 3.0, "a/x": 0.0})
        right = TaxonomyCRF(taxonomy=GRAPH, l1=0.5).fit(X, Y, sample_weight=weights)
        assert_same_model(left, right)
        assert_same_model(left, fitted(GRAPH, PADDED, class_weight={"c": 3.0, "a/x": 0.0}))
        assert fitted(GRAPH, class_weight="balanced").result_.value != fitted(GRAPH).result_.value

    def test_labels_of_weightless_items_make_no_nodes(self, model):
        other = TaxonomyCRF(l1=0.5).fit(np.r_[X, X[:1]], [*Y, "new/label"], np.r_[np.ones(120), 0])
        assert_same_model(model, other)

    def test_sparse_matrices(self, model):
        rows, columns = (TaxonomyCRF(l1=0.5).fit(make(X), Y) for make in (sp.csr_array, sp.csc_array))
        assert_same_model(rows, columns)
        np.testing.assert_allclose(rows.coef_.toarray(), model.coef_.toarray(), atol=1e-4)
        np.testing.assert_allclose(rows.predict_nodes(sp.csc_array(X)), model.predict_nodes(X), atol=1e-4)

    @pytest.mark.parametrize("n_threads", [2, 3])
    def test_bit_identical_for_any_number_of_threads(self, n_threads):
        one, other = fitted(n_threads=1), fitted(n_threads=n_threads)
        assert_same_model(one, other)
        assert one.predict_nodes(X).tobytes() == other.predict_nodes(X).tobytes()

    def test_warm_start(self):
        warm = fitted(GRAPH, l1=0.55, tol=1e-5, warm_start=True)
        warm.set_params(l1=0.5).fit(X, Y)
        cold = fitted(GRAPH, tol=1e-5)
        assert warm.result_.passes < cold.result_.passes
        assert warm.result_.value == pytest.approx(cold.result_.value, rel=1e-5)
        assert warm.fit(X, Y).n_iter_ == 0
        moved = nx.relabel_nodes(GRAPH, {"a/x": "b/x"})
        moved.remove_edge("a", "b/x")
        moved.add_edge("b", "b/x")
        y = np.where(Y == "a/x", "b/x", Y)
        warm.set_params(taxonomy=moved).fit(X, y)  # from the nodes whose names are in both
        assert warm.result_.value == pytest.approx(fitted(moved, y, tol=1e-5).result_.value, rel=1e-5)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("has_intercept", [False, True])
    def test_start_from_another_model(self, has_intercept):
        settings = {"fit_intercept": has_intercept, "penalize_intercept": True}
        stopped = TaxonomyCRF(taxonomy=GRAPH, callback=lambda row: True, **settings)
        tree = fitted(GRAPH, l1=0.3, **settings)
        found = copy.copy(stopped).fit(X, Y, start=tree)
        np.testing.assert_array_equal(found.coef_.toarray(), tree.coef_.toarray())
        smaller = GRAPH.subgraph([name for name in GRAPH if name != "a/x"])
        stays = Y != "a/x"
        found = copy.copy(stopped).set_params(taxonomy=smaller).fit(X[stays], Y[stays], start=tree)
        nodes = tree.tree_.nodes_of(found.tree_.names)
        np.testing.assert_array_equal(found.coef_.toarray(), tree.coef_.toarray()[nodes])
        np.testing.assert_array_equal(found.intercept_, tree.intercept_[nodes])
        flat = MulticlassCRF(0.3, **settings).fit(X, Y)
        found = copy.copy(stopped).fit(X, Y, start=flat)
        assert flat.classes_.tolist() == found.classes_.tolist()
        np.testing.assert_allclose(found.predict_proba(X), flat.predict_proba(X), rtol=1e-12)
        with pytest.raises(InputError, match=r"^start: .* got one of a taxonomy's nodes"):
            MulticlassCRF().fit(X, Y, start=tree)


class TestIntercept:
    @pytest.mark.parametrize("labels", ["leaves", "nodes"])
    def test_every_label_is_predicted_as_often_as_it_comes(self, labels):
        y = Y if labels == "leaves" else ANY
        model = fitted(GRAPH, y, labels=labels, l1=2.0, fit_intercept=True, tol=1e-6)
        counts = model.predict_proba(X).sum(axis=0)
        np.testing.assert_allclose(counts, [(y == name).sum() for name in model.classes_], atol=1e-5)
        assert model._space.centred(model.intercept_) == pytest.approx(model.intercept_, abs=1e-12)
        assert abs(model.intercept_[:3].sum()) < 1e-12
        if labels == "leaves":
            assert (
                np.abs([model.intercept_[3:6].sum(), model.intercept_[6], model.intercept_[7:].sum()]).max()
                < 1e-12
            )
        assert model.result_.gap <= 1e-6

    def test_penalised_it_is_a_feature_that_is_always_1(self):
        model = fitted(GRAPH, fit_intercept=True, penalize_intercept=True)
        wider = TaxonomyCRF(taxonomy=GRAPH, l1=0.5).fit(np.c_[X, np.ones(120)], Y)
        found = wider.coef_.toarray()
        np.testing.assert_allclose(found[:, :-1], model.coef_.toarray(), atol=1e-4)
        np.testing.assert_allclose(found[:, -1], model.intercept_, atol=1e-4)

    @pytest.mark.parametrize("seed", range(5))
    def test_centring_changes_no_probability_and_chooses_one_of_all(self, seed):
        rng = np.random.default_rng(seed)
        n = 40
        parents = np.sort([int(rng.integers(-1, k)) for k in range(n)]).astype(np.int32)
        is_leaf = ~np.isin(np.arange(n), parents)
        is_label = is_leaf | (rng.random(n) < 0.2)
        nodes = np.flatnonzero(is_label).astype(np.int32)
        space = LabelSpace(nodes, nodes, Taxonomy(parents, is_label, 0))

        def relative(intercepts):
            sums = space.over(1).path_scores(intercepts[:, None])[nodes, 0]
            return sums - sums[0]

        intercepts = rng.normal(size=n)
        centred = space.centred(intercepts)
        np.testing.assert_allclose(relative(centred), relative(intercepts), atol=1e-12)
        # What no probability shows is added at random: the result must not.
        hidden = intercepts + 3.0 * (parents < 0)
        for k in np.flatnonzero(~is_label):
            shift = rng.normal()
            hidden[k] += shift
            hidden[parents == k] -= shift
        np.testing.assert_allclose(space.centred(hidden), centred, atol=1e-12)
        np.testing.assert_allclose(space.centred(centred), centred, atol=1e-12)


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
            while True:
                below = [k for k in range(9) if PARENTS[k] == node]
                if not below or max(p[i, below]) < threshold:
                    break
                node = max(below, key=lambda k: p[i, k])
            assert name == names[node]

    def test_a_threshold_stops_higher_the_higher_it_is(self, model):
        depths = [np.char.count(model.predict(X, threshold=t), "/") for t in (0.0, 0.5, 0.9, 1.0)]
        assert all((lower >= higher).all() for lower, higher in itertools.pairwise(depths))
        assert set(model.predict(X, threshold=0.0)) <= set(LEAVES)
        assert depths[0].sum() > depths[2].sum()

    def test_a_threshold_and_rows_of_parts(self, model):
        rows = fitted(y=PADDED).predict(X, threshold=0.7)
        assert rows.shape == (120, 3)
        assert ["/".join(filter(None, row)) for row in rows] == model.predict(X, threshold=0.7).tolist()

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
    for threshold, expected in [(0.0, [5, 6]), (0.3, [5, 6]), (0.33, [2, 2]), (0.5, [0, 2]), (0.7, [0, 0])]:
        assert descend(p, parents, threshold).tolist() == expected


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a", "bc"], "U"),
        ([1, 2], "i"),
        ([True, False], "b"),
        ([1, 2.5], "f"),
        (["a", 2], "O"),
        (["a\0", "b"], "O"),
    ],
)
def test_arrays_of_names_hold_the_names(names, kind):
    found = name_array(names)
    assert found.dtype.kind == kind
    assert found.tolist() == names


def test_classes_that_cannot_be_sorted_keep_the_order_of_the_tree():
    tree = LabelTree.star(["b", 2, "a"])
    space = TreeSpace.of(tree, np.arange(3), 0, "/")
    assert space.classes.tolist() == ["b", 2, "a"]
    assert space.nodes.tolist() == [0, 1, 2]


class TestMessages:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"labels": "stems"}, r"^labels: expected one of \('leaves', 'nodes'\), got 'stems'$"),
            ({"labels": None}, r"^labels: expected one of \('leaves', 'nodes'\), got None$"),
            ({"separator": ""}, r"^expected a separator of one or more characters"),
            ({"l1": -1}, r"^l1: expected a finite number >= 0, got -1$"),
            (
                {"class_weight": {"c": -2}},
                r"^class_weight: expected finite numbers >= 0, got -2.0 for label 'c'$",
            ),
        ],
    )
    def test_parameters(self, settings, message):
        model = TaxonomyCRF(**settings)
        with pytest.raises(InputError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "tree_")

    @pytest.mark.parametrize(
        ("taxonomy", "y", "message"),
        [
            (GRAPH, ANY, r"^expected leaves of the taxonomy as labels, but 'a' is an inner node; labels='nodes' lets"),
            (None, ["a/b", *Y[1:-1], "a"], r"'a' is an inner node; labels='nodes'"),
            (GRAPH, ["a/w", *Y[1:]], r"has no node named 'a/w'; .*'b/w'"),
            (nx.DiGraph([("a", "b"), ("b", "a")]), Y, "the taxonomy has a cycle: 'a' -> 'b' -> 'a'"),
            (nx.DiGraph([("a", "c"), ("b", "c")]), Y, "node 'c' has two parents: 'a' and 'b'"),
            (nx.DiGraph(), Y, "at least one node"),
            (3, Y, "networkx.DiGraph"),
            ("no/such/file", Y, "there is no file"),
            (GRAPH, None, "requires y to be passed"),
            (GRAPH, Y[:-1], "inconsistent numbers of samples"),
            (None, X[:, :1] + 0.1, "Unknown label type: continuous"),
            (GRAPH, [("a", "", "x"), *TUPLES[1:]], "^item 0: expected missing levels only at the end of a path"),
            (GRAPH, [(), *TUPLES[1:]], "^item 0: expected at least one part of a path"),
            (GRAPH, np.arange(120) % 3, r"no node named 0"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore:A column-vector y")
    def test_taxonomy_and_labels(self, taxonomy, y, message):
        with pytest.raises((InputError, DataError, ValueError), match=message):
            TaxonomyCRF(taxonomy=taxonomy).fit(X, y)

    @pytest.mark.parametrize("threshold", [-0.1, 1.5, np.nan, "high", True])
    def test_threshold(self, model, threshold):
        with pytest.raises(InputError, match=r"^threshold: expected None or a number from 0 to 1, got"):
            model.predict(X, threshold=threshold)

    @pytest.mark.parametrize("k", [0, 7, 1.0, True, None])
    def test_top(self, model, k):
        with pytest.raises(
            InputError, match=rf"^k: expected an integer from 1 to 6, got {re.escape(repr(k))}$"
        ):
            model.predict_top(X, k)

    @pytest.mark.parametrize(
        "verb", ["predict", "predict_nodes", "predict_marginals", "decode", "predict_proba"]
    )
    def test_not_fitted(self, verb):
        with pytest.raises(NotFittedError, match="This TaxonomyCRF instance is not fitted yet"):
            getattr(TaxonomyCRF(), verb)(X)

    def test_not_fitted_with_arguments(self):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().predict_top(X, 2)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().predict(X, threshold=0.5)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().log_likelihood(X, Y)

    def test_likelihood_of_unknown_labels(self, model):
        with pytest.raises(InputError, match=r"^item 119: label 'a' is not among the 6 known classes$"):
            model.log_likelihood(X, [*Y[:-1], "a"])

    def test_edges_in_an_array(self):
        edges = np.array([("u", name) for name in LEAVES], object)
        with pytest.raises(InputError, match="a 2-column array holds paths: pass a list of tuples for edges"):
            fitted(edges, separator="|")
        assert fitted([tuple(edge) for edge in edges], separator="|").tree_.n_nodes == 7

    def test_a_folder_is_no_taxonomy(self, tmp_path):
        with pytest.raises(InputError, match=f"'{tmp_path.name[:1]}?.* is a folder$"):
            fitted(str(tmp_path))

    def test_a_failed_fit_keeps_the_old_model(self):
        model = fitted()
        before = model.predict_nodes(X)
        with pytest.raises(InputError, match="inner node"):
            model.fit(X[:, :4], ["a", *Y[1:]])
        assert model.predict_nodes(X).tobytes() == before.tobytes()


def test_docstring_example():
    failures, tests = doctest.testmod(taxonomy_module)
    assert (failures, tests > 0) == (0, True)
    assert crfqn.TaxonomyCRF is TaxonomyCRF


def test_many_names_are_no_ground_for_a_warning():
    """scikit-learn suspects a regression where most labels occur once; names are none (warnings are errors here)."""
    X, y = np.eye(6), [f"a/{i}" for i in range(6)]
    assert TaxonomyCRF(l1=0.01).fit(X, y).score(X, y) == 1.0


DEEP = """
import numpy as np
from crfqn import TaxonomyCRF
from crfqn.errors import InputError

def labels(n_levels):
    return ["/".join(f"p{level}" for level in range(n_levels)), "p0/x", "b", "c"] * 2

X = np.random.default_rng(0).normal(size=(8, 3))
model = TaxonomyCRF(solver="owl-qn", l1=0.1, tol=0.1, max_iter=2, n_threads=1).fit(X, labels(3_000))
assert model.tree_.n_nodes == 3_003
assert set(model.predict(X)) <= set(labels(3_000))
try:
    TaxonomyCRF().fit(X, labels(20_000))
except InputError as error:
    print(error)
"""


def test_labels_of_thousands_of_levels():
    """In a process of its own, which can be ended where the names of the nodes are made by the cube of the levels."""
    command = [sys.executable, "-W", "ignore", "-c", DEEP]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "the taxonomy is too deep: with 20,000 levels" in run.stdout
