"""The generated feature map: features made from the rows of a matrix when they are asked for, and never stored.

Random features of a seed need no memory but that of a tile; every pass over the data makes them anew. Where several
passes are due and there is room for them, `kept` makes an array of them once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.generators.sources import Batch, result_dtype
from crfqn.data.items import positions_of
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.tiled_map import POSITIONS, TiledMap
from crfqn.threads import Pool


@dataclass(eq=False)
class GeneratedMap(TiledMap):
    """Scores from features that are functions of the rows.

    Parameters
    ----------
    rows : ndarray or CSR array of N rows
    batch : Batch of F features, or F - 1 with a constant
    offsets : ndarray of int64, shape (I + 1,)
    has_constant : bool
        Whether there is one more feature, the last, that is 1 at every position.
    pool : Pool, optional: all cores by default
    """

    rows: Any
    batch: Batch
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool = field(default_factory=Pool)

    @property
    def n_stored(self) -> int:
        return self.batch.n_features

    def take(self, items: NDArray[np.integer]) -> tuple[GeneratedMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        return GeneratedMap(
            self.rows[positions], self.batch, offsets, self.has_constant, self.pool
        ), positions

    def _tile(self, positions: Any, columns: Any) -> Vector:
        return np.asarray(self.batch.transform(self.rows[positions], columns), np.float64)

    def kept(self) -> DenseMap:
        """Return the map of the features as an array, in float32 where the rows are float32 or small integers."""
        out = np.empty((self.n_positions, self.n_stored), result_dtype(self.rows))

        def make(part: int) -> None:
            stretch = slice(part * POSITIONS, (part + 1) * POSITIONS)
            out[stretch] = self.batch.transform(self.rows[stretch])

        self.pool.each(-(-self.n_positions // POSITIONS), make)
        return DenseMap(out, self.offsets, self.has_constant, self.pool)
