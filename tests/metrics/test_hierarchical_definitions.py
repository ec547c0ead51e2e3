"""Hierarchical metrics against their definitions, on forests that hypothesis draws."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hierarchies import AVERAGES, MEASURES
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from crfqn.metrics import (
    hierarchical_f1_score,
    hierarchical_precision_recall_f1,
    lca_precision_recall_f1,
    level_accuracy,
    tree_induced_error,
)
from crfqn.taxonomy.tree import LabelTree


class References:
    """The definitions with sets and shortest paths; `graph` is a forest, and has a virtual root here."""

    def __init__(self, graph: nx.DiGraph) -> None:
        tops = [node for node in graph if graph.in_degree(node) == 0]
        self.graph = graph
        self.root = tops[0] if len(tops) == 1 else None
        self.rooted = graph.copy()
        self.rooted.add_edges_from(("virtual root", top) for top in tops)

    def lineage(self, node):
        return (nx.ancestors(self.graph, node) | {node}) - {self.root}

    def hierarchical(self, true, predicted):
        return self.lineage(true), self.lineage(predicted)

    def lca(self, true, predicted):
        ancestor = nx.lowest_common_ancestor(self.rooted, true, predicted)
        return tuple(set(nx.shortest_path(self.rooted, ancestor, node)) for node in (true, predicted))

    def n_edges(self, true, predicted):
        return nx.shortest_path_length(self.rooted.to_undirected(), true, predicted)

    def path(self, node):
        return nx.shortest_path(self.rooted, "virtual root", node)[1:]


def quotient(part, whole, other):
    return part / whole if whole else float(not other)


def scores_of(pairs, weights, average):
    """Precision, recall, F1 of pairs of sets (true, predicted)."""
    counts = np.array([(len(true & predicted), len(predicted), len(true)) for true, predicted in pairs])
    if average == "micro":
        counts, weights = [np.dot(weights, counts)], [1]
    each = [
        (quotient(both, found, true), quotient(both, true, found), quotient(2 * both, found + true, 0))
        for both, found, true in counts
    ]
    return np.average(each, axis=0, weights=weights).tolist()


@st.composite
def labeled_forests(draw):
    """A forest of strings, items with true and predicted nodes and a whole weight each, not all of them zero."""
    n_nodes = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, k - 1)) for k in range(n_nodes)]
    graph = nx.DiGraph()
    graph.add_nodes_from(f"n{k}" for k in range(n_nodes))
    graph.add_edges_from((f"n{parent}", f"n{k}") for k, parent in enumerate(parents) if parent >= 0)
    node = st.integers(0, n_nodes - 1).map("n{}".format)
    items = draw(st.lists(st.tuples(node, node, st.integers(0, 3)), min_size=1, max_size=8))
    true, predicted, weights = map(list, zip(*items, strict=True))
    weights[-1] = max(weights[-1], 1)
    return graph, true, predicted, weights


class TestAgainstTheDefinitions:
    @pytest.mark.parametrize("measure", [hierarchical_precision_recall_f1, lca_precision_recall_f1])
    @given(case=labeled_forests(), average=st.sampled_from(AVERAGES))
    @settings(deadline=None)
    def test_precision_recall_f1(self, measure, case, average):
        graph, true, predicted, weights = case
        references = References(graph)
        sets = references.lca if measure is lca_precision_recall_f1 else references.hierarchical
        found = measure(true, predicted, graph, average=average, sample_weight=weights)
        expected = scores_of(map(sets, true, predicted), weights, average)
        assert found == pytest.approx(expected, rel=1e-12, abs=0)

    @given(labeled_forests())
    @settings(deadline=None)
    def test_tree_induced_error(self, case):
        graph, true, predicted, weights = case
        edges = list(map(References(graph).n_edges, true, predicted))
        found = tree_induced_error(true, predicted, graph, sample_weight=weights)
        assert found == pytest.approx(np.average(edges, weights=weights), rel=1e-12, abs=0)

    @given(labeled_forests())
    @settings(deadline=None)
    def test_accuracy_of_every_level(self, case):
        graph, true, predicted, weights = case
        path = References(graph).path
        found = level_accuracy(true, predicted, graph, sample_weight=weights)
        assert found.shape == (max(len(path(node)) for node in graph),)
        for level, accuracy in enumerate(found):
            hits = [
                (path(a)[level : level + 1] == path(b)[level : level + 1], weight)
                for a, b, weight in zip(true, predicted, weights, strict=True)
                if len(path(a)) > level and weight
            ]
            expected = sum(hit * w for hit, w in hits) / sum(w for _, w in hits) if hits else np.nan
            assert accuracy == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True)

    @given(labeled_forests())
    @settings(deadline=None)
    def test_weights_are_repetitions(self, case):
        graph, true, predicted, weights = case
        repeated = np.repeat(true, weights), np.repeat(predicted, weights)
        for measure in MEASURES:
            np.testing.assert_allclose(
                measure(true, predicted, graph, sample_weight=weights), measure(*repeated, graph), rtol=1e-12
            )

    @given(labeled_forests())
    @settings(deadline=None)
    def test_exactly_one_where_all_is_right(self, case):
        graph, true, _, weights = case
        weights = np.array(weights) / 3
        for measure in MEASURES[:2]:
            for average in AVERAGES:
                assert measure(true, true, graph, sample_weight=weights, average=average) == (1.0, 1.0, 1.0)
        assert tree_induced_error(true, true, graph, sample_weight=weights) == 0.0
        levels = level_accuracy(true, true, graph, sample_weight=weights)
        assert (levels[~np.isnan(levels)] == 1.0).all()


@pytest.fixture(scope="module")
def flat():
    random = np.random.default_rng(0)
    true, predicted = random.integers(0, 4, (2, 50))
    return np.where(random.random(50) < 0.7, true, predicted), true, random.random(50)


class TestStars:
    @pytest.mark.parametrize("taxonomy", [LabelTree.star(range(4)), None])
    def test_all_are_the_accuracy(self, flat, taxonomy):
        predicted, true, weights = flat
        accuracy = accuracy_score(true, predicted, sample_weight=weights)
        options = {"taxonomy": taxonomy, "sample_weight": weights}
        for average in AVERAGES:
            found = hierarchical_precision_recall_f1(true, predicted, average=average, **options)
            assert found == pytest.approx(3 * (accuracy,))
        assert level_accuracy(true, predicted, **options) == pytest.approx([accuracy])
        assert tree_induced_error(true, predicted, **options) == pytest.approx(2 * (1 - accuracy))
        assert lca_precision_recall_f1(true, predicted, **options) == pytest.approx(3 * ((1 + accuracy) / 2,))

    def test_under_a_real_root(self, flat):
        predicted, true, _ = flat
        found = hierarchical_f1_score(true, predicted, [(9, name) for name in range(4)])
        assert found == pytest.approx(accuracy_score(true, predicted))
