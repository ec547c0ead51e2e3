"""Counting sort that transposes a sparse matrix: rows to columns, one block of rows after the other.

For the FeatureStore: positions x features in, features x positions out, and back. The caller feeds blocks, so
that indices and values of any dtype are converted a block at a time and the result is the only large array.
Rows come in ascending order, hence the rows of each column are ascending and duplicates are neighbours.

Shapes of a block of R rows with M entries: indptr (R + 1,) int64, indices (M,), values (M,) float64, or (0,)
if every entry is 1. Entries that are 0 are left out.
"""

import numpy as np
from numpy import int64
from numpy.typing import NDArray

from crfqn.kernels import kernel
from crfqn.kernels.numba_internals import prefetch_number

AHEAD = 32  # entries


@kernel
def count_columns(indices: NDArray, values: NDArray, counts: NDArray) -> None:
    """Add the number of entries that are not 0 in each column of a block to `counts` (columns,), integers."""
    if values.size == 0:
        for j in range(indices.size):
            counts[indices[j]] += 1
    else:
        for j in range(indices.size):
            if values[j] != 0.0:
                counts[indices[j]] += 1


@kernel
def scatter_rows(
    first_row: int,
    indptr: NDArray,
    indices: NDArray,
    values: NDArray,
    heads: NDArray,
    out_indices: NDArray,
    out_values: NDArray,
) -> None:
    """Write a block of rows into the columns; heads (columns,) : where each column's next entry goes, moved in place.

    out_values of length 0 : the result stores no values. Rare columns are in no cache: places are prefetched AHEAD.
    """
    origin = indptr[0]
    for r in range(indptr.size - 1):
        for j in range(indptr[r] - origin, indptr[r + 1] - origin):
            if j + AHEAD < indices.size:
                place = heads[indices[j + AHEAD]]
                prefetch_number(out_indices, place)
                prefetch_number(out_values, place)
            if values.size > 0 and values[j] == 0.0:
                continue
            head = heads[indices[j]]
            heads[indices[j]] = head + 1
            out_indices[head] = first_row + r
            if out_values.size > 0:
                out_values[head] = values[j] if values.size > 0 else 1.0


@kernel
def has_duplicates(first: int, last: int, indptr: NDArray, indices: NDArray) -> bool:
    """Return whether any of the columns first ... last - 1 has an entry twice, in a pass of its own: to read while
    scattering what was written just before takes longer than all the rest of it."""
    n_duplicates = 0
    for column in range(first, last):
        for j in range(indptr[column] + 1, indptr[column + 1]):
            n_duplicates += indices[j] == indices[j - 1]
    return n_duplicates > 0


@kernel
def merge_duplicates(indptr: NDArray, indices: NDArray, values: NDArray) -> int:
    """Sum neighbours with equal indices, leave out sums of 0, all in place; return the new length."""
    write = int64(0)
    start = indptr[0]
    for column in range(indptr.size - 1):
        stop = indptr[column + 1]
        j = start
        while j < stop:
            row = indices[j]
            total = 0.0
            while j < stop and indices[j] == row:
                total += values[j]
                j += 1
            if total != 0.0:
                indices[write] = row
                values[write] = total
                write += 1
        start = stop
        indptr[column + 1] = write
    return write


@kernel
def count_entries(rows, counts):
    """Add the number of entries that are not 0 in each column of dense rows, float64 (R, columns), to `counts`; returns
    whether all are 1, and the place, row * columns + column, of the first that is not finite, or -1."""
    is_binary, fault = True, int64(-1)
    for r in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[r, j]
            if x != 0.0:
                counts[j] += 1
                if x != 1.0:
                    is_binary = False
                    if fault < 0 and not np.isfinite(x):
                        fault = r * rows.shape[1] + j
    return is_binary, fault


@kernel
def scatter_entries(rows, first_row, heads, out_indices, out_values):
    """Write the entries of dense rows that are not 0 into the columns; parameters as in `scatter_rows`."""
    for r in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[r, j]
            if x != 0.0:
                head = heads[j]
                out_indices[head] = first_row + r
                if out_values.size > 0:
                    out_values[head] = x
                heads[j] = head + 1


@kernel
def count_taken(first, last, indptr, indices, new_index, counts):
    """counts[f] = the number of entries of column f whose position is taken, for f = first ... last - 1; new_index :
    each position's number in the result, -1 if it is not taken."""
    for f in range(first, last):
        n = 0
        for e in range(indptr[f], indptr[f + 1]):
            n += new_index[indices[e]] >= 0
        counts[f] = n


@kernel
def scatter_taken(first, last, indptr, indices, values, new_index, new_indptr, out_indices, out_values):
    """Write the taken entries of the columns first ... last - 1, with their new positions; `new_index` as above."""
    for f in range(first, last):
        n = new_indptr[f]
        for e in range(indptr[f], indptr[f + 1]):
            t = new_index[indices[e]]
            if t >= 0:
                out_indices[n] = t
                if values.size > 0:
                    out_values[n] = values[e]
                n += 1
