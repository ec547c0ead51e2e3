"""What the weights of a chain are of: a fitted model without its weights, and how these are numbered in a training.

Shapes: F features, D dense ones, K labels. Coordinates: node weights (K, D + F), then edge weights (K, K), then those
of B bigram features (B, K, K).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

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
    match,
    print_start,
    sorted_weights,
    split_weights,
)
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules


@dataclass(frozen=True, eq=False)
class SequenceSpace:
    """The labels, features and rules of a chain.

    classes : ndarray (K,); n_features : int, F; n_dense : int, D; vocabulary, rules : None without any
    scheme, once, loss : what else a model knows of its training, as of `SequenceModel`
    bigram_columns : the features with weights for pairs of labels, sorted
    """

    has_transitions: ClassVar[bool] = True
    unpenalised: ClassVar[Coords] = NO_COORDS  # of a penalty without factors

    classes: NDArray
    n_features: int
    vocabulary: Vocabulary | None = None
    rules: TransitionRules | None = None
    n_dense: int = 0
    scheme: str | None = None
    once: tuple[Any, ...] = ()
    loss: str = "logistic"
    bigram_columns: NDArray[np.int64] = field(default_factory=lambda: NO_COLUMNS)

    @classmethod
    def of(cls, model: SequenceModel) -> SequenceSpace:
        """Return the space of a model's weights."""
        return cls(
            model.classes_,
            model.n_features_in_,
            model.vocabulary_,
            model.rules_,
            model.n_dense_,
            model.scheme,
            tuple(model.once),
            model.loss,
            model.bigram_columns_,
        )

    @property
    def n_states(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def n_columns(self) -> int:
        """D + F."""
        return self.n_dense + self.n_features

    @property
    def feature_names(self) -> Any:
        """The names of the F features, None without."""
        return None if self.vocabulary is None else self.vocabulary.names

    @property
    def axes(self) -> Axes:
        """The names of labels and features."""
        return Axes(self.classes.tolist(), self.n_features, self.feature_names)

    @cached_property
    def _layout(self) -> EdgeLayout:
        return EdgeLayout(self.n_states, 1 + self.bigram_columns.size)

    def model(self, weights: SparseWeights, trained: Trained | None = None) -> SequenceModel:
        """Return the model with these weights, sorted by coordinate."""
        n_states, n_features, layout = self.n_states, self.n_features, self._layout
        dense = np.empty((n_states, 0))
        if self.n_dense:
            dense, weights = split_weights(weights, n_states, n_features, self.n_dense)
        end = int(np.searchsorted(weights.coords, n_states * n_features))
        rows, columns = np.divmod(weights.coords[:end], n_features)
        nodes = Entries(weights.weights[:end], rows, columns)
        first, second, context = layout.split(weights.coords[end:] - n_states * n_features)
        behind, values, bigrams = int(np.searchsorted(context, 1)), weights.weights[end:], None
        edges = Entries(values[:behind], first[:behind], second[:behind])
        if layout.has_contexts:
            pairs = layout.numbers(first[behind:], second[behind:])
            entries = Entries(values[behind:], pairs, self.bigram_columns[context[behind:] - 1])
            bigrams = WeightMatrix.of(entries, (layout.n_pairs, n_features))
        return SequenceModel(
            kind=CHAIN,
            classes_=self.classes,
            n_features_in_=n_features,
            weights=WeightMatrix.of(nodes, (n_states, n_features)),
            dense_coef_=dense,
            loss=self.loss,
            vocabulary_=self.vocabulary,
            rules_=self.rules,
            edges=WeightMatrix.of(edges, (n_states, n_states)),
            bigrams=bigrams,
            scheme=self.scheme,
            once=self.once,
            trained=trained,
        )

    def weights(self, model: SequenceModel, common: AxisMatch | None = None) -> SparseWeights:
        """Return the weights of a model, or of the labels and features in common, as a training in this space has them,
        zeros left out."""
        if common is None:
            common = AxisMatch(np.arange(self.n_states), np.arange(self.n_features))
        rows, columns, values = common.entries(model.coef_)
        first, second, edges = AxisMatch(common.rows, common.rows).entries(model.edge_coef_)
        coords, edge_weights = [self._layout.numbers(first, second)], [edges]
        if model.bigrams is not None:
            weights, pairs, features = model.bigrams.entries()
            from_, to, _ = EdgeLayout(common.rows.size).split(pairs)
            first, second, features = common.rows[from_], common.rows[to], common.columns[features]
            stays = (first >= 0) & (second >= 0) & np.isin(features, self.bigram_columns)
            context = 1 + np.searchsorted(self.bigram_columns, features[stays])
            coords.append(self._layout.numbers(first[stays], second[stays], context))
            edge_weights.append(weights[stays])
        n_nodes = self.n_states * self.n_features
        sparse = sorted_weights(
            np.concatenate([rows * self.n_features + columns, n_nodes + np.concatenate(coords)]),
            np.concatenate([values, *edge_weights]),
        )
        if not self.n_dense:
            return sparse
        table = np.zeros((self.n_states, self.n_dense))
        if model.n_dense_ == self.n_dense:
            stays = common.rows >= 0
            table[common.rows[stays]] = model.dense_coef_[stays]
        return joined_weights(table, sparse, self.n_features)

    def start(self, model: SequenceModel, is_asked: bool, is_told: bool) -> SparseWeights | None:
        """Return what of a model's weights a training begins with, those of labels and features in common; None where
        features do not match, InputError if the start `is_asked` for. `is_told`: on stderr, too."""
        before = SequenceSpace.of(model)
        common = match(before.axes, self.axes, is_asked)
        weights = None if common is None else self.weights(model, common)
        if is_told:
            print_start(common, self.axes, weights, before.weights(model).n_nonzero)
        return weights
