"""A bound on the curvature of the loss that holds at all weights: for methods with a fixed step.

The score of a labelling is a sum of n terms, one for each position and each transition of the item, and the variance of
a sum of n numbers is at most n times the sum of their variances. The score of a term is an entry of a vector a (a
position's states, or all transitions) or the sum of at most L entries (a node of a taxonomy and its ancestors), and
its variance is at most L/2 ||a||^2. Hence, with c_t = weight of the item * n_t * L / 2, everywhere

    Hessian <= I_K (x) X' diag(c) X   for the nodes,   sum_i c_i (T_i - 1)   for the edges.

The Hessian of a partial likelihood is the difference of two such matrices: no eigenvalue is larger in size.

Shapes: I items of T_i positions, N positions, F features, K states.

The Gram matrix M = sum_t c_t x_t x_t', for steps in its metric (Agarwal et al. 2014), is the paper's L Sigma as a sum
over the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from crfqn.arrays import Vector
from crfqn.errors import ViewError
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.linear.gram import check_width
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.partial_likelihood import PartialLikelihood
from crfqn.objectives.losses.score_loss import MarginLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import GramView
from crfqn.objectives.registry import offers


def lipschitz_bound(objective: Objective) -> float:
    """Return a bound on the largest eigenvalue of the Hessian that holds at all weights.

    Of losses of single positions it is that of sum_t c_t x_t x_t', c_t = weight_t times the loss's own bound: of the
    multiclass squared hinge 2 K ||X||_2^2, where the global constant of Blondel et al. (2013), appendix A, is
    4 (K - 1) sum_tj x_tj^2.
    """
    per_position, edges = hessian_bounds(objective)
    return max(objective.map.eigenvalue_bound(per_position), edges)


def hessian_bounds(objective: Objective) -> tuple[Vector, float]:
    """Return c, (N,), and the bound for the edges: at all weights Hessian <= I_K (x) X' diag(c) X, and that."""
    loss, weights = objective.loss, objective.weights
    if not isinstance(loss, (Likelihood, PartialLikelihood)):
        return weights * cast(MarginLoss, loss).score_bounds(), 0.0
    lengths, n_edges = np.diff(objective.map.offsets), loss.n_edges
    n_terms = np.maximum(2 * lengths - 1, 1) if n_edges else lengths
    depth = int(np.diff(loss.structure.ancestors.indptr).max(initial=1))
    per_item = 0.5 * depth * n_terms * weights
    edges = float(per_item @ np.maximum(lengths - 1, 0)) if n_edges else 0.0
    return np.repeat(per_item, lengths), edges


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
            own = part.map.gram(hessian_bounds(part)[0])
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
    if not hasattr(objective.loss, "score_bounds") and not hasattr(objective.loss, "structure"):
        raise ViewError(
            f"a GramView needs a loss with a bounded Hessian; {type(objective.loss).__name__} has none"
        )
    return Gram(lambda: [objective], objective.map.n_features)


@offers(GramView, BlockedObjective)
def gram_of_blocks(objective: BlockedObjective) -> Gram:
    """Return the sum of the parts' bounds."""
    check_coordinates(objective)
    return Gram(lambda: objective.parts, objective.parts[0].map.n_features)
