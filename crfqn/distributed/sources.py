"""Sources of shards: files, partitions of a Dask bag, or functions. The worker that holds a shard reads it.

Encoding takes two passes over the data. In the first, `count_shard` collects the names of features and the labels of a
shard, and the client merges and sorts those of all shards, so that the result does not depend on the workers. In the
second, `shard_rows` encodes the items of a shard, whose columns are then mapped to those of all shards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.data.encoding import Sequences, encode_sequences, has_no_position
from crfqn.data.features import FeatureStore
from crfqn.data.inputs import SparseMatrix
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

if TYPE_CHECKING:
    from dask.bag import Bag
    from dask.delayed import Delayed
    from sklearn.base import TransformerMixin

Observed: TypeAlias = tuple[Any, ...]  # X, y and optionally sample_weight, as in `ChainCRF.fit`
Read: TypeAlias = Callable[[], Observed]
NO_ITEMS: Observed = ([], [])
ShardSources: TypeAlias = "Sequence[str | os.PathLike[str]] | Sequence[Read] | Bag"


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
            return NO_ITEMS
        if not isinstance(data, Labeled):
            raise InputError(f"{self.path}: expected sequences, got documents")
        labels = data.known_labels()
        if labels is None:
            raise DataError(f"{self.path}: expected labels, got none")
        return data.inputs, labels, data.weights


@dataclass(frozen=True)
class BagShard:
    """A partition of a Dask bag of pairs (item, labels), computed by the worker that holds the shard."""

    partition: Delayed

    def __call__(self) -> Observed:
        """Compute the partition."""
        pairs = list(self.partition.compute(scheduler="synchronous"))
        return [item for item, _ in pairs], [labels for _, labels in pairs]


class Shards:
    """Data for training on workers, in shards, which the client does not read.

    Parameters
    ----------
    sources : list of paths, Dask bag, or list of functions
        Each makes a shard: a file of labelled sequences, which has this name on every worker; a partition of pairs
        (item, labels); or a function without arguments that returns X, y and optionally sample_weight, as in
        `ChainCRF.fit`. The trained weights depend on the shards only, not on the workers.
    format : str, optional
        Format of the files; by default that of their extensions.
    templates : crfqn.Templates, optional
        They make features of token columns; `min_count` refers to the positions of all shards.
    **options
        Options of the format, as in `crfqn.readers.read`.

    Raises
    ------
    InputError
        No sources, or sources of other types; a persisted bag, because a lost shard must be read again; templates with
        gazetteers.
    """

    def __init__(
        self,
        sources: ShardSources,
        format: str | None = None,
        templates: TransformerMixin | None = None,
        **options: object,
    ) -> None:
        if getattr(templates, "gazetteers", None):
            raise InputError(
                "gazetteers: expected none with shards, whose words are cut by different tokenizers"
            )
        self.templates = templates
        self.reads = shard_readers(sources, format, options)


def shard_readers(sources: ShardSources, format: str | None, options: dict[str, Any]) -> list[Read]:
    """Return the function that reads each shard; InputError for sources of other types."""
    if hasattr(sources, "to_delayed"):
        from distributed import futures_of

        if futures_of(sources):
            raise InputError(
                "expected a bag that is not persisted, because workers compute its partitions, got a persisted one"
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
    """The items of a shard, its labels by position, and the weights of the items."""

    sequences: Sequences
    labels: NDArray | list[object]
    weights: NDArray[np.float64] | None
    vocabulary: Vocabulary | None


def read_here(read: Read) -> Observed:
    """Return the items and labels of a shard; errors name the worker."""
    from distributed import get_worker

    try:
        return read()
    except (DataError, InputError) as error:
        raise type(error)(f"{error} (on worker {get_worker().address})") from error


def shard_rows(read: Read, templates: TransformerMixin | None) -> ShardRows | None:
    """Return the items of positive weight of a shard, in its own columns; None if there are none."""
    X, y, *rest = read_here(read)
    if not len(X) or has_no_position(X):
        return None
    if templates is not None:
        from sklearn.base import clone

        all_features = clone(templates).set_params(min_count=1)
        X = all_features.fit_transform(X)
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
    """Sizes of a shard, its labels, and the names of its features with the number of positions of each. `pairs` of
    label and column and `transitions` that occur are in the shard's own numbering, None if they are not needed."""

    n_positions: int = 0
    n_features: int | None = None
    classes: list[Any] = field(default_factory=list)
    names: list[str] | None = None
    starts: list[int] = field(default_factory=list)
    counts: NDArray[np.int64] | None = None
    source: dict[str, Any] | None = None
    pairs: Coords | None = None
    transitions: Coords | None = None


def count_shard(read: Read, templates: TransformerMixin | None, needs_pairs: bool) -> Count:
    """Return the sizes, labels and names of a shard (first pass)."""
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
    if needs_pairs:
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets)
        count.pairs = observed_pairs(store, targets, len(classes))
        count.transitions = observed_transitions(store, targets, len(classes))
    return count


class Merged:
    """The sorted labels and columns of all shards, and the number that each shard's own columns have among these
    (`columns`)."""

    def __init__(self, counts: Sequence[Count], min_count: int = 1) -> None:
        self.counts = [found if found.n_features is not None else None for found in counts]
        filled = [found for found in counts if found.n_features is not None]
        if not filled:
            raise InputError("expected shards with items, got none")
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
        """For each shard, the merged column of each of its own, UNSEEN for columns left out; None if they are equal."""
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
        """Return the weights of pairs that occur in any shard; all weights if `all_states` or `all_transitions`."""
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


def in_merged_columns(
    matrix: SparseMatrix, columns: NDArray[np.int32] | None, n_features: int
) -> SparseMatrix:
    """Return the matrix of a shard in the columns of all shards."""
    if columns is None:
        return matrix
    import scipy.sparse

    entries = matrix.tocoo()
    place = columns[entries.col]
    stays = place != UNSEEN
    parts = (entries.data[stays], (entries.row[stays], place[stays]))
    return scipy.sparse.csr_array(parts, shape=(matrix.shape[0], n_features))
