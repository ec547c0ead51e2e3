"""Several maps over the same positions side by side, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.items import positions_of
from crfqn.errors import InputError
from crfqn.objectives.linear.tiled_map import TiledMap


@dataclass(eq=False)
class JoinedMap(TiledMap):
    """Scores from the features of all parts, in their order.

    Parameters
    ----------
    parts : sequence of TiledMap over the same items, none with a constant; their threads are the first one's
    has_constant : bool
        Whether there is one more feature, the last, that is 1 at every position.

    Raises
    ------
    InputError
        For parts that do not fit together.
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

    def take(self, items: NDArray[np.integer]) -> tuple[JoinedMap, NDArray[np.int64]]:
        parts = [part.take(items)[0] for part in self.parts]
        return JoinedMap(parts, self.has_constant), positions_of(self.offsets, items)[0]

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
