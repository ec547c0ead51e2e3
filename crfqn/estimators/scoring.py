"""Scores of new items under fitted weights: intercept + coef @ x.

Items given by name and small matrices are scored entry by entry, without matrix, store of features or threads; dense
data by matrix products where most weights are not zero; all else feature by feature through a store, which says what is
wrong with it. What depends on the places of the weights alone is made once (`cached_by_sparsity`).

Shapes: I items, N positions, F features, K nodes of the structure (flat: the classes; a chain: its labels).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.blas import single_threaded_blas
from crfqn.data.features import FeatureStore
from crfqn.data.sequences import Sequences
from crfqn.data.token_rows import TokenRows
from crfqn.data.vocabulary import KnownNames, Vocabulary
from crfqn.estimators.features import is_plain_array
from crfqn.estimators.weights import entries
from crfqn.kernels.sparse import score_entries
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import FEWEST_OPERATIONS, N_PARTS, Pool, cut_into_parts

SORTING = 4  # operations for an entry whose feature has no weight
# Of the weights of the features that have any: from there on a product with all of them is sooner done.
DENSE = 0.1
# Of the features: from there on all columns are multiplied as they lie, instead of a copy of some.
MOSTLY = 0.5
FEW = 16  # items: making a table of the weights takes about as long as the products of that many
POSITIONS = 4096  # items of a product: a thread's share, whatever their number
UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}  # by the size of the bytes of indices
Made = TypeVar("Made")


def cached_by_sparsity(make: Callable[..., Made]) -> Callable[..., Made]:
    """Keep a function's last result for a CSR array (and other objects), `kept` by the identity of `indices` while they
    live; it must not depend on the numbers, so that changing them in place is seen."""
    kept: dict[int, tuple[weakref.ref, weakref.ref, tuple[Any, ...], Made]] = {}

    @wraps(make)
    def cached(coef: Any, *others: Any) -> Made:
        key = id(coef.indices)
        found = kept.get(key)
        if (
            found is not None
            and found[0]() is coef.indices
            and found[1]() is coef.indptr
            and all(a is b for a, b in zip(found[2], others, strict=True))
        ):
            return found[3]
        made = make(coef, *others)
        indices = weakref.ref(coef.indices, lambda _: kept.pop(key, None))
        kept[key] = indices, weakref.ref(coef.indptr), others, made
        return made

    cached.kept = kept  # type: ignore[attr-defined]
    return cached


class ByFeature(NamedTuple):
    """Places of each feature's weights in a CSR array (K, F), in the order that `score_entries` takes."""

    heads: NDArray[np.int64]
    states: NDArray[np.int32]
    places: NDArray[np.int64]


@cached_by_sparsity
def weights_by_feature(coef: Any) -> ByFeature:
    """Return the order of the weights by feature: O(F + weights)."""
    order = np.argsort(coef.indices, kind="stable")
    heads = np.zeros(coef.shape[1] + 1, np.int64)
    np.cumsum(np.bincount(coef.indices, minlength=coef.shape[1]), out=heads[1:])
    states = np.repeat(np.arange(coef.shape[0], dtype=np.int32), np.diff(coef.indptr))[order]
    return ByFeature(heads, states, order)


@cached_by_sparsity
def names_with_weights(coef: Any, vocabulary: Vocabulary) -> KnownNames:
    """Return the names of the features that have weights: others add nothing to scores, and make look-ups slower."""
    if coef.format != "csr":
        return vocabulary
    features = np.unique(coef.indices)
    return vocabulary if features.size == len(vocabulary) else vocabulary.some(features)


@cached_by_sparsity
def _flat_places(coef: Any) -> NDArray[np.int64]:
    """Return the place of each weight in a table (rows x columns)."""
    rows = np.repeat(np.arange(coef.shape[0]), np.diff(coef.indptr))
    return rows * coef.shape[1] + coef.indices


def edge_table(coef: Any) -> NDArray[np.float64]:
    """Return a small sparse array as a table; for CSR in a tenth of the time of `toarray`."""
    if coef.format != "csr":
        return coef.toarray()
    table: Any = np.bincount(_flat_places(coef), coef.data, coef.shape[0] * coef.shape[1])
    return table.astype(np.float64, copy=False).reshape(
        coef.shape
    )  # of no entries at all it is one of integers


class Scorer(NamedTuple):
    """Scores of items, (K, N), under weights `coef`, CSR (K, F), and `intercept`, float64 (K,)."""

    coef: Any
    intercept: Vector
    pool: Pool

    def scores(self, items: Sequences | TokenRows) -> Vector:
        """Return the scores of all positions; InputError, naming the place, for what is not finite."""
        found = self.by_entry(items if isinstance(items, TokenRows) else items.matrix)
        if found is not None:
            return found
        matrix = items.matrix() if isinstance(items, TokenRows) else items.matrix
        return self.by_feature(FeatureStore.from_matrix(matrix, items.offsets, allow_empty=True))

    def by_entry(self, rows: Any) -> Vector | None:
        """Return the scores of `TokenRows`, or of a matrix (CSR or array) where that is little work; None for what goes
        with a store, such as other forms and what needs checks that name what is wrong."""
        coef = self.coef
        if coef.format != "csr" or coef.data.size != coef.indices.size:
            return None
        arrays = (
            (rows.row_ends, rows.columns, rows.values) if isinstance(rows, TokenRows) else _rows(rows, coef)
        )
        if arrays is None:
            return None
        row_ends, columns, _ = arrays
        heads, states, places = weights_by_feature(coef)
        weights = np.require(coef.data, np.float64, ["C", "W"])
        if columns.size > weights.size:
            weights, places = weights[places], places[:0]
        scores = np.empty((coef.shape[0], row_ends.size - 1))
        intercept = np.require(self.intercept, np.float64, ["C", "W"])
        kernel_arrays = *arrays, heads, states, places, weights, intercept, scores
        n_operations = columns.size * (SORTING + weights.size / heads.size)
        if n_operations < FEWEST_OPERATIONS or not isinstance(rows, TokenRows):
            return scores if score_entries(0, row_ends.size - 1, *kernel_arrays) else None
        cuts = cut_into_parts(row_ends, N_PARTS)
        are_finite = np.ones(cuts.size - 1, bool)

        def run(part: int) -> None:
            are_finite[part] = score_entries(cuts[part], cuts[part + 1], *kernel_arrays)

        self.pool.each(cuts.size - 1, run, n_operations)
        return scores if are_finite.all() else None

    def by_feature(self, store: FeatureStore) -> Vector:
        """Return the scores of the positions of a store."""
        coords, weights = entries(self.coef, store.n_features)
        if (coords[1:] < coords[:-1]).any():
            order = np.argsort(coords)
            coords, weights = coords[order], weights[order]
        scores = np.repeat(self.intercept[:, None], store.n_positions, axis=1)
        add_image(store, coords, weights, scores, NO_EDGES, self.pool)
        return scores

    def blocks(self, X: Any, n_block: int) -> Iterator[Vector]:
        """Yield the scores of the rows of a checked matrix, CSR, CSC or array, in blocks of at most `n_block`, reading
        the columns of features with a weight only."""
        n_items, places = X.shape[0], places_of(self.coef)
        if is_plain_array(X) and places.is_dense and (places.is_table or n_items >= FEW):
            table = table_of(self.coef, places)
            for first in range(0, n_items, n_block):
                yield self._products(X[first : first + n_block], table, places.columns)
            return
        if n_items <= n_block and (scores := self.by_entry(X)) is not None:
            yield scores
            return
        if n_items > n_block and hasattr(X, "tocsr"):
            X = X.tocsr()
        kept = places.kept
        narrow = self._replace(coef=self.coef[:, kept])
        for first in range(0, n_items, n_block):
            part = X[first : first + n_block] if n_items > n_block else X
            part = part if kept.size == X.shape[1] else part[:, kept]
            yield narrow.by_feature(
                FeatureStore.from_matrix(part, np.arange(part.shape[0] + 1), allow_empty=True)
            )

    def _products(self, rows: Vector, table: Vector, columns: Any) -> Vector:
        """Return the scores of an array's rows by matrix products; table: the weights of some `columns`."""
        n_items = rows.shape[0]
        scores = np.empty((table.shape[0], n_items))

        def run(part: int) -> None:
            stretch = slice(part * POSITIONS, min((part + 1) * POSITIONS, n_items))
            tile = rows[stretch] if isinstance(columns, slice) else rows[stretch, columns]
            np.matmul(table, np.asarray(tile, np.float64).T, out=scores[:, stretch])
            scores[:, stretch] += self.intercept[:, None]

        n_operations = table.size * float(n_items)
        with single_threaded_blas() if n_operations >= FEWEST_OPERATIONS else nullcontext():
            self.pool.each(-(-n_items // POSITIONS), run, n_operations)
        return scores


def _rows(matrix: Any, coef: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] | None:
    """Return a matrix's rows as `TokenRows` has them; None for other forms and damage, FEWEST_OPERATIONS or more."""
    is_sparse = hasattr(matrix, "tocsr")
    if is_sparse and matrix.format != "csr":
        return None
    if matrix.shape[1:] != coef.shape[1:] or matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        return None
    n_entries = matrix.data.size if is_sparse else matrix.size
    if n_entries * (1 + coef.data.size // max(1, coef.shape[1])) >= FEWEST_OPERATIONS:
        return None
    if is_sparse:
        row_ends, columns, values = matrix.indptr, matrix.indices, matrix.data
        is_sound = row_ends.size == matrix.shape[0] + 1 and row_ends[0] == 0 and columns.size == values.size
        # As unsigned numbers those below 0 are the largest.
        if not is_sound or (
            columns.size and np.maximum.reduce(columns.view(UNSIGNED[columns.itemsize])) >= coef.shape[1]
        ):
            return None
    else:
        positions, columns = np.nonzero(matrix)
        row_ends, values = np.searchsorted(positions, np.arange(len(matrix) + 1)), matrix[positions, columns]
    return (
        np.require(row_ends, np.int64, ["C", "W"]),
        np.require(columns, np.int32, ["C", "W"]),
        np.require(values, np.float64, ["C", "W"]),
    )


class NodePlaces(NamedTuple):
    """Places of the weights in a table of their features."""

    kept: NDArray[np.int64]  # sorted: the features that have a weight
    columns: NDArray[np.int64] | slice  # the features of the table's columns, all of them or those `kept`
    flat: NDArray[np.int64]  # of each weight in the table, (K, columns) in C order
    is_dense: bool  # a product with the table is sooner done than one with the weights that are not zero
    is_table: bool  # the numbers of the CSR array are the table, as it lies in memory


@cached_by_sparsity
def places_of(coef: Any) -> NodePlaces:
    """Return where the weights of a CSR array (K, F) lie: O(weights)."""
    kept = np.unique(coef.indices).astype(np.int64)
    n_states, n_features = coef.shape
    is_whole = kept.size >= MOSTLY * n_features
    states = np.repeat(np.arange(n_states), np.diff(coef.indptr))
    width = n_features if is_whole else kept.size
    flat = states * width + (coef.indices if is_whole else np.searchsorted(kept, coef.indices))
    return NodePlaces(
        kept,
        slice(None) if is_whole else kept,
        flat,
        coef.nnz >= DENSE * max(kept.size, 1) * n_states,
        flat.size == n_states * width and np.array_equal(flat, np.arange(flat.size)),
    )


def table_of(coef: Any, places: NodePlaces) -> Vector:
    """Return the weights as a table, (K, columns), to be read only; repeated entries of the array add up."""
    n_states, n_features = coef.shape
    width = n_features if isinstance(places.columns, slice) else places.kept.size
    if places.is_table and coef.data.dtype == np.float64:
        return coef.data.reshape(n_states, width)
    table: Any = np.bincount(places.flat, coef.data, minlength=n_states * width)
    return table.reshape(n_states, width)
