"""The judge of single items: objective, test accuracy and hierarchical F1, recomputed from a model's weights.

As `judge`: one function for every library, none of their code, plain NumPy and SciPy. Without a taxonomy it is the
softmax. Blocks of items bound the memory.

Shapes: I items, F features, K nodes (flat: the labels, sorted). weights: (K, F); parents: (K,), -1 at the top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks.items import ItemProblem
from benchmarks.judge import Verdict

BLOCK = 2000  # items


@dataclass(frozen=True, eq=False)
class Nodes:
    """What has weights: nodes by name, their parents, and which of them are labels, (labels,)."""

    names: list[str]
    parents: NDArray[np.integer]
    labels: NDArray[np.integer]

    @classmethod
    def of(cls, problem: ItemProblem) -> Nodes:
        if problem.taxonomy is None:
            names = np.unique(problem.y_train).tolist()
            return cls(names, np.full(len(names), -1), np.arange(len(names)))
        tree = problem.taxonomy
        is_leaf = np.ones(tree.n_nodes, bool)
        is_leaf[tree.parents[tree.parents >= 0]] = False
        return cls([str(name) for name in tree.names], tree.parents, np.flatnonzero(is_leaf))

    def path(self, node: int) -> set[int]:
        """The node and all above it."""
        nodes = set()
        while node >= 0:
            nodes.add(node)
            node = int(self.parents[node])
        return nodes


def judge_items(problem: ItemProblem, l1: float, weights: Any) -> Verdict:
    """sum_i -log P(y_i | x_i) + l1 |weights|_1, and what the most probable labels of the test items are worth."""
    loss = objective(problem, l1, weights)
    predicted = predictions(problem, weights)
    return Verdict(loss, *worth(problem, predicted))


def objective(problem: ItemProblem, l1: float, weights: Any) -> float:
    """sum_i log Z_i - score(y_i), where a label's score is the sum over its path, plus l1 |weights|_1."""
    nodes = Nodes.of(problem)
    row_of = {nodes.names[node]: row for row, node in enumerate(nodes.labels)}
    given = np.array([row_of[label] for label in problem.y_train.tolist()])
    loss = 0.0
    for first, scores in label_scores(nodes, problem.X_train, weights):
        n = scores.shape[1]
        observed = scores[given[first : first + n], np.arange(n)]
        loss += float((logsumexp(scores, axis=0) - observed).sum())
    return loss + l1 * float(np.abs(weights).sum())


def predictions(problem: ItemProblem, weights: Any) -> NDArray[np.str_]:
    """The most probable label of each test item."""
    nodes = Nodes.of(problem)
    best = [scores.argmax(axis=0) for _, scores in label_scores(nodes, problem.X_test, weights)]
    return np.array(nodes.names)[nodes.labels[np.concatenate(best)]]


def worth(problem: ItemProblem, predicted: NDArray[np.str_]) -> tuple[float, float]:
    """Accuracy and hierarchical F1 = 2 sum c / (sum t + sum p) over nodes on paths: common, true, predicted."""
    accuracy = float(np.mean(predicted == problem.y_test))
    if problem.taxonomy is None:
        return accuracy, np.nan
    nodes = Nodes.of(problem)
    paths = {name: nodes.path(node) for node, name in enumerate(nodes.names)}
    pairs = [(paths[t], paths[p]) for t, p in zip(problem.y_test.tolist(), predicted.tolist(), strict=True)]
    common, both = sum(len(t & p) for t, p in pairs), sum(len(t) + len(p) for t, p in pairs)
    return accuracy, 2 * common / both


def label_scores(nodes: Nodes, X: Any, weights: Any) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Blocks of items: the number of the first, and (labels, items) scores."""
    for first in range(0, X.shape[0], BLOCK):
        product = X[first : first + BLOCK] @ weights.T
        dense = product.toarray() if hasattr(product, "toarray") else np.asarray(product)
        scores = np.ascontiguousarray(dense.T)
        for node, above in enumerate(nodes.parents):
            if above >= 0:
                scores[node] += scores[above]
        yield first, scores[nodes.labels]
