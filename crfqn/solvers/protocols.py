"""What a solver may know of the problem: an objective, its points and rays, and a penalty.

A solver cannot know whether it trains a chain, a taxonomy or a flat classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Coords = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows


class Screening(Protocol):
    """Coordinates with |gradient| above a threshold."""

    @property
    def coords(self) -> Coords: ...

    @property
    def gradient(self) -> Vector: ...


class Point(Protocol):
    """An evaluated w: the loss and everything that one inference pass tells about it."""

    coords: Coords
    weights: Vector

    @property
    def value(self) -> float: ...

    def gradient(self, coords: Coords) -> Vector: ...

    def curvature(self, coords: Coords) -> Vector: ...

    def roughness(self, coords: Coords) -> Vector: ...

    def unit(self, coords: Coords) -> Vector: ...

    def token_model(self, coords: Coords, n_sampled: int, max_dense: int) -> Matrix | None: ...

    def screen(self, threshold: float) -> Screening: ...

    def dual_value(self, scale: float) -> float: ...

    def along(self, coords: Coords, direction: Vector) -> Ray: ...


class Ray(Protocol):
    """A point and a direction."""

    def at(self, step: float) -> Point: ...


class Objective(Protocol):
    """A loss over sparse weights."""

    n_passes: float

    @property
    def n_coords(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def n_positions(self) -> int: ...

    def sample(self, stride: int) -> Objective: ...

    def at(self, coords: Coords, weights: Vector) -> Point: ...


class Penalty(Protocol):
    """A separable penalty; `l1` is the strength at penalised coordinates."""

    @property
    def l1(self) -> float: ...

    @property
    def free(self) -> Coords: ...

    def scaled(self, factor: float) -> Penalty: ...

    def l1_of(self, coords: Coords) -> Vector: ...

    def l2_of(self, coords: Coords) -> Vector: ...

    def value(self, coords: Coords, w: Vector) -> float: ...

    def violation(self, coords: Coords, w: Vector, g: Vector) -> Vector: ...

    def conjugate(self, coords: Coords, g: Vector) -> float: ...

    def dual_scales(self, coords: Coords, g: Vector) -> list[float]: ...


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands after a step.

    `dual_value` is the best lower bound on the optimum that this step has proved (-inf for none); `violation`
    is over the active set, or over all coordinates where `is_screening`. `is_final`: no step can improve it,
    because rounding hides the decrease, or (`has_failed`) because no trial along the search was good enough.
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
    share: float = 1.0


class Solver(Protocol):
    """Settings of a method; `steps` yields one state an iteration, for ever or until it can do no more.

    A solver may name in `needs` what it asks of points besides values, gradients and rays.
    """

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]: ...
