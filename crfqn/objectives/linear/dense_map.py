"""The dense feature map: the user's own array and matrix products, no index arrays.

float32 stays as it is in memory. Shapes as in `feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore, locate
from crfqn.errors import InputError
from crfqn.objectives.linear.tiled_map import TiledMap, positions_of
from crfqn.threads import Pool

NEAR = 10.0  # a centre as far as this many times the values around it costs products one digit of their sixteen


@dataclass(eq=False)
class DenseMap(TiledMap):
    """Scores from a dense array, by matrix products; build it with `of`.

    Parameters
    ----------
    matrix : ndarray of float32 or float64, shape (N, F) or, with a constant, (N, F - 1)
    offsets : ndarray of int64, shape (I + 1,)
    has_constant : bool
        Whether there is one more feature, the last, that is 1 at every position; it takes no memory.
    pool : Pool, optional: all cores by default
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
        for first, last in self._stretches():
            wrong = np.argwhere(~np.isfinite(self.matrix[first:last]))
            if wrong.size:
                position, feature = first + wrong[0, 0], wrong[0, 1]
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

    @cached_property
    def store(self) -> FeatureStore:  # type: ignore[override]
        """The entries as index arrays, 12 bytes each; made on first use, for the solvers that walk them."""
        matrix = self.matrix if self.centre is None else self._tile(slice(None), slice(None))
        store = FeatureStore.from_matrix(matrix, self.offsets, allow_empty=True, pool=self.pool)
        return store.with_constant() if self.has_constant else store

    def means(self, weights: Vector | None = None) -> Vector:
        """Return the mean of each feature over the positions, weights >= 0 (N,), and 0 of the constant, (F,).

        Distances from the first position are averaged, so that of a feature that never varies none is left.
        """
        found, first_row = np.zeros(self.n_features), self._uncentred(slice(0, 1), slice(None))
        weights = np.ones(self.n_positions) if weights is None else weights
        sums = found[: self.n_stored]
        with np.errstate(over="ignore", invalid="ignore"):
            for first, last in self._stretches():
                sums += weights[first:last] @ (self._uncentred(slice(first, last), slice(None)) - first_row)
            sums /= weights.sum()
            sums += first_row[0]
        found[~np.isfinite(found)] = 0.0
        return found

    def centred_at(self, centre: Vector | None) -> DenseMap:
        """Return the map of the features less `centre`, (F,), over the same array."""
        return replace(self, centre=centre)

    def take(self, items: NDArray[np.integer]) -> tuple[DenseMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        return replace(self, matrix=self.matrix[positions], offsets=offsets), positions

    @cached_property
    def _product_tile(self) -> tuple[Callable[[Any, Any], Vector], Vector | None]:  # type: ignore[override]
        """Tiles as they lie in memory, without a copy, where what is to be taken off cancels hardly a digit."""
        if self.centre is None or (np.abs(self.centre) > NEAR * np.sqrt(self.feature_scales)).any():
            return self._tile, None
        return self._uncentred, self.centre

    def _tile(self, positions: Any, columns: Any) -> Vector:
        """Some positions of some columns in float64."""
        tile = self._uncentred(positions, columns)
        return tile if self.centre is None else tile - self.centre[: self.n_stored][columns]

    def _uncentred(self, positions: Any, columns: Any) -> Vector:
        """Some positions of some columns in float64, as they are in the array."""
        if isinstance(positions, slice) or isinstance(columns, slice):
            return np.asarray(self.matrix[positions, columns], np.float64)
        return np.asarray(self.matrix[np.ix_(positions, columns)], np.float64)
