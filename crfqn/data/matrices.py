"""Checks of the matrices and numbers that users give, whatever their form; they need numpy alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.hybrid import Features, check_dense
from crfqn.data.inputs import SparseMatrix
from crfqn.errors import InputError
from crfqn.numerals import BLANKS, number_in

# Entries converted and checked at a time: large enough to hide Python's overhead, small compared to the result.
ENTRIES_PER_BLOCK = 1 << 17


def is_numeric(cell: Any) -> bool:
    """Return whether a cell is a finite number, or the text of one, with or without blanks around it."""
    try:
        return math.isfinite(number_in(cell.strip(BLANKS)) if isinstance(cell, str) else float(cell))
    except (TypeError, ValueError, OverflowError):
        return False


def is_matrix(item: object) -> bool:
    """Return whether an item is an array of numbers or a sparse matrix."""
    if isinstance(item, np.ndarray):
        return item.dtype.kind not in "OUST"
    return hasattr(item, "tocsr") or (hasattr(item, "__array__") and not isinstance(item, np.generic))


def is_plain_array(X: object) -> bool:
    """Return whether X is a 2-D array of real numbers that float64 can hold."""
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf" and X.dtype.itemsize <= 8


def check_matrix(matrix: NDArray | SparseMatrix) -> None:
    """Raise InputError for an array or sparse matrix that is not 2-D and real, or that is damaged."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(
            "expected a 2-D matrix (positions x features) of booleans or real numbers, "
            f"got shape {matrix.shape} and dtype {matrix.dtype}"
        )
    check_sparse(matrix)


def canonical(matrix: SparseMatrix) -> SparseMatrix:
    """Return a sparse matrix as CSR or CSC with each entry stored once, in order and none of them 0, on which squared
    norms, for example, depend: a copy if it has another form. Anything else is unchanged; errors as of `check_sparse`.
    O(nnz)."""
    check_sparse(matrix)
    if not hasattr(matrix, "tocsr") or matrix.ndim != 2:
        return matrix
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    n_stored = int(matrix.indptr[-1])
    indices, data = matrix.indices[:n_stored], matrix.data[:n_stored]
    ascends = np.ones(n_stored, bool)
    np.greater(indices[1:], indices[:-1], out=ascends[1:])
    firsts = matrix.indptr[:-1]
    ascends[firsts[firsts < n_stored]] = True
    if ascends.all() and data.all():
        return matrix
    # The flags of the user's matrix may be out of date.
    copy = type(matrix)((data.copy(), indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def check_sparse(matrix: Any) -> None:
    """Raise InputError if indices are outside of a sparse matrix, since scipy and the kernels use them unchecked.
    O(nnz), some microseconds for one row."""
    if isinstance(matrix, Features):
        check_dense(matrix, 0)
    layout = getattr(matrix, "format", None)
    if getattr(matrix, "ndim", None) != 2:
        return
    if layout == "coo":
        _check_indices(matrix.row, matrix.shape[0])
        _check_indices(matrix.col, matrix.shape[1])
    elif layout in ("csr", "csc", "bsr"):
        indptr, indices = matrix.indptr, matrix.indices
        height, width = matrix.blocksize if layout == "bsr" else (1, 1)
        n_rows, n_columns = matrix.shape[0] // height, matrix.shape[1] // width
        if layout == "csc":
            n_rows, n_columns = n_columns, n_rows
        is_sound = (
            indptr.size == n_rows + 1
            and indptr[0] == 0
            and indptr[-1] <= min(indices.size, len(matrix.data))
            and not (indptr[1:] < indptr[:-1]).any()
        )
        if not is_sound:
            raise InputError(
                "damaged sparse matrix: indptr must start at 0, not decrease and fit the rows, indices and values"
            )
        _check_indices(indices[: indptr[-1]], n_columns)


def _check_indices(indices: NDArray[np.integer], size: int) -> None:
    """Raise InputError for indices outside of 0 ... size - 1; as unsigned numbers, those below 0 are the largest."""
    if indices.size and indices.view(f"u{indices.itemsize}").max() >= size:
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise InputError(f"damaged sparse matrix: index {wrong} is outside 0 ... {size - 1}")
