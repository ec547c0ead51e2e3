"""Store of features, indexed by feature: the positions that have each feature, with their values.

Gradients of a coordinate and score changes of a direction read one feature's positions (CSC); the same entries by
position (CSR) are built on request. Binary features store no values, and positions are int32 while they fit: 4 bytes an
entry instead of 12. Shapes: I items, N positions, F features, nnz entries that are not 0.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.csc_builder import (
    ALL_ONES,
    BLOCK,
    Compressed,
    CompressedRows,
    NotFinite,
    index_dtype,
    open_matrix,
    sort_by_column,
)
from crfqn.data.items import check_not_empty, check_offsets, locate, positions_of
from crfqn.errors import InputError
from crfqn.kernels.transpose import count_taken, scatter_taken
from crfqn.threads import N_PARTS, Pool, cut_into_parts


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """Store of the features of all positions, by feature and (on request) by position; build it with `from_matrix`.

    Feature f has the entries indptr[f] ... indptr[f + 1] - 1; item i the positions offsets[i] ... offsets[i + 1] - 1.
    """

    indptr: NDArray[np.int64]  # (F + 1,)
    indices: NDArray[np.integer]  # (nnz,) positions, ascending within a feature: int32, int64 if N >= 2**31
    values: NDArray[np.float64]  # (nnz,), or (0,) if every value is 1
    offsets: NDArray[np.int64]  # (I + 1,)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        offsets: ArrayLike,
        allow_empty: bool = False,
        pool: Pool | None = None,
        block: int = BLOCK,
    ) -> "FeatureStore":
        """Build the store of a matrix of positions x features, (N, F), of any sparse format or dense.

        Booleans or real numbers. Unsorted indices are sorted, duplicates summed and zeros left out; the matrix itself
        is not changed. Where `allow_empty`, there may be items without positions, and no items at all (prediction).
        The threads of the pool share the rows; `block` entries are converted and checked at a time. The result depends
        on neither.

        Raises
        ------
        InputError
            For shapes, types or offsets that do not fit; NaN and infinity (named by item, position and
            feature); empty items.

        Notes
        -----
        Cost O(nnz + N + F). A CSR or dense matrix needs no memory beyond the result and a few MB, for any
        dtype; CSC goes through one temporary copy by position, every other format through scipy's `tocsr`.
        """
        rows = open_matrix(matrix, block)
        is_by_feature = rows.is_by_feature
        n_positions, n_features = (
            (rows.n_columns, rows.n_rows) if is_by_feature else (rows.n_rows, rows.n_columns)
        )
        cuts = check_offsets(offsets, n_positions)
        if not allow_empty:
            check_not_empty(cuts)
        try:
            columns = sort_by_column(rows, pool)
            if is_by_feature:
                columns = sort_by_column(CompressedRows(*columns, n_columns=n_features, block=block), pool)
        except NotFinite as error:
            row, column, value = error.args
            position, feature = (column, row) if is_by_feature else (row, column)
            raise InputError(
                f"feature values must be finite, but {locate(cuts, position)}, feature {feature} is {value}"
            ) from None
        return cls(*columns, cuts)

    @property
    def n_items(self) -> int:
        return self.offsets.size - 1

    @property
    def n_positions(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        return self.indptr.size - 1

    @property
    def nnz(self) -> int:
        """Number of entries that are not 0."""
        return self.indices.size

    @property
    def is_binary(self) -> bool:
        """Whether every entry is 1, so that `values` is left empty."""
        return self.values.size == 0

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes, with those by position once they are built."""
        arrays = [self.indptr, self.indices, self.values, self.offsets]
        if "_rows" in self.__dict__:
            arrays += self._rows
        return sum(array.nbytes for array in arrays)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries of each feature, int64 (F,)."""
        return np.diff(self.indptr)

    @property
    def largest_value(self) -> float:
        """Largest |x_tf| of all entries."""
        if self.is_binary:
            return float(self.nnz > 0)
        return float(max(self.values.max(initial=0.0), -self.values.min(initial=0.0)))

    @cached_property
    def largest_squares(self) -> NDArray[np.float64]:
        """Largest square of each feature, max_t x_tf^2, float64 (F,)."""
        if self.is_binary:
            return np.ones(self.n_features)
        result = np.zeros(self.n_features)
        filled = np.flatnonzero(np.diff(self.indptr))
        starts = self.indptr[filled]
        if filled.size:
            largest = np.maximum.reduceat(self.values, starts)
            smallest = np.minimum.reduceat(self.values, starts)
            with np.errstate(over="ignore"):
                result[filled] = np.maximum(np.abs(largest), np.abs(smallest)) ** 2
        return result

    def parts(self, n_parts: int = N_PARTS) -> NDArray[np.int64]:
        """Cut the items into parts of about equally many positions: part p has the items parts[p] ... parts[p + 1] - 1.

        Parts may be empty; none has more than N / n_parts positions plus the longest item. The cuts depend on the
        offsets and `n_parts` only, never on the number of threads: sums over parts are reproducible.
        """
        return cut_into_parts(self.offsets, n_parts)

    def take(
        self, items: NDArray[np.integer], pool: Pool | None = None
    ) -> "tuple[FeatureStore, NDArray[np.int64]]":
        """Return the store of some items (ascending, none twice) and the positions that it is made of.

        O(nnz): two passes over the entries, threaded over the features.
        """
        positions, offsets = positions_of(self.offsets, items)
        new_index = np.full(self.n_positions, -1, self.indices.dtype)
        new_index[positions] = np.arange(positions.size)
        cuts = cut_into_parts(self.indptr)
        counts = np.zeros(self.n_features, np.int64)
        each = (pool or Pool(1)).each
        each(
            N_PARTS,
            lambda part: count_taken(
                cuts[part], cuts[part + 1], self.indptr, self.indices, new_index, counts
            ),
        )
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        indices = np.empty(indptr[-1], index_dtype(positions.size))
        values = ALL_ONES if self.is_binary else np.empty(indices.size)

        def scatter(part: int) -> None:
            source = (self.indptr, self.indices, self.values, new_index)
            scatter_taken(cuts[part], cuts[part + 1], *source, indptr, indices, values)

        each(N_PARTS, scatter)
        return FeatureStore(indptr, indices, values, offsets), positions

    def cut(self, offsets: NDArray[np.int64]) -> "FeatureStore":
        """Return the store of the same positions, cut into other items."""
        return FeatureStore(self.indptr, self.indices, self.values, offsets)

    def with_constant(self) -> "FeatureStore":
        """Return a copy with one more feature, the last, that is 1 at every position: O(nnz + N + F)."""
        n = self.n_positions
        indptr = np.append(self.indptr, self.nnz + n)
        indices = np.concatenate([self.indices, np.arange(n, dtype=self.indices.dtype)])
        values = ALL_ONES if self.is_binary else np.concatenate([self.values, np.ones(n)])
        return FeatureStore(indptr, indices, values, self.offsets)

    def column(self, feature: int) -> NDArray[np.float64]:
        """Return the values of a feature at all positions, float64 (N,)."""
        entries, out = slice(self.indptr[feature], self.indptr[feature + 1]), np.zeros(self.n_positions)
        out[self.indices[entries]] = 1.0 if self.is_binary else self.values[entries]
        return out

    def less(self, centre: NDArray[np.float64]) -> "FeatureStore":
        """Return the store of the features less `centre`, (F,); the columns where it is 0 stay as they are.

        Copies the entries once: O(nnz), and N for each of the other columns.
        """
        values = np.ones(self.nnz) if self.is_binary else self.values
        sizes, indices, parts, done = self.sizes.copy(), [], [], 0
        for feature in np.flatnonzero(centre).tolist():
            column = self.column(feature) - centre[feature]
            places = np.flatnonzero(column)
            first, after = self.indptr[feature], self.indptr[feature + 1]
            indices += [self.indices[done:first], places.astype(self.indices.dtype)]
            parts += [values[done:first], column[places]]
            sizes[feature], done = places.size, after
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        indices, parts = [*indices, self.indices[done:]], [*parts, values[done:]]
        return FeatureStore(indptr, np.concatenate(indices), np.concatenate(parts), self.offsets)

    @property
    def by_feature(self) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.float64]]:
        """Return the arrays indptr (F + 1,), positions (nnz,) and values, for kernels."""
        return self.indptr, self.indices, self.values

    def by_position(self) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.float64]]:
        """Return the entries by position, built once: indptr (N + 1,), features (nnz,) ascending, values as above."""
        return self._rows

    @cached_property
    def _rows(self) -> "Compressed":
        return sort_by_column(
            CompressedRows(self.indptr, self.indices, self.values, n_columns=self.n_positions)
        )

    def __repr__(self) -> str:
        kind = "binary" if self.is_binary else "real"
        return (
            f"FeatureStore({self.n_items} items, {self.n_positions} positions, {self.n_features} features, "
            f"{self.nnz} {kind} entries, {self.nbytes / 1e6:.1f} MB)"
        )
