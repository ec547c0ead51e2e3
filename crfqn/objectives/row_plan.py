"""How threads share the rows of a sweep: large ones by their positions, small ones by colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.kernels.row_colours import colour_rows
from crfqn.kernels.row_step import cut_rows
from crfqn.kernels.union import union

Indices = NDArray[np.int64]
MOST_ALONE = 200  # entries of a row that one thread updates: two larger ones nearly always meet
FEWEST_KEPT = 0.5  # of the rows that were planned; with fewer of them new classes are larger


class RowPlan:
    """Classes of small rows that have no position in common, and the parts of large ones.

    Kept while the rows asked for are among those that were planned: a part of a class is a class.

    Attributes
    ----------
    store : FeatureStore
    cuts : int64 (parts + 1,), the first position of each part
    features : int64, sorted, the rows that were planned last
    colours : int64, of each, -1 for large ones; bounds : int64 (features, parts + 1), the entries of large ones at the
        cuts, of others where they begin and end
    """

    def __init__(self, store: FeatureStore, cuts: Indices) -> None:
        self.store, self.cuts = store, cuts
        self.features = self.colours = np.empty(0, np.int64)
        self.bounds = np.empty((0, cuts.size), np.int64)

    def of(self, order: Indices) -> tuple[Indices, Indices]:
        """Colours and bounds of rows in some order."""
        place = np.minimum(np.searchsorted(self.features, order), max(self.features.size - 1, 0))
        is_few = order.size < FEWEST_KEPT * self.features.size
        if self.features.size == 0 or is_few or not np.array_equal(self.features[place], order):
            self._plan(union(order))
            place = np.searchsorted(self.features, order)
        return self.colours[place], self.bounds[place]

    def _plan(self, features: Indices) -> None:
        store, taken = self.store, np.zeros(self.store.n_positions, np.uint64)
        self.features, self.colours = features, np.empty(features.size, np.int64)
        self.bounds = np.empty((features.size, self.cuts.size), np.int64)
        colour_rows(features, store.indptr, store.indices, MOST_ALONE, taken, self.colours)
        cut_rows(features, self.colours, store.indptr, store.indices, self.cuts, self.bounds)
