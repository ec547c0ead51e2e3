"""TaxonomyCRF: every form of taxonomy and labels, the optimum, starts, intercepts.

What it shares with MulticlassCRF (weights, blocks, ends) is tested there; inference in test_taxonomy.py, the forms of
taxonomies in test_taxonomies.py, model files in test_stored_classifiers.py.
"""

from __future__ import annotations

import copy
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from taxonomy_items import (
    ANY,
    EDGES,
    GRAPH,
    LEAVES,
    NODES,
    PADDED,
    PARENTS,
    TUPLES,
    X,
    Y,
    assert_same_model,
    fitted,
    membership,
)

from crfqn import MulticlassCRF, TaxonomyCRF
from crfqn.errors import InputError
from crfqn.model.label_index import LabelIndex
from crfqn.result import Status
from crfqn.taxonomy.tree import LabelTree

EXACT = {"l2": 0.5, "tol": 1e-9}  # near enough to the one optimum that weights can be compared


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

    @pytest.mark.parametrize("n_threads", [2, 3])
    def test_bit_identical_for_any_number_of_threads(self, n_threads):
        one, other = fitted(n_threads=1), fitted(n_threads=n_threads)
        assert_same_model(one, other)
        assert one.predict_nodes(X).tobytes() == other.predict_nodes(X).tobytes()

    def test_warm_start(self):
        warm = fitted(GRAPH, l1=0.55, tol=1e-5, warm_start=True)
        warm.set_params(l1=0.5).fit(X, Y)
        cold = fitted(GRAPH, tol=1e-5)
        assert warm.n_iter_ < cold.n_iter_
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
        assert model.model_.labels.centered(model.intercept_) == pytest.approx(model.intercept_, abs=1e-12)
        assert abs(model.intercept_[:3].sum()) < 1e-12
        if labels == "leaves":
            assert (
                np.abs([model.intercept_[3:6].sum(), model.intercept_[6], model.intercept_[7:].sum()]).max()
                < 1e-12
            )
        assert model.result_.gap <= 1e-6

    @pytest.mark.parametrize("seed", range(5))
    def test_centring_changes_no_probability_and_chooses_one_of_all(self, seed):
        rng = np.random.default_rng(seed)
        n = 40
        parents = np.sort([int(rng.integers(-1, k)) for k in range(n)]).astype(np.int32)
        is_leaf = ~np.isin(np.arange(n), parents)
        is_label = is_leaf | (rng.random(n) < 0.2)
        nodes = np.flatnonzero(is_label).astype(np.int32)
        tree = LabelTree(tuple(map(str, range(n))), parents)
        space = LabelIndex(nodes, nodes, tree=tree, separator="/")

        def relative(intercepts):
            sums = space.forest.over(np.arange(2)).path_scores(intercepts[:, None])[nodes, 0]
            return sums - sums[0]

        intercepts = rng.normal(size=n)
        centred = space.centered(intercepts)
        np.testing.assert_allclose(relative(centred), relative(intercepts), atol=1e-12)
        # What no probability shows is added at random: the result must not.
        hidden = intercepts + 3.0 * (parents < 0)
        for k in np.flatnonzero(~is_label):
            shift = rng.normal()
            hidden[k] += shift
            hidden[parents == k] -= shift
        np.testing.assert_allclose(space.centered(hidden), centred, atol=1e-12)
        np.testing.assert_allclose(space.centered(centred), centred, atol=1e-12)


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
    run = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stderr
    assert "the taxonomy is too deep: with 20,000 levels" in run.stdout
