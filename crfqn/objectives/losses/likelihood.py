"""Negative log-likelihoods of structured models, by exact inference.

    loss_i = log Z_i - score_i(y_i)    (Zhong et al. 2014, equations 7 and 19),    residual = expected - observed

If only some labels are known, the likelihood is a sum over all labellings that agree with them (Tsuboi, Kashima, Mori,
Oda, Matsumoto: Training conditional random fields using incomplete annotations, COLING 2008, equations 3 to 5):

    loss_i = log Z_i - log Z_i(Y_i),   Z_i(Y_i) = sum_{y in Y_i} exp(score_i(y)),   Y_i = {y : y_t in S_t for every t}
    residual = expected - expected within Y_i

S_t are the allowed labels of position t. Unless each is one label, the loss is a difference of two convex functions and
not convex: it has no dual and no certificate, and a small gradient shows a stationary point. Its Hessian is the
unconstrained covariance minus the covariance constrained to Y_i; its mean over the labels of the model is one
covariance, that of expected - expected within Y_i. The token-wise model contains p (1 - p) for known labels, and nearly
nothing for unknown ones. Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.margins import LOGISTIC
from crfqn.objectives.losses.intercept_bound import label_range
from crfqn.objectives.losses.score_loss import DualLoss, Evaluation, StructuredLoss, checked_labels
from crfqn.structures.structure import NO_TARGETS, Structure
from crfqn.structures.taxonomy import flat
from crfqn.threads import Pool


# The score of a labelling is a sum of n terms, one for each position and each transition of the item. The variance of
# a sum of n numbers does not exceed n times the sum of their variances. The score of a term is an entry of a vector a
# (a position's states, or all transitions) or the sum of L entries or fewer (a node of a taxonomy and its ancestors),
# and its variance does not exceed L/2 ||a||^2. Hence, with c_t = weight of the item * n_t * L / 2, everywhere
#
#     Hessian <= I_K (x) X' diag(c) X   for the nodes,   sum_i c_i (T_i - 1)   for the edges, T_i positions;
#
# a transition whose score is a linear combination of several weights counts by the sum of its squared coefficients.
#
# The Hessian of a partial likelihood is the difference of two such matrices: no eigenvalue is larger in size.
def covariance_bounds(loss: StructuredLoss, weights: Vector) -> tuple[Vector, float]:
    """Return the `ScoreLoss.hessian_bounds` of log partition functions, whose Hessians are covariances of counts."""
    structure = loss.structure
    lengths = np.diff(structure.offsets)
    n_terms = np.maximum(2 * lengths - 1, 1) if structure.edge_layout.size else lengths
    depth = int(np.diff(structure.ancestors.indptr).max(initial=1))
    per_item = 0.5 * depth * n_terms * weights
    return np.repeat(per_item, lengths), float(per_item @ structure.transition_squares)


@dataclass(frozen=True, eq=False)
class LikelihoodEvaluation(Evaluation):
    """An inference pass over all items; log_partition, target_score : float64 (I,), in nats; entropy : the weighted sum
    of the entropies of the items' distributions, in nats."""

    log_partition: Vector
    target_score: Vector
    entropy: float


@dataclass(frozen=True, eq=False)
class MixtureDual(DualLoss):
    """The entropy of the mixtures s p_i + (1 - s) delta(y_i), weighted; amount : the weighted sum of the entropies H_i
    of p_i; item_losses : float64 (I,), -log p_i(y_i)."""

    item_losses: Vector
    weights: Vector

    def value(self, scale: float) -> float:
        """Return sum_i c_i [s (H_i + pi_i log pi_i) - s (1 - pi_i) log s - r_i log r_i], r_i = s pi_i + 1 - s."""
        s, log_pi = scale, -self.item_losses
        pi = np.exp(np.minimum(log_pi, 0.0))
        r = s * pi + (1.0 - s)
        # r = 0 only if s = 1 and pi underflows; r log r -> 0 then.
        r_log_r = r * np.log(np.maximum(r, np.finfo(float).tiny))
        total = self.weights @ (s * pi * log_pi - s * (1.0 - pi) * np.log(s) - r_log_r)
        return float(s * self.amount + total)


class LikelihoodMixin:
    """Mixin of the likelihoods of one labelling of each item, for subclasses of `StructuredLoss`."""

    structure: Structure
    targets: Labels
    hessian_bounds = covariance_bounds
    # Another label at one position adds no more to the score of an item than the item's loss.
    excess: Callable[[Vector], Vector] | None = staticmethod(lambda losses: losses)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> LikelihoodEvaluation:
        inference = self.structure.infer(scores, edges, self.targets, weights, pool)
        return LikelihoodEvaluation(
            inference.log_partition - inference.target_score,
            inference.residual,
            inference.edge_residual,
            inference.log_partition,
            inference.target_score,
            float(weights @ inference.log_partition) - inference.expected_score,
        )

    def dual(self, evaluation: LikelihoodEvaluation, weights: Vector) -> MixtureDual:
        return MixtureDual(evaluation.entropy, evaluation.item_losses, weights)

    def intercept_bound(self, table: Vector, step: float) -> float:
        """Return a bound on the intercepts of some optimum; those of a taxonomy's inner nodes are 0.

        Intercepts of all nodes can only add constants to the scores of labels, as those of labels alone can.
        """
        return label_range(table[:, self.structure.labels])


class Likelihood(LikelihoodMixin, StructuredLoss):
    """-log P(y | x) under a structure."""

    is_smooth = has_curvature = has_marginals = True


class MultinomialLogistic(LikelihoodMixin, StructuredLoss):
    """sum_i c_i log(1 + sum_{r != y_i} exp(s_r - s_y)), equation 12 of Blondel, Seki and Uehara (2013) as a sum: the
    likelihood of the flat structure, with margins for row descent; build it with `of_labels`."""

    is_smooth = has_curvature = has_marginals = has_margins = True
    code = LOGISTIC
    score_bounds = 0.5  # no eigenvalue of diag p - p p' is larger

    @classmethod
    def of_labels(cls, labels: Labels, n_states: int) -> MultinomialLogistic:
        """Build the loss of labels 0 ... K - 1, K >= 2, int32 (N,)."""
        labels = checked_labels(labels, n_states)
        return cls(flat(n_states, labels.size), labels)

    def margins(self, scores: Vector) -> Vector:
        """Return s_r - s_y, (N, K)."""
        return (scores - scores[self.targets, np.arange(self.n_positions)]).T.copy()


@dataclass(frozen=True, eq=False)
class PartialLikelihood(StructuredLoss):
    """-log P(y in Y_i | x_i) under a chain; allowed : bool (K, N), whether state k is in S_t. InputError for another
    shape, and for an item without an allowed labelling. The target of a position is its first allowed label."""

    targets: Labels = field(init=False)
    allowed: NDArray[np.bool_]

    is_convex = has_dual = False
    is_smooth = has_curvature = has_marginals = True
    hessian_bounds = covariance_bounds

    def __post_init__(self) -> None:
        shape = self.structure.n_states, int(self.structure.offsets[-1])
        if self.allowed.shape != shape or self.allowed.dtype != np.bool_:
            raise InputError(
                f"expected booleans of shape {shape}, got {self.allowed.dtype} {self.allowed.shape}"
            )
        impossible = self.structure.impossible(self.allowed)
        if impossible.size:
            raise InputError(f"item {impossible[0]}: no labelling is allowed")
        self._set_targets(self.allowed.argmax(axis=0))

    @cached_property
    def relevance(self) -> Vector:  # type: ignore[override]
        return np.ascontiguousarray(self.allowed.T, np.float64)

    def truncation_points(self) -> NDArray[np.bool_]:
        return self.structure.truncation_points(np.where(self.allowed.sum(axis=0) == 1, self.targets, -1))

    def marginal_residual(self, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return residuals whose marginals are, at positions with several allowed labels, the positive part of the
        residual."""
        residual = evaluation.residual
        unknown = np.flatnonzero(self.allowed.sum(axis=0) > 1)
        beyond = np.maximum(residual[:, unknown], 0.0)
        beyond[self.targets[unknown], np.arange(unknown.size)] -= weights[unknown]
        out = residual.copy()
        out[:, unknown] = beyond
        return out

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> PartialLikelihood:
        return PartialLikelihood(self.structure.over(offsets, positions), self.allowed[:, positions])

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> Evaluation:
        within = np.where(self.allowed, scores, -np.inf)
        free = self.structure.infer(scores, edges, NO_TARGETS, weights, pool)
        fitting = self.structure.infer(within, edges, NO_TARGETS, weights, pool)
        return Evaluation(
            np.maximum(free.log_partition - fitting.log_partition, 0.0),  # rounding
            free.residual - fitting.residual,
            free.edge_residual - fitting.edge_residual,
        )
