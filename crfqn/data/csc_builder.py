"""Building of CSC arrays: a matrix's entries sorted by column, from dense or sparse rows of any dtype.

For `features.FeatureStore`. Entries are read in blocks of rows, converted and checked on the way, so that the result is
the only large array; zeros are left out, duplicates summed, and a matrix of ones keeps no values.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.matrices import BLOCK, check_matrix
from crfqn.kernels.transpose import (
    count_columns,
    count_entries,
    has_duplicates,
    merge_duplicates,
    scatter_entries,
    scatter_rows,
)
from crfqn.threads import N_PARTS, Pool, cut_into_parts

COUNTERS = 2  # entries for each counter of a part and column: counters take no more memory than the indices
ALL_ONES = np.empty(0)


class Compressed(NamedTuple):
    """Matrix by column (CSC): indptr (columns + 1,), row indices (nnz,), float64 values (nnz,), (0,) if all are 1."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.integer]
    values: NDArray[np.float64]


class Block(NamedTuple):
    """Block of rows of a matrix, from first_row on, compressed by row, in the dtypes of the kernels."""

    first_row: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.integer]
    values: NDArray[np.float64]


class NotFinite(Exception):
    """Error for an entry that is NaN or infinite; args: row, column, value."""


def index_dtype(size: int) -> np.dtype:
    """Return int32 where indices below `size` fit, else int64."""
    return np.dtype(np.int32 if size < 2**31 else np.int64)


def values_or_ones(data: NDArray) -> NDArray[np.float64]:
    """Return a block's values as float64, or an empty array if all of them are 1."""
    if (data[:1] == 1).all() and (data == 1).all():
        return ALL_ONES
    return _as_floats(data)


def _as_floats(data: NDArray) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused as such
        return np.require(data, np.float64, ["C", "A", "W"])


class CompressedRows:
    """Rows of a CSR (or, `is_by_feature`, of the transpose of a CSC) matrix, read block by block."""

    may_repeat = True  # a column twice in a row

    def __init__(
        self,
        indptr: NDArray,
        indices: NDArray,
        data: NDArray,
        n_columns: int,
        is_by_feature: bool = False,
        block: int = BLOCK,
    ) -> None:
        self.indptr, self.indices, self.data = indptr.astype(np.int64, copy=False), indices, data
        self.n_rows, self.n_columns, self.is_by_feature = indptr.size - 1, n_columns, is_by_feature
        self.n_entries, self.block = int(self.indptr[-1]), block

    def cuts(self, n_parts: int) -> NDArray[np.int64]:
        """Return the boundaries of parts of about equally many entries, (n_parts + 1,)."""
        return cut_into_parts(self.indptr, n_parts)

    def count(self, first: int, last: int, counts: NDArray[np.integer]) -> bool:
        """Add to `counts` the non-zeros by column of the rows first ... last - 1; return whether all of them are 1."""
        is_binary = True
        for block in self._blocks(first, last):
            if block.values.size:
                is_binary = is_binary and bool(((block.values == 0) | (block.values == 1)).all())
                check_finite(block)
            count_columns(block.indices, block.values, counts)
        return is_binary

    def scatter(self, first: int, last: int, heads: NDArray[np.integer], result: Compressed) -> None:
        """Write the entries of the rows first ... last - 1 to their columns of `result`; duplicates stand together."""
        for block in self._blocks(first, last):
            scatter_rows(*block, heads, result.indices, result.values)

    def _blocks(self, first: int, end: int) -> Iterator[Block]:
        dtype = index_dtype(self.n_columns)
        while first < end:
            limit = self.indptr[first] + self.block
            last = min(end, max(first + 1, int(np.searchsorted(self.indptr, limit, side="right")) - 1))
            indptr = self.indptr[first : last + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            indices = self.indices[entries]
            values = values_or_ones(self.data[entries]) if self.data.size else ALL_ONES
            # Read-only and strided arrays are types of their own to numba: copies save a second compilation.
            indptr = np.require(indptr, requirements=["C", "W"])
            yield Block(first, indptr, np.require(indices, dtype, ["C", "W"]), values)
            first = last


class CheckedDenseRows:
    """Rows of a 2-D array, read like `CompressedRows`; only entries that are not 0 count."""

    is_by_feature, may_repeat = False, False

    def __init__(self, array: NDArray) -> None:
        self.array = array
        self.n_rows, self.n_columns = array.shape
        self.n_entries = array.size

    def cuts(self, n_parts: int) -> NDArray[np.int64]:
        return self.n_rows * np.arange(n_parts + 1) // n_parts

    def count(self, first: int, last: int, counts: NDArray[np.integer]) -> bool:
        rows = _as_floats(self.array[first:last])
        is_binary, fault = count_entries(rows, counts)
        if fault >= 0:
            row, column = divmod(fault, self.n_columns)
            raise NotFinite(first + row, column, float(rows[row, column]))
        return is_binary

    def scatter(self, first: int, last: int, heads: NDArray[np.integer], result: Compressed) -> None:
        scatter_entries(_as_floats(self.array[first:last]), first, heads, result.indices, result.values)


def open_matrix(matrix: Any, block: int = BLOCK) -> CompressedRows | CheckedDenseRows:
    """Return a matrix of any kind as rows to be read block by block; InputError if it is not 2-D and real."""
    is_sparse = hasattr(matrix, "tocsr")
    found: Any = matrix if is_sparse else np.asarray(matrix)
    check_matrix(found)
    if not is_sparse:
        return CheckedDenseRows(found)
    if found.format not in ("csr", "csc"):
        found = found.tocsr()
    is_by_feature = found.format == "csc"
    n_columns = found.shape[0 if is_by_feature else 1]
    return CompressedRows(found.indptr, found.indices, found.data, n_columns, is_by_feature, block)


def sort_by_column(source: CompressedRows | CheckedDenseRows, pool: Pool | None = None) -> Compressed:
    """Sort the entries by column, then row, whatever the threads: count, then scatter, by parts of the rows."""
    pool = pool or Pool(1)
    n_parts = max(1, min(N_PARTS, source.n_entries // (COUNTERS * max(1, source.n_columns))))
    cuts = source.cuts(n_parts)
    counts = np.zeros((n_parts, source.n_columns), index_dtype(source.n_entries))
    is_binary = np.ones(n_parts, bool)
    faults: list[NotFinite] = []

    def count(part: int) -> None:
        try:
            is_binary[part] = source.count(cuts[part], cuts[part + 1], counts[part])
        except NotFinite as fault:
            faults.append(fault)

    pool.each(n_parts, count)
    if faults:
        raise min(faults, key=lambda fault: fault.args)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.sum(axis=0, dtype=np.int64))])
    indices = np.empty(indptr[-1], index_dtype(source.n_rows))
    values = ALL_ONES if is_binary.all() else np.empty(indices.size)
    result = Compressed(indptr, indices, values)
    heads = _heads(indptr, counts, pool)
    pool.each(n_parts, lambda part: source.scatter(cuts[part], cuts[part + 1], heads[part], result))
    return merged(result) if source.may_repeat and _repeats(result, pool) else result


def _heads(indptr: NDArray[np.int64], counts: NDArray[np.integer], pool: Pool) -> NDArray[np.integer]:
    """Return where each part's entries of each column begin in the result, (parts, columns)."""
    heads = np.empty_like(counts)
    step = max(1, -(-counts.shape[1] // pool.n_threads))

    def add(thread: int) -> None:
        own = slice(thread * step, (thread + 1) * step)
        heads[0, own] = indptr[:-1][own]
        for part in range(1, len(counts)):
            np.add(heads[part - 1, own], counts[part - 1, own], out=heads[part, own])

    pool.each(pool.n_threads, add)
    return heads


def _repeats(matrix: Compressed, pool: Pool) -> bool:
    """Return whether any place (row, column) has several entries."""
    cuts = cut_into_parts(matrix.indptr)
    found = np.zeros(cuts.size - 1, bool)

    def look(part: int) -> None:
        found[part] = has_duplicates(cuts[part], cuts[part + 1], matrix.indptr, matrix.indices)

    pool.each(found.size, look)
    return bool(found.any())


def check_finite(block: Block) -> None:
    """Raise NotFinite for the first entry of a block that is NaN or infinite."""
    is_bad = ~np.isfinite(block.values)
    if is_bad.any():
        at = int(np.argmax(is_bad))
        row = int(np.searchsorted(block.indptr - block.indptr[0], at, side="right")) - 1
        raise NotFinite(block.first_row + row, int(block.indices[at]), float(block.values[at]))


def merged(matrix: Compressed) -> Compressed:
    """Sum duplicates and leave out sums of 0; the result may be binary where the matrix was not, or the reverse."""
    indptr, indices, values = matrix
    if not values.size:
        values = np.ones(indices.size)
    n_left = merge_duplicates(indptr, indices, values)
    indices, values = indices[:n_left].copy(), values[:n_left].copy()
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        column = int(np.searchsorted(indptr, at, side="right")) - 1
        raise NotFinite(int(indices[at]), column, float(values[at]))
    return Compressed(indptr, indices, ALL_ONES if (values == 1).all() else values)
