"""Executors: where the parts of an objective are, and how a function is applied to each of them.

`LocalParts` are in memory, `StoredParts` are made whenever they are needed, from files for example, and `WorkerParts`
(`distributed/objective.py`) are on the workers of a cluster. Each has one `map`, whose answers come in the order of the
parts: so the same parts give the same bits everywhere. Functions belong to a module or a class, so that they can be
sent to a part.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from crfqn.objectives.losses.score_loss import Evaluation
from crfqn.objectives.part import Part, PartPoint
from crfqn.threads import Pool

if TYPE_CHECKING:
    from crfqn.objectives.point import Point

SAMPLE_BYTES = 1 << 28  # of the features of a sample of items on disk
KEPT_NUMBERS = 1 << 28  # residuals that points keep: 2 GiB


def first_items(stride: int, sizes: NDArray[np.int64]) -> list[int]:
    """Return the number, within each part, of its first item of a sample of every stride-th item of all parts; it is
    not below the part's size if the sample has none of its items."""
    before = np.cumsum(sizes) - sizes
    return ((stride // 2 - before) % stride).tolist()


class Executor:
    """Base of executors.

    Attributes
    ----------
    parts : the parts, as the executor has them
    first : Part, what all parts have in common: labels, features, support, the kind of loss; perhaps without items
    whole : Part, the only part of an objective whose points keep their scores, or None
    pool : Pool, the threads of the penalty's part of a step
    n_passes : float, inference passes over the data so far, unless they are counted by the whole
    n_bytes : int, bytes sent over the network so far, in both directions
    is_local : bool, whether the parts are in this process
    answers_together : bool, whether each function may cost a pass, so that several should be answered by one
    room : float, the number of residuals that points can keep; 0: no bounds are proved, either
    """

    is_local: ClassVar[bool] = True
    answers_together: bool = False
    whole: Part | None = None
    n_passes: float = 0.0
    n_bytes: int = 0
    room: float = np.inf
    parts: Any
    first: Part
    pool: Any

    def use_threads(self, pool: Pool) -> None:
        """Set the threads of the penalty's part of a step, and of parts in this process."""
        self.pool = pool

    def map(self, function: Callable[..., Any], *args: Any, point: Point | None = None) -> Iterable[Any]:
        """Return `function(part, *args)` of each part, or of each part's `PartPoint` at a point, in their order."""
        raise NotImplementedError

    def hold(self, point: Point) -> Any:
        """Return what the executor keeps for a point, as long as the point lives."""
        raise NotImplementedError

    def sample(self, stride: int, sizes: NDArray[np.int64]) -> Executor:
        """Return every stride-th item of all parts, which have so many items, (parts,)."""
        raise NotImplementedError

    def map_to_parts(self, function: Callable[[Part], Part]) -> Executor:
        """Return the parts that a function makes of those in memory; the same executor if it changes none."""
        return self


class LocalParts(Executor):
    """Parts in memory, evaluated one after the other.

    A point keeps the evaluations of its parts, above all their residuals, within a budget: the newest point has the
    room of older ones. Others go to a scratch file, if there is a folder for it, or are computed again whenever they
    are needed.

    parts : list of Part
    most_kept : the numbers that points may keep together in memory; infinite: points of a single part keep their
        scores, too
    scratch : folder, optional, for evaluations beyond that
    """

    def __init__(
        self, parts: Iterable[Part], most_kept: float = KEPT_NUMBERS, scratch: str | None = None
    ) -> None:
        self.parts, self.most_kept, self.scratch = parts, most_kept, scratch
        self.room = most_kept if scratch is None else np.inf
        self.answers_together = True
        if isinstance(parts, list) and len(parts) == 1 and most_kept == np.inf:
            self.whole, self.answers_together = parts[0], False
        self._keepers: list[ref[KeptEvaluations]] = []  # those that keep something, the newest last

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        return self.parts[0]

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        return self.first.pool

    def use_threads(self, pool: Pool) -> None:
        for part in self.parts:
            part.map.pool = pool

    def map(self, function: Callable[..., Any], *args: Any, point: Point | None = None) -> Iterator[Any]:
        """Yield the answers, one part at a time: one pass at a point, if evaluations are not kept."""
        if point is None:
            return (function(part, *args) for part in self.parts)
        if point.whole is not None:
            return iter((function(point.whole, *args),))
        return (function(part_point, *args) for part_point in self._points(point, point.held))

    def _points(self, point: Point, kept: KeptEvaluations) -> Iterator[PartPoint]:
        for number, part in enumerate(self.parts):
            part_point = part.at(point.coords, point.weights)
            evaluation = kept.read(number)
            if evaluation is not None:
                part_point.evaluation = evaluation
            elif self.most_kept > 0:
                evaluation = part_point.evaluation
                point.objective.n_passes += part.n_positions / point.objective.n_positions
                kept.keep(number, evaluation, self.gives_room(kept, evaluation.residual.size))
            yield part_point

    def hold(self, point: Point) -> KeptEvaluations:
        return KeptEvaluations(self.scratch)

    def sample(self, stride: int, sizes: NDArray[np.int64]) -> LocalParts:
        """Return every stride-th item of all parts, in memory."""
        parts = zip(self.parts, first_items(stride, sizes), sizes, strict=True)
        taken = [
            part.take(np.arange(first, size, stride))
            for part, first, size in parts
            if first < size or self.whole is not None
        ]
        return LocalParts(taken, *self._limits)

    def map_to_parts(self, function: Callable[[Part], Part]) -> Executor:
        parts = [function(part) for part in self.parts]
        is_same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if is_same else LocalParts(parts, *self._limits)

    @property
    def _limits(self) -> tuple[float, str | None]:
        return self.most_kept, self.scratch

    def gives_room(self, keeper: KeptEvaluations, n_numbers: int) -> bool:
        """Return whether a point may keep so many numbers more; older ones forget theirs if that is needed."""
        others = [k for each in self._keepers if (k := each()) is not None and k is not keeper]
        n_kept = keeper.n_kept + n_numbers + sum(k.n_kept for k in others)
        while others and n_kept > self.most_kept:
            n_kept -= others[0].n_kept
            others.pop(0).forget()
        self._keepers = [ref(k) for k in [*others, keeper]]
        return n_kept <= self.most_kept


class StoredParts(LocalParts):
    """Parts that are made whenever they are needed; parameters as of `LocalParts`.

    parts : iterable that makes all parts anew each time; `Blocks` of files for example. With a `most_kept` of 0 each
        function of a point costs a pass, passes are not counted, and the method has to do without bounds
    """

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        """The first part without its items."""
        return next(iter(self.parts)).without_items()

    def use_threads(self, pool: Pool) -> None:
        self.parts.pool = self.first.map.pool = pool

    def sample(self, stride: int, sizes: NDArray[np.int64]) -> LocalParts:
        """Return every stride-th item of all parts, in memory; fewer if these would take more than SAMPLE_BYTES."""
        n_bytes = len(self.parts) * self.parts[0].map.store.nbytes
        return super().sample(max(stride, n_bytes // SAMPLE_BYTES), sizes)

    def map_to_parts(self, function: Callable[[Part], Part]) -> Executor:
        return self


class PartFiles(Sequence[Part]):
    """Parts that `read` makes of their number, with the threads `pool`; the last one is kept."""

    def __init__(self, n_parts: int, read: Callable[[int, Pool], Part], pool: Pool) -> None:
        self.n_parts, self.read, self.pool = n_parts, read, pool
        self._last: tuple[int, Part] | None = None

    def __len__(self) -> int:
        return self.n_parts

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < self.n_parts:
            raise IndexError(number)
        if self._last is None or self._last[0] != number:
            self._last = None  # before the next one takes as much memory
            self._last = number, self.read(number, self.pool)
        part = self._last[1]
        part.map.pool = self.pool
        return part


class KeptEvaluations:
    """The evaluations of a point's parts, by the number of the part: in memory, or in a scratch file of a folder."""

    def __init__(self, scratch: str | None) -> None:
        self.scratch = scratch
        self.in_memory: dict[int, Evaluation] = {}
        self.on_disk: dict[int, int] = {}  # the position in the file

    @cached_property
    def _file(self) -> Any:
        """A file without a name, which is gone when no process has it open."""
        file = tempfile.TemporaryFile(dir=self.scratch)  # noqa: SIM115 - closed with the point
        finalize(self, file.close)
        return file

    @property
    def n_kept(self) -> int:
        """The number of residuals in memory."""
        return sum(evaluation.residual.size for evaluation in self.in_memory.values())

    def read(self, number: int) -> Evaluation | None:
        """Return the evaluation of a part, if it is kept."""
        if number in self.on_disk and number not in self.in_memory:
            self._file.seek(self.on_disk[number])
            return pickle.load(self._file)
        return self.in_memory.get(number)

    def keep(self, number: int, evaluation: Evaluation, has_room: bool) -> None:
        """Keep an evaluation in memory if there is room, else in the file if there is a folder for it."""
        if has_room:
            self.in_memory[number] = evaluation
        elif self.scratch is not None:
            self.on_disk[number] = self._file.seek(0, 2)
            pickle.dump(evaluation, self._file, protocol=5)

    def forget(self) -> None:
        """Free the memory; the file takes the evaluations, if there is a folder for it."""
        while self.in_memory:
            self.keep(*self.in_memory.popitem(), has_room=False)
