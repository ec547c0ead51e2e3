"""The sum of a loss over shards of the items, each held by a worker of a Dask cluster.

What crosses the wire: of a new point the weights that have changed, or along a direction, which is sent once, the step;
values and dual values as numbers; gradients of the coordinates that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import finalize

import numpy as np

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.distributed.shard import (
    EVERY,
    Along,
    Changed,
    Make,
    Question,
    Sample,
    changed,
    feature_scale,
    is_unit,
    whole_matrix,
    without_items,
)
from crfqn.distributed.workers import Holder, Tally, Workers
from crfqn.errors import ViewError
from crfqn.objectives.method_state import MethodState
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Ray
from crfqn.objectives.sums import SumObjective, SumPoint
from crfqn.threads import Pool


class DistributedObjective(SumObjective):
    """The sum of objectives over the same coordinates that workers hold.

    Parameters
    ----------
    workers : Workers
    parts : shards and which of their items, all by default

    Notes
    -----
    States that methods keep over the items (row descent, stochastic and dual methods) are refused by name: they change
    item by item, and would have to travel with every one of them.
    """

    def __init__(self, workers: Workers, parts: Sequence[tuple[Holder, Sample]] | None = None) -> None:
        super().__init__()
        self.workers, self.pool = workers, Pool(1)
        self.parts = [(holder, EVERY) for holder in workers.holders] if parts is None else list(parts)

    @classmethod
    def of(cls, client: Any, makes: Sequence[Make]) -> DistributedObjective:
        """Open shards on the workers of a client: each of `makes` is called where its items shall be."""
        return cls(Workers(client, makes))

    @property
    def n_parts(self) -> int:
        """How many shards there are."""
        return len(self.parts)

    @property
    def tally(self) -> Tally:
        """What has crossed the wire so far."""
        return self.workers.tally

    @property
    def n_bytes(self) -> int:
        """What has crossed the wire so far."""
        return self.tally.total

    @cached_property
    def first(self) -> Objective:  # type: ignore[override]
        """The first shard without its items."""
        return self._ask(without_items, (), self.parts[:1])[0]

    def check_state(self, kind: type[MethodState]) -> None:
        """Refuse every state: the items are not here."""
        raise ViewError(
            f"{type(self).__name__} has no {kind.__name__}, which is kept item by item: the items are on workers"
        )

    def of_parts(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function of a module answers of each shard's objective, in their order."""
        return self._ask(question, args, self.parts)

    def of_point(self, point: DistributedPoint, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function of a module answers of each shard's point; the first question costs a pass."""
        if not point.is_counted:
            point.is_counted = True
            for facts in self.facts:
                self.n_passes += facts.n_positions / self.n_positions
        answers = self._ask(question, args, self.parts, point)
        point.way = None
        return answers

    def _ask(
        self,
        question: Callable[..., Any],
        args: tuple[Any, ...],
        parts: Sequence[tuple[Holder, Sample]],
        point: DistributedPoint | None = None,
    ) -> list[Any]:
        return self.workers.ask(
            [(holder, partial(written, question, args, sample, point)) for holder, sample in parts]
        )

    def sample(self, stride: int) -> DistributedObjective:
        """Return the loss over every stride-th of all items."""
        number = next(self.workers.numbers)
        found = DistributedObjective(
            self.workers,
            [
                (holder, Sample(number, sample.first + first * sample.stride, stride * sample.stride))
                for (holder, sample), facts, first in zip(
                    self.parts, self.facts, self.firsts_of_sample(stride), strict=True
                )
                if first < facts.n_items
            ],
        )
        found.first = self.first
        finalize(found, self.workers.release, number)
        return found

    def at(self, coords: Coords, weights: Vector) -> DistributedPoint:
        """Return the handle of the sparse weights (sorted coordinates, values)."""
        return DistributedPoint(self, coords, weights)

    later = at  # the passes of its points wait anyway

    @cached_property
    def _is_unit(self) -> bool:
        return all(self.of_parts(is_unit))

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        if self._is_unit:
            return np.ones(coords.size)
        return np.maximum.reduce(self.of_parts(feature_scale, coords))


def written(
    what: Callable[..., Any],
    args: tuple[Any, ...],
    sample: Sample,
    point: DistributedPoint | None,
    holder: Holder,
) -> Question:
    """Write a question down as short as what a shard knows allows."""
    released = tuple(holder.released.popleft() for _ in range(len(holder.released)))
    holder.known.difference_update(released)
    if args and isinstance(args[0], np.ndarray):
        if holder.coords is not None and np.array_equal(holder.coords, args[0]):
            args = (None, *args[1:])
        else:
            holder.coords = args[0]
    if point is None:
        return Question(sample, what, args, released=released)
    origin = None
    if point.number not in holder.known:
        origin = point.origin_for(holder)
        holder.known.add(point.number)
        holder.last = SparseWeights(point.coords, point.weights)
    return Question(sample, what, args, point.number, origin, released)


class DistributedPoint(SumPoint):
    """The loss at sparse weights, whose scores and residuals are on the workers until this handle is dropped.

    way : the ray and the step that lead here, until the shards have made it
    """

    def __init__(
        self,
        objective: DistributedObjective,
        coords: Coords,
        weights: Vector,
        way: tuple[DistributedRay, float] | None = None,
    ) -> None:
        super().__init__(objective, coords, weights)
        self.way, self.is_counted = way, False
        self.number = next(objective.workers.numbers)
        finalize(self, objective.workers.release, self.number)
        self._gradient: tuple[Coords, Vector] | None = None

    def ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function of a module answers of each shard's point, in the shards' order."""
        return [whole_matrix(answer) for answer in self.objective.of_point(self, question, *args)]

    def origin_for(self, holder: Holder) -> SparseWeights | Changed | Along:
        """Return the shortest way to say the weights to a shard."""
        if self.way is not None and self.way[0].origin.number in holder.known:
            ray, step = self.way
            direction = None if ray.number in holder.known else (ray.origin.number, ray.coords, ray.direction)
            holder.known.add(ray.number)
            return Along(ray.number, step, direction)
        weights = SparseWeights(self.coords, self.weights)
        if holder.last is None:
            return weights
        change = changed(holder.last, weights)
        n_changed = change.gone.size + 2 * change.coords.size
        return change if n_changed < 2 * weights.coords.size else weights

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`; the last ones are kept."""
        if self._gradient is None or not np.array_equal(self._gradient[0], coords):
            self._gradient = coords, super().gradient(coords)
        return self._gradient[1].copy()

    def along(self, coords: Coords, direction: Vector) -> DistributedRay:
        """Return the ray w + step * direction."""
        return DistributedRay(self, coords, direction)


class DistributedRay(Ray):
    """A direction that is sent once."""

    origin: DistributedPoint

    def __init__(self, origin: DistributedPoint, coords: Coords, direction: Vector) -> None:
        super().__init__(origin, coords, direction)
        workers = origin.objective.workers
        self.number = next(workers.numbers)
        finalize(self, workers.release, self.number)

    def at(self, step: float) -> DistributedPoint:
        """Return the point w + step * direction."""
        return DistributedPoint(self.origin.objective, *self.moved(step), way=(self, step))
