"""What a solver may know of the problem: an objective, its points and rays, and a penalty.

A solver cannot know whether it trains a chain, a taxonomy or a flat classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Coords = NDArray[np.int64]
Vector = NDArray[np.float64]
Weights: TypeAlias = tuple[Coords, Vector]  # sparse: sorted coordinates and their values
Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows


class Screening(Protocol):
    """Coordinates with |gradient| above a threshold."""

    @property
    def coords(self) -> Coords: ...

    @property
    def gradient(self) -> Vector: ...


class SparseWeights(Protocol):
    """Sparse weights; they may be listed when they are asked for."""

    @property
    def coords(self) -> Coords: ...

    @property
    def weights(self) -> Vector: ...

    @property
    def n_nonzero(self) -> int: ...


class Point(Protocol):
    """An evaluated w: the loss and everything that one inference pass tells about it."""

    coords: Coords
    weights: Vector

    @property
    def light(self) -> SparseWeights: ...

    @property
    def value(self) -> float: ...

    def gradient(self, coords: Coords) -> Vector: ...

    def curvature(self, coords: Coords) -> Vector: ...

    def roughness(self, coords: Coords) -> Vector: ...

    def unit(self, coords: Coords) -> Vector: ...

    def token_model(
        self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0
    ) -> Matrix | None: ...

    def screen(self, threshold: float) -> Screening: ...

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening: ...

    def dual_value(self, scale: float) -> float: ...

    def count_within(self, bound: float, scale: float, radius: float) -> int: ...

    def beyond(self, bound: float, scale: float, radius: float, most: int) -> Coords | None: ...

    def along(self, coords: Coords, direction: Vector) -> Ray: ...


class Ray(Protocol):
    """A point and a direction."""

    def at(self, step: float) -> Point: ...


class Objective(Protocol):
    """A loss over sparse weights."""

    n_passes: float
    pool: Any  # of threads, for the penalty's part of a step

    @property
    def n_coords(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_node_coords(self) -> int: ...

    @property
    def mean_occurrence(self) -> float: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def n_positions(self) -> int: ...

    def sample(self, stride: int) -> Objective: ...

    def spread_of(self, coords: Coords) -> Vector: ...

    def at(self, coords: Coords, weights: Vector) -> Point: ...


class Online(Protocol):
    """Dense weights that learn an item at a time, under l1 ||w||_1 + l2/2 ||w||^2 with free coordinates."""

    @property
    def n_items(self) -> int: ...

    @property
    def item_square(self) -> float: ...

    def restart(self, start: Weights) -> None: ...

    def learn(self, order: NDArray[np.int64], eta0: float) -> None: ...

    def weights(self) -> Weights: ...


class OnlineObjective(Objective, Protocol):
    """An objective whose weights may learn item by item."""

    def sample(self, stride: int) -> OnlineObjective: ...

    def online(self, start: Weights, l1: float, l2: float, free: Coords, share: float = 1.0) -> Online: ...


class Blocks(Protocol):
    """A partition of coordinates: block b has those number order[starts[b]] ... order[starts[b + 1] - 1]."""

    @property
    def order(self) -> NDArray[np.int64]: ...

    @property
    def starts(self) -> NDArray[np.int64]: ...

    @property
    def sizes(self) -> NDArray[np.int64]: ...

    def total(self, values: NDArray) -> NDArray: ...

    def largest(self, values: NDArray) -> NDArray: ...

    def spread(self, per_block: NDArray) -> NDArray: ...


class LocalPenalty(Protocol):
    """A penalty at some coordinates: what belongs to the coordinates, but not to the weights, is found once.

    Weights leave zero in `blocks`, all of a block or none. A block of zeros stays where it is while its `pull` is
    below its `bound`; both are told at each of its coordinates, and the pull of other blocks is infinite.
    """

    @property
    def blocks(self) -> Blocks: ...

    @property
    def bound(self) -> Vector: ...

    def pull(self, w: Vector, g: Vector) -> Vector: ...

    def value(self, w: Vector) -> float: ...

    def violation(self, w: Vector, g: Vector) -> Vector: ...

    def largest_violation(self, w: Vector, g: Vector) -> float: ...

    def derivatives(self, w: Vector) -> tuple[Vector, NDArray[np.float64]] | None: ...

    def descend(
        self,
        model: tuple[NDArray, ...],
        damping: Vector,
        g: Vector,
        w: Vector,
        max_sweeps: int,
        tolerance: float,
        d: Vector,
        base_d: NDArray[np.float32],
        pool: Any,
    ) -> int: ...


class Penalty(Protocol):
    """A convex penalty; what depends on which one it is, a solver asks of it.

    `strength` is what the gradient of a zero may be; `screen` finds the blocks that may leave zero, whole, and perhaps
    others. Where `is_separable`, it is a sum over coordinates, l1_of |w_j| + l2_of/2 w_j^2, l1_of = l1 = strength at
    all but the free ones; a solver that relies on this says `needs_separable`.
    """

    @property
    def strength(self) -> float: ...

    @property
    def is_separable(self) -> bool: ...

    @property
    def l1(self) -> float: ...

    @property
    def l2(self) -> float: ...

    @property
    def free(self) -> Coords: ...

    def l1_of(self, coords: Coords) -> Vector: ...

    def l2_of(self, coords: Coords) -> Vector: ...

    def scaled(self, factor: float) -> Penalty: ...

    def at(self, coords: Coords) -> LocalPenalty: ...

    def value(self, coords: Coords, w: Vector) -> float: ...

    def prox(self, coords: Coords, w: Vector, step: float) -> Vector: ...

    def violation(self, coords: Coords, w: Vector, g: Vector) -> Vector: ...

    def screen(self, point: Point) -> Screening: ...

    def conjugate(self, coords: Coords, g: Vector) -> float: ...

    def dual_scales(self, coords: Coords, g: Vector) -> list[float]: ...


class SeparablePenalty(Penalty, Protocol):
    """A penalty of which `is_separable` is true: it is l1_of |w_j| + l2_of/2 w_j^2, a coordinate each."""


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands after a step.

    `dual_value` is the best lower bound on the optimum that this step has proved (-inf for none); `violation`
    is over the active set, or over all coordinates where `is_screening`. `is_final`: no step can improve it,
    because rounding hides the decrease, or (`has_failed`) because no trial along the search was good enough.
    `meets_rule`: the method asks to stop by a rule of its own, whatever the certificate says.
    `is_step`: a state that has looked at all coordinates counts as an iteration only where this is set.
    `share` < 1: the state of a sample of the items, whose value and bound say nothing about the whole.
    """

    point: Point
    value: float
    violation: float
    n_active: int
    dual_value: float = -np.inf
    is_screening: bool = False
    is_final: bool = False
    has_failed: bool = False
    is_step: bool = False
    meets_rule: bool = False
    share: float = 1.0


class Solver(Protocol):
    """Settings of a method; `steps` yields one state an iteration, for ever or until it can do no more.

    A solver may name in `needs` what it asks of points besides values, gradients and rays, and say by
    `needs_separable = True` that it takes penalties of single coordinates only.
    """

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]: ...
