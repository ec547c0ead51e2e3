"""Protocols of losses of the scores, and the evaluation of one: values, derivatives, dual loss.

Shapes: I items, N positions, K states, E edge weights; scores and residual float64 (K, N), edges float64 (E,), weights
of the items float64 (I,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.threads import Pool

NO_EDGES = np.empty(0)


class DualLoss(Protocol):
    """The dual loss along the mixtures that a point proves bounds with; those of parts of the items add up."""

    def value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""

    def __add__(self, other: Any) -> Any: ...

    def around(self, fixed: float) -> Self:
        """Return the dual loss where fixed scores are added to those of the weights; fixed: <residual, fixed scores>.

        The loss is sup_q <q - y, scores> - conjugate(q), so its dual gains <q - y, fixed scores>.
        """


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss at some scores; a loss may know more, in a subclass of its own.

    Attributes
    ----------
    item_losses : float64 (I,), unweighted, in nats
    residual : float64 (K, N): the weighted derivative by the node scores
    edge_residual : float64 (E,): the weighted derivative by the edge scores
    """

    item_losses: Vector
    residual: Vector
    edge_residual: Vector


class ScoreLoss(Protocol):
    """A loss of the scores that knows its labels, but no weights and no features; convex unless `is_convex` is False.

    Only some losses have more: a `MarginLoss` its margins, a `Likelihood` probabilities, the hinges second derivatives,
    `curvature` and `mixed`.
    """

    @property
    def n_states(self) -> int: ...

    @property
    def n_edges(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_positions(self) -> int: ...

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> ScoreLoss:
        """Return the loss of some items, of their positions, cut at new offsets."""

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> Evaluation:
        """Return the loss and its derivatives: the one pass over the scores that a point costs."""

    def dual(self, evaluation: Any, weights: Vector) -> DualLoss:
        """Return the dual loss of an evaluation with the same weights."""


class AnchoredLoss(ScoreLoss, Protocol):
    """A loss that bounds intercepts by the losses of single items (`reach.py`)."""

    def leads(self, losses: Vector, rest: Vector, x: Vector) -> Vector:
        """Return bounds on differences of intercepts, each the least that a position proves.

        Parameters
        ----------
        losses : the most that the loss of each position's item can be, unweighted, infinite for items without weight
        rest : the most that other weights can change the difference of two labels' scores, each position
        x : the value of the constant feature; all (N,)
        """

    def reach(self, table: Vector, step: float) -> float:
        """Return a bound on |b| at some optimum from the least `leads`.

        step : the largest (1 + rest) / x, infinite where an x is not positive.
        """


class MarginLoss(ScoreLoss, Protocol):
    """A loss of single positions that row descent can follow by its margins.

    Attributes
    ----------
    code : which of the kernels' losses it is (`kernels/margins.py`)
    labels : int32 (N,), zeros where positions have sets of labels
    """

    code: int

    @property
    def labels(self) -> Labels: ...

    def margins(self, scores: Vector) -> Vector:
        """Return the margins that the kernels keep up to date, (N, K)."""

    def score_bounds(self) -> Vector:
        """Return the largest eigenvalue that the Hessian by a position's scores may have, unweighted, (N,)."""

    def constants(self, features, weights: Vector) -> Vector:  # type: ignore[no-untyped-def]
        """Return a Lipschitz constant of each feature's row of the gradient, (F,); features: a `FeatureMap`."""
