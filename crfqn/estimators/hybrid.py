"""Models with a dense block of weights, under l2 alone, beside the sparse ones: how the two are laid out for training.

The columns of the problem are the D dense features, the sparse ones behind them and perhaps a constant; the model keeps
`dense_coef_` (K, D) and `coef_`, and its sparse weights alone are numbered as those of a model without a dense block.
Shapes: K states, F features of the sparse block with its constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.data.hybrid import Features
from crfqn.errors import InputError
from crfqn.estimators.base import SparseLinearModel
from crfqn.estimators.weights import merged
from crfqn.model.content import DENSE, ModelContent
from crfqn.penalties import Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class HybridModel(SparseLinearModel):
    """Base class of estimators that take `Features`, a dense block beside a sparse one; `n_dense_` is D, else 0."""

    dense_l2: float = 1.0

    dense_coef_: Vector = field(init=False)

    def _dense_coords(self, n_features: int, n_states: int) -> Coords:
        return (n_features * np.arange(n_states)[:, None] + np.arange(self.n_dense_)).reshape(-1)

    def _with_ridge(self, penalty: Any, dense: Coords) -> Any:
        return replace(penalty, ridge=Ridge(dense, float(self.dense_l2))) if dense.size else penalty

    def _check_no_dense(self, X: Any, what: str) -> None:
        """Refuse a dense block in what has none."""
        if isinstance(X, Features) or self.n_dense_:
            raise InputError(f"{what}: expected a model and items without a dense block, got crfqn.Features")

    def _start_beside(
        self, model: SparseLinearModel, n_states: int, rows: NDArray[np.int64], weights: SparseWeights | None
    ) -> SparseWeights | None:
        if not self.n_dense_ or weights is None:
            return weights
        table = np.zeros((n_states, self.n_dense_))
        if model.n_dense_ == self.n_dense_:
            table[rows[rows >= 0]] = model.dense_coef_[rows >= 0]  # type: ignore[attr-defined]
        return joined_weights(table, weights, self._n_columns)

    def _take_weights(self, weights: SparseWeights) -> None:
        self.__dict__.pop("dense_coef_", None)
        if self.n_dense_:
            n_states = self._n_states
            self.dense_coef_, weights = split_weights(weights, n_states, self._n_columns, self.n_dense_)
        super()._take_weights(weights)

    def _all_weights(self) -> SparseWeights:
        weights = super()._all_weights()
        return joined_weights(self.dense_coef_, weights, self._n_columns) if self.n_dense_ else weights

    def _content(self) -> ModelContent:
        content = super()._content()
        if self.n_dense_:
            content.arrays[DENSE] = self.dense_coef_
        return content


def split_weights(
    weights: SparseWeights, n_states: int, n_columns: int, n_dense: int
) -> tuple[Vector, SparseWeights]:
    """Return the dense weights of a problem, (K, D), and the others, numbered without them; n_columns : F."""
    coords, values = weights
    wide, n_nodes = n_dense + n_columns, n_states * (n_dense + n_columns)
    states, features = np.divmod(coords, wide)
    is_node = coords < n_nodes
    is_dense = is_node & (features < n_dense)
    table = np.zeros((n_states, n_dense))
    table[states[is_dense], features[is_dense]] = values[is_dense]
    shift = np.where(is_node, n_dense * (states + 1), n_dense * n_states)
    return table, SparseWeights((coords - shift)[~is_dense], values[~is_dense])


def joined_weights(table: Vector, weights: SparseWeights, n_columns: int) -> SparseWeights:
    """Return what `split_weights` took apart, dense weights of 0 left out."""
    n_states, n_dense = table.shape
    coords, values = weights
    states = np.minimum(coords // n_columns + 1, n_states)
    dense_states, dense_features = np.nonzero(table)
    dense_coords = dense_states * (n_dense + n_columns) + dense_features
    dense = SparseWeights(dense_coords, table[dense_states, dense_features])
    return merged(SparseWeights(coords + n_dense * states, values), dense)
