"""Points of row descent, of which the rows are known, and the rest when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.row_lists import list_weights
from crfqn.objectives.flat import FlatObjective, FlatPoint
from crfqn.structures.structure import NO_EDGES

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(eq=False)
class LateWeights:
    """Rows that are listed as sparse weights if anybody asks: most points of a run are never looked at."""

    features: Indices
    table: Vector
    n_features: int

    @property
    def n_nonzero(self) -> int:
        return int(np.count_nonzero(self.table))

    @cached_property
    def entries(self) -> tuple[Indices, Vector]:
        """Coordinates and weights."""
        return list_weights(self.features, self.n_features, self.table)

    @property
    def coords(self) -> Indices:
        return self.entries[0]

    @property
    def weights(self) -> Vector:
        return self.entries[1]


class LatePoint(FlatPoint):
    """A point of which nothing but its rows is known before somebody asks: its evaluation costs a pass of its own."""

    def __init__(self, objective: FlatObjective, light: LateWeights) -> None:
        super().__init__(objective, np.empty(0, np.int64), np.empty(0), np.empty(0), NO_EDGES)
        del self.coords, self.weights, self.scores
        self._light = light

    @property
    def light(self) -> LateWeights:  # type: ignore[override]
        return self._light

    @cached_property
    def coords(self) -> Indices:  # type: ignore[override]
        return self._light.coords

    @cached_property
    def weights(self) -> Vector:  # type: ignore[override]
        return self._light.weights

    @cached_property
    def scores(self) -> Vector:  # type: ignore[override]
        return self.objective.at(self.coords, self.weights).scores
