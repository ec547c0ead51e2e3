"""Protocols of objectives, points, rays and views: all that solvers, penalties and wrappers know of a problem.

Every solver may count on an `Objective`, its `Point`s and `Ray`s: that is all that a remote objective has to send over
a wire. Further questions about a problem are *views*, asked for by their type:

    curvature = objective.view(CurvatureView).at(point)

What one method keeps over the items is a *state*, asked for by its class. An objective refuses what it has not with a
`ViewError`; a solver names what it `requires`, and `minimize` asks for it before the first step.

Shapes: I items, N positions, F features, K states; coordinates as in `linear/coordinates.py`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.errors import ViewError
from crfqn.objectives.operations import Operations
from crfqn.objectives.registry import MethodState

V = TypeVar("V")
S = TypeVar("S", bound=MethodState)


class Point(Protocol):
    """An evaluated w: the loss and its derivatives, from one pass over the data."""

    coords: Coords
    weights: Vector

    @property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point: it is as large as the data."""

    @property
    def value(self) -> float: ...

    def gradient(self, coords: Coords) -> Vector: ...

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return the rows with || max(|gradient| - inside, 0) || > bound and the point's own, whole; perhaps others."""

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""


class Ray(Protocol):
    """A point and a direction."""

    def at(self, step: float) -> Point: ...


class Objective(Protocol):
    """A loss over sparse weights.

    Attributes
    ----------
    n_passes : float, inference passes over the data so far
    pool : the threads, for the penalty's part of a step
    n_coords, n_node_coords : int, the weights there may be, and K F of them or fewer
    mean_occurrence : float, the positions that have a feature, on average over the features
    total_weight : float, the sum of the items' weights
    is_convex : bool; of a loss that is not, nothing is proved or estimated, and its runs end at stationary points
    operations : Operations, what a pass takes
    """

    n_passes: float
    pool: Any

    @property
    def n_coords(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_positions(self) -> int: ...

    @property
    def n_node_coords(self) -> int: ...

    @property
    def mean_occurrence(self) -> float: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def is_convex(self) -> bool: ...

    @property
    def operations(self) -> Operations: ...

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at sparse weights (sorted coordinates, values)."""

    def all_coords(self) -> Coords:
        """Return every coordinate that may have a weight, sorted: for methods that keep all of them."""

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item: the same coordinates, about 1 / stride of the value."""

    def view(self, kind: type[V]) -> V:
        """Return what a family of solvers needs besides, or raise `ViewError`."""

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise `ViewError` unless a method's state can be made over the items."""

    def state(self, kind: type[S], *arguments: Any) -> S:
        """Return what a method keeps over the items, or raise `ViewError`."""


def has_state(objective: Objective, kind: type[MethodState]) -> bool:
    """Return whether a method's state can be made of an objective."""
    try:
        objective.check_state(kind)
    except ViewError:
        return False
    return True


def has_view(objective: Objective, kind: type) -> bool:
    """Return whether an objective has a view."""
    try:
        objective.view(kind)
    except ViewError:
        return False
    return True


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


class ZeroProofView(Protocol):
    """Ranges within which gradients can move, for proofs that zeros are zeros of the optimum."""

    def range_of(self, coords: Coords) -> Vector:
        """Return sqrt(sum_i weight_i r_ij^2), r_ij how far the count of j can move within item i."""

    def count_within(self, point: Any, bound: float, scale: float, radius: float) -> int:
        """Count the coordinates j with scale |g_j| + radius spread_j < bound."""


class ItemMixtures(Protocol):
    """Mixtures s_i p_i + (1 - s_i) delta(y_i) of a point's distributions with the observed labels, a share an item."""

    def start(self) -> Any:
        """Return the state of the kernels in which all shares are 1."""

    def entries(self, coords: Coords) -> float:
        """Return the size of the parts of some coordinates, as a share of what is allowed."""

    def parts(self, coords: Coords) -> Any:
        """Return each item's part of the gradient by sorted coordinates, compressed by coordinate."""

    def dual_value(self, shares: Vector) -> float:
        """Return the dual loss of the mixtures."""

    def at_shares(self, shares: Vector) -> Any:
        """Return the point with the gradient of the mixtures."""


class ItemMixturesView(Protocol):
    """Dual points with a share for each item."""

    def at(self, point: Any) -> ItemMixtures: ...


class UnpenalisedReachView(Protocol):
    """Bounds on weights without penalty at an optimum, for dual points whose gradient there is not 0."""

    def at(self, point: Any) -> UnpenalisedReachView:
        """Return itself: the bounds are those of an optimum, whatever the point."""

    def reach(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on the unpenalised weights of some optimum, infinite where there is none.

        Parameters
        ----------
        value : the objective at any point, in nats: no item's loss at an optimum can be more
        norms : bounds on the sums of the penalised weights' sizes and on the root of the sum of their squares
        """
