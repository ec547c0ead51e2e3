"""A shard of the items, on the worker that holds it: it answers questions about points that it keeps.

`Shard` is an actor of Dask. A point is made of what the client sends the first time that it asks about it (weights,
their changes, or a step along a direction), and its weights are then the same to the bit as the client's; its scores
are always computed from all of them, so that a shard that is read again on another worker gives the same numbers. The
point keeps its residual until the client drops its own handle: further questions take no further inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from crfqn.arrays import NO_WEIGHTS, Coords, SparseWeights, Vector
from crfqn.blas import single_threaded_blas
from crfqn.objectives.linear.coordinates import merge_weights
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.protocols import Operations
from crfqn.objectives.support import Support
from crfqn.threads import Pool

Strides: TypeAlias = tuple[int, ...]  # of samples of samples; () for all items
Make: TypeAlias = Callable[[], Objective]


class Facts(NamedTuple):
    """What the client knows of the items of a shard, without them; attributes as of `Objective`."""

    n_items: int
    n_positions: int
    n_states: int
    n_features: int
    mean_occurrence: float
    operations: Operations
    total_weight: float
    support: Support
    is_convex: bool
    has_curvature: bool
    has_hessian_bound: bool
    has_gram: bool
    proves_zeros: bool
    is_unit: bool  # every feature's scale is 1
    loss: str


def facts_of(part: Objective) -> Facts:
    """Read the facts off an objective."""
    names = [name for name in Facts._fields if name not in ("is_unit", "loss")]
    return Facts(
        **{name: getattr(part, name) for name in names},
        is_unit=bool(np.all(part.map.feature_scales == 1.0)),
        loss=type(part.loss).__name__,
    )


def feature_scale(part: Objective, coords: Coords) -> Vector:
    """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
    return part.feature_scale(coords)


class Changed(NamedTuple):
    """Weights by what is new in them since those before: coordinates that have left, others with their values."""

    gone: Coords
    coords: Coords
    weights: Vector


class Along(NamedTuple):
    """A step along a ray; `direction`, the first time: the point that it starts at, coordinates and direction."""

    ray: int
    step: float
    direction: tuple[int, Coords, Vector] | None


class Question(NamedTuple):
    """A question to a shard.

    strides : of all items, or of which sample
    what, args : one of `OF_POINTS`, or without a `point` a function of the shard's objective, of a module; coordinates
        None: those of the question before
    point, origin : the point's number, and how to make it if it is new
    released : numbers of points and rays, and strides of samples, that the client has dropped
    """

    strides: Strides
    what: str | Callable[..., Any]
    args: tuple[Any, ...]
    point: int | None = None
    origin: SparseWeights | Changed | Along | None = None
    released: tuple[Any, ...] = ()


def coords_above(point: Point, threshold: float) -> Coords:
    """Return the coordinates whose gradients are above a threshold."""
    return point.screen(threshold).coords


def coords_of_rows(point: Point, bound: float, inside: float, order: int) -> Coords:
    """Return the coordinates of the rows above a bound, and perhaps of others."""
    return point.screen_rows(bound, inside, order).coords


class Halved(NamedTuple):
    """A symmetric matrix as its rows up to the diagonal, one behind the other."""

    size: int
    rows: Any

    @classmethod
    def of(cls, matrix: Any) -> Any:
        """Halve a dense matrix that is symmetric to the bit; others stay as they are."""
        if not isinstance(matrix, np.ndarray) or not np.array_equal(matrix, matrix.T):
            return matrix
        return cls(len(matrix), np.concatenate([row[: i + 1] for i, row in enumerate(matrix)]))

    def whole(self) -> Any:
        """Return the matrix."""
        out, end = np.empty((self.size, self.size), self.rows.dtype), 0
        for i in range(self.size):
            begin, end = end, end + i + 1
            out[i, : i + 1] = out[: i + 1, i] = self.rows[begin:end]
        return out


OF_POINTS: dict[str, Callable[..., Any]] = {
    "value": lambda point: point.value,
    "dual_value": lambda point, scale: point.dual_value(scale),
    "gradient": lambda point, coords: point.gradient(coords),
    "squares": lambda point, coords: np.stack(point.curvature(coords)),
    "hessian_model": lambda point, coords, *how: Halved.of(point.hessian_model(coords, *how)),
    "screen": coords_above,
    "screen_rows": coords_of_rows,
}


class Shard:
    """A shard of the items, its points and samples; one question is answered at a time."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads
        self.points: dict[int, Point] = {}
        self.rays: dict[int, tuple[SparseWeights, Coords, Vector]] = {}
        self.parts: dict[Strides, Objective] = {}
        self.last: SparseWeights = NO_WEIGHTS
        self.coords: Coords | None = None

    def open(self, make: Make) -> None:
        """Read the items: `make` is called here, where they lie."""
        with single_threaded_blas():
            self.parts[()] = part = make()
        part.pool = Pool(self.n_threads)

    def ask(self, question: Question) -> Any:
        """Return the answer to a question."""
        for number in question.released:
            for kept in (self.points, self.rays, self.parts):
                kept.pop(number, None)  # type: ignore[attr-defined]
        part, args = self.part(question.strides), [_writable(each) for each in question.args]
        if args and args[0] is None:
            args[0] = self.coords
        elif args and isinstance(args[0], np.ndarray):
            self.coords = args[0]
        with single_threaded_blas():
            if callable(question.what):
                return question.what(part, *args)
            assert question.point is not None  # the others are of points
            if question.origin is not None:
                self.points[question.point] = part.at(*self.weights(question.origin))
            point = self.points[question.point]
            answer = OF_POINTS[question.what](point, *args)
        point.forget_scores()
        return answer

    def part(self, strides: Strides) -> Objective:
        """Return the shard, or a sample of it."""
        if strides not in self.parts:
            self.parts[strides] = self.part(strides[:-1]).sample(strides[-1])
        return self.parts[strides]

    def weights(self, origin: Any) -> SparseWeights:
        """Return the weights of a new point."""
        if isinstance(origin, Along):
            if origin.direction is not None:
                start, *direction = origin.direction
                point = self.points[start]
                coords, values = map(_writable, direction)
                self.rays[origin.ray] = (SparseWeights(point.coords, point.weights), coords, values)
            start_weights, coords, direction_values = self.rays[origin.ray]
            self.last = merge_weights(*start_weights, coords, origin.step * direction_values)
        elif isinstance(origin, Changed):
            self.last = applied(self.last, Changed(*map(_writable, origin)))
        else:
            self.last = SparseWeights(*map(_writable, origin))
        return self.last


def changed(before: SparseWeights, after: SparseWeights) -> Changed:
    """Return what `after` has otherwise than `before`."""
    place = np.minimum(np.searchsorted(before.coords, after.coords), max(before.coords.size - 1, 0))
    stays = np.zeros(after.coords.size, bool)
    if before.coords.size:
        stays = (before.coords[place] == after.coords) & (before.weights[place] == after.weights)
    gone = before.coords[~np.isin(before.coords, after.coords, assume_unique=True)]
    return Changed(gone, after.coords[~stays], after.weights[~stays])


def applied(before: SparseWeights, change: Changed) -> SparseWeights:
    """Return the weights after a change."""
    leaves = np.isin(before.coords, change.gone, assume_unique=True)
    coords = np.union1d(before.coords[~leaves], change.coords)
    weights = np.zeros(coords.size)
    weights[np.searchsorted(coords, before.coords[~leaves])] = before.weights[~leaves]
    weights[np.searchsorted(coords, change.coords)] = change.weights
    return SparseWeights(coords, weights)


def _writable(value: Any) -> Any:
    """Return an array from the wire as kernels are compiled for it."""
    is_fixed = isinstance(value, np.ndarray) and not value.flags.writeable
    return value.copy() if is_fixed else value
