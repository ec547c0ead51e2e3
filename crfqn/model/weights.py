"""The sparse weights of a model: scores with numpy alone, and starts of trainings.

Scores add the terms in the order of the features, as `kernels/sparse.py` does, so that both give the same bits. Shapes:
N positions, F features, K states (labels, or nodes of a taxonomy).

A training may start from the weights of another model. Labels (in a taxonomy nodes) are matched by name; so are
features if both models have names, otherwise by number, and then both must have the same number of features. All other
weights start at 0. With a dense block the columns of a training are its D features, the sparse features, and perhaps a
constant; the model stores `dense_coef_` (K, D) and `coef_`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.arrays import SparseWeights, Vector, distinct_columns
from crfqn.data.inputs import SparseMatrix
from crfqn.data.token_rows import ENTRIES_PER_CHUNK, Rows
from crfqn.data.vocabulary import UNSEEN
from crfqn.errors import InputError
from crfqn.messages import tell
from crfqn.model.content import Entries

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FEATURE_BITS = 32  # low bits of a sort key, which hold the feature; the others hold the position
FEATURE_MASK = (1 << FEATURE_BITS) - 1
# Fraction of the used features' weights that are not 0 from which a product with all of them is faster.
MIN_DENSE_SHARE = 0.1
# A table of weights by feature, whose rows are added faster than single weights: its maximum size in numbers (8 MB);
# its minimum density if there are more states than this; and how many numbers are added at a time.
MAX_ROW_TABLE_SIZE, MAX_SPARSE_STATES, MIN_ROW_TABLE_DENSITY, ROW_TABLE_CHUNK = 1 << 20, 64, 0.125, 1 << 17
# Arrays over all features (32 MB) are avoided if there are more features than this, and than so many times the weights.
MAX_WIDE_FEATURES, MAX_FEATURES_PER_WEIGHT = 1 << 22, 16
# Fraction of the features with weights from which products use all columns of the data instead of a copy of some.
MIN_WHOLE_SHARE = 0.5


class ByFeature(NamedTuple):
    """The order of the weights by feature, states ascending: feature f has the weights at places[heads[f]] ...
    places[heads[f + 1] - 1], of these states. Shapes: heads int64 (F + 1,), states int32 (n,), places int64 (n,)."""

    heads: NDArray[np.int64]
    states: NDArray[np.int32]
    places: NDArray[np.int64]


class NodePlaces(NamedTuple):
    """The places of the weights in a table of their features."""

    kept: NDArray[np.int64]  # the features that have a weight, sorted
    columns: NDArray[np.int64] | slice  # the features of the columns of the table: all, or those `kept`
    flat: NDArray[np.int64]  # place of each weight in the table, (K, columns) in C order
    is_dense: bool  # whether a product with the table is faster than one with the sparse weights
    is_table: bool  # whether the values are the table, in the same order


@dataclass(frozen=True, eq=False)
class WeightMatrix:
    """A sparse matrix of weights (CSR): row k has values[row_ends[k]:row_ends[k + 1]] in these `columns`.

    Arrays that depend only on the places of the weights are cached. Compiled code sees values that are changed in
    place; `scores` and `terms` keep those of their first call.
    """

    values: Vector  # float64 (n,)
    columns: NDArray[np.integer]  # (n,)
    row_ends: NDArray[np.integer]  # (rows + 1,)
    shape: tuple[int, int]

    @classmethod
    def from_entries(cls, entries: Entries, shape: tuple[int, int]) -> Self:
        """Return the matrix of entries in any order; entries at the same place are added."""
        values, rows, columns = entries
        places = rows.astype(np.int64) * shape[1] + columns
        if not (places[1:] > places[:-1]).all():  # those of a training are sorted
            order = np.argsort(places, kind="stable")
            places, firsts = np.unique(places[order], return_index=True)
            values, rows, columns = (
                np.add.reduceat(values[order], firsts),
                rows[order][firsts],
                columns[order][firsts],
            )
        row_ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        dtype = np.int32 if max(*shape, values.size) <= np.iinfo(np.int32).max else np.int64
        return cls(values.copy(), columns.astype(dtype), row_ends.astype(dtype), shape)

    @classmethod
    def of_sparse(cls, matrix: SparseMatrix) -> Self:
        """Return the matrix of a sparse array, in the same memory if that is CSR."""
        csr = matrix.tocsr()
        weights = cls(csr.data, csr.indices, csr.indptr, csr.shape)
        weights.__dict__["csr"] = csr
        return weights

    @cached_property
    def csr(self) -> csr_array:
        """The matrix as scipy's `csr_array`, in the same memory."""
        from scipy.sparse import csr_array

        matrix = csr_array((self.values, self.columns, self.row_ends), shape=self.shape)
        # the arrays themselves, not views
        matrix.data, matrix.indices, matrix.indptr = self.values, self.columns, self.row_ends
        return matrix

    @property
    def current(self) -> Self:
        """The matrix, or a new one if its `csr` has other arrays now, as after `eliminate_zeros`."""
        csr = self.__dict__.get("csr")
        ours = self.values, self.columns, self.row_ends
        if csr is None or all(a is b for a, b in zip(ours, (csr.data, csr.indices, csr.indptr), strict=True)):
            return self
        return self.of_sparse(csr)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without the places of a matrix that has no zeros."""
        state = {name: getattr(self, name) for name in ("values", "columns", "row_ends", "shape")}
        n_rows, n_columns = self.shape
        if (
            self.values.size == n_rows * n_columns
            and np.array_equal(self.row_ends, np.arange(n_rows + 1) * n_columns)
            and np.array_equal(self.columns, np.tile(np.arange(n_columns), n_rows))
        ):
            state["columns"] = state["row_ends"] = self.columns.dtype
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["columns"], np.dtype):
            (n_rows, n_columns), dtype = state["shape"], state["columns"]
            state["columns"] = np.tile(np.arange(n_columns, dtype=dtype), n_rows)
            state["row_ends"] = np.arange(n_rows + 1, dtype=dtype) * n_columns
        self.__dict__.update(state)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each weight, (n,)."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.row_ends))

    @cached_property
    def features(self) -> NDArray[np.int64]:
        """The features that have weights, sorted."""
        return distinct_columns(self.columns)

    @cached_property
    def narrow(self) -> WeightMatrix | None:
        """The matrix with the columns of features with weights only, if arrays over all features would be much larger
        than the weights, as for a file with 2^31 features and 10 weights; else None."""
        if self.shape[1] <= max(MAX_WIDE_FEATURES, MAX_FEATURES_PER_WEIGHT * self.values.size):
            return None
        columns = np.searchsorted(self.features, self.columns)
        return WeightMatrix(self.values, columns, self.row_ends, (self.shape[0], self.features.size))

    def narrowed(self, columns: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the columns of some features in `narrow`, UNSEEN for features without a weight."""
        if not self.features.size:
            return np.full_like(columns, UNSEEN)
        places = np.minimum(np.searchsorted(self.features, columns), self.features.size - 1)
        return np.where(self.features[places] == columns, places, UNSEEN).astype(columns.dtype)

    @cached_property
    def by_feature(self) -> ByFeature:
        """The order of the weights by feature: O(F + weights)."""
        order = np.argsort(self.columns, kind="stable")
        heads = np.zeros(self.shape[1] + 1, np.int64)
        np.cumsum(np.bincount(self.columns, minlength=self.shape[1]), out=heads[1:])
        return ByFeature(heads, self.rows[order].astype(np.int32), order)

    @cached_property
    def places(self) -> NodePlaces:
        """The places of the weights in a table of their features, in time O(weights)."""
        features, (n_states, n_features) = self.features, self.shape
        is_whole = features.size >= MIN_WHOLE_SHARE * n_features
        width = n_features if is_whole else features.size
        flat = self.rows * width + (self.columns if is_whole else np.searchsorted(features, self.columns))
        return NodePlaces(
            features,
            slice(None) if is_whole else features,
            flat,
            self.values.size >= MIN_DENSE_SHARE * max(features.size, 1) * n_states,
            flat.size == n_states * width and np.array_equal(flat, np.arange(flat.size)),
        )

    def to_dense(self) -> Vector:
        """Return the matrix as a dense array; for small ones this takes a tenth of the time of scipy's `toarray`."""
        table = np.bincount(self._flat, self.values, math.prod(self.shape))
        return table.astype(np.float64, copy=False).reshape(self.shape)  # integers without any entry

    @cached_property
    def _flat(self) -> NDArray[np.int64]:
        return self.rows * self.shape[1] + self.columns

    def table(self) -> Vector:
        """Return the weights of the columns `places.columns` as a table, which must not be changed."""
        places, n_states = self.places, self.shape[0]
        width = self.shape[1] if isinstance(places.columns, slice) else places.kept.size
        if places.is_table and self.values.dtype == np.float64:
            return self.values.reshape(n_states, width)
        table = np.bincount(places.flat, self.values, minlength=n_states * width)
        return table.astype(np.float64, copy=False).reshape(n_states, width)

    def entries(self) -> Entries:
        """Return the non-zeros sorted by feature."""
        if self.narrow is not None:
            entries = self.narrow.entries()
            return entries._replace(columns=self.features[entries.columns])
        _, states, places = self.by_feature
        return Entries(self.values[places], states.astype(np.int64), self.columns[places].astype(np.int64))

    def scores(self, rows: Rows, intercept: Vector | None = None) -> Vector:
        """Return the scores of positions, float64 (N, K): intercept (K,) + weights x features. InputError for
        values that are not finite."""
        if self.narrow is not None:
            return self.narrow.scores(rows._replace(columns=self.narrowed(rows.columns)), intercept)
        is_dense = self._row_table is not None and not rows.values.size
        n_entries = max(ROW_TABLE_CHUNK // self.shape[0], 1) if is_dense else ENTRIES_PER_CHUNK
        if rows.columns.size <= n_entries:
            return self._scores(rows, intercept)
        return np.concatenate([self._scores(part, intercept) for part in rows.stretches(n_entries)])

    def terms(self, rows: Rows, position: int) -> tuple[Vector, NDArray[np.integer], NDArray[np.int64]]:
        """Return the terms of the scores of a position, weights times values, and the state and feature of each."""
        if self.narrow is not None:
            narrow_rows = rows.cut(position, position + 1)
            narrow_rows = narrow_rows._replace(columns=self.narrowed(narrow_rows.columns))
            terms, states, features = self.narrow.terms(narrow_rows, 0)
            return terms, states, self.features[features]
        _, columns, values = _sorted(rows.cut(position, position + 1))
        counts, places = self._places(columns)
        weights, states, _, _ = self._sorted_weights
        factors = 1.0 if values is None else values.repeat(counts)
        return weights[places] * factors, states[places], columns.repeat(counts)

    @cached_property
    def _sorted_weights(self) -> tuple[Vector, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The weights by feature and their states, (n,), the number of weights and the end of each feature, (F,)."""
        heads, states, places = self.by_feature
        return self.values[places], states.astype(np.int64), np.diff(heads), heads[1:]

    def _places(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of weights of some features, and the places of these weights in `_sorted_weights`."""
        _, _, n_weights, tails = self._sorted_weights
        counts = n_weights.take(columns)
        ends = counts.cumsum()
        places = np.arange(ends[-1] if ends.size else 0)
        places += (tails.take(columns) - ends).repeat(counts)
        return counts, places

    @cached_property
    def _row_table(self) -> tuple[NDArray[np.int64], Vector] | None:
        """The row of each feature in a table, (F + 1,), and the table of weights, (rows, K). Its last row, of zeros, is
        for features without a weight and for UNSEEN = -1. None if the table would be too large or too sparse."""
        features, (n_states, n_features) = self.features, self.shape
        size = (features.size + 1) * n_states
        is_sparse = n_states > MAX_SPARSE_STATES and self.values.size < MIN_ROW_TABLE_DENSITY * size
        if size > MAX_ROW_TABLE_SIZE or is_sparse:
            return None
        row_of = np.full(n_features + 1, features.size)
        row_of[features] = np.arange(features.size)
        table = np.zeros((features.size + 1, n_states))
        table[row_of[self.columns], self.rows] = self.values
        return row_of, table

    def _dense_scores(self, rows: Rows, intercept: Vector | None) -> Vector | None:
        """Return the result of `_scores` by sums of dense rows, in the same order. None for rows with values, for
        positions with very different numbers of entries, and for a column that occurs twice at a position."""
        if self._row_table is None or rows.values.size or self.shape[0] == 1 or not rows.columns.size:
            return None
        (row_of, table), row_ends, columns = self._row_table, rows.row_ends, rows.columns
        lengths = row_ends[1:] - row_ends[:-1]
        shape = lengths.size, int(lengths.max())
        if shape[0] * shape[1] == columns.size:
            padded = columns.reshape(shape).copy()
        elif shape[0] * shape[1] < 2 * columns.size:
            padded = np.full(shape, UNSEEN, columns.dtype)
            padded[np.arange(shape[1]) < lengths[:, None]] = columns
        else:
            return None
        padded.sort(1)
        entries = padded.reshape(-1)  # equal neighbours of two positions are rare
        if shape[1] > 1 and np.count_nonzero((entries[1:] == entries[:-1]) & (entries[1:] >= 0)):
            return None
        terms = table.take(row_of.take(padded.T), 0)  # (entries of a position, N, K)
        if intercept is not None:
            terms[0] += intercept
        return np.add.reduce(terms, 0)

    def _scores(self, rows: Rows, intercept: Vector | None) -> Vector:
        dense_scores = self._dense_scores(rows, intercept)
        if dense_scores is not None:
            return dense_scores
        n_positions, n_states = rows.row_ends.size - 1, self.shape[0]
        positions, columns, values = _sorted(rows)
        counts, places = self._places(columns)
        weights, states, _, _ = self._sorted_weights
        terms, cells = weights.take(places), states.take(places)
        if values is not None:
            terms *= values.repeat(counts)
        cells += (positions * n_states).repeat(counts)
        if intercept is not None:
            cells = np.concatenate([np.arange(n_positions * n_states), cells])
            terms = np.concatenate([np.tile(intercept, n_positions), terms])
        scores = np.bincount(cells, terms, n_positions * n_states)
        return scores.astype(np.float64, copy=False).reshape(n_positions, n_states)


def _sorted(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector | None]:
    """Return position, feature and value of the known entries, sorted and without duplicates; values of 1 are None."""
    row_ends, columns, values = rows
    keys = (np.arange(row_ends.size - 1) << FEATURE_BITS).repeat(row_ends[1:] - row_ends[:-1])
    keys += columns
    is_known = columns >= 0
    if not values.size:
        keys = keys[is_known]
        keys.sort()
        if not (keys[1:] == keys[:-1]).any():
            return keys >> FEATURE_BITS, keys & FEATURE_MASK, None
        values = np.ones(keys.size)
    else:
        keys, values = keys[is_known], values[is_known]
        order = keys.argsort(kind="stable")
        keys, values = keys[order], values[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    entry = np.repeat(np.arange(firsts.size), np.diff(firsts, append=keys.size))
    sums = np.bincount(entry, values, firsts.size)  # in the order of the rows
    values = sums.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        place = int(keys[firsts[~np.isfinite(values)][0]])
        position, feature = place >> FEATURE_BITS, place & FEATURE_MASK
        raise InputError(f"position {position}: the values of feature {feature} are not finite")
    keys = keys[firsts]
    return keys >> FEATURE_BITS, keys & FEATURE_MASK, values


@dataclass(eq=False)
class FittedArray:
    """Attribute of fitted estimators: an array of the model."""

    field: str

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        array = getattr(model.__dict__.get("model_"), self.field, None)
        if array is None:
            raise AttributeError(f"{type(model).__name__} has no {self.field} of a training")
        return array

    def __set__(self, model: Any, array: ArrayLike) -> None:
        model.model_ = replace(model.model_, **{self.field: np.asarray(array)})


class FittedMatrix(FittedArray):
    """Attribute of fitted estimators: weights of the model as a `csr_array`, in the same memory."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        matrix = super().__get__(model, owner)
        return self if model is None else matrix.csr

    def __set__(self, model: Any, matrix: Any) -> None:
        model.model_ = replace(model.model_, **{self.field: WeightMatrix.of_sparse(matrix)})


class FittedDense(FittedArray):
    """Attribute of fitted estimators: the weights of a dense block; AttributeError without one."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is not None and not model.n_dense_:
            raise AttributeError(f"{type(model).__name__} has no {self.field} of a training")
        return super().__get__(model, owner)


@dataclass(frozen=True, eq=False)
class Axes:
    """The names of the rows and columns of weights: labels or nodes, and features if they have names."""

    labels: Sequence[Any]
    n_features: int
    features: Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class AxisMatch:
    """The number of each label (`rows`) and feature (`columns`) of an old model in a new one, -1 if it has none.
    `columns` is None if the features are the same."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64] | None

    def entries(self, matrix: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return new rows, new columns and values of the weights (labels x features) that the new model has."""
        cells = matrix.tocoo()
        rows = self.rows[cells.row]
        columns = cells.col.astype(np.int64) if self.columns is None else self.columns[cells.col]
        stays = (rows >= 0) & (columns >= 0)
        return rows[stays], columns[stays], cells.data[stays]


def match_axes(old: Axes, new: Axes, is_required: bool) -> AxisMatch | None:
    """Return common labels and features; None if features do not match, InputError if the start `is_required`."""
    rows = new_numbers(old.labels, new.labels)
    if old.features is not None and new.features is not None:
        return AxisMatch(rows, new_numbers(old.features, new.features))
    if old.n_features == new.n_features:
        return AxisMatch(rows, np.arange(old.n_features))
    if is_required:
        raise InputError(
            f"start: expected a model of {new.n_features} features, or names of features on both sides, "
            f"got one of {old.n_features}"
        )
    return None


def sorted_weights(coords: NDArray[np.int64], values: NDArray[np.float64]) -> SparseWeights:
    """Return the non-zero weights, sorted by coordinate."""
    coords, values = coords[values != 0], values[values != 0]
    order = np.argsort(coords)
    return SparseWeights(coords[order], values[order])


def print_start(common: AxisMatch | None, new: Axes, weights: SparseWeights | None, n_before: int) -> None:
    """Print on stderr how many weights of the start the training takes over."""
    if common is None or weights is None:
        text = "start: nothing kept, other features without names"
    else:
        n_labels, n_features = int((common.rows >= 0).sum()), new.n_features
        if common.columns is not None:
            n_features = int((common.columns >= 0).sum())
        text = (
            f"start: {weights.coords.size:,} of {n_before:,} weights kept; in common {n_labels:,} of "
            f"{len(new.labels):,} labels, {n_features:,} of {new.n_features:,} features"
        )
    tell(text)


def new_numbers(old: Sequence[Any], new: Sequence[Any]) -> NDArray[np.int64]:
    """Return the number of each old name among the new ones, int64, -1 if it is not there."""
    number = dict(zip(new, range(len(new)), strict=True))
    return np.array([number.get(name, -1) for name in old], np.int64)


def split_weights(
    weights: SparseWeights, n_states: int, n_columns: int, n_dense: int
) -> tuple[Vector, SparseWeights]:
    """Return the weights of the dense block, (K, D), and the others with coordinates without it; n_columns : F."""
    coords, values = weights
    wide, n_nodes = n_dense + n_columns, n_states * (n_dense + n_columns)
    states, features = np.divmod(coords, wide)
    is_node = coords < n_nodes
    is_dense = is_node & (features < n_dense)
    table = np.zeros((n_states, n_dense))
    table[states[is_dense], features[is_dense]] = values[is_dense]
    shift = np.where(is_node, n_dense * (states + 1), n_dense * n_states)
    return table, SparseWeights((coords - shift)[~is_dense], values[~is_dense])


def joined_weights(table: Vector, weights: SparseWeights, n_columns: int) -> SparseWeights:
    """Return the weights that `split_weights` split, without dense weights of 0."""
    n_states, n_dense = table.shape
    coords, values = weights
    states = np.minimum(coords // n_columns + 1, n_states)
    dense_states, dense_features = np.nonzero(table)
    dense_coords = dense_states * (n_dense + n_columns) + dense_features
    coords = np.concatenate([coords + n_dense * states, dense_coords])
    return sorted_weights(coords, np.concatenate([values, table[dense_states, dense_features]]))
