"""Executors: where the parts of an objective are, and how a function is applied to each of them.

`LocalParts` are in memory; `StoredParts` are made when they are needed, for example from files; `WorkerParts`
(`distributed/objective.py`) are on the workers of a cluster. `map` returns the answers in the order of the parts, so
that equal parts give equal bits. Functions belong to a module or a class, so that they can be sent to workers.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, ClassVar
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from crfqn.objectives.losses.score_loss import Evaluation
from crfqn.objectives.part import Part, PartPoint
from crfqn.threads import Pool

if TYPE_CHECKING:
    from crfqn.objectives.point import Point

MAX_SAMPLE_BYTES = 1 << 28  # bytes of the features in a sample of items on disk: a limit of memory
MAX_KEPT_RESIDUALS = 1 << 28  # residuals that points keep in memory: 2 GiB


def first_items(stride: int, sizes: NDArray[np.int64]) -> list[int]:
    """Return, for a sample of every stride-th item of all parts, the index of its first item within each part; indices
    beyond the size of a part if the sample has none of its items."""
    before = np.cumsum(sizes) - sizes
    return ((stride // 2 - before) % stride).tolist()


class Executor:
    """Base of executors. A subclass has `parts`, `first` and three methods:

    map(function, *args, point=None) : `function(part, *args)` of each part, or of each part's `PartPoint` at a point
    hold(point) : what the executor keeps for a point, as long as the point lives
    sample(stride, sizes) : the executor of every stride-th item of all parts, whose sizes are (parts,)

    Attributes
    ----------
    parts : the parts, as the executor has them
    first : Part, without or with items: its labels, features, support and kind of loss are those of all parts
    whole : Part, the only part of an objective whose points keep their scores, or None
    pool : Pool, the threads of the penalty's part of a step
    n_passes : float, inference passes over the data so far, unless they are counted by the whole
    n_bytes : int, bytes sent over the network so far, in both directions
    is_local : bool, whether the parts are in this process
    answers_together : bool, whether each function may cost a pass, so that one should return several answers
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
    pool: Pool
    map: Callable[..., Iterable[Any]]
    hold: Callable[[Point], object]
    sample: Callable[[int, NDArray[np.int64]], Executor]

    def use_threads(self, pool: Pool) -> None:
        """Set the threads of the penalty's part of a step, and of parts in this process."""
        self.pool = pool

    def map_to_parts(self, function: Callable[[Part], Part]) -> Executor:
        """Return the parts that a function makes of those in memory; the same executor if it changes none."""
        return self


class LocalParts(Executor):
    """Parts in memory, evaluated one after the other.

    A point keeps the evaluations of its parts, above all their residuals, within a budget: older points forget theirs
    for the newest. Evaluations beyond the budget are written to a scratch file, if there is a folder for it, or
    computed again when they are needed.

    parts : list of Part
    max_kept : maximum number of residuals that all points keep in memory; infinite: points of a single part keep their
        scores, too
    scratch : folder, optional, for evaluations beyond that
    """

    def __init__(
        self, parts: Iterable[Part], max_kept: float = MAX_KEPT_RESIDUALS, scratch: str | None = None
    ) -> None:
        self.parts, self.max_kept, self.scratch = parts, max_kept, scratch
        self.room = max_kept if scratch is None else np.inf
        self.answers_together = True
        if isinstance(parts, list) and len(parts) == 1 and max_kept == np.inf:
            self.whole, self.answers_together = parts[0], False
        self._keepers: list[ref[KeptEvaluations]] = []  # of points that keep evaluations, the newest last

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        return self.parts[0]

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        return self.first.map.pool

    def use_threads(self, pool: Pool) -> None:
        for part in self.parts:
            part.map.pool = pool

    def map(self, function: Callable[..., Any], *args: Any, point: Point | None = None) -> Iterator[Any]:
        """Yield the answers, one part at a time; at a point this is a pass if evaluations are not kept."""
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
            elif self.max_kept > 0:
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
        return LocalParts(taken, self.max_kept, self.scratch)

    def map_to_parts(self, function: Callable[[Part], Part]) -> Executor:
        if not isinstance(self.parts, list):  # stored
            return self
        parts = [function(part) for part in self.parts]
        is_same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if is_same else LocalParts(parts, self.max_kept, self.scratch)

    def gives_room(self, keeper: KeptEvaluations, n_numbers: int) -> bool:
        """Return whether a point may keep so many more residuals; older points forget theirs if necessary."""
        others = [k for each in self._keepers if (k := each()) is not None and k is not keeper]
        n_kept = keeper.n_kept + n_numbers + sum(k.n_kept for k in others)
        while others and n_kept > self.max_kept:
            n_kept -= others[0].n_kept
            others.pop(0).forget()
        self._keepers = [ref(k) for k in [*others, keeper]]
        return n_kept <= self.max_kept


class StoredParts(LocalParts):
    """Parts that are made when they are needed; parameters as of `LocalParts`.

    parts : iterable that makes all parts in each iteration, such as `PartFiles`. With a `max_kept` of 0 each function
        of a point costs a pass, passes are not counted, and there are no bounds
    """

    @cached_property
    def first(self) -> Part:  # type: ignore[override]
        """The first part without its items."""
        return next(iter(self.parts)).without_items()

    def use_threads(self, pool: Pool) -> None:
        self.parts.pool = self.first.map.pool = pool

    def sample(self, stride: int, sizes: NDArray[np.int64]) -> LocalParts:
        """Return every stride-th item of all parts, in memory, or fewer if these would take more than
        MAX_SAMPLE_BYTES."""
        n_bytes = len(self.parts) * self.parts[0].map.store.nbytes
        return super().sample(max(stride, n_bytes // MAX_SAMPLE_BYTES), sizes)


class PartFiles(Sequence[Part]):
    """Parts that `read(number, pool)` makes; the last one is kept."""

    def __init__(self, n_parts: int, read: Callable[[int, Pool], Part], pool: Pool) -> None:
        self.n_parts, self.read, self.pool = n_parts, read, pool
        self._last: tuple[int, Part] | None = None

    def __len__(self) -> int:
        return self.n_parts

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < self.n_parts:
            raise IndexError(number)
        if self._last is None or self._last[0] != number:
            self._last = None  # frees its memory before the next one is read
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
    def _file(self) -> IO[bytes]:
        """A file without a name, which the system deletes when it is closed."""
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
        """Free the memory; write the evaluations to the file, if there is a folder for it."""
        while self.in_memory:
            self.keep(*self.in_memory.popitem(), has_room=False)
