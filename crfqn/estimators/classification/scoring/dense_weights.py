"""Weights as a table for matrix products, of models most of whose weights are not zero.

Where the entries of a CSR array lie in the table is found out once, and kept as long as the index arrays are the same
ones; the numbers are read anew at every call, so that changing them in place is seen.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector

DENSE = 0.1  # of the weights of the features that have any: from there on a product with all of them is sooner done
MOSTLY = (
    0.5  # of the features: from there on all columns are multiplied as they lie, instead of a copy of some
)


class Places(NamedTuple):
    """Places of the weights in a table of their features.

    indptr, indices : references to the arrays that this was made of
    kept : int64, sorted: the features that have a weight
    columns : the features of the table's columns, all of them or those `kept`
    flat : int64, the place of each weight in the table, (states x columns) in C order
    is_dense : whether a product with the table is sooner done than one with the weights that are not zero
    is_table : whether the numbers of the CSR array are the table, as it lies in memory
    """

    indptr: weakref.ref
    indices: weakref.ref
    kept: NDArray[np.int64]
    columns: NDArray[np.int64] | slice
    flat: NDArray[np.int64]
    is_dense: bool
    is_table: bool


_kept: dict[int, Places] = {}  # by the identity of `indices`, and only as long as these live


def places_of(coef: Any) -> Places:
    """Return where the weights of a CSR array (states x features) lie; O(weights) for arrays that are not known."""
    key = id(coef.indices)
    found = _kept.get(key)
    if found is not None and found.indices() is coef.indices and found.indptr() is coef.indptr:
        return found
    kept = np.unique(coef.indices).astype(np.int64)
    n_states, n_features = coef.shape
    is_whole = kept.size >= MOSTLY * n_features
    states = np.repeat(np.arange(n_states), np.diff(coef.indptr))
    width = n_features if is_whole else kept.size
    flat = states * width + (coef.indices if is_whole else np.searchsorted(kept, coef.indices))
    found = Places(
        weakref.ref(coef.indptr),
        weakref.ref(coef.indices, lambda _: _kept.pop(key, None)),
        kept,
        slice(None) if is_whole else kept,
        flat,
        coef.nnz >= DENSE * max(kept.size, 1) * n_states,
        flat.size == n_states * width and np.array_equal(flat, np.arange(flat.size)),
    )
    _kept[key] = found
    return found


def table_of(coef: Any, places: Places) -> Vector:
    """Return the weights as a table, (states, columns), to be read only; repeated entries of the array add up."""
    n_states, n_features = coef.shape
    width = n_features if isinstance(places.columns, slice) else places.kept.size
    if places.is_table and coef.data.dtype == np.float64:
        return coef.data.reshape(n_states, width)
    table: Any = np.bincount(places.flat, coef.data, minlength=n_states * width)
    return table.reshape(n_states, width)
