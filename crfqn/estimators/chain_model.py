"""The machinery of `ChainCRF`: its data, its training, the scores of new items, its weights and its part of a file.

Shapes: I items, N positions, F features, K labels. Weights are node weights (K, F), then edge weights (K, K), then
those of B bigram features (B, K, K).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import Tags

from crfqn.arrays import SparseWeights
from crfqn.blas import single_threaded_blas
from crfqn.data.encoding import encode_sequences, in_columns_of
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features, check_dense, sparse_of
from crfqn.data.items import Handover, check_item_weights, check_position_weights, class_factors
from crfqn.data.labels import (
    PartialLabels,
    encode_known_labels,
    flat_labels,
    flat_partial_labels,
    lists_by_item,
)
from crfqn.data.model_file import ModelFile
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import TemplateVocabulary
from crfqn.data.vocabulary import NO_COLUMNS, Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.automatic import AUTO
from crfqn.estimators.base import Problem, start_within
from crfqn.estimators.blocks import Blocks, check_alone
from crfqn.estimators.online import known_classes
from crfqn.estimators.structured import StructuredEstimator
from crfqn.estimators.training import check_validation, held_out, refuse_scores_of_single_labels
from crfqn.estimators.transitions import (
    Transitions,
    as_transitions,
    find_broken,
    items_that_stay,
    refuse_bigrams,
    take_items,
    training_data,
)
from crfqn.messages import shorten
from crfqn.model.compiled_engine import EncodedItems
from crfqn.model.content import Entries, ModelContent
from crfqn.model.sequences import SequenceModel, single_run_rules
from crfqn.model.weights import Axes, AxisMatch, FittedMatrix, WeightMatrix, sorted_weights
from crfqn.objectives.linear.dense_map import DenseMap, Joined
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import PartialLikelihood
from crfqn.objectives.losses.position_likelihood import PositionLikelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.support import Support, observed_support
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


@dataclass(eq=False, repr=False, kw_only=True)
class ChainModel(StructuredEstimator):
    """Base class of `ChainCRF`, with all but its public methods."""

    l2: float | str | None = field(default=AUTO, kw_only=False)
    min_count: int = 1
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    scheme: str | None = None
    constraints: Transitions | str | None = None
    once: Collection[Any] | None = None
    class_weight: Mapping | str | None = None
    constrain: str = "both"
    on_violation: str = "error"
    client: Any = None
    wait: float = 60.0

    NOT_SAVED: ClassVar[tuple[str, ...]] = (*StructuredEstimator.NOT_SAVED, "client", "wait")

    model_: SequenceModel = field(init=False)
    edge_coef_ = FittedMatrix("edges")
    bigram_coef_ = FittedMatrix("bigrams")
    vocabulary_: Vocabulary | None = field(init=False)
    rules_: TransitionRules | None = field(init=False)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sequences are no 2-D arrays, and have no single class to stratify by."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles: in the place of a client the address of its scheduler."""
        state: Any = super().__getstate__()
        scheduler = getattr(self.client, "scheduler", None)
        return state if scheduler is None else {**state, "client": scheduler.address}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy, which shares the client."""
        bare = copy(self)
        bare.client = None
        clone: Any = super(ChainModel, bare).__sklearn_clone__()
        clone.client = self.client
        return clone

    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Problem:
        """Return the training that `fit` would do, without doing it; parameters and errors as in `fit`."""
        self._check_parameters()
        X = Handover.taken(X)
        if self.client is not None:
            from crfqn.estimators.sharded_chain import prepare_sharded

            check_dense(X, 0)
            return prepare_sharded(self, X, y, sample_weight, start, validation)
        if isinstance(X, Blocks):
            check_alone(X, y, sample_weight, validation)
            return self._prepare_blocks(X, start)
        encoded, vocabulary = self._without_rare(*encode_sequences(sparse_of(X)))
        sequences: Any = X.beside(encoded) if isinstance(X, Features) else encoded
        del X  # so that a caller who does not keep it gets its memory back once the store is built
        sequences, labels, weights, position_weights, rules = training_data(
            sequences,
            y,
            *check_position_weights(sample_weight, sequences.offsets),
            self._transitions,
            self.constrain == "both",
            self.on_violation,
        )
        weights, position_weights = self._position_weights(
            labels, sequences.offsets, weights, position_weights
        )
        model = self._with_data(labels.classes, sparse_of(sequences).n_features, vocabulary, rules)
        model.n_dense_ = sequences.n_dense if isinstance(sequences, Features) else 0
        begin = self._start(model, start)
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            matrix = sparse_of(sequences).matrix
            chain = model._chain(sequences.offsets, is_training=True, matrix=matrix)
            if vocabulary is not None:
                matrix = without_columns(matrix, vocabulary.only_bigram_columns)
            store = FeatureStore.from_matrix(matrix, sequences.offsets)
            features: Any = SparseMap(store, pool)
            if isinstance(sequences, Features):
                features = Joined([DenseMap.of(sequences.dense, sequences.offsets, pool=pool), features])
            del sequences, encoded, matrix
            held = None if validation is None else model._validation_set(validation, store.n_positions)
            targets: Any = labels.targets
            if labels.allowed is not None:
                if not self._loss_form.loss_class.has_marginals:
                    raise InputError(f"loss={self.loss!r}: expected known labels, but some are None or sets")
                if not (self.all_possible_states and self.all_possible_transitions):
                    raise InputError(
                        "expected known labels where all_possible_states or all_possible_transitions is False: None or "
                        "a set does not say what occurs"
                    )
                targets = labels.allowed
            support = model._support(store, targets, chain)
            if position_weights is not None:
                targets = WeightedLabels(targets, position_weights)
            objective = model._objective(features, chain, targets, weights, support)
            begin = start_within(support, begin)
            return model._posed(objective, features, targets, weights, begin, validation=held)

    def _without_rare(
        self, sequences: Sequences, vocabulary: Vocabulary | None
    ) -> tuple[Sequences, Vocabulary | None]:
        """Return items without the features of fewer than `min_count` positions; columns without names stay, empty."""
        if self.min_count == 1:
            return sequences, vocabulary
        if isinstance(vocabulary, TemplateVocabulary):
            raise InputError(
                "min_count: expected 1 for items of templates, which count features themselves: Templates(min_count=)"
            )
        matrix = scipy.sparse.csr_array(sequences.matrix)
        is_frequent = (
            np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1]) >= self.min_count
        )
        if not is_frequent.any():
            raise InputError(f"min_count: expected features at {self.min_count} positions, got none")
        if vocabulary is None:
            matrix = without_columns(matrix, np.flatnonzero(~is_frequent))
            return Sequences.from_checked(matrix, sequences.offsets, None), None
        names = [vocabulary.names[column] for column in np.flatnonzero(is_frequent)]
        return sequences.with_names(names), Vocabulary(names)

    def _position_weights(
        self,
        labels: PartialLabels,
        offsets: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        position_weights: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the weights of items, (I,), and of positions, (N,), with those of their labels; None for the latter
        where all positions of an item count alike: the item has that weight then."""
        if self.class_weight is None and position_weights is None:
            return weights, None
        if labels.allowed is not None:
            raise InputError(
                "class_weight, or sample_weight by position: expected known labels, but some are None or sets"
            )
        combined = np.ones(labels.targets.size) if position_weights is None else position_weights
        if self.class_weight is not None:
            by_position = combined if weights is None else combined * np.repeat(weights, np.diff(offsets))
            totals = np.bincount(labels.targets, by_position, len(labels.classes))
            combined = combined * class_factors(self.class_weight, labels.classes, totals)[labels.targets]
        if not combined.any():
            raise InputError("class_weight: expected at least one position of positive weight, got none")
        first = combined[offsets[:-1]]
        if np.array_equal(combined, np.repeat(first, np.diff(offsets))):
            return first if weights is None else first * weights, None
        if not self._loss_form.loss_class.has_marginals:
            raise InputError(
                f"loss={self.loss!r}: expected positions that count alike; class_weight and sample_weight by position "
                "need loss='logistic'"
            )
        return weights, combined

    def _prepare_blocks(self, blocks: Blocks, start: Any) -> Problem:
        """Return the training on blocks."""
        blocks.check_kind(is_of_sequences=True)
        refuse_bigrams(blocks.vocabulary, "blocks")
        self._check_batches("blocks expect True, as none has all that occurs")
        rules = self._transitions.rules_without_data(blocks.classes)
        model = self._with_data(blocks.classes, blocks.n_features, blocks.vocabulary, rules)
        begin = self._start(model, start)
        if rules is not None and self.constrain == "both":
            for number in range(blocks.n_items.size):
                block = blocks.read(number)
                labels = PartialLabels(blocks.classes, block.targets, None)
                broken = find_broken(rules, labels, block.store.offsets)
                if broken is not None:
                    raise InputError(
                        f"block {number}: {broken.first}; constrain='decoding' trains without rules"
                    )
        return model._posed_in_blocks(
            blocks,
            lambda store: model._chain(store.offsets, is_training=True),
            None,
            begin,
            support=model._within_patterns(),
        )

    def _prepare_batch(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, pool: Pool
    ) -> tuple[Self, Any, SparseMap, SparseWeights | None]:
        """Return what `learn_online` takes: a model with the batch's labels and features, objective, map and start."""
        self._check_parameters()
        self._check_batches("partial_fit expects True, as no batch has all that occurs")
        labels = known_classes(self, classes)
        sequences, vocabulary = self._grown(X)
        refuse_bigrams(vocabulary, "partial_fit")
        rules = self._transitions.rules_without_data(labels)
        targets: Any = encode_known_labels(y, sequences.offsets, labels)
        weights = check_item_weights(sample_weight, len(sequences))
        filled = sequences.lengths > 0
        if not filled.all():
            sequences, targets, weights = take_items(sequences, targets, weights, filled)
        if rules is not None and self.constrain == "both":
            broken = find_broken(rules, PartialLabels(labels, targets, None), sequences.offsets)
            if broken is not None:
                stays = items_that_stay(broken, len(sequences), self.on_violation)
                sequences, targets, weights = take_items(sequences, targets, weights, stays)
        model = self._with_data(labels, sequences.n_features, vocabulary, rules)
        begin = self._start(model, self if self._is_fitted else None)
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets)
        features, chain = SparseMap(store, pool), model._chain(store.offsets, is_training=True)
        objective = self._objective(features, chain, targets, weights, model._within_patterns())
        return model, objective, features, start_within(objective.support, begin)

    def _labelled_batch(self, X: Any, y: Any) -> tuple[Sequences, NDArray[np.object_]]:
        """Return what `refit` takes: the batch in the features that were known and its new ones, a list of labels an
        item."""
        sequences, vocabulary = self._grown(X)
        refuse_bigrams(vocabulary, "partial_fit")
        labels = np.empty(sequences.n_positions, object)
        labels[:] = flat_partial_labels(y, sequences.offsets)
        named = Sequences.from_checked(
            sequences.matrix, sequences.offsets, sequences.feature_names, vocabulary
        )
        return named, lists_by_item(labels, sequences.offsets)

    def _check_batches(self, reason: str) -> None:
        """Refuse what depends on all data."""
        for name in ("all_possible_states", "all_possible_transitions"):
            if not getattr(self, name):
                raise InputError(f"{name}: {reason}, got False")
        if self.min_count != 1:
            raise InputError("min_count: expected 1 for batches and blocks, none of which has all features")
        if self.class_weight is not None:
            raise InputError(
                "class_weight: expected None for batches and blocks, which never have all labels"
            )
        if self._transitions.seen:
            raise InputError(
                'constraints: "seen" needs all data at once, which batches and blocks never have'
            )

    def _grown(self, X: Any) -> tuple[Sequences, Vocabulary | None]:
        """Return the batch in the features that were known, and behind them its new ones."""
        if not self._is_fitted:
            return encode_sequences(X)
        known = self.vocabulary_
        if known is None or isinstance(known, TemplateVocabulary):
            return encode_sequences(X, known, n_features=self.n_features_in_)
        sequences, names = encode_sequences(X if isinstance(X, Sequences) else known.named(X))
        if names is None:
            raise InputError("expected features by name, as in the calls before, got matrices")
        vocabulary = known.grown(names)
        return sequences.with_names(vocabulary.names), vocabulary

    def _with_data(
        self, classes: NDArray, n_features: int, vocabulary: Vocabulary | None, rules: TransitionRules | None
    ) -> Self:
        """Return a copy with the labels, features and rules of a training, with a warning of rules of other labels."""
        _, unknown = single_run_rules(
            self._transitions.once or (), classes.tolist(), self._transitions.scheme
        )
        if unknown:
            warn_caller(f"once: labels that the training data do not have are ignored: {shorten(unknown)}")
        model = copy(self)
        model.classes_, model.n_features_in_ = classes, n_features
        model.vocabulary_, model.rules_, model.n_dense_ = vocabulary, rules, 0
        model.bigram_columns_ = NO_COLUMNS if vocabulary is None else vocabulary.bigram_columns  # type: ignore[misc]
        return model

    @property
    def _n_states(self) -> int:
        return len(self.classes_)

    def _chain(self, offsets: NDArray[np.int64], is_training: bool = False, matrix: Any = None) -> Chain:
        """Return the chain over items, under the rules that hold in decoding or in training; matrix : (N, F), whose
        columns of bigram features are used."""
        rules = self.rules_ if self.constrain == "both" or not is_training else None
        contexts = Contexts.of_columns(matrix, self.bigram_columns_, self._n_states)
        return Chain(offsets, self._n_states, rules=rules, contexts=contexts)

    def _validation_set(self, validation: Any, n_positions: int) -> ValidationSet:
        """Return validation items, encoded once for all looks; `n_positions`: those of the training."""
        X, y = check_validation(validation)
        sequences = self._encode(X)
        chain = self._chain(sequences.offsets, matrix=sparse_of(sequences).matrix)
        items: Any = EncodedItems.of(sparse_of(sequences), chain, self.bigram_columns_)
        if self.n_dense_:
            items = sequences.beside(items)
        labels = lists_by_item(np.asarray(flat_labels(y, sequences.offsets), object), sequences.offsets)
        return held_out(copy(self), items, labels, sequences.n_positions / n_positions)

    @property
    def _transitions(self) -> Transitions:
        """All rules on the labels, of the parameters that give some; InputError for anything else."""
        return as_transitions(self.constraints, self.scheme, self.once)

    def _support(self, store: FeatureStore, targets: NDArray[np.int32], chain: Chain) -> Support:
        """Return the weights that may be other than 0, by what occurs in the training data."""
        possible = self.all_possible_states, self.all_possible_transitions
        if not possible[0]:
            self._check_no_dense(None, "all_possible_states=False")
        support = observed_support(store, targets, chain.n_states, *possible)
        if self.bigram_columns_.size and not possible[1]:
            support = replace(support, edges=np.flatnonzero(chain.counts(targets)))
        n_nodes = support.n_node_coords + chain.n_states * self.n_dense_
        only_bigrams = () if self.vocabulary_ is None else self.vocabulary_.only_bigram_columns
        n_empty = chain.n_states * len(only_bigrams)
        support = replace(support, n_node_coords=n_nodes, n_edges=chain.n_edges, n_empty=n_empty)
        return self._within_patterns(support)

    def _within_patterns(self, support: Support | None = None) -> Support:
        """Return a support, by default of all weights of features and transitions, without transitions where the
        templates have no pattern of these."""
        layout = EdgeLayout(self._n_states)
        support = support or Support(self._n_states * self._n_columns, layout.size)
        if self.vocabulary_ is None or self.vocabulary_.has_edges:
            return support
        edges = np.arange(support.n_edges) if support.edges is None else support.edges
        return replace(support, edges=edges[edges >= layout.size])

    def _check_parameters(self) -> None:
        refuse_scores_of_single_labels()
        super()._check_parameters()
        as_transitions(self.constraints, self.scheme, self.once)

    def _loss(self, structure: Any, targets: Any) -> ScoreLoss:
        if isinstance(targets, WeightedLabels):
            return PositionLikelihood(structure, *targets)
        if targets.ndim == 2:
            return PartialLikelihood(structure, targets)
        return super()._loss(structure, targets)

    def _settings(self) -> dict[str, Any]:
        settings, rules = super()._settings(), self.constraints
        return settings | {"constraints": rules.to_json() if isinstance(rules, Transitions) else rules}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        rules = settings.get("constraints")
        if isinstance(rules, dict):
            settings = settings | {"constraints": Transitions.from_json(rules)}
        return super()._from_settings(settings)

    def _encode(self, X: Any) -> Any:
        """Return items as `Sequences` in the model's features, those that are open as they are, with their dense block
        if there is one."""
        X = check_dense(X, self.n_dense_)
        sparse = sparse_of(X)
        if not isinstance(sparse, EncodedItems):
            known, n_features = self.vocabulary_, self.n_features_in_
            sparse = in_columns_of(sparse, known)
            sparse, _ = encode_sequences(sparse, known, allow_empty=True, n_features=n_features)
        return X.beside(sparse) if isinstance(X, Features) else sparse

    @property
    def _feature_names(self) -> Any:
        return None if self.vocabulary_ is None else self.vocabulary_.names

    def _axes(self) -> Axes:
        return Axes(self.classes_.tolist(), self.n_features_in_, self._feature_names)

    def _set_weights(self, weights: SparseWeights) -> None:
        n_states, n_features = self._n_states, self.n_features_in_
        layout = EdgeLayout(n_states, 1 + self.bigram_columns_.size)
        end = int(np.searchsorted(weights.coords, n_states * n_features))
        rows, columns = np.divmod(weights.coords[:end], n_features)
        nodes = Entries(weights.weights[:end], rows, columns)
        first, second, context = layout.split(weights.coords[end:] - n_states * n_features)
        behind, values, bigrams = int(np.searchsorted(context, 1)), weights.weights[end:], None
        edges = Entries(values[:behind], first[:behind], second[:behind])
        if layout.has_contexts:
            pairs = layout.numbers(first[behind:], second[behind:])
            entries = Entries(values[behind:], pairs, self.bigram_columns_[context[behind:] - 1])
            bigrams = WeightMatrix.of(entries, (layout.n_pairs, n_features))
        self.model_ = SequenceModel(
            kind=self.KIND,
            classes_=self.classes_,
            n_features_in_=n_features,
            weights=WeightMatrix.of(nodes, (n_states, n_features)),
            dense_coef_=self.dense_coef_ if self.n_dense_ else np.empty((n_states, 0)),
            loss=self.loss,
            vocabulary_=self.vocabulary_,
            rules_=self.rules_,
            edges=WeightMatrix.of(edges, (n_states, n_states)),
            bigrams=bigrams,
            scheme=self._transitions.scheme,
            once=tuple(self._transitions.once or ()),
        )

    def _sparse_weights(self, model: Any, common: AxisMatch) -> SparseWeights:
        model = model.model_
        layout, known = EdgeLayout(self._n_states, 1 + self.bigram_columns_.size), self.bigram_columns_
        rows, columns, values = common.entries(model.coef_)
        first, second, edges = AxisMatch(common.rows, common.rows).entries(model.edge_coef_)
        coords, edge_weights = [layout.numbers(first, second)], [edges]
        if model.bigrams is not None:
            weights, pairs, features = model.bigrams.entries()
            from_, to, _ = EdgeLayout(common.rows.size).split(pairs)
            first, second, features = common.rows[from_], common.rows[to], common.columns[features]
            stays = (first >= 0) & (second >= 0) & np.isin(features, known)
            context = 1 + np.searchsorted(known, features[stays])
            coords.append(layout.numbers(first[stays], second[stays], context))
            edge_weights.append(weights[stays])
        n_nodes = self._n_states * self.n_features_in_
        return sorted_weights(
            np.concatenate([rows * self.n_features_in_ + columns, n_nodes + np.concatenate(coords)]),
            np.concatenate([values, *edge_weights]),
        )

    def _content(self) -> ModelContent:
        content = super()._content()
        self._fitted.add_to(content)
        return content

    def _restore(self, file: ModelFile) -> None:
        super()._restore(file)
        self.model_ = model = SequenceModel.of_file(file)
        self.classes_, self.vocabulary_ = model.classes_, model.vocabulary_
        self.n_features_in_, self.rules_ = model.n_features_in_, model.rules_
        if model.n_dense_:
            self.dense_coef_, self.n_dense_ = model.dense_coef_, model.n_dense_
        if model.bigrams is not None:
            named = NO_COLUMNS if self.vocabulary_ is None else self.vocabulary_.bigram_columns
            self.bigram_columns_ = np.union1d(named, model.bigrams.columns).astype(np.int64)  # type: ignore[misc]


class WeightedLabels(NamedTuple):
    """The labels of positions that count differently, int32 (N,), and what each counts, float64 (N,)."""

    targets: NDArray[np.int32]
    position_weights: NDArray[np.float64]


def without_columns(matrix: Any, columns: NDArray[np.int64]) -> Any:
    """Return a matrix, CSR (N, F), without the entries of some columns, which stay as empty ones."""
    if not columns.size:
        return matrix
    is_left_out = np.zeros(matrix.shape[1], bool)
    is_left_out[columns] = True
    stays = ~is_left_out[matrix.indices]
    indptr = np.concatenate([[0], np.cumsum(stays)])[matrix.indptr]
    return scipy.sparse.csr_array((matrix.data[stays], matrix.indices[stays], indptr), matrix.shape)
