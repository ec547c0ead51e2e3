"""The compact limited-memory BFGS metric (paper, section 2.1; Nocedal and Wright, section 7.2).

    B = B0 - Q R Q',   Q = [B0 S, Y],   R = inverse of [[S' B0 S, L], [L', -D]],   Q^ = R Q'

It lives on the active set, restricts itself to a subset, and multiplies. B0 is a diagonal (gamma I or a curvature), a
dense or a sparse matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.protocols import Matrix, Vector
from crfqn.solvers.quasi_newton.secant_pairs import has_curvature

NO_MATRIX = np.empty((0, 0), np.float32)
NO_INDICES, NO_DATA = np.empty(0, np.int32), np.empty(0, np.float32)


def add_to_diagonal(matrix: Matrix, numbers: Vector) -> None:
    """Add to the diagonal of a dense or compressed matrix, in place."""
    if isinstance(matrix, np.ndarray):
        matrix[np.diag_indices_from(matrix)] += numbers.astype(np.float32)
    else:
        matrix.setdiag(matrix.diagonal() + numbers.astype(np.float32))


def bordered(matrix: Vector, column: Vector, row: Vector) -> Vector:
    """Return the matrix with one more column and one more row; the corner is the last of both."""
    return np.vstack([np.column_stack([matrix, column[:-1]]), row])


class CompactBFGS:
    """Secant pairs on top of a base metric B0.

    Parameters
    ----------
    diagonal : ndarray of float64, shape (n,): B0, or the diagonal of the matrix B0
    base : ndarray or scipy CSR array of float32, shape (n, n), symmetric; or (0, 0) where B0 is the diagonal
    memory : int, the number of pairs kept (m of the paper)
    """

    def __init__(self, diagonal: Vector, base: Matrix = NO_MATRIX, memory: int = 10) -> None:
        self.memory = memory
        n = diagonal.size
        self.q: Vector = np.empty((n, 0))
        self.q_hat: Vector = self.q
        self.s = np.empty((0, n))
        self.y = np.empty((0, n))
        self.rebase(diagonal, base)

    def rebase(self, diagonal: Vector, base: Matrix = NO_MATRIX) -> None:
        """Take another B0 and keep the pairs."""
        self.diagonal, self.base = diagonal, base
        # After a restriction a pair is what is left of it, and may have lost its positive curvature.
        base_s = self.base_times(self.s)
        pairs = zip(self.s, self.y, base_s, strict=True)
        good = np.array([has_curvature(s, y) and has_curvature(s, b) for s, y, b in pairs], bool)
        self.s, self.y, self.base_s = self.s[good], self.y[good], base_s[good]
        self.s_y, self.s_base_s = self.s @ self.y.T, self.s @ self.base_s.T
        self._refresh()

    @property
    def n_pairs(self) -> int:
        return self.s.shape[0]

    @property
    def has_matrix(self) -> bool:
        """Whether B0 is more than its diagonal."""
        return self.base.shape[0] > 0

    @property
    def base_arrays(self) -> tuple[NDArray[np.float32], NDArray, NDArray, NDArray[np.float32]]:
        """B0 as the descent takes it: a dense matrix, or the arrays of a compressed one; what it is not, is empty."""
        if isinstance(self.base, np.ndarray):
            return self.base, NO_INDICES, NO_INDICES, NO_DATA
        return NO_MATRIX, self.base.indptr, self.base.indices, self.base.data

    def rescale(self) -> None:
        """Scale B0 to the newest pair, s'B0 s = s'y: where B0 = gamma I that makes it gamma = y's / s's.

        All products stay those of the whole vectors, from before coordinates have left (Algorithm 2, line 40).
        """
        if self.n_pairs == 0:
            return
        factor = self.s_y[-1, -1] / self.s_base_s[-1, -1]
        self.diagonal, self.base = self.diagonal * factor, self.base * np.float32(factor)
        self.base_s, self.s_base_s = self.base_s * factor, self.s_base_s * factor
        self._refresh()

    def update(self, s: Vector, y: Vector, base_s: NDArray[np.floating] | None = None) -> bool:
        """Add a pair, the oldest leaving; a pair without positive curvature, by y or by B0, is refused (False).

        `base_s`, where it is known, saves the product B0 s.
        """
        if self.memory == 0 or not has_curvature(s, y):
            return False
        if base_s is None or not self.has_matrix:
            base_s = self.base_times(s[None])[0]
        if not has_curvature(s, base_s):
            return False
        first = max(self.n_pairs - self.memory + 1, 0)
        self.s = np.vstack([self.s[first:], s])
        self.y = np.vstack([self.y[first:], y])
        self.base_s = np.vstack([self.base_s[first:], base_s])
        # s is zero where coordinates have left: products with it are those of the whole vectors.
        self.s_y = bordered(self.s_y[first:, first:], self.s @ y, self.y @ s)
        self.s_base_s = bordered(self.s_base_s[first:, first:], self.base_s @ s, self.base_s @ s)
        self._refresh()
        return True

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Go on with a subset of the coordinates: the submatrix of B (paper, section 2.3, shrinking).

        R stays that of the whole vectors, so B stays positive definite, and nothing is lost.
        """
        kept = np.flatnonzero(keep)
        if isinstance(self.base, np.ndarray):
            base = self.base.take(kept, axis=0).take(kept, axis=1) if self.has_matrix else self.base
        else:
            base = self.base[kept][:, kept].tocsr()
        self.diagonal, self.base = self.diagonal[kept], base
        self.s, self.y, self.base_s = self.s[:, kept], self.y[:, kept], self.base_s[:, kept]
        self.q, self.q_hat = self.q[kept], self.q_hat[kept]

    def keep_diagonal(self) -> None:
        """Go on with B0's diagonal alone, without pairs: positive definite whatever they have become."""
        self.s, self.y = self.s[:0], self.y[:0]
        self.rebase(self.diagonal)

    def base_times(self, rows: Vector) -> Vector:
        """Return B0 v for every row v."""
        if self.has_matrix:
            return (self.base @ rows.T.astype(np.float32)).T.astype(np.float64)
        return rows * self.diagonal

    def times(self, v: Vector, base_v: NDArray[np.floating] | None = None) -> Vector:
        """Return B v; `base_v`, where it is known, saves the product B0 v."""
        if base_v is None or not self.has_matrix:
            base_v = self.base_times(v[None])[0]
        return base_v - self.q @ (self.q_hat.T @ v)

    def _refresh(self) -> None:
        """Form Q (n, 2m) and Q^' (n, 2m) of the present pairs."""
        if self.n_pairs == 0:
            self.q = self.q_hat = np.empty((self.diagonal.size, 0))
            return
        inner = self.s_y
        lower = np.tril(inner, -1)
        middle = np.block([[self.s_base_s, lower], [lower.T, -np.diag(np.diag(inner))]])
        self.q = np.empty((self.diagonal.size, 2 * self.n_pairs))
        self.q[:, : self.n_pairs], self.q[:, self.n_pairs :] = self.base_s.T, self.y.T
        # Scaling to a unit diagonal first keeps the inverse accurate when pairs differ by orders of magnitude.
        scale = 1.0 / np.sqrt(np.abs(np.diag(middle)))
        inverse = np.linalg.inv(middle * scale[:, None] * scale) * scale[:, None] * scale
        self.q_hat = self.q @ np.ascontiguousarray(inverse.T)
