"""A full gradient scan by rows, from the margins: which may move, how far they are from the optimum, what they prove.

By rows from end to end: the lists of coordinates and gradients that other solvers work on would take as long as the
gradients themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.margins.losses import LOGISTIC
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.sparse.sorted_sets import found_in, union
from crfqn.objectives.linear.screening import each_share, possible_features
from crfqn.objectives.losses.hinges import HingeDual
from crfqn.objectives.losses.likelihood import MixtureDual
from crfqn.objectives.losses.score_loss import DualLoss
from crfqn.penalties.group_lasso import ROUNDING, LocalGroupLasso
from crfqn.solvers.coordinate.row_gradient_kernels import fill_residuals, measure_rows
from crfqn.solvers.coordinate.row_penalty import RowPenalty

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowGradients:
    """Gradients of unpenalised rows, of rows that are not zero, and of zeros that may move; n of them.

    To be read before the next sweep.

    Attributes
    ----------
    penalty, dual : at the point: the penalty of rows, and the dual loss
    value : the objective's, penalty included
    features : sorted int64 (n,); dual_norms : float64 (n,), of their gradients
    gradients : float64 (n, K); (0, K) where the norms tell all that a proof needs
    violation : the largest distance to the subdifferential, of a row or of a weight in no group
    """

    penalty: RowPenalty
    dual: DualLoss
    value: float
    features: Indices
    dual_norms: Vector
    gradients: Vector
    violation: float

    @cached_property
    def local(self) -> LocalGroupLasso:
        """The penalty at these rows."""
        return self.penalty.at(self.features, self.gradients.shape[1])

    def dual_scales(self) -> list[float]:
        """Factors s worth trying in a certificate: s times the gradients are feasible, or cost little."""
        if self.dual_norms[self.penalty.is_unpenalised(self.features)].any():
            return []
        if needs_gradients(self.penalty):
            return self.local.dual_scales(self.gradients.reshape(-1))
        above = self.dual_norms > self.penalty.group_l1
        largest = float(np.min(self.penalty.group_l1 / self.dual_norms[above], initial=1.0))
        return [largest] if largest > 0.0 else []

    def conjugate(self, scale: float) -> float:
        """The penalty's conjugate at s times the gradients."""
        if needs_gradients(self.penalty):
            return self.local.conjugate(scale * self.gradients.reshape(-1))
        threshold = (1.0 + ROUNDING) * self.penalty.group_l1
        return np.inf if scale * self.dual_norms.max(initial=0.0) > threshold else 0.0

    def dual_value(self, scale: float) -> float:
        """The dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""
        return self.dual.value(scale)


def needs_gradients(penalty: RowPenalty) -> bool:
    """Whether a proof needs more than the gradients' norms."""
    return penalty.l1 > 0.0 or penalty.l2 > 0.0


def screen_rows(blocks: Any, penalty: RowPenalty, value: float) -> RowGradients:
    """Scan the gradients of rows, a `RowBlocks` with its losses up to date; `value` is theirs."""
    store, pool = blocks.objective.map.store, blocks.objective.pool
    n_states = blocks.row_weights.shape[1]
    residual, position_norms, dual = evaluate_margins(blocks, order=1 if penalty.is_linf else 2)
    also = union(blocks.stored_rows[blocks.row_weights.any(axis=1)], penalty.unpenalised)
    # || max(|g| - l1, 0) || > group_l1 makes || g || > group_l1 + l1, in either norm.
    features = union(possible_features(store, pool, position_norms, penalty.group_l1 + penalty.l1), also)
    places, is_stored = found_in(blocks.stored_rows, features)
    places[~is_stored] = -1
    is_unpenalised, stands_out = penalty.is_unpenalised(features), np.empty(features.size, bool)
    norms, violations = np.empty((2, features.size))
    gradients = {0: np.empty((0, n_states))}

    def measure(share: slice, found: Vector) -> None:
        measure_rows(
            places[share], blocks.row_weights, found, is_unpenalised[share], penalty.strengths, penalty.has_groups,
            norms[share], violations[share], stands_out[share],
        )  # fmt: skip
        if needs_gradients(penalty):
            gradients[share.start] = found[stands_out[share], :n_states]

    each_share(store, pool, features, residual, measure)
    return RowGradients(
        penalty,
        dual,
        value,
        features[stands_out],
        norms[stands_out],
        np.concatenate([gradients[start] for start in sorted(gradients)]),
        float(violations.max(initial=0.0)),
    )


def evaluate_margins(blocks: Any, order: int) -> tuple[Vector, Vector, DualLoss]:
    """The residual position-major, (N, width), the residuals' norms of an order, (N,), and the dual loss."""
    owner, (n_positions, width) = blocks.objective, blocks.state.margins.shape
    residual = aligned_rows.py_func(n_positions, width)  # without compilation it is not cleared
    norms, slacks = np.empty((2, n_positions))
    positions = np.arange(n_positions, dtype=blocks.state.indices.dtype)
    state = blocks.state._replace(indices=positions, values=np.empty(0))
    owner.pool.each_stretch(
        n_positions, lambda first, last: fill_residuals(state, first, last, order, residual, norms, slacks)
    )
    total = float(owner.weights @ slacks)  # of the logistic loss the entropies take the place of slacks
    if owner.loss.code == LOGISTIC:
        return residual, norms, MixtureDual(total, state.losses, owner.weights)
    return residual, norms, HingeDual(total, float(owner.weights @ state.losses))
