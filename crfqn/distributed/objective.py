"""The sum of a loss over shards of the items, each held by a worker of a Dask cluster.

What crosses the wire: of a new point the weights that have changed since the one before; values and dual values as
numbers; gradients of the coordinates that a question names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar
from weakref import finalize

import numpy as np

from crfqn.arrays import SparseWeights
from crfqn.distributed.shard import EVERY, Make, Question, Sample, changed, whole_matrix, without_items
from crfqn.distributed.workers import PATIENCE, Holder, Tally, Workers
from crfqn.objectives.objective import Objective
from crfqn.objectives.sums import Executor, Sum, SumPoint
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
    def first(self) -> Objective:  # type: ignore[override]
        """The first shard without its items."""
        return self._ask(self.parts[:1], without_items)[0]

    def ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        return self._ask(self.parts, question, *args)

    def ask_points(self, handle: WorkerHandle, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the answers of a function for each shard's point, in their order."""
        return [whole_matrix(answer) for answer in self._ask(self.parts, question, *args, point=handle)]

    def _ask(
        self,
        parts: Sequence[tuple[Holder, Sample]],
        question: Callable[..., Any],
        *args: Any,
        point: WorkerHandle | None = None,
    ) -> list[Any]:
        return self.workers.ask(
            [(holder, partial(write_question, question, args, sample, point)) for holder, sample in parts]
        )

    def handle(self, point: SumPoint) -> WorkerHandle:
        return WorkerHandle(self, point)

    def sample(self, stride: int, firsts: Callable[[int], list[int]], sizes: list[int]) -> WorkerParts:
        number = next(self.workers.numbers)
        parts = [
            (holder, Sample(number, sample.first + first * sample.stride, stride * sample.stride))
            for (holder, sample), first, n_items in zip(self.parts, firsts(stride), sizes, strict=True)
            if first < n_items
        ]
        taken = WorkerParts(self.workers, parts)
        taken.first = self.first
        finalize(taken, self.workers.release, number)
        return taken


class WorkerHandle:
    """A point whose scores and residuals are on the workers until this handle is dropped."""

    def __init__(self, executor: WorkerParts, point: SumPoint) -> None:
        self.executor, self.objective, self.is_counted = executor, point.objective, False
        self.weights = SparseWeights(point.coords, point.weights)
        self.number = next(executor.workers.numbers)
        finalize(self, executor.workers.release, self.number)

    def ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the answers of the shards' points; the first question costs a pass."""
        owner = self.objective
        if not self.is_counted:
            self.is_counted = True
            for facts in owner.facts:
                owner.n_passes += facts.n_positions / owner.n_positions
        return self.executor.ask_points(self, question, *args)


class DistributedObjective(Sum):
    """The sum of objectives over the same coordinates that workers hold.

    executor : WorkerParts

    Notes
    -----
    States that methods keep over the items (row descent, stochastic and dual methods) are refused by name: they change
    item by item, and would have to travel with every one of them.
    """

    @classmethod
    def of(  # type: ignore[override]
        cls, client: Any, makes: Sequence[Make], wait: float = PATIENCE
    ) -> DistributedObjective:
        """Open shards on the workers of a client: each of `makes` is called where its items shall be. Where no worker
        is left, wait so many seconds for one."""
        return cls(WorkerParts(Workers(client, makes, wait)))

    @property
    def workers(self) -> Workers:
        """Which worker has which shard."""
        return self.executor.workers  # type: ignore[attr-defined]

    @property
    def tally(self) -> Tally:
        """What has crossed the wire so far."""
        return self.workers.tally


def write_question(
    what: Callable[..., Any],
    args: tuple[Any, ...],
    sample: Sample,
    point: WorkerHandle | None,
    holder: Holder,
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
    if point.number not in holder.known:
        origin = point.weights
        if holder.last is not None:
            change = changed(holder.last, point.weights)
            if change.gone.size + 2 * change.coords.size < 2 * point.weights.n_nonzero:
                origin = change
        holder.known.add(point.number)
        holder.last = point.weights
    return Question(sample, what, args, point.number, origin, released)
