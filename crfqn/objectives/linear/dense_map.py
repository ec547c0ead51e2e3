"""Feature maps of a dense array, and of several maps side by side.

Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.data.items import locate, positions_of
from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap, sorted_screening, sums_of
from crfqn.threads import Pool

CONSTANT_TOLERANCE = 1e-12  # guard, relative: a mean as near to the first value is that of a constant column


@dataclass(eq=False)
class DenseMap(FeatureMap):
    """Scores from a dense array (N, F), by matrix products without index arrays; made by `from_matrix`.

    has_constant : whether there is one more feature than columns, the last, 1 at every position; it takes no memory
    centre : as of `FeatureMap`; tiles subtract it in float64, the array is unchanged
    """

    matrix: NDArray[Any]
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool = field(default_factory=Pool)
    centre: Vector | None = None

    @classmethod
    def from_matrix(
        cls,
        matrix: NDArray[Any],
        offsets: NDArray[np.int64],
        has_constant: bool = False,
        pool: Pool | None = None,
    ) -> DenseMap:
        """Build the map of an array, without a copy if it is float32 or float64 and contiguous.

        Small integers and booleans become float32, which holds them exactly; other numbers float64.

        Raises
        ------
        InputError
            For NaN and infinity, named by item, position and feature.
        """
        x = np.asarray(matrix)
        x = x if x.dtype in (np.float32, np.float64) else x.astype(np.result_type(x.dtype, np.float32))
        if not (x.flags.c_contiguous or x.flags.f_contiguous):
            x = np.ascontiguousarray(x)
        dense = cls(x, offsets, has_constant, pool or Pool())
        if np.isfinite(x.sum(dtype=np.float64)):
            return dense
        for stretch in dense.stretches(0, dense.n_positions):
            wrong = np.argwhere(~np.isfinite(x[stretch]))
            if wrong.size:
                position, feature = stretch.start + wrong[0, 0], wrong[0, 1]
                raise InputError(
                    f"feature values must be finite, but {locate(offsets, int(position))}, feature {feature} "
                    f"is {x[position, feature]}"
                )
        return dense

    def __post_init__(self) -> None:
        self.n_positions, self.n_features = self.matrix.shape[0], self.matrix.shape[1] + self.has_constant

    @cached_property
    def feature_scales(self) -> Vector:
        """The largest squares, from the extremes of each column."""
        scales = np.ones(self.n_features)
        centre = 0.0 if self.centre is None else self.centre[: self.n_stored]
        if self.n_positions:
            extremes = np.stack([self.matrix.min(axis=0), self.matrix.max(axis=0)]).astype(np.float64)
            with np.errstate(over="ignore"):
                scales[: self.n_stored] = np.square(extremes - centre).max(axis=0)
        return scales

    def means(self, weights: Vector | None = None) -> Vector:
        """Return the mean of each feature over the positions, weights >= 0 (N,), and 0 of the constant, (F,).

        The mean of a constant feature is exactly its value, so that the centered feature is 0.
        """
        centre, weights = np.zeros(self.n_features), np.ones(self.n_positions) if weights is None else weights
        means, first_row = centre[: self.n_stored], self._uncentered(slice(0, 1), slice(None))[0]
        with np.errstate(over="ignore", invalid="ignore"):
            for stretch in self.stretches(0, self.n_positions):
                means += weights[stretch] @ self._uncentered(stretch, slice(None))
            means /= weights.sum()
            is_first = np.abs(means - first_row) <= CONSTANT_TOLERANCE * np.abs(first_row)
        means[is_first] = first_row[is_first]
        means[~np.isfinite(means)] = 0.0
        return centre

    def centered_at(self, centre: Vector | None) -> DenseMap:
        """Return the map of the features minus `centre`, (F,), over the same array."""
        return replace(self, centre=centre)

    def take(self, items: NDArray[np.integer]) -> tuple[DenseMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        return replace(self, matrix=self.matrix[positions], offsets=offsets), positions

    def tile(self, positions: Any, features: Any) -> Vector:
        tile = self._uncentered(positions, features)
        return tile if self.centre is None else tile - self.centre[: self.n_stored][features]

    def _uncentered(self, positions: Any, features: Any) -> Vector:
        """Return the original values of some columns at some positions, in float64."""
        is_slice = isinstance(positions, slice) or isinstance(features, slice)
        return np.asarray(
            self.matrix[positions, features] if is_slice else self.matrix[np.ix_(positions, features)],
            np.float64,
        )


@dataclass(eq=False)
class HStackMap(FeatureMap):
    """Scores from the features of several maps side by side, such as dense and sparse columns. InputError for parts
    with different items.

    parts : over the same items, none but the last with a constant; all have the threads of the first one
    """

    parts: Sequence[Any]

    def __post_init__(self) -> None:
        first = self.parts[0]
        if any(part.has_constant for part in self.parts[:-1]) or not all(
            np.array_equal(part.offsets, first.offsets) for part in self.parts
        ):
            raise InputError("expected maps over the same items, and none with a constant but the last")
        self.pool = first.pool
        self.offsets, self.has_constant = first.offsets, self.parts[-1].has_constant
        self.ends = np.cumsum([0] + [part.n_features for part in self.parts])
        self.n_features = int(self.ends[-1])
        n_entries = sum(part.mean_occurrence * part.n_features for part in self.parts)
        self.mean_occurrence = n_entries / max(self.n_features, 1)
        self.centre = self._joined_centre([part.centre for part in self.parts])

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        return self.parts[0].pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        for part in self.parts:
            part.pool = pool

    def _joined_centre(self, centres: list[Vector | None]) -> Vector | None:
        if all(centre is None for centre in centres):
            return None
        widths = np.diff(self.ends)
        return np.concatenate([np.zeros(n) if c is None else c for n, c in zip(widths, centres, strict=True)])

    @cached_property
    def store(self) -> FeatureStore:
        stores = [part.store for part in self.parts]
        values = [np.ones(store.nnz) if store.is_binary else store.values for store in stores]
        starts = np.cumsum([0] + [store.nnz for store in stores])
        indptr = [store.indptr[:-1] + start for store, start in zip(stores, starts, strict=False)]
        indices = np.concatenate([store.indices for store in stores])
        return FeatureStore(
            np.concatenate([*indptr, starts[-1:]]), indices, np.concatenate(values), self.offsets
        )

    @cached_property
    def feature_scales(self) -> Vector:
        return np.concatenate([part.feature_scales for part in self.parts])

    def take(self, items: NDArray[np.integer]) -> tuple[HStackMap, NDArray[np.int64]]:
        taken = [part.take(items) for part in self.parts]
        return HStackMap([part for part, _ in taken]), taken[-1][1]

    def cut(self, offsets: NDArray[np.int64]) -> HStackMap:
        return HStackMap([part.cut(offsets) for part in self.parts])

    def means(self, weights: Vector | None = None) -> Vector | None:
        """Return the means of the features for centering, those of the parts, (F,)."""
        return self._joined_centre([part.means(weights) for part in self.parts])

    def centered_at(self, centre: Vector | None) -> HStackMap:
        """Return the map of the features minus `centre`, (F,)."""
        if centre is None:
            return self
        centres = np.split(centre, self.ends[1:-1])
        return HStackMap(
            [part.centered_at(c if c.any() else None) for part, c in zip(self.parts, centres, strict=True)]
        )

    def _by_part(self, nodes: CoordinateParts) -> list[tuple[FeatureMap, CoordinateParts, NDArray[np.bool_]]]:
        """Return each part with its nodes, and a mask of these among all, without parts that have none."""
        masks = [(first <= nodes.features) & (nodes.features < end) for first, end in pairwise(self.ends)]
        return [
            (part, CoordinateParts(nodes.states[mask], nodes.features[mask] - first, NO_COORDS), mask)
            for part, mask, first in zip(self.parts, masks, self.ends[:-1], strict=True)
            if mask.any()
        ]

    def _cut_features(self, features: Coords) -> list[tuple[Any, Coords]]:
        """Return each part with its share of some features (sorted), by its own numbers."""
        runs = np.split(features, np.searchsorted(features, self.ends[1:-1]))
        return [(part, run - first) for part, run, first in zip(self.parts, runs, self.ends, strict=False)]

    def image(self, nodes: CoordinateParts, weights: Vector, scores: Vector) -> None:
        for part, part_nodes, mask in self._by_part(nodes):
            part.image(part_nodes, weights[mask], scores)

    def adjoint(self, nodes: CoordinateParts, residual: Vector) -> Vector:
        out = np.empty(nodes.n_nodes)
        for part, part_nodes, mask in self._by_part(nodes):
            out[mask] = part.adjoint(part_nodes, residual)
        return out

    def squares(self, nodes: CoordinateParts, table: Vector) -> Vector:
        out = np.empty(nodes.n_nodes)
        for part, part_nodes, mask in self._by_part(nodes):
            out[mask] = part.squares(part_nodes, table)
        return out

    def residual_squares(self, nodes: CoordinateParts, residual: Vector, inverse_weights: Vector) -> Vector:
        out = np.empty((2, nodes.n_nodes))
        for part, part_nodes, mask in self._by_part(nodes):
            out[:, mask] = part.residual_squares(part_nodes, residual, inverse_weights)
        return out

    def screen(self, residual: Vector, threshold: float) -> Screening:
        nodes: list[tuple[Coords, Vector]] = []
        for part, first in zip(self.parts, self.ends, strict=False):
            screening = part.screen(residual, threshold)
            states, features = np.divmod(screening.coords, max(part.n_features, 1))
            nodes.append((states * self.n_features + first + features, screening.gradient))
        return sorted_screening(nodes, residual.shape[0] * self.n_features)

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, inside: float, order: int
    ) -> tuple[Coords, Vector]:
        rows = [
            part.screen_rows(residual, features, bound, inside, order)
            for part, features in self._cut_features(also)
        ]
        features = [chosen + first for (chosen, _), first in zip(rows, self.ends, strict=False)]
        return np.concatenate(features), np.concatenate([gradients for _, gradients in rows], axis=1)

    def count_small(self, residual: Vector, limits: Vector) -> int:
        of_parts = zip(self.parts, np.split(limits, self.ends[1:-1]), strict=True)
        return sum(part.count_small(residual, part_limits) for part, part_limits in of_parts)

    def item_ranges(self, weights: Vector) -> Vector:
        return np.concatenate([part.item_ranges(weights) for part in self.parts])

    def weighted_squares(self, weights: Vector) -> Vector:
        return np.concatenate([part.weighted_squares(weights) for part in self.parts])

    def gram(self, weights: Vector) -> Vector:
        n = len(self.parts)
        blocks = [[np.empty(0)] * n for _ in range(n)]
        for i, part in enumerate(self.parts):
            blocks[i][i] = part.gram(weights)
        for i, j in combinations(range(n), 2):
            narrow, wide = sorted((i, j), key=lambda number: self.parts[number].n_features)
            columns = np.ones((self.parts[narrow].n_features, self.n_positions))
            columns[: self.parts[narrow].n_stored] = self.parts[narrow].tile(slice(None), slice(None)).T
            block = sums_of(self.parts[wide], columns * weights)
            blocks[narrow][wide], blocks[wide][narrow] = block, block.T
        return np.block(blocks)

    def eigenvalue_bound(self, c: Vector) -> float:
        return sum(part.eigenvalue_bound(c) for part in self.parts)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        return np.concatenate(
            [part.values_at(chosen, positions) for part, chosen in self._cut_features(features)]
        )

    def count_entries(self, nodes: CoordinateParts) -> float:
        return sum(part.count_entries(part_nodes) for part, part_nodes, _ in self._by_part(nodes))

    def count_active(self, nodes: CoordinateParts) -> NDArray[np.int64]:
        counts = np.zeros(self.n_positions, np.int64)
        for part, part_nodes, _ in self._by_part(nodes):
            counts += part.count_active(part_nodes)
        return counts
