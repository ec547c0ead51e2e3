"""Labelled items in blocks on disk, for data larger than memory.

A folder has an index, `blocks.crfqn` (labels, names of the features, sizes), and for each block a file with its feature
store, labels and weights, in the columns of the model. A first pass over batches of items finds labels and names, a
second writes the blocks. Training reads one block at a time. Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from crfqn.arrays import Labels, Vector
from crfqn.atomic_write import StrPath
from crfqn.data.encoding import Sequences, encode_sequences, has_no_position
from crfqn.data.features import ALL_ONES, FeatureStore
from crfqn.data.items import check_item_weights
from crfqn.data.label_arrays import encode_known_labels, encode_labels
from crfqn.data.matrices import is_matrix
from crfqn.data.model_file import read_model, write_model
from crfqn.data.templates.vocabulary import MergedNames
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import DataError, InputError
from crfqn.messages import describe
from crfqn.model.content import ModelContent, add_labels, add_vocabulary, read_labels, read_vocabulary
from crfqn.objectives.executors import PartFiles, StoredParts
from crfqn.objectives.objective import Objective, block_cuts
from crfqn.objectives.part import Part
from crfqn.threads import Pool

INDEX_FILE, INDEX_KIND = "blocks.crfqn", "blocks"
BLOCK_FILE = "block-{:06}.safetensors"
# These three bound the memory of a training, and change no result.
BLOCK_SCORES = 1 << 22  # scores, labels x positions, of a block: 32 MB for each of several such arrays
BLOCK_POSITIONS = 1 << 19  # maximum number of positions of a block
KEPT_NUMBERS = 1 << 25  # residuals that stay in memory, 256 MB; others are written to a file
BLOCK_SIZES = "n_items", "n_positions", "n_bytes"
Batch: TypeAlias = tuple[Any, ...]  # (X, y) or (X, y, sample_weight)
Batches: TypeAlias = Iterable[Batch] | Callable[[], Iterable[Batch]]


class Block(NamedTuple):
    """Features of some items, numbers of their labels, int32 (N,), and their weights, float64 (I,)."""

    store: FeatureStore
    targets: Labels
    weights: Vector


class Blocks:
    """Labelled items on disk, to train on: `ChainCRF().fit(Blocks.open(folder))`.

    Attributes
    ----------
    classes : ndarray, shape (K,), sorted
    vocabulary : names of the features, None for matrices
    n_features : int, F
    is_of_sequences : bool, whether items are sequences (chains), or rows (classifiers)
    n_items, n_positions, n_bytes : int64 (blocks,), sizes of the blocks
    """

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(folder)
        file = read_model(self.folder / INDEX_FILE)
        if file.kind != INDEX_KIND:
            raise DataError(
                f"{self.folder / INDEX_FILE}: expected an index of blocks, got a model, {file.kind!r}"
            )
        self.classes = read_labels(file, file.count("n_classes", 1))
        self.vocabulary = read_vocabulary(file)
        self.n_features = file.count("n_features")
        self.is_of_sequences = bool(file.metadata.get("is_of_sequences"))
        self.n_items, self.n_positions, self.n_bytes = (
            file.array(name, "int64", (None,)) for name in BLOCK_SIZES
        )
        self._digests = file.string_list("digests")
        self._checked: set[int] = set()

    @classmethod
    def open(cls, folder: StrPath) -> Blocks:
        """Open a folder that `write` has written; ModelFileError or DataError if it is missing or damaged."""
        return cls(folder)

    @classmethod
    def write(
        cls,
        folder: StrPath,
        batches: Batches,
        *,
        templates: BaseEstimator | None = None,
        min_count: int = 1,
        n_positions: int | None = None,
    ) -> Blocks:
        """Write batches of items to a new folder, atomically, and open it.

        Parameters
        ----------
        folder : path, which must not exist
        batches : iterable that can be read twice, or a function that returns one
            A batch is (X, y) or (X, y, sample_weight), in the forms of `ChainCRF.fit` (lists of items, `Sequences`), or
            with a matrix (items x features) and a label for each row, as in `MulticlassCRF.fit`. All labels are known.
        templates : Templates, optional
            They make features of token columns, as `Templates.fit` on all items does.
        min_count : int, default 1
            Features by name at fewer positions are ignored; with templates, their `min_count` is used.
        n_positions : int, optional
            Maximum number of positions of a block, which has one item or more; by default scores take 32 MB.

        Raises
        ------
        InputError
            As in `fit`; for a generator, which can be read only once; for a folder that exists.

        Notes
        -----
        Memory: two batches, a block, and the names of the features.
        """
        return Writer(folder, batches, templates, min_count).write(n_positions)

    def __len__(self) -> int:
        return int(self.n_items.sum())

    def __iter__(self) -> Iterator[tuple[Any, NDArray]]:
        """Yield for each block its features, a CSR array (positions x features), and labels, as `fit_blocks`
        expects."""
        for number in range(self.n_items.size):
            store, targets, _ = self.read(number)
            indptr, indices, values = store.by_position
            shape = store.n_positions, store.n_features
            values = values if values.size else np.ones(indices.size)
            yield scipy.sparse.csr_array((values, indices, indptr), shape), self.classes[targets]

    def __repr__(self) -> str:
        return (
            f"Blocks({len(self):,} items, {self.n_positions.sum():,} positions, {self.n_features:,} features, "
            f"{len(self.classes)} labels, {self.n_items.size} blocks, {self.n_bytes.sum() / 1e6:.1f} MB)"
        )

    def check_kind(self, is_of_sequences: bool) -> None:
        """Raise InputError unless the items are sequences, or rows, as the model expects."""
        if self.is_of_sequences != is_of_sequences:
            kinds = "rows of features with a label each", "sequences"
            raise InputError(
                f"{self.folder}: expected blocks of {kinds[is_of_sequences]}, got {kinds[self.is_of_sequences]}"
            )

    def read(self, number: int) -> Block:
        """Return a block in new arrays; the first time, its checksum is compared. DataError for a damaged file."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = self.folder / BLOCK_FILE.format(number)
        try:
            if number not in self._checked and digest(path) != self._digests[number]:
                raise DataError(f"{path}: the file is damaged: its content does not match its checksum")
            arrays = load_file(path)
            self._checked.add(number)
            values = arrays["values"] if arrays["values"].size else ALL_ONES
            store = FeatureStore(arrays["indptr"], arrays["indices"], values, arrays["offsets"])
            return Block(store, arrays["targets"], arrays["weights"])
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: cannot be read: {error}") from error

    def objective(self, make: Callable[[Block, Pool], Part], pool: Pool) -> Objective:
        """Return the objective whose parts `make` returns for the blocks. Blocks are read each time they are needed."""
        parts = PartFiles(self.n_items.size, lambda number, threads: make(self.read(number), threads), pool)
        scratch = str(self.folder) if os.access(self.folder, os.W_OK) else tempfile.gettempdir()
        return Objective(StoredParts(parts, KEPT_NUMBERS, scratch))


def check_blocks_alone(y: object, sample_weight: object, validation: object) -> None:
    """Raise InputError for labels, weights and validation items given with blocks."""
    for name, value in (("y", y), ("sample_weight", sample_weight), ("validation", validation)):
        if value is not None:
            raise InputError(
                f"{name}: blocks have their own labels and weights; expected None, got {describe(value)}"
            )


def digest(path: Path) -> str:
    """Return the checksum of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


class Writer:
    """Writes a folder of blocks; parameters as in `Blocks.write`.

    The first pass over the batches sets the labels `classes`, `vocabulary`, `n_features` and `is_of_sequences`.
    """

    classes: NDArray
    vocabulary: Vocabulary | None
    n_features: int
    is_of_sequences: bool

    def __init__(
        self, folder: StrPath, batches: Batches, templates: BaseEstimator | None, min_count: int
    ) -> None:
        if not callable(batches) and (not isinstance(batches, Iterable) or isinstance(batches, Iterator)):
            raise InputError(
                "batches: expected an iterable of (X, y) that can be read twice, or a function that returns an "
                f"iterator, got {type(batches).__name__}"
            )
        self.folder, self.batches = Path(folder), batches
        self.templates = None if templates is None else clone(templates).set_params(min_count=1)
        self.min_count = min_count if templates is None else templates.min_count
        if self.folder.exists():
            raise InputError(f"{self.folder}: expected a folder that does not exist yet")

    def write(self, n_positions: int | None) -> Blocks:
        """Write the blocks to a temporary folder, then rename it."""
        from safetensors.numpy import save_file

        self.first_pass()
        max_positions = n_positions or max(min(BLOCK_SCORES // len(self.classes), BLOCK_POSITIONS), 1)
        part = self.folder.with_name(f".{self.folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
        content = ModelContent(metadata={"n_classes": len(self.classes), "n_features": self.n_features})
        content.metadata["is_of_sequences"] = self.is_of_sequences
        add_labels(content, self.classes)
        add_vocabulary(content, self.vocabulary, np.arange(self.n_features))
        sizes: list[tuple[int, int, int]] = []
        digests: list[str] = []
        try:
            part.mkdir(parents=True)
            for number, (store, targets, weights) in enumerate(self.second_pass(max_positions)):
                path = part / BLOCK_FILE.format(number)
                arrays = {"indptr": store.indptr, "indices": store.indices, "values": store.values}
                save_file(arrays | {"offsets": store.offsets, "targets": targets, "weights": weights}, path)
                sizes.append((store.n_items, store.n_positions, path.stat().st_size))
                digests.append(digest(path))
            content.arrays |= dict(
                zip(BLOCK_SIZES, np.array(sizes, np.int64).reshape(-1, 3).T.copy(), strict=True)
            )
            content.strings["digests"] = digests
            write_model(part / INDEX_FILE, INDEX_KIND, content.arrays, content.strings, content.metadata)
            part.rename(self.folder)
        except OSError as error:
            raise DataError(f"cannot write {self.folder}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return Blocks(self.folder)

    def read(self) -> Iterator[Batch]:
        """Yield the batches as (X, y, sample_weight or None)."""
        number = -1
        for number, batch in enumerate(self.batches() if callable(self.batches) else self.batches):
            if not isinstance(batch, tuple) or len(batch) not in (2, 3):
                raise InputError(f"batch {number}: expected (X, y) or (X, y, sample_weight)")
            try:
                yield (*batch, None)[:3]
            except InputError as error:  # of the code that reads the batch
                raise InputError(f"batch {number}: {error}") from error
        if number < 0:
            raise InputError("batches: expected at least one, got none")

    def first_pass(self) -> None:
        """Set labels and names; InputError for batches of different kinds."""
        names, known, source = MergedNames(), None, None
        classes, kinds, number = [], set(), 0
        for number, (X, y, _) in enumerate(self.read()):
            if has_no_position(X):
                continue
            try:
                items, is_of_sequences = self.encoded(X, None)
                kinds.add((is_of_sequences, items.vocabulary is None and items.n_features))
                classes.append(encode_labels(y, items.offsets)[0])
                if (known := items.vocabulary) is None and items.feature_names is not None:
                    raise InputError("expected items by name or matrices without names, got named columns")
                source = None if known is None else known.stored_source()
                if known is not None and not known.is_hashed:
                    counts = np.bincount(items.matrix.indices, minlength=len(known)).tolist()
                    names.add(known.names, known.value_starts.tolist(), counts)
            except InputError as error:
                raise InputError(f"batch {number}: {error}") from error
        if len(kinds) > 1:
            raise InputError(f"batches: expected all of one kind and of as many columns, got {sorted(kinds)}")
        if not kinds:
            raise InputError("batches: expected at least one position, but all items are empty")
        ((self.is_of_sequences, n_columns),) = kinds
        if not (self.is_of_sequences or n_columns):
            raise InputError("batches: expected at least one feature, got none")
        labels = list(chain.from_iterable(names_of_batch.tolist() for names_of_batch in classes))
        self.classes, _ = encode_labels(labels, np.arange(len(labels) + 1))
        has_attributes = known is not None and known.has_attributes
        self.vocabulary = None if known is None else names.vocabulary(self.min_count, source, has_attributes)
        self.n_features = n_columns or len(self.vocabulary or ())

    def encoded(self, X: Any, vocabulary: Vocabulary | None) -> tuple[Sequences, bool]:
        """Return the encoded items of a batch, and whether they are sequences."""
        if is_matrix(X):
            return Sequences(X, np.arange(X.shape[0] + 1)), False
        if self.templates is not None and vocabulary is None:
            X = self.templates.fit_transform(X)
        return encode_sequences(X, vocabulary)[0], True

    def second_pass(self, max_positions: int) -> Iterator[Block]:
        """Yield blocks of up to `max_positions` positions; an item with more has its own block."""
        runs: list[tuple[Sequences, Labels, Vector]] = []
        for X, y, sample_weight in self.read():
            if has_no_position(X):
                continue
            items, _ = self.encoded(X, self.vocabulary)
            targets = encode_known_labels(y, items.offsets, self.classes)
            weights = check_item_weights(sample_weight, len(items))
            weights = np.ones(len(items)) if weights is None else weights
            filled = items.lengths > 0
            if not filled.all():
                items, weights = items[filled], weights[filled]
            for first, last in pairwise(block_cuts(items.offsets, max_positions)):
                positions = slice(items.offsets[first], items.offsets[last])
                n_positions = sum(run[0].n_positions for run in runs) + positions.stop - positions.start
                if runs and n_positions > max_positions:
                    yield block_of(runs)
                    runs = []
                runs.append((items[first:last], targets[positions], weights[first:last]))
        yield block_of(runs)


def block_of(runs: list[tuple[Sequences, Labels, Vector]]) -> Block:
    """Return runs of items as one block."""
    matrices = [run[0].matrix for run in runs]
    is_sparse = any(map(scipy.sparse.issparse, matrices))
    matrix = scipy.sparse.vstack(matrices, format="csr") if is_sparse else np.concatenate(matrices)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([run[0].lengths for run in runs]))])
    targets, weights = (np.concatenate([run[n] for run in runs]) for n in (1, 2))
    return Block(FeatureStore.from_matrix(matrix, offsets), targets, weights)
