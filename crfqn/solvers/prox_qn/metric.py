"""B0, the metric below the secant pairs: gamma I as in the paper, or curvature from the marginals of the point.

All that Prox-QN asks a point about second derivatives is asked here.

Shapes: n active coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from crfqn.errors import InputError
from crfqn.objectives.protocols import CurvatureView
from crfqn.solvers.protocols import Coords, Matrix, Point, Vector
from crfqn.solvers.prox_qn.active_set import ActiveSet
from crfqn.solvers.prox_qn.compact_bfgs import NO_MATRIX, CompactBFGS, add_to_diagonal
from crfqn.solvers.settings import check_numbers

FLOOR = (
    1e-3  # of the curvature, in units of the feature's scale: where every position is decided there is none
)
# Of the sum of |residuals| of a coordinate, in the curvature that it may meet on its way to a fit: 0.1 took LSHTC1 85
# passes to where this takes 30; 1.0 as many.
RESIDUAL_SHARE = 0.6
LEAST_SHARE = (
    0.1  # in units of the feature's scale; with 1e-9, features of decided positions send weights to 1e9
)
WARM_POSITIONS = 600  # of a metric in the warm start; 1,500 took as many passes afterwards


class Metric(Protocol):
    """Settings of B0.

    Attributes
    ----------
    uses_curvature : whether it asks points for theirs
    refresh : steps within an epoch between two metrics
    is_measured : B0 is curvature at the point: it may be damped by other curvatures, and grows old
    is_full : B0 knows how coordinates depend on each other
    """

    @property
    def uses_curvature(self) -> bool: ...

    @property
    def refresh(self) -> int: ...

    @property
    def is_measured(self) -> bool: ...

    @property
    def is_full(self) -> bool: ...

    def base(self, active: ActiveSet) -> tuple[Vector, Matrix]:
        """Return B0's diagonal (n,) and, where it is more, the matrix."""
        ...

    def renew(self, metric: CompactBFGS, active: ActiveSet) -> None:
        """Put another B0 below the secant pairs."""
        ...

    def for_samples(self) -> Metric:
        """Return the metric for the samples of a warm start: as rough as they are."""
        ...


@dataclass(frozen=True)
class Identity:
    """The paper's B0 = gamma I, gamma = y's / s's of the newest pair, 1 without one (section 2.1; lines 3 and 40)."""

    uses_curvature: ClassVar[bool] = False
    refresh: ClassVar[int] = 1
    is_measured: ClassVar[bool] = False
    is_full: ClassVar[bool] = False

    def base(self, active: ActiveSet) -> tuple[Vector, Matrix]:
        """Return gamma = 1 (line 3)."""
        return np.ones(active.coords.size), NO_MATRIX

    def renew(self, metric: CompactBFGS, active: ActiveSet) -> None:
        """Take the newest gamma (line 40)."""
        metric.rescale()

    def for_samples(self) -> Identity:
        return self


@dataclass(frozen=True)
class Diagonal:
    """The Hessian's diagonal as if positions were independent: 150 passes to 1e-3 on OCR (l1 = 100).

    Parameters
    ----------
    refresh : int
        Steps between two metrics within an epoch.
    """

    refresh: int = 20
    uses_curvature: ClassVar[bool] = True
    is_measured: ClassVar[bool] = True
    is_full: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_numbers(self, 1, "refresh")

    def base(self, active: ActiveSet) -> tuple[Vector, Matrix]:
        """Return the curvature, not quite 0 anywhere."""
        curvature = active.point.view(CurvatureView)
        return curvature.diagonal(active.coords) + FLOOR * least_scale(active), NO_MATRIX

    def renew(self, metric: CompactBFGS, active: ActiveSet) -> None:
        metric.rebase(*self.base(active))

    def for_samples(self) -> Diagonal:
        return self


@dataclass(frozen=True)
class TokenWise:
    """The Hessian without the covariance between positions: 14 passes to 1e-3 on OCR (l1 = 100), 150 with its diagonal.

    Parameters
    ----------
    n_positions : int
        Positions that are sampled: 1,500 of 47,144 take as many passes as all on OCR, at 1/30 of the time that forming
        the matrix takes.
    max_dense : int
        The largest active set with a dense matrix (n^2 float32: 144 MB); beyond, a sparse one where few active features
        meet, or else the diagonal.
    refresh : int
        Steps between two metrics within an epoch: 20 to 40 were equally good, 8 cost time.
    growing_share : float
        Of the positions of a sparse matrix while coordinates wait to come in: LSHTC1 takes two thirds of the time.
    """

    n_positions: int = 1500
    max_dense: int = 6000
    refresh: int = 20
    growing_share: float = 0.25
    uses_curvature: ClassVar[bool] = True
    is_measured: ClassVar[bool] = True
    is_full: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "n_positions", "refresh")
        check_numbers(self, 0, "max_dense")
        if not 0 < self.growing_share <= 1:
            raise InputError(
                f"growing_share: expected a number above 0, at most 1, got {self.growing_share!r}"
            )

    def base(self, active: ActiveSet) -> tuple[Vector, Matrix]:
        """Return the matrix, dense or sparse, or the diagonal where it would be too large."""
        floor, matrix = FLOOR * least_scale(active), self.matrix(active)
        if matrix is None:
            return active.point.view(CurvatureView).diagonal(active.coords) + floor, NO_MATRIX
        diagonal = matrix.diagonal() + floor
        add_to_diagonal(matrix, floor)
        return diagonal, matrix

    def matrix(self, active: ActiveSet) -> Matrix | None:
        """Return the token-wise model; None where it would be too large."""
        share = self.growing_share if active.is_growing else 1.0
        curvature = active.point.view(CurvatureView)
        return curvature.matrix(active.coords, self.n_positions, self.max_dense, share)

    def renew(self, metric: CompactBFGS, active: ActiveSet) -> None:
        metric.rebase(*self.base(active))

    def for_samples(self) -> TokenWise:
        return replace(self, n_positions=min(self.n_positions, WARM_POSITIONS))


def least_scale(active: ActiveSet) -> Vector:
    """Return the scale of the least curvature that counts, (n,): max x^2, or less where l1 is weak.

    A non-zero weight has |sum_t x_t (p_t - y_t)| = l1 at the optimum, and hence a curvature of about l1 max |x| where
    the fit is nearly without an error: what is added to the metric must not be more.
    """
    scale, radius = active.point.view(CurvatureView).feature_scale(active.coords), active.penalty.dual_radius
    return np.minimum(scale, radius * np.sqrt(scale)) if radius > 0 else scale


def majorant_curvature(active: ActiveSet) -> Vector:
    """Measure the curvature that each coordinate may meet on its way to a fit, (n,): a sweep over active columns."""
    curvature = active.point.view(CurvatureView)
    return RESIDUAL_SHARE * curvature.majorant(active.coords) + LEAST_SHARE * least_scale(active)


def curvature_at_entry(point: Point, coords: Coords) -> Vector:
    """Return the curvature by which coordinates that may come in are compared, (n,)."""
    curvature = point.view(CurvatureView)
    return curvature.diagonal(coords) + curvature.feature_scale(coords)
