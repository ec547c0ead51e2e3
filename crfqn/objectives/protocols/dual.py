"""Views of the dual variables of the items."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.objectives.protocols.objective import Point


class ItemSweep(NamedTuple):
    """Findings of a sweep over items with dual variables.

    violation : the largest v_i met (equation 5); gap : the sum of the items' parts of the duality gap, each when it was
    visited; n_updates; slacks : float64 (items,), how far each that is at a vertex is from leaving it, -inf for others
    """

    violation: float
    gap: float
    n_updates: int
    slacks: Vector


class Certified(NamedTuple):
    """The objective at the weights, a lower bound on the optimum, and what a sweep without updates has met."""

    value: float
    dual_value: float
    seen: ItemSweep


class DualBlocks(Protocol):
    """Dual variables of the items, a block each, and scores that follow every change of one.

    Attributes
    ----------
    items : int64, the items that count
    n_variables : int, of the items that count
    alpha : float64 (N, K), the dual variables
    """

    items: NDArray[np.int64]

    @property
    def n_variables(self) -> int: ...

    @property
    def alpha(self) -> Vector: ...

    def sweep(self, order: NDArray[np.int64]) -> ItemSweep:
        """Solve the sub-problem of one item after another."""

    def certify(self, order: NDArray[np.int64]) -> Certified:
        """Evaluate both objectives at the present variables, made feasible, with scores made anew of them.

        order : of all items
        """

    def point(self) -> Point:
        """Return the weights as a point; it is to be read before the next sweep."""


class DualView(Protocol):
    """Dual variables of a loss that is the largest of linear functions, for dual decomposition."""

    def start(self, penalty: Any, method: str, tol: float) -> DualBlocks:
        """Return variables of zero under a penalty l2/2 ||w||^2; method: how sub-problems are solved."""


class Splitting(Protocol):
    """The multiclass hinge h(T x), T x the differences of scores from the label's: for primal-dual splitting.

    h_i(u) = max_k u_k + margin_k is the loss of item i; y, its dual variables, are in (S_c)^I, positive with the sum
    c_i, the weight of the item.

    Attributes
    ----------
    margins : float64 (N, K), r: 1, and 0 at the label; the offset's differences are in it
    weights : float64 (N,), c
    """

    margins: Vector
    weights: Vector

    def norm(self, of: str) -> float:
        """Return ||T|| by a power iteration, or (of="scores") that of the map to the scores themselves."""

    def image(self, coords: Coords, weights: Vector) -> Vector:
        """Return T x, (N, K)."""

    def labels(self) -> Vector:
        """Return the dual variables that are c at the label, (N, K): T'y = 0."""

    def project(self, y: Vector) -> Vector:
        """Return the projection onto (S_c)^I, in place."""

    def point(self, x: SparseWeights, y: Vector) -> Point:
        """Return x as a point whose gradient is T'y; nothing else is known of it."""

    def certified(self, x: SparseWeights, image: Vector, y: Vector, balanced: bool) -> Point:
        """Return x with its loss, and the bound that y proves.

        balanced : move y to where T'y is zero by intercepts, which have no penalty
        """


class SplittingView(Protocol):
    """Primal-dual splitting of a loss without curvature: Algorithm 1 of Chierchia et al. (2015)."""

    def start(self) -> Splitting: ...


class EpigraphSplitting(Splitting, Protocol):
    """The multiclass hinge under a bound eta on its sum, split into epigraphs and a half-space.

    Attributes
    ----------
    bound : float, eta
    """

    bound: float

    def project_budget(self, losses: Vector) -> Vector:
        """Return the projection onto V = {sum_i c_i loss_i <= eta}, (N,)."""

    def project_epigraphs(self, y: Vector, losses: Vector) -> tuple[Vector, Vector]:
        """Return the projection of (y_i, losses_i) onto the epigraph of h_i for each item."""

    def excess(self, image: Vector) -> float:
        """Return how far the loss at T x is above eta, as a share of it."""

    def priced(self, x: SparseWeights, y: Vector, xi: Vector, balanced: bool) -> Point:
        """Return x with the bound that y and xi prove: xi by one price mu of a unit of loss, y within (S_mu c)^I."""


class EpigraphView(Protocol):
    """Primal-dual splitting under a bound on the loss: Algorithm 2 of Chierchia et al. (2015)."""

    def start(self) -> EpigraphSplitting: ...


class FrankWolfeState(Protocol):
    """Dual variables of the items under a structured hinge, and the weights that they make.

    Attributes
    ----------
    n_items : int, the items whose weight is not 0
    gaps : float64 (n_items,), each item's part of the duality gap when it was last visited, infinite before
    """

    @property
    def n_items(self) -> int: ...

    @property
    def gaps(self) -> Vector: ...

    def visit(self, order: NDArray[np.int64], moves: bool = True) -> None:
        """Measure the gaps of the items `order`, numbers below `n_items`, and take a step on each if asked."""

    def dual_value(self) -> float:
        """Return the lower bound on the optimum that the variables prove."""

    def point(self, is_averaged: bool) -> Point:
        """Return the point of the weights, or of their weighted average over the steps; it is lazy."""


class FrankWolfeView(Protocol):
    """Dual variables of a structured hinge, for block-coordinate Frank-Wolfe."""

    def start(self, penalty: Any) -> FrankWolfeState:
        """Return variables that expect what is observed, and so weights of 0, under a penalty l2/2 ||w||^2."""
