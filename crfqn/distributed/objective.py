"""An objective whose parts are shards of the items, each held by a worker of a Dask cluster.

For a new point, the client sends the weights that differ from those of the previous point. The answers of workers are
values and dual values as numbers, and gradients of the coordinates that a question names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.distributed.shard import ALL_ITEMS, Changed, MakePart, Question, Sample, changed, whole_matrix
from crfqn.distributed.workers import WORKER_TIMEOUT, Holder, Workers
from crfqn.objectives.executors import Executor, first_items
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.threads import Pool

if TYPE_CHECKING:
    from distributed import Client


class WorkerParts(Executor):
    """Shards of the items that workers hold.

    workers : Workers
    parts : list of (shard, sample of its items); by default all items of all shards
    """

    is_local: ClassVar[bool] = False

    def __init__(self, workers: Workers, parts: Sequence[tuple[Holder, Sample]] | None = None) -> None:
        self.workers, self.pool = workers, Pool(1)
        self.parts = [(holder, ALL_ITEMS) for holder in workers.holders] if parts is None else list(parts)

    @property
    def n_bytes(self) -> int:  # type: ignore[override]
        return self.workers.tally.sent + self.workers.tally.received

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        """The first shard without its items."""
        return self._ask(self.parts[:1], Part.without_items, (), None)[0]

    def map(self, function: Callable[..., Any], *args: object, point: Point | None = None) -> list[Any]:
        if point is not None:
            _ = point.held  # computed first, because it asks the workers for the sizes of the parts
        return [whole_matrix(answer) for answer in self._ask(self.parts, function, args, point)]

    def _ask(
        self,
        parts: Sequence[tuple[Holder, Sample]],
        function: Callable[..., Any],
        args: tuple[object, ...],
        point: Point | None,
    ) -> list[Any]:
        return self.workers.ask(
            [(holder, partial(write_question, function, args, sample, point)) for holder, sample in parts]
        )

    def hold(self, point: Point) -> int:
        """Return the number of a point. The workers keep its scores and residuals as long as the point lives; its
        first question costs a pass."""
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
        sampled = WorkerParts(self.workers, parts)
        sampled.first = self.first
        finalize(sampled, self.workers.release, number)
        return sampled


def distributed_objective(
    client: Client, makes: Sequence[MakePart], worker_timeout: float = WORKER_TIMEOUT
) -> Objective:
    """Return an objective whose parts are shards on the workers of a client.

    Parameters
    ----------
    client : distributed.Client, connected, synchronous
    makes : sequence of callables that return a `Part`, each called on the worker that holds its items
    worker_timeout : float, seconds to wait for a worker if none is left

    Notes
    -----
    Solvers with a state over the items (row descent, stochastic and dual methods) are refused by name, because the
    state changes after each item and would have to be sent each time.
    """
    return Objective(WorkerParts(Workers(client, makes, worker_timeout)))


def write_question(
    what: Callable[..., Any], args: tuple[object, ...], sample: Sample, point: Point | None, holder: Holder
) -> Question:
    """Return the question without the coordinates and weights that the shard already has."""
    released = tuple(holder.released.popleft() for _ in range(len(holder.released)))
    holder.known.difference_update(released)
    coords = args[0] if args else None
    if isinstance(coords, np.ndarray):
        if holder.coords is not None and np.array_equal(holder.coords, coords):
            args = (None, *args[1:])
        else:
            holder.coords = coords
    if point is None:
        return Question(sample, what, args, released=released)
    origin: SparseWeights | Changed | None = None
    if point.held not in holder.known:
        origin = weights = SparseWeights(point.coords, point.weights)
        if holder.last is not None:
            change = changed(holder.last, weights)
            if change.gone.size + 2 * change.coords.size < 2 * weights.n_nonzero:
                origin = change
        holder.known.add(point.held)
        holder.last = weights
    return Question(sample, what, args, point.held, origin, released)
