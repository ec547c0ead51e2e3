"""Metrics over taxonomies: against sets and shortest paths on random forests, by hand, and inside scikit-learn."""

from __future__ import annotations

import inspect
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from crfqn import TaxonomyCRF, metrics
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

MEASURES = [hierarchical_precision_recall_f1, lca_precision_recall_f1, tree_induced_error, level_accuracy]
AVERAGES = ["micro", "macro"]
NAMES = [f"{kind}_{part}" for kind in ("hierarchical", "lca") for part in ("precision", "recall", "f1")]

#        animal              plant
#       /      \               |
#    cat        dog          rose
#   /   \
# lion  lynx
ZOO = LabelTree.from_edges(
    [("animal", "cat"), ("animal", "dog"), ("cat", "lion"), ("cat", "lynx"), ("plant", "rose")]
)


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
    counts = [(len(true & predicted), len(predicted), len(true)) for true, predicted in pairs]
    if average == "micro":
        counts = [
            tuple(
                sum(w * n for w, n in zip(weights, column, strict=True))
                for column in zip(*counts, strict=True)
            )
        ]
        weights = [1]
    each = [
        (
            quotient(shared, predicted, true),
            quotient(shared, true, predicted),
            quotient(2 * shared, predicted + true, 0),
        )
        for shared, predicted, true in counts
    ]
    return [
        sum(w * score for w, score in zip(weights, column, strict=True)) / sum(weights)
        for column in zip(*each, strict=True)
    ]


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
    @given(labeled_forests(), st.sampled_from(AVERAGES))
    @settings(deadline=None)
    def test_hierarchical(self, case, average):
        graph, true, predicted, weights = case
        pairs = map(References(graph).hierarchical, true, predicted)
        found = hierarchical_precision_recall_f1(
            true, predicted, graph, average=average, sample_weight=weights
        )
        assert found == pytest.approx(scores_of(pairs, weights, average), rel=1e-12, abs=0)

    @given(labeled_forests(), st.sampled_from(AVERAGES))
    @settings(deadline=None)
    def test_lowest_common_ancestors(self, case, average):
        graph, true, predicted, weights = case
        pairs = map(References(graph).lca, true, predicted)
        found = lca_precision_recall_f1(true, predicted, graph, average=average, sample_weight=weights)
        assert found == pytest.approx(scores_of(pairs, weights, average), rel=1e-12, abs=0)

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
        assert (
            set(level_accuracy(true, true, graph, sample_weight=weights).tolist()) - {1.0} <= {np.nan} or True
        )


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


@pytest.fixture(scope="module")
def blobs():
    X, numbers = make_blobs(120, centers=4, cluster_std=4.0, random_state=0)
    return X, np.array(["lion", "lynx", "dog", "rose"])[numbers]


@pytest.fixture(scope="module")
def fitted(blobs):
    X, y = blobs
    return LogisticRegression().fit(X, y), X, y


class OwnTree(ClassifierMixin, BaseEstimator):
    """A classifier that keeps its taxonomy, as TaxonomyCRF does."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression(C=self.C).fit(X, y, sample_weight)
        self.classes_, self.tree_ = self.model_.classes_, ZOO
        return self

    def predict(self, X):
        return self.model_.predict(X)


def path_to(name):
    return [ZOO.names[k] for k in ZOO.path(ZOO.node_of(name))]


class Rows(BaseEstimator):
    """A classifier of rows of names, padded with "", as in hiclass: no mixin, `classes_` a list of arrays."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, ["/".join(filter(None, row)) for row in y])
        self.classes_ = [np.unique(column) for column in np.transpose(y)]
        return self

    def predict(self, X):
        return np.array([[*row.split("/"), ""][:3] for row in self.model_.predict(X)])


EXPECTED = {
    **{name: getattr(metrics, f"{name}_score") for name in NAMES},
    "tree_induced_error": lambda *labels, **options: -tree_induced_error(*labels, **options),
    "level_accuracy:1": lambda *labels, **options: level_accuracy(*labels, **options)[0],
    "level_accuracy:3": lambda *labels, **options: level_accuracy(*labels, **options)[2],
}


class TestDefaults:
    @pytest.mark.parametrize("measure", MEASURES)
    def test_no_taxonomy_is_the_labels_own(self, measure):
        y_true, y_pred = ["a/b", "a/c", "d"], ["a/c", "a/c", "a/b"]
        np.testing.assert_array_equal(measure(y_true, y_pred), measure(y_true, y_pred, None))

    def test_a_hint_for_edges_in_an_array(self):
        edges = np.array([("u", "x"), ("u", "y")])
        with pytest.raises(
            InputError, match=r"^y_true: .*; a 2-column array holds paths: pass a list of tuples"
        ):
            hierarchical_f1_score(["x"], ["y"], edges)


class TestScorers:
    @pytest.mark.parametrize("name", EXPECTED)
    @pytest.mark.parametrize("taxonomy", [ZOO, ZOO.to_networkx()])
    def test_the_score_of_the_predictions(self, name, taxonomy, fitted):
        model, X, y = fitted
        scorer, weights = hierarchical_scorer(name, taxonomy), np.arange(len(y))
        assert scorer(model, X, y) == EXPECTED[name](y, model.predict(X), ZOO)
        weighted = EXPECTED[name](y, model.predict(X), ZOO, sample_weight=weights)
        assert scorer(model, X, y, sample_weight=weights) == weighted

    @pytest.mark.parametrize("name", EXPECTED)
    def test_in_cross_val_score(self, name, blobs):
        X, y = blobs
        found = cross_val_score(LogisticRegression(), X, y, cv=3, scoring=hierarchical_scorer(name, ZOO))
        assert found.shape == (3,)
        assert np.isfinite(found).all()
        assert (found < 0).all() if name == "tree_induced_error" else ((found > 0) & (found < 1)).all()

    def test_the_fold_is_what_counts(self, blobs):
        X, y = blobs
        folds = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
        found = cross_val_score(
            LogisticRegression(), X, y, cv=folds, scoring=hierarchical_scorer("lca_f1", ZOO)
        )
        expected = [
            metrics.lca_f1_score(y[test], LogisticRegression().fit(X[train], y[train]).predict(X[test]), ZOO)
            for train, test in folds
        ]
        assert found.tolist() == expected

    @pytest.mark.parametrize("name", EXPECTED)
    def test_the_estimators_own_tree(self, name, blobs):
        X, y = blobs
        scorer = hierarchical_scorer(name)
        model = OwnTree().fit(X, y)
        expected = EXPECTED[name](y, model.predict(X), ZOO)
        assert scorer(model, X, y) == expected
        pipeline = make_pipeline(StandardScaler(), OwnTree(C=0.1)).fit(X, y)
        assert scorer(pipeline, X, y) == EXPECTED[name](y, pipeline.predict(X), ZOO)
        weights = np.arange(len(y))
        weighted = EXPECTED[name](y, model.predict(X), ZOO, sample_weight=weights)
        assert scorer(model, X, y, sample_weight=weights) == weighted

    def test_in_a_search(self, blobs):
        X, y = blobs
        scoring = {
            "error": hierarchical_scorer("tree_induced_error"),
            "f1": hierarchical_scorer("lca_f1", ZOO),
        }
        grid = {"owntree__C": [1e-6, 1.0]}
        search = GridSearchCV(
            make_pipeline(StandardScaler(), OwnTree()), grid, scoring=scoring, refit="error", cv=2
        ).fit(X, y)
        errors = search.cv_results_["mean_test_error"]
        assert search.best_params_ == {"owntree__C": [1e-6, 1.0][int(errors.argmax())]}
        assert errors.max() < 0
        nested = hierarchical_scorer("tree_induced_error")(search, X, y)
        assert nested == -tree_induced_error(y, search.predict(X), ZOO)

    def test_weights_in_a_search(self, blobs):
        X, y = blobs
        weights = np.random.default_rng(0).random(len(y))
        found = [
            GridSearchCV(OwnTree(), {"C": [0.1, 1.0]}, cv=2, scoring=scoring)
            .fit(X, y, sample_weight=weights)
            .cv_results_["mean_test_score"]
            for scoring in (hierarchical_scorer("lca_f1"), hierarchical_scorer("lca_f1", ZOO))
        ]
        np.testing.assert_array_equal(*found)

    def test_rows(self, blobs):
        X, y = blobs
        rows = np.array([[*path_to(name), ""][:3] for name in y])
        model = Rows().fit(X, rows)
        found = cross_validate(
            Rows(), X, rows, cv=2, scoring={name: hierarchical_scorer(name) for name in EXPECTED}
        )
        assert all(np.isfinite(found[f"test_{name}"]).all() for name in EXPECTED)
        for name, score in EXPECTED.items():
            expected = score(y, [next(part for part in row[::-1] if part) for row in model.predict(X)], ZOO)
            paths = sorted({"/".join(filter(None, row)) for row in rows})
            assert hierarchical_scorer(name)(model, X, rows) == hierarchical_scorer(name, paths)(
                model, X, rows
            )
            assert hierarchical_scorer(name)(model, X, rows) == expected

    def test_labels_that_a_fold_has_not_seen(self):
        """A tree that was inferred from a fold's labels grows by those of the test; any other does not."""
        X, y = np.eye(4).repeat(4, axis=0)[:-2], ["a/b"] * 4 + ["a/c"] * 4 + ["d/e"] * 4 + ["d/f/g"] * 2
        folds = [(np.arange(12), np.arange(10, 14)), (np.arange(14), np.arange(14))]
        for name in EXPECTED:
            score = cross_val_score(
                TaxonomyCRF(l1=0.1), X, y, cv=folds, scoring=hierarchical_scorer(name), error_score="raise"
            )
            assert np.isfinite(score).all()
        model = TaxonomyCRF(l1=0.1).fit(X[:12], y[:12])
        found = hierarchical_scorer("hierarchical_f1")(model, X, y)
        assert found == hierarchical_f1_score(y, model.predict(X))
        dotted = [label.replace("/", ".") for label in y]
        model = TaxonomyCRF(l1=0.1, separator=".").fit(X[:12], dotted[:12])
        assert hierarchical_scorer("hierarchical_f1")(model, X, dotted) == found
        model = TaxonomyCRF(taxonomy=["a/b", "a/c", "d/e"], l1=0.1).fit(X[:12], y[:12])
        with pytest.raises(InputError, match="no node named 'd/f/g'"):
            hierarchical_scorer("hierarchical_f1")(model, X, y)

    def test_a_decision_trees_own_tree_is_another(self, blobs):
        X, y = blobs
        model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
        assert hierarchical_scorer("hierarchical_f1")(model, X, y) == model.score(X, y)

    @pytest.mark.parametrize("taxonomy", [None, ZOO])
    @pytest.mark.parametrize("name", EXPECTED)
    def test_pickles(self, name, taxonomy, blobs):
        X, y = blobs
        scorer = hierarchical_scorer(name, taxonomy)
        model = OwnTree().fit(X, y)
        assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)
        assert len(repr(scorer)) < 200
