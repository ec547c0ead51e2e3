"""The judge: objectives, accuracies and F1, recomputed from a model's weights.

One judge for every library, and none of their code, crfqn's neither: plain NumPy and SciPy, slow and short enough to be
checked by eye. Chains in logarithms, vectorised over the items position by position; single items in blocks, which
bound the memory.

Shapes: I items, N positions, F features, K states (of single items: nodes; flat: the labels, sorted).
matrix: (N, F); weights: (K, F); edges: (K, K), from x to; scores = matrix weights': (N, K); states: int (N,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.special import logsumexp

from harness.problems import Problem, Run

Scores = NDArray[np.float64]
Integers = NDArray[np.int64]
BLOCK = 2000  # items


@dataclass(frozen=True)
class Verdict:
    """Objective on the training items in nats, penalty included; share of test positions labelled right.

    hierarchical_f1 (Kiritchenko's, on the test items) is nan without a taxonomy; n_rows: features with a weight.
    """

    objective: float
    accuracy: float
    hierarchical_f1: float = np.nan
    n_rows: int = 0


class Judged(NamedTuple):
    """A run, and what the judge makes of its weights."""

    run: Run
    verdict: Verdict


def judge_run(problem: Problem, run: Run, l1: float, l2: float = 0.0) -> Judged:
    """The run with its verdict, under l1 |w|_1 + l2/2 |w|^2."""
    return Judged(run, judge(problem, run.weights, run.edges, l1=l1, l2=l2))


def judge(
    problem: Problem, weights: Any, edges: Any = None, *, loss: str = "logistic", l1: float = 0.0, l2: float = 0.0,
    group_l1: float = 0.0,
) -> Verdict:  # fmt: skip
    """Losses of the training items plus the penalty, and what the most probable labels of the test items are worth.

    The penalty is l1 |w|_1 + l2/2 |w|^2 of all weights + group_l1 sum of the norms of the features' weights.
    """
    hierarchical_f1 = np.nan
    if problem.is_chain:
        total = chain_loss(problem, weights, edges)
        right = accuracy(problem, best_labels(problem, weights, edges))
    else:
        total = item_loss(problem, weights, loss)
        right, hierarchical_f1 = worth(problem, predictions(problem, weights))
    for part in [weights] if edges is None else [weights, edges]:
        squares = part.multiply(part) if hasattr(part, "multiply") else part**2
        total += l1 * float(abs(part).sum()) + l2 / 2 * float(squares.sum())
    if group_l1:
        total += group_l1 * float(np.linalg.norm(_dense(weights), axis=0).sum())
    return Verdict(total, right, hierarchical_f1, n_rows(weights))


def accuracy(problem: Problem, predicted: Any) -> float:
    """The share of test positions (chains) or items that are labelled right."""
    if problem.is_chain:
        predicted = np.concatenate([np.asarray(labels) for labels in predicted])
        return float(np.mean(predicted == np.concatenate([np.asarray(labels) for labels in problem.y_test])))
    return float(np.mean(np.asarray(predicted) == problem.y_test))


def n_rows(weights: Any) -> int:
    """Features with a weight that is not 0."""
    return int(np.unique(weights.nonzero()[1]).size)


def weights_of(coords: Integers, values: Scores, n_states: int, n_features: int) -> tuple[Any, Scores]:
    """Weights (CSR) and edges from what a solver works on: coordinate state * F + feature, then the transitions."""
    n_nodes = n_states * n_features
    is_node = coords < n_nodes
    where = np.divmod(coords[is_node], n_features)
    weights = coo_array((values[is_node], where), shape=(n_states, n_features)).tocsr()
    edges = np.zeros(n_states * n_states)
    edges[coords[~is_node] - n_nodes] = values[~is_node]
    return weights, edges.reshape(n_states, n_states)


def chain_loss(problem: Problem, weights: Any, edges: Scores) -> float:
    """sum_i -log P(y_i | x_i)."""
    code = {label: number for number, label in enumerate(problem.classes)}
    states = np.array([code[label] for labels in problem.y_train for label in labels])
    train = problem.X_train
    return negative_log_likelihood(train.matrix @ weights.T, edges, train.offsets, states)


def best_labels(problem: Problem, weights: Any, edges: Scores) -> list[list[str]]:
    """The most probable labels of the test items."""
    test = problem.X_test
    states = best_states(test.matrix @ weights.T, edges, test.offsets)
    labels = np.array(problem.classes)[states]
    return [part.tolist() for part in np.split(labels, test.offsets[1:-1])]


def negative_log_likelihood(scores: Any, edges: Scores, offsets: Integers, states: Integers) -> float:
    """sum_i log Z_i - score(y_i), by alpha_t(k) = score_t(k) + log sum_j exp(alpha_{t-1}(j) + edge(j, k))."""
    scores = _dense(scores)
    order, steps = _by_position(offsets)
    alpha = scores[offsets[order]]
    for rows in steps:
        n = rows.size
        alpha[:n] = scores[rows] + logsumexp(alpha[:n, :, None] + edges, axis=1)
    is_inner = np.ones(states.size, bool)
    is_inner[offsets[:-1]] = False
    to = np.flatnonzero(is_inner)
    score = scores[np.arange(states.size), states].sum() + edges[states[to - 1], states[to]].sum()
    return float(logsumexp(alpha, axis=1).sum() - score)


def best_states(scores: Any, edges: Scores, offsets: Integers) -> Integers:
    """The most probable states of every item."""
    scores = _dense(scores)
    order, steps = _by_position(offsets)
    alpha = scores[offsets[order]]
    pointers = np.zeros(scores.shape, np.int64)  # the best predecessor of each state
    for rows in steps:
        n = rows.size
        candidates = alpha[:n, :, None] + edges
        pointers[rows] = candidates.argmax(axis=1)
        alpha[:n] = scores[rows] + candidates.max(axis=1)
    states = np.empty(len(scores), np.int64)
    for i, item in enumerate(order):
        state = alpha[i].argmax()
        for t in range(offsets[item + 1] - 1, offsets[item] - 1, -1):
            states[t] = state
            state = pointers[t, state]
    return states


def _by_position(offsets: Integers) -> tuple[Integers, Iterator[Integers]]:
    """The items, longest first; and for t = 1, 2, ... the rows of position t of those longer than t."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[order], lengths[order]
    if lengths[-1] < 1:
        raise ValueError("the judge expects items of at least one position")
    return order, (starts[: np.count_nonzero(lengths > t)] + t for t in range(1, lengths[0]))


def _dense(scores: Any) -> Scores:
    return scores.toarray() if hasattr(scores, "toarray") else np.asarray(scores)


@dataclass(frozen=True, eq=False)
class Nodes:
    """What has weights: nodes by name, their parents, and which of them are labels, (labels,)."""

    names: NDArray[Any]
    parents: Integers
    labels: Integers

    @classmethod
    def from_problem(cls, problem: Problem) -> Nodes:
        if problem.taxonomy is None:
            names = np.unique(problem.y_train)
            return cls(names, np.full(len(names), -1), np.arange(len(names)))
        tree = problem.taxonomy
        is_leaf = np.ones(tree.n_nodes, bool)
        is_leaf[tree.parents[tree.parents >= 0]] = False
        return cls(np.array([str(name) for name in tree.names]), tree.parents, np.flatnonzero(is_leaf))

    def path(self, node: int) -> set[int]:
        """The node and all above it."""
        nodes = set()
        while node >= 0:
            nodes.add(node)
            node = int(self.parents[node])
        return nodes


# Of scores (n, K), those of the item's own label (n, 1) and which those are (n, K): equations 2, 11 and 12.
LOSSES: Mapping[str, Callable[[Scores, Scores, NDArray[np.bool_]], Scores]] = {
    # sum over other labels of max(1 - (s_y - s_r), 0)^2
    "squared-hinge": lambda scores, own, is_own: np.where(
        is_own, 0.0, np.maximum(1.0 + scores - own, 0.0) ** 2
    ).sum(axis=1),
    # sum over labels of max(1 - Y s, 0)^2
    "multitask-squared-hinge": lambda scores, own, is_own: np.sum(
        np.maximum(1.0 - np.where(is_own, scores, -scores), 0.0) ** 2, axis=1
    ),
    # log(1 + sum over other labels of exp(s_r - s_y))
    "logistic": lambda scores, own, is_own: logsumexp(scores - own, axis=1),
}


def item_loss(problem: Problem, weights: Any, loss: str = "logistic") -> float:
    """The sum over the training items, where a label's score is the sum over its path."""
    nodes = Nodes.from_problem(problem)
    row_of = {name: row for row, name in enumerate(nodes.names[nodes.labels].tolist())}
    codes = np.array([row_of[label] for label in problem.y_train.tolist()])[:, None]
    total = 0.0
    for first, scores in label_scores(nodes, problem.X_train, weights):
        labels = codes[first : first + len(scores)]
        own = np.take_along_axis(scores, labels, axis=1)
        total += float(LOSSES[loss](scores, own, labels == np.arange(scores.shape[1])).sum())
    return total


def predictions(problem: Problem, weights: Any) -> NDArray[Any]:
    """The most probable label of each test item."""
    nodes = Nodes.from_problem(problem)
    best = [scores.argmax(axis=1) for _, scores in label_scores(nodes, problem.X_test, weights)]
    return nodes.names[nodes.labels[np.concatenate(best)]]


def worth(problem: Problem, predicted: NDArray[Any]) -> tuple[float, float]:
    """Accuracy and hierarchical F1 = 2 sum c / (sum t + sum p) over nodes on paths: common, true, predicted."""
    if problem.taxonomy is None:
        return accuracy(problem, predicted), np.nan
    nodes = Nodes.from_problem(problem)
    paths = {name: nodes.path(node) for node, name in enumerate(nodes.names.tolist())}
    pairs = [(paths[t], paths[p]) for t, p in zip(problem.y_test.tolist(), predicted.tolist(), strict=True)]
    common, both = sum(len(t & p) for t, p in pairs), sum(len(t) + len(p) for t, p in pairs)
    return accuracy(problem, predicted), 2 * common / both


def label_scores(nodes: Nodes, X: Any, weights: Any) -> Iterator[tuple[int, Scores]]:
    """Blocks of items: the number of the first, and (items, labels) scores."""
    columns = weights.T if hasattr(weights, "toarray") else np.ascontiguousarray(weights.T)
    for first in range(0, X.shape[0], BLOCK):
        scores = np.ascontiguousarray(_dense(X[first : first + BLOCK] @ columns).T)
        for node, above in enumerate(nodes.parents):
            if above >= 0:
                scores[node] += scores[above]
        yield first, scores[nodes.labels].T
