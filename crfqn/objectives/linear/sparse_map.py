"""The sparse feature map: index arrays by feature, and by position on request.

If coordinates fill nearly all of their rows, the map processes them row by row, all states of a feature together: one
pass over the feature's entries serves them all, with position-major tables, whose copies from and to the label-major
ones cost O(N K). Otherwise it processes them column by column.

The full gradient is computed for a tile of states and a share of the features at a time. No array of F x K numbers
exists: the gradients of a share are in a small buffer until those above the threshold are selected. This sweep costs
every stored entry times K. So features are skipped if the bound

    |g_fk| = |sum_t x_tf r_t(k)| <= sum_t |x_tf| max_k |r_t(k)|,   the maximum over the states k of the tile

does not exceed the threshold; it costs one multiplication for each entry and tile instead of one for each state. In a
taxonomy of thousands of nodes an item has marginals in a small number of tiles, and rare words are below the threshold.
Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from crfqn.arrays import Coords, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.curvature import gather_features, square_ranges
from crfqn.kernels.margins import squared_columns
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import (
    add_columns,
    add_feature_rows,
    add_position_rows,
    column_sums,
    coordinate_gradients,
    feature_gradients,
    square_sums,
    transpose,
    transpose_positions,
)
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap, FeatureTile
from crfqn.objectives.linear.gram import GramSum, collatz_wielandt
from crfqn.threads import N_PARTS, Pool, cut_into_parts

# Minimum ratio of a centered feature's mean to its standard deviation. Frequent words and pixels have up to three.
MIN_CENTERED_RATIO = 3.0
# Multiplications of a matrix product in the time of one over index arrays, about
PRODUCTS_PER_ENTRY_PAIR = 100
MAX_ROW_STATES = 256  # states of rows: the coordinates of taxonomies with thousands of nodes fill no rows
# Entries of the chosen features at a position, on average; with fewer the copies cost more
MIN_ROW_ENTRIES = 8
MAX_ROW_FILL = 2.0  # numbers of a table of rows for each coordinate
MAX_TILE_STATES = 64  # states of a tile: 512 bytes a position, and the bound above is still tight enough
FEATURE_TILE_NUMBERS = 1 << 16  # numbers of a position-major table at a time: 512 KB, half of an L2 cache
BLOCK_GRADIENTS = 1 << 11  # gradients of a block: 16 KB, which share the L1 cache with the residuals
SHARE_GRADIENTS = 1 << 15  # gradients that a thread computes before it compares them: 256 KB
MAX_CEILING_FEATURES = 1 << 14  # features whose bounds a thread computes at a time
# Features of a share, and shares of a small number of features: enough to balance threads
MIN_SHARE_FEATURES, MAX_SHARES = 32, 16


@dataclass(eq=False)
class SparseMap(FeatureMap):
    """Scores from a feature store.

    Parameters
    ----------
    store : FeatureStore of N positions and F features, centred
    pool : Pool, optional: all cores by default
    centre : as of `FeatureMap`
    """

    max_tile_states = MAX_TILE_STATES

    store: FeatureStore = field()  # type: ignore[assignment]
    pool: Pool = field(default_factory=Pool)
    centre: Vector | None = None

    def __post_init__(self) -> None:
        store = self.store
        self.offsets, self.n_positions, self.n_features = store.offsets, store.n_positions, store.n_features
        self.mean_occurrence = store.nnz / max(store.n_features, 1)

    @property
    def feature_scales(self) -> NDArray[np.float64]:
        return self.store.largest_squares

    @cached_property
    def largest_value(self) -> float:  # type: ignore[override]
        return self.store.largest_value

    def take(self, items: NDArray[np.integer]) -> tuple[SparseMap, NDArray[np.int64]]:
        store, positions = self.store.take(items)
        return SparseMap(store, self.pool, self.centre), positions

    def cut(self, offsets: NDArray[np.int64]) -> SparseMap:
        return SparseMap(self.store.cut(offsets), self.pool, self.centre)

    def tile(self, positions: slice, features: slice) -> Vector:
        return self._matrix()[:, features].tocsr()[positions].toarray()

    def means(self, weights: Vector | None = None) -> Vector | None:
        """Return the means of the features that are not sparse; 0 of the others and of the constant, the last, (F,).

        A feature whose mean exceeds `MIN_CENTERED_RATIO` deviations over the positions, weights >= 0 (N,), occurs at
        over nine tenths of them, so that without its mean it has hardly more entries. None if there is no such feature,
        or if all values are 1, which take no memory.
        """
        if self.store.is_binary:
            return None
        weights = np.ones(self.n_positions) if weights is None else weights
        sums, total = self._matrix().T @ weights, weights.sum()
        with np.errstate(over="ignore"):
            bound = MIN_CENTERED_RATIO**2 * total * self.weighted_squares(weights)
            chosen = (1.0 + MIN_CENTERED_RATIO**2) * sums**2 > bound
        chosen[-1] = False
        centre = np.zeros(self.n_features)
        for feature in np.flatnonzero(chosen).tolist():
            column = self.store.column(feature)
            centre[feature] = column[0] + weights @ (column - column[0]) / total  # exact for a constant
        return centre if chosen.any() else None

    def centered_at(self, centre: Vector | None) -> SparseMap:
        """Return the map of the features minus `centre`, (F,): columns with a nonzero centre are stored in full."""
        return self if centre is None else SparseMap(self.store.centered(centre), self.pool, centre)

    def image(self, nodes: CoordinateParts, weights: Vector, scores: Vector) -> None:
        add_node_image(self.store, nodes, weights, scores, self.pool)

    def adjoint(self, nodes: CoordinateParts, residual: Vector) -> Vector:
        if fills_rows(self.store, nodes, residual.shape[0]):
            return self.node_sums(nodes, residual)
        store, out = self.store, np.empty(nodes.n_nodes)
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        self._sweep(nodes, lambda first, last: coordinate_gradients(first, last, *columns, residual, out))
        return out

    def squares(self, nodes: CoordinateParts, table: Vector) -> Vector:
        if fills_rows(self.store, nodes, table.shape[0]):
            return self.node_sums(nodes, table, power=2)
        store, out = self.store, np.empty(nodes.n_nodes)
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        self._sweep(nodes, lambda first, last: squared_columns(first, last, *columns, table, out))
        return out

    def residual_squares(self, nodes: CoordinateParts, residual: Vector, inverse_weights: Vector) -> Vector:
        store, out = self.store, np.empty((2, nodes.n_nodes))
        columns = nodes.states, nodes.features, store.indptr, store.indices, store.values
        arrays = residual, inverse_weights, out[0], out[1]
        self._sweep(nodes, lambda first, last: square_sums(first, last, *columns, *arrays))
        return out

    def _sweep(self, nodes: CoordinateParts, run: Callable[[int, int], object]) -> None:
        """Run a kernel over the nodes, which are independent, in parts of equal work."""
        if self.pool.n_threads == 1:
            run(0, nodes.n_nodes)
            return
        work = np.zeros(nodes.n_nodes + 1, np.int64)
        np.cumsum(self.store.sizes[nodes.features], out=work[1:])
        self.pool.map_ranges(cut_into_parts(work), run, work[-1])

    def iter_feature_tiles(
        self,
        table: Vector,
        visit: Callable[[FeatureTile], object],
        features: Coords | None = None,
        threshold: float | Vector | None = None,
        power: int = 1,
    ) -> None:
        store, n_positions = self.store, self.n_positions
        features = np.arange(self.n_features) if features is None else features
        for first_state in range(0, table.shape[0], MAX_TILE_STATES):
            states = slice(first_state, min(first_state + MAX_TILE_STATES, table.shape[0]))
            rows, width = table[states], rounded_up(states.stop - first_state)
            by_position, largest = aligned_rows(n_positions, width), np.empty(n_positions)

            def copy(
                begin: int, end: int, rows: Vector = rows, to: Vector = by_position, largest: Vector = largest
            ) -> None:
                if threshold is None:
                    transpose(rows[:, begin:end], to[begin:end])
                else:
                    transpose_positions(begin, end, rows, np.inf, to, largest)

            self.pool.map_chunks(n_positions, copy)
            chosen = features
            if threshold is not None:
                chosen = possible_features(store, self.pool, largest, threshold)
                chosen = chosen if features.size == self.n_features else np.intersect1d(chosen, features)
            size = share_of(chosen.size, SHARE_GRADIENTS // width)

            def run(
                part: int,
                states: slice = states,
                chosen: Coords = chosen,
                size: int = size,
                by_position: Vector = by_position,
            ) -> None:
                """Call `visit` with sum_t x_tf^power table[k, t] of a share of the features."""
                places = slice(part * size, min((part + 1) * size, chosen.size))
                share, width = chosen[places], by_position.shape[1]
                numbers, out = share, aligned_rows(share.size, width)
                if power == 1:
                    arrays = store.indptr, store.indices, store.values
                else:
                    indptr = store.indptr[share[0] : share[-1] + 2]
                    entries = slice(indptr[0], indptr[-1])
                    arrays = indptr - indptr[0], store.indices[entries], np.square(store.values[entries])
                    numbers = share - share[0]
                block, tile = max(1, BLOCK_GRADIENTS // width), max(64, FEATURE_TILE_NUMBERS // width)
                feature_gradients(numbers, arrays[0][numbers], block, tile, *arrays, by_position, out)
                visit(FeatureTile(states, share, places, out))

            self.pool.each(-(-chosen.size // size), run, store.indices.size * width)

    def possible_rows(self, residual: Vector, order: int, bound: float) -> Coords:
        """Return the features whose sum_t |x_tf| ||r_t|| >= ||g_f|| exceeds the bound."""
        norms = np.empty(self.n_positions)

        def run(begin: int, end: int) -> None:
            rows = residual[:, begin:end]
            norms[begin:end] = (
                np.sqrt(np.einsum("ki,ki->i", rows, rows)) if order == 2 else np.abs(rows).sum(axis=0)
            )

        self.pool.map_chunks(self.n_positions, run)
        return possible_features(self.store, self.pool, norms, bound)

    def item_ranges(self, weights: Vector) -> Vector:
        store, squares = self.store, np.empty(self.n_features)
        item_of = np.repeat(np.arange(store.n_items), np.diff(store.offsets))
        parts = cut_into_parts(store.indptr)
        arrays = store.indptr, store.indices, store.values, item_of, weights, squares
        n_entries = store.indices.size
        self.pool.map_ranges(parts, lambda first, last: square_ranges(first, last, *arrays), n_entries)
        return squares

    def weighted_squares(self, weights: Vector) -> Vector:
        store, out = self.store, np.empty(self.n_features)
        column_sums(0, self.n_features, 2, store.indptr, store.indices, store.values, weights, out)
        return out

    def gram(self, weights: Vector) -> Vector:
        total, columns = GramSum(self.n_features, self.pool), self._matrix()
        rows = columns.tocsr()
        n_products = float(np.square(np.diff(rows.indptr).astype(np.float64)).sum())
        if n_products * PRODUCTS_PER_ENTRY_PAIR < float(self.n_positions) * self.n_features**2:
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
        store = self.store
        columns = (np.zeros(store.n_features, np.int64), np.arange(store.n_features))
        arrays = (store.indptr, store.indices, np.abs(store.values))

        def times(v: Vector) -> Vector:
            """Return |X|' diag(c) |X| v."""
            image, product = np.zeros((1, store.n_positions)), np.empty(store.n_features)
            add_columns(0, store.n_features, *columns, v, *arrays, image)
            column_sums(0, store.n_features, 1, *arrays, c * image[0], product)
            return product

        return collatz_wielandt(times, store.n_features)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        store, x = self.store, np.zeros((features.size, positions.size), np.float32)
        place = np.full(store.n_positions, -1, np.int32)
        place[positions] = np.arange(positions.size, dtype=np.int32)
        arrays = features, place, store.indptr, store.indices, store.values, x

        def gather(part: int) -> None:
            gather_features(part * 64, min((part + 1) * 64, features.size), *arrays)

        self.pool.each(-(-features.size // 64), gather)
        return x

    def count_entries(self, nodes: CoordinateParts) -> float:
        return float(self.store.sizes[nodes.features].sum())

    def count_active(self, nodes: CoordinateParts) -> NDArray[np.int64]:
        store, counts = self.store, np.zeros((1, self.n_positions))
        features, n_active = np.unique(nodes.features, return_counts=True)
        columns = np.zeros(features.size, np.int64), features, n_active.astype(np.float64)
        add_columns(0, features.size, *columns, store.indptr, store.indices, np.empty(0), counts)
        return counts[0].astype(np.int64)


def add_image(
    store: FeatureStore, coords: Coords, weights: Vector, scores: Vector, edges: Vector, pool: Pool
) -> None:
    """Add X w to the scores (K, N) and w to the edges (E,), in place; coords sorted. For prediction."""
    nodes = CoordinateParts.from_coords(coords, scores.shape[0], store.n_features)
    edges[nodes.edges] += weights[nodes.n_nodes :]
    add_node_image(store, nodes, weights[: nodes.n_nodes], scores, pool)


def add_node_image(
    store: FeatureStore, nodes: CoordinateParts, weights: Vector, scores: Vector, pool: Pool
) -> None:
    """Add X w to the scores, float64 (K, N), in place: O(entries of the columns that have a weight).

    Threads share the states, or ranges of positions if whole rows have weights. A score is summed in the order of the
    features, so that the result does not depend on the number of threads.
    """
    if fills_rows(store, nodes, scores.shape[0]):
        add_row_image(store, nodes, weights, scores, pool)
        return
    arrays = nodes.states, nodes.features, weights, store.indptr, store.indices, store.values, scores
    if pool.n_threads == 1:
        add_columns(0, nodes.n_nodes, *arrays)
        return
    bounds = np.unique(np.searchsorted(nodes.states, np.arange(scores.shape[0] + 1)))
    n_operations = store.sizes[nodes.features].sum()
    pool.map_ranges(bounds, lambda first, last: add_columns(first, last, *arrays), n_operations)


def add_row_image(
    store: FeatureStore, nodes: CoordinateParts, weights: Vector, scores: Vector, pool: Pool
) -> None:
    """Add X w to the scores, float64 (K, N), in place, by whole rows of weights, range of positions by range."""
    n_states, width = scores.shape[0], rounded_up(scores.shape[0])
    if nodes.n_nodes == n_states * store.n_features:
        by_position = store.by_position
        parts, table = cut_into_parts(by_position[0]), aligned_rows(store.n_features, width)
        transpose(weights.reshape(n_states, -1), table)
        pool.each(
            N_PARTS, lambda part: add_position_rows(parts[part], parts[part + 1], table, *by_position, scores)
        )
        return
    is_present = np.zeros(store.n_features, bool)
    is_present[nodes.features] = True
    features = np.flatnonzero(is_present)
    rows = aligned_rows(features.size, width)
    rows[(np.cumsum(is_present) - 1)[nodes.features], nodes.states] = weights
    step = max(FEATURE_TILE_NUMBERS // width // 2, -(-store.n_positions // N_PARTS))

    def run(part: int) -> None:
        first, last = part * step, min((part + 1) * step, store.n_positions)
        image = aligned_rows(last - first, width)
        add_feature_rows(first, features, rows, store.indptr, store.indices, store.values, image)
        scores[:, first:last] += image[:, :n_states].T

    pool.each(-(-store.n_positions // step), run)


def fills_rows(store: FeatureStore, nodes: CoordinateParts, n_states: int) -> bool:
    """Return whether it is cheaper to process coordinates row by row, all states of a feature together."""
    if nodes.n_nodes == n_states * store.n_features:
        n_present, n_features, n_entries = n_states, store.n_features, n_states * store.indices.size
    else:
        n_present = int(np.count_nonzero(nodes.states[1:] != nodes.states[:-1])) + 1  # they are sorted
        n_features = -1
        n_entries = int((store.indptr[nodes.features + 1] - store.indptr[nodes.features]).sum())
    is_worth_copies = n_entries >= MIN_ROW_ENTRIES * store.n_positions * n_present
    if not 1 < n_present <= n_states <= MAX_ROW_STATES or not is_worth_copies:
        return False
    if n_features < 0:
        is_present = np.zeros(store.n_features, bool)
        is_present[nodes.features] = True
        n_features = int(np.count_nonzero(is_present))
    return n_features * rounded_up(n_present) <= MAX_ROW_FILL * nodes.n_nodes


def rounded_up(n_states: int) -> int:
    """Return a number of states rounded up to whole vector registers."""
    return -(-n_states // LANES) * LANES


def share_of(n_features: int, maximum: int) -> int:
    """Return the number of features that a thread processes at a time."""
    return max(min(max(-(-n_features // MAX_SHARES), MIN_SHARE_FEATURES), maximum), 1)


def possible_features(
    store: FeatureStore, pool: Pool, largest: Vector, threshold: float | Vector
) -> NDArray[np.int64]:
    """Return the features whose gradients may exceed the threshold, one for all or one for each, (F,)."""
    ceilings, size = np.empty(store.n_features), share_of(store.n_features, MAX_CEILING_FEATURES)

    def run(part: int) -> None:
        first, last = part * size, min((part + 1) * size, store.n_features)
        column_sums(first, last, 1, store.indptr, store.indices, store.values, largest, ceilings)

    pool.each(-(-store.n_features // size), run, store.indices.size)
    return np.flatnonzero(ceilings * (1.0 + 1e-9) > threshold)  # or rounding could hide a coordinate
