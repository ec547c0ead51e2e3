"""Conversion of weights between sorted coordinates with values, the solvers' form, and sparse matrices, the users'."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights


def csr(values: NDArray, rows: NDArray, columns: NDArray, shape: tuple[int, int]) -> Any:
    """Return a CSR array of the entries."""
    return scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


def entries(matrix: Any, stride: int) -> SparseWeights:
    """Return the entries of a CSR array as sparse weights at the coordinates row * stride + column."""
    found = matrix.tocoo()
    return SparseWeights(found.row.astype(np.int64) * stride + found.col, found.data)


def merged(left: SparseWeights, right: SparseWeights) -> SparseWeights:
    """Return two sets of sparse weights at disjoint coordinates as one, sorted."""
    coords = np.concatenate([left.coords, right.coords])
    order = np.argsort(coords)
    return SparseWeights(coords[order], np.concatenate([left.weights, right.weights])[order])
