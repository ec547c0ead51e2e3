"""A bound on the loss in the place of the loss: the penalty alone is minimised (Chierchia et al. 2015, equation 8)."""

from __future__ import annotations

from typing import Any, TypeVar

from crfqn.arrays import Coords, Vector
from crfqn.errors import ViewError
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import LazyPoint
from crfqn.objectives.protocols import UnpenalisedReachView
from crfqn.objectives.registry import MethodState
from crfqn.penalties.penalty import LossBudget

V = TypeVar("V")


class BoundedObjective(Objective):
    """The indicator of {w: loss(w) <= eta}: 0 there, infinite elsewhere, without gradients.

    Parameters
    ----------
    objective : Objective, the loss
    budget : LossBudget
    """

    def __init__(self, objective: Objective, budget: LossBudget) -> None:
        super().__init__(
            objective.map, objective.loss, objective.weights, objective.support, objective.offset
        )
        self.budget, self.loss_objective = budget, objective

    @property
    def parts(self) -> list[Objective]:  # type: ignore[override]
        """The loss itself."""
        return [self.loss_objective]

    def at(self, coords: Coords, weights: Vector) -> BoundedPoint:  # type: ignore[override]
        """Return a point of which only the weights are known."""
        return BoundedPoint(self.loss_objective, coords, weights)

    def view(self, kind: type[V]) -> V:
        """Return the one view that a bound has, or raise ViewError."""
        if kind is not UnpenalisedReachView:
            raise ViewError(f"a bound on the loss has no {kind.__name__}: it needs the constrained FBPD")
        return super().view(kind)

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise ViewError but for the state that is made of a bound."""
        if not kind.is_constrained:
            raise ViewError(f"a bound on the loss has no {kind.__name__}: it needs the constrained FBPD")
        kind.check(self)

    def sample(self, stride: int) -> Any:
        """Refuse: a bound on the loss of all items says nothing of some."""
        raise ViewError("a bound on the loss of all items has no sample of them")


class BoundedPoint(LazyPoint):
    """Weights within the bound, or not."""

    @property
    def value(self) -> float:  # type: ignore[override]
        """Nothing is added to the penalty."""
        return 0.0

    @property
    def _whole(self) -> Any:  # type: ignore[override]
        """Refuse to evaluate: an indicator has no gradient."""
        raise ViewError("a bound on the loss has no gradient: it needs the constrained FBPD")
