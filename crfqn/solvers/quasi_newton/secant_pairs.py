"""The inverse L-BFGS metric over sparse coordinates: the two-loop recursion (Nocedal and Wright, Algorithm 7.4).

    H = gamma I, improved by the newest m pairs (s, y) so that H y = s,   gamma = s'y / y'y of the newest

The pairs are stored at a sorted set of coordinates that may change: a pair is 0 at a coordinate that enters, and loses
the entry of one that leaves.

H v is a linear combination of v and the pairs, and the recursion needs only their products with each other and with v
(Chen, Wang and Zhou 2014). The matrix products read the vectors three times a step. The recursion itself reads them
eight times, and v, which it changes, 4 m times: .06 s instead of .13 s with 2.6 million weights.

Of more than `MANY` coordinates half as many pairs are kept, in single precision: a quarter of the memory, and up
to 22 % more passes (`docs/large-data.md`). Sums over them are in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.line_search import SMALLEST_COSINE, has_curvature
from crfqn.solvers.protocols import Coords, Vector
from crfqn.solvers.quasi_newton.two_loop_kernels import two_loops

SMALLEST_OF_SINGLE = 1e-6  # the same where s and y are rounded to single precision
MANY = 1 << 20
STRETCH = 1 << 16  # coordinates that are taken to double precision at once


class SecantPairs:
    """The newest `memory` pairs over sorted coordinates (n,).

    vectors : (2 m, n), float32 if n > MANY, else float64: the changes of the weights s in the even rows, those of the
        gradient y in the odd ones
    products : float64 (2 m, 2 m), of the rows y in use with each other and with the rows s that are no younger
    order : the pairs in use, oldest first: pair i has the rows 2 i and 2 i + 1
    """

    def __init__(self, memory: int, coords: Coords) -> None:
        self.is_single = coords.size > MANY
        self.coords, self.memory = coords, -(-memory // 2) if self.is_single else memory
        self.dtype = np.dtype(np.float32 if self.is_single else np.float64)
        self.smallest = SMALLEST_OF_SINGLE if self.is_single else SMALLEST_COSINE
        self.vectors = np.empty((0, coords.size), self.dtype)
        self.products = np.zeros((2 * self.memory, 2 * self.memory))
        self.order: list[int] = []

    def __len__(self) -> int:
        return len(self.order)

    @property
    def pairs(self) -> list[tuple[Vector, Vector]]:
        """The pairs (s, y), oldest first."""
        return [(self.vectors[2 * i], self.vectors[2 * i + 1]) for i in self.order]

    @property
    def has_moved(self) -> NDArray[np.bool_]:
        """Tell which weights a pair has moved, (n,)."""
        moved = np.zeros(self.coords.size, bool)
        for s, _ in self.pairs:
            moved |= s != 0
        return moved

    def update(self, s: Vector, y: Vector) -> bool:
        """Add a pair, the oldest leaving; a pair without positive curvature is refused (False)."""
        if not has_curvature(s, y, self.smallest):
            return False
        place = self.order.pop(0) if len(self.order) == self.memory else len(self.order)
        if self.vectors.shape[0] == 0:
            self.vectors = np.empty((2 * self.memory, self.coords.size), self.dtype)
        self.vectors[2 * place], self.vectors[2 * place + 1] = s, y
        self.order.append(place)
        onto = self.onto(self.vectors[2 * place + 1])
        self.products[2 * place + 1, : onto.size] = onto
        self.products[1 : onto.size : 2, 2 * place + 1] = onto[1::2]
        return True

    @property
    def used(self) -> Vector:
        """The vectors of the pairs, (rows, n)."""
        return self.vectors[: 2 * len(self.order)]

    def onto(self, v: NDArray[np.floating]) -> Vector:
        """Return the products of the vectors in use with v, (rows,)."""
        products = np.zeros(2 * len(self.order))
        for part, rows in self.stretches():
            products += rows @ v[part]
        return products

    def stretches(self) -> Iterator[tuple[slice, Vector]]:
        """Yield the coordinates in parts, with the vectors in use there in double precision."""
        n = self.coords.size
        length = STRETCH if self.is_single else max(n, 1)
        for first in range(0, n, length):
            part = slice(first, min(first + length, n))
            yield part, self.used[:, part].astype(np.float64, copy=False)

    def move_to(self, coords: Coords) -> None:
        """Go on with another set of coordinates."""
        if np.array_equal(coords, self.coords):
            return
        place = np.minimum(np.searchsorted(coords, self.coords), max(coords.size - 1, 0))
        stays = np.flatnonzero(coords[place] == self.coords) if coords.size else np.empty(0, np.int64)
        moved = np.zeros((2 * self.memory, coords.size), self.dtype)
        order: list[int] = []
        for pair in self.pairs:
            rows = slice(2 * len(order), 2 * len(order) + 2)
            moved[rows, place[stays]] = [v[stays] for v in pair]
            s, y = moved[rows].astype(np.float64, copy=False)
            if has_curvature(s, y, self.smallest):
                order.append(len(order))
            else:
                moved[rows] = 0.0
        self.coords, self.vectors, self.order = coords, moved, order
        self.products = np.zeros((2 * self.memory, 2 * self.memory))
        n_used = 2 * len(order)
        for _, kept in self.stretches():
            self.products[:n_used, :n_used] += kept @ kept.T

    def times(self, v: Vector) -> Vector:
        """Return H v, (n,), in O(m n)."""
        if not self.order:
            return v.copy()
        onto = self.onto(v)
        coefficients, out = np.empty(onto.size), np.empty(v.size)
        scale = two_loops(np.array(self.order), self.products, onto, coefficients)
        for part, rows in self.stretches():
            out[part] = coefficients @ rows
            out[part] += scale * v[part]
        return out
