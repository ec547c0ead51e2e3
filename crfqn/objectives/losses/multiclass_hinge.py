"""The multiclass hinge of Crammer and Singer (2002): the largest violation of a margin, without curvature.

    loss_i = max_m (s_m + [m != y_i]) - s_y

A subgradient takes the first of the largest states. Shapes as in `hinges.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crfqn.arrays import Vector
from crfqn.objectives.losses.hinges import SingleLabel
from crfqn.objectives.losses.reach import label_leads, range_with_unseen
from crfqn.objectives.losses.score_loss import NO_EDGES, Evaluation
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class SubgradientEvaluation(Evaluation):
    """A loss and a subgradient.

    Attributes
    ----------
    violated : bool (N,): whether the subgradient is that of another state than the label
    """

    violated: Vector


@dataclass(frozen=True)
class LinearDual:
    """The dual of a largest of linear functions along s (q - y): the conjugate is linear in s."""

    slope: float

    def value(self, scale: float) -> float:
        """Return the dual loss at `scale`."""
        return scale * self.slope

    def __add__(self, other: LinearDual) -> LinearDual:
        return LinearDual(self.slope + other.slope)

    def around(self, fixed: float) -> LinearDual:
        """Return the dual around fixed scores."""
        return LinearDual(self.slope + fixed)


class MulticlassHinge(SingleLabel):
    """sum_i c_i max_m (s_m + [m != y_i] - s_y): equation 2 of Blondel, Fujino and Ueda (2014), C being c / l2."""

    def leads(self, losses: Vector, rest: Vector, x: Vector) -> Vector:
        """Return how far labels may lead a position's own, by label: a margin's violation is at most the loss."""
        return label_leads(self.labels, self.n_states, losses - 1.0 + rest, x)

    def reach(self, table: Vector, step: float) -> float:
        """Return the range of the intercepts: a constant added to all of them changes nothing."""
        return range_with_unseen(table, step)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> SubgradientEvaluation:
        """O(N K)."""
        items, own = np.arange(self.n_positions), self.own(scores)
        raised = scores + 1.0
        raised[self.labels, items] = (
            own  # to the last digit: a label that is above itself would prove a margin
        )
        best = raised.argmax(axis=0)
        violated = raised[best, items] > own
        best = np.where(violated, best, self.labels)
        residual = np.zeros_like(scores)
        residual[best, items] = weights
        residual[self.labels, items] -= weights
        return SubgradientEvaluation(np.maximum(raised[best, items] - own, 0.0), residual, NO_EDGES, violated)

    def dual(self, evaluation: SubgradientEvaluation, weights: Vector) -> LinearDual:
        return LinearDual(float(weights @ evaluation.violated))
