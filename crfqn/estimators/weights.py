"""Weights between the solvers' form, sorted coordinates with values, and the users', sparse matrices with names.

A training may start from the weights of another model: labels (of a taxonomy: nodes) are matched by name; features too
where both sides have names, otherwise by their number, and then there have to be as many. What only one of the two has
is left out, and starts from zero.

A dense block under l2 alone may stand beside the sparse weights. The columns of the problem are then the D dense
features, the sparse ones behind them and perhaps a constant; the model keeps `dense_coef_` (K, D) and `coef_`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights, Vector
from crfqn.errors import InputError
from crfqn.model.weights import WeightMatrix


class FittedArray:
    """Attribute of fitted estimators: an array of their model."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        array = getattr(model.__dict__.get("model_"), self.field, None)
        if array is None:
            raise AttributeError(f"{type(model).__name__} has no {self.field} of a training")
        return array

    def __set__(self, model: Any, array: Any) -> None:
        model.model_ = replace(model.model_, **{self.field: np.asarray(array)})


class FittedMatrix(FittedArray):
    """Attribute of fitted estimators: weights of their model as a `csr_array`, in the model's own memory."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        matrix = super().__get__(model, owner)
        return self if model is None else matrix.csr

    def __set__(self, model: Any, matrix: Any) -> None:
        model.model_ = replace(model.model_, **{self.field: WeightMatrix.of_sparse(matrix)})


@dataclass(frozen=True, eq=False)
class Axes:
    """Names of the rows and columns of a model's weights: labels or nodes, and features if they have names."""

    labels: Sequence[Any]
    n_features: int
    features: Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class AxisMatch:
    """Labels (`rows`) and features (`columns`) that two models have in common: of each old one its number among the
    new, -1 for those that are gone."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]

    def entries(self, matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return rows, columns and values of the weights (labels x features) that stay, at their new places."""
        cells = matrix.tocoo()
        rows, columns = self.rows[cells.row], self.columns[cells.col]
        stays = (rows >= 0) & (columns >= 0)
        return rows[stays], columns[stays], cells.data[stays]


def match(old: Axes, new: Axes, is_asked: bool) -> AxisMatch | None:
    """Return labels and features in common; None if features do not match, InputError if the start `is_asked` for."""
    rows = new_numbers(old.labels, new.labels)
    if old.features is not None and new.features is not None:
        return AxisMatch(rows, new_numbers(old.features, new.features))
    if old.n_features == new.n_features:
        return AxisMatch(rows, np.arange(old.n_features))
    if is_asked:
        raise InputError(
            f"start: expected a model of {new.n_features} features, or names of features on both sides, "
            f"got one of {old.n_features}"
        )
    return None


def sorted_weights(coords: NDArray[np.int64], values: NDArray[np.float64]) -> SparseWeights:
    """Return the weights that are not zero, sorted by coordinate."""
    coords, values = coords[values != 0], values[values != 0]
    order = np.argsort(coords)
    return SparseWeights(coords[order], values[order])


def print_start(common: AxisMatch | None, new: Axes, weights: SparseWeights | None, n_before: int) -> None:
    """Say on stderr what was kept of the model that the training starts from."""
    if common is None or weights is None:
        text = "start: nothing kept, other features without names"
    else:
        n_labels, n_features = (int((numbers >= 0).sum()) for numbers in (common.rows, common.columns))
        text = (
            f"start: {weights.coords.size:,} of {n_before:,} weights kept; in common {n_labels:,} of "
            f"{len(new.labels):,} labels, {n_features:,} of {new.n_features:,} features"
        )
    print(text, file=sys.stderr, flush=True)


def new_numbers(old: Sequence[Any], new: Sequence[Any]) -> NDArray[np.int64]:
    """Return the number among the new names of each old one, int64, -1 for those that are gone."""
    number = dict(zip(new, range(len(new)), strict=True))
    return np.array([number.get(name, -1) for name in old], np.int64)


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
    coords = np.concatenate([coords + n_dense * states, dense_coords])
    return sorted_weights(coords, np.concatenate([values, table[dense_states, dense_features]]))
