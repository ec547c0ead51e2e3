"""A shard of the items, on the worker that holds it: it answers questions about points that it keeps.

`Shard` is an actor of Dask. A point is made of what the client sends the first time that it asks about it (weights, or
their changes), and its weights are then the same to the bit as the client's; its scores
are always computed from all of them, so that a shard that is read again on another worker gives the same numbers. The
point keeps its residual until the client drops its own handle: further questions take no further inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from crfqn.arrays import NO_WEIGHTS, Coords, SparseWeights, Vector
from crfqn.errors import InputError
from crfqn.objectives.part import Part, PartPoint
from crfqn.threads import Pool, single_threaded_blas

Make: TypeAlias = Callable[[], Part]


class Sample(NamedTuple):
    """Every `stride`-th item of a shard from the `first` on; number : of the sample of all items, to let it go."""

    number: int
    first: int
    stride: int


EVERY = Sample(-1, 0, 1)


class Changed(NamedTuple):
    """Weights by what is new in them since those before: coordinates that have left, others with their values."""

    gone: Coords
    coords: Coords
    weights: Vector


class Question(NamedTuple):
    """A question to a shard.

    sample : of which items
    what, args : a function of a module, asked of the shard's objective, or of its `point`; coordinates None: those of
        the question before
    point, origin : the point's number, and how to make it if it is new
    released : numbers of points and samples that the client has dropped
    """

    sample: Sample
    what: Callable[..., Any]
    args: tuple[Any, ...]
    point: int | None = None
    origin: SparseWeights | Changed | None = None
    released: tuple[int, ...] = ()


class Halved(NamedTuple):
    """A matrix that is symmetric to the bit, as its rows up to the diagonal."""

    size: int
    rows: Any


def halved(answer: Any) -> Any:
    """Return half of a symmetric matrix; other things stay as they are."""
    is_square = isinstance(answer, np.ndarray) and answer.ndim == 2 and len(answer) == len(answer.T)
    if not is_square or not np.array_equal(answer, answer.T):
        return answer
    return Halved(len(answer), answer[np.tri(len(answer), dtype=bool)])


def whole_matrix(answer: Any) -> Any:
    """Return the matrix of a half; other things stay as they are."""
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

    def open(self, make: Make) -> None:
        """Read the items: `make` is called here, where they lie."""
        with single_threaded_blas():
            self.items = make()
        if not isinstance(self.items, Part):
            raise InputError(
                f"expected a function that returns a Part of the items, got {type(self.items).__name__} from {make!r}"
            )
        self.items.map.pool = Pool(self.n_threads)

    def ask(self, question: Question) -> Any:
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
        if sample == EVERY:
            return self.items
        if number not in self.samples:
            self.samples[number] = self.items.take(np.arange(first, self.items.n_items, stride))
        return self.samples[number]


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
