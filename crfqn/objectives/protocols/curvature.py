"""Views of curvature: models of the Hessian, Lipschitz bounds, Gram matrices."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector

Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows


class Curvature(Protocol):
    """Models of the Hessian at a point, by coordinates."""

    def diagonal(self, coords: Coords) -> Vector:
        """Return the diagonal of the token-wise model."""

    def majorant(self, coords: Coords) -> Vector:
        """Return how much curvature a coordinate may meet on its way to a fit."""

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature, max x^2."""

    def matrix(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Matrix | None:
        """Return the token-wise model from about n_sampled positions; None where it would be too large."""


class CurvatureView(Protocol):
    """Second-order information, for quasi-Newton metrics."""

    def at(self, point: Any) -> Curvature: ...


class LipschitzView(Protocol):
    """A bound on the curvature that holds at all weights, for constant steps."""

    def bound(self) -> float:
        """Return at least the largest eigenvalue of the Hessian."""


class GramView(Protocol):
    """A matrix over the features that bounds the Hessian everywhere, for steps in its metric.

    Attributes
    ----------
    n_features : F; coordinates are those of K states with F features each, and there are no others
    """

    n_features: int

    def matrix(self) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M."""
