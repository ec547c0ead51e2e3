"""A bound on the curvature of the loss that holds at all weights: for methods with a fixed step.

A loss says its part, c_t for each position (`ScoreLoss.hessian_bounds`). Shapes: N positions, F features.

The Gram matrix M = sum_t c_t x_t x_t', for steps in its metric (Agarwal et al. 2014), is the paper's L Sigma as a sum
over the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from crfqn.arrays import Vector
from crfqn.errors import ViewError
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.linear.gram import check_width
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import GramView
from crfqn.objectives.registry import offers


def lipschitz_bound(objective: Objective) -> float:
    """Return a bound on the largest eigenvalue of the Hessian that holds at all weights.

    Of losses of single positions it is that of sum_t c_t x_t x_t', c_t = weight_t times the loss's own bound: of the
    multiclass squared hinge 2 K ||X||_2^2, where the global constant of Blondel et al. (2013), appendix A, is
    4 (K - 1) sum_tj x_tj^2.
    """
    per_position, edges = objective.loss.hessian_bounds(objective.weights)
    return max(objective.map.eigenvalue_bound(per_position), edges)


@dataclass(frozen=True)
class Gram:
    """The bound of an objective.

    Attributes
    ----------
    parts : returns those that it is the sum over; n_features : F
    """

    parts: Callable[[], Iterable[Objective]]
    n_features: int

    def matrix(self) -> Vector:
        """Return the matrix, float64 (F, F)."""
        check_width(self.n_features)
        total = None
        for part in self.parts():
            own = part.map.gram(part.loss.hessian_bounds(part.weights)[0])
            total = own if total is None else total + own
        assert total is not None  # there is a part
        return total


def check_coordinates(objective: Objective | BlockedObjective) -> None:
    """Refuse weights that are not all of every state's features."""
    if not objective.support.is_everything or objective.support.n_edges:
        raise ViewError("a GramView needs a weight for every state and feature, and no edges")


@offers(GramView, Objective)
def gram_of(objective: Objective) -> Gram:
    """Return the bound of an objective in one piece."""
    check_coordinates(objective)
    if not objective.loss.is_smooth:
        raise ViewError(
            f"a GramView needs a loss with a bounded Hessian; {type(objective.loss).__name__} has none"
        )
    return Gram(lambda: [objective], objective.map.n_features)


@offers(GramView, BlockedObjective)
def gram_of_blocks(objective: BlockedObjective) -> Gram:
    """Return the sum of the parts' bounds."""
    check_coordinates(objective)
    return Gram(lambda: objective.parts, objective.parts[0].map.n_features)
