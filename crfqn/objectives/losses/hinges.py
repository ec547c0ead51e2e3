"""Squared hinges of margins, for items of one position each: the losses of Blondel, Seki and Uehara (2013).

Multiclass and multitask squared hinge, equations 2 and 11, as sums: the paper has means. `ranking.py` has the loss of
multilabel data, `logistic.py` equation 12.

Shapes: N positions, K states, F features; scores, residual, curvature float64 (K, N); weights float64 (N,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.margins import MULTICLASS, MULTITASK, multiclass_hinge, multitask_hinge, star_constants
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.reach import label_leads, range_with_unseen, single_size
from crfqn.objectives.losses.score_loss import NO_EDGES, Evaluation
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class HingeEvaluation(Evaluation):
    """Margins compared with 1.

    Attributes
    ----------
    slacks : float64 (N,): sum of max(1 - margin, 0) over the pairs of each position
    """

    slacks: Vector


@dataclass(frozen=True)
class HingeDual:
    """The dual of a sum of max(1 - margin, 0)^2, at the best multiple of the point's own dual variables up to a scale.

    The conjugate gives sum alpha - alpha^2 / 4 over the pairs. At alpha = 2 s max(1 - margin, 0) this is 2 s slack -
    s^2 loss, largest for s = slack / loss; the gradient is s g, and a smaller s never costs a penalty more.

    Attributes
    ----------
    slack : float, half of the slope at s = 0: the weighed sum of the slacks, unless scores are fixed
    loss : float, the sum over the items, weighed
    """

    slack: float
    loss: float

    def value(self, scale: float) -> float:
        """Return the largest dual loss up to `scale`."""
        s = min(scale, max(self.slack / self.loss, 0.0)) if self.loss > 0 else scale
        return 2.0 * s * self.slack - s**2 * self.loss

    def __add__(self, other: HingeDual) -> HingeDual:
        return HingeDual(self.slack + other.slack, self.loss + other.loss)

    def around(self, fixed: float) -> HingeDual:
        """Return the dual around fixed scores: the term linear in s changes."""
        return HingeDual(self.slack + 0.5 * fixed, self.loss)


def hinge_dual(evaluation: HingeEvaluation, weights: Vector) -> HingeDual:
    """Return the dual of an evaluation."""
    return HingeDual(float(weights @ evaluation.slacks), float(weights @ evaluation.item_losses))


def mixed_of_pairs(
    r_is_relevant: NDArray[np.bool_], s_is_relevant: NDArray[np.bool_], lead: Vector
) -> Vector:
    """Return -2 where (r, s) or (s, r) is a violated pair, else 0; lead: the score of r less that of s; all (N,)."""
    is_violated = (r_is_relevant & ~s_is_relevant & (lead < 1.0)) | (
        s_is_relevant & ~r_is_relevant & (lead > -1.0)
    )
    return np.where(is_violated, -2.0, 0.0)


def checked_labels(labels: NDArray, n_states: int) -> Labels:
    """Return labels, one a position, as int32 (N,), or raise InputError: they must be 0 ... K - 1, K >= 1."""
    if n_states < 1:
        raise InputError(f"n_states: expected an integer >= 1, got {n_states!r}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"expected labels as a 1-D array of integers, got shape {labels.shape} and dtype {labels.dtype}"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_states:
        raise InputError(
            f"expected labels within 0 ... {n_states - 1}, got {labels.min()} ... {labels.max()}"
        )
    return np.ascontiguousarray(labels, np.int32)


@dataclass(frozen=True, eq=False)
class SingleLabel:
    """A loss whose positions have one label each.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,), 0 ... K - 1
    n_states : int, K >= 1

    Raises
    ------
    InputError
        For labels of another shape or outside of 0 ... K - 1, and for fewer than two states.
    """

    labels: Labels
    n_states: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", checked_labels(self.labels, self.n_states))

    @property
    def n_positions(self) -> int:
        return self.labels.size

    @property
    def n_items(self) -> int:
        return self.labels.size

    @property
    def n_edges(self) -> int:
        """Number of edge weights: items are single positions."""
        return 0

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        return self.of(positions)

    def of(self, positions: NDArray[np.integer]) -> Self:
        """Return the loss of some positions."""
        return type(self)(self.labels[positions], self.n_states)

    def leads(self, losses: Vector, rest: Vector, x: Vector) -> Vector:
        """Return how far labels may lead a position's own, by label: a hinge is no larger than the loss."""
        return label_leads(self.labels, self.n_states, np.sqrt(losses) - 1.0 + rest, x)

    def own(self, table: Vector) -> Vector:
        """Return the entries of the labels in a (K, N) table, (N,)."""
        return table[self.labels, np.arange(self.labels.size)]


class MulticlassSquaredHinge(SingleLabel):
    """sum_i c_i sum_{r != y_i} max(1 - (s_y - s_r), 0)^2, equation 2 as a sum."""

    code = MULTICLASS

    def reach(self, table: Vector, step: float) -> float:
        """Return a bound on the intercepts of some optimum."""
        return range_with_unseen(table, step)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> HingeEvaluation:
        """Return losses, slacks and residual from one pass, O(N K)."""
        return evaluate_hinge(multiclass_hinge, self.labels, scores, weights, pool)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return the weighted diagonal of the Hessian, (K, N): 2 c for a violated pair, at both (equation 6)."""
        violated = evaluation.residual > 0
        curvature = 2.0 * weights * violated
        curvature[self.labels, np.arange(self.n_positions)] = 2.0 * weights * violated.sum(axis=0)
        return curvature

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Return the second derivatives by the scores of two states, unweighted, (N,)."""
        return mixed_of_pairs(self.labels == r, self.labels == s, scores[r] - scores[s])

    def dual(self, evaluation: HingeEvaluation, weights: Vector) -> HingeDual:
        return hinge_dual(evaluation, weights)

    def score_bounds(self) -> Vector:
        """Return 2 K: twice the largest eigenvalue of the Laplacian of a star of K classes; the paper has 4 (K - 1)."""
        return np.full(self.n_positions, 2.0 * self.n_states)

    def constants(self, features: FeatureMap, weights: Vector) -> Vector:
        """Return the constants of appendix A, sharpened: see `star_constants`."""
        out = np.empty(features.n_features)
        star_constants(*features.store.by_feature, self.labels, weights, self.n_states, out)
        return out

    def margins(self, scores: Vector) -> Vector:
        """Return A of section 4.3, 1 - (s_y - s_r) and -inf at the label, (N, K)."""
        margins = (1.0 + scores - self.own(scores)).T.copy()
        margins[np.arange(self.n_positions), self.labels] = -np.inf
        return margins


class MultitaskSquaredHinge(SingleLabel):
    """sum_i c_i sum_r max(1 - Y_ir s_r, 0)^2, Y_ir = 1 for r = y_i and -1 otherwise: equation 11 as a sum."""

    code = MULTITASK

    def reach(self, table: Vector, step: float) -> float:
        """Return a bound on the intercepts of some optimum."""
        return single_size(table, step)

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> HingeEvaluation:
        """Return losses, slacks and residual from one pass, O(N K)."""
        return evaluate_hinge(multitask_hinge, self.labels, scores, weights, pool)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return the weighted diagonal of the Hessian, (K, N): 2 c where a hinge is violated."""
        return 2.0 * weights * (evaluation.residual != 0)

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Return zeros: each state has a hinge of its own."""
        return np.zeros(self.n_positions)

    def dual(self, evaluation: HingeEvaluation, weights: Vector) -> HingeDual:
        return hinge_dual(evaluation, weights)

    def score_bounds(self) -> Vector:
        """Return 2: the states do not meet."""
        return np.full(self.n_positions, 2.0)

    def constants(self, features: FeatureMap, weights: Vector) -> Vector:
        """Return 2 sum_i c_i x_ij^2, (F,)."""
        return features.weighted_squares(weights * self.score_bounds())

    def margins(self, scores: Vector) -> Vector:
        """Return 1 - Y s, (N, K)."""
        margins = (1.0 + scores).T.copy()
        margins[np.arange(self.n_positions), self.labels] = 1.0 - self.own(scores)
        return margins


def evaluate_hinge(
    kernel: Callable[..., object], labels: Labels, scores: Vector, weights: Vector, pool: Pool
) -> HingeEvaluation:
    """Run a kernel of `kernels.margin_losses` over all positions."""
    losses, slacks, residual = np.empty(labels.size), np.empty(labels.size), np.empty_like(scores)
    arrays = (labels, weights, losses, slacks, residual)
    pool.each_stretch(labels.size, lambda first, last: kernel(first, last, scores, *arrays))
    return HingeEvaluation(losses, residual, NO_EDGES, slacks)
