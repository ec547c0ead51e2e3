"""Feature map over features that are made when they are asked for, such as random ones of a seed.

Shapes as in `objectives/linear/feature_map.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.items import positions_of
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.tiled_map import POSITIONS, TiledMap
from crfqn.papers.agarwal2014.sources import Batch, result_dtype
from crfqn.threads import Pool


@dataclass(eq=False)
class GeneratedMap(TiledMap):
    """Scores from features that are functions (`batch`) of N rows, as random features of a seed: made anew in every
    pass.

    has_constant : whether there is one more feature than those of the batch, the last, that is 1 at every position
    """

    rows: Any
    batch: Batch
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool = field(default_factory=Pool)

    @property
    def n_stored(self) -> int:
        return self.batch.n_features

    @property
    def has_float32(self) -> bool:
        return result_dtype(self.rows) == np.float32

    def take(self, items: NDArray[np.integer]) -> tuple[GeneratedMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        return GeneratedMap(
            self.rows[positions], self.batch, offsets, self.has_constant, self.pool
        ), positions

    def _tile(self, positions: Any, columns: Any) -> Vector:
        return np.asarray(self.batch.transform(self.rows[positions], columns), np.float64)

    def kept(self) -> DenseMap:
        """Return the map of their array, made once: in float32 where the rows are float32 or small integers."""
        out = np.empty((self.n_positions, self.n_stored), result_dtype(self.rows))

        def make(part: int) -> None:
            stretch = slice(part * POSITIONS, (part + 1) * POSITIONS)
            out[stretch] = self.batch.transform(self.rows[stretch])

        self.pool.each(-(-self.n_positions // POSITIONS), make)
        return DenseMap(out, self.offsets, self.has_constant, self.pool)
