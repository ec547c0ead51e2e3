"""The Gram map: scores of items from a kernel function's expansion over the same items, row by row of the matrix.

    scores[k, t] = sum_i w[k, i] kernel(x_i, x_t)

A "feature" is an item: N of both, K states. Rows are made when they are asked for, and those used last are kept in a
memory of bounded size, in double precision, as the certificate's claim is (a score is a sum of terms as large as C); an
array that is given whole is read where it lies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.coordinates import Split
from crfqn.threads import Pool

BLOCK = 128  # rows made at a time: a matrix product


@dataclass(eq=False)
class GramMap:
    """Rows of a Gram matrix with a bounded memory; InputError for a diagonal below 0, and for numbers that are not
    finite.

    rows_of : function of items, int64 (n,), that returns their rows, (n, N); of few items at a time
    diagonal, n_bytes : float64 (N,), kernel(x_i, x_i); of the rows that are kept; one block of them is always
    whole : (N, N), optional: the matrix itself; nothing is made or kept then
    is_definite : whether the matrix is positive semidefinite; nothing is proved with one that may not be
    """

    rows_of: Callable[[NDArray[np.int64]], NDArray]
    diagonal: Vector
    n_bytes: float = 200e6
    whole: NDArray | None = None
    is_definite: bool = True
    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        wrong = ~(np.isfinite(self.diagonal) & (self.diagonal >= 0))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InputError(
                f"kernel: expected finite values >= 0 of k(x, x), got {self.diagonal[i]} for item {i}"
            )
        n = self.diagonal.size
        self.n_kept = int(min(max(self.n_bytes / (8 * max(n, 1)), BLOCK), n))
        self._table = np.empty((self.n_kept if self.whole is None else 0, n))
        self._place: OrderedDict[int, int] = OrderedDict()
        self.n_made = 0

    @property
    def offsets(self) -> NDArray[np.int64]:
        return np.arange(self.n_items + 1)

    @property
    def n_items(self) -> int:
        return self.diagonal.size

    @property
    def n_positions(self) -> int:
        return self.diagonal.size

    @property
    def n_features(self) -> int:
        return self.diagonal.size

    @property
    def mean_occurrence(self) -> float:
        return float(self.n_items)

    @property
    def n_together(self) -> int:
        """How many rows `rows` may be asked for at a time."""
        return min(BLOCK, self.n_items)

    @property
    def table(self) -> NDArray:
        """The rows that are there."""
        return self._table if self.whole is None else self.whole

    def rows(self, items: NDArray[np.int64]) -> tuple[NDArray, NDArray[np.int64]]:
        """Return a table of rows and each item's place in it; at most `n_together` items, valid until the next call."""
        if self.whole is not None:
            return self.whole, items
        missing = []
        for item in items.tolist():
            if item in self._place:
                self._place.move_to_end(item)
            else:
                missing.append(item)
        if missing:
            self._keep(np.array(missing))
        return self._table, np.array([self._place[item] for item in items.tolist()])

    def _keep(self, items: NDArray[np.int64]) -> None:
        """Make rows in the place of those not used for the longest time."""
        for item, row in zip(items.tolist(), self._made(items), strict=True):
            place = len(self._place)
            if place == self.n_kept:
                _, place = self._place.popitem(last=False)
            self._table[place] = row
            self._place[item] = place

    def _made(self, items: NDArray[np.int64]) -> NDArray:
        """Return the rows of some items, (n, N), computed now."""
        found = np.asarray(self.rows_of(items))
        if found.shape != (items.size, self.n_items):
            raise InputError(
                f"kernel: expected values of shape {(items.size, self.n_items)}, got {found.shape}"
            )
        if not np.isfinite(found).all():
            raise InputError("kernel: expected finite values, got nan or infinity")
        self.n_made += items.size
        return found

    def _read(self, items: NDArray[np.int64]) -> NDArray:
        """Return the rows of some items, (n, N); a look at all of them drives none out that the training keeps."""
        if self.whole is not None:
            return self.whole[items]
        places = np.array([self._place.get(item, -1) for item in items.tolist()])
        out = self._table[places]
        if (places < 0).any():
            out[places < 0] = self._made(items[places < 0])
        return out

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        """Add the scores of an expansion, in place."""
        items, which = np.unique(nodes.features, return_inverse=True)
        for first in range(0, items.size, self.n_together):
            part = items[first : first + self.n_together]
            inside = (which >= first) & (which < first + part.size)
            expansion = np.zeros((len(scores), part.size))
            np.add.at(expansion, (nodes.states[inside], which[inside] - first), weights[inside])
            scores += expansion @ self._read(part)

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        """Return sum_t kernel(x_f, x_t) residual[k, t] for each node, (n,)."""
        out = np.empty(nodes.n_nodes)
        for first in range(0, nodes.n_nodes, self.n_together):
            part = slice(first, first + self.n_together)
            items, which = np.unique(nodes.features[part], return_inverse=True)
            out[part] = np.einsum("nt,nt->n", self._read(items)[which], residual[nodes.states[part]])
        return out
