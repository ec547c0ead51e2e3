"""Hinge losses for items of one position each: squared hinges, and the multiclass hinge, which has no curvature.

The multiclass and multitask squared hinges are equations 2 and 11 of Blondel, Seki and Uehara (2013), as sums instead
of the paper's means; equation 12 is in `likelihood.py`, multilabel data in `ranking.py`. The multiclass hinge is that
of Crammer and Singer (2002). Shapes: N positions, K states, F features; scores, residual, curvature float64 (K, N);
weights float64 (N,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.kernels.margins import MULTICLASS, MULTITASK, multiclass_hinge, multitask_hinge, star_constants
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.intercept_bound import label_range
from crfqn.objectives.losses.score_loss import NO_EDGES, DualLoss, Evaluation, SingleLabel
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class HingeEvaluation(Evaluation):
    """A squared hinge at some scores; slacks : float64 (N,), sum of max(1 - margin, 0) over each position's pairs."""

    slacks: Vector


@dataclass(frozen=True, eq=False)
class HingeDual(DualLoss):
    """Dual of a sum of max(1 - margin, 0)^2, at the best multiple of the point's own dual variables up to a scale.

    The conjugate gives sum alpha - alpha^2 / 4 over the pairs. At alpha = 2 s max(1 - margin, 0) this is s amount -
    s^2 loss, amount being twice the weighted sum of the slacks. It is largest for s = amount / (2 loss); the gradient
    is s g, and a smaller s never makes the penalty's conjugate larger.
    loss : the weighted sum of the losses
    """

    loss: float

    def value(self, scale: float) -> float:
        """Return the largest dual loss up to `scale`."""
        s = min(scale, max(0.5 * self.amount / self.loss, 0.0)) if self.loss > 0 else scale
        return s * self.amount - s**2 * self.loss

    def at(self, scale: float) -> HingeDual:
        """Return itself: all parts have the same multiple."""
        return self


def mixed_of_pairs(
    r_is_relevant: NDArray[np.bool_], s_is_relevant: NDArray[np.bool_], lead: Vector
) -> Vector:
    """Return -2 if (r, s) or (s, r) is a violated pair, else 0; lead: the score of r minus that of s; all (N,)."""
    is_violated = (r_is_relevant & ~s_is_relevant & (lead < 1.0)) | (
        s_is_relevant & ~r_is_relevant & (lead > -1.0)
    )
    return np.where(is_violated, -2.0, 0.0)


class SquaredHingeMixin:
    """Mixin of the squared hinges, for subclasses of `ScoreLoss`; `kernel` is one of `kernels.margins`."""

    labels: Labels
    n_states: int
    kernel: ClassVar[Callable[..., object]]
    # No hinge of a position is larger than its loss.
    excess: Callable[[Vector], Vector] | None = staticmethod(lambda losses: np.sqrt(losses) - 1.0)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> HingeEvaluation:
        """Run the kernel over all positions."""
        n = self.labels.size
        losses, slacks, residual = np.empty(n), np.empty(n), np.empty_like(scores)
        arrays = (self.labels, weights, losses, slacks, residual)
        pool.map_chunks(n, lambda first, last: self.kernel(first, last, scores, *arrays))
        return HingeEvaluation(losses, residual, NO_EDGES, slacks)

    def dual(self, evaluation: HingeEvaluation, weights: Vector) -> HingeDual:
        return HingeDual(2.0 * float(weights @ evaluation.slacks), float(weights @ evaluation.item_losses))


class MulticlassSquaredHinge(SquaredHingeMixin, SingleLabel):
    """sum_i c_i sum_{r != y_i} max(1 - (s_y - s_r), 0)^2, equation 2 as a sum."""

    code, kernel = MULTICLASS, staticmethod(multiclass_hinge)
    is_smooth = has_curvature = has_margins = has_pair_duals = True
    intercept_bound = staticmethod(label_range)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Twice the largest eigenvalue of the Laplacian of a star of K classes; the paper has 4 (K - 1).
        object.__setattr__(self, "score_bounds", 2.0 * self.n_states)  # frozen otherwise

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return 2 c for each violated pair, at both of its labels (equation 6)."""
        violated = evaluation.residual > 0
        curvature = 2.0 * weights * violated
        curvature[self.labels, np.arange(self.n_positions)] = 2.0 * weights * violated.sum(axis=0)
        return curvature

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        return mixed_of_pairs(self.labels == r, self.labels == s, scores[r] - scores[s])

    def constants(self, features: FeatureMap, weights: Vector, are_papers: bool = False) -> Vector:
        """Return 4 (K - 1) sum_i c_i x_ij^2, appendix A's, or the smaller ones of `star_constants`."""
        if are_papers:
            return features.weighted_squares(4.0 * (self.n_states - 1) * weights)
        out = np.empty(features.n_features)
        star_constants(*features.store.by_feature, self.labels, weights, self.n_states, out)
        return out

    def margins(self, scores: Vector) -> Vector:
        """Return A of section 4.3, 1 - (s_y - s_r) and -inf at the label, (N, K)."""
        margins = (1.0 + scores - self.own(scores)).T.copy()
        margins[np.arange(self.n_positions), self.labels] = -np.inf
        return margins

    def scores_of(self, margins: Vector) -> Vector:
        scores = margins.T - 1.0
        scores[self.labels, np.arange(self.n_positions)] = 0.0
        return scores


class MultitaskSquaredHinge(SquaredHingeMixin, SingleLabel):
    """sum_i c_i sum_r max(1 - Y_ir s_r, 0)^2, Y_ir = 1 for r = y_i and -1 otherwise: equation 11 as a sum."""

    code, kernel = MULTITASK, staticmethod(multitask_hinge)
    is_smooth = has_curvature = has_margins = True
    score_bounds = 2.0  # a hinge depends on one state

    def intercept_bound(self, table: Vector, step: float) -> float:
        """Return a bound on max |b|: each label has a separate hinge, s_y >= 1, other scores <= -1."""
        sides = []
        for side, other in ((table[0], table[1]), (table[1], table[0])):
            # The minimum over the other labels is the second smallest at the label of the smallest.
            first = int(other.argmin())
            smallest = np.full(other.size, other.min())
            smallest[first] = np.delete(other, first).min(initial=np.inf)
            sides.append(np.minimum(side, smallest))
        bounds = np.concatenate(sides)
        return float(max(np.where(np.isfinite(bounds), bounds, step).max(), 0.0))

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return 2 c for each violated hinge."""
        return 2.0 * weights * (evaluation.residual != 0)

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Return zeros: the hinges of two states are separate."""
        return np.zeros(self.n_positions)

    def margins(self, scores: Vector) -> Vector:
        """Return 1 - Y s, (N, K)."""
        margins = (1.0 + scores).T.copy()
        margins[np.arange(self.n_positions), self.labels] = 1.0 - self.own(scores)
        return margins

    def scores_of(self, margins: Vector) -> Vector:
        scores, items = margins.T - 1.0, np.arange(self.n_positions)
        scores[self.labels, items] *= -1.0
        return scores


@dataclass(frozen=True, eq=False)
class SubgradientEvaluation(Evaluation):
    """A loss and a subgradient; violated : bool (N,), whether it is that of another state than the label."""

    violated: Vector


class MulticlassHinge(SingleLabel):
    """sum_i c_i max_m (s_m + [m != y_i] - s_y): equation 2 of Blondel, Fujino and Ueda (2014), C being c / l2.

    A subgradient takes the first of the largest states.
    """

    has_label_duals = True
    excess = staticmethod(lambda losses: losses - 1.0)  # no violation of a margin is larger than the loss
    intercept_bound = staticmethod(label_range)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> SubgradientEvaluation:
        items, label_scores = np.arange(self.n_positions), self.own(scores)
        raised = scores + 1.0
        raised[self.labels, items] = label_scores  # bitwise: else rounding could violate a label's own margin
        best = raised.argmax(axis=0)
        violated = raised[best, items] > label_scores
        best = np.where(violated, best, self.labels)
        residual = np.zeros_like(scores)
        residual[best, items] = weights
        residual[self.labels, items] -= weights
        return SubgradientEvaluation(
            np.maximum(raised[best, items] - label_scores, 0.0), residual, NO_EDGES, violated
        )

    def dual(self, evaluation: SubgradientEvaluation, weights: Vector) -> DualLoss:
        return DualLoss(float(weights @ evaluation.violated))
