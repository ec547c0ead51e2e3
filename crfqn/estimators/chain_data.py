"""Encodes labelled sequences for a chain: items in memory, blocks on disk, and batches of `partial_fit`.

`sharded_chain.py` encodes shards on workers. Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Labels
from crfqn.data.encoding import Sequences, encode_sequences, in_columns_of
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features, check_dense, sparse_of, with_vectors_apart
from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight, SparseMatrix
from crfqn.data.items import Handover, check_item_weights, check_position_weights, class_factors
from crfqn.data.label_arrays import (
    PartialLabels,
    encode_known_labels,
    flat_labels,
    flat_partial_labels,
    lists_by_item,
)
from crfqn.data.vocabulary import NO_COLUMNS, Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.blocks import Blocks
from crfqn.estimators.problem import Encoded, InMemory, OnDisk, Validation, check_validation
from crfqn.estimators.settings import ChainSettings
from crfqn.estimators.transitions import (
    BrokenRules,
    find_broken,
    items_that_stay,
    refuse_bigrams,
    take_items,
    training_data,
)
from crfqn.messages import hint, shorten
from crfqn.model.compiled_engine import EncodedItems
from crfqn.model.sequences import single_run_rules
from crfqn.model.space import SequenceSpace
from crfqn.objectives.linear.dense_map import DenseMap, HStackMap
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import PartialLikelihood
from crfqn.objectives.losses.position_likelihood import PositionLikelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.support import Support, observed_support
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


class WeightedLabels(NamedTuple):
    """Labels of positions, int32 (N,), with weights of the positions, float64 (N,)."""

    targets: Labels
    position_weights: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChainLoss:
    """Makes the loss of a training: its class, the labels (K,), and the rules that hold in training, if any."""

    loss_class: type[ScoreLoss]
    classes: NDArray
    rules: TransitionRules | None

    def __call__(self, store: FeatureStore, targets: Labels) -> ScoreLoss:
        """Return the loss of items with these features and labels, which are all known."""
        return self.over(Chain(store.offsets, len(self.classes), rules=self.rules), targets)

    def over(self, chain: Chain, targets: Any) -> ScoreLoss:
        """Return the loss over a chain of known labels, of the labels that positions may have, (K, N), or of
        `WeightedLabels`."""
        if isinstance(targets, WeightedLabels):
            return PositionLikelihood(chain, *targets)
        if targets.ndim == 2:
            return PartialLikelihood(chain, targets)
        return self.loss_class.from_structure(chain, targets)

    def broken(self, targets: NDArray[np.int32], offsets: NDArray[np.int64]) -> BrokenRules | None:
        """Return the items whose labels break the rules, None without any."""
        if self.rules is None:
            return None
        return find_broken(self.rules, PartialLabels(self.classes, targets, None), offsets)

    def check(self, targets: NDArray[np.int32], offsets: NDArray[np.int64], part: str) -> None:
        """Raise InputError for an item that breaks the rules; `part` is the name of the data in the message."""
        broken = self.broken(targets, offsets)
        if broken is not None:
            raise InputError(f"{part}: {broken.first}; enforce_rules_in='decoding' trains without rules")


def chain_space(
    settings: ChainSettings,
    classes: NDArray,
    n_features: int,
    vocabulary: Vocabulary | None,
    rules: TransitionRules | None,
    n_dense: int = 0,
) -> SequenceSpace:
    """Return the space of a training's weights; warns of rules for labels that the data do not have."""
    transitions = settings.transitions
    unknown: list[Any] = []
    if transitions.once:
        _, unknown = single_run_rules(transitions.once, classes.tolist(), transitions.scheme)
    if unknown:
        near = hint(unknown[0], classes.tolist())
        warn_caller(f"once: labels that the training data do not have are ignored: {shorten(unknown)}{near}")
    bigrams = NO_COLUMNS if vocabulary is None else vocabulary.bigram_columns
    runs = transitions.scheme, tuple(transitions.once or ())
    return SequenceSpace(
        n_features,
        classes,
        vocabulary,
        rules,
        *runs,
        bigram_columns=bigrams,
        n_dense=n_dense,
        loss=settings.loss,
    )


def training_loss(settings: ChainSettings, space: SequenceSpace) -> ChainLoss:
    """Return the loss of a training in a space, with the rules that hold in training."""
    rules = space.rules if settings.enforce_rules_in == "both" else None
    return ChainLoss(settings.loss_variant.loss_class, space.classes, rules)


def chain_over(
    space: SequenceSpace,
    offsets: NDArray[np.int64],
    rules: TransitionRules | None,
    matrix: SparseMatrix | NDArray,
) -> Chain:
    """Return the chain over items; matrix : (N, F), which has the columns of bigram features."""
    columns = space.bigram_columns
    contexts = Contexts.from_columns(matrix, columns, space.n_states) if columns.size else None
    return Chain(offsets, space.n_states, rules=rules, contexts=contexts)


def observed(
    settings: ChainSettings, space: SequenceSpace, store: FeatureStore, targets: Labels, chain: Chain
) -> Support:
    """Return the weights that may be other than 0: those of pairs of a feature and a label, and of two labels, that
    occur in the training data, or of all pairs if the settings allow them."""
    if not settings.all_possible_states and space.n_dense:
        raise InputError(
            "all_possible_states=False: expected a model and items without a dense block, got crfqn.Features"
        )
    possible = settings.all_possible_states, settings.all_possible_transitions
    support = observed_support(store, targets, chain.n_states, *possible)
    if space.bigram_columns.size and not settings.all_possible_transitions:
        support = replace(support, edges=np.flatnonzero(chain.counts(targets)))
    n_nodes = support.n_node_coords + chain.n_states * space.n_dense
    only_bigrams = () if space.vocabulary is None else space.vocabulary.only_bigram_columns
    n_empty = chain.n_states * len(only_bigrams)
    support = replace(support, n_node_coords=n_nodes, n_edges=chain.edge_layout.size, n_empty=n_empty)
    return possible_support(space, support)


def possible_support(space: SequenceSpace, support: Support | None = None) -> Support:
    """Return a support, by default of all weights of features and transitions, without transitions if the templates
    have no pattern for them."""
    layout = EdgeLayout(space.n_states)
    support = support or Support(space.n_states * space.n_features, layout.size)
    if space.vocabulary is None or space.vocabulary.has_transitions:
        return support
    edges = np.arange(support.n_edges) if support.edges is None else support.edges
    return replace(support, edges=edges[edges >= layout.size])


def encode_items(
    X: ItemsLike | Handover,
    y: LabelsLike | None,
    sample_weight: SampleWeight,
    settings: ChainSettings,
    support_of: Callable[..., Support] = observed,
) -> Encoded:
    """Return items in memory; parameters and errors as in `ChainCRF.fit`. The items of a `Handover` are freed early.

    support_of : returns the support for settings, space, features, labels and chain
    """
    items = with_vectors_apart(Handover.release_argument(X))
    is_hybrid = isinstance(items, Features)
    encoded, vocabulary = without_rare(
        *encode_sequences(items.sparse if is_hybrid else items), settings.min_count
    )
    sequences: Any = items.beside(encoded) if isinstance(items, Features) else encoded
    del items, encoded
    sequences, labels, weights, position_weights, rules = training_data(
        sequences,
        y,
        *check_position_weights(sample_weight, sequences.offsets),
        settings.transitions,
        settings.enforce_rules_in == "both",
        settings.on_violation,
    )
    weights, position_weights = weights_of_labels(
        labels, sequences.offsets, weights, position_weights, settings
    )
    dense = sequences.dense if is_hybrid else None
    matrix, offsets = (sequences.sparse if is_hybrid else sequences).matrix, sequences.offsets
    space = chain_space(
        settings, labels.classes, matrix.shape[1], vocabulary, rules, 0 if dense is None else dense.shape[1]
    )
    loss = training_loss(settings, space)
    chain = chain_over(space, offsets, loss.rules, matrix)
    if vocabulary is not None:
        matrix = without_columns(matrix, vocabulary.only_bigram_columns)
    store = FeatureStore.from_matrix(matrix, offsets)
    del sequences, matrix
    targets: Any = labels.targets if labels.allowed is None else allowed_labels(labels, settings)
    support = support_of(settings, space, store, targets, chain)
    if position_weights is not None:
        targets = WeightedLabels(labels.targets, position_weights)
    features: FeatureMap = SparseMap(store, Pool(1))
    if dense is not None:
        features = HStackMap([DenseMap.from_matrix(dense, offsets, pool=Pool(1)), features])
    return Encoded(space, InMemory(features, loss.over(chain, targets), weights), store.n_positions, support)


def encode_blocks(blocks: Blocks, settings: ChainSettings) -> Encoded:
    """Return items in blocks on disk; InputError for an item that breaks the rules."""
    blocks.check_kind(is_of_sequences=True)
    refuse_bigrams(blocks.vocabulary, "blocks")
    settings.check_parts("in blocks", "block")
    rules = settings.transitions.rules_without_data(blocks.classes)
    space = chain_space(settings, blocks.classes, blocks.n_features, blocks.vocabulary, rules)
    loss = training_loss(settings, space)
    for number in range(blocks.n_items.size if loss.rules is not None else 0):
        block = blocks.read(number)
        loss.check(block.targets, block.store.offsets, f"block {number}")
    return Encoded(space, OnDisk(blocks, loss), int(blocks.n_positions.sum()), possible_support(space))


def encode_batch(
    X: ItemsLike,
    y: LabelsLike,
    sample_weight: SampleWeight,
    labels: NDArray,
    known: SequenceSpace | None,
    settings: ChainSettings,
) -> Encoded:
    """Return a batch of `partial_fit`, in the columns of the `known` space and new ones after these; `labels` are those
    of all batches."""
    settings.check_parts("in batches", "batch")
    sequences, vocabulary = encode_growing(X, known)
    rules = settings.transitions.rules_without_data(labels)
    targets: Any = encode_known_labels(y, sequences.offsets, labels)
    weights = check_item_weights(sample_weight, len(sequences))
    filled = sequences.lengths > 0
    if not filled.all():
        sequences, targets, weights = take_items(sequences, targets, weights, filled)
    space = chain_space(settings, labels, sequences.n_features, vocabulary, rules)
    loss = training_loss(settings, space)
    broken = loss.broken(targets, sequences.offsets)
    if broken is not None:
        stays = items_that_stay(broken, len(sequences), settings.on_violation)
        sequences, targets, weights = take_items(sequences, targets, weights, stays)
    store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets)
    source = InMemory(SparseMap(store, Pool(1)), loss(store, targets), weights)
    return Encoded(space, source, store.n_positions, possible_support(space))


def labelled_batch(
    X: ItemsLike, y: LabelsLike, known: SequenceSpace | None
) -> tuple[Sequences, NDArray[np.object_]]:
    """Return the arguments of `refit`: a batch in the columns of the `known` space and new ones, and a list of labels
    for each item."""
    sequences, vocabulary = encode_growing(X, known)
    labels = np.empty(sequences.n_positions, object)
    labels[:] = flat_partial_labels(y, sequences.offsets)
    named = Sequences.from_checked(sequences.matrix, sequences.offsets, sequences.feature_names, vocabulary)
    return named, lists_by_item(labels, sequences.offsets)


def encode_held_out(
    validation: Validation, space: SequenceSpace
) -> tuple[EncodedItems | Features, NDArray[np.object_], int]:
    """Return validation items, encoded once for all evaluations, their labels, and the number of positions."""
    X, y = check_validation(validation)
    sequences = encode_known(X, space)
    sparse = sparse_of(sequences)
    chain = chain_over(space, sequences.offsets, space.rules, sparse.matrix)
    items: EncodedItems | Features = EncodedItems.from_sequences(sparse, chain, space.bigram_columns)
    if isinstance(sequences, Features):
        items = sequences.beside(items)
    labels = lists_by_item(np.asarray(flat_labels(y, sequences.offsets), object), sequences.offsets)
    return items, labels, sequences.n_positions


def encode_known(X: ItemsLike, space: SequenceSpace) -> Sequences | Features:
    """Return items as `Sequences` in the columns of a model, with their dense block if the model has one."""
    X = check_dense(X, space.n_dense)
    sparse = in_columns_of(sparse_of(X), space.vocabulary)
    sparse, _ = encode_sequences(sparse, space.vocabulary, allow_empty=True, n_features=space.n_features)
    return X.beside(sparse) if isinstance(X, Features) else sparse


def allowed_labels(labels: PartialLabels, settings: ChainSettings) -> NDArray[np.bool_]:
    """Return the labels that each position may have, (K, N); InputError for losses and parameters that need known
    labels."""
    assert labels.allowed is not None
    if not settings.loss_variant.loss_class.has_marginals:
        raise InputError(f"loss={settings.loss!r}: expected known labels, but some are None or sets")
    if not (settings.all_possible_states and settings.all_possible_transitions):
        raise InputError(
            "expected known labels if all_possible_states or all_possible_transitions is False, as pairs that occur "
            "are those of known labels"
        )
    return labels.allowed


def without_rare(
    sequences: Sequences, vocabulary: Vocabulary | None, min_count: int
) -> tuple[Sequences, Vocabulary | None]:
    """Return items without features that occur at fewer positions than `min_count`; matrices keep empty columns."""
    if min_count == 1:
        return sequences, vocabulary
    if vocabulary is not None and vocabulary.encodes_items:
        raise InputError(
            "min_count: expected 1 for items of templates, which have their own parameter: Templates(min_count=)"
        )
    matrix = scipy.sparse.csr_array(sequences.matrix)
    is_frequent = np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1]) >= min_count
    if not is_frequent.any():
        raise InputError(f"min_count: expected features at {min_count} positions, got none")
    if vocabulary is None:
        matrix = without_columns(matrix, np.flatnonzero(~is_frequent))
        return Sequences.from_checked(matrix, sequences.offsets, None), None
    names = [vocabulary.names[column] for column in np.flatnonzero(is_frequent)]
    return sequences.with_names(names), Vocabulary(names)


def weights_of_labels(
    labels: PartialLabels,
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    position_weights: NDArray[np.float64] | None,
    settings: ChainSettings,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the weights of items, (I,), and of positions, (N,), multiplied by those of their labels. If all positions
    of each item have equal weights, these are in the weights of items, and those of positions are None."""
    if settings.class_weight is None and position_weights is None:
        return weights, None
    if labels.allowed is not None:
        raise InputError(
            "class_weight, or sample_weight by position: expected known labels, but some are None or sets"
        )
    combined = np.ones(labels.targets.size) if position_weights is None else position_weights
    if settings.class_weight is not None:
        by_position = combined if weights is None else combined * np.repeat(weights, np.diff(offsets))
        totals = np.bincount(labels.targets, by_position, len(labels.classes))
        combined = combined * class_factors(settings.class_weight, labels.classes, totals)[labels.targets]
    if not combined.any():
        raise InputError("class_weight: expected positions of positive weight, got none")
    first = combined[offsets[:-1]]
    if np.array_equal(combined, np.repeat(first, np.diff(offsets))):
        return first if weights is None else first * weights, None
    if not settings.loss_variant.loss_class.has_marginals:
        raise InputError(
            f"loss={settings.loss!r}: expected equal weights of the positions of an item; class_weight and "
            "sample_weight by position need loss='logistic'"
        )
    return weights, combined


def encode_growing(X: Any, known: SequenceSpace | None) -> tuple[Sequences, Vocabulary | None]:
    """Return a batch in the columns of the `known` space, and its new features in columns after these; InputError for
    bigram features."""
    if known is None:
        sequences, vocabulary = encode_sequences(X)
    elif known.vocabulary is None or known.vocabulary.encodes_items:
        sequences, vocabulary = encode_sequences(X, known.vocabulary, n_features=known.n_features)
    else:
        sequences, names = encode_sequences(X if isinstance(X, Sequences) else known.vocabulary.named(X))
        if names is None:
            raise InputError("expected features by name, as in earlier calls, got matrices")
        vocabulary = known.vocabulary.grown(names)
        sequences = sequences.with_names(vocabulary.names)
    refuse_bigrams(vocabulary, "partial_fit")
    return sequences, vocabulary


def without_columns(matrix: SparseMatrix, columns: NDArray[np.int64]) -> SparseMatrix:
    """Return a matrix, CSR (N, F), in which some columns are empty."""
    if not columns.size:
        return matrix
    is_left_out = np.zeros(matrix.shape[1], bool)
    is_left_out[columns] = True
    stays = ~is_left_out[matrix.indices]
    indptr = np.concatenate([[0], np.cumsum(stays)])[matrix.indptr]
    return scipy.sparse.csr_array((matrix.data[stays], matrix.indices[stays], indptr), matrix.shape)
