"""The inverse L-BFGS metric over sparse coordinates: the two-loop recursion (Nocedal and Wright, Algorithm 7.4).

    H = gamma I, improved by the newest m pairs (s, y) so that H y = s,   gamma = s'y / y'y of the newest

The pairs are stored at a sorted set of coordinates that may change: a pair is 0 at a coordinate that enters, and loses
the entry of one that leaves.

H v is a linear combination of v and the pairs, and its coefficients follow from their products with each other and
with v (Chen, Wang and Zhou 2014), which reads the vectors three times a step instead of eight.

With more than `MANY_COORDS` coordinates half as many pairs are kept, in single precision, which takes a quarter of the
memory and up to 22 % more passes (`docs/large-data.md`). Sums over them are in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.line_search import MIN_COSINE, has_curvature
from crfqn.solvers.protocols import Coords, Vector
from crfqn.solvers.quasi_newton.two_loop_kernels import two_loops

MIN_COSINE_OF_SINGLE = 1e-6  # as MIN_COSINE, if s and y are in single precision: a numerical guard
# Coordinates above which pairs are fewer and in single precision: vectors of 8 MB, 20 of them with the default memory.
MANY_COORDS = 1 << 20
# Coordinates that are converted to double precision together: 512 KB, within the cache.
COORDS_PER_SUM = 1 << 16


class SecantPairs:
    """The newest `memory` pairs over sorted coordinates (n,).

    vectors : (2 m, n), float32 if n > MANY_COORDS, else float64: the changes of the weights s in the even rows, those
        of the gradient y in the odd rows
    products : float64 (2 m, 2 m), of the rows y in use with each other and with the rows s of the same or older pairs
    order : the pairs in use, oldest first: pair i has the rows 2 i and 2 i + 1
    """

    def __init__(self, memory: int, coords: Coords) -> None:
        self.is_single = coords.size > MANY_COORDS
        self.coords, self.memory = coords, -(-memory // 2) if self.is_single else memory
        self.dtype = np.dtype(np.float32 if self.is_single else np.float64)
        self.min_cosine = MIN_COSINE_OF_SINGLE if self.is_single else MIN_COSINE
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
        """A mask of the weights that a pair has moved, (n,)."""
        moved = np.zeros(self.coords.size, bool)
        for s, _ in self.pairs:
            moved |= s != 0
        return moved

    def update(self, s: Vector, y: Vector) -> bool:
        """Add a pair, and drop the oldest if there are `memory`; return False, and add none, if it has no curvature."""
        if not has_curvature(s, y, self.min_cosine):
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

    def onto(self, v: NDArray[np.floating]) -> Vector:
        """Return the products of the vectors in use with v, (rows,)."""
        products = np.zeros(2 * len(self.order))
        for part, rows in self.iter_coords():
            products += rows @ v[part]
        return products

    def iter_coords(self) -> Iterator[tuple[slice, Vector]]:
        """Yield the coordinates in parts, with the vectors in use there in double precision."""
        n, n_used = self.coords.size, 2 * len(self.order)
        length = COORDS_PER_SUM if self.is_single else max(n, 1)
        for first in range(0, n, length):
            part = slice(first, min(first + length, n))
            yield part, self.vectors[:n_used, part].astype(np.float64, copy=False)

    def move_to(self, coords: Coords) -> None:
        """Change the coordinates, and drop pairs that have lost their curvature."""
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
            if has_curvature(s, y, self.min_cosine):
                order.append(len(order))
            else:
                moved[rows] = 0.0
        self.coords, self.vectors, self.order = coords, moved, order
        self.products = np.zeros((2 * self.memory, 2 * self.memory))
        n_used = 2 * len(order)
        for _, kept in self.iter_coords():
            self.products[:n_used, :n_used] += kept @ kept.T

    def times(self, v: Vector) -> Vector:
        """Return H v, (n,), in O(m n)."""
        if not self.order:
            return v.copy()
        onto = self.onto(v)
        coefficients, out = np.empty(onto.size), np.empty(v.size)
        scale = two_loops(np.array(self.order), self.products, onto, coefficients)
        for part, rows in self.iter_coords():
            out[part] = coefficients @ rows
            out[part] += scale * v[part]
        return out
