"""The inverse L-BFGS metric over sparse coordinates: the two-loop recursion (Nocedal and Wright, Algorithm 7.4).

    H = gamma I, improved by the newest m pairs (s, y) so that H y = s,   gamma = s'y / y'y of the newest

The pairs live on a sorted set of coordinates that may change: what is new to a pair is 0 in it, what leaves is lost.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.protocols import Coords, Vector

SMALLEST_COSINE = 1e-8  # a pair with s'y below this share of |s| |y| would make the metric indefinite


def has_curvature(s: Vector, y: NDArray[np.floating]) -> bool:
    """Return whether a pair keeps the metric positive definite."""
    return bool(s @ y > SMALLEST_COSINE * np.linalg.norm(s) * np.linalg.norm(y))


class SecantPairs:
    """The newest `memory` pairs over sorted coordinates (n,).

    Attributes
    ----------
    coords : sorted int64 (n,)
    pairs : deque of (s, y), oldest first, float64 (n,) each: changes of the weights and of the gradient
    """

    def __init__(self, memory: int, coords: Coords) -> None:
        self.coords = coords
        self.pairs: deque[tuple[Vector, Vector]] = deque(maxlen=memory)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def has_moved(self) -> NDArray[np.bool_]:
        """Tell which weights a pair has moved, (n,)."""
        moved = np.zeros(self.coords.size, bool)
        for s, _ in self.pairs:
            moved |= s != 0
        return moved

    def update(self, s: Vector, y: Vector) -> bool:
        """Add a pair, the oldest leaving; a pair without positive curvature is refused (False)."""
        if not has_curvature(s, y):
            return False
        self.pairs.append((s, y))
        return True

    def move_to(self, coords: Coords) -> None:
        """Go on with another set of coordinates."""
        if np.array_equal(coords, self.coords):
            return
        place = np.minimum(np.searchsorted(coords, self.coords), max(coords.size - 1, 0))
        stays = np.flatnonzero(coords[place] == self.coords) if coords.size else np.empty(0, np.int64)
        to = place[stays]
        for _ in range(len(self.pairs)):
            s, y = self.pairs.popleft()
            moved = np.zeros((2, coords.size))
            moved[0, to], moved[1, to] = s[stays], y[stays]
            self.update(moved[0], moved[1])
        self.coords = coords

    def times(self, v: Vector) -> Vector:
        """Return H v, (n,), in O(m n)."""
        out = v.copy()
        shares = []
        for s, y in reversed(self.pairs):
            shares.append((s @ out) / (s @ y))
            out -= shares[-1] * y
        if self.pairs:
            s, y = self.pairs[-1]
            out *= (s @ y) / (y @ y)
        for (s, y), share in zip(self.pairs, reversed(shares), strict=True):
            out += (share - (y @ out) / (s @ y)) * s
        return out
