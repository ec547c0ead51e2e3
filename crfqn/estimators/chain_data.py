"""Labelled sequences as a chain is trained on them: what kind of data they are is decided here, once.

Items in memory, blocks on disk, shards on workers (`sharded_chain.py`) and batches of `partial_fit` are four sources of
the same `EncodedChain`. Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

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
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import TemplateVocabulary
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.estimators.blocks import Blocks, check_alone
from crfqn.estimators.encoded_chain import (
    EncodedChain,
    InMemory,
    OnDisk,
    WeightedLabels,
    chain_of,
    space_of,
    training_rules,
)
from crfqn.estimators.settings import ChainSettings
from crfqn.estimators.supports import possible_support
from crfqn.estimators.training import check_validation
from crfqn.estimators.transitions import (
    find_broken,
    items_that_stay,
    refuse_bigrams,
    take_items,
    training_data,
)
from crfqn.model.compiled_engine import EncodedItems
from crfqn.model.space import SequenceSpace


def encode_chain(X: Any, y: Any, sample_weight: Any, settings: ChainSettings) -> EncodedChain:
    """Return the items of a training, wherever they are; parameters and errors as of `ChainCRF.fit`."""
    X = Handover.taken(X)
    if settings.client is not None:
        from crfqn.estimators.sharded_chain import encode_shards

        return encode_shards(X, y, sample_weight, settings)
    if isinstance(X, Blocks):
        check_alone(X, y, sample_weight, None)
        return encode_blocks(X, settings)
    handed = Handover(X)
    del X  # so that a caller who does not keep it gets its memory back once the store is built
    return encode_items(handed, y, sample_weight, settings)


def encode_items(X: Handover, y: Any, sample_weight: Any, settings: ChainSettings) -> EncodedChain:
    """Return items in memory."""
    items = Handover.taken(X)
    encoded, vocabulary = without_rare(*encode_sequences(sparse_of(items)), settings.min_count)
    sequences: Any = items.beside(encoded) if isinstance(items, Features) else encoded
    del items, encoded
    sequences, labels, weights, position_weights, rules = training_data(
        sequences,
        y,
        *check_position_weights(sample_weight, sequences.offsets),
        settings._transitions,
        settings.constrain == "both",
        settings.on_violation,
    )
    weights, position_weights = weights_of_labels(
        labels, sequences.offsets, weights, position_weights, settings
    )
    dense = sequences.dense if isinstance(sequences, Features) else None
    matrix, offsets = sparse_of(sequences).matrix, sequences.offsets
    space = space_of(
        settings, labels.classes, matrix.shape[1], vocabulary, rules, 0 if dense is None else dense.shape[1]
    )
    chain = chain_of(space, offsets, training_rules(settings, rules), matrix)
    if vocabulary is not None:
        matrix = without_columns(matrix, vocabulary.only_bigram_columns)
    store = FeatureStore.from_matrix(matrix, offsets)
    del sequences, matrix
    targets: Any = labels.targets if labels.allowed is None else unknown_labels(labels, settings)
    support = settings._support(space, store, targets, chain)
    if position_weights is not None:
        targets = WeightedLabels(targets, position_weights)
    source = InMemory(settings._loss_form.loss_class, store, chain, targets, weights, dense)
    return EncodedChain(space, source, store.n_positions, support)


def encode_blocks(blocks: Blocks, settings: ChainSettings) -> EncodedChain:
    """Return items in blocks on disk, which keep the rules; InputError where one does not."""
    blocks.check_kind(is_of_sequences=True)
    refuse_bigrams(blocks.vocabulary, "blocks")
    settings._check_batches("blocks expect True, as none has all that occurs")
    rules = settings._transitions.rules_without_data(blocks.classes)
    space = space_of(settings, blocks.classes, blocks.n_features, blocks.vocabulary, rules)
    kept = training_rules(settings, rules)
    if kept is not None:
        for number in range(blocks.n_items.size):
            block = blocks.read(number)
            labels = PartialLabels(blocks.classes, block.targets, None)
            broken = find_broken(kept, labels, block.store.offsets)
            if broken is not None:
                raise InputError(f"block {number}: {broken.first}; constrain='decoding' trains without rules")
    source = OnDisk(settings._loss_form.loss_class, blocks, space.n_states, kept)
    return EncodedChain(space, source, int(blocks.n_positions.sum()), possible_support(space))


def encode_batch(
    X: Any, y: Any, sample_weight: Any, labels: NDArray, known: SequenceSpace | None, settings: ChainSettings
) -> EncodedChain:
    """Return a batch of `partial_fit`, with all labels and behind the `known` features its new ones."""
    settings._check_batches("partial_fit expects True, as no batch has all that occurs")
    sequences, vocabulary = grown(X, known)
    rules = settings._transitions.rules_without_data(labels)
    targets: Any = encode_known_labels(y, sequences.offsets, labels)
    weights = check_item_weights(sample_weight, len(sequences))
    filled = sequences.lengths > 0
    if not filled.all():
        sequences, targets, weights = take_items(sequences, targets, weights, filled)
    kept = training_rules(settings, rules)
    broken = (
        None if kept is None else find_broken(kept, PartialLabels(labels, targets, None), sequences.offsets)
    )
    if broken is not None:
        stays = items_that_stay(broken, len(sequences), settings.on_violation)
        sequences, targets, weights = take_items(sequences, targets, weights, stays)
    space = space_of(settings, labels, sequences.n_features, vocabulary, rules)
    store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets)
    chain = chain_of(space, store.offsets, kept)
    source = InMemory(settings._loss_form.loss_class, store, chain, targets, weights)
    return EncodedChain(space, source, store.n_positions, possible_support(space))


def labelled_batch(X: Any, y: Any, known: SequenceSpace | None) -> tuple[Sequences, NDArray[np.object_]]:
    """Return what `refit` takes: the batch in the features that were known and its new ones, a list of labels an
    item."""
    sequences, vocabulary = grown(X, known)
    labels = np.empty(sequences.n_positions, object)
    labels[:] = flat_partial_labels(y, sequences.offsets)
    named = Sequences.from_checked(sequences.matrix, sequences.offsets, sequences.feature_names, vocabulary)
    return named, lists_by_item(labels, sequences.offsets)


def encode_held_out(validation: Any, space: SequenceSpace) -> tuple[Any, Any, int]:
    """Return validation items, encoded once for all looks, their labels, and the number of positions."""
    X, y = check_validation(validation)
    sequences = encode_known(X, space)
    sparse = sparse_of(sequences)
    chain = chain_of(space, sequences.offsets, space.rules, sparse.matrix)
    items: Any = EncodedItems.of(sparse, chain, space.bigram_columns)
    if space.n_dense:
        items = sequences.beside(items)
    labels = lists_by_item(np.asarray(flat_labels(y, sequences.offsets), object), sequences.offsets)
    return items, labels, sequences.n_positions


def encode_known(X: Any, space: SequenceSpace) -> Any:
    """Return items as `Sequences` in a model's features, with their dense block if there is one."""
    X = check_dense(X, space.n_dense)
    sparse = in_columns_of(sparse_of(X), space.vocabulary)
    sparse, _ = encode_sequences(sparse, space.vocabulary, allow_empty=True, n_features=space.n_features)
    return X.beside(sparse) if isinstance(X, Features) else sparse


def unknown_labels(labels: PartialLabels, settings: ChainSettings) -> NDArray[np.bool_]:
    """Return which labels positions may have, (K, N); InputError for a loss that needs all labels, and for parameters
    that ask what occurs."""
    assert labels.allowed is not None
    if not settings._loss_form.loss_class.has_marginals:
        raise InputError(f"loss={settings.loss!r}: expected known labels, but some are None or sets")
    if not (settings.all_possible_states and settings.all_possible_transitions):
        raise InputError(
            "expected known labels where all_possible_states or all_possible_transitions is False: None or a set does "
            "not say what occurs"
        )
    return labels.allowed


def without_rare(
    sequences: Sequences, vocabulary: Vocabulary | None, min_count: int
) -> tuple[Sequences, Vocabulary | None]:
    """Return items without the features of fewer than `min_count` positions; columns without names stay, empty."""
    if min_count == 1:
        return sequences, vocabulary
    if isinstance(vocabulary, TemplateVocabulary):
        raise InputError(
            "min_count: expected 1 for items of templates, which count features themselves: Templates(min_count=)"
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
    """Return the weights of items, (I,), and of positions, (N,), with those of their labels; None for the latter
    where all positions of an item count alike: the item has that weight then."""
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
        raise InputError("class_weight: expected at least one position of positive weight, got none")
    first = combined[offsets[:-1]]
    if np.array_equal(combined, np.repeat(first, np.diff(offsets))):
        return first if weights is None else first * weights, None
    if not settings._loss_form.loss_class.has_marginals:
        raise InputError(
            f"loss={settings.loss!r}: expected positions that count alike; class_weight and sample_weight by position "
            "need loss='logistic'"
        )
    return weights, combined


def grown(X: Any, known: SequenceSpace | None) -> tuple[Sequences, Vocabulary | None]:
    """Return a batch in the features that were known, and behind them its new ones; InputError for bigram features."""
    if known is None:
        sequences, vocabulary = encode_sequences(X)
    elif known.vocabulary is None or isinstance(known.vocabulary, TemplateVocabulary):
        sequences, vocabulary = encode_sequences(X, known.vocabulary, n_features=known.n_features)
    else:
        sequences, names = encode_sequences(X if isinstance(X, Sequences) else known.vocabulary.named(X))
        if names is None:
            raise InputError("expected features by name, as in the calls before, got matrices")
        vocabulary = known.vocabulary.grown(names)
        sequences = sequences.with_names(vocabulary.names)
    refuse_bigrams(vocabulary, "partial_fit")
    return sequences, vocabulary


def without_columns(matrix: Any, columns: NDArray[np.int64]) -> Any:
    """Return a matrix, CSR (N, F), without the entries of some columns, which stay as empty ones."""
    if not columns.size:
        return matrix
    is_left_out = np.zeros(matrix.shape[1], bool)
    is_left_out[columns] = True
    stays = ~is_left_out[matrix.indices]
    indptr = np.concatenate([[0], np.cumsum(stays)])[matrix.indptr]
    return scipy.sparse.csr_array((matrix.data[stays], matrix.indices[stays], indptr), matrix.shape)
