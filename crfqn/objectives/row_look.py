"""A look at all rows from the margins: which may move, how far they are from the optimum, and what they prove.

By rows from end to end: the lists of coordinates and gradients that other solvers work on would take as long as the
gradients themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.row_look import fill_residuals, measure_rows
from crfqn.kernels.row_losses import LOGISTIC
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.union import union
from crfqn.objectives.losses import Evaluation
from crfqn.objectives.row_penalty import RowPenalty
from crfqn.objectives.screening import each_share, possible_features
from crfqn.penalties.group_lasso import ROUNDING, LocalGroupLasso

if TYPE_CHECKING:
    from crfqn.objectives.flat import FlatObjective
    from crfqn.objectives.row_blocks import RowBlocks

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]


class Share(NamedTuple):
    """Of a stretch of features, which begins at `start`, those that stand out."""

    start: int
    features: Indices
    norms: Vector
    gradients: Vector
    violation: float


@dataclass(frozen=True, eq=False)
class RowLook:
    """Free rows, rows that are not zero, and zeros that may move; n of them. To be read before the next sweep.

    Attributes
    ----------
    objective, penalty, evaluation : at the point looked at; the evaluation's residual is (N, width)
    value : the objective's, penalty included
    features : sorted int64 (n,); norms : float64 (n,), the dual norms of their gradients
    gradients : float64 (n, K); (0, K) where the norms tell all that a proof needs
    violation : the largest distance to the subdifferential, of a row or of a weight in no group
    """

    objective: FlatObjective
    penalty: RowPenalty
    evaluation: Evaluation
    value: float
    features: Indices
    norms: Vector
    gradients: Vector
    violation: float

    @cached_property
    def local(self) -> LocalGroupLasso:
        """The penalty at these rows."""
        return self.penalty.at(self.features, self.gradients.shape[1])

    def dual_scales(self) -> list[float]:
        """Factors s worth trying in a certificate: s times the gradients are feasible, or cost little."""
        if self.norms[self.penalty.is_free(self.features)].any():
            return []
        if needs_gradients(self.penalty):
            return self.local.dual_scales(self.gradients.reshape(-1))
        above = self.norms > self.penalty.group_l1
        largest = float(np.min(self.penalty.group_l1 / self.norms[above], initial=1.0))
        return [largest] if largest > 0.0 else []

    def conjugate(self, scale: float) -> float:
        """What s times the gradients cost."""
        if needs_gradients(self.penalty):
            return self.local.conjugate(scale * self.gradients.reshape(-1))
        bound = (1.0 + ROUNDING) * self.penalty.group_l1
        return np.inf if scale * self.norms.max(initial=0.0) > bound else 0.0

    def dual_value(self, scale: float) -> float:
        """The dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""
        return self.objective.loss.dual_value(self.evaluation, self.objective.weights, scale)


def needs_gradients(penalty: RowPenalty) -> bool:
    """Whether a proof needs more than the gradients' norms."""
    return penalty.l1 > 0.0 or penalty.l2 > 0.0


def look_at_rows(blocks: RowBlocks, penalty: RowPenalty, value: float) -> RowLook:
    """Look at all rows; the losses of the blocks must be up to date, and `value` is theirs."""
    owner, n_states = blocks.objective, blocks.table.shape[1]
    evaluation, norms = evaluate_margins(blocks, order=1 if penalty.is_linf else 2)
    also = union(blocks.held[blocks.table.any(axis=1)], penalty.free)
    # || max(|g| - l1, 0) || > group_l1 makes || g || > group_l1 + l1, in either norm.
    features = union(possible_features(owner, norms, penalty.group_l1 + penalty.l1), also)
    place, is_free = blocks.places(features), penalty.is_free(features)
    shares: list[Share] = []

    def pick(share: slice, gradients: Vector) -> None:
        own, violations = np.empty(gradients.shape[0]), np.empty(gradients.shape[0])
        stands_out = measure_rows(
            place[share], blocks.table, gradients, is_free[share], *penalty.strengths, penalty.has_groups,
            own, violations,
        )  # fmt: skip
        kept = gradients[stands_out if needs_gradients(penalty) else slice(0), :n_states]
        found = features[share][stands_out], own[stands_out], kept, violations.max(initial=0.0)
        shares.append(Share(share.start, *found))

    each_share(owner, features, evaluation.residual, pick)
    shares.sort(key=lambda share: share.start)
    return RowLook(
        owner,
        penalty,
        evaluation,
        value,
        np.concatenate([features[:0], *(share.features for share in shares)]),
        np.concatenate([norms[:0], *(share.norms for share in shares)]),
        np.concatenate([np.empty((0, n_states)), *(share.gradients for share in shares)]),
        max((float(share.violation) for share in shares), default=0.0),
    )


def evaluate_margins(blocks: RowBlocks, order: int) -> tuple[Evaluation, Vector]:
    """The loss, its residual position-major, (N, width), and the residuals' norms of an order, (N,)."""
    owner, (n_positions, width) = blocks.objective, blocks.margins.shape
    residual = aligned_rows.py_func(n_positions, width)  # without compilation it is not cleared
    norms, slacks = np.empty(n_positions), np.empty(n_positions)
    positions = np.arange(n_positions, dtype=owner.store.indices.dtype)
    arrays = positions, owner.targets, owner.weights, blocks.margins, blocks.aid, blocks.losses
    owner.pool.each_stretch(
        n_positions,
        lambda first, last: fill_residuals(
            owner.loss.code, first, last, *arrays, order, residual, norms, slacks
        ),
    )
    if owner.loss.code == LOGISTIC:
        slacks = np.array([float(owner.weights @ slacks)])  # the entropy
    return Evaluation(blocks.losses, residual, slacks), norms
