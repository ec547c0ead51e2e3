"""Weights as sorted coordinates with values, the solvers' form, and as sparse matrices, the users' form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


class Weights(NamedTuple):
    """Sorted coordinates, int64 (n,), and the weights there, float64 (n,)."""

    coords: NDArray[np.int64]
    values: NDArray[np.float64]


def csr(values: NDArray, rows: NDArray, columns: NDArray, shape: tuple[int, int]) -> Any:
    """A CSR array of the entries."""
    return scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


def entries(matrix: Any, stride: int) -> Weights:
    """The entries of a CSR array at the coordinates row * stride + column."""
    found = matrix.tocoo()
    return Weights(found.row.astype(np.int64) * stride + found.col, found.data)


def merged(left: Weights, right: Weights) -> Weights:
    """Weights at different coordinates as one, sorted."""
    coords = np.concatenate([left.coords, right.coords])
    order = np.argsort(coords)
    return Weights(coords[order], np.concatenate([left.values, right.values])[order])
