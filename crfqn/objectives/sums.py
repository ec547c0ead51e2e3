"""The sum of a loss over parts of the items, wherever these are: in memory, in files, or on the workers of a cluster.

A `Sum` asks its parts by an executor: `LocalParts`, a list in memory or parts that are read from files whenever they
are needed, or `WorkerParts` (`distributed/objective.py`). Every number is a sum over the parts in their order, by
`total`: so the same parts give the same bits everywhere. The questions are functions of this module, so that they can
travel to a part and its answer back.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce
from itertools import pairwise
from operator import add, attrgetter
from typing import Any, ClassVar, NamedTuple
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Labels, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.errors import ViewError
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.linear.feature_map import FeatureMap, Split
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.score_loss import NO_DUAL, DualLoss, Evaluation, ScoreLoss
from crfqn.objectives.objective import BaseObjective, MethodState, Objective
from crfqn.objectives.operations import Operations
from crfqn.objectives.point import BasePoint, Point
from crfqn.objectives.support import Support
from crfqn.structures.structure import Structure
from crfqn.threads import Pool

MOST_NUMBERS = 1 << 27  # scores of a point in one piece: 1 GiB, and a solver holds four such arrays
BLOCK_NUMBERS = 1 << 25  # scores of a block: 256 MiB
SAMPLED_BYTES = 1 << 28  # of the features of a sample of items on disk
KEPT_NUMBERS = 1 << 28  # residuals that points keep: 2 GiB, half of what one piece may take


def total(answers: Iterable[Any]) -> Any:
    """Return the sum of the parts' answers, in their order."""
    return reduce(add, answers)


class Facts(NamedTuple):
    """Of a part, or sums over the parts: numbers of items and positions, their weight, how often a feature occurs, and
    the operations of inference and of entries."""

    n_items: int
    n_positions: int
    total_weight: float
    mean_occurrence: float
    inference: float
    entries: float


def facts_of(part: Objective) -> Facts:
    """Return the facts of a part."""
    sizes = part.n_items, part.n_positions, part.total_weight, part.mean_occurrence
    return Facts(*sizes, *part.operations[:2])


def dual_at(point: Point, scale: float) -> DualLoss:
    """Return the dual loss at a scale."""
    return point.dual.at(scale)


def hessian_share(point: Point, coords: Coords, n_sampled: int, n_positions: int, *limits: Any) -> Any:
    """Return the model from a part's share of the positions that are sampled of all `n_positions`."""
    return point.hessian_model(coords, -(-n_sampled * point.objective.n_positions // n_positions), *limits)


def coords_above(point: Point, threshold: float) -> Coords:
    """Return the coordinates whose gradients are above a threshold."""
    return point.screen(threshold).coords


def coords_of_rows(point: Point, bound: float, inside: float, order: int) -> Coords:
    """Return the coordinates of the rows above a bound, and perhaps of others."""
    return point.screen_rows(bound, inside, order).coords


class Executor:
    """Base of the executors, which know where the parts of the items are and ask them.

    parts : the parts, as the executor has them; their number is `len(parts)`
    first : an objective that has in common with all parts what is no sum: labels, features, support, the kind of loss
    pool : the threads of the penalty's part of a step
    is_local : whether the parts are in this process
    n_bytes : the number of bytes that have crossed the wire so far, in both directions
    ask(question, *args) : the answers of a function of a module for each part's objective, a list in their order
    handle(point) : what asks each part's point; its `ask` yields the answers in the same order
    sample(stride, firsts, sizes) : the executor of every stride-th item of all parts; firsts: the number of each part's
        first one for a stride, perhaps not below its number of items, `sizes`
    room : the numbers of a point, its residuals, that can be kept, so that a second question costs no further pass; 0:
        there is no room for what bounds need either
    """

    is_local: ClassVar[bool] = True
    n_bytes: int = 0
    room: float = np.inf
    parts: Any
    pool: Any
    first: Any
    ask: Any
    handle: Any
    sample: Any

    def segments(self) -> Executor:
        """Return the parts' items cut into segments of bounded length, or the parts themselves."""
        return self


class Sum(BaseObjective):
    """The sum of objectives over the same coordinates.

    executor : Executor, which asks them
    likely_coords : coordinates whose gradient was computed last, most likely those of the next point
    """

    in_blocks: ClassVar[bool] = True

    def __init__(self, executor: Executor) -> None:
        self.executor, self.n_passes, self.likely_coords = executor, 0.0, NO_COORDS

    @classmethod
    def of(cls, parts: Iterable[Objective], most_kept: int = KEPT_NUMBERS, scratch: str | None = None) -> Sum:
        """Return the sum of objectives in this process; parameters as of `LocalParts`."""
        return cls(LocalParts(parts, most_kept, scratch))

    @classmethod
    def of_blocks(cls, whole: Objective, n_positions: int, most_kept: int = KEPT_NUMBERS) -> Sum:
        """Cut an objective into runs of items of about `n_positions` positions, one item at least."""
        cuts = block_cuts(whole.map.offsets, n_positions)
        return cls.of([whole.take(np.arange(*ends)) for ends in pairwise(cuts)], most_kept)

    parts = cached_property(attrgetter("executor.parts"))
    first = cached_property(attrgetter("executor.first"))
    n_items = cached_property(attrgetter("_sums.n_items"))
    n_positions = cached_property(attrgetter("_sums.n_positions"))
    mean_occurrence = cached_property(attrgetter("_sums.mean_occurrence"))
    total_weight = cached_property(attrgetter("_sums.total_weight"))

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        """The threads of the parts."""
        return self.executor.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self.executor.pool = pool

    def of_parts(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        return self.executor.ask(question, *args)

    @cached_property
    def facts(self) -> list[Facts]:
        """The facts of each part."""
        return self.of_parts(facts_of)

    @cached_property
    def _sums(self) -> Facts:
        return Facts(*map(total, zip(*self.facts, strict=True)))

    @property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        sums = self._sums
        has_sequences = sums.n_positions >= 2 * sums.n_items
        return Operations(sums.inference, sums.entries, self.n_features, self.n_states, has_sequences)

    @property
    def in_segments(self) -> Sum:
        """The sum of its parts' segments; itself where parts are not in memory."""
        executor = self.executor.segments()
        return self if executor is self.executor else Sum(executor)

    def sample(self, stride: int) -> Sum:
        """Return the loss over every stride-th of all items, or over fewer where these would take too much memory."""
        sizes = [facts.n_items for facts in self.facts]
        before = np.cumsum([0, *sizes[:-1]])
        executor = self.executor.sample(stride, lambda step: ((step // 2 - before) % step).tolist(), sizes)
        return type(self)(executor)

    def at(self, coords: Coords, weights: Vector) -> SumPoint:
        """Return the handle of the sparse weights (sorted coordinates, values)."""
        return SumPoint(self, coords, weights)

    later = at  # the passes of its points wait anyway

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        return self.first.split(coords)

    def check_state(self, kind: type[MethodState]) -> None:
        if not self.executor.is_local:
            raise ViewError(
                f"{type(self).__name__} has no {kind.__name__}, which is kept item by item: the items are on workers"
            )
        super().check_state(kind)

    def intercept_bound(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on the unpenalised weights of some optimum, infinite where there is none."""
        return super().intercept_bound(unpenalised, value, norms) if self.executor.room else np.inf


class Opening(NamedTuple):
    """Answers of the first sweep over local parts: the loss of each item, (I,), value, dual losses, and a gradient."""

    item_losses: Vector
    value: float
    duals: tuple[DualLoss, ...]
    coords: Coords
    gradient: Vector


class SumPoint(BasePoint):
    """The loss at sparse weights, a sum over parts of the items."""

    @cached_property
    def handle(self) -> Any:
        """What asks each part's point."""
        return self.objective.executor.handle(self)

    # The answers of a function of a module for each part's point, in their order.
    ask = property(attrgetter("handle.ask"))

    @cached_property
    def opening(self) -> Opening:
        """The first sweep over local parts: item losses, value, dual loss, and where each sweep is a pass the gradient
        that is likely to be needed next."""
        owner, room = self.objective, self.objective.executor.room
        keeps_points = room == np.inf or (room > 0 and owner.n_states * owner.n_positions <= room)
        coords = NO_COORDS if keeps_points else owner.likely_coords

        def answers(part: Point) -> tuple[Vector, float, DualLoss, Vector]:
            dual = part.dual if room else NO_DUAL  # duals may be as large as the scores
            return part.item_losses, part.value, dual, part.gradient(coords)

        losses, values, duals, gradients = zip(*self.ask(answers), strict=True)
        return Opening(np.concatenate(losses), total(values), duals, coords, total(gradients))

    item_losses = property(
        attrgetter("opening.item_losses"), doc="The unweighted loss of each item, (I,), in nats."
    )

    @cached_property
    def value(self) -> float:  # type: ignore[override]
        """The loss, in nats."""
        return (
            self.opening.value if self.objective.executor.is_local else total(self.ask(attrgetter("value")))
        )

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        is_local = self.objective.executor.is_local
        values = (dual.at(scale) for dual in self.opening.duals) if is_local else self.ask(dual_at, scale)
        return total(values).value(scale)

    @cached_property
    def _gradients(self) -> list[tuple[Coords, Vector]]:
        """Coordinates and gradients of the first sweep over local parts, and those that were computed last."""
        opening = self.opening if self.objective.executor.is_local else None
        return [(NO_COORDS, np.empty(0)) if opening is None else (opening.coords, opening.gradient)]

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        self.objective.likely_coords = coords
        for known_coords, gradient in self._gradients:
            place, is_known = found_in(known_coords, coords)
            if is_known.all():
                return gradient[place]
        gradient = total(self.ask(Point.gradient, coords))
        self._gradients[1:] = [(coords, gradient)]
        return gradient.copy()

    def _screen(self, threshold: float) -> Screening:
        """Screen the parts, then add up the gradients of what may stand out in the sum: a sum of n numbers exceeds the
        threshold only where one of them exceeds an n-th of it, so the parts' candidates hold all."""
        coords = union(*self.ask(coords_above, threshold / len(self.objective.parts)))
        return Screening(coords, self.gradient(coords)).above(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows above the bound, and perhaps others: where the parts' rows all have ||
        max(|g| - inside / n, 0) || <= bound / n, their sum is within the bound."""
        n = len(self.objective.parts)
        coords = union(*self.ask(coords_of_rows, bound / n, inside / n, order))
        return Screening(coords, self.gradient(coords))

    def squares(self, coords: Coords) -> Vector:
        """Return diagonal and majorant, (2, coords); an edge's majorant is that of the sum of residuals."""
        squares = np.array(reduce(np.add, self.ask(Point.curvature, coords)))
        n_edges = self.objective.split(coords).edges.size
        if n_edges and self.objective.proves_zeros:
            squares[1, -n_edges:] = np.abs(self.gradient(coords[-n_edges:]))
        return squares

    def hessian_model(
        self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0, passes: float = np.inf
    ) -> Any:
        """Return the sum of the models, each part giving its share of the sampled positions; None where a part has
        none."""
        sum_of_models: Any = None
        n_positions = self.objective.n_positions
        for model in self.ask(hessian_share, coords, n_sampled, n_positions, max_dense, share, passes):
            if model is None:
                return None
            sum_of_models = model if sum_of_models is None else sum_of_models + model
        return sum_of_models

    def count_within(self, bound: float, scale: float, radius: float, besides: Coords) -> int:
        """Count coordinates as `Point.count_within` does, by a screening: all that are not within, and have room for
        half of the bound, stand out in it; a few with radius range_j > bound / 2 are missed."""
        half, owner, support = 0.5 * bound, self.objective, self.objective.support
        screening, ranges = self.screen(half / scale), owner.ranges
        change = radius * ranges.at(owner.split(screening.coords))
        exceeds = (change <= half) & (scale * np.abs(screening.gradient) + change >= bound)
        features, edges = radius * ranges.features <= half, radius * ranges.edges <= half
        n_edges = (edges if support.edges is None else edges[support.edges]).sum()
        if support.nodes is None:
            n_nodes = owner.n_states * features.sum() - support.n_empty * (bound > 0)
        else:
            n_nodes = features[support.nodes % features.size].sum()
        return int(n_nodes + n_edges - exceeds.sum()) - self.count_of(bound, scale, radius, besides)


class StoredParts:
    """Parts that `read` makes whenever they are needed; the last one stays at hand. pool : the threads of all."""

    def __init__(self, n_parts: int, read: Callable[[int, Pool], Objective], pool: Pool) -> None:
        self.n_parts, self.read, self.pool = n_parts, read, pool
        self._last: tuple[int, Objective] | None = None

    def __len__(self) -> int:
        return self.n_parts

    def __iter__(self) -> Iterator[Objective]:
        return map(self.__getitem__, range(self.n_parts))

    def __getitem__(self, number: int) -> Objective:
        if self._last is None or self._last[0] != number:
            self._last = None  # before the next one takes as much memory
            self._last = number, self.read(number, self.pool)
        part = self._last[1]
        part.pool = self.pool
        return part


class LocalParts(Executor):
    """Parts in this process, asked one after the other: a list, or an iterable that makes them anew in every sweep.

    A point's handle keeps the evaluations of its parts, above all their residuals, as far as a budget goes: the newest
    point has the room of older ones. Others go to a scratch file, if there is a folder for it, or are made anew
    whenever they are needed.

    most_kept : the numbers that points may keep together in memory. With 0 the parts may be made anew in every pass;
        then the method has to do without bounds
    scratch : folder, optional, for what there is no room for
    """

    def __init__(
        self, parts: Iterable[Objective], most_kept: int = KEPT_NUMBERS, scratch: str | None = None
    ) -> None:
        self.parts, self.most_kept, self.scratch = parts, most_kept, scratch
        self.room = most_kept if scratch is None else np.inf
        self._keepers: list[ref[LocalHandle]] = []  # handles that keep something, the newest last

    @cached_property
    def first(self) -> Objective:  # type: ignore[override]
        """The first part; without its items where they are made anew."""
        first = next(iter(self.parts))
        return first if isinstance(self.parts, list) else first.take(np.empty(0, np.int64))

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        return self.first.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        if isinstance(self.parts, StoredParts):
            self.parts.pool = self.first.pool = pool
            return
        for part in self.parts:
            part.pool = pool

    def ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        return [question(part, *args) for part in self.parts]

    def handle(self, point: SumPoint) -> LocalHandle:
        return LocalHandle(point)

    def sample(self, stride: int, firsts: Callable[[int], list[int]], sizes: list[int]) -> LocalParts:
        """Return every stride-th of all items, in memory; fewer where stored parts are so large that these would take
        more than SAMPLED_BYTES."""
        if isinstance(self.parts, StoredParts):
            stride = max(stride, len(self.parts) * self.parts[0].map.store.nbytes // SAMPLED_BYTES)
        items = [
            np.arange(first, n_items, stride) for first, n_items in zip(firsts(stride), sizes, strict=True)
        ]
        parts = [part.take(chosen) for part, chosen in zip(self.parts, items, strict=True) if chosen.size]
        return LocalParts(parts, self.most_kept, self.scratch)

    def segments(self) -> LocalParts:
        if isinstance(self.parts, StoredParts):
            return self
        parts = [part.in_segments for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        return LocalParts(parts, self.most_kept, self.scratch)

    def gives_room(self, handle: LocalHandle, n_numbers: int) -> bool:
        """Return whether a handle may keep so many numbers more; older ones forget theirs where it takes that."""
        others = [h for keeper in self._keepers if (h := keeper()) is not None and h is not handle]
        n_kept = handle.n_kept + n_numbers + sum(h.n_kept for h in others)
        while others and n_kept > self.most_kept:
            n_kept -= others[0].n_kept
            others.pop(0).forget()
        self._keepers = [ref(h) for h in [*others, handle]]
        return n_kept <= self.most_kept


class LocalHandle:
    """The points of local parts, whose evaluations are kept as far as there is room."""

    def __init__(self, point: SumPoint) -> None:
        self.objective, self.coords, self.weights = point.objective, point.coords, point.weights
        self.executor: LocalParts = point.objective.executor
        self.evaluations: dict[int, Evaluation] = {}  # by the number of their part
        self.written: dict[int, int] = {}  # where those are in the scratch file that there is no room for

    @cached_property
    def _file(self) -> Any:
        """A scratch file without a name, which is gone when nobody has it open, whatever becomes of the process."""
        file = tempfile.TemporaryFile(dir=self.executor.scratch)  # noqa: SIM115 - closed with the handle
        finalize(self, file.close)
        return file

    @property
    def n_kept(self) -> int:
        """How many numbers it keeps in memory: residuals."""
        return sum(evaluation.residual.size for evaluation in self.evaluations.values())

    def forget(self) -> None:
        """Give up what is kept in memory, to the scratch file if there is one."""
        while self.evaluations:
            self._write(*self.evaluations.popitem())

    def _write(self, number: int, evaluation: Evaluation) -> None:
        if self.executor.scratch is not None:
            self.written[number] = self._file.seek(0, 2)
            pickle.dump(evaluation, self._file, protocol=5)

    def ask(self, question: Callable[..., Any], *args: Any) -> Iterator[Any]:
        """Yield the answers, one part at a time: one pass, where the evaluations are not kept."""
        owner, has_room = self.objective, self.executor.most_kept > 0
        for number, part in enumerate(self.executor.parts):
            point = part.later(self.coords, self.weights)
            if number in self.evaluations:
                point.evaluation = self.evaluations[number]
            elif number in self.written:
                self._file.seek(self.written[number])
                point.evaluation = pickle.load(self._file)
            else:
                evaluation = point.evaluation
                owner.n_passes += part.n_positions / owner.n_positions if has_room else 0.0
                if has_room and self.executor.gives_room(self, evaluation.residual.size):
                    self.evaluations[number] = evaluation
                else:
                    self._write(number, evaluation)
            yield question(point, *args)


def block_cuts(offsets: NDArray[np.int64], n_positions: int) -> list[int]:
    """Return where runs of items of up to `n_positions` positions, one item at least, begin and end."""
    cuts = [0]
    while cuts[-1] < offsets.size - 1:
        after = int(np.searchsorted(offsets, offsets[cuts[-1]] + n_positions, side="right")) - 1
        cuts.append(max(after, cuts[-1] + 1))
    return cuts


def build_objective(
    features: FeatureMap,
    loss: ScoreLoss,
    weights: Vector | None = None,
    support: Support | None = None,
    offset: Vector | None = None,
    most_numbers: int = MOST_NUMBERS,
    block_numbers: int = BLOCK_NUMBERS,
) -> Objective | Sum:
    """Build the objective of a loss over features; parameters as of `Objective`. With more than `most_numbers` scores
    it comes in blocks of about `block_numbers`."""
    whole = Objective(features, loss, weights, support, offset)
    if loss.n_states * features.n_positions <= most_numbers:
        return whole
    return Sum.of_blocks(whole, max(block_numbers // loss.n_states, 1))


def likelihood(
    store: FeatureStore,
    structure: Structure,
    targets: Labels,
    weights: Vector | None = None,
    n_threads: int | None = None,
) -> Objective:
    """Build the negative log-likelihood of a structured model over sparse features, in one piece."""
    return Objective(SparseMap(store, Pool(n_threads)), Likelihood(structure, targets), weights)
