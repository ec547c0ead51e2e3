"""Scores and inference by compiled code, for many items.

Items given by name and small matrices are scored entry by entry; arrays and CSR matrices by matrix products if many
weights are not 0; all others feature by feature through a `FeatureStore`, whose checks name invalid values. Shapes: I
items, N positions, F features, K nodes of the structure (classes, or labels of a chain).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.data.encoding import Sequences, encode_new
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features, check_dense, sparse_of
from crfqn.data.inputs import ItemsLike
from crfqn.data.items import Items
from crfqn.data.label_arrays import encode_allowed_labels, split_by_item
from crfqn.data.matrices import is_plain_array
from crfqn.data.token_rows import Rows, TokenRows
from crfqn.data.vocabulary import NO_COLUMNS
from crfqn.errors import InputError
from crfqn.kernels.sparse import score_entries
from crfqn.messages import place_of
from crfqn.model.label_constraints import UNCONSTRAINED, LabelConstraints
from crfqn.model.opened_items import OpenedItems
from crfqn.model.unknown_features import warn_of_unknown_names
from crfqn.model.weights import WeightMatrix
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.chain import NO_TARGETS, Chain
from crfqn.structures.chain_decoding import n_best, pairs_of, span_probabilities
from crfqn.structures.contexts import Contexts
from crfqn.structures.item_chain import BestPath
from crfqn.structures.span_rules import SpanRules, Spans
from crfqn.structures.structure import NO_EDGES, Inference
from crfqn.threads import MIN_POOL_OPERATIONS, N_PARTS, Pool, cut_into_parts, single_threaded_blas

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ENTRY_OPERATIONS = 4  # cost of an entry without weights, in operations, when work is divided among threads
MIN_TABLE_ITEMS = 16  # items whose products take about as long as making a table of the weights
# CSR rows are multiplied by a table for up to this number of states, as making a store takes as long as so many
# products; for more states only if this fraction of the table is other than 0.
MAX_SPARSE_STATES, MIN_TABLE_DENSITY = 64, 0.5
ITEMS_PER_PRODUCT = 4096  # items of a matrix product: the share of a thread, whatever the number of items
UNSIGNED_DTYPES = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}  # by the size of an index in bytes


class Scorer(NamedTuple):
    """Scores of items, (K, N), under weights (K, F) and `intercept`, float64 (K,)."""

    coef: WeightMatrix
    intercept: Vector
    pool: Pool

    def scores(self, items: Sequences | TokenRows) -> Vector:
        """Return the scores of all positions; InputError, with the place, for values that are not finite."""
        scores = self.by_entry(items if isinstance(items, TokenRows) else items.matrix)
        if scores is not None:
            return scores
        matrix = items.matrix() if isinstance(items, TokenRows) else items.matrix
        return self.by_feature(FeatureStore.from_matrix(matrix, items.offsets, allow_empty=True))

    def by_entry(self, rows: TokenRows | csr_array | NDArray) -> Vector | None:
        """Return the scores of `TokenRows`, or of a small matrix (CSR or array). None if a store is needed: for
        other formats, large matrices, and values that its checks have to name."""
        coef = self.coef
        arrays = rows.rows if isinstance(rows, TokenRows) else _rows(rows, coef)
        if arrays is None:
            return None
        row_ends, columns, _ = arrays
        if coef.narrow is not None:
            columns = coef.narrowed(columns)
            arrays, coef = arrays._replace(columns=columns), coef.narrow
        heads, states, places = coef.by_feature
        weights = np.require(coef.values, np.float64, ["C", "W"])
        if columns.size > weights.size:
            weights, places = weights[places], places[:0]
        scores = np.empty((coef.shape[0], row_ends.size - 1))
        intercept = np.require(self.intercept, np.float64, ["C", "W"])
        kernel_arrays = *arrays, heads, states, places, weights, intercept, scores
        n_operations = columns.size * (ENTRY_OPERATIONS + weights.size / heads.size)
        if n_operations < MIN_POOL_OPERATIONS or not isinstance(rows, TokenRows):
            return scores if score_entries(0, row_ends.size - 1, *kernel_arrays) else None
        cuts = cut_into_parts(row_ends, N_PARTS)
        are_finite = np.ones(cuts.size - 1, bool)

        def run(part: int) -> None:
            are_finite[part] = score_entries(cuts[part], cuts[part + 1], *kernel_arrays)

        self.pool.each(cuts.size - 1, run, n_operations)
        return scores if are_finite.all() else None

    def by_feature(self, store: FeatureStore) -> Vector:
        """Return the scores of the positions of a store."""
        coords, weights = self.coef.rows * store.n_features + self.coef.columns, self.coef.values
        if (coords[1:] < coords[:-1]).any():
            order = np.argsort(coords)
            coords, weights = coords[order], weights[order]
        scores = np.repeat(self.intercept[:, None], store.n_positions, axis=1)
        add_image(store, coords, weights, scores, NO_EDGES, self.pool)
        return scores

    def blocks(self, X: Any, n_block: int) -> Iterator[Vector]:
        """Yield the scores of the rows of a checked matrix (CSR, CSC or array), `n_block` rows or fewer at a time. Only
        columns of features with a weight are read."""
        n_items, places = X.shape[0], self.coef.places
        is_array = is_plain_array(X)
        is_quick = is_array and places.is_dense and (places.is_table or n_items >= MIN_TABLE_ITEMS)
        if not is_quick and n_items <= n_block and (scores := self.by_entry(X)) is not None:
            yield scores
            return
        if n_items > n_block and hasattr(X, "tocsr"):
            X = X.tocsr()
        if is_quick or (not is_array and X.format == "csr" and self._fits_table(X)):
            table = self.coef.table()
            for first in range(0, n_items, n_block):
                yield self._products(_rows_between(X, first, first + n_block), table, places.columns)
            return
        features = places.kept
        narrow = self._replace(coef=WeightMatrix.of_sparse(self.coef.csr[:, features]))
        for first in range(0, n_items, n_block):
            part = X[first : first + n_block] if n_items > n_block else X
            part = part if features.size == X.shape[1] else part[:, features]
            yield narrow.by_feature(
                FeatureStore.from_matrix(part, np.arange(part.shape[0] + 1), allow_empty=True)
            )

    def _fits_table(self, rows: csr_array) -> bool:
        """Return whether a product of a CSR matrix with a table of the weights is faster than scores by feature: the
        table is full enough, and making it takes no longer than the products."""
        places, (n_states, n_features) = self.coef.places, self.coef.shape
        minimum = 0.0 if n_states <= MAX_SPARSE_STATES else MIN_TABLE_DENSITY * places.kept.size * n_states
        is_full = places.is_dense and self.coef.values.size >= minimum
        return is_full and (places.is_table or n_features <= rows.indices.size)

    def _products(self, rows: Any, table: Vector, columns: NDArray[np.int64] | slice) -> Vector:
        """Return the scores of the rows of an array or a CSR matrix by matrix products with a table of the weights of
        some `columns`."""
        n_items, is_sparse = rows.shape[0], hasattr(rows, "tocsr")
        scores = np.empty((table.shape[0], n_items))
        by_feature = np.ascontiguousarray(table.T) if is_sparse else table.T

        def run(part: int) -> None:
            chunk = slice(part * ITEMS_PER_PRODUCT, min((part + 1) * ITEMS_PER_PRODUCT, n_items))
            tile = _rows_between(rows, chunk.start, chunk.stop)
            tile = tile if isinstance(columns, slice) else tile[:, columns]
            if is_sparse:
                scores[:, chunk] = (tile @ by_feature).T
            else:
                np.matmul(table, np.asarray(tile, np.float64).T, out=scores[:, chunk])
            scores[:, chunk] += self.intercept[:, None]

        n_operations = table.shape[0] * float(rows.indices.size if is_sparse else rows.size)
        with single_threaded_blas() if n_operations >= MIN_POOL_OPERATIONS else nullcontext():
            self.pool.each(-(-n_items // ITEMS_PER_PRODUCT), run, n_operations)
        return scores


@dataclass(eq=False)
class EncodedItems(Items):
    """Sequences with their features and chain, to be labelled repeatedly; `columns`: of the chain's bigram features."""

    chain: Chain
    store: FeatureStore
    columns: NDArray[np.int64]

    @classmethod
    def from_sequences(cls, sequences: Sequences, chain: Chain, columns: NDArray[np.int64]) -> Self:
        """Return sequences with a chain over them; InputError without positions."""
        if sequences.n_positions == 0:
            raise InputError("validation: expected at least one position, got none")
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
        items = cls(chain, store, columns)
        items.offsets = chain.offsets
        return items


@dataclass(frozen=True, eq=False)
class CompiledItems(OpenedItems):
    """Sequences ready for inference: chain, node scores (K, N), -inf for excluded labels, and edge weights (E,)."""

    chain: Chain
    scores: Vector
    edges: Vector
    n_threads: int | None

    def at(self, temperature: float) -> Self:
        """Return the items with all scores divided by a temperature."""
        if temperature == 1.0:
            return self
        return replace(self, scores=self.scores / temperature, edges=self.edges / temperature)

    def _best(self) -> tuple[Labels, Vector]:
        with Pool(self.n_threads) as pool:
            decoded = self.chain.decode(self.scores, self.edges, pool)
        return decoded.states, decoded.score

    def _infer(self, scores: Vector, targets: Labels = NO_TARGETS) -> Inference:
        with Pool(self.n_threads) as pool:
            return self.chain.infer(scores, self.edges, targets, pool=pool)

    def log_partition(self) -> Vector:
        """Return log Z of each item, (I,)."""
        return self._infer(self.scores).log_partition

    def marginals(self) -> list[Vector]:
        """Return the probabilities of the labels, (T, K) for each item."""
        return split_by_item(np.ascontiguousarray(self._infer(self.scores).residual.T), self.offsets)

    def pairs(self) -> list[Vector]:
        """Return the probabilities of pairs of neighbouring labels, (T - 1, K, K) for each item."""
        with Pool(self.n_threads) as pool:
            return pairs_of(self.chain, self.scores, self.edges, pool)

    def _n_best(self, n: int) -> list[list[BestPath]]:
        with Pool(self.n_threads) as pool:
            best = n_best(self.chain, self.scores, self.edges, n, pool)
        offsets = self.offsets.tolist()
        return [
            [
                BestPath(best.states[r, offsets[i] : offsets[i + 1]].tolist(), float(best.score[r, i]))
                for r in range(best.counts[i])
            ]
            for i in range(self.chain.n_items)
        ]

    @cached_property
    def _masked(self) -> tuple[Vector, Vector]:
        scores, tables = self.chain.masked_scores(self.scores, self.edges)
        return scores, tables.reshape(-1, self.chain.n_states, self.chain.n_states)

    def item(self, i: int) -> tuple[Vector, list[Vector]]:
        (scores, tables), (first, last) = self._masked, self.offsets[i : i + 2].tolist()
        table_of = self.chain.table_of[first:last].tolist() or [0] * (last - first)
        return scores[:, first:last].T, [tables[table] for table in table_of]

    def span_probabilities(self, spans: Spans, rules: SpanRules) -> Vector:
        """Return the probability of each span, (S,)."""
        with Pool(self.n_threads) as pool:
            return span_probabilities(self.chain, self.scores, self.edges, spans, rules, pool)

    def log_probability(self, states: Labels) -> Vector:
        """Return log P of a labelling of each item, (I,), given its states, int32 (N,)."""
        inference = self._infer(self.scores, states)
        return inference.target_score - inference.log_partition

    def within(self, allowed: NDArray[np.bool_]) -> Vector:
        """Return log Z of each item over the allowed labellings, (I,), -inf without any; `allowed` : states, (K, N)."""
        log_sums = self._infer(np.where(allowed, self.scores, -np.inf)).log_partition
        log_sums[self.chain.impossible(allowed)] = -np.inf
        return log_sums


@dataclass(frozen=True)
class CompiledEngine:
    """The engine of compiled code, with a number of threads, by default that of cores."""

    n_threads: int | None = None
    # Scores of a block of single items: 64 MB, which bounds the memory of an array.
    block_numbers: int = 1 << 23

    def node_scores(self, model: Any, X: Any, pool: Pool) -> Iterator[Vector]:
        """Yield the scores of the nodes, (K, items), block by block, for checked items, rows of a matrix. Only columns
        of features with a weight are read."""
        n_block, first = max(1, self.block_numbers // model.weights.shape[0]), 0
        for scores in Scorer(model.weights, model.intercept, pool).blocks(sparse_of(X), n_block):
            last = first + scores.shape[1]
            if model.n_dense_:
                scores = scores + model.dense_coef_ @ np.asarray(X.dense[first:last], np.float64).T
            yield scores
            first = last

    def class_scores(self, model: Any, X: ItemsLike, warns: bool = True) -> Iterator[Vector]:
        """Yield the scores of the classes, (items, classes), block by block: in a taxonomy the sums of the scores of a
        class's node and its ancestors."""
        with Pool(self.n_threads) as pool:
            for scores in self.node_scores(model, X, pool):
                yield model.labels.compiled_class_scores(scores, pool).T

    def node_probabilities(self, model: Any, X: ItemsLike, warns: bool = True) -> Iterator[Vector]:
        """Yield for each node of a taxonomy the probability of the node and those under it, (items, K), block by
        block."""
        with Pool(self.n_threads) as pool:
            for scores in self.node_scores(model, X, pool):
                if model.temperature != 1.0:
                    scores = scores / model.temperature
                structure = model.labels.forest.over(np.arange(scores.shape[1] + 1))
                yield structure.infer(scores, pool=pool).residual.T

    def open(
        self, model: Any, X: ItemsLike, constraints: LabelConstraints = UNCONSTRAINED, warns: bool = True
    ) -> CompiledItems:
        """Return new sequences under constraints; InputError for an item without an allowed labelling. `warns`: whether
        to warn of items without a known feature."""
        known, single_runs = constraints.known, model.single_runs(constraints.once)
        with Pool(self.n_threads) as pool:
            if model.n_dense_ or isinstance(X, Features):
                features = check_dense(X, model.n_dense_)
                chain, scores, edges = self._scored(model, features.sparse, pool, warns=False)
                scores = scores + model.dense_coef_ @ np.asarray(features.dense, np.float64).T
            else:
                chain, scores, edges = self._scored(model, X, pool, warns)
            allowed = None if known is None else encode_allowed_labels(known, chain.offsets, model.classes_)
            impossible = chain.impossible(allowed, pool)
        if impossible.size:
            more = "" if known is None else " and the known labels"
            raise InputError(f"{place_of(impossible[0])}: no labelling keeps the rules{more}")
        scores = scores if allowed is None else np.where(allowed, scores, -np.inf)
        return CompiledItems(chain.offsets, single_runs, chain, scores, edges, self.n_threads)

    def _scored(self, model: Any, X: Any, pool: Pool, warns: bool) -> tuple[Chain, Vector, Vector]:
        """Return the chain over items without a dense block, its node scores and its edge weights."""
        scorer = Scorer(model.weights, np.zeros(len(model.classes_)), pool)
        if isinstance(X, EncodedItems):
            return X.chain, scorer.by_feature(X.store), edge_scores(model, X.columns)
        X = list(X) if isinstance(X, Iterator) else X
        encoded: Any = encode_new(X, model.vocabulary, model.n_features_in_, model.known_pairs)
        if warns and model.weights.values.size:  # otherwise scores do not depend on features
            warn_of_unknown_names(encoded, X, model)
        n_states, columns, matrix = len(model.classes_), NO_COLUMNS, None
        if model.bigrams is not None and model.bigrams.values.size:
            if isinstance(encoded, TokenRows):  # the rows are used up, as the matrix takes their memory
                encoded = Sequences.from_checked(encoded.matrix(), encoded.offsets)
            matrix = scipy.sparse.csr_array(encoded.matrix)
            columns = np.intersect1d(model.bigrams.columns, matrix.indices).astype(np.int64)
        contexts = Contexts.from_columns(matrix, columns, n_states)
        chain = Chain(encoded.offsets, n_states, rules=model.rules_, contexts=contexts)
        return chain, scorer.scores(encoded), edge_scores(model, columns)


def edge_scores(model: Any, columns: NDArray[np.int64]) -> Vector:
    """Return the edge weights of a chain with some columns as bigram features."""
    edges = model.edges.to_dense()
    if not columns.size:
        return edges
    return np.vstack([edges.reshape(1, -1), model.bigrams.csr[:, columns].toarray().T])


def _rows_between(matrix: Any, first: int, last: int) -> Any:
    """Return the rows `first` ... `last` - 1 of an array or a CSR matrix, without a copy."""
    if not hasattr(matrix, "tocsr"):
        return matrix[first:last]
    ends = matrix.indptr[first : last + 1]
    entries = slice(ends[0], ends[-1])
    parts = matrix.data[entries], matrix.indices[entries], ends - ends[0]
    return scipy.sparse.csr_array(parts, shape=(ends.size - 1, matrix.shape[1]))


def _rows(matrix: Any, coef: WeightMatrix) -> Rows | None:
    """Return the rows of a CSR matrix or an array; None for other formats, invalid matrices, and large ones."""
    is_sparse = hasattr(matrix, "tocsr")
    if is_sparse and matrix.format != "csr":
        return None
    if matrix.shape[1:] != coef.shape[1:] or matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        return None
    n_entries = matrix.data.size if is_sparse else matrix.size
    if n_entries * (1 + coef.values.size // max(1, coef.shape[1])) >= MIN_POOL_OPERATIONS:
        return None
    if is_sparse:
        row_ends, columns, values = matrix.indptr, matrix.indices, matrix.data
        is_sound = row_ends.size == matrix.shape[0] + 1 and row_ends[0] == 0 and columns.size == values.size
        # As unsigned integers, negative indices are larger than all others.
        if not is_sound or (
            columns.size
            and np.maximum.reduce(columns.view(UNSIGNED_DTYPES[columns.itemsize])) >= coef.shape[1]
        ):
            return None
    else:
        positions, columns = np.nonzero(matrix)
        row_ends, values = np.searchsorted(positions, np.arange(len(matrix) + 1)), matrix[positions, columns]
    return Rows(
        np.require(row_ends, np.int64, ["C", "W"]),
        np.require(columns, np.int32, ["C", "W"]),
        np.require(values, np.float64, ["C", "W"]),
    )
