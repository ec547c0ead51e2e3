"""The taxonomy of a model as a tree to open and close: weights of each node, and its scores where there is data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crfqn.report.evaluation import Evaluation
from crfqn.report.subject import Subject
from crfqn.report.weights import Weighted
from crfqn.taxonomy.tree import NO_PARENT, LabelTree

MOST_NODES = 3000
MOST_LEVELS = 60  # browsers lay out no page that is nested without end


class NodeScores(NamedTuple):
    """Items given and predicted under a node, and how many are both."""

    n_given: int
    n_predicted: int
    n_right: int

    @property
    def f1(self) -> float:
        """2 x right / (given + predicted), 0 without any."""
        return 2 * self.n_right / max(self.n_given + self.n_predicted, 1)


@dataclass(frozen=True)
class Node:
    """Node of the tree as the page shows it; `n_closing` nodes end after it, where it is a leaf."""

    name: str
    path: str
    is_inner: bool
    n_weights: int
    features: list[Weighted]
    scores: NodeScores | None
    n_closing: int


class Tree(NamedTuple):
    """Nodes in the order of the page, from the top down, and how many are left out."""

    nodes: list[Node]
    n_left_out: int


def open_tree(subject: Subject, found: Evaluation | None, features: dict[str, list[Weighted]]) -> Tree | None:
    """Return the tree of a taxonomy; None without one. Of a large tree it has the upper nodes, MOST_NODES of them.

    Parameters
    ----------
    features : the strongest features by name of the node
    """
    tree = subject.tree
    if tree is None:
        return None
    n_shown = min(tree.n_nodes, MOST_NODES, int(np.searchsorted(tree.depths, MOST_LEVELS)))
    scores = {} if found is None else _scores(tree, found)
    counts = np.zeros(tree.n_nodes, np.int64) if subject.weights is None else np.diff(subject.weights.indptr)
    walk = list(_walk(tree, n_shown))
    nodes = []
    for (node, depth, is_inner), after in zip(walk, [*walk[1:], None], strict=True):
        next_depth = 0 if after is None else after[1]
        name = str(tree.names[node])
        nodes.append(
            Node(
                _last_part(name, tree, node),
                name,
                is_inner,
                int(counts[node]),
                features.get(name, [])[:3],
                None if found is None else scores.get(node, NodeScores(0, 0, 0)),
                0 if is_inner else depth - next_depth,
            )
        )
    return Tree(nodes, tree.n_nodes - n_shown)


def _walk(tree: LabelTree, n_shown: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (node, depth, whether it has children that are shown), each node before its children."""
    children: list[list[int]] = [[] for _ in range(n_shown)]
    tops: list[int] = []
    for node, parent in enumerate(tree.parents[:n_shown].tolist()):
        (tops if parent == NO_PARENT else children[parent]).append(node)
    stack = tops[::-1]
    while stack:
        node = stack.pop()
        yield node, int(tree.depths[node]), bool(children[node])
        stack += children[node][::-1]


def _last_part(name: str, tree: LabelTree, node: int) -> str:
    """Return what a name adds to that of the node above, where names are paths."""
    parent = int(tree.parents[node])
    above = "" if parent == NO_PARENT else str(tree.names[parent])
    return name[len(above) :].lstrip("/.:>| ") or name if above and name.startswith(above) else name


def _scores(tree: LabelTree, found: Evaluation) -> dict[int, NodeScores]:
    """Return the scores of the nodes on the tree paths to given and predicted labels."""
    number = {str(name): node for node, name in enumerate(tree.names)}
    given: Counter[int] = Counter()
    predicted: Counter[int] = Counter()
    right: Counter[int] = Counter()
    paths: dict[str, set[int]] = {}
    for pair in zip(*found.flat, strict=True):
        for label in pair:
            if label not in paths:
                paths[label] = set(tree.path(number[label]).tolist()) if label in number else set()
        a, b = (paths[label] for label in pair)
        given.update(a)
        predicted.update(b)
        right.update(a & b)
    return {node: NodeScores(given[node], predicted[node], right[node]) for node in given | predicted}
