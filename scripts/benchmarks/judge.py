"""The judge of chains: objective and test accuracy of a linear-chain CRF, recomputed from its weights.

One function for every library, and none of their code: plain NumPy, in logarithms, vectorised over the items
position by position. Slow (about a second) and short enough to be checked by eye.

Shapes: I items, N positions, F features, K states. matrix: (N, F); weights: (K, F); edges: (K, K), from x to;
scores = matrix weights': (N, K); states: int (N,).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks.problem import Problem, Run

Scores = NDArray[np.float64]
Integers = NDArray[np.int64]
MODEL = ("weights", "edges")  # of a run: too large for a report


@dataclass(frozen=True)
class Verdict:
    """Objective on the training items in nats, penalty included; share of test positions labelled right.

    hierarchical_f1 (Kiritchenko's, on the test items) is nan without a taxonomy.
    """

    objective: float
    accuracy: float
    hierarchical_f1: float = np.nan


class Judged(NamedTuple):
    """A run, and what the judge makes of its weights."""

    run: Run
    verdict: Verdict

    def numbers(self) -> dict[str, Any]:
        """The raw measurements, for the JSON file."""
        fields = {name: value for name, value in vars(self.run).items() if name not in MODEL}
        return {**fields, **asdict(self.verdict)}


def judge(problem: Problem, l1: float, weights: Any, edges: Scores, l2: float = 0.0) -> Verdict:
    """sum_i -log P(y_i | x_i) + l1 |w|_1 + l2/2 |w|^2, w = (weights, edges), and the accuracy of the best paths."""
    code = {label: number for number, label in enumerate(problem.classes)}
    train = problem.X_train
    given = np.array([code[label] for labels in problem.y_train for label in labels])
    loss = negative_log_likelihood(train.matrix @ weights.T, edges, train.offsets, given)
    penalty = l1 * (np.abs(weights).sum() + np.abs(edges).sum())
    penalty += l2 / 2 * (weights.multiply(weights).sum() + (edges**2).sum())
    hits = [
        found == hoped
        for labels, y in zip(best_labels(problem, weights, edges), problem.y_test, strict=True)
        for found, hoped in zip(labels, y, strict=True)
    ]
    return Verdict(float(loss + penalty), float(np.mean(hits)))


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
