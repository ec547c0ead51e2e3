"""Weights that are not zero, as a model keeps them: scores of a few positions with numpy alone, starts of trainings.

Sums are taken in the order of the features, entries of one feature together, as `kernels/sparse.py` has it: the results
are the same, bit by bit. Shapes: N positions, F features, K states (labels, or nodes of a taxonomy).

A training may start from the weights of another model: labels (of a taxonomy: nodes) are matched by name; features too
where both sides have names, otherwise by their number, and then there have to be as many. What only one of the two has
starts from zero. With a dense block the columns of the problem are its D features, then the sparse ones and perhaps a
constant; the model keeps `dense_coef_` (K, D) and `coef_`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights, Vector
from crfqn.data.token_rows import ENTRIES_PER_CHUNK, Rows
from crfqn.data.vocabulary import UNSEEN
from crfqn.errors import InputError
from crfqn.messages import tell
from crfqn.model.content import Entries

LOW = 32  # bits of a key that hold the feature; the position stands above
FEATURE = (1 << LOW) - 1
DENSE = 0.1  # share of the weights of used features: from there on a product with all of them is sooner done
MOST_NUMBERS = (
    1 << 20
)  # of a dense table by feature, 8 MB: sums of its rows are sooner done than of single weights
FEW_STATES, SOME = 64, 0.125  # where a row has few numbers, or so many of them are weights
TOGETHER = 1 << 17  # numbers of the rows of such a table that are summed at a time
FEW_FEATURES, WIDE = 1 << 22, 16  # 32 MB of numbers by feature; times the number of weights
MOSTLY = 0.5  # share of the features: from there on all columns are multiplied as they lie, instead of a copy of some


class ByFeature(NamedTuple):
    """The order of the weights by feature, states ascending: feature f has the weights at places[heads[f]] ...
    places[heads[f + 1] - 1], of these states. Shapes: heads int64 (F + 1,), states int32 (n,), places int64 (n,)."""

    heads: NDArray[np.int64]
    states: NDArray[np.int32]
    places: NDArray[np.int64]


class NodePlaces(NamedTuple):
    """Places of the weights in a table of their features."""

    kept: NDArray[np.int64]  # sorted: the features that have a weight
    columns: NDArray[np.int64] | slice  # the features of the table's columns, all of them or those `kept`
    flat: NDArray[np.int64]  # of each weight in the table, (K, columns) in C order
    is_dense: bool  # a product with the table is sooner done than one with the weights that are not zero
    is_table: bool  # the values are the table, as it lies in memory


@dataclass(frozen=True, eq=False)
class WeightMatrix:
    """A sparse matrix of weights, row by row: row k has values[row_ends[k]:row_ends[k + 1]] in these `columns`.

    What depends on the places of the weights alone is made once. The values may be changed in place where they are
    given to compiled code; `scores` and `terms` keep those of their first call.
    """

    values: Vector  # float64 (n,)
    columns: NDArray[np.integer]  # (n,)
    row_ends: NDArray[np.integer]  # (rows + 1,)
    shape: tuple[int, int]

    @classmethod
    def from_entries(cls, entries: Entries, shape: tuple[int, int]) -> Self:
        """Return the matrix of entries in any order; those at one place are added up."""
        values, rows, columns = entries
        places = rows.astype(np.int64) * shape[1] + columns
        if not (places[1:] > places[:-1]).all():  # a training has them in order
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
    def of_sparse(cls, matrix: Any) -> Self:
        """Return the matrix of a sparse array, of which CSR's own memory is used."""
        csr = matrix.tocsr()
        weights = cls(csr.data, csr.indices, csr.indptr, csr.shape)
        weights.__dict__["csr"] = csr
        return weights

    @cached_property
    def csr(self) -> Any:
        """The same as scipy's `csr_array`, in the same memory."""
        from scipy.sparse import csr_array

        matrix = csr_array((self.values, self.columns, self.row_ends), shape=self.shape)
        matrix.data, matrix.indices, matrix.indptr = (
            self.values,
            self.columns,
            self.row_ends,
        )  # no views of them
        return matrix

    @property
    def current(self) -> Self:
        """The matrix; a new one where its `csr` has been given other arrays, as by `eliminate_zeros`."""
        csr = self.__dict__.get("csr")
        ours = self.values, self.columns, self.row_ends
        if csr is None or all(a is b for a, b in zip(ours, (csr.data, csr.indices, csr.indptr), strict=True)):
            return self
        return self.of_sparse(csr)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles hold: of a matrix without zeros its values alone."""
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

    @property
    def n_states(self) -> int:
        """K."""
        return self.shape[0]

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each weight, (n,)."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.row_ends))

    @cached_property
    def features(self) -> NDArray[np.int64]:
        """The features that have weights, sorted."""
        return np.unique(self.columns).astype(np.int64)

    @cached_property
    def narrow(self) -> WeightMatrix | None:
        """The weights in columns of the features that have one, where arrays over all features would be much larger
        than the weights, such as of a file that names 2^31 features and has a few; else None."""
        if self.shape[1] <= max(FEW_FEATURES, WIDE * self.values.size):
            return None
        columns = np.searchsorted(self.features, self.columns)
        return WeightMatrix(self.values, columns, self.row_ends, (self.n_states, self.features.size))

    def narrowed(self, columns: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the columns in `narrow` of some features, UNSEEN for those without a weight."""
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
        """Places of the weights in a table of their features, in time O(weights)."""
        features, (n_states, n_features) = self.features, self.shape
        is_whole = features.size >= MOSTLY * n_features
        width = n_features if is_whole else features.size
        flat = self.rows * width + (self.columns if is_whole else np.searchsorted(features, self.columns))
        return NodePlaces(
            features,
            slice(None) if is_whole else features,
            flat,
            self.values.size >= DENSE * max(features.size, 1) * n_states,
            flat.size == n_states * width and np.array_equal(flat, np.arange(flat.size)),
        )

    def to_dense(self) -> Vector:
        """Return the weights of all places as an array, in a tenth of the time of scipy's `toarray` if it is small."""
        table: Any = np.bincount(self._flat, self.values, math.prod(self.shape))
        return table.astype(np.float64, copy=False).reshape(
            self.shape
        )  # of no entries at all it is one of integers

    @cached_property
    def _flat(self) -> NDArray[np.int64]:
        return self.rows * self.shape[1] + self.columns

    def table(self) -> Vector:
        """Return the weights of the columns `places.columns` as a table, to be read only."""
        places, n_states = self.places, self.shape[0]
        width = self.shape[1] if isinstance(places.columns, slice) else places.kept.size
        if places.is_table and self.values.dtype == np.float64:
            return self.values.reshape(n_states, width)
        table: Any = np.bincount(places.flat, self.values, minlength=n_states * width)
        return table.astype(np.float64, copy=False).reshape(n_states, width)

    def entries(self) -> Entries:
        """Return the weights by feature."""
        if self.narrow is not None:
            entries = self.narrow.entries()
            return entries._replace(columns=self.features[entries.columns])
        _, states, places = self.by_feature
        return Entries(self.values[places], states.astype(np.int64), self.columns[places].astype(np.int64))

    def scores(self, rows: Rows, intercept: Vector | None = None) -> Vector:
        """Return the scores of positions, float64 (N, K), intercept (K,) + weights x features; InputError for a value
        that is not finite."""
        if self.narrow is not None:
            return self.narrow.scores(rows._replace(columns=self.narrowed(rows.columns)), intercept)
        is_dense = self._row_table is not None and not rows.values.size
        most = max(TOGETHER // self.n_states, 1) if is_dense else ENTRIES_PER_CHUNK
        if rows.columns.size <= most:
            return self._scores(rows, intercept)
        return np.concatenate([self._scores(part, intercept) for part in rows.stretches(most)])

    def terms(self, rows: Rows, position: int) -> tuple[Vector, NDArray[np.integer], NDArray[np.int64]]:
        """Return what a position's scores are sums of: weights times values, and the state and feature of each."""
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
        """The weights by feature and their states, (n,), how many each feature has, and where they end, (F,)."""
        heads, states, places = self.by_feature
        return self.values[places], states.astype(np.int64), np.diff(heads), heads[1:]

    def _places(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many weights each of some features has, and the places of all of them among those sorted."""
        _, _, n_weights, tails = self._sorted_weights
        counts = n_weights.take(columns)
        ends = counts.cumsum()
        places = np.arange(ends[-1] if ends.size else 0)
        places += (tails.take(columns) - ends).repeat(counts)
        return counts, places

    @cached_property
    def _row_table(self) -> tuple[NDArray[np.int64], Vector] | None:
        """The row of each feature, (F + 1,), and a table of the weights by row, (rows, K), the last of zeros, for
        features without a weight and for UNSEEN = -1; None for a table that would be too large or too empty."""
        features, (n_states, n_features) = self.features, self.shape
        size = (features.size + 1) * n_states
        if size > MOST_NUMBERS or (n_states > FEW_STATES and self.values.size < SOME * size):
            return None
        row_of = np.full(n_features + 1, features.size)
        row_of[features] = np.arange(features.size)
        table = np.zeros((features.size + 1, n_states))
        table[row_of[self.columns], self.rows] = self.values
        return row_of, table

    def _dense_scores(self, rows: Rows, intercept: Vector | None) -> Vector | None:
        """Return what `_scores` does by sums of dense rows, in the same order; None where that does not suit: for
        values, for positions of very different lengths, and for columns that come twice at a position."""
        if self._row_table is None or rows.values.size or self.n_states == 1 or not rows.columns.size:
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
        entries = padded.reshape(-1)  # the last of a position may equal the next one's first, but seldom does
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
        n_positions, n_states = rows.row_ends.size - 1, self.n_states
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
    """Return position, feature and value of the entries that have a feature, ascending and each once; None for ones."""
    row_ends, columns, values = rows
    keys = (np.arange(row_ends.size - 1) << LOW).repeat(row_ends[1:] - row_ends[:-1])
    keys += columns
    is_known = columns >= 0
    if not values.size:
        keys = keys[is_known]
        keys.sort()
        if not (keys[1:] == keys[:-1]).any():
            return keys >> LOW, keys & FEATURE, None
        values = np.ones(keys.size)
    else:
        keys, values = keys[is_known], values[is_known]
        order = keys.argsort(kind="stable")
        keys, values = keys[order], values[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    entry = np.repeat(np.arange(firsts.size), np.diff(firsts, append=keys.size))
    sums: Any = np.bincount(entry, values, firsts.size)  # one after the other, as they came
    values = sums.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        place = int(keys[firsts[~np.isfinite(values)][0]])
        raise InputError(f"position {place >> LOW}: the values of feature {place & FEATURE} are not finite")
    keys = keys[firsts]
    return keys >> LOW, keys & FEATURE, values


class FittedArray:
    """Attribute of fitted estimators: an array of their model."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        array = getattr(model.__dict__.get("model_"), self.field, None)
        if array is None:
            raise AttributeError(f"{type(model).__name__} has no {self.field} of a training")
        return array

    def __set__(self, model: Any, array: Any) -> None:
        model.model_ = replace(model.model_, **{self.field: np.asarray(array)})


class FittedMatrix(FittedArray):
    """Attribute of fitted estimators: weights of their model as a `csr_array`, in the model's own memory."""

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
    """Names of the rows and columns of a model's weights: labels or nodes, and features if they have names."""

    labels: Sequence[Any]
    n_features: int
    features: Sequence[Any] | None


class Same:
    """The numbers of the features of a model that is matched with itself, which takes no memory."""

    def __getitem__(self, numbers: NDArray[np.integer]) -> NDArray[np.int64]:
        return np.asarray(numbers, np.int64)


@dataclass(frozen=True, eq=False)
class AxisMatch:
    """Labels (`rows`) and features (`columns`) that two models have in common: of each old one its number among the
    new, -1 for those that are gone."""

    rows: NDArray[np.int64]
    columns: Any  # an array, or `Same`

    def entries(self, matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return rows, columns and values of the weights (labels x features) that stay, at their new places."""
        cells = matrix.tocoo()
        rows, columns = self.rows[cells.row], self.columns[cells.col]
        stays = (rows >= 0) & (columns >= 0)
        return rows[stays], columns[stays], cells.data[stays]


def match(old: Axes, new: Axes, is_asked: bool) -> AxisMatch | None:
    """Return labels and features in common; None if features do not match, InputError if the start `is_asked` for."""
    rows = new_numbers(old.labels, new.labels)
    if old.features is not None and new.features is not None:
        return AxisMatch(rows, new_numbers(old.features, new.features))
    if old.n_features == new.n_features:
        return AxisMatch(rows, np.arange(old.n_features))
    if is_asked:
        raise InputError(
            f"start: expected a model of {new.n_features} features, or names of features on both sides, "
            f"got one of {old.n_features}"
        )
    return None


def sorted_weights(coords: NDArray[np.int64], values: NDArray[np.float64]) -> SparseWeights:
    """Return the weights that are not zero, sorted by coordinate."""
    coords, values = coords[values != 0], values[values != 0]
    order = np.argsort(coords)
    return SparseWeights(coords[order], values[order])


def print_start(common: AxisMatch | None, new: Axes, weights: SparseWeights | None, n_before: int) -> None:
    """Say on stderr what was kept of the model that the training starts from."""
    if common is None or weights is None:
        text = "start: nothing kept, other features without names"
    else:
        n_labels, n_features = (int((numbers >= 0).sum()) for numbers in (common.rows, common.columns))
        text = (
            f"start: {weights.coords.size:,} of {n_before:,} weights kept; in common {n_labels:,} of "
            f"{len(new.labels):,} labels, {n_features:,} of {new.n_features:,} features"
        )
    tell(text)


def new_numbers(old: Sequence[Any], new: Sequence[Any]) -> NDArray[np.int64]:
    """Return the number among the new names of each old one, int64, -1 for those that are gone."""
    number = dict(zip(new, range(len(new)), strict=True))
    return np.array([number.get(name, -1) for name in old], np.int64)


def split_weights(
    weights: SparseWeights, n_states: int, n_columns: int, n_dense: int
) -> tuple[Vector, SparseWeights]:
    """Return the dense weights of a problem, (K, D), and the others, numbered without them; n_columns : F."""
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
    """Return what `split_weights` took apart, dense weights of 0 left out."""
    n_states, n_dense = table.shape
    coords, values = weights
    states = np.minimum(coords // n_columns + 1, n_states)
    dense_states, dense_features = np.nonzero(table)
    dense_coords = dense_states * (n_dense + n_columns) + dense_features
    coords = np.concatenate([coords + n_dense * states, dense_coords])
    return sorted_weights(coords, np.concatenate([values, table[dense_states, dense_features]]))
