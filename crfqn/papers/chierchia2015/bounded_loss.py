"""A bound on the loss in the place of a penalty's strength: minimise the penalty subject to loss(w) <= eta.

Chierchia et al. (2015), equation 8. `BoundedLoss` is what an estimator trains on under `loss_bound=eta`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.kernels.projection import PIVOT, simplex_rows
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.point import Point
from crfqn.objectives.support import Support
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
from crfqn.projections import project_halfspace
from crfqn.threads import Pool


@dataclass(frozen=True)
class LossBudget:
    """V = {losses: sum_i weight_i loss_i <= bound}, a half-space (equation 13).

    Parameters
    ----------
    bound : float > 0, eta, in the unit of the loss summed over the items
    """

    bound: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"bound: expected a finite number > 0, got {self.bound!r}")

    def project(self, losses: Vector, weights: Vector) -> Vector:
        """Return the nearest losses within the bound."""
        return project_halfspace(losses, weights, self.bound)

    def excess(self, total: float) -> float:
        """Return max(sum - bound, 0) / bound of a weighted sum of losses."""
        return max(total - self.bound, 0.0) / self.bound


class BoundedObjective(Objective):
    """The indicator of {w: loss(w) <= eta}: 0 there, infinite elsewhere, without gradients. The penalty is minimised,
    and the indicator replaces the loss."""

    has_curvature = is_smooth = has_gram = has_marginals = False

    def __init__(self, objective: Objective, budget: LossBudget) -> None:
        super().__init__(objective.executor)
        self.budget = budget

    def at(self, coords: Coords, weights: Vector) -> BoundedPoint:
        """Return a point with weights only."""
        return BoundedPoint(self, coords, weights)

    def refusal(self, capability: str) -> str:
        """Return why nothing of the kind holds."""
        return "a bound on the loss has values only: it needs the constrained FBPD"

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise UnsupportedObjectiveError but for the state that is made of a bound."""
        if not issubclass(kind, BoundedSplitting):
            raise UnsupportedObjectiveError(
                f"a bound on the loss has no {kind.__name__}: it needs the constrained FBPD"
            )
        kind.check(self)

    def sample(self, stride: int) -> Any:
        """Raise an error: a bound on the loss of all items is none for some of them."""
        raise UnsupportedObjectiveError("a bound on the loss of all items has no sample of them")


class BoundedPoint(Point):
    """Weights within the bound, or not: nothing is added to the penalty."""

    value: Any = 0.0

    @property
    def whole(self) -> Any:  # type: ignore[override]
        """Raise an error: an indicator has no gradient."""
        raise UnsupportedObjectiveError("a bound on the loss has no gradient: it needs the constrained FBPD")


class BoundedSplitting(HingeSplitting):
    """The multiclass hinge under a bound eta on its sum, split into epigraphs and a half-space."""

    objective: BoundedObjective

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError for a loss without a bound, too."""
        if not isinstance(objective, BoundedObjective):
            raise UnsupportedObjectiveError(
                f"{cls.__name__} is kept for a bound on the loss; the objective is the loss"
            )
        super().check(objective)

    def excess(self, image: Vector) -> float:
        """Return how far the loss at T x is above eta, as a share of it."""
        return self.objective.budget.excess(float(self.weights @ self.losses(image)))

    def priced(self, x: SparseWeights, y: Vector, xi: Vector, balanced: bool) -> Point:
        """Return x with the dual bound at the multiplier mu that is nearest to -xi: <r, y> - mu eta - g*(-T'y). Its
        loss is given as eta, an upper bound at an optimum."""
        price = max(float(-xi @ self.weights) / float(self.weights @ self.weights), 0.0)
        masses, y = price * self.weights, y.copy()
        simplex_rows(y, masses, PIVOT, 0.0, y)
        y = self._balanced(y, masses) if balanced else y
        slope = float(np.vdot(self.required_margins, y)) - price * self.objective.budget.bound
        most = np.full(self._items.size, self.objective.budget.bound / self.weights.sum())
        return self.point(x, y, most, slope)


@dataclass(frozen=True, eq=False)
class BoundedLoss:
    """Items whose loss is bounded, and not minimised; source : `crfqn.estimators.problem.InMemory`."""

    source: Any
    bound: float

    def objective(self, support: Support | None, pool: Pool) -> BoundedObjective:
        """Return the indicator of weights whose loss is within the bound."""
        return BoundedObjective(self.source.objective(support, pool), LossBudget(self.bound))
