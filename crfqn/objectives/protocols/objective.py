"""Objectives, points and rays: all that every solver may count on."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

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
