"""Penalties as what they are to the rows of the weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.kernels.sparse.sorted_sets import found_in
from crfqn.penalties.blocks import Blocks
from crfqn.penalties.group_lasso import LocalGroupLasso
from crfqn.solvers.coordinate.row_penalty_kernels import RowStrengths

Indices = NDArray[np.int64]


class RowPenalty(NamedTuple):
    """l1 ||w||_1 + l2/2 ||w||^2 + group_l1 ||w|| of a row that is penalised.

    `is_linf`: ||w|| is the largest size; `has_groups`: optimality is measured row by row, not weight by weight.
    """

    group_l1: float
    l1: float
    l2: float
    is_linf: bool
    has_groups: bool
    unpenalised: Indices

    @classmethod
    def of(cls, penalty: Any, n_features: int, n_states: int) -> RowPenalty:
        """Translate a penalty of single weights or rows with the same strengths for all; free rows must be whole."""
        unpenalised = _unpenalised_rows(penalty.unpenalised, n_features, n_states)
        if penalty.is_separable:
            return cls(0.0, float(penalty.l1), float(penalty.l2), False, False, unpenalised)
        if (penalty.n_features, penalty.n_states) != (n_features, n_states):
            raise InputError(
                f"expected a penalty over {n_features} features and {n_states} states, "
                f"got {penalty.n_features} and {penalty.n_states}"
            )
        group_l1, l1, l2 = float(penalty.group_l1), float(penalty.l1), float(penalty.l2)
        return cls(group_l1, l1, l2, penalty.norm == "linf", True, unpenalised)

    @property
    def strengths(self) -> RowStrengths:
        """The strengths of a row that is penalised, as kernels want them."""
        return RowStrengths(self.l1, self.l2, self.group_l1, self.is_linf)

    def is_unpenalised(self, features: Indices) -> NDArray[np.bool_]:
        """Tell which of some features are without penalty."""
        return found_in(self.unpenalised, features)[1]

    def at(self, features: Indices, n_states: int) -> LocalGroupLasso:
        """The penalty of rows whose weights are in a table, (features, K), row after row."""
        blocks = Blocks(np.arange(features.size * n_states), n_states * np.arange(features.size + 1))
        l1, l2, group = (np.where(self.is_unpenalised(features), 0.0, s) for s in self.strengths[:3])
        return LocalGroupLasso(blocks, l1, group, l2, "linf" if self.is_linf else "l2")


def _unpenalised_rows(coords: Indices, n_features: int, n_states: int) -> Indices:
    """The features of coordinates without penalty, which must be whole rows."""
    if coords.size == 0:
        return coords
    unpenalised, counts = np.unique(coords % n_features, return_counts=True)
    if np.any(counts != n_states):
        raise InputError(
            f"expected all {n_states} weights of a feature to be free or none, "
            f"got {counts.min()} of feature {unpenalised[counts.argmin()]}"
        )
    return unpenalised
