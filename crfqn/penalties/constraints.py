"""Constraints: convex sets beside the penalties, each with its projection.

Shapes: I items; losses, weights float64 (I,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.projections import project_halfspace


@dataclass(frozen=True)
class LossBudget:
    """V = {losses: sum_i weight_i loss_i <= bound}, a half-space (Chierchia et al. 2015, equation 13).

    Parameters
    ----------
    bound : float > 0, eta, in the unit of the loss summed over the items
    """

    bound: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"bound: expected a finite number > 0, got {self.bound!r}")

    def project(self, losses: Vector, weights: Vector) -> Vector:
        """Return the nearest losses within the budget."""
        return project_halfspace(losses, weights, self.bound)

    def excess(self, total: float) -> float:
        """Return how far a weighted sum of losses is above the budget, as a share of it."""
        return max(total - self.bound, 0.0) / self.bound
