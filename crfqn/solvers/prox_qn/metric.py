"""The metric B of a step: B0, and secant pairs on top (Zhong et al. 2014, section 2.1; Nocedal and Wright, 7.2).

    B = B0 - Q R Q',   Q = [B0 S, Y],   R = inverse of [[S' B0 S, L], [L', -D]],   Q^ = R Q'

B0 is gamma I as in the paper, or curvature from the marginals of the point: its diagonal, or the token-wise model of
the Hessian, dense or sparse. B lives on the active set, restricts itself to a subset, and multiplies.

Shapes: n active coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
FEW_ROWS = 16
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
    """Secant pairs, `memory` of them (the paper's m), on top of a base metric B0.

    diagonal : float64 (n,), B0 or its diagonal; base : float32 (n, n), dense or CSR, B0, or (0, 0) for a diagonal one
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
        """Scale B0 to the newest pair, s'B0 s = s'y: where B0 = gamma I that makes it gamma = y's / s's. All products
        stay those of the whole vectors, from before coordinates have left (Algorithm 2, line 40)."""
        if self.n_pairs == 0:
            return
        factor = self.s_y[-1, -1] / self.s_base_s[-1, -1]
        self.diagonal, self.base = self.diagonal * factor, self.base * np.float32(factor)
        self.base_s, self.s_base_s = self.base_s * factor, self.s_base_s * factor
        self._refresh()

    def update(self, s: Vector, y: Vector, base_s: NDArray[np.floating] | None = None) -> bool:
        """Add a pair, the oldest leaving; one without positive curvature, by y or by B0, is refused (False). `base_s`,
        where it is known, saves the product B0 s."""
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
        """Go on with a subset of the coordinates: the submatrix of B (paper, section 2.3, shrinking). R stays that of
        the whole vectors, so B stays positive definite, and nothing is lost."""
        places = np.flatnonzero(keep)
        if isinstance(self.base, np.ndarray):
            base = submatrix(self.base, places) if self.has_matrix else self.base
        else:
            base = self.base[places][:, places].tocsr()
        self.diagonal, self.base = self.diagonal[places], base
        self.s, self.y, self.base_s = self.s[:, places], self.y[:, places], self.base_s[:, places]
        self.q, self.q_hat = self.q[places], self.q_hat[places]

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


def submatrix(matrix: NDArray[np.float32], places: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return some rows and the same columns of a square matrix, a few rows at a time, which stay in the cache."""
    part = np.empty((places.size, places.size), matrix.dtype)
    for first in range(0, places.size, FEW_ROWS):
        rows = slice(first, first + FEW_ROWS)
        matrix[places[rows]].take(places, axis=1, out=part[rows], mode="clip")  # without a copy of `out`
    return part


class Metric:
    """B0: where it comes from, and when it is formed anew.

    refresh : steps between two of them within an epoch
    uses_curvature : whether it asks points for theirs
    is_measured : whether B0 is curvature at the point, which may be damped by other curvatures and grows old
    is_full : whether B0 knows how coordinates depend on each other
    """

    refresh: int
    uses_curvature: ClassVar[bool] = True
    is_measured: ClassVar[bool] = True
    is_full: ClassVar[bool] = False

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the diagonal of B0, (n,), and, where it is more, the matrix; n_passes : of the run so far."""
        raise NotImplementedError

    def renew(
        self, metric: CompactBFGS, active: ScreenedPoint, constants: Constants, n_passes: float
    ) -> None:
        """Put another B0 below the secant pairs."""
        metric.rebase(*self.base(active, constants, n_passes))

    def for_samples(self, constants: Constants) -> Metric:
        """Return the metric for the samples of a warm start, as rough as they are."""
        return self


@dataclass(frozen=True)
class Identity(Metric):
    """The paper's B0 = gamma I, gamma = y's / s's of the newest pair, 1 without one (section 2.1; lines 3 and 40)."""

    uses_curvature: ClassVar[bool] = False
    refresh: ClassVar[int] = 1  # type: ignore[misc]
    is_measured: ClassVar[bool] = False

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return gamma = 1 (line 3)."""
        return np.ones(active.coords.size), NO_MATRIX

    def renew(
        self, metric: CompactBFGS, active: ScreenedPoint, constants: Constants, n_passes: float
    ) -> None:
        """Take the newest gamma (line 40)."""
        metric.rescale()


@dataclass(frozen=True)
class Diagonal(Metric):
    """The Hessian's diagonal as if positions were independent, renewed after `refresh` steps of an epoch."""

    refresh: int = 20

    def __post_init__(self) -> None:
        check_numbers(self, 1, "refresh")

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the curvature, not quite 0 anywhere."""
        floor = constants.floor * least_scale(active)
        return active.point.curvature(active.coords).diagonal + floor, NO_MATRIX


@dataclass(frozen=True)
class TokenWise(Metric):
    """The Hessian without the covariance between positions.

    n_positions : number of sampled positions
    max_dense : the largest active set with a dense matrix (n^2 float32: 144 MB); beyond, the matrix is sparse if few
        active features meet, or else B0 is the diagonal
    refresh : steps between two metrics within an epoch: 20 to 40 were equally good, 8 cost time
    growing_share : share of these positions for a sparse matrix while coordinates wait outside the active set
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
                f"growing_share: expected a number above 0, at most 1, got {self.growing_share!r}"
            )

    def base(self, active: ScreenedPoint, constants: Constants, n_passes: float) -> tuple[Vector, Matrix]:
        """Return the matrix, dense or sparse, or the diagonal where it would be too large."""
        floor, share = constants.floor * least_scale(active), self.growing_share if active.is_growing else 1.0
        # None where it would be too large, or still dearer than all passes so far.
        matrix = active.point.hessian_model(active.coords, self.n_positions, self.max_dense, share, n_passes)
        if matrix is None:
            return active.point.curvature(active.coords).diagonal + floor, NO_MATRIX
        diagonal = matrix.diagonal() + floor
        add_to_diagonal(matrix, floor)
        return diagonal, matrix

    def for_samples(self, constants: Constants) -> TokenWise:
        return replace(self, n_positions=min(self.n_positions, constants.sampled_positions))


def least_scale(active: ScreenedPoint) -> Vector:
    """Return the scale of the least curvature that counts, (n,): max x^2, or less where l1 is weak.

    A non-zero weight has |sum_t x_t (p_t - y_t)| = l1 at the optimum, and hence a curvature of about l1 max |x| where
    the fit is nearly without an error: what is added to the metric must not be more.
    """
    scale, radius = active.point.objective.feature_scale(active.coords), active.penalty.min_threshold
    return np.minimum(scale, radius * np.sqrt(scale)) if radius > 0 else scale
