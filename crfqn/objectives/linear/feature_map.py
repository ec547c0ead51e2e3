"""Feature maps: the linear maps from weights to scores, whatever the storage of the features.

    scores[k, t] = sum_f w[k, f] x[t, f]

`FeatureMap` derives the methods of objectives from two primitives: `tile`, the values of some features at some
positions, and `iter_feature_tiles`, sums over all positions (gradients) of some features, tile by tile. Maps without
index arrays have tiles only; the sparse map has sums over index arrays. The tiles do not depend on the number of
threads, and sums are taken in float64 tile by tile, so that results do not either.

Coordinates of the weights are one integer each: (k, f) -> k F + f, the C order of a (K, F) matrix, and edge e -> K F +
e. Shapes: I items, N positions, F features, K states; tables by state are float64 (K, N). `nodes` are n sorted
coordinates split into states and features (`CoordinateParts`); a map has no edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, Screening, SparseWeights, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.sparse import add_powers, places, sorted_union, union
from crfqn.objectives.linear.gram import GramSum, collatz_wielandt
from crfqn.threads import Pool

# Sizes of tiles, by the caches of a processor; results depend on them by rounding alone.
MAX_TILE_POSITIONS, MIN_TILE_POSITIONS = 4096, 256  # positions of a tile
TILE_ENTRIES = 1 << 19  # entries of a tile between these limits: 4 MB, which stay in the cache
MIN_TILE_FEATURES = 64  # features whose sums are computed at a time, for BLAS to be fast
# Sums that are computed at a time: all features of some states, so that rows are contiguous
TILE_SUMS = 1 << 17
POSITION_GROUPS = 16  # groups of positions whose sums threads share, for any number of threads
# Of the features: from there on all columns are multiplied in place, not a copy of some
WHOLE_ARRAY_SHARE = 0.5
MAX_SLOTS_PER_ENTRY = 8  # slots of a table for each number to be sorted; with more slots a sort is faster


@dataclass(frozen=True, eq=False)
class CoordinateParts:
    """Sorted coordinates split into parts: the first `n_nodes` are (states, features), the others edges."""

    states: NDArray[np.int64]
    features: NDArray[np.int64]
    edges: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return self.states.size

    @property
    def present(self) -> NDArray[np.int64]:
        """The states that occur, ascending."""
        return self.states[np.flatnonzero(np.diff(self.states, prepend=-1))]

    @classmethod
    def from_coords(cls, coords: NDArray[np.int64], n_states: int, n_features: int) -> CoordinateParts:
        """Split sorted coordinates into nodes and edges."""
        n_node_coords = n_states * n_features
        n_nodes = int(np.searchsorted(coords, n_node_coords))
        states, features = np.divmod(coords[:n_nodes], max(n_features, 1))
        return cls(states, features, coords[n_nodes:] - n_node_coords)


def with_edges(nodes: NDArray, edges: NDArray) -> NDArray:
    """Concatenate values of nodes and of edges; the nodes' array itself if there are no edges."""
    return np.concatenate([nodes, edges]) if edges.size else nodes


def merge_weights(
    coords: NDArray[np.int64],
    values: NDArray[np.float64],
    more: NDArray[np.int64],
    change: NDArray[np.float64],
) -> SparseWeights:
    """Return the sum of two sparse vectors with sorted coordinates, without exact zeros."""
    everything = sorted_union(coords, more)
    total = np.zeros(everything.size)
    total[places(everything, coords)] = values
    total[places(everything, more)] += change
    return SparseWeights.without_zeros(everything, total)


class FeatureTile(NamedTuple):
    """Sums over the positions for some features and a run of states.

    states : the run of states
    features, places : numbers of the features, and their places among the requested ones
    padded : float64 (features, width), C order: the sums, then zeros up to a width of whole registers
    """

    states: slice
    features: Coords
    places: slice
    padded: Vector

    @property
    def sums(self) -> Vector:
        """The sums, (features, states)."""
        return self.padded[:, : self.states.stop - self.states.start]


class FeatureMap:
    """Base of the linear maps from the weights of all (state, feature) pairs to scores, with their adjoint; results do
    not depend on the number of threads in `pool`. A subclass has `n_features`, `tile` and `take`, and overrides other
    methods where it is faster.

    offsets : int64 (I + 1,): item i consists of the positions offsets[i] ... offsets[i + 1]
    has_constant : whether the last feature is an additional constant, 1 at every position, which no tile contains
    centre : float64 (F,) or None: subtracted from each feature, so that x - centre are the features of all methods;
        scores are the same with other weights of the constant, the last feature (`centered_weights`)
    is_definite : whether the matrix of the features is positive semidefinite, if they are values of a kernel function
    mean_occurrence : the number of positions that have a feature, on average over the features; all by default
    max_tile_states : the maximum number of states of a tile in `iter_feature_tiles`
    """

    is_definite: bool = True
    max_tile_states: ClassVar[float] = np.inf

    n_features: int
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool
    centre: Vector | None = None

    n_items = cached_property(lambda self: self.offsets.size - 1)
    n_positions = cached_property(lambda self: int(self.offsets[-1]))
    n_stored = cached_property(lambda self: self.n_features - self.has_constant)  # features in tiles
    mean_occurrence = cached_property(lambda self: float(self.n_positions))
    largest_value = cached_property(lambda self: float(np.sqrt(self.feature_scales.max(initial=0.0))))

    # tile(positions, features): the values of some features at some positions in float64, (positions, features),
    # without the constant; each is a slice or an array of numbers.
    tile: Callable[..., Vector]
    # take(items): the map of some items (ascending), and the positions that it consists of.
    take: Callable[[NDArray[np.integer]], tuple[FeatureMap, NDArray[np.int64]]]

    def cut(self, offsets: NDArray[np.int64]) -> Self:
        """Return the map of the same positions with other items."""
        return replace(cast(Any, self), offsets=offsets)

    @cached_property
    def store(self) -> FeatureStore:
        """The entries that are not zero as index arrays, 12 bytes each; made on first use."""
        store = FeatureStore.from_matrix(self.tile(slice(None), slice(None)), self.offsets, allow_empty=True)
        return store.with_constant() if self.has_constant else store

    @cached_property
    def feature_scales(self) -> Vector:
        """max_t x_tf^2, float64 (F,): the square of each feature's unit."""
        largest = np.zeros(self.n_features)
        stored = largest[: self.n_stored]
        for stretch in self.stretches(0, self.n_positions):
            np.maximum(stored, np.abs(self.tile(stretch, slice(None))).max(axis=0), out=stored)
        largest[self.n_stored :] = 1.0
        with np.errstate(over="ignore"):
            return np.square(largest)

    def image(self, nodes: CoordinateParts, weights: Vector, scores: Vector) -> None:
        """Add X w to the scores (K, N), in place; weights (n,)."""
        states = nodes.present
        table = np.zeros((states.size, self.n_features))
        table[np.searchsorted(states, nodes.states), nodes.features] = weights
        stored, constant = table[:, : self.n_stored], table[:, self.n_stored :]
        used = np.flatnonzero(stored.any(axis=0))
        columns = slice(None) if used.size >= WHOLE_ARRAY_SHARE * self.n_stored else used
        stored = stored[:, columns]
        stretches = [*self.stretches(0, self.n_positions)]
        is_all = states.size == scores.shape[0]

        def run(part: int) -> None:
            stretch = stretches[part]
            image = stored @ self.tile(stretch, columns).T
            if constant.size:
                image += constant
            scores[slice(None) if is_all else states, stretch] += image

        self.pool.each(len(stretches), run)

    def stretches(self, begin: int, end: int, width: int | None = None) -> Iterator[slice]:
        """Yield the positions begin ... end - 1 tile by tile; width : the features of a tile, all by default."""
        length = TILE_ENTRIES // max(self.n_stored if width is None else width, 1)
        length = max(MIN_TILE_POSITIONS, min(length, MAX_TILE_POSITIONS))
        for first in range(begin, end, length):
            yield slice(first, min(first + length, end))

    def iter_feature_tiles(
        self,
        table: Vector,
        visit: Callable[[FeatureTile], object],
        features: Coords | None = None,
        threshold: float | Vector | None = None,
        power: int = 1,
    ) -> None:
        """Call visit(tile) for sum_t x_tf^power table[k, t], tile by tile, in any order and perhaps in several threads.

        features : sorted, all by default
        threshold : a number, or one for each of all features, (F,), optional: features may be left out if none of their
            sums can exceed it
        """
        features = np.arange(self.n_features) if features is None else features
        stored, n_states = features[features < self.n_stored], table.shape[0]
        width = max(MIN_TILE_FEATURES, TILE_SUMS // max(n_states, 1))
        length = max(MIN_TILE_POSITIONS, -(-self.n_positions // POSITION_GROUPS))
        groups = [
            (first, min(first + length, self.n_positions)) for first in range(0, self.n_positions, length)
        ]

        def show(first: int, sums: Vector) -> None:
            part = slice(first, first + sums.shape[1])
            visit(FeatureTile(slice(0, n_states), features[part], part, np.ascontiguousarray(sums.T)))

        for first in range(0, stored.size, width):
            chosen, sums = stored[first : first + width], [NO_VALUES] * len(groups)

            def run(part: int, chosen: Coords = chosen, sums: list[Vector] = sums) -> None:
                sums[part] = self._sums(table, chosen, *groups[part], power)

            self.pool.each(len(groups), run)
            show(first, sum(sums, np.zeros((n_states, chosen.size))))
        if stored.size < features.size:
            show(stored.size, table.sum(axis=1, keepdims=True))

    def _sums(self, table: Vector, features: Coords, begin: int, end: int, power: int) -> Vector:
        """Return sum_t x_tf^power table[k, t] over begin <= t < end for some features, (K, features)."""
        columns: slice | Coords = features
        if features[-1] - features[0] == features.size - 1:
            is_all = features.size == self.n_stored
            columns = slice(None) if is_all else slice(int(features[0]), int(features[-1]) + 1)
        sums = np.zeros((table.shape[0], features.size))
        for stretch in self.stretches(begin, end, features.size):
            values = self.tile(stretch, columns)
            sums += table[:, stretch] @ (values if power == 1 else np.square(values))
        return sums

    def row_sums(self, table: Vector, features: Coords | None = None, power: int = 1) -> Vector:
        """Return sum_t x_tf^power table[k, t] of all states, for some features (sorted, all by default), (K,
        features)."""
        out = np.empty((table.shape[0], self.n_features if features is None else features.size))

        def put(tile: FeatureTile) -> None:
            out[tile.states, tile.places] = tile.sums.T

        self.iter_feature_tiles(table, put, features, power=power)
        return out

    def node_sums(self, nodes: CoordinateParts, table: Vector, power: int = 1) -> Vector:
        """Return sum_t x_tf^power table[k, t] for each node, (n,), from whole rows of states."""
        if nodes.n_nodes == table.shape[0] * self.n_features:
            return self.row_sums(table, power=power).ravel()
        states, is_present = nodes.present, np.zeros(self.n_features, bool)
        is_present[nodes.features] = True
        rows = table if states.size == table.shape[0] else table[states]
        sums = self.row_sums(rows, np.flatnonzero(is_present), power)
        return sums[np.searchsorted(states, nodes.states), (np.cumsum(is_present) - 1)[nodes.features]]

    def adjoint(self, nodes: CoordinateParts, residual: Vector) -> Vector:
        """Return sum_t x_tf residual[k, t] for each node, (n,)."""
        return self.node_sums(nodes, residual)

    def squares(self, nodes: CoordinateParts, table: Vector) -> Vector:
        """Return sum_t x_tf^2 table[k, t] for each node, (n,)."""
        return self.node_sums(nodes, table, power=2)

    def residual_squares(self, nodes: CoordinateParts, residual: Vector, inverse_weights: Vector) -> Vector:
        """Return sum_t x_tf^2 |r| (1 - |r| / c_t) and sum_t x_tf^2 |r|, r = residual[k, t], for each node, (2, n)."""
        size, states = np.abs(residual[nodes.present]), nodes.present
        both = np.concatenate([size * (1.0 - size * inverse_weights), size])
        features = np.unique(nodes.features)
        sums = self.row_sums(both, features, power=2)
        row, column = np.searchsorted(states, nodes.states), np.searchsorted(features, nodes.features)
        return np.stack([sums[row, column], sums[states.size + row, column]])

    def weighted_squares(self, weights: Vector) -> Vector:
        """Return sum_t weights_t x_tf^2, (F,)."""
        return self.row_sums(weights[None, :], power=2)[0]

    def screen(self, residual: Vector, threshold: float) -> Screening:
        """Return every node with |gradient| > threshold."""
        nodes: list[tuple[Coords, Vector]] = []

        def pick(tile: FeatureTile) -> None:
            row, states = np.nonzero(np.abs(tile.sums) > threshold)
            if row.size:
                coords = (tile.states.start + states) * self.n_features + tile.features[row]
                nodes.append((coords, tile.padded[row, states]))

        self.iter_feature_tiles(residual, pick, threshold=threshold)
        return sorted_screening(nodes, residual.shape[0] * self.n_features)

    def possible_rows(self, residual: Vector, order: int, bound: float) -> Coords:
        """Return the features whose gradients, of all states, may have a norm of the given order above the bound."""
        return np.arange(self.n_features)

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, inside: float, order: int
    ) -> tuple[Coords, Vector]:
        """Return the features with || max(|g| - inside, 0) || > bound, g the gradients of all states, those `also`, and
        perhaps others; and gradients (K, features). The norm is the sum (order 1) or Euclidean (2).

        Tiles that have all states are read once; otherwise features are read a second time if the sum over all tiles
        is large.
        """
        features = union(self.possible_rows(residual, order, bound), also)
        stays, powers = np.isin(features, also, assume_unique=True), np.zeros(features.size)
        is_one_tile = residual.shape[0] <= self.max_tile_states
        visited: list[tuple[int, Vector]] = []

        def add(tile: FeatureTile) -> None:
            totals, n_states = powers[tile.places], tile.states.stop - tile.states.start
            add_powers(tile.padded, n_states, inside, order, totals)
            if is_one_tile:  # or rounding could hide a row
                stays[tile.places] |= totals ** (1.0 / order) * (1.0 + 1e-9) > bound
                visited.append((tile.places.start, tile.sums[stays[tile.places]]))

        self.iter_feature_tiles(residual, add, features)
        if is_one_tile:
            visited.sort(key=lambda part: part[0])
            chosen, gradients = features[stays], np.empty((residual.shape[0], np.count_nonzero(stays)))
            ends = np.cumsum([0] + [len(sums) for _, sums in visited])

            def turn(part: int) -> None:
                gradients[:, ends[part] : ends[part + 1]] = visited[part][1].T

            self.pool.each(len(visited), turn)
            return chosen, gradients
        chosen = features[stays | (powers ** (1.0 / order) * (1.0 + 1e-9) > bound)]
        return chosen, self.row_sums(residual, chosen)

    def count_small(self, residual: Vector, limits: Vector) -> int:
        """Count the nodes with |gradient| below their feature's limit, (F,)."""
        is_open, n_large = np.flatnonzero(limits > 0), list[int]()
        if is_open.size == 0:
            return 0

        def count(tile: FeatureTile) -> None:
            is_small = np.abs(tile.sums) < limits[tile.features, None]
            n_large.append(is_small.size - int(np.count_nonzero(is_small)))

        self.iter_feature_tiles(residual, count, is_open, threshold=limits)
        return residual.shape[0] * is_open.size - sum(n_large)

    def item_ranges(self, weights: Vector) -> Vector:
        """Return sum_i weights_i (sum_t |x_tf|)^2 over the positions t of item i, (F,)."""
        squares, lengths = np.zeros(self.n_features), np.diff(self.offsets)
        squares[self.n_stored :] = weights @ np.square(lengths.astype(np.float64))
        stored, step = (
            squares[: self.n_stored],
            max(1, MAX_TILE_POSITIONS // max(int(lengths.max(initial=1)), 1)),
        )
        for first in range(0, self.n_items, step):
            items = slice(first, min(first + step, self.n_items))
            starts = self.offsets[items]
            tile = np.abs(self.tile(slice(int(starts[0]), int(self.offsets[items.stop])), slice(None)))
            filled = lengths[items] > 0
            sums = np.add.reduceat(tile, starts[filled] - starts[0], axis=0)
            stored += weights[items][filled] @ sums**2
        return squares

    def gram(self, weights: Vector) -> Vector:
        """Return sum_t weights_t x_t x_t', weights >= 0 (N,), float64 (F, F): O(N F^2), half of it computed.

        InputError for more than `MAX_GRAM_FEATURES` features.
        """
        total, roots = GramSum(self.n_features, self.pool), np.sqrt(weights)
        for begin in range(0, self.n_positions, total.n_rows):
            stretch = slice(begin, min(begin + total.n_rows, self.n_positions))
            factors = roots[stretch, None]
            rows = np.ones((len(factors), self.n_features))

            def fill(
                number: int, stretch: slice = stretch, factors: Vector = factors, rows: NDArray = rows
            ) -> None:
                block = total.blocks[number]
                stored = slice(block.start, min(block.stop, self.n_stored))
                rows[:, stored] = self.tile(stretch, stored)
                rows[:, block] *= factors

            self.pool.each(len(total.blocks), fill, rows.size)
            total.add(rows)
        return total.matrix()

    def eigenvalue_bound(self, c: Vector) -> float:
        """Return a bound on the largest eigenvalue of X' diag(c) X, c >= 0 (N,)."""

        def times(v: Vector) -> Vector:
            """Return |X|' diag(c) |X| v."""
            out = np.zeros(self.n_features)
            for stretch in self.stretches(0, self.n_positions):
                tile = np.abs(self.tile(stretch, slice(None)))
                image = c[stretch] * (tile @ v[: self.n_stored] + v[self.n_stored :].sum())
                out[: self.n_stored] += image @ tile
                out[self.n_stored :] += image.sum()
            return out

        return collatz_wielandt(times, self.n_features)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the values of some features at some positions, float32 (features, positions)."""
        stored = features[features < self.n_stored]
        out = np.ones((features.size, positions.size), np.float32)
        out[: stored.size] = self.tile(positions, stored).T
        return out

    def count_entries(self, nodes: CoordinateParts) -> float:
        """Return the total number of entries of the columns of the nodes."""
        return float(nodes.n_nodes) * self.n_positions

    def count_active(self, nodes: CoordinateParts) -> NDArray[np.int64]:
        """Return the number of nodes whose feature each position has, (N,)."""
        return np.full(self.n_positions, nodes.n_nodes, np.int64)


def sorted_screening(nodes: list[tuple[Coords, Vector]], n_possible: int) -> Screening:
    """Return distinct coordinates below `n_possible` in order, with their gradients, and empty the list that they come
    from: by a table with a slot for each possible coordinate, or by a sort if there are more than `MAX_SLOTS_PER_ENTRY`
    slots for each."""
    if n_possible > MAX_SLOTS_PER_ENTRY * sum(coords.size for coords, _ in nodes):
        coords = np.concatenate([NO_COORDS, *(c for c, _ in nodes)])
        gradient = np.concatenate([NO_VALUES, *(g for _, g in nodes)])
        order = np.argsort(coords)
        return Screening(coords[order], gradient[order])
    table, is_present = np.empty(n_possible), np.zeros(n_possible, bool)
    while nodes:  # each tile is freed once it is copied
        coords, gradient = nodes.pop()
        table[coords], is_present[coords] = gradient, True
    return Screening(np.flatnonzero(is_present), table if is_present.all() else table[is_present])


def centered_weights(features: FeatureMap, weights: SparseWeights, sign: float = 1.0) -> SparseWeights:
    """Return weights of the original features as weights of the map's, x - m.

    Implicit centering, w . x + b = w . (x - m) + b', b' = b + w . m, does not change the scores. It makes the constant
    and the other features nearly orthogonal, so that a training takes fewer iterations. A `sign` of -1 is the inverse.
    """
    if features.centre is None or weights.coords.size == 0:
        return weights
    states, columns = np.divmod(weights.coords, features.n_features)
    sums = np.bincount(states, sign * weights.weights * features.centre[columns])
    moves = sums.astype(np.float64, copy=False)
    constants = np.arange(1, moves.size + 1) * features.n_features - 1
    return merge_weights(weights.coords, weights.weights, constants, moves)


def uncentered_weights(features: FeatureMap, weights: SparseWeights) -> SparseWeights:
    """Return weights of the map's features, x - m, as weights of the original features."""
    return centered_weights(features, weights, -1.0)


def all_nodes(n_states: int, n_features: int) -> CoordinateParts:
    """Return the coordinates of a whole table of weights, (K, F)."""
    return CoordinateParts.from_coords(np.arange(n_states * n_features), n_states, n_features)


def scores_of(features: FeatureMap, table: Vector) -> Vector:
    """Return the scores of all positions, (K, N), under weights (K, F)."""
    scores = np.zeros((table.shape[0], features.n_positions))
    features.image(all_nodes(*table.shape), table.ravel(), scores)
    return scores


def sums_of(features: FeatureMap, table: Vector) -> Vector:
    """Return sum_t table[k, t] x_tf, (K, F), of a table (K, N)."""
    shape = table.shape[0], features.n_features
    return features.adjoint(all_nodes(*shape), table).reshape(shape)
