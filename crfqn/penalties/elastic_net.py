"""The elastic net (Zou and Hastie 2005), l1 |w_j| + l2/2 w_j^2: a penalty without blocks.

Shapes: n coordinates that are passed in as `coords`, sorted int64, with their weights w and gradients g, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.kernels.coordinate_descent import Subproblem, descend
from crfqn.penalties.factors import FeatureFactors
from crfqn.penalties.penalty import NO_RIDGE, LocalPenalty, Penalty, Ridge

# Coordinates of a bound that are summed together: seven temporary arrays of 2 MB, which for all weights of a model
# without zeros would be a third of the memory of its training.
COORDS_PER_BOUND = 1 << 18


@dataclass(frozen=True, eq=False)
class ElasticNet(Penalty):
    """l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but the unpenalised ones.

    Parameters
    ----------
    l1, l2 : float >= 0, in nats a unit of weight: the loss is a sum over items, not a mean.
    unpenalised : sorted ndarray of int64: coordinates without penalty (intercepts).
    ridge : Ridge: coordinates with another L2 term and no L1.
    feature_factors : FeatureFactors, optional: factors of the strengths of weights.
    """

    is_separable = is_row_separable = True

    l1: float = 0.0
    l2: float = 0.0
    unpenalised: Coords = field(default_factory=lambda: NO_COORDS)
    ridge: Ridge = NO_RIDGE
    feature_factors: FeatureFactors | None = field(default=None, kw_only=True)

    def at(self, coords: Coords) -> LocalElasticNet:
        l1 = self.l1_of(coords)
        return LocalElasticNet(l1, l1, self.l2_of(coords))

    def screen(self, point: Any) -> Screening:
        """Return the coordinates that have a weight or |gradient| > l1, and those of the ridge; unpenalised ones may be
        missing."""
        screening = point.screen(self.min_l1)
        if self.feature_factors is not None:
            screening = self._may_move(screening, point)
        return self._with_ridge(screening, point)

    def _iter_local(self, coords: Coords) -> Iterator[tuple[slice, LocalElasticNet]]:
        for first in range(0, max(coords.size, 1), COORDS_PER_BOUND):
            part = slice(first, first + COORDS_PER_BOUND)
            yield part, self.at(coords[part])


@dataclass(frozen=True, eq=False)
class LocalElasticNet(LocalPenalty):
    """The elastic net at n coordinates, which are a block each; threshold : l1."""

    threshold: Vector
    l1: Vector
    l2: Vector

    def dual_norm(self, w: Vector, g: Vector) -> Vector:
        """Return |g| of zeros, infinite for other weights, (n,)."""
        return np.where(w != 0, np.inf, np.abs(g))

    def value(self, w: Vector) -> float:
        return float(self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v 1/2 ||v - w||^2 + step * penalty(v): soft-threshold, then scale."""
        return np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) / (1.0 + step * self.l2)

    def violation(self, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, by coordinate, (n,) (Zhong et al., equation 16)."""
        slope = g + self.l2 * w
        return np.where(
            w != 0, np.abs(slope + np.sign(w) * self.l1), np.maximum(np.abs(slope) - self.l1, 0.0)
        )

    def largest_violation(self, w: Vector, g: Vector) -> float:
        return float(self.violation(w, g).max(initial=0.0))

    def conjugate(self, g: Vector) -> float:
        """Return the conjugate at -g; infinite if |g| exceeds l1 at a coordinate without l2."""
        if not self.l1.any() and self.l2.all():
            return 0.5 * float(g @ (g / self.l2))
        excess = np.maximum(np.abs(g) - self.l1, 0.0)
        excess[excess <= 1e-14 * self.l1] = 0.0  # rounding of the scale by which the gradient was multiplied
        if np.any((self.l2 == 0) & (excess > 0)):
            return np.inf
        return float(np.sum(excess**2 / np.where(self.l2 > 0, 2 * self.l2, 1.0)))

    def largest_scale(self, g: Vector) -> float:
        """Return the largest s <= 1 with which s g is feasible; 0 if only 0 is."""
        above = (np.abs(g) > self.l1) & ((self.l1 > 0) | (self.l2 == 0))  # l2 alone bounds nothing
        bounds = np.where(self.l1[above] > 0, self.l1[above], np.nan)
        largest_ratio = float(np.max(np.abs(g[above]) / bounds, initial=1.0))
        return 1.0 / largest_ratio if np.isfinite(largest_ratio) else 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient (n,) at weights that are not zero unless they are unpenalised."""
        return np.sign(w) * self.l1 + self.l2 * w

    def hessian_times(self, w: Vector, d: Vector) -> Vector:
        """Return the Hessian at such weights times a direction, (n,)."""
        return self.l2 * d

    def descend(self, problem: Subproblem, d: Vector, base_d: NDArray[np.float32]) -> int:
        """Minimise the quadratic model over d, by coordinate; returns the number of sweeps. Parameters as of
        `kernels.coordinate_descent.descend`."""
        work = np.empty_like(d), np.empty(problem.model.q.shape[1])
        return descend(problem, self.l1, self.l2, d, base_d, *work)
