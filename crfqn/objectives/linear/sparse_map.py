"""The sparse feature map: index arrays by feature, and by position on request.

Coordinates that fill most of their rows are taken row by row (`dense_rows.py`), others column by column; the full
gradient is screened tile by tile (`screening.py`). Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from crfqn.arrays import Coords, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.curvature import count_members, gather_features, square_ranges
from crfqn.kernels.margins import squared_columns, weighted_squares
from crfqn.kernels.sparse import add_columns, coordinate_gradients, square_sums
from crfqn.objectives.linear import screening
from crfqn.objectives.linear.coordinates import Split, split_coords
from crfqn.objectives.linear.dense_rows import DenseRows
from crfqn.objectives.linear.gram import GramSum, largest_eigenvalue
from crfqn.threads import N_PARTS, Pool, cut_into_parts

# Deviations; the commonest words of a text, and pixels, have a mean of up to three: they stay sparse.
FAR = 3.0
DENSE_PRODUCTS = 100  # of a matrix product in the time of one over index arrays, about


@dataclass(eq=False)
class SparseMap:
    """Scores from a feature store.

    Parameters
    ----------
    store : FeatureStore of N positions and F features, centred
    pool : Pool, optional: all cores by default
    centre : as of `FeatureMap`
    """

    is_roundable: ClassVar[bool] = False

    store: FeatureStore
    pool: Pool = field(default_factory=Pool)
    centre: Vector | None = None

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self.store.offsets

    @property
    def n_items(self) -> int:
        return self.store.n_items

    @property
    def n_positions(self) -> int:
        return self.store.n_positions

    @property
    def n_features(self) -> int:
        return self.store.n_features

    @property
    def feature_scales(self) -> Vector:
        return self.store.largest_squares

    @property
    def largest_value(self) -> float:
        return self.store.largest_value

    @property
    def mean_occurrence(self) -> float:
        return self.store.nnz / max(self.store.n_features, 1)

    def take(self, items: NDArray[np.integer]) -> tuple[SparseMap, NDArray[np.int64]]:
        store, positions = self.store.take(items, self.pool)
        return SparseMap(store, self.pool, self.centre), positions

    def cut(self, offsets: NDArray[np.int64]) -> SparseMap:
        return SparseMap(self.store.cut(offsets), self.pool, self.centre)

    def means(self, weights: Vector | None = None) -> Vector | None:
        """Return the means of the features that are not sparse; 0 of the others and of the constant, the last, (F,).

        A feature whose mean is over `FAR` deviations over the positions, weights >= 0 (N,), occurs at over nine tenths
        of them, so that without its mean it has hardly more entries. None where there is none, and where all values
        are 1, which take no memory.
        """
        if self.store.is_binary:
            return None
        weights = np.ones(self.n_positions) if weights is None else weights
        sums, total = self._matrix().T @ weights, weights.sum()
        with np.errstate(over="ignore"):
            chosen = (1.0 + FAR**2) * sums**2 > FAR**2 * total * self.weighted_squares(weights)
        chosen[-1] = False
        centre = np.zeros(self.n_features)
        for feature in np.flatnonzero(chosen).tolist():
            column = self.store.column(feature)
            centre[feature] = column[0] + weights @ (column - column[0]) / total  # a constant leaves nothing
        return centre if chosen.any() else None

    def centred_at(self, centre: Vector | None) -> SparseMap:
        """Return the map of the features less `centre`, (F,): columns where it is not 0 are stored in full."""
        return self if centre is None else SparseMap(self.store.less(centre), self.pool, centre)

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        add_node_image(self.store, nodes, weights, scores, self.pool)

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        store, rows = self.store, DenseRows.of(self.store, nodes, residual.shape[0])
        if rows is not None:
            return rows.sums(residual, self.pool)
        out = np.empty(nodes.n_nodes)
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        self._sweep(nodes, lambda first, last: coordinate_gradients(first, last, *columns, residual, out))
        return out

    def squares(self, nodes: Split, table: Vector) -> Vector:
        store, rows = self.store, DenseRows.of(self.store, nodes, table.shape[0])
        if rows is not None:
            return rows.sums(table, self.pool, of_squares=True)
        out = np.empty(nodes.n_nodes)
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        self._sweep(nodes, lambda first, last: squared_columns(first, last, *columns, table, out))
        return out

    def residual_squares(self, nodes: Split, residual: Vector, inverse_weights: Vector) -> Vector:
        store, out = self.store, np.empty((2, nodes.n_nodes))
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        arrays = residual, inverse_weights, out[0], out[1]
        self._sweep(nodes, lambda first, last: square_sums(first, last, *columns, *arrays))
        return out

    def _sweep(self, nodes: Split, run: Callable[[int, int], object]) -> None:
        """Run a kernel over the nodes, each of which it handles alone, in parts of equal work."""
        if self.pool.n_threads == 1:
            run(0, nodes.n_nodes)
            return
        work = np.zeros(nodes.n_nodes + 1, np.int64)
        np.cumsum(self.store.sizes[nodes.features], out=work[1:])
        parts = cut_into_parts(work)
        self.pool.each(N_PARTS, lambda part: run(parts[part], parts[part + 1]))

    def screen(self, residual: Vector, threshold: float) -> Screening:
        return screening.screen_nodes(self.store, self.pool, residual, threshold)

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, norm: screening.RowNorm
    ) -> tuple[Coords, Vector]:
        return screening.strong_rows(self.store, self.pool, residual, also, bound, norm)

    def count_small(self, residual: Vector, limits: Vector) -> int:
        tiles = range(0, residual.shape[0], screening.WIDEST)
        rows = (residual[first : first + screening.WIDEST] for first in tiles)
        return sum(screening.count_small(self.store, self.pool, tile, limits) for tile in rows)

    def item_ranges(self, weights: Vector) -> Vector:
        store, squares = self.store, np.empty(self.n_features)
        item_of = np.repeat(np.arange(store.n_items), np.diff(store.offsets))
        parts = cut_into_parts(store.indptr)
        arrays = store.indptr, store.indices, store.values, item_of, weights, squares
        self.pool.each(N_PARTS, lambda part: square_ranges(parts[part], parts[part + 1], *arrays))
        return squares

    def weighted_squares(self, weights: Vector) -> Vector:
        store, out = self.store, np.empty(self.n_features)
        weighted_squares(store.indptr, store.indices, store.values, weights, out)
        return out

    def gram(self, weights: Vector, is_rounded: bool = False) -> Vector:
        total, columns = GramSum(self.n_features, self.pool), self._matrix()
        rows = columns.tocsr()
        n_products = float(np.square(np.diff(rows.indptr).astype(np.float64)).sum())
        if n_products * DENSE_PRODUCTS < float(self.n_positions) * self.n_features**2:
            return (columns.T @ rows.multiply(weights[:, None]).tocsr()).toarray()
        for first in range(0, self.n_positions, total.n_rows):
            stretch = slice(first, first + total.n_rows)
            total.add(rows[stretch].toarray() * np.sqrt(weights[stretch, None]))
        return total.matrix()

    def _matrix(self) -> csc_array:
        """The entries as a matrix, (N, F)."""
        store = self.store
        values = np.ones(store.indices.size) if store.is_binary else store.values
        return csc_array((values, store.indices, store.indptr), (self.n_positions, self.n_features))

    def eigenvalue_bound(self, c: Vector) -> float:
        return largest_eigenvalue(self.store, c)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        store, x = self.store, np.zeros((features.size, positions.size), np.float32)
        place = np.full(store.n_positions, -1, np.int32)
        place[positions] = np.arange(positions.size, dtype=np.int32)
        arrays = features, place, store.indptr, store.indices, store.values, x

        def gather(part: int) -> None:
            gather_features(part * 64, min((part + 1) * 64, features.size), *arrays)

        self.pool.each(-(-features.size // 64), gather)
        return x

    def count_entries(self, nodes: Split) -> float:
        return float(self.store.sizes[nodes.features].sum())

    def count_active(self, nodes: Split) -> NDArray[np.int64]:
        store, counts = self.store, np.zeros(self.n_positions, np.int64)
        features, n_active = np.unique(nodes.features, return_counts=True)
        count_members(features, n_active, store.indptr, store.indices, counts)
        return counts


def add_image(
    store: FeatureStore, coords: Coords, weights: Vector, scores: Vector, edges: Vector, pool: Pool
) -> None:
    """Add X w to the scores (K, N) and w to the edges (E,), in place; coords sorted. For prediction."""
    nodes = split_coords(coords, scores.shape[0], store.n_features)
    edges[nodes.edges] += weights[nodes.n_nodes :]
    add_node_image(store, nodes, weights[: nodes.n_nodes], scores, pool)


def add_node_image(store: FeatureStore, nodes: Split, weights: Vector, scores: Vector, pool: Pool) -> None:
    """Add X w to the scores, float64 (K, N), in place: O(entries of the columns that have a weight).

    Threads share out the states, or stretches of positions where whole rows have weights (`dense_rows.py`); a score is
    summed in the order of the features, so the result does not depend on their number.
    """
    rows = DenseRows.of(store, nodes, scores.shape[0])
    if rows is not None:
        rows.add_image(weights, scores, pool)
        return
    arrays = nodes.states, nodes.features, weights, store.indptr, store.indices, store.values, scores
    if pool.n_threads == 1:
        add_columns(0, nodes.n_nodes, *arrays)
        return
    bounds = np.searchsorted(nodes.states, np.arange(scores.shape[0] + 1))
    present = np.flatnonzero(bounds[1:] > bounds[:-1])
    pool.each(
        present.size, lambda part: add_columns(bounds[present[part]], bounds[present[part] + 1], *arrays)
    )
