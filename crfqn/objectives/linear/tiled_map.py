"""Feature maps by matrix products over tiles, some positions of some features: no index arrays.

Tiles, whose making the variants in `dense_map.py` know, are fixed and shared out among threads, and sums taken in
float64, tile by tile, so that results do not depend on the number of threads. Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.coordinates import Split
from crfqn.objectives.linear.gram import GramSum, collatz_wielandt
from crfqn.objectives.linear.screening import RowNorm
from crfqn.threads import Pool

POSITIONS, FEWEST_POSITIONS = 4096, 256  # of a tile, at the most and the least
TILE_NUMBERS = 1 << 19  # of a tile between these: 4 MB, which stay in the cache from their making on
FEATURES = 64  # whose sums are taken at a time, at the least
SUMS = 1 << 17  # taken at a time: all features of a few states, so that rows are read as they lie
GROUPS = 16  # of positions, whose sums threads share out
FEWEST_ROUNDED = 1024  # features: with fewer, to prove that rounded products will do costs what they save
# Of the features: from here on all columns are multiplied as they lie, instead of a copy of some.
MOSTLY = 0.5


class TiledMap(ABC):
    """Base of the maps whose tiles are arrays of numbers; offsets : int64 (I + 1,); centre : as of `FeatureMap`, tiles
    are centred.

    has_constant : whether there is one more feature, the last, that is 1 at every position and in no tile
    """

    offsets: NDArray[np.int64]
    has_constant: bool
    pool: Pool
    centre: Vector | None = None

    @property
    def n_positions(self) -> int:
        return int(self.offsets[-1])

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """The features that tiles have."""

    @property
    @abstractmethod
    def has_float32(self) -> bool:
        """Whether the tiles are made of float32, at least in part."""

    @abstractmethod
    def take(self, items: NDArray[np.integer]) -> tuple[TiledMap, NDArray[np.int64]]: ...

    def cut(self, offsets: NDArray[np.int64]) -> Self:
        return replace(cast(Any, self), offsets=offsets)

    @abstractmethod
    def _tile(self, positions: Any, columns: Any) -> Vector:
        """Return some positions of some features in float64; each is a slice or an array of numbers."""

    @property
    def _product_tile(self) -> tuple[Callable[[Any, Any], Vector], Vector | None]:
        """What makes the tiles of products, and what has still to be taken off, (F,)."""
        return self._tile, None

    @property
    def store(self) -> FeatureStore:
        """The entries as index arrays, 12 bytes each; made whenever asked for, for the solvers that walk them."""
        matrix = self._tile(slice(None), slice(None))
        store = FeatureStore.from_matrix(matrix, self.offsets, allow_empty=True, pool=self.pool)
        return store.with_constant() if self.has_constant else store

    @property
    def n_items(self) -> int:
        return self.offsets.size - 1

    @property
    def n_features(self) -> int:
        return self.n_stored + self.has_constant

    @property
    def mean_occurrence(self) -> float:
        return float(self.n_positions)

    @cached_property
    def feature_scales(self) -> Vector:
        largest = np.zeros(self.n_features)
        stored = largest[: self.n_stored]
        for stretch in self._stretches(0, self.n_positions):
            np.maximum(stored, np.abs(self._tile(stretch, slice(None))).max(axis=0), out=stored)
        largest[self.n_stored :] = 1.0
        with np.errstate(over="ignore"):
            return np.square(largest)

    @property
    def largest_value(self) -> float:
        return float(np.sqrt(self.feature_scales.max(initial=0.0)))

    @property
    def is_roundable(self) -> bool:
        return self.has_float32 and self.n_features >= FEWEST_ROUNDED

    def gram(self, weights: Vector, is_rounded: bool = False) -> Vector:
        """Return sum_t weights_t x_t x_t', weights >= 0 (N,), float64 (F, F): O(N F^2), half of it computed."""
        total, roots = GramSum(self.n_features, self.pool), np.sqrt(weights)
        dtype = np.float32 if is_rounded and self.is_roundable else np.float64
        for first in range(0, self.n_positions, total.n_rows):
            stretch = slice(first, min(first + total.n_rows, self.n_positions))
            total.add(self._scaled_rows(stretch, roots[stretch, None], total.blocks, dtype))
        return total.matrix()

    def _scaled_rows(self, stretch: slice, factors: Vector, blocks: list[slice], dtype: Any) -> NDArray:
        """Return some positions of all features, times factors (n, 1), made block of features by block."""
        tile, rest = self._product_tile
        rows = np.ones((len(factors), self.n_features), dtype)
        factors, rest = factors.astype(dtype), None if rest is None else rest.astype(dtype)

        def fill(number: int) -> None:
            block = blocks[number]
            stored = slice(block.start, min(block.stop, self.n_stored))
            rows[:, stored] = tile(stretch, stored)
            if rest is not None:
                rows[:, stored] -= rest[stored]
            rows[:, block] *= factors

        self.pool.each(len(blocks), fill, rows.size)
        return rows

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        states, table = self._table(nodes, weights)
        columns = self._columns(np.flatnonzero(table.any(axis=0)))
        stretches = [*self._stretches(0, self.n_positions)]
        own, constant = table[:, : self.n_stored][:, columns], table[:, self.n_stored :]
        is_all = states.size == scores.shape[0]
        tile, rest = self._product_tile
        if rest is not None:
            constant = (constant.sum(axis=1) - own @ rest[: self.n_stored][columns])[:, None]

        def run(part: int) -> None:
            stretch = stretches[part]
            image = own @ tile(stretch, columns).T
            if constant.size:
                image += constant
            scores[slice(None) if is_all else states, stretch] += image

        self.pool.each(len(stretches), run)

    def _table(self, nodes: Split, weights: Vector) -> tuple[NDArray[np.int64], Vector]:
        """The states that occur, and the weights of all features, (states, F)."""
        states = nodes.present
        table = np.zeros((states.size, self.n_features))
        table[np.searchsorted(states, nodes.states), nodes.features] = weights
        return states, table

    def _columns(self, features: Coords) -> Any:
        """Index for some features: all columns where most are asked for; the constant is none of them."""
        stored = features[features < self.n_stored]
        return slice(None) if stored.size >= MOSTLY * self.n_stored else stored

    def _stretches(self, begin: int, end: int, width: int | None = None) -> Iterator[slice]:
        """Yield the positions begin ... end - 1 tile by tile, of so many features (all)."""
        length = TILE_NUMBERS // max(self.n_stored if width is None else width, 1)
        length = max(FEWEST_POSITIONS, min(length, POSITIONS))
        for first in range(begin, end, length):
            yield slice(first, min(first + length, end))

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        return self._products(nodes, residual)

    def squares(self, nodes: Split, table: Vector) -> Vector:
        return self._products(nodes, table, power=2)

    def residual_squares(self, nodes: Split, residual: Vector, inverse_weights: Vector) -> Vector:
        size = np.abs(residual[nodes.present])
        n_states, both = size.shape[0], np.concatenate([size * (1.0 - size * inverse_weights), size])
        features = np.unique(nodes.features)
        sums = self._sums(both, features, power=2)
        place = np.searchsorted(nodes.present, nodes.states), np.searchsorted(features, nodes.features)
        return np.stack([sums[:n_states][place], sums[n_states:][place]])

    def _products(self, nodes: Split, table: Vector, power: int = 1) -> Vector:
        """sum_t x_tf^power table[k, t] for each node, (n,)."""
        states, features = nodes.present, np.unique(nodes.features)
        rows = table if states.size == table.shape[0] else table[states]
        sums = self._sums(rows, features, power)
        return sums[np.searchsorted(states, nodes.states), np.searchsorted(features, nodes.features)]

    def _sums(self, rows: Vector, features: Coords, power: int = 1) -> Vector:
        """sum_t x_tf^power rows[k, t] for some features (sorted), (K, features)."""
        out = np.empty((rows.shape[0], features.size))

        def put(first: int, sums: Vector) -> None:
            out[:, first : first + sums.shape[1]] = sums

        self._each_slab(rows, features, put, power)
        return out

    def _each_slab(
        self, rows: Vector, features: Coords, look: Callable[[int, Vector], None], power: int = 1
    ) -> None:
        """`look(first, sums)` at sum_t x_tf^power rows[k, t], slab of features by slab; threads share out groups of
        positions, which are the same ones for any number of threads."""
        stored = features[features < self.n_stored]
        width = max(FEATURES, SUMS // max(rows.shape[0], 1))
        length = max(FEWEST_POSITIONS, -(-self.n_positions // GROUPS))
        groups = [
            (first, min(first + length, self.n_positions)) for first in range(0, self.n_positions, length)
        ]
        for first in range(0, stored.size, width):
            slab, sums = stored[first : first + width], [NO_VALUES] * len(groups)

            def run(part: int, slab: Coords = slab, sums: list[Vector] = sums) -> None:
                sums[part] = self._slab_sums(rows, slab, *groups[part], power)

            self.pool.each(len(groups), run)
            look(first, sum(sums, np.zeros((rows.shape[0], slab.size))))
        if stored.size < features.size:
            look(stored.size, rows.sum(axis=1, keepdims=True))

    def _slab_sums(self, rows: Vector, slab: Coords, begin: int, end: int, power: int) -> Vector:
        """Return sum_t x_tf^power rows[k, t] over begin <= t < end for a slab of features, (K, slab)."""
        tile, rest = self._product_tile
        columns: Any = slab
        if slab[-1] - slab[0] == slab.size - 1:
            columns = slice(None) if slab.size == self.n_stored else slice(int(slab[0]), int(slab[-1]) + 1)
        sums = np.zeros((rows.shape[0], slab.size))
        for stretch in self._stretches(begin, end, slab.size):
            values = tile(stretch, columns)
            if power == 2:
                values = np.square(values if rest is None else values - rest[slab])
            sums += rows[:, stretch] @ values
        if rest is not None and power == 1:
            sums -= rows[:, begin:end].sum(axis=1, keepdims=True) * rest[slab]
        return sums

    @property
    def _all(self) -> Coords:
        return np.arange(self.n_features)

    def screen(self, residual: Vector, threshold: float) -> Screening:
        found: list[tuple[Coords, Vector]] = []

        def pick(first: int, gradient: Vector) -> None:
            states, which = np.nonzero(np.abs(gradient) > threshold)
            found.append((states * self.n_features + first + which, gradient[states, which]))

        self._each_slab(residual, self._all, pick)
        coords = np.concatenate([NO_COORDS, *(c for c, _ in found)])
        order = np.argsort(coords)
        return Screening(coords[order], np.concatenate([NO_VALUES, *(g for _, g in found)])[order])

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, norm: RowNorm
    ) -> tuple[Coords, Vector]:
        is_wanted = np.zeros(self.n_features, bool)
        is_wanted[also] = True
        found: list[tuple[int, Coords, Vector]] = []

        def pick(first: int, gradient: Vector) -> None:
            totals = (np.maximum(np.abs(gradient) - norm.inside, 0.0) ** norm.order).sum(axis=0)
            stays = is_wanted[first : first + totals.size] | norm.exceeds(totals, bound)
            found.append((first, first + np.flatnonzero(stays), gradient[:, stays]))

        self._each_slab(residual, self._all, pick)
        found.sort(key=lambda part: part[0])
        features = np.concatenate([NO_COORDS, *(part[1] for part in found)])
        none = np.empty((residual.shape[0], 0))
        return features, np.concatenate([none, *(part[2] for part in found)], axis=1)

    def count_small(self, residual: Vector, limits: Vector) -> int:
        counts: list[int] = []

        def count(first: int, gradient: Vector) -> None:
            counts.append(int(np.count_nonzero(np.abs(gradient) < limits[first : first + gradient.shape[1]])))

        self._each_slab(residual, self._all, count)
        return sum(counts)

    def item_ranges(self, weights: Vector) -> Vector:
        squares = np.zeros(self.n_features)
        lengths = np.diff(self.offsets)
        squares[self.n_stored :] = weights @ np.square(lengths.astype(np.float64))
        stored, step = squares[: self.n_stored], max(1, POSITIONS // max(int(lengths.max(initial=1)), 1))
        for first in range(0, self.n_items, step):
            items = slice(first, min(first + step, self.n_items))
            starts = self.offsets[items]
            tile = np.abs(self._tile(slice(int(starts[0]), int(self.offsets[items.stop])), slice(None)))
            filled = lengths[items] > 0
            sums = np.add.reduceat(tile, starts[filled] - starts[0], axis=0)
            stored += weights[items][filled] @ sums**2
        return squares

    def weighted_squares(self, weights: Vector) -> Vector:
        return self._sums(weights[None, :], self._all, power=2)[0]

    def eigenvalue_bound(self, c: Vector) -> float:
        def times(v: Vector) -> Vector:
            """|X|' diag(c) |X| v."""
            out = np.zeros(self.n_features)
            for stretch in self._stretches(0, self.n_positions):
                tile = np.abs(self._tile(stretch, slice(None)))
                image = c[stretch] * (tile @ v[: self.n_stored] + v[self.n_stored :].sum())
                out[: self.n_stored] += image @ tile
                out[self.n_stored :] += image.sum()
            return out

        return collatz_wielandt(times, self.n_features)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        stored = features[features < self.n_stored]
        out = np.ones((features.size, positions.size), np.float32)
        out[: stored.size] = self._tile(positions, stored).T
        return out

    def count_entries(self, nodes: Split) -> float:
        return float(nodes.n_nodes) * self.n_positions

    def count_active(self, nodes: Split) -> NDArray[np.int64]:
        return np.full(self.n_positions, nodes.n_nodes, np.int64)
