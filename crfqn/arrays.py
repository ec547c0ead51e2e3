"""Types of arrays for all layers: dense vectors, coordinates, sparse weights, screenings.

A coordinate is the integer index of a weight, of (state k, feature f) or of an edge
(`objectives/linear/feature_map.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Coords: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.int32]

NO_COORDS: Coords = np.empty(0, np.int64)
NO_VALUES: Vector = np.empty(0)


class SparseWeights(NamedTuple):
    """Sparse weights: sorted coordinates, int64 (n,), and the values there, float64 (n,)."""

    coords: Coords
    weights: Vector

    @property
    def n_nonzero(self) -> int:
        """The number of coordinates, n."""
        return self.coords.size

    @classmethod
    def without_zeros(cls, coords: Coords, weights: Vector) -> SparseWeights:
        """Return the weights that are not zero, with their coordinates."""
        if np.count_nonzero(weights) == weights.size:
            return cls(coords, weights)
        stays = weights != 0
        return cls(coords[stays], weights[stays])


def distinct_columns(columns: NDArray[np.integer]) -> Coords:
    """Return the distinct columns, sorted. `numpy.unique` also imports numpy's masked arrays, in 25 ms, a third of the
    time to import numpy."""
    ordered = np.sort(columns).astype(np.int64, copy=False)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]]


NO_WEIGHTS = SparseWeights(NO_COORDS, NO_VALUES)


@dataclass(frozen=True, eq=False)
class Screening:
    """Sorted coordinates with a large gradient, from a pass over all coordinates, and the gradient of the loss
    there."""

    coords: Coords
    gradient: Vector

    def above(self, threshold: float) -> Screening:
        """Return the coordinates with |gradient| > threshold."""
        return self.restricted_to(np.abs(self.gradient) > threshold)

    def restricted_to(self, keep: NDArray[np.bool_]) -> Screening:
        """Return the coordinates where `keep`, a mask, is true."""
        return Screening(self.coords[keep], self.gradient[keep])
