"""Weights taken feature by feature, all states at once: for coordinates that fill most of their rows.

A coordinate on its own reads its column once more than the one beside it. Where most states of a feature are asked for,
as under a group penalty or with dense features, one pass over the feature's entries serves them all, with tables laid
out position by position; their copies from and to the label-major ones cost O(N K).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import add_feature_rows, add_position_rows, feature_gradients, transpose
from crfqn.objectives.linear.coordinates import Split
from crfqn.threads import N_PARTS, Pool, cut_into_parts

MOST_STATES = 256  # the coordinates of a taxonomy's thousands of nodes fill no rows
# Of the chosen features at a position, on average: below, the copies cost more than is saved.
FEWEST_ENTRIES = 8
MOST_EMPTY = 2.0  # numbers of the table for each that is asked for
SLAB_NUMBERS = 1 << 16  # of a position-major table at a time: 512 KB, half of an L2 cache
BLOCK = 64  # features whose sums stay in the cache while a slab's positions go by


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Coordinates of nodes as places in a table of rows; row, states : int64 (n,), of each coordinate.

    features, width : sorted int64 (rows,); K rounded up to whole registers
    is_everything : whether these are all coordinates of nodes, which are the table's columns one after another
    """

    store: FeatureStore
    features: NDArray[np.int64]
    width: int
    row: NDArray[np.int64]
    states: NDArray[np.int64]
    is_everything: bool = False

    @classmethod
    def of(cls, store: FeatureStore, split: Split, n_states: int) -> DenseRows | None:
        """Return the rows of some coordinates; None where single columns are cheaper."""
        is_everything = split.n_nodes == n_states * store.n_features  # then nothing has to be looked for
        if is_everything:
            n_present, n_entries = n_states, n_states * store.indices.size
        else:
            n_present = int(np.count_nonzero(split.states[1:] != split.states[:-1])) + 1  # they are sorted
            n_entries = (store.indptr[split.features + 1] - store.indptr[split.features]).sum()
        is_worth_copies = n_entries >= FEWEST_ENTRIES * store.n_positions * n_present
        if not 1 < n_present <= n_states <= MOST_STATES or not is_worth_copies:
            return None
        is_asked = np.zeros(store.n_features, bool)
        is_asked[... if is_everything else split.features] = True
        features = np.flatnonzero(is_asked)
        if features.size * rounded_up(n_present) > MOST_EMPTY * split.n_nodes:
            return None
        row = split.features if is_everything else (np.cumsum(is_asked) - 1)[split.features]
        return cls(store, features, rounded_up(n_states), row, split.states, is_everything)

    def add_image(self, weights: NDArray[np.float64], scores: NDArray[np.float64], pool: Pool) -> None:
        """Add X w to the scores (K, N) in place, stretch of positions by stretch."""
        store, n_states = self.store, scores.shape[0]
        table = self._table(weights, n_states)
        if self.is_everything:
            rows = store.by_position()
            parts = cut_into_parts(rows[0])
            pool.each(N_PARTS, lambda p: add_position_rows(parts[p], parts[p + 1], table, *rows, scores))
            return
        step = max(SLAB_NUMBERS // self.width // 2, -(-store.n_positions // N_PARTS))

        def run(part: int) -> None:
            first, last = part * step, min((part + 1) * step, store.n_positions)
            image = aligned_rows(last - first, self.width)
            add_feature_rows(first, self.features, table, store.indptr, store.indices, store.values, image)
            scores[:, first:last] += image[:, :n_states].T

        pool.each(-(-store.n_positions // step), run)

    def _table(self, weights: NDArray[np.float64], n_states: int) -> NDArray[np.float64]:
        """Return the weights by feature, (rows, width)."""
        table = aligned_rows(self.features.size, self.width)
        if self.is_everything:
            transpose(weights.reshape(n_states, -1), table)
        else:
            table[self.row, self.states] = weights
        return table

    def sums(
        self, by_state: NDArray[np.float64], pool: Pool, of_squares: bool = False
    ) -> NDArray[np.float64]:
        """Return sum_t x_tf by_state[k, t] for every coordinate, or sum_t x_tf^2 by_state[k, t], (n,)."""
        store, n_states = self.store, by_state.shape[0]
        by_position = aligned_rows(store.n_positions, self.width)

        def copy(first: int, last: int) -> None:
            transpose(by_state[:, first:last], by_position[first:last])

        pool.each_stretch(store.n_positions, copy)
        table = aligned_rows(self.features.size, self.width)

        parts = self._parts()

        def run(part: int) -> None:
            block = slice(parts[part], parts[part + 1])
            if block.start == block.stop:
                return
            first, last = self.features[block][[0, -1]]
            indptr = store.indptr[first : last + 2]
            entries = slice(indptr[0], indptr[-1])
            values = np.square(store.values[entries]) if of_squares else store.values[entries]
            feature_gradients(
                self.features[block] - first, BLOCK, max(SLAB_NUMBERS // self.width, 1),
                indptr - indptr[0], store.indices[entries], values, by_position, table[block],
            )  # fmt: skip

        pool.each(parts.size - 1, run)
        if not self.is_everything:
            return table[self.row, self.states]
        out = np.empty((n_states, self.features.size))
        transpose(table[:, :n_states], out)
        return out.ravel()

    def _parts(self) -> NDArray[np.int64]:
        """Cut the features into parts of about equally many entries: each reads the table of positions anew."""
        ends = self.store.indptr
        if not self.is_everything:
            ends = np.concatenate([[0], np.cumsum(self.store.sizes[self.features])])
        return cut_into_parts(ends, min(N_PARTS, -(-self.features.size // BLOCK)))


def rounded_up(n_states: int) -> int:
    """Return a number of states rounded up to whole vector registers."""
    return -(-n_states // LANES) * LANES
