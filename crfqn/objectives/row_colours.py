"""Which rows may be updated at once: small ones that have no position in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.kernels.row_colours import colour_rows
from crfqn.kernels.union import union

Indices = NDArray[np.int64]
MOST_ALONE = 200  # entries of a row that one thread updates: two larger ones nearly always meet
FEWEST_KEPT = 0.5  # of the rows that were coloured; with fewer of them new classes are larger


class RowColours:
    """Classes of rows, kept while those asked for are among the ones that were coloured: so is a part of a class.

    Attributes
    ----------
    store : FeatureStore
    features : int64, sorted, the rows that were coloured last; colours : int64, of each, -1 for large ones
    """

    def __init__(self, store: FeatureStore) -> None:
        self.store = store
        self.features = self.colours = np.empty(0, np.int64)

    def of(self, order: Indices) -> Indices:
        """The colours of rows in some order."""
        place = np.minimum(np.searchsorted(self.features, order), max(self.features.size - 1, 0))
        is_few = order.size < FEWEST_KEPT * self.features.size
        if self.features.size == 0 or is_few or not np.array_equal(self.features[place], order):
            self._colour(union(order))
            place = np.searchsorted(self.features, order)
        return self.colours[place]

    def _colour(self, features: Indices) -> None:
        store, taken = self.store, np.zeros(self.store.n_positions, np.uint64)
        self.features, self.colours = features, np.empty(features.size, np.int64)
        colour_rows(features, store.indptr, store.indices, MOST_ALONE, taken, self.colours)
