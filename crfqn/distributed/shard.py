"""A shard of the items on a worker, which answers questions about points.

`Shard` is a Dask actor. With the first question about a point, the client sends its weights or their changes; the
shard's weights are equal to the client's to the bit. Scores are computed from all weights, so a shard that another
worker reads again gives the same numbers. A point keeps its residual until the client drops its handle, so that
further questions need no inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from crfqn.arrays import NO_WEIGHTS, Coords, SparseWeights, Vector
from crfqn.errors import InputError
from crfqn.objectives.part import Part, PartPoint
from crfqn.threads import Pool, single_threaded_blas

MakePart: TypeAlias = Callable[[], Part]


class Sample(NamedTuple):
    """Every `stride`-th item of a shard from the `first` on; number : of the sample over all shards, to release it."""

    number: int
    first: int
    stride: int


ALL_ITEMS = Sample(-1, 0, 1)


class Changed(NamedTuple):
    """Differences from the previous weights: `gone` coordinates are 0 now, the others have new values."""

    gone: Coords
    coords: Coords
    weights: Vector


class Question(NamedTuple):
    """A question to a shard.

    sample : the items that it is about
    what, args : a module's function, called with the shard's part or its `point`; args[0] is None for the coordinates
        of the previous question
    point, origin : the number of the point, and its weights or their changes if the point is new
    released : numbers of points and samples that the client has dropped
    """

    sample: Sample
    what: Callable[..., Any]
    args: tuple[object, ...]
    point: int | None = None
    origin: SparseWeights | Changed | None = None
    released: tuple[int, ...] = ()


class Halved(NamedTuple):
    """The lower triangle of a matrix that is symmetric to the bit."""

    size: int
    rows: Vector


def halved(answer: object) -> object:
    """Return the lower triangle of a symmetric matrix; other answers are returned unchanged."""
    if not isinstance(answer, np.ndarray) or answer.ndim != 2 or not np.array_equal(answer, answer.T):
        return answer
    return Halved(len(answer), answer[np.tri(len(answer), dtype=bool)])


def whole_matrix(answer: object) -> object:
    """Return the symmetric matrix of a lower triangle; other answers are returned unchanged."""
    if not isinstance(answer, Halved):
        return answer
    is_below, out = np.tri(answer.size, dtype=bool), np.empty((answer.size, answer.size), answer.rows.dtype)
    out[is_below] = out.T[is_below] = answer.rows
    return out


class Shard:
    """A shard of the items, its points and samples; one question is answered at a time."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads
        self.points: dict[int, PartPoint] = {}
        self.samples: dict[int, Part] = {}
        self.last: SparseWeights = NO_WEIGHTS
        self.coords: Coords | None = None

    def open(self, make: MakePart) -> None:
        """Make the part, and with it read the items on this worker."""
        with single_threaded_blas():
            self.items = make()
        if not isinstance(self.items, Part):
            raise InputError(
                f"expected a function that returns a Part of the items, got {type(self.items).__name__} from {make!r}"
            )
        self.items.map.pool = Pool(self.n_threads)

    def ask(self, question: Question) -> object:
        """Return the answer to a question."""
        for number in question.released:
            self.points.pop(number, None)
            self.samples.pop(number, None)
        args = [_writable(each) for each in question.args]
        if args and args[0] is None:
            args[0] = self.coords
        elif args and isinstance(args[0], np.ndarray):
            self.coords = args[0]
        with single_threaded_blas():
            part = self.sampled(question.sample)
            if question.point is None:
                return question.what(part, *args)
            if question.origin is not None:
                arrays = map(_writable, question.origin)
                is_change = isinstance(question.origin, Changed)
                self.last = applied(self.last, Changed(*arrays)) if is_change else SparseWeights(*arrays)
                self.points[question.point] = part.at(*self.last)
            point = self.points[question.point]
            answer = question.what(point, *args)
        point.forget("image", "score_curvature")
        return halved(answer)

    def sampled(self, sample: Sample) -> Part:
        """Return the shard, or a sample of it."""
        number, first, stride = sample
        if sample == ALL_ITEMS:
            return self.items
        if number not in self.samples:
            self.samples[number] = self.items.take(np.arange(first, self.items.n_items, stride))
        return self.samples[number]


def changed(before: SparseWeights, after: SparseWeights) -> Changed:
    """Return the differences of the weights `after` from those `before`."""
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
    """Return a writable copy of a received array: kernels are compiled for writable ones."""
    is_fixed = isinstance(value, np.ndarray) and not value.flags.writeable
    return value.copy() if is_fixed else value
