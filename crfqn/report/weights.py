"""Weights of a model for a page: the strongest features of each label, and the characters of models of images.

For a model with a taxonomy also the tree with the weights of each node, and its scores if there is data.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.metrics import SpanCounts
from crfqn.model.model import Model
from crfqn.report.evaluation_section import EvaluationSection
from crfqn.report.facts import feature_text
from crfqn.report.images import Pixels, ink_image, weight_image
from crfqn.taxonomy.tree import NO_PARENT, LabelTree

MAX_CHARACTERS = 100  # images of labels
MAX_TABLE_ROWS = 3000  # of a table: browsers sort so many without delay
MAX_TREE_NODES = 3000  # of the tree: browsers open so many without delay
MAX_TREE_LEVELS = 60  # browsers limit how deep a page may be nested


class Weighted(NamedTuple):
    """Row of the table of features."""

    label: str
    feature: str
    weight: float


def strongest(weights: Model, n_features: int) -> tuple[list[Weighted], int]:
    """Return the `n_features` strongest features of each label or node, in the model's order, and the number of labels
    that are left out: beyond MAX_TABLE_ROWS rows, those with the smallest numbers of weights."""
    counts, names = weights.n_node_weights, weights.node_names
    heaviest = np.argsort(-counts, kind="stable")
    n_shown = int(
        np.searchsorted(np.cumsum(np.minimum(counts[heaviest], n_features)), MAX_TABLE_ROWS, "right")
    )
    shown = np.sort(heaviest[: max(n_shown, 1)])
    rows = [
        Weighted(label_text(names[node]), feature_text(feature), weight)
        for node in shown.tolist()
        for feature, weight in weights.strongest(node, n_features)
    ]
    return rows, int(np.count_nonzero(counts)) - int(np.count_nonzero(counts[shown]))


def densities(weights: Model) -> list[dict[str, Any]]:
    """Return number and absolute sum of the weights of each label or node, by decreasing number, up to
    MAX_TABLE_ROWS."""
    totals = np.asarray(abs(weights.coef_).sum(axis=1)).ravel()
    counts, names = weights.n_node_weights, weights.node_names
    order = np.argsort(-counts, kind="stable")[:MAX_TABLE_ROWS]
    return [
        {"label": label_text(names[node]), "n_weights": int(counts[node]), "total": float(totals[node])}
        for node in order.tolist()
    ]


def characters(weights: Model, pixels: Pixels, evaluation: EvaluationSection | None) -> list[dict[str, Any]]:
    """Return for up to MAX_CHARACTERS labels the image of the weights, on one scale, and the mean image of the data, if
    there is any."""
    labels = [*map(label_text, weights.node_names[:MAX_CHARACTERS])]
    images = [pixels.weights_of(weights, node) for node in range(len(labels))]
    largest = max(float(np.abs(image).max()) for image in images)
    means: dict[str, str] = {}
    columns = None if evaluation is None else pixels.columns_in(evaluation.X)
    if evaluation is not None and columns is not None and not evaluation.has_sets:
        X: Any = getattr(evaluation.X, "matrix", evaluation.X)
        matrix = X[:, columns]
        true = np.array(evaluation.flat[0])
        for label in np.unique(true):
            mean = np.asarray(matrix[np.flatnonzero(true == label)].mean(axis=0))
            means[str(label)] = ink_image(mean.reshape(pixels.shape))
    counts = np.diff(weights.weights.row_ends).tolist()
    return [
        {
            "label": label,
            "weights": weight_image(image, largest),
            "mean": means.get(label, ""),
            "n_weights": n,
        }
        for label, image, n in zip(labels, images, counts, strict=False)
    ]


@dataclass(frozen=True)
class Node:
    """A node of the tree on the page; after a leaf, the page closes `n_closing` nodes."""

    name: str
    path: str
    is_inner: bool
    n_weights: int
    features: list[Weighted]
    scores: SpanCounts | None
    n_closing: int


class Tree(NamedTuple):
    """The nodes in the order of the page, from the top down, and the number of nodes that are left out."""

    nodes: list[Node]
    n_left_out: int


def open_tree(
    tree: LabelTree | None,
    weights: Model | None,
    evaluation: EvaluationSection | None,
    features: dict[str, list[Weighted]],
) -> Tree | None:
    """Return the tree of a taxonomy, None without one; a large taxonomy is cut after its MAX_TREE_NODES upper nodes.

    features : the strongest features by name of the node
    """
    if tree is None:
        return None
    n_shown = min(tree.n_nodes, MAX_TREE_NODES, int(np.searchsorted(tree.depths, MAX_TREE_LEVELS)))
    scores = {} if evaluation is None else _scores(tree, evaluation)
    counts = np.zeros(tree.n_nodes, np.int64) if weights is None else np.diff(weights.weights.row_ends)
    children: list[list[int]] = [[] for _ in range(n_shown)]
    stack: list[int] = []
    for node in range(n_shown - 1, -1, -1):
        parent = int(tree.parents[node])
        (stack if parent == NO_PARENT else children[parent]).append(node)
    walk: list[tuple[int, int, bool]] = []  # node, depth, whether it has children that are shown
    while stack:
        node = stack.pop()
        walk.append((node, int(tree.depths[node]), bool(children[node])))
        stack += children[node]
    nodes = []
    for (node, depth, is_inner), after in zip(walk, [*walk[1:], None], strict=True):
        next_depth = 0 if after is None else after[1]
        name, parent = str(tree.names[node]), int(tree.parents[node])
        above = "" if parent == NO_PARENT else str(tree.names[parent])
        adds = name[len(above) :].lstrip("/.:>| ") if above and name.startswith(above) else ""
        nodes.append(
            Node(
                adds or name,  # the last part of a path
                name,
                is_inner,
                int(counts[node]),
                features.get(name, [])[:3],
                None if evaluation is None else scores.get(node, SpanCounts(0, 0, 0)),
                0 if is_inner else depth - next_depth,
            )
        )
    return Tree(nodes, tree.n_nodes - n_shown)


def _scores(tree: LabelTree, evaluation: EvaluationSection) -> dict[int, SpanCounts]:
    """Return the scores of the nodes on the tree paths to given and predicted labels."""
    number = {str(name): node for node, name in enumerate(tree.names)}
    true: Counter[int] = Counter()
    predicted: Counter[int] = Counter()
    right: Counter[int] = Counter()
    paths: dict[str, set[int]] = {}
    for pair in zip(*evaluation.flat, strict=True):
        for label in pair:
            if label not in paths:
                paths[label] = set(tree.path(number[label]).tolist()) if label in number else set()
        a, b = (paths[label] for label in pair)
        true.update(a)
        predicted.update(b)
        right.update(a & b)
    return {node: SpanCounts(true[node], predicted[node], right[node]) for node in true | predicted}
