"""The likelihood of chains whose positions have different weights: the joint likelihood plus marginal likelihoods.

    loss_i = -m_i log P(y_i | x_i) - sum_t (w_t - m_i) log P(y_t | x_i),    m_i = min over the item of w_t

log P(y | x) is no sum over positions, so it cannot be weighted by position. Marginal likelihoods can (Kakade, Teh and
Roweis 2002, "An alternate objective function for Markovian fields", whose w_t are all 1; Gross, Russakovsky, Do and
Batzoglou 2006 for linear chains). The smallest weight of an item is that of its joint likelihood: an item whose weights
are all c has c times its usual loss, and the marginal part ignores the label of a position of weight 0. As a weighted
sum of log-likelihoods of events it is a composite likelihood (Lindsay 1988).

A marginal log-likelihood is a difference of two convex functions: unless the weights are constant within each item
there is no dual and no certificate, and a small gradient shows a stationary point. The curvature is that of the
token-wise model, in which position t has the weight w_t. Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.losses.likelihood import covariance_bounds
from crfqn.objectives.losses.score_loss import Evaluation, StructuredLoss
from crfqn.structures.chain import Chain
from crfqn.structures.structure import NO_TARGETS
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class PositionEvaluation(Evaluation):
    """A loss with the residual of the token-wise model, w_t (p_t - [observed]), float64 (K, N)."""

    marginal_residual: Vector


@dataclass(frozen=True, eq=False)
class PositionLikelihood(StructuredLoss):
    """See above; position_weights : float64 (N,), w_t >= 0, factors of the weights of the items."""

    structure: Chain
    position_weights: Vector = field()

    is_convex = has_dual = False
    is_smooth = has_curvature = has_marginals = has_position_weights = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position_weights.shape != self.targets.shape or not (self.position_weights >= 0).all():
            raise InputError(
                f"expected {self.targets.size} weights >= 0, got shape {self.position_weights.shape}"
            )

    @cached_property
    def joint_weights(self) -> Vector:
        """The weight of each item's joint likelihood, m_i, (I,)."""
        starts = self.structure.offsets[:-1]
        filled = np.diff(self.structure.offsets) > 0
        smallest = np.zeros(self.n_items)
        smallest[filled] = np.minimum.reduceat(self.position_weights, starts[filled])
        return smallest

    @cached_property
    def marginal_weights(self) -> Vector:
        """The weight of each position's marginal likelihood, w_t - m_i, (N,)."""
        return self.position_weights - np.repeat(self.joint_weights, np.diff(self.structure.offsets))

    @cached_property
    def total_weights(self) -> Vector:
        """The summed weights of each item's log partition functions, (I,)."""
        sums = np.concatenate([[0.0], np.cumsum(self.marginal_weights)])
        return self.joint_weights + np.diff(sums[self.structure.offsets])

    def hessian_bounds(self, weights: Vector) -> tuple[Vector, float]:
        """Return those of the joint likelihood, once for each log partition function: the Hessian of a marginal
        likelihood is a difference of two covariances, and no eigenvalue of it is larger in size than theirs."""
        return covariance_bounds(self, weights * self.total_weights)

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        structure = self.structure.over(offsets, positions)
        return type(self)(structure, self.targets[positions], self.position_weights[positions])

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> PositionEvaluation:
        lengths, every = np.diff(self.structure.offsets), np.arange(self.n_positions)
        given = self.structure.infer_given_labels(
            scores, edges, self.targets, self.marginal_weights, weights, pool
        )
        free = self.structure.infer(scores, edges, NO_TARGETS, weights * self.total_weights, pool)
        joint = weights * self.joint_weights
        observed = self.structure.label_scores(self.targets, scores, edges)
        by_position = np.repeat(weights * self.total_weights, lengths)
        share = np.divide(
            np.repeat(weights, lengths) * self.position_weights,
            by_position,
            out=np.zeros(every.size),
            where=by_position > 0,
        )
        marginal_residual = free.residual * share
        marginal_residual[self.targets, every] -= np.repeat(weights, lengths) * self.position_weights
        residual = free.residual - given.expected
        residual[self.targets, every] -= np.repeat(joint, lengths)
        return PositionEvaluation(
            self.joint_weights * (free.log_partition - observed) + given.losses,
            residual,
            free.edge_residual - given.counts - self.structure.counts(self.targets, joint),
            marginal_residual,
        )

    def marginal_residual(self, evaluation: PositionEvaluation, weights: Vector) -> Vector:
        return evaluation.marginal_residual
