"""The coordinates of weights in a training: the labels and features of a model, and the numbers of their weights.

Shapes: F features, D dense ones, K labels or nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, SparseWeights
from crfqn.data.vocabulary import NO_COLUMNS, Vocabulary
from crfqn.model.content import CHAIN, Entries
from crfqn.model.sequences import SequenceModel
from crfqn.model.trained import Trained
from crfqn.model.weights import (
    Axes,
    AxisMatch,
    WeightMatrix,
    joined_weights,
    match_axes,
    print_start,
    sorted_weights,
    split_weights,
)
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules


@dataclass(frozen=True, eq=False)
class Space(ABC):
    """Labels and features; `model` makes a model of any weights for them, `weights` does the opposite.

    n_features : int, F; n_dense : int, D dense features, which come before the F in a training
    loss : str, of the training
    has_constant : whether a constant feature follows the F
    bigram_columns : the features with weights for pairs of labels, sorted
    """

    has_transitions: ClassVar[bool] = False  # whether the penalty includes weights of pairs of labels

    n_features: int
    n_dense: int = field(default=0, kw_only=True)
    loss: str = field(default="logistic", kw_only=True)
    has_constant: bool = field(default=False, kw_only=True)
    bigram_columns: Coords = field(default_factory=lambda: NO_COLUMNS, kw_only=True)

    @classmethod
    @abstractmethod
    def from_model(cls, model: Any) -> Self:
        """Return the space of the weights of a model."""

    @cached_property
    def n_states(self) -> int:
        """The number of labels or nodes, K."""
        return len(self.axes.labels)

    @property
    @abstractmethod
    def axes(self) -> Axes:
        """The names of labels or nodes, and of features."""

    @property
    def n_columns(self) -> int:
        """The number of columns of a training's weights without a dense block: F, or F + 1 with a constant."""
        return self.n_features + self.has_constant

    @property
    def unpenalised(self) -> Coords:
        """The coordinates of intercepts without penalty, sorted."""
        return NO_COORDS

    def model(self, weights: SparseWeights, trained: Trained | None = None) -> Any:
        """Return the model with some weights, sorted by coordinate."""
        dense = np.empty((self.n_states, 0))
        if self.n_dense:
            dense, weights = split_weights(weights, self.n_states, self.n_columns, self.n_dense)
        return self._model(weights, dense, trained)

    def weights(self, model: Any, common: AxisMatch | None = None) -> SparseWeights:
        """Return the non-zero weights of a model, or those of common labels and features, sorted by coordinate."""
        if common is None:
            common = AxisMatch(np.arange(self.n_states), None)
        weights = self._sparse_weights(model, common)
        if not self.n_dense:
            return weights
        table = np.zeros((self.n_states, self.n_dense))
        if model.n_dense_ == self.n_dense:
            stays = common.rows >= 0
            table[common.rows[stays]] = model.dense_coef_[stays]
        return joined_weights(table, weights, self.n_columns)

    def start(self, model: Any, is_required: bool, is_verbose: bool) -> SparseWeights | None:
        """Return the weights of a model for common labels and features, from which a training starts. If features
        do not match_axes, return None, or raise InputError if the start `is_required`."""
        before = self.from_model(model)
        common = match_axes(before.axes, self.axes, is_required)
        weights = None if common is None else self.weights(model, common)
        if is_verbose:
            print_start(common, self.axes, weights, before.weights(model).n_nonzero)
        return weights

    @abstractmethod
    def _model(self, weights: SparseWeights, dense: NDArray, trained: Trained | None) -> Any:
        """Return the model with the weights of a dense block, (K, D), and other weights."""

    @abstractmethod
    def _sparse_weights(self, model: Any, common: AxisMatch) -> SparseWeights:
        """Return the weights of a model for common labels and features, without those of a dense block."""


@dataclass(frozen=True, eq=False)
class SequenceSpace(Space):
    """The labels, features and rules of a chain. Coordinates: node weights (K, D + F), then edge weights (K, K), then
    those of B bigram features (B, K, K).

    classes : ndarray (K,); vocabulary, rules : or None
    scheme, once : as in `SequenceModel`
    """

    has_transitions: ClassVar[bool] = True

    classes: NDArray
    vocabulary: Vocabulary | None = None
    rules: TransitionRules | None = None
    scheme: str | None = None
    once: tuple[Hashable, ...] = ()

    @classmethod
    def from_model(cls, model: SequenceModel) -> Self:
        return cls(
            model.n_features_in_,
            model.classes_,
            model.vocabulary,
            model.rules_,
            model.scheme,
            tuple(model.once),
            bigram_columns=model.bigram_columns_,
            n_dense=model.n_dense_,
            loss=model.loss,
        )

    @property
    def axes(self) -> Axes:
        names = None if self.vocabulary is None else self.vocabulary.names
        return Axes(self.classes.tolist(), self.n_features, names)

    def _model(self, weights: SparseWeights, dense: NDArray, trained: Trained | None) -> SequenceModel:
        n_states, n_features = self.n_states, self.n_features
        layout = EdgeLayout(n_states, 1 + self.bigram_columns.size)
        end = int(np.searchsorted(weights.coords, n_states * n_features))
        rows, columns = np.divmod(weights.coords[:end], n_features)
        nodes = Entries(weights.weights[:end], rows, columns)
        first, second, context = layout.split(weights.coords[end:] - n_states * n_features)
        n_edges, values, bigrams = int(np.searchsorted(context, 1)), weights.weights[end:], None
        edges = Entries(values[:n_edges], first[:n_edges], second[:n_edges])
        if layout.n_contexts > 1:
            pairs = layout.numbers(first[n_edges:], second[n_edges:])
            entries = Entries(values[n_edges:], pairs, self.bigram_columns[context[n_edges:] - 1])
            bigrams = WeightMatrix.from_entries(entries, (layout.n_pairs, n_features))
        return SequenceModel(
            kind=CHAIN,
            classes_=self.classes,
            n_features_in_=n_features,
            weights=WeightMatrix.from_entries(nodes, (n_states, n_features)),
            dense_coef_=dense,
            loss=self.loss,
            trained=trained,
            vocabulary=self.vocabulary,
            rules_=self.rules,
            edges=WeightMatrix.from_entries(edges, (n_states, n_states)),
            bigrams=bigrams,
            scheme=self.scheme,
            once=self.once,
        )

    def _sparse_weights(self, model: SequenceModel, common: AxisMatch) -> SparseWeights:
        rows, columns, values = common.entries(model.coef_)
        layout = EdgeLayout(self.n_states, 1 + self.bigram_columns.size)
        first, second, edges = AxisMatch(common.rows, common.rows).entries(model.transition_coef_)
        coords, edge_weights = [layout.numbers(first, second)], [edges]
        if model.bigrams is not None:
            weights, pairs, features = model.bigrams.entries()
            from_, to, _ = EdgeLayout(common.rows.size).split(pairs)
            first, second = common.rows[from_], common.rows[to]
            features = features if common.columns is None else common.columns[features]
            stays = (first >= 0) & (second >= 0) & np.isin(features, self.bigram_columns)
            context = 1 + np.searchsorted(self.bigram_columns, features[stays])
            coords.append(layout.numbers(first[stays], second[stays], context))
            edge_weights.append(weights[stays])
        n_nodes = self.n_states * self.n_features
        return sorted_weights(
            np.concatenate([rows * self.n_features + columns, n_nodes + np.concatenate(coords)]),
            np.concatenate([values, *edge_weights]),
        )
