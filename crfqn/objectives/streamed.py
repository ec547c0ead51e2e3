"""The sum of a loss over blocks of items that are made anew in every pass: for data larger than memory.

One pass over the blocks gives value, gradient and dual loss of a point; a block is gone when the next one is read. What
stays is a number or two for each item and state, and what belongs to all weights. It is for methods that keep all
weights and few points, and has no views but the Gram matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.objectives.linear.coordinates import merge_weights
from crfqn.objectives.losses.score_loss import DualLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.registry import make_view

V = TypeVar("V")


@dataclass(eq=False)
class StreamedObjective:
    """A sum of objectives over the same weights, without edges.

    Parameters
    ----------
    blocks : returns the objectives one after the other, the same ones at each call
    n_states, n_features : K and F
    """

    blocks: Callable[[], Iterator[Objective]]
    n_states: int
    n_features: int
    n_passes: float = field(default=0.0, init=False)

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex."""
        return True

    @property
    def n_coords(self) -> int:
        """K F."""
        return self.n_states * self.n_features

    def all_coords(self) -> Coords:
        """Return every coordinate."""
        return np.arange(self.n_coords)

    def at(self, coords: Coords, weights: Vector) -> StreamedPoint:
        """Evaluate at the sparse weights (sorted coordinates, values), when something is asked for."""
        return StreamedPoint(self, coords, weights)

    def view(self, kind: type[V]) -> V:
        """Return what a family of solvers needs besides, or raise ViewError."""
        return make_view(kind, self)


class Sums(NamedTuple):
    """What one pass gives: the loss, the gradient at all coordinates, (K F,), the dual loss."""

    value: float
    gradient: Vector
    dual: DualLoss


@dataclass(eq=False)
class StreamedPoint:
    """The loss at sparse weights; the pass that it costs waits until somebody asks."""

    objective: StreamedObjective
    coords: Coords
    weights: Vector

    @cached_property
    def sparse_weights(self) -> SparseWeights:
        """The weights."""
        return SparseWeights.without_zeros(self.coords, self.weights)

    @cached_property
    def sums(self) -> Sums:
        """The one pass over the blocks."""
        owner, everything = self.objective, self.objective.all_coords()
        owner.n_passes += 1
        value, gradient, dual = 0.0, np.zeros(owner.n_coords), None
        for block in owner.blocks():
            point = block.at(self.coords, self.weights)
            value += point.value
            gradient += point.gradient(everything)
            dual = point.dual if dual is None else dual + point.dual
        assert dual is not None  # there are items
        return Sums(value, gradient, dual)

    @property
    def value(self) -> float:
        """The loss."""
        return self.sums.value

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives at `coords`."""
        return self.sums.gradient[coords]

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables."""
        return self.sums.dual.value(scale)

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""
        return self.objective.view(kind).at(self)

    def along(self, coords: Coords, direction: Vector) -> StreamedRay:
        """Return the ray w + step * direction."""
        return StreamedRay(self, coords, direction)


@dataclass(eq=False)
class StreamedRay:
    """A point and a direction."""

    origin: StreamedPoint
    coords: Coords
    direction: Vector

    def at(self, step: float) -> Any:
        """Return the point w + step * direction."""
        start = self.origin
        found = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return start.objective.at(*found)
