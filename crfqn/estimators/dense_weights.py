"""Weights as a table for matrix products, of models most of whose weights are not zero.

Where the entries of a CSR array lie in the table is found out once (`weight_places.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.estimators.weight_places import KeptByPlaces

DENSE = 0.1  # of the weights of the features that have any: from there on a product with all of them is sooner done
MOSTLY = (
    0.5  # of the features: from there on all columns are multiplied as they lie, instead of a copy of some
)


class Places(NamedTuple):
    """Places of the weights in a table of their features.

    kept : int64, sorted: the features that have a weight
    columns : the features of the table's columns, all of them or those `kept`
    flat : int64, the place of each weight in the table, (states x columns) in C order
    is_dense : whether a product with the table is sooner done than one with the weights that are not zero
    is_table : whether the numbers of the CSR array are the table, as it lies in memory
    """

    kept: NDArray[np.int64]
    columns: NDArray[np.int64] | slice
    flat: NDArray[np.int64]
    is_dense: bool
    is_table: bool


@KeptByPlaces
def places_of(coef: Any) -> Places:
    """Return where the weights of a CSR array (states x features) lie: O(weights)."""
    kept = np.unique(coef.indices).astype(np.int64)
    n_states, n_features = coef.shape
    is_whole = kept.size >= MOSTLY * n_features
    states = np.repeat(np.arange(n_states), np.diff(coef.indptr))
    width = n_features if is_whole else kept.size
    flat = states * width + (coef.indices if is_whole else np.searchsorted(kept, coef.indices))
    return Places(
        kept,
        slice(None) if is_whole else kept,
        flat,
        coef.nnz >= DENSE * max(kept.size, 1) * n_states,
        flat.size == n_states * width and np.array_equal(flat, np.arange(flat.size)),
    )


def table_of(coef: Any, places: Places) -> Vector:
    """Return the weights as a table, (states, columns), to be read only; repeated entries of the array add up."""
    n_states, n_features = coef.shape
    width = n_features if isinstance(places.columns, slice) else places.kept.size
    if places.is_table and coef.data.dtype == np.float64:
        return coef.data.reshape(n_states, width)
    table: Any = np.bincount(places.flat, coef.data, minlength=n_states * width)
    return table.reshape(n_states, width)
