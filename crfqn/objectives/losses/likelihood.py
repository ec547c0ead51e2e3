"""The negative log-likelihood of a structured model: exact inference compared with the observed labels.

    loss_i = log Z_i - score_i(y_i)    (Zhong et al. 2014, equations 7 and 19),    residual = expected - observed

Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crfqn.arrays import Vector
from crfqn.objectives.losses.reach import label_leads, label_range
from crfqn.objectives.losses.score_loss import Evaluation
from crfqn.objectives.losses.structured import StructuredLoss
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class LikelihoodEvaluation(Evaluation):
    """One inference pass over all items.

    Attributes
    ----------
    log_partition, target_score : float64 (I,), in nats
    entropy : float, the weighted sum of the entropies of the items' distributions, in nats
    """

    log_partition: Vector
    target_score: Vector
    entropy: float


@dataclass(frozen=True, eq=False)
class MixtureDual:
    """The entropy of the mixtures s p_i + (1 - s) delta(y_i), each item weighed.

    Attributes
    ----------
    entropy : float, the weighted sum of the entropies of the p_i, and what is proportional to s as well
    item_losses : float64 (I,), -log p_i(y_i)
    weights : float64 (I,)
    """

    entropy: float
    item_losses: Vector
    weights: Vector

    def value(self, scale: float) -> float:
        """Return sum_i c_i [s (H_i + pi_i log pi_i) - s (1 - pi_i) log s - r_i log r_i], r_i = s pi_i + 1 - s."""
        s, log_pi = scale, -self.item_losses
        pi = np.exp(np.minimum(log_pi, 0.0))
        r = s * pi + (1.0 - s)
        # r = 0 only where s = 1 and pi underflows; r log r -> 0 there.
        r_log_r = r * np.log(np.maximum(r, np.finfo(float).tiny))
        total = self.weights @ (s * pi * log_pi - s * (1.0 - pi) * np.log(s) - r_log_r)
        return float(s * self.entropy + total)

    def around(self, fixed: float) -> MixtureDual:
        """Return the dual around fixed scores: what the mixtures expect of them less what is observed, like entropy."""
        return replace(self, entropy=self.entropy + fixed)

    def __add__(self, other: MixtureDual) -> MixtureDual:
        losses = np.concatenate([self.item_losses, other.item_losses])
        return MixtureDual(
            self.entropy + other.entropy, losses, np.concatenate([self.weights, other.weights])
        )


@dataclass(frozen=True, eq=False)
class Likelihood(StructuredLoss):
    """-log P(y | x) under a structure."""

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> LikelihoodEvaluation:
        found = self.structure.infer(scores, edges, self.targets, weights, pool)
        return LikelihoodEvaluation(
            found.log_partition - found.target_score,
            found.residual,
            found.edge_residual,
            found.log_partition,
            found.target_score,
            float(weights @ found.log_partition) - found.expected_score,
        )

    def dual(self, evaluation: LikelihoodEvaluation, weights: Vector) -> MixtureDual:
        return MixtureDual(evaluation.entropy, evaluation.item_losses, weights)

    def leads(self, losses: Vector, rest: Vector, x: Vector) -> Vector:
        """Return how far labels may lead a position's own, by label: see `reach.py`.

        To relabel one position of an item gains no more than the item's loss, which is that of the likeliest labelling
        and more.
        """
        return label_leads(self.targets, self.n_states, losses + rest, x)

    def reach(self, table: Vector, step: float) -> float:
        """Return a bound on the intercepts of some optimum, inner nodes of a taxonomy having none.

        The constants added to the scores of labels are all that intercepts of all nodes can do.
        """
        return label_range(table[:, self.structure.labels])

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return sum_i weight_i r_ie^2, how far the count of each edge can move within item i, (E,)."""
        return self.structure.edge_ranges(weights)
