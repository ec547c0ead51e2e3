"""The judge: objective, test accuracy and non-zero rows, recomputed from the weights without the library.

Shapes: N items, F features, K labels; weights (F, K), dense, the labels sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from benchmarks.items import ItemProblem
from numpy.typing import NDArray
from scipy.special import logsumexp
from studies.recording import Weights

BLOCK = 4000  # items
Vector = NDArray[np.float64]


class Glance(NamedTuple):
    """What is seen of weights during a run: test accuracy, and rows that are not zero."""

    accuracy: float
    n_rows: int


class Verdict(NamedTuple):
    """A finished model: its objective (a mean over the training items, penalty included), accuracy and rows."""

    objective: float
    accuracy: float
    n_rows: int


def multiclass_hinge(scores: Vector, own: Vector, is_own: NDArray[np.bool_]) -> Vector:
    """Equation 2: sum over other labels of max(1 - (s_y - s_r), 0)^2; scores, is_own (n, K), own (n, 1)."""
    return np.where(is_own, 0.0, np.maximum(1.0 + scores - own, 0.0) ** 2).sum(axis=1)


def multitask_hinge(scores: Vector, own: Vector, is_own: NDArray[np.bool_]) -> Vector:
    """Equation 11: sum over labels of max(1 - Y s, 0)^2."""
    return np.sum(np.maximum(1.0 - np.where(is_own, scores, -scores), 0.0) ** 2, axis=1)


def logistic(scores: Vector, own: Vector, is_own: NDArray[np.bool_]) -> Vector:
    """Equation 12: log(1 + sum over other labels of exp(s_r - s_y))."""
    return logsumexp(scores - own, axis=1)


LOSSES: Mapping[str, Callable[[Vector, Vector, NDArray[np.bool_]], Vector]] = {
    "multiclass squared hinge": multiclass_hinge,
    "multitask squared hinge": multitask_hinge,
    "multiclass logistic": logistic,
}


class Judge:
    """Looks at weights as a solver has them: coordinate label * F + feature."""

    def __init__(self, problem: ItemProblem) -> None:
        self.problem = problem
        self.n_features = problem.X_train.shape[1]
        self.labels, self.train = np.unique(problem.y_train, return_inverse=True)

    def table(self, weights: Weights) -> Vector:
        """The weights as a matrix (F, K)."""
        coords, values = weights
        table = np.zeros((self.labels.size, self.n_features))
        table.ravel()[coords] = values
        return np.ascontiguousarray(table.T)

    def glance(self, weights: Weights) -> Glance:
        """Test accuracy and non-zero rows."""
        best = [scores.argmax(axis=1) for _, scores in blocks(self.problem.X_test, self.table(weights))]
        is_right = self.labels[np.concatenate(best)] == self.problem.y_test
        used = weights[0][weights[1] != 0.0] % self.n_features
        return Glance(float(is_right.mean()), int(np.unique(used).size))

    def verdict(self, weights: Weights, loss: str, strength: float, is_grouped: bool = True) -> Verdict:
        """All of it; the penalty is `strength` times the norms of the rows, or the sum of all sizes."""
        table, total = self.table(weights), 0.0
        for first, scores in blocks(self.problem.X_train, table):
            given = self.train[first : first + len(scores), None]
            own = np.take_along_axis(scores, given, axis=1)
            total += float(LOSSES[loss](scores, own, given == np.arange(self.labels.size)).sum())
        norms = np.linalg.norm(table, axis=1) if is_grouped else np.abs(table)
        return Verdict(total / self.train.size + strength * float(norms.sum()), *self.glance(weights))


def blocks(X: Any, table: Vector) -> Iterator[tuple[int, Vector]]:
    """The first item of a block, and the scores of the block's items (n, K)."""
    for first in range(0, X.shape[0], BLOCK):
        yield first, X[first : first + BLOCK] @ table
