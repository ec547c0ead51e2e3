"""The coordinates of the weights of models of single items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, SparseWeights
from crfqn.errors import InputError
from crfqn.model.content import Entries
from crfqn.model.item_model import ItemModel
from crfqn.model.label_index import LabelIndex
from crfqn.model.space import Space
from crfqn.model.trained import Trained
from crfqn.model.weights import Axes, AxisMatch, WeightMatrix, sorted_weights


@dataclass(frozen=True, eq=False)
class ItemSpace(Space):
    """The labels and features of single items. Coordinates: (K, D + F), with a constant (K, D + F + 1).

    kind : str, of the model; labels : LabelIndex, of K nodes
    feature_names : by column, None without names
    has_constant : whether the last feature is constant; its weights are the intercepts
    is_constant_free : whether the intercepts have no penalty
    is_centered : whether a common shift of all intercepts does not change the loss, so that free intercepts are centred
    has_taxonomy : whether users gave the tree of the labels
    """

    labels: LabelIndex
    kind: str
    feature_names: Any = None
    is_constant_free: bool = False
    is_centered: bool = True
    has_taxonomy: bool = False

    @classmethod
    def from_model(cls, model: ItemModel) -> Self:
        has_constant = model.trained is not None and bool(model.trained.settings.get("fit_intercept", False))
        return cls(
            model.n_features_in_,
            model.labels,
            model.kind,
            model.feature_names,
            has_constant=has_constant,
            n_dense=model.n_dense_,
            loss=model.loss,
        )

    @property
    def axes(self) -> Axes:
        return Axes(self.labels.node_names, self.n_features, self.feature_names)

    @property
    def unpenalised(self) -> Coords:
        if not (self.has_constant and self.is_constant_free):
            return NO_COORDS
        return np.arange(1, self.n_states + 1, dtype=np.int64) * (self.n_dense + self.n_columns) - 1

    def _model(self, weights: SparseWeights, dense: NDArray, trained: Trained | None) -> ItemModel:
        labels, n_features = self.labels, self.n_features
        rows, columns = np.divmod(weights.coords, self.n_columns)
        is_intercept = columns == n_features
        intercept = np.zeros(self.n_states)
        intercept[rows[is_intercept]] = weights.weights[is_intercept]
        if self.is_constant_free and self.is_centered:  # so that the start does not matter
            intercept = labels.centered(intercept)
        nodes = Entries(*(part[~is_intercept] for part in (weights.weights, rows, columns)))
        return ItemModel(
            kind=self.kind,
            classes_=labels.classes,
            n_features_in_=n_features,
            weights=WeightMatrix.from_entries(nodes, (self.n_states, n_features)),
            intercept=intercept,
            dense_coef_=dense,
            loss=self.loss,
            trained=trained,
            labels=labels,
            feature_names=self.feature_names,
            has_taxonomy=self.has_taxonomy,
        )

    def _sparse_weights(self, model: ItemModel, common: AxisMatch) -> SparseWeights:
        """A flat model keeps its scores in a taxonomy; InputError for the weights of a taxonomy in a flat model."""
        if model.labels.tree is not None and self.labels.tree is None:
            raise InputError(
                "start: expected a model with weights of its classes, got one of a taxonomy's nodes"
            )
        rows, columns, values = common.entries(model.coef_)
        coords = rows * self.n_columns + columns
        if self.has_constant and model.intercept is not None:
            stays = common.rows >= 0
            coords = np.append(coords, (common.rows[stays] + 1) * self.n_columns - 1)
            values = np.append(values, model.intercept[stays])
        return sorted_weights(coords, values)
