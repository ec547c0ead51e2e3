"""Scores of one sentence, or of a few rows: position by position, without a feature store and without threads.

Weights are sorted by feature once for all calls (`weight_places.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.estimators.weight_places import KeptByPlaces
from crfqn.kernels.sparse import add_position_scores, are_clean_rows
from crfqn.threads import FEWEST_OPERATIONS


class ByFeature(NamedTuple):
    """Places of each feature's weights in a CSR array (states x features), in the order `add_position_scores` takes."""

    heads: NDArray[np.int64]
    states: NDArray[np.int32]
    places: NDArray[np.int64]


def few_scores(matrix: Any, coef: Any, initial: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return initial + coef @ x for every row x of a matrix, (K, N), if that is little work; otherwise None.

    None also stands for what needs checks that name what is wrong: these go with a store.

    matrix : CSR or 2-D array (N, F) of real numbers; coef : CSR array (K, F); initial : float64 (K,)
    """
    rows, n_positions = _rows(matrix, coef), matrix.shape[0]
    if rows is None or not are_clean_rows(*rows, n_positions, coef.shape[1]):
        return None
    scores = np.repeat(initial[:, None], n_positions, axis=1)
    heads, states, places = by_feature(coef)
    add_position_scores(*rows, heads, states, places, np.require(coef.data, np.float64, ["C", "W"]), scores)
    return scores


def _rows(matrix: Any, coef: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the rows as a kernel takes them; None for other forms, and for FEWEST_OPERATIONS and more."""
    is_sparse = hasattr(matrix, "tocsr")
    if (is_sparse and matrix.format != "csr") or coef.format != "csr" or coef.data.size != coef.indices.size:
        return None
    if matrix.shape[1:] != coef.shape[1:] or matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        return None
    n_entries = matrix.data.size if is_sparse else matrix.size
    per_feature = 1 + coef.data.size // max(1, coef.shape[1])
    if n_entries * per_feature >= FEWEST_OPERATIONS:
        return None
    if is_sparse:
        indptr, indices, values = matrix.indptr, matrix.indices, matrix.data
    else:
        positions, indices = np.nonzero(matrix)
        indptr, values = np.searchsorted(positions, np.arange(len(matrix) + 1)), matrix[positions, indices]
    return (
        np.require(indptr, np.int64, ["C", "W"]),
        np.require(indices, np.int64, ["C", "W"]),
        np.require(values, np.float64, ["C", "W"]),
    )


@KeptByPlaces
def by_feature(coef: Any) -> ByFeature:
    """Return the order of the weights by feature: O(F + weights)."""
    order = np.argsort(coef.indices, kind="stable")
    heads = np.zeros(coef.shape[1] + 1, np.int64)
    np.cumsum(np.bincount(coef.indices, minlength=coef.shape[1]), out=heads[1:])
    states = np.repeat(np.arange(coef.shape[0], dtype=np.int32), np.diff(coef.indptr))[order]
    return ByFeature(heads, states, order)
