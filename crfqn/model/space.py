"""Spaces of weights: labels and features that a model has weights of, and how the weights are numbered in a training.

Shapes: F features, D dense ones, K labels or nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    Same,
    WeightMatrix,
    joined_weights,
    match,
    print_start,
    sorted_weights,
    split_weights,
)
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules


@dataclass(frozen=True, eq=False)
class Space(ABC):
    """Labels and features, with a model of any weights.

    n_features : int, F; n_dense : int, D, which come before the F in a training, 0 without a dense block
    loss : str, of the training
    """

    has_transitions: ClassVar[bool] = (
        False  # weights of pairs of labels are penalised beside those of features
    )

    n_features: int
    n_dense: int = field(default=0, kw_only=True)
    loss: str = field(default="logistic", kw_only=True)

    @classmethod
    @abstractmethod
    def from_model(cls, model: Any) -> Self:
        """Return the space of a model's weights."""

    @property
    @abstractmethod
    def n_states(self) -> int:
        """K."""

    @property
    @abstractmethod
    def axes(self) -> Axes:
        """The names of labels or nodes, and of features."""

    @property
    def n_columns(self) -> int:
        """The number of columns of a training's weights without a dense block: F, and perhaps a constant."""
        return self.n_features

    @property
    def unpenalised(self) -> Coords:
        """The coordinates of intercepts without penalty, sorted."""
        return NO_COORDS

    @property
    def bigram_columns(self) -> Coords:
        """The features with weights for pairs of labels, sorted."""
        return NO_COLUMNS

    def model(self, weights: SparseWeights, trained: Trained | None = None) -> Any:
        """Return the model with these weights, sorted by coordinate."""
        dense = np.empty((self.n_states, 0))
        if self.n_dense:
            dense, weights = split_weights(weights, self.n_states, self.n_columns, self.n_dense)
        return self._model(weights, dense, trained)

    def weights(self, model: Any, common: AxisMatch | None = None) -> SparseWeights:
        """Return the weights of a model, or those of labels and features in common, by coordinate, without zeros."""
        if common is None:
            common = AxisMatch(np.arange(self.n_states), Same())
        weights = self._sparse_weights(model, common)
        if not self.n_dense:
            return weights
        table = np.zeros((self.n_states, self.n_dense))
        if model.n_dense_ == self.n_dense:
            stays = common.rows >= 0
            table[common.rows[stays]] = model.dense_coef_[stays]
        return joined_weights(table, weights, self.n_columns)

    def start(self, model: Any, is_required: bool, is_verbose: bool) -> SparseWeights | None:
        """Return the weights of a model that a training starts from, those of labels and features in common. Where
        features do not match, it is None, or an InputError if the start `is_required`."""
        before = self.from_model(model)
        common = match(before.axes, self.axes, is_required)
        weights = None if common is None else self.weights(model, common)
        if is_verbose:
            print_start(common, self.axes, weights, before.weights(model).n_nonzero)
        return weights

    @abstractmethod
    def _model(self, weights: SparseWeights, dense: NDArray, trained: Trained | None) -> Any:
        """Return the model with the weights of a dense block, (K, D), and the others."""

    @abstractmethod
    def _sparse_weights(self, model: Any, common: AxisMatch) -> SparseWeights:
        """Return a model's weights of labels and features in common, without those of a dense block."""


@dataclass(frozen=True, eq=False)
class SequenceSpace(Space):
    """The labels, features and rules of a chain. Coordinates: node weights (K, D + F), then edge weights (K, K), then
    those of B bigram features (B, K, K).

    classes : ndarray (K,); vocabulary, rules : None without any
    scheme, once : what else a model knows of its training, as of `SequenceModel`
    bigrams : the features with weights for pairs of labels, sorted
    """

    has_transitions: ClassVar[bool] = True

    classes: NDArray
    vocabulary: Vocabulary | None = None
    rules: TransitionRules | None = None
    scheme: str | None = None
    once: tuple[Any, ...] = ()
    bigrams: NDArray[np.int64] = field(default_factory=lambda: NO_COLUMNS)

    @classmethod
    def from_model(cls, model: SequenceModel) -> Self:
        return cls(
            model.n_features_in_,
            model.classes_,
            model.vocabulary,
            model.rules_,
            model.scheme,
            tuple(model.once),
            model.bigram_columns_,
            n_dense=model.n_dense_,
            loss=model.loss,
        )

    @property
    def axes(self) -> Axes:
        names = None if self.vocabulary is None else self.vocabulary.names
        return Axes(self.classes.tolist(), self.n_features, names)

    @property
    def n_states(self) -> int:
        return len(self.classes)

    @property
    def bigram_columns(self) -> Coords:
        return self.bigrams

    @cached_property
    def _layout(self) -> EdgeLayout:
        return EdgeLayout(self.n_states, 1 + self.bigrams.size)

    def _model(self, weights: SparseWeights, dense: NDArray, trained: Trained | None) -> SequenceModel:
        n_states, n_features, layout = self.n_states, self.n_features, self._layout
        end = int(np.searchsorted(weights.coords, n_states * n_features))
        rows, columns = np.divmod(weights.coords[:end], n_features)
        nodes = Entries(weights.weights[:end], rows, columns)
        first, second, context = layout.split(weights.coords[end:] - n_states * n_features)
        behind, values, bigrams = int(np.searchsorted(context, 1)), weights.weights[end:], None
        edges = Entries(values[:behind], first[:behind], second[:behind])
        if layout.has_contexts:
            pairs = layout.numbers(first[behind:], second[behind:])
            entries = Entries(values[behind:], pairs, self.bigrams[context[behind:] - 1])
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
        first, second, edges = AxisMatch(common.rows, common.rows).entries(model.transition_coef_)
        coords, edge_weights = [self._layout.numbers(first, second)], [edges]
        if model.bigrams is not None:
            weights, pairs, features = model.bigrams.entries()
            from_, to, _ = EdgeLayout(common.rows.size).split(pairs)
            first, second, features = common.rows[from_], common.rows[to], common.columns[features]
            stays = (first >= 0) & (second >= 0) & np.isin(features, self.bigrams)
            context = 1 + np.searchsorted(self.bigrams, features[stays])
            coords.append(self._layout.numbers(first[stays], second[stays], context))
            edge_weights.append(weights[stays])
        n_nodes = self.n_states * self.n_features
        return sorted_weights(
            np.concatenate([rows * self.n_features + columns, n_nodes + np.concatenate(coords)]),
            np.concatenate([values, *edge_weights]),
        )
