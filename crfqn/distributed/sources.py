"""Where shards come from: a file each, a partition of a Dask bag, or a function; read by the worker that holds them.

The vocabulary takes two passes over the data. The first, `count_shard`, tells the names and labels that a shard has;
the client puts those of all shards together, sorted, so that neither workers nor their order matter; in the second,
`shard_rows`, each worker encodes its own items in columns that are everybody's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.data.encoding import Sequences, encode_sequences, has_no_position
from crfqn.data.features import FeatureStore
from crfqn.data.items import check_item_weights
from crfqn.data.label_arrays import encode_labels, flat_labels
from crfqn.data.templates.vocabulary import MergedNames, TemplateSource
from crfqn.data.vocabulary import UNSEEN, Vocabulary
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import describe
from crfqn.objectives.support import Support, observed_pairs, observed_transitions
from crfqn.readers import read
from crfqn.readers.labelled_items import Labeled
from crfqn.structures.edge_layout import EdgeLayout

Observed: TypeAlias = tuple[Any, ...]  # X and y as of `ChainCRF.fit`, and perhaps sample_weight
Read: TypeAlias = Callable[[], Observed]
NOTHING: Observed = ([], [])


@dataclass(frozen=True)
class FileShard:
    """The items of a file of labelled sequences, in any format that `crfqn.readers.read` knows."""

    path: str
    format: str | None
    options: dict[str, Any]

    def __call__(self) -> Observed:
        """Read the file; one without items is an empty shard."""
        try:
            data = read(self.path, self.format, **self.options)
        except EmptyDataError:
            return NOTHING
        if not isinstance(data, Labeled):
            raise InputError(f"{self.path}: expected sequences, got documents")
        labels = data.known_labels()
        if labels is None:
            raise DataError(f"{self.path}: expected labels, got none")
        return data.inputs, labels, data.weights


@dataclass(frozen=True)
class BagShard:
    """A partition of a Dask bag of pairs (item, labels), computed where it is wanted."""

    partition: Any

    def __call__(self) -> Observed:
        """Compute the partition."""
        pairs = list(self.partition.compute(scheduler="synchronous"))
        return [item for item, _ in pairs], [labels for _, labels in pairs]


class Shards:
    """Data for training on workers, in shards, none of which the client reads.

    Parameters
    ----------
    sources : list of paths, Dask bag, or list of functions
        A shard each: a file of labelled sequences, which every worker finds under this name; a partition of pairs
        (item, labels); or what a function without arguments returns, X and y and perhaps sample_weight as of
        `ChainCRF.fit`, whatever it reads them from. The weights that come out depend on the shards alone.
    format : str, optional
        Of the files; by default what their extensions say.
    templates : crfqn.Templates, optional
        What makes features of token columns; `min_count` is over all shards.
    **options
        Of the format, as of `crfqn.readers.read`.

    Raises
    ------
    InputError
        No sources, or others than these; a bag that is persisted, as a shard that is lost must be read again.
    """

    def __init__(
        self, sources: Any, format: str | None = None, templates: Any = None, **options: Any
    ) -> None:
        self.templates = templates
        self.reads: list[Read] = _reads(sources, format, options)

    @classmethod
    def from_sources(cls, given: Any) -> Shards:
        """Return shards of what an estimator is given."""
        return given if isinstance(given, cls) else cls(given)


def _reads(sources: Any, format: str | None, options: dict[str, Any]) -> list[Read]:
    if hasattr(sources, "to_delayed"):
        from distributed import futures_of

        if futures_of(sources):
            raise InputError(
                "expected a bag that is not persisted: its partitions are read where they are trained on"
            )
        return [BagShard(partition) for partition in sources.to_delayed()]
    listed = list(sources) if isinstance(sources, (list, tuple)) else []
    if listed and all(map(callable, listed)):
        return listed
    if listed and all(isinstance(source, (str, os.PathLike)) for source in listed):
        return [FileShard(os.path.abspath(source), format, options) for source in listed]
    raise InputError(
        "with a client, expected a list of paths or of functions, a Dask bag, or Shards of them, got "
        f"{describe(sources)}"
    )


class ShardRows(NamedTuple):
    """The items of a shard as rows, its labels by position, and weights of the items."""

    sequences: Sequences
    labels: Any
    weights: NDArray[np.float64] | None
    vocabulary: Vocabulary | None


def read_here(read: Read) -> Observed:
    """Return what a shard's source reads; an error says on which worker."""
    from distributed import get_worker

    try:
        return read()
    except (DataError, InputError) as error:
        raise type(error)(f"{error} (on worker {get_worker().address})") from error


def shard_rows(read: Read, templates: Any) -> ShardRows | None:
    """Return the items of a shard in columns of its own, those without weight left out; None where there are none."""
    X, y, *rest = read_here(read)
    if not len(X) or has_no_position(X):
        return None
    if templates is not None:
        from sklearn.base import clone

        every = clone(templates).set_params(min_count=1)
        X = every.fit_transform(X)
    sequences, vocabulary = encode_sequences(X)
    weights = check_item_weights(rest[0] if rest else None, len(sequences))
    labels = flat_labels(y, sequences.offsets)
    stays = sequences.lengths > 0
    if weights is not None:
        stays &= weights > 0
    if not stays.all():
        labels = [labels[position] for position in np.flatnonzero(np.repeat(stays, sequences.lengths))]
        sequences, weights = sequences[stays], None if weights is None else weights[stays]
    return ShardRows(sequences, labels, weights, vocabulary)


@dataclass(eq=False)
class Count:
    """What a shard has: sizes, labels, names and how many positions have each; `pairs` of label and column, and
    `transitions`, that occur, by the shard's own numbers, where they are asked for."""

    n_positions: int = 0
    n_features: int | None = None
    classes: list[Any] = field(default_factory=list)
    names: list[str] | None = None
    starts: list[int] = field(default_factory=list)
    counts: Any = None
    source: dict[str, Any] | None = None
    pairs: Coords | None = None
    transitions: Coords | None = None


def count_shard(read: Read, templates: Any, asks_pairs: bool) -> Count:
    """Read a shard for what it has: the first pass."""
    rows = shard_rows(read, templates)
    if rows is None:
        return Count()
    sequences, vocabulary = rows.sequences, rows.vocabulary
    classes, targets = encode_labels(rows.labels, sequences.offsets)
    count = Count(sequences.n_positions, sequences.n_features, classes.tolist())
    count.source = None if vocabulary is None else vocabulary.source
    if vocabulary is not None and not vocabulary.is_hashed:
        count.names, count.starts = list(vocabulary.names), vocabulary.value_starts.tolist()
        count.counts = np.bincount(sequences.matrix.indices, minlength=sequences.n_features)
    if asks_pairs:
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets)
        count.pairs = observed_pairs(store, targets, len(classes))
        count.transitions = observed_transitions(store, targets, len(classes))
    return count


class Merged:
    """The labels and columns of all shards, sorted, and where each shard's own columns (`columns`) have gone."""

    def __init__(self, counts: Sequence[Count], min_count: int = 1) -> None:
        self.counts = [found if found.n_features is not None else None for found in counts]
        filled = [found for found in counts if found.n_features is not None]
        if not filled:
            raise InputError("expected at least one item in at least one shard, got none")
        self.n_positions = sum(found.n_positions for found in filled)
        labels = [label for found in filled for label in found.classes]
        self.classes, _ = encode_labels(labels, np.arange(len(labels) + 1))
        self.source = filled[0].source
        if any((found.names is None) != (filled[0].names is None) for found in filled):
            raise InputError("expected features by name in all shards, or in none")
        self.names: list[str] | None = None
        if filled[0].names is None:
            widths = sorted({int(found.n_features or 0) for found in filled})
            if len(widths) > 1:
                raise InputError(
                    f"expected as many features in every shard, got {widths[0]} and {widths[-1]}"
                )
            self.n_features = widths[0]
            self.vocabulary: Vocabulary | None = None
            if self.source is not None:
                self.vocabulary = TemplateSource.from_dict(self.source).vocabulary(None)
            return
        merged = MergedNames()
        for found in filled:
            merged.add(found.names or (), found.starts or (), np.asarray(found.counts).tolist())
        self.vocabulary = merged.vocabulary(min_count, self.source)
        self.names = list(self.vocabulary.names)
        self.n_features = len(self.names)
        if merged.counts and not self.names:
            raise InputError(f"min_count: expected features at {min_count} positions, got none")

    @cached_property
    def columns(self) -> list[NDArray[np.int32] | None]:
        """The column of each of a shard's own, UNSEEN for those left out; None where they are the same."""
        if self.names is None:
            return [None] * len(self.counts)
        place = dict(zip(self.names, range(self.n_features), strict=True))
        return [
            None
            if found is None or found.names is None
            else np.fromiter((place.get(name, UNSEEN) for name in found.names), np.int32, len(found.names))
            for found in self.counts
        ]

    def support(self, all_states: bool, all_transitions: bool) -> Support:
        """Return the weights that the data of all shards speak for, as far as others are not allowed."""
        n_states, pairs, edges = len(self.classes), [], []
        layout = EdgeLayout(n_states)
        code = {label: number for number, label in enumerate(self.classes.tolist())}
        for found, columns in zip(self.counts, self.columns, strict=True):
            if found is None or found.pairs is None or found.transitions is None:
                continue
            states = np.array([code[label] for label in found.classes], np.int64)
            own_states, own = np.divmod(found.pairs, found.n_features or 1)
            place = own if columns is None else columns[own].astype(np.int64)
            pairs.append((states[own_states] * self.n_features + place)[place != UNSEEN])
            first, second, _ = EdgeLayout(states.size).split(found.transitions)
            edges.append(layout.numbers(states[first], states[second]))
        return Support(
            n_states * self.n_features,
            layout.size,
            None if all_states else np.unique(np.concatenate(pairs)),
            None if all_transitions else np.unique(np.concatenate(edges)),
        )


def in_columns(matrix: Any, columns: NDArray[np.int32] | None, n_features: int) -> Any:
    """Return a shard's matrix in the columns of all shards."""
    if columns is None:
        return matrix
    import scipy.sparse

    entries = matrix.tocoo()
    place = columns[entries.col]
    stays = place != UNSEEN
    parts = (entries.data[stays], (entries.row[stays], place[stays]))
    return scipy.sparse.csr_array(parts, shape=(matrix.shape[0], n_features))
