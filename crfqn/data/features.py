"""Store of features, indexed by feature: the positions that have each feature, with their values.

Gradients of a coordinate and score changes of a direction read one feature's positions (CSC); the same entries by
position (CSR) are built on request. Binary features store no values, and positions are int32 while they fit: 4 bytes an
entry instead of 12. Shapes: I items, N positions, F features, nnz entries that are not 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.inputs import SparseMatrix
from crfqn.data.items import check_not_empty, check_offsets, locate, positions_of
from crfqn.data.matrices import check_matrix
from crfqn.errors import InputError
from crfqn.threads import N_PARTS, cut_into_parts

CELLS_PER_BLOCK = 1 << 16  # of a dense array, read at a time
ALL_ONES = np.empty(0)

Compressed = tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.float64]]  # indptr, indices, values


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """Store of the features of all positions, by feature and (on request) by position; build it with `from_matrix`.

    Feature f has the entries indptr[f] ... indptr[f + 1] - 1; item i the positions offsets[i] ... offsets[i + 1] - 1.
    """

    indptr: NDArray[np.int64]  # (F + 1,)
    indices: NDArray[np.integer]  # (nnz,) positions, ascending within a feature: int32, int64 if N >= 2**31
    values: NDArray[np.float64]  # (nnz,), or (0,) if every value is 1
    offsets: NDArray[np.int64]  # (I + 1,)
    n_items: int = field(init=False)
    n_positions: int = field(init=False)
    n_features: int = field(init=False)
    nnz: int = field(init=False)  # number of entries that are not 0
    is_binary: bool = field(init=False)  # whether every entry is 1, so that `values` is empty

    def __post_init__(self) -> None:
        sizes = {"n_items": self.offsets.size - 1, "n_positions": int(self.offsets[-1])}
        sizes |= {"n_features": self.indptr.size - 1, "nnz": self.indices.size}
        for name, size in sizes.items():
            object.__setattr__(self, name, size)
        object.__setattr__(self, "is_binary", self.values.size == 0)

    @classmethod
    def from_matrix(
        cls, matrix: NDArray | SparseMatrix, offsets: ArrayLike, allow_empty: bool = False
    ) -> FeatureStore:
        """Build the store of a matrix of positions x features, (N, F), of any sparse format or dense.

        Booleans or real numbers. Unsorted indices are sorted, duplicates summed and zeros left out; the matrix itself
        is not changed. With `allow_empty`, there may be items without positions, and no items at all (prediction).

        Raises
        ------
        InputError
            For shapes, types or offsets that do not fit; NaN and infinity (named by item, position and
            feature); empty items.

        Notes
        -----
        Cost O(nnz + N + F). Besides the result the build takes 3 bytes an entry where all values are 1, nothing for
        float64, and 8 bytes an entry for other dtypes; 4 bytes an entry more where indices are int64. CSR and CSC need
        no other copy; every other sparse format goes through scipy's `tocsr`.
        """
        is_sparse = hasattr(matrix, "tocsr")
        matrix = matrix if is_sparse else np.asarray(matrix)
        check_matrix(matrix)
        cuts = check_offsets(offsets, matrix.shape[0])
        if not allow_empty:
            check_not_empty(cuts)
        if is_sparse:
            indptr, indices, values = _compress_sparse(matrix)
        else:
            indptr, indices, values = _compress_dense(matrix)
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            features = np.searchsorted(indptr, wrong, side="right") - 1
            first = np.lexsort((features, indices[wrong]))[0]
            raise InputError(
                f"feature values must be finite, but {locate(cuts, int(indices[wrong[first]]))}, "
                f"feature {features[first]} is {values[wrong[first]]}"
            )
        return cls(indptr, indices, values, cuts)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes, with those by position once they are built."""
        arrays = [self.indptr, self.indices, self.values, self.offsets]
        if "by_position" in self.__dict__:
            arrays += self.by_position
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

    def take(self, items: NDArray[np.integer]) -> tuple[FeatureStore, NDArray[np.int64]]:
        """Return the store of some items (ascending, none twice) and the positions that it is made of: O(nnz)."""
        positions, offsets = positions_of(self.offsets, items)
        new_index = np.full(self.n_positions, -1, _index_dtype(self.n_positions))
        new_index[positions] = np.arange(positions.size)
        indices = new_index[self.indices]
        taken = np.flatnonzero(indices >= 0)
        indptr = np.searchsorted(taken, self.indptr)
        indices = indices[taken].astype(_index_dtype(positions.size), copy=False)
        values = ALL_ONES if self.is_binary else self.values[taken]
        return FeatureStore(indptr, indices, values, offsets), positions

    def cut(self, offsets: NDArray[np.int64]) -> FeatureStore:
        """Return the store of the same positions, cut into other items."""
        return FeatureStore(self.indptr, self.indices, self.values, offsets)

    def with_constant(self) -> FeatureStore:
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

    def centered(self, centre: NDArray[np.float64]) -> FeatureStore:
        """Return the store of the features minus `centre`, (F,); columns whose `centre` is 0 are unchanged.

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

    def release_rows(self) -> None:
        """Free the entries by position."""
        self.__dict__.pop("by_position", None)

    @property
    def by_feature(self) -> Compressed:
        """The arrays indptr (F + 1,), positions (nnz,) and values, for kernels."""
        return self.indptr, self.indices, self.values

    @cached_property
    def by_position(self) -> Compressed:
        """The entries by position, built at the first use: indptr (N + 1,), features (nnz,) ascending, values."""
        import scipy.sparse

        values = np.ones(self.nnz, np.int8) if self.is_binary else self.values
        shape = self.n_positions, self.n_features
        return _arrays_of(scipy.sparse.csc_array((values, self.indices, self.indptr), shape=shape).tocsr())

    def __repr__(self) -> str:
        kind = "binary" if self.is_binary else "real"
        return (
            f"FeatureStore({self.n_items} items, {self.n_positions} positions, {self.n_features} features, "
            f"{self.nnz} {kind} entries, {self.nbytes / 1e6:.1f} MB)"
        )


def _index_dtype(size: int) -> type[np.integer]:
    """Return int32 if indices below `size` fit, else int64."""
    return np.int32 if size < 2**31 else np.int64


def _arrays_of(matrix: SparseMatrix) -> Compressed:
    """Return the arrays of a CSR or CSC matrix in the dtypes of the kernels, without values if all are 1."""
    n_rows = matrix.shape[0] if matrix.format == "csc" else matrix.shape[1]
    indices = matrix.indices.astype(_index_dtype(n_rows), copy=False)
    values = ALL_ONES if (matrix.data == 1).all() else matrix.data
    return matrix.indptr.astype(np.int64), indices, values


def _compress_sparse(matrix: SparseMatrix) -> Compressed:
    """Return a sparse matrix by column: rows ascending, duplicates summed, zeros left out."""
    import scipy.sparse

    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    n_stored = int(matrix.indptr[-1])
    index_dtype = _index_dtype(max(n_stored + 1, *matrix.shape))  # scipy takes one for both
    values, indices = matrix.data[:n_stored], matrix.indices[:n_stored].astype(index_dtype, copy=False)
    indptr = matrix.indptr.astype(index_dtype, copy=False)
    if (values == 1).all():
        values = np.ones(n_stored, np.int8)
    else:
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused
            values = values.astype(np.float64, copy=False)
    # A new matrix, since the flags of the user's matrix may be out of date.
    if matrix.format == "csr":
        columns = scipy.sparse.csr_array((values, indices, indptr), shape=matrix.shape).tocsc()
    else:
        columns = scipy.sparse.csc_array((values, indices, indptr), shape=matrix.shape, copy=True)
    if not columns.has_canonical_format:
        if columns.data.dtype == np.int8:
            columns.data = columns.data.astype(np.float64)
        columns.sum_duplicates()
    if not columns.data.all():
        columns.eliminate_zeros()
    return _arrays_of(columns)


def _compress_dense(array: NDArray) -> Compressed:
    """Return the entries of an array that are not 0 by column, read some columns at a time."""
    n_rows, n_columns = array.shape
    step = max(8, CELLS_PER_BLOCK // max(1, n_rows))  # 8 neighbours of a row are in one cache line
    starts = range(0, n_columns, step)

    def columns_from(start: int) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array[:, start : start + step].T, np.float64)

    sizes, is_binary = np.zeros(n_columns, np.int64), True
    for start in starts:
        columns = columns_from(start)
        sizes[start : start + step] = np.count_nonzero(columns, axis=1)
        is_binary = is_binary and bool(((columns == 0) | (columns == 1)).all())
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    indices = np.empty(indptr[-1], _index_dtype(n_rows))
    values = ALL_ONES if is_binary else np.empty(indices.size)
    for start in starts:
        columns = columns_from(start)
        places = slice(indptr[start], indptr[min(start + step, n_columns)])
        numbers, indices[places] = np.nonzero(columns)
        if not is_binary:
            values[places] = columns[numbers, indices[places]]
    return indptr, indices, values
