"""The Gram map: scores of items from a kernel function's expansion over the same items, by blocks of the matrix.

    scores[k, t] = sum_i w[k, i] kernel(x_i, x_t)

A "feature" is an item: N of both, K states. The square of the matrix between the items that a solver works on is kept,
within a memory of bounded size; other values are made in blocks, used and forgotten: in a block a value costs about as
much as what is done with it. All in double precision, as the certificate's claim is (a score is a sum of terms as large
as C); an array that is given whole is read where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import FeatureMap, Split
from crfqn.papers.blondel2014.kernel_items import DualKernelItems
from crfqn.threads import Pool

BLOCK = 256  # rows made at a time: a matrix product


@dataclass(eq=False)
class GramMap(FeatureMap):
    """A Gram matrix with a bounded memory; InputError for a diagonal below 0, and for numbers that are not finite.

    values_to : function of items, int64 (m,), that returns a function of others, int64 (n,), that returns the kernel's
        values between them, (n, m); of at most BLOCK others at a time
    diagonal, n_bytes : float64 (N,), kernel(x_i, x_i); of the values that are kept, a block of rows beside them
    whole : (N, N), optional: the matrix itself; nothing is made or kept then
    is_definite : whether the matrix is positive semidefinite; nothing is proved with one that may not be
    """

    values_to: Callable[[NDArray[np.int64]], Callable[[NDArray[np.int64]], NDArray]]
    diagonal: Vector
    n_bytes: float = 200e6
    whole: NDArray | None = None
    is_definite: bool = True
    pool: Pool = field(default_factory=Pool)

    dual_items: ClassVar = DualKernelItems

    def __post_init__(self) -> None:
        wrong = ~(np.isfinite(self.diagonal) & (self.diagonal >= 0))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InputError(
                f"kernel: expected finite values >= 0 of k(x, x), got {self.diagonal[i]} for item {i}"
            )
        n = self.n_items
        self.capacity = n if self.whole is not None else min(max(int((self.n_bytes / 8) ** 0.5), BLOCK), n)
        self._square = np.empty((self.capacity, self.capacity)) if self.whole is None else self.whole
        self.held = np.arange(0 if self.whole is None else n)
        self.n_made = 0  # values

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        return np.arange(self.n_features + 1)

    @property
    def n_features(self) -> int:
        return self.diagonal.size

    def hold(self, items: NDArray[np.int64]) -> NDArray:
        """Keep the values between some items, at most `capacity`, and forget others; return them, (capacity, capacity),
        in the order of `held`, which is that of the items' numbers where all fit."""
        if self.held.size == self.n_items:
            return self._square
        items = np.arange(self.n_items) if self.capacity == self.n_items else items
        table, kept = self._square, np.flatnonzero(np.isin(self.held, items))
        for place, before in enumerate(kept.tolist()):  # which is never left of its place
            table[place, : kept.size] = table[before, kept]
        self.held = np.append(self.held[kept], np.setdiff1d(items, self.held))
        for first in range(kept.size, self.held.size, BLOCK):
            end = min(first + BLOCK, self.held.size)
            for _, values in self._blocks(self.held[first:end], self.held[:end]):
                table[first:end, :end] = values
            table[:first, first:end] = table[first:end, :first].T
        return table

    def _blocks(
        self, items: NDArray[np.int64], others: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray]]:
        """Yield some of the items after others, and the kernel's values between these and `others`, made now."""
        values_of = self.values_to(others)
        for first in range(0, items.size, BLOCK):
            part = items[first : first + BLOCK]
            found = np.asarray(values_of(part))
            if found.shape != (part.size, others.size):
                raise InputError(
                    f"kernel: expected values of shape {(part.size, others.size)}, got {found.shape}"
                )
            if not np.isfinite(found).all():
                raise InputError("kernel: expected finite values, got nan or infinity")
            self.n_made += found.size
            yield part, found

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        """Add the scores of an expansion, in place."""
        expansion = np.zeros((len(scores), self.n_items))
        expansion[nodes.states, nodes.features] = weights
        held, n = self.held, self.held.size
        scores[:, held] += expansion[:, held] @ self._square[:n, :n]
        is_held = np.zeros(self.n_items, bool)
        is_held[held] = True
        is_used = expansion.any(axis=0)
        pairs = ((~is_held, is_used), (is_held, is_used & ~is_held))
        for others, used in ((np.flatnonzero(a), np.flatnonzero(b)) for a, b in pairs):
            for part, values in self._blocks(others, used) if used.size else ():
                scores[:, part] += expansion[:, used] @ values.T

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        """Return sum_t kernel(x_f, x_t) residual[k, t] for each node, (n,)."""
        sums = np.zeros((len(residual), self.n_items))
        states, items = np.divmod(np.flatnonzero(residual), self.n_items)
        self.image(Split(states, items, items[:0]), residual[states, items], sums)
        return sums[nodes.states, nodes.features]
