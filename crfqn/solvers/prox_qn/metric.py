"""The metric B of a step: B0, and secant pairs on top (Zhong et al. 2014, section 2.1; Nocedal and Wright, 7.2).

    B = B0 - Q R Q',   Q = [B0 S, Y],   R = inverse of [[S' B0 S, L], [L', -D]],   Q^ = R Q'

B0 is gamma I as in the paper, or curvature from the marginals of the point: the diagonal of the Hessian, or the
Hessian without the covariance between positions, dense or sparse. B has the coordinates of the active set.

Shapes: n active coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.objectives.point import Matrix
from crfqn.solvers.line_search import has_curvature
from crfqn.solvers.protocols import Vector, check_numbers
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.screened_point import ScreenedPoint

NO_MATRIX = np.empty((0, 0), np.float32)
ROWS_PER_COPY = 16  # rows of a matrix that are copied together and stay in the cache
NO_INDICES, NO_DATA = np.empty(0, np.int32), np.empty(0, np.float32)


def add_to_diagonal(matrix: Matrix, numbers: Vector) -> None:
    """Add to the diagonal of a dense or compressed matrix, in place."""
    if isinstance(matrix, np.ndarray):
        np.fill_diagonal(matrix, matrix.diagonal() + numbers.astype(np.float32))
    else:
        matrix.setdiag(matrix.diagonal() + numbers.astype(np.float32))


class CompactBFGS:
    """The compact L-BFGS matrix B from B0 and up to `memory` secant pairs (the paper's m).

    diagonal : float64 (n,), the diagonal of B0
    base : float32 (n, n), B0 as a dense or CSR matrix; (0, 0) if B0 is diagonal
    s, y : float64 (pairs, n), the secant pairs; base_s : B0 s
    s_y, s_base_s : float64 (pairs, pairs), products of the whole vectors
    q, q_hat : float64 (n, 2 pairs), Q and Q^'
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
        """Replace B0, and keep the pairs that have positive curvature."""
        self.diagonal, self.base = diagonal, base
        # The restriction of a pair to fewer coordinates may have no positive curvature.
        base_s = self.base_times(self.s)
        pairs = zip(self.s, self.y, base_s, strict=True)
        good = np.array([has_curvature(s, y) and has_curvature(s, b) for s, y, b in pairs], bool)
        self.s, self.y, self.base_s = self.s[good], self.y[good], base_s[good]
        self.s_y, self.s_base_s = self.s @ self.y.T, self.s @ self.base_s.T
        self._refresh()

    @property
    def has_matrix(self) -> bool:
        """Whether B0 is more than its diagonal."""
        return self.base.shape[0] > 0

    @property
    def base_arrays(self) -> tuple[NDArray[np.float32], NDArray, NDArray, NDArray[np.float32]]:
        """B0 for the coordinate descent: a dense matrix, and the arrays of a CSR matrix, one of which is empty."""
        if isinstance(self.base, np.ndarray):
            return self.base, NO_INDICES, NO_INDICES, NO_DATA
        return NO_MATRIX, self.base.indptr, self.base.indices, self.base.data

    def rescale(self) -> None:
        """Scale B0 so that s'B0 s = s'y for the newest pair; if B0 = gamma I, then gamma = y's / s's (Algorithm 2, line
        40). The products are those of the whole vectors, before coordinates left the active set."""
        if len(self.s) == 0:
            return
        factor = self.s_y[-1, -1] / self.s_base_s[-1, -1]
        self.diagonal, self.base = self.diagonal * factor, self.base * np.float32(factor)
        self.base_s, self.s_base_s = self.base_s * factor, self.s_base_s * factor
        self._refresh()

    def update(self, s: Vector, y: Vector, base_s: NDArray[np.floating] | None = None) -> bool:
        """Add a pair, and drop the oldest if there are `memory`; return False, and add none, if s'y or s'B0 s is too
        small. base_s : B0 s if it is known, or None."""
        if self.memory == 0 or not has_curvature(s, y):
            return False
        if base_s is None or not self.has_matrix:
            base_s = self.base_times(s[None])[0]
        if not has_curvature(s, base_s):
            return False
        first = max(len(self.s) - self.memory + 1, 0)
        self.s = np.vstack([self.s[first:], s])
        self.y = np.vstack([self.y[first:], y])
        self.base_s = np.vstack([self.base_s[first:], base_s])
        # s has zeros at the coordinates that have left, so that these are the products of the whole vectors.
        s_base_s = self.base_s @ s
        self.s_y = bordered(self.s_y[first:, first:], self.s @ y, self.y @ s)
        self.s_base_s = bordered(self.s_base_s[first:, first:], s_base_s, s_base_s)
        self._refresh()
        return True

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Restrict B to the coordinates of a mask (paper, section 2.3, shrinking). R remains that of the whole vectors,
        so that this is the submatrix of B, and positive definite."""
        places = np.flatnonzero(keep)
        if isinstance(self.base, np.ndarray):
            base = submatrix(self.base, places) if self.has_matrix else self.base
        else:
            base = self.base[places][:, places].tocsr()
        self.diagonal, self.base = self.diagonal[places], base
        self.s = self.s[:, places]  # one array after the other: memory holds one copy
        self.y = self.y[:, places]
        self.base_s = self.base_s[:, places]
        self.q = self.q[places]
        self.q_hat = self.q_hat[places]

    def keep_diagonal(self) -> None:
        """Replace B by the diagonal of B0, which is positive definite."""
        self.s, self.y = self.s[:0], self.y[:0]
        self.rebase(self.diagonal)

    def base_times(self, rows: Vector) -> Vector:
        """Return B0 v for every row v."""
        if self.has_matrix:
            return (self.base @ rows.T.astype(np.float32)).T.astype(np.float64)
        return rows * self.diagonal

    def times(self, v: Vector, base_v: NDArray[np.floating] | None = None) -> Vector:
        """Return B v; base_v : B0 v if it is known, or None."""
        if base_v is None or not self.has_matrix:
            base_v = self.base_times(v[None])[0]
        return base_v - self.q @ (self.q_hat.T @ v)

    def _refresh(self) -> None:
        """Form Q and Q^', (n, 2 pairs)."""
        n_pairs = len(self.s)
        self.q = self.q_hat = np.empty((self.diagonal.size, 0))  # frees the memory of the last ones
        if n_pairs == 0:
            return
        inner = self.s_y
        lower = np.tril(inner, -1)
        middle = np.zeros((2 * n_pairs, 2 * n_pairs))
        middle[:n_pairs, :n_pairs], middle[:n_pairs, n_pairs:] = self.s_base_s, lower
        middle[n_pairs:, :n_pairs], diagonal = lower.T, np.append(self.s_base_s.diagonal(), -inner.diagonal())
        np.fill_diagonal(middle, diagonal)
        self.q = np.empty((self.diagonal.size, 2 * n_pairs))
        self.q[:, :n_pairs], self.q[:, n_pairs:] = self.base_s.T, self.y.T
        # With a unit diagonal the inverse is accurate even if pairs differ by orders of magnitude.
        scale = 1.0 / np.sqrt(np.abs(diagonal))
        inverse = np.linalg.inv(middle * scale[:, None] * scale) * scale[:, None] * scale
        self.q_hat = self.q @ np.ascontiguousarray(inverse.T)


def bordered(matrix: Vector, column: Vector, row: Vector) -> Vector:
    """Return a square matrix with another column and row at its end; their last entries are the same number."""
    larger = np.empty((row.size, row.size))
    larger[:-1, :-1], larger[:, -1], larger[-1] = matrix, column, row
    return larger


def submatrix(matrix: NDArray[np.float32], places: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the submatrix of the rows and columns `places`."""
    part = np.empty((places.size, places.size), matrix.dtype)
    for first in range(0, places.size, ROWS_PER_COPY):
        rows = slice(first, first + ROWS_PER_COPY)
        matrix[places[rows]].take(places, axis=1, out=part[rows], mode="clip")  # without a copy of `out`
    return part


class Metric:
    """The choice of B0.

    refresh : the number of steps after which B0 is replaced within an epoch
    is_measured : whether B0 is the curvature at a point, else gamma I
    is_full : whether B0 has entries outside the diagonal
    """

    refresh: int
    is_measured: ClassVar[bool] = True
    is_full: ClassVar[bool] = False

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the diagonal of B0, (n,), and B0, or `NO_MATRIX` if it is diagonal; n_passes : of the run so far."""
        raise NotImplementedError


@dataclass(frozen=True)
class Identity(Metric):
    """The paper's B0 = gamma I, gamma = y's / s's of the newest pair, 1 without one (section 2.1; lines 3 and 40)."""

    refresh: ClassVar[int] = 1  # type: ignore[misc]
    is_measured: ClassVar[bool] = False

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return B0 = I (line 3)."""
        return np.ones(active.coords.size), NO_MATRIX


@dataclass(frozen=True)
class Diagonal(Metric):
    """The diagonal of the Hessian without the covariance between positions.

    refresh : the number of steps (>= 1) after which it is computed again within an epoch. A smaller value takes more
        time for a metric that is more exact
    """

    refresh: int = 20

    def __post_init__(self) -> None:
        check_numbers(self, 1, "refresh")

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the curvature plus a floor, (n,)."""
        floor = constants.floor * min_scale(active)
        return active.point.curvature(active.coords).diagonal + floor, NO_MATRIX


@dataclass(frozen=True)
class TokenWise(Metric):
    """The Hessian without the covariance between positions.

    n_positions : the number of sampled positions (>= 1). A larger value takes more time for a metric that is more exact
    max_dense : the maximum number of active coordinates (>= 0) for a dense matrix of n^2 float32 (6,000: 144 MB). Above
        it the matrix is sparse if the active features rarely occur together, else B0 is the diagonal
    refresh : the number of steps (>= 1) after which B0 is measured again within an epoch. A smaller value takes more
        time for a metric that is more exact
    growing_share : the fraction of the positions (above 0, up to 1) that a sparse matrix samples while violating
        coordinates are outside the active set. A smaller value takes less time for a metric that is less exact
    """

    n_positions: int = 1500
    max_dense: int = 6000
    refresh: int = 20
    growing_share: float = 0.25
    is_full: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "n_positions", "refresh")
        check_numbers(self, 0, "max_dense")
        if not 0 < self.growing_share <= 1:
            raise InputError(
                f"growing_share: expected a number above 0 and up to 1, got {self.growing_share!r}"
            )

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the matrix, dense or sparse; the diagonal if the matrix is too large or costs more than all passes so
        far."""
        floor, share = constants.floor * min_scale(active), self.growing_share if active.is_growing else 1.0
        matrix = active.point.hessian_model(active.coords, self.n_positions, self.max_dense, share, n_passes)
        if matrix is None:
            return active.point.curvature(active.coords).diagonal + floor, NO_MATRIX
        diagonal = matrix.diagonal() + floor
        add_to_diagonal(matrix, floor)
        return diagonal, matrix


def min_scale(active: ScreenedPoint) -> Vector:
    """Return the unit of the smallest curvature, (n,): the minimum of max x^2 and l1 max |x|.

    At the optimum a non-zero weight has |sum_t x_t (p_t - y_t)| = l1, hence a curvature of about l1 max |x| if the fit
    is almost without error. What is added to the metric must not exceed that.
    """
    scale, radius = active.point.objective.feature_scale(active.coords), active.penalty.min_threshold
    return np.minimum(scale, radius * np.sqrt(scale)) if radius > 0 else scale
