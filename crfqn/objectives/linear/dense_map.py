"""Feature maps over tiles: of an array, and of several maps side by side.

Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.data.items import locate, positions_of
from crfqn.errors import InputError
from crfqn.objectives.linear.tiled_map import TiledMap
from crfqn.threads import Pool

# Times the distances of values from a centre: as far as this it costs products one digit of sixteen.
NEAR = 10.0
SAMPLE = 256  # positions that tell how far values lie around their centre
SAME = 1e-12  # relative distance of a mean from a value that is rounding


@dataclass(eq=False)
class DenseMap(TiledMap):
    """Scores from a dense array (N, F), by matrix products without index arrays; float32 stays as it is. Build it with
    `of`.

    has_constant : whether there is one more feature than columns, the last, 1 at every position; it takes no memory
    centre : as of `FeatureMap`; it is taken off in float64, the array stays as it is
    """

    matrix: NDArray[Any]
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool = field(default_factory=Pool)
    centre: Vector | None = None

    @classmethod
    def of(
        cls,
        matrix: NDArray[Any],
        offsets: NDArray[np.int64],
        has_constant: bool = False,
        pool: Pool | None = None,
    ) -> DenseMap:
        """Build the map of an array, which is kept as it is where it is float32 or float64 and contiguous.

        Small integers and booleans become float32, which holds them exactly; other numbers float64.

        Raises
        ------
        InputError
            For NaN and infinity, named by item, position and feature.
        """
        x = np.asarray(matrix)
        kept = x if x.dtype in (np.float32, np.float64) else x.astype(np.result_type(x.dtype, np.float32))
        if not (kept.flags.c_contiguous or kept.flags.f_contiguous):
            kept = np.ascontiguousarray(kept)
        found = cls(kept, offsets, has_constant, pool or Pool())
        found._check_finite()
        return found

    def _check_finite(self) -> None:
        if np.isfinite(self.matrix.sum(dtype=np.float64)):
            return
        for stretch in self._stretches(0, self.n_positions):
            wrong = np.argwhere(~np.isfinite(self.matrix[stretch]))
            if wrong.size:
                position, feature = stretch.start + wrong[0, 0], wrong[0, 1]
                raise InputError(
                    f"feature values must be finite, but {locate(self.offsets, int(position))}, feature {feature} "
                    f"is {self.matrix[position, feature]}"
                )

    @property
    def n_positions(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_stored(self) -> int:
        """The columns of the array."""
        return self.matrix.shape[1]

    @property
    def has_float32(self) -> bool:
        return self.matrix.dtype == np.float32

    @cached_property
    def store(self) -> FeatureStore:  # type: ignore[override]
        """The entries as index arrays, 12 bytes each; made on first use, for the solvers that walk them."""
        matrix = self.matrix if self.centre is None else self._tile(slice(None), slice(None))
        store = FeatureStore.from_matrix(matrix, self.offsets, allow_empty=True, pool=self.pool)
        return store.with_constant() if self.has_constant else store

    @cached_property
    def feature_scales(self) -> Vector:  # type: ignore[override]
        """The largest squares, of the extremes of each column as they lie in the array."""
        scales = np.ones(self.n_features)
        centre = 0.0 if self.centre is None else self.centre[: self.n_stored]
        if not self.n_positions:
            return scales
        extremes = np.stack([self.matrix.min(axis=0), self.matrix.max(axis=0)]).astype(np.float64)
        with np.errstate(over="ignore"):
            scales[: self.n_stored] = np.square(extremes - centre).max(axis=0)
        return scales

    def means(self, weights: Vector | None = None) -> Vector:
        """Return the mean of each feature over the positions, weights >= 0 (N,), and 0 of the constant, (F,).

        Of a feature that never varies it is the value itself, so that none is left.
        """
        found, weights = np.zeros(self.n_features), np.ones(self.n_positions) if weights is None else weights
        means, first_row = found[: self.n_stored], self._uncentred(slice(0, 1), slice(None))[0]
        with np.errstate(over="ignore", invalid="ignore"):
            for stretch in self._stretches(0, self.n_positions):
                means += weights[stretch] @ self._uncentred(stretch, slice(None))
            means /= weights.sum()
            is_first = np.abs(means - first_row) <= SAME * np.abs(first_row)
        means[is_first] = first_row[is_first]
        means[~np.isfinite(means)] = 0.0
        return found

    def centred_at(self, centre: Vector | None) -> DenseMap:
        """Return the map of the features less `centre`, (F,), over the same array."""
        return replace(self, centre=centre)

    def take(self, items: NDArray[np.integer]) -> tuple[DenseMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        return replace(self, matrix=self.matrix[positions], offsets=offsets), positions

    @property
    def _product_tile(self) -> tuple[Callable[[Any, Any], Vector], Vector | None]:
        """Tiles as they lie in memory, without a copy, where what is to be taken off cancels hardly a digit."""
        return (self._tile, None) if self._is_far else (self._uncentred, self.centre)

    @cached_property
    def _is_far(self) -> bool:
        """Whether a feature's centre is far from it, or there is none."""
        if self.centre is None:
            return True
        some = self._tile(slice(None, None, max(1, self.n_positions // SAMPLE)), slice(None))
        return bool(
            (np.abs(self.centre[: self.n_stored]) > NEAR * np.abs(some).max(axis=0, initial=0.0)).any()
        )

    def _tile(self, positions: Any, columns: Any) -> Vector:
        """Some positions of some columns in float64, less their centre."""
        if self.centre is None:
            return self._uncentred(positions, columns)
        return self._part(positions, columns) - self.centre[: self.n_stored][columns]

    def _uncentred(self, positions: Any, columns: Any) -> Vector:
        """Some positions of some columns in float64, as they are in the array."""
        return np.asarray(self._part(positions, columns), np.float64)

    def _part(self, positions: Any, columns: Any) -> NDArray[Any]:
        if isinstance(positions, slice) or isinstance(columns, slice):
            return self.matrix[positions, columns]
        return self.matrix[np.ix_(positions, columns)]


@dataclass(eq=False)
class JoinedMap(TiledMap):
    """Scores from the features of all parts, in their order, and perhaps a constant; InputError for parts that do not
    fit.

    parts : over the same items, none with a constant; their threads are the first one's
    """

    parts: Sequence[TiledMap]
    has_constant: bool = False

    def __post_init__(self) -> None:
        first = self.parts[0]
        for part in self.parts:
            if part.has_constant or not np.array_equal(part.offsets, first.offsets):
                raise InputError("expected maps over the same items, and none with a constant of its own")
        self.pool = first.pool

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Where items begin, as in every part."""
        return self.parts[0].offsets

    @property
    def n_stored(self) -> int:
        return sum(part.n_stored for part in self.parts)

    @property
    def has_float32(self) -> bool:
        return any(part.has_float32 for part in self.parts)

    def take(self, items: NDArray[np.integer]) -> tuple[JoinedMap, NDArray[np.int64]]:
        parts = [part.take(items)[0] for part in self.parts]
        return JoinedMap(parts, self.has_constant), positions_of(self.offsets, items)[0]

    def cut(self, offsets: NDArray[np.int64]) -> JoinedMap:
        return JoinedMap([part.cut(offsets) for part in self.parts], self.has_constant)

    def _tile(self, positions: Any, columns: Any) -> Vector:
        if isinstance(columns, slice) and columns == slice(None):
            return np.hstack([part._tile(positions, columns) for part in self.parts])
        wanted = np.arange(self.n_stored)[columns]
        ends = np.cumsum([part.n_stored for part in self.parts])
        owner = np.searchsorted(ends, wanted, side="right")
        tiles = []
        for number, (part, end) in enumerate(zip(self.parts, ends, strict=True)):
            own = wanted[owner == number] - (end - part.n_stored)
            tiles.append(part._tile(positions, own))
        return np.hstack(tiles)
