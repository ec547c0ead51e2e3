"""Hinges of margins, for items of one position each: squared ones with curvature, and the largest, which has none.

Multiclass and multitask squared hinge are equations 2 and 11 of Blondel, Seki and Uehara (2013), as sums: the paper has
means (`likelihood.py` has equation 12, `ranking.py` multilabel data). The multiclass hinge is that of Crammer and
Singer (2002). Shapes: N positions, K states, F features; scores, residual, curvature float64 (K, N); weights
float64 (N,).
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
from crfqn.objectives.losses.intercept_bound import label_difference_bounds, label_range
from crfqn.objectives.losses.score_loss import NO_EDGES, DualLoss, Evaluation, LinearDual, SingleLabel
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class HingeEvaluation(Evaluation):
    """Margins compared with 1; slacks : float64 (N,), sum of max(1 - margin, 0) over the pairs of each position."""

    slacks: Vector


@dataclass(frozen=True)
class HingeDual(DualLoss):
    """Dual of a sum of max(1 - margin, 0)^2, at the best multiple of the point's own dual variables up to a scale.

    The conjugate gives sum alpha - alpha^2 / 4 over the pairs. At alpha = 2 s max(1 - margin, 0) this is 2 s slack -
    s^2 loss, largest for s = slack / loss; the gradient is s g, and a smaller s never costs a penalty more.
    slack, loss : half of the slope at s = 0, the weighed sum of the slacks, unless scores are fixed; the weighed sum
    """

    slack: float
    loss: float

    def value(self, scale: float) -> float:
        """Return the largest dual loss up to `scale`."""
        s = min(scale, max(self.slack / self.loss, 0.0)) if self.loss > 0 else scale
        return 2.0 * s * self.slack - s**2 * self.loss

    def at(self, scale: float) -> HingeDual:
        """Return itself: the multiple is one for all parts."""
        return self

    def __add__(self, other: HingeDual) -> HingeDual:
        return HingeDual(self.slack + other.slack, self.loss + other.loss)

    def around(self, fixed: float) -> HingeDual:
        """Return the dual around fixed scores: the term linear in s changes."""
        return HingeDual(self.slack + 0.5 * fixed, self.loss)


def mixed_of_pairs(
    r_is_relevant: NDArray[np.bool_], s_is_relevant: NDArray[np.bool_], lead: Vector
) -> Vector:
    """Return -2 where (r, s) or (s, r) is a violated pair, else 0; lead: the score of r less that of s; all (N,)."""
    is_violated = (r_is_relevant & ~s_is_relevant & (lead < 1.0)) | (
        s_is_relevant & ~r_is_relevant & (lead > -1.0)
    )
    return np.where(is_violated, -2.0, 0.0)


class SquaredHingeMixin:
    """Mixin of the squared hinges, for subclasses of `SingleLabel`; `kernel` is one of `kernels.margins`."""

    labels: Labels
    n_states: int
    kernel: ClassVar[Callable[..., object]]

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> HingeEvaluation:
        """Run the kernel over all positions."""
        n = self.labels.size
        losses, slacks, residual = np.empty(n), np.empty(n), np.empty_like(scores)
        arrays = (self.labels, weights, losses, slacks, residual)
        pool.map_chunks(n, lambda first, last: self.kernel(first, last, scores, *arrays))
        return HingeEvaluation(losses, residual, NO_EDGES, slacks)

    def difference_bounds(self, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds by label: no hinge of a position is larger than its loss."""
        return label_difference_bounds(self.labels, self.n_states, np.sqrt(losses) - 1.0 + change, x)

    def dual(self, evaluation: HingeEvaluation, weights: Vector) -> HingeDual:
        return HingeDual(float(weights @ evaluation.slacks), float(weights @ evaluation.item_losses))


class MulticlassSquaredHinge(SquaredHingeMixin, SingleLabel):
    """sum_i c_i sum_{r != y_i} max(1 - (s_y - s_r), 0)^2, equation 2 as a sum."""

    code, kernel = MULTICLASS, staticmethod(multiclass_hinge)
    is_smooth = has_curvature = has_margins = has_pair_duals = True
    intercept_bound = staticmethod(label_range)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """2 c for a violated pair, at both (equation 6)."""
        violated = evaluation.residual > 0
        curvature = 2.0 * weights * violated
        curvature[self.labels, np.arange(self.n_positions)] = 2.0 * weights * violated.sum(axis=0)
        return curvature

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        return mixed_of_pairs(self.labels == r, self.labels == s, scores[r] - scores[s])

    def score_bounds(self) -> Vector:
        """Return 2 K: twice the largest eigenvalue of the Laplacian of a star of K classes; the paper has 4 (K - 1)."""
        return np.full(self.n_positions, 2.0 * self.n_states)

    def constants(self, features: FeatureMap, weights: Vector, are_papers: bool = False) -> Vector:
        """Return 4 (K - 1) sum_i c_i x_ij^2 for appendix A's, or these sharpened: see `star_constants`."""
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

    def intercept_bound(self, table: Vector, step: float) -> float:
        """Return a bound on max |b|: every label has a hinge of its own, s_y >= 1, other scores <= -1."""
        sides = []
        for side, other in ((table[0], table[1]), (table[1], table[0])):
            first = int(
                other.argmin()
            )  # the least of the other labels is the second at the label of the least
            least = np.full(other.size, other.min())
            least[first] = np.delete(other, first).min(initial=np.inf)
            sides.append(np.minimum(side, least))
        bounds = np.concatenate(sides)
        return float(max(np.where(np.isfinite(bounds), bounds, step).max(), 0.0))

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """2 c where a hinge is violated."""
        return 2.0 * weights * (evaluation.residual != 0)

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Zeros: each state has a hinge of its own."""
        return np.zeros(self.n_positions)

    def score_bounds(self) -> Vector:
        """Return 2: the states do not meet."""
        return np.full(self.n_positions, 2.0)

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
    """A loss and a subgradient; violated : bool (N,), whether the latter is that of another state than the label."""

    violated: Vector


class MulticlassHinge(SingleLabel):
    """sum_i c_i max_m (s_m + [m != y_i] - s_y): equation 2 of Blondel, Fujino and Ueda (2014), C being c / l2.

    A subgradient takes the first of the largest states.
    """

    has_label_duals = True
    intercept_bound = staticmethod(label_range)

    def difference_bounds(self, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds by label: no violation of a margin is larger than the loss."""
        return label_difference_bounds(self.labels, self.n_states, losses - 1.0 + change, x)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> SubgradientEvaluation:
        """O(N K)."""
        items, label_scores = np.arange(self.n_positions), self.own(scores)
        raised = scores + 1.0
        raised[self.labels, items] = (
            label_scores  # to the last digit: a label that is above itself would prove a margin
        )
        best = raised.argmax(axis=0)
        violated = raised[best, items] > label_scores
        best = np.where(violated, best, self.labels)
        residual = np.zeros_like(scores)
        residual[best, items] = weights
        residual[self.labels, items] -= weights
        return SubgradientEvaluation(
            np.maximum(raised[best, items] - label_scores, 0.0), residual, NO_EDGES, violated
        )

    def dual(self, evaluation: SubgradientEvaluation, weights: Vector) -> LinearDual:
        return LinearDual(float(weights @ evaluation.violated))
