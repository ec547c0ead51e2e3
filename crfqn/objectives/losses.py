"""Losses in score space: what flat objectives sum up over their positions.

Multiclass squared hinge, multitask squared hinge and multinomial logistic, equations 2, 11 and 12 of Blondel, Seki and
Uehara (2013), as sums: the paper has means. `ranking.py` has the loss of multilabel data.

Each knows its value and residual, the diagonal of its (generalised) Hessian, a dual value for certificates, Lipschitz
constants of its gradient, and the margins from which block coordinate descent works.

Shapes: N positions, K states, F features; scores, residual, curvature float64 (K, N); weights float64 (N,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.features import FeatureStore
from crfqn.kernels.margin_losses import (
    multiclass_hinge,
    multitask_hinge,
    star_constants,
    weighted_squares,
)
from crfqn.kernels.row_losses import LOGISTIC, MULTICLASS, MULTITASK
from crfqn.objectives.point import mixture_dual
from crfqn.structures.flat import flat
from crfqn.threads import Pool

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss at some scores.

    Attributes
    ----------
    losses : float64 (N,), of each position, unweighted
    residual : float64 (K, N): the weighted derivative by the scores; (N, width) where it comes from margins
    slacks : float64 (N,): sum of max(1 - margin, 0) over the pairs; of the logistic loss (1,), the weighted entropy
    """

    losses: Vector
    residual: Vector
    slacks: Vector


class Loss(Protocol):
    """What a `FlatObjective` asks of a loss; the labels are its own.

    `score_bounds`: the largest eigenvalue that the Hessian by a position's scores may have, unweighted, (N,).
    """

    code: int

    @property
    def n_states(self) -> int: ...

    @property
    def labels(self) -> NDArray[np.int32]: ...

    @property
    def n_positions(self) -> int: ...

    def take(self, positions: NDArray[np.int64]) -> Loss: ...

    def evaluate(self, scores: Vector, weights: Vector, pool: Pool) -> Evaluation: ...

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector: ...

    def dual_value(self, evaluation: Evaluation, weights: Vector, scale: float) -> float: ...

    def score_bounds(self) -> Vector: ...

    def constants(self, store: FeatureStore, weights: Vector) -> Vector: ...

    def mixed(self, r: int, s: int, scores: Vector) -> Vector: ...

    def margins(self, scores: Vector) -> Vector: ...


def hinge_dual(evaluation: Evaluation, weights: Vector, scale: float) -> float:
    """The dual of a sum of max(1 - margin, 0)^2, at the best multiple of the point's own dual variables up to `scale`.

    The conjugate gives sum alpha - alpha^2 / 4 over the pairs. At alpha = 2 s max(1 - margin, 0) this is 2 s slacks -
    s^2 loss, largest for s = slacks / loss; the gradient is s g, and a smaller s never costs a penalty more.
    """
    slacks, loss = float(weights @ evaluation.slacks), float(weights @ evaluation.losses)
    s = min(scale, slacks / loss) if loss > 0 else scale
    return 2.0 * s * slacks - s**2 * loss


def mixed_of_pairs(
    r_is_relevant: NDArray[np.bool_], s_is_relevant: NDArray[np.bool_], lead: Vector
) -> Vector:
    """-2 where (r, s) or (s, r) is a violated pair; lead: the score of r less that of s; all (N,)."""
    is_violated = (r_is_relevant & ~s_is_relevant & (lead < 1.0)) | (
        s_is_relevant & ~r_is_relevant & (lead > -1.0)
    )
    return np.where(is_violated, -2.0, 0.0)


def squares_of(store: FeatureStore, weights: Vector) -> Vector:
    """sum_i weight_i x_ij^2 of every feature, (F,)."""
    out = np.empty(store.n_features)
    weighted_squares(store.indptr, store.indices, store.values, weights, out)
    return out


@dataclass(frozen=True, eq=False)
class SingleLabel:
    """A loss whose positions have one label each.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,), 0 ... K - 1
    n_states : int, K >= 2

    Raises
    ------
    InputError
        For labels of another shape or outside of 0 ... K - 1, and for fewer than two states.
    """

    labels: NDArray[np.int32]
    n_states: int

    def __post_init__(self) -> None:
        if self.n_states < 2:
            raise InputError(f"n_states: expected an integer >= 2, got {self.n_states!r}")
        if self.labels.ndim != 1 or self.labels.dtype.kind not in "iu":
            raise InputError(
                "expected labels as a 1-D array of integers, "
                f"got shape {self.labels.shape} and dtype {self.labels.dtype}"
            )
        if self.labels.size and not 0 <= self.labels.min() <= self.labels.max() < self.n_states:
            raise InputError(
                f"expected labels within 0 ... {self.n_states - 1}, got {self.labels.min()} ... {self.labels.max()}"
            )
        object.__setattr__(self, "labels", np.ascontiguousarray(self.labels, np.int32))

    @property
    def n_positions(self) -> int:
        return self.labels.size

    def take(self, positions: NDArray[np.int64]) -> SingleLabel:
        """The loss of some positions."""
        return type(self)(self.labels[positions], self.n_states)

    def own(self, table: Vector) -> Vector:
        """The entries of the labels in a (K, N) table, (N,)."""
        return table[self.labels, np.arange(self.labels.size)]


class MulticlassSquaredHinge(SingleLabel):
    """sum_i c_i sum_{r != y_i} max(1 - (s_y - s_r), 0)^2, equation 2 as a sum."""

    code = MULTICLASS

    def evaluate(self, scores: Vector, weights: Vector, pool: Pool) -> Evaluation:
        """O(N K)."""
        return evaluate_hinge(multiclass_hinge, self.labels, scores, weights, pool)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Equation 6: 2 c for a violated pair, at both of its classes."""
        violated = evaluation.residual > 0
        curvature = 2.0 * weights * violated
        curvature[self.labels, np.arange(self.n_positions)] = 2.0 * weights * violated.sum(axis=0)
        return curvature

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Second derivatives by the scores of two states, unweighted, (N,)."""
        return mixed_of_pairs(self.labels == r, self.labels == s, scores[r] - scores[s])

    def dual_value(self, evaluation: Evaluation, weights: Vector, scale: float) -> float:
        return hinge_dual(evaluation, weights, scale)

    def score_bounds(self) -> Vector:
        """2 K: twice the largest eigenvalue of the Laplacian of a star of K classes; the paper's is 4 (K - 1)."""
        return np.full(self.n_positions, 2.0 * self.n_states)

    def constants(self, store: FeatureStore, weights: Vector) -> Vector:
        """Appendix A, sharpened: see `star_constants`."""
        out = np.empty(store.n_features)
        star_constants(store.indptr, store.indices, store.values, self.labels, weights, self.n_states, out)
        return out

    def margins(self, scores: Vector) -> Vector:
        """A of section 4.3, (N, K)."""
        margins = (1.0 + scores - self.own(scores)).T.copy()
        margins[np.arange(self.n_positions), self.labels] = -np.inf
        return margins


class MultitaskSquaredHinge(SingleLabel):
    """sum_i c_i sum_r max(1 - Y_ir s_r, 0)^2, Y_ir = 1 for r = y_i and -1 otherwise: equation 11 as a sum."""

    code = MULTITASK

    def evaluate(self, scores: Vector, weights: Vector, pool: Pool) -> Evaluation:
        """O(N K)."""
        return evaluate_hinge(multitask_hinge, self.labels, scores, weights, pool)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        return 2.0 * weights * (evaluation.residual != 0)

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """Nothing: the states do not meet."""
        return np.zeros(self.n_positions)

    def dual_value(self, evaluation: Evaluation, weights: Vector, scale: float) -> float:
        return hinge_dual(evaluation, weights, scale)

    def score_bounds(self) -> Vector:
        """2: the states do not meet."""
        return np.full(self.n_positions, 2.0)

    def constants(self, store: FeatureStore, weights: Vector) -> Vector:
        """2 sum_i c_i x_ij^2."""
        return squares_of(store, weights * self.score_bounds())

    def margins(self, scores: Vector) -> Vector:
        """1 - Y s, (N, K)."""
        margins = (1.0 + scores).T.copy()
        margins[np.arange(self.n_positions), self.labels] = 1.0 - self.own(scores)
        return margins


class MultinomialLogistic(SingleLabel):
    """sum_i c_i log(1 + sum_{r != y_i} exp(s_r - s_y)), equation 12 as a sum: the likelihood of a flat CRF."""

    code = LOGISTIC

    def evaluate(self, scores: Vector, weights: Vector, pool: Pool) -> Evaluation:
        """O(N K); the inference of the flat structure."""
        structure = flat(self.n_states, self.n_positions)
        found = structure.infer(scores, targets=self.labels, weights=weights, pool=pool)
        entropy = np.array([float(weights @ found.log_partition) - found.expected_score])
        return Evaluation(found.log_partition - found.target_score, found.residual, entropy)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """c p (1 - p), which is |residual| (1 - |residual| / c) for every state."""
        size = np.abs(evaluation.residual)
        return size * (1.0 - size / np.where(weights > 0, weights, 1.0))

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        """-p_r p_s."""
        p = self.evaluate(scores, np.ones(self.n_positions), Pool(1)).residual
        return -(p[r] + (self.labels == r)) * (p[s] + (self.labels == s))

    def dual_value(self, evaluation: Evaluation, weights: Vector, scale: float) -> float:
        """The entropy of the mixtures of p and the label, as for every CRF."""
        return mixture_dual(weights, float(evaluation.slacks[0]), evaluation.losses, scale)

    def score_bounds(self) -> Vector:
        """1/2: no eigenvalue of diag p - p p' is larger."""
        return np.full(self.n_positions, 0.5)

    def constants(self, store: FeatureStore, weights: Vector) -> Vector:
        """1/2 sum_i c_i x_ij^2."""
        return squares_of(store, weights * self.score_bounds())

    def margins(self, scores: Vector) -> Vector:
        """s_r - s_y, (N, K)."""
        return (scores - self.own(scores)).T.copy()


def evaluate_hinge(kernel, labels, scores: Vector, weights: Vector, pool: Pool) -> Evaluation:  # type: ignore[no-untyped-def]
    """Run a kernel of `kernels.margin_losses` over all positions."""
    losses, slacks, residual = np.empty(labels.size), np.empty(labels.size), np.empty_like(scores)
    arrays = (labels, weights, losses, slacks, residual)
    pool.each_stretch(labels.size, lambda first, last: kernel(first, last, scores, *arrays))
    return Evaluation(losses, residual, slacks)
