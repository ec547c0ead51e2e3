"""Hierarchical metrics by hand: values, which labels and settings they take, and what they refuse."""

from __future__ import annotations

import inspect
import pickle

import networkx as nx
import numpy as np
import pytest
from hierarchies import AVERAGES, MEASURES, NAMES, ZOO

from crfqn import metrics
from crfqn.errors import InputError
from crfqn.metrics import (
    hierarchical_f1_score,
    hierarchical_precision_recall_f1,
    hierarchical_scorer,
    lca_precision_recall_f1,
    level_accuracy,
    tree_induced_error,
)
from crfqn.taxonomy.tree import LabelTree


class TestByHand:
    TRUE = ("lion", "lion", "dog", "cat", "rose")
    PREDICTED = ("lion", "lynx", "cat", "lion", "dog")
    # shared / predicted / true: 3/3/3, 2/3/3, 1/2/2, 2/3/2, 0/2/2

    def test_hierarchical_micro(self):
        found = hierarchical_precision_recall_f1(self.TRUE, self.PREDICTED, ZOO)
        assert found == pytest.approx((8 / 13, 8 / 12, 16 / 25))
        assert found.f1 == pytest.approx(2 / (1 / found.precision + 1 / found.recall))

    def test_hierarchical_macro(self):
        found = hierarchical_precision_recall_f1(self.TRUE, self.PREDICTED, ZOO, average="macro")
        each = [(1, 1, 1), (2 / 3, 2 / 3, 2 / 3), (1 / 2, 1 / 2, 1 / 2), (2 / 3, 1, 4 / 5), (0, 0, 0)]
        assert found == pytest.approx(np.mean(each, axis=0))

    def test_lowest_common_ancestors(self):
        # {lion}, {cat lion} {cat lynx}, {animal dog} {animal cat}, {cat} {cat lion}, {- plant rose} {- animal dog}
        found = lca_precision_recall_f1(self.TRUE, self.PREDICTED, ZOO)
        each = [
            (1, 1, 1),
            (1 / 2, 1 / 2, 1 / 2),
            (1 / 2, 1 / 2, 1 / 2),
            (1 / 2, 1, 2 / 3),
            (1 / 3, 1 / 3, 1 / 3),
        ]
        assert found == pytest.approx(np.mean(each, axis=0))
        micro = lca_precision_recall_f1(self.TRUE, self.PREDICTED, ZOO, average="micro")
        assert micro == pytest.approx((5 / 10, 5 / 9, 10 / 19))

    def test_tree_induced_error(self):
        assert tree_induced_error(self.TRUE, self.PREDICTED, ZOO) == (0 + 2 + 2 + 1 + 4) / 5

    def test_levels(self):
        np.testing.assert_array_equal(level_accuracy(self.TRUE, self.PREDICTED, ZOO), [4 / 5, 3 / 5, 1 / 2])

    def test_a_prediction_that_stops_early_misses_the_levels_below(self):
        np.testing.assert_array_equal(level_accuracy(["lion"], ["cat"], ZOO), [1, 1, 0])

    def test_levels_that_no_item_reaches(self):
        np.testing.assert_array_equal(level_accuracy(["dog", "plant"], ["lion", "rose"], ZOO), [1, 0, np.nan])
        weighted = level_accuracy(["plant", "dog"], ["rose", "dog"], ZOO, sample_weight=[1, 0])
        np.testing.assert_array_equal(weighted, [1, np.nan, np.nan])

    def test_a_real_root_changes_nothing(self):
        """Neither sets nor distances know whether the root is virtual; levels count it."""
        rooted = LabelTree.from_graph(
            nx.compose(ZOO.to_networkx(), nx.DiGraph([("life", "animal"), ("life", "plant")]))
        )
        for measure in MEASURES[:3]:
            assert measure(self.TRUE, self.PREDICTED, rooted) == measure(self.TRUE, self.PREDICTED, ZOO)
        found = level_accuracy(self.TRUE, self.PREDICTED, rooted)
        np.testing.assert_array_equal(found, [1, *level_accuracy(self.TRUE, self.PREDICTED, ZOO)])

    def test_labels_at_a_real_root(self):
        tree = LabelTree.from_edges([("life", "animal"), ("life", "plant")])
        found = hierarchical_precision_recall_f1(
            ["life", "life", "plant"], ["life", "plant", "life"], tree, average="macro"
        )
        assert found == (1 / 3, 1 / 3, 1 / 3)
        assert hierarchical_precision_recall_f1(["life"], ["life"], tree) == (1, 1, 1)
        assert hierarchical_precision_recall_f1(["life"], ["plant"], tree) == (0, 0, 0)

    def test_averages_by_default(self):
        assert inspect.signature(hierarchical_precision_recall_f1).parameters["average"].default == "micro"
        assert inspect.signature(lca_precision_recall_f1).parameters["average"].default == "macro"


class TestLabels:
    NAMES = ("animal/cat/lion", "animal/dog", "plant")
    FORMS = (
        list(NAMES),
        np.array(NAMES),
        np.array(NAMES, object),
        [("animal", "cat", "lion"), ("animal", "dog"), ("plant",)],
        np.array([["animal", "cat", "lion"], ["animal", "dog", ""], ["plant", "", ""]]),
    )
    OTHERS = ("animal/cat", "animal/cat/lynx", "plant/rose")

    @pytest.mark.parametrize("y_true", FORMS)
    @pytest.mark.parametrize("y_pred", [OTHERS, np.array([[*name.split("/"), ""][:3] for name in OTHERS])])
    def test_names_and_rows(self, y_true, y_pred):
        for taxonomy in (None, [*self.NAMES, *self.OTHERS]):
            found = hierarchical_precision_recall_f1(y_true, y_pred, taxonomy)
            assert found == pytest.approx(((2 + 1 + 1) / (2 + 3 + 2), (2 + 1 + 1) / (3 + 2 + 1), 8 / 13))

    def test_another_separator(self):
        names = [name.replace("/", ".") for name in self.NAMES]
        others = [name.replace("/", ".") for name in self.OTHERS]
        for measure in MEASURES:
            np.testing.assert_array_equal(
                measure(names, others, None, separator="."), measure(self.NAMES, self.OTHERS, None)
            )

    def test_a_taxonomy_made_up_from_labels_has_a_virtual_root(self):
        """The items at hand may lie under one top by chance: the others have their say in any given taxonomy."""
        true, predicted = ["animal/cat", "animal/dog"], ["animal/dog", "animal/dog"]
        assert hierarchical_f1_score(true, predicted, None) == 0.75
        assert hierarchical_f1_score(true, predicted, [*true, "plant"]) == 0.75
        assert hierarchical_f1_score(true, predicted, true) == 0.5

    def test_pairs_are_paths_where_labels_are_rows(self):
        rows = [("a", "b"), ("a", "c")]
        assert tree_induced_error(rows, rows[::-1], rows) == 2.0

    def test_numbers(self):
        assert tree_induced_error([1, 3], np.array([2, 3]), {1: 0, 2: 0, 3: None}) == 1.0

    def test_inputs_stay(self):
        true, predicted, weights = np.array(["lion", "dog"]), np.array(["dog", "dog"]), np.array([1.0, 2.0])
        for measure in MEASURES:
            measure(true, predicted, ZOO, sample_weight=weights)
        assert (true.tolist(), predicted.tolist(), weights.tolist()) == (
            ["lion", "dog"],
            ["dog", "dog"],
            [1, 2],
        )


class TestSingleScores:
    @pytest.mark.parametrize("name", NAMES)
    def test_they_are_the_parts(self, name):
        kind, part = name.split("_")
        score, measure = getattr(metrics, f"{name}_score"), getattr(metrics, f"{kind}_precision_recall_f1")
        labels = (TestByHand.TRUE, TestByHand.PREDICTED, ZOO)
        for average in AVERAGES:
            options = {"average": average, "sample_weight": [1, 2, 3, 4, 5]}
            assert score(*labels, **options) == getattr(measure(*labels, **options), part)
        assert score(*labels) == getattr(measure(*labels), part)

    @pytest.mark.parametrize("name", NAMES)
    def test_they_look_like_functions(self, name):
        score = getattr(metrics, f"{name}_score")
        assert score.__name__ == f"{name}_score"
        assert "sample_weight" in inspect.signature(score).parameters
        assert inspect.signature(score).return_annotation == "float"
        assert pickle.loads(pickle.dumps(score)) is score


class TestErrors:
    @pytest.mark.parametrize("measure", MEASURES)
    @pytest.mark.parametrize(
        ("y_true", "y_pred", "message"),
        [
            (["dog"], ["dog", "cat"], "expected as many predictions as true labels, got 2 and 1"),
            ([], [], "expected at least one label to score, got none"),
            (["dog", "Dog"], ["dog", "cat"], "y_true: .* has no node named 'Dog'; .* is 'dog'"),
            (["dog", "dog"], ["tulip", "elm"], "y_pred: .* has no node named 'tulip' and 'elm'"),
            (["dog"], [""], "y_pred: expected node names with at least one visible character, got ''"),
            ("dog", ["dog"], "y_true: expected labels .* got 'dog' of type str"),
            (["dog"], [("animal", "", "dog")], "y_pred: item 0: expected missing levels only at the end"),
            (np.full((1, 1, 1), "dog"), ["dog"], r"y_true: expected labels of shape .* got shape \(1, 1, 1\)"),
        ],
    )  # fmt: skip
    def test_labels(self, measure, y_true, y_pred, message):
        with pytest.raises(InputError, match=message):
            measure(y_true, y_pred, ZOO)

    @pytest.mark.parametrize("measure", MEASURES)
    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1.0], "sample_weight: expected 2 numbers"),
            ([1.0, -1.0], "sample_weight: expected finite numbers >= 0, got -1.0 for item 1"),
            ([1.0, np.nan], "got nan for item 1"),
            ([0, 0], "at least one positive weight"),
            (["a", "b"], "sample_weight: expected 2 numbers"),
        ],
    )  # fmt: skip
    def test_weights(self, measure, weights, message):
        with pytest.raises(InputError, match=message):
            measure(["dog", "cat"], ["dog", "dog"], ZOO, sample_weight=weights)

    @pytest.mark.parametrize("measure", MEASURES)
    def test_taxonomies(self, measure):
        with pytest.raises(InputError, match="cycle: 'a' -> 'b'"):
            measure(["a"], ["b"], nx.DiGraph([("a", "b"), ("b", "a")]))
        with pytest.raises(InputError, match="labels of one kind"):
            measure([1, 2], ["1", "2"], None)

    @pytest.mark.parametrize("average", ["weighted", None])
    @pytest.mark.parametrize("measure", MEASURES[:2])
    def test_averages(self, measure, average):
        with pytest.raises(InputError, match=f"average: expected 'micro' or 'macro', got {average!r}"):
            measure(["dog"], ["dog"], ZOO, average=average)

    @pytest.mark.parametrize(
        "name",
        ["accuracy", "level_accuracy", "level_accuracy:0", "level_accuracy:x", "lca_f1:2", None, ["lca_f1"]],
    )
    @pytest.mark.parametrize("taxonomy", [None, ZOO])
    def test_names_of_scorers(self, name, taxonomy):
        with pytest.raises(InputError, match=r"expected a name among 'hierarchical_f1', .*, got "):
            hierarchical_scorer(name, taxonomy)

    def test_levels_that_a_taxonomy_has_not(self, fitted):
        model, X, y = fitted
        with pytest.raises(InputError, match="expected a level from 1 to 3, got 4"):
            hierarchical_scorer("level_accuracy:4", ZOO)(model, X, y)
