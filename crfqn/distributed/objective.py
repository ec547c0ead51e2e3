"""An objective whose parts are shards of the items, each held by a worker of a Dask cluster.

Of a new point the weights are sent that have changed since the one before; the answers are values and dual values as
numbers, and gradients of the coordinates that a question names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.distributed.shard import EVERY, Make, Question, Sample, changed, whole_matrix
from crfqn.distributed.workers import PATIENCE, Holder, Workers
from crfqn.objectives.executors import Executor, first_items
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.threads import Pool


class WorkerParts(Executor):
    """Shards of the items that workers hold.

    workers : Workers
    parts : shards and which of their items, all by default
    """

    is_local: ClassVar[bool] = False

    def __init__(self, workers: Workers, parts: Sequence[tuple[Holder, Sample]] | None = None) -> None:
        self.workers, self.pool = workers, Pool(1)
        self.parts = [(holder, EVERY) for holder in workers.holders] if parts is None else list(parts)

    @property
    def n_bytes(self) -> int:  # type: ignore[override]
        return self.workers.tally.total

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        """The first shard without its items."""
        return self._ask(self.parts[:1], Part.without_items, (), None)[0]

    def map(self, function: Callable[..., Any], *args: Any, point: Point | None = None) -> list[Any]:
        if point is not None:
            _ = point.held  # asks for the sizes of the parts, before the next question
        return [whole_matrix(answer) for answer in self._ask(self.parts, function, args, point)]

    def _ask(
        self,
        parts: Sequence[tuple[Holder, Sample]],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        point: Point | None,
    ) -> list[Any]:
        return self.workers.ask(
            [(holder, partial(write_question, function, args, sample, point)) for holder, sample in parts]
        )

    def hold(self, point: Point) -> int:
        """Return the number of a point, whose scores and residuals are on the workers as long as it lives; its first
        question costs a pass."""
        owner, number = point.objective, next(self.workers.numbers)
        finalize(point, self.workers.release, number)
        for statistics in owner.part_statistics:
            self.n_passes += statistics.n_positions / owner.n_positions
        return number

    def sample(self, stride: int, sizes: NDArray[np.int64]) -> WorkerParts:
        number = next(self.workers.numbers)
        parts = [
            (holder, Sample(number, sample.first + first * sample.stride, stride * sample.stride))
            for (holder, sample), first, n_items in zip(
                self.parts, first_items(stride, sizes), sizes, strict=True
            )
            if first < n_items
        ]
        taken = WorkerParts(self.workers, parts)
        taken.first = self.first
        finalize(taken, self.workers.release, number)
        return taken


def distributed_objective(client: Any, makes: Sequence[Make], worker_timeout: float = PATIENCE) -> Objective:
    """Return an objective whose parts are shards on the workers of a client.

    Parameters
    ----------
    client : distributed.Client, connected, synchronous
    makes : sequence of callables that return a `Part`, each called where its items shall be
    worker_timeout : float, seconds to wait for a worker if none is left

    Notes
    -----
    States that methods keep over the items (row descent, stochastic and dual methods) are refused by name: they change
    item by item, and would have to be sent with every one of them.
    """
    return Objective(WorkerParts(Workers(client, makes, worker_timeout)))


def write_question(
    what: Callable[..., Any], args: tuple[Any, ...], sample: Sample, point: Point | None, holder: Holder
) -> Question:
    """Return a question, as short as what a shard knows allows."""
    released = tuple(holder.released.popleft() for _ in range(len(holder.released)))
    holder.known.difference_update(released)
    if args and isinstance(args[0], np.ndarray):
        if holder.coords is not None and np.array_equal(holder.coords, args[0]):
            args = (None, *args[1:])
        else:
            holder.coords = args[0]
    if point is None:
        return Question(sample, what, args, released=released)
    origin: Any = None
    if point.held not in holder.known:
        origin = weights = SparseWeights(point.coords, point.weights)
        if holder.last is not None:
            change = changed(holder.last, weights)
            if change.gone.size + 2 * change.coords.size < 2 * weights.n_nonzero:
                origin = change
        holder.known.add(point.held)
        holder.last = weights
    return Question(sample, what, args, point.held, origin, released)
