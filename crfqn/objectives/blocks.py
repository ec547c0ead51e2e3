"""The sum of a loss over blocks of items: for data that do not fit into memory, or whose scores do not.

The blocks are fixed by the data, and sums run over them in their order. A point's handle keeps the evaluations of its
parts, above all their residuals, as far as a budget goes: the newest point has the room of older ones. Others go to a
scratch file, if there is a folder for it, or are made anew whenever they are asked for; so a sweep finds all that one
evaluation tells.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Labels, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.sparse import found_in
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.score_loss import DualLoss, Evaluation, NoDual, ScoreLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.sums import SumObjective, SumPoint, total
from crfqn.objectives.support import Support
from crfqn.structures.structure import Structure
from crfqn.threads import Pool

MOST_NUMBERS = 1 << 27  # scores of a point in one piece: 1 GiB, and a solver holds four such arrays
BLOCK_NUMBERS = 1 << 25  # scores of a block: 256 MiB
SAMPLED_BYTES = 1 << 28  # of the features of a sample of items on disk
KEPT_NUMBERS = (
    1 << 28
)  # scores and residuals that points of blocks keep: 2 GiB, half of what one piece may take


class StoredParts:
    """Parts that `read` makes whenever they are asked for; the last one stays at hand. pool : the threads of all."""

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


class BlockedObjective(SumObjective):
    """The sum of objectives over the same coordinates, evaluated one after the other.

    whole : Objective, optional: all of it in one piece, for what needs the data and no evaluation
    most_kept : the numbers that its points may keep together in memory. With 0 the parts may be made anew in every
        pass; then the method has to do without bounds
    scratch : folder, optional, for what there is no room for
    """

    def __init__(
        self,
        parts: Iterable[Objective],
        whole: Objective | None = None,
        most_kept: int = KEPT_NUMBERS,
        scratch: str | None = None,
    ) -> None:
        self.parts, self.whole, self.most_kept, self.scratch = parts, whole, most_kept, scratch
        super().__init__()
        self._keepers: list[ref[BlocksPoint]] = []  # points that keep something, the newest last

    @classmethod
    def of_blocks(cls, whole: Objective, n_positions: int, most_kept: int = KEPT_NUMBERS) -> BlockedObjective:
        """Cut into runs of items of about `n_positions` positions, one item at least."""
        cuts = block_cuts(whole.map.offsets, n_positions)
        return cls([whole.take(np.arange(*ends)) for ends in pairwise(cuts)], whole, most_kept)

    @cached_property
    def first(self) -> Objective:  # type: ignore[override]
        """The first part: what all have in common is read off it; without its items where they are made anew."""
        found = next(iter(self.parts))
        return found if isinstance(self.parts, list) else found.take(np.empty(0, np.int64))

    @property
    def n_parts(self) -> int:
        """How many parts there are."""
        return len(self.parts)

    @property
    def pool(self) -> Pool:  # type: ignore[override]
        """The threads of the parts."""
        return self.first.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        if isinstance(self.parts, StoredParts):
            self.parts.pool = self.first.pool = pool
            return
        for part in self.parts:
            part.pool = pool

    @property
    def in_segments(self) -> BlockedObjective:
        """The sum of its parts' segments; itself where parts are made anew."""
        if isinstance(self.parts, StoredParts):
            return self
        parts = [part.in_segments for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        return BlockedObjective(parts, most_kept=self.most_kept, scratch=self.scratch)

    def sample(self, stride: int) -> BlockedObjective:
        """Return the loss over every stride-th of all items, in memory; of fewer where stored parts are so large that
        these would take more than SAMPLED_BYTES."""
        if isinstance(self.parts, StoredParts):
            stride = max(stride, len(self.parts) * self.parts[0].map.store.nbytes // SAMPLED_BYTES)
        items = [
            np.arange(first, facts.n_items, stride)
            for first, facts in zip(self.firsts_of_sample(stride), self.facts, strict=True)
        ]
        parts = [part.take(chosen) for part, chosen in zip(self.parts, items, strict=True) if chosen.size]
        return BlockedObjective(parts, most_kept=self.most_kept, scratch=self.scratch)

    def at(self, coords: Coords, weights: Vector) -> BlocksPoint:
        """Return the handle of the sparse weights (sorted coordinates, values)."""
        return BlocksPoint(self, coords, weights)

    later = at  # the passes of its points wait anyway

    @cached_property
    def keeps_points(self) -> bool:
        """Whether there is room for all residuals of a point."""
        fits = self.most_kept > 0 and self.n_states * self.n_positions <= self.most_kept
        return fits or self.scratch is not None

    def gives_room(self, point: BlocksPoint, n_numbers: int) -> bool:
        """Return whether a point may keep so many numbers more; older ones forget theirs where it takes that."""
        others = [p for kept in self._keepers if (p := kept()) is not None and p is not point]
        total = point.n_kept + n_numbers + sum(p.n_kept for p in others)
        while others and total > self.most_kept:
            total -= others[0].n_kept
            others.pop(0).forget()
        self._keepers = [ref(p) for p in [*others, point]]
        return total <= self.most_kept

    def intercept_bound(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on the unpenalised weights of some optimum, infinite where there is none."""
        return super().intercept_bound(unpenalised, value, norms) if self.most_kept else np.inf


class Sums(NamedTuple):
    """What the first sweep over the parts tells: the loss of each item, (I,), value, dual losses, and a gradient."""

    item_losses: Vector
    value: float
    duals: tuple[DualLoss, ...]
    coords: Coords
    gradient: Vector


class Scratch:
    """Evaluations in a file without a name, which is gone when nobody has it open, whatever becomes of the process."""

    def __init__(self, folder: str) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the object
        finalize(self, self._file.close)

    def write(self, evaluation: Evaluation) -> int:
        """Write behind what is there; returns where."""
        place = self._file.seek(0, 2)
        pickle.dump(evaluation, self._file, protocol=5)
        return place

    def read(self, place: int) -> Evaluation:
        """Return what was written at a place."""
        self._file.seek(place)
        return pickle.load(self._file)


class BlocksPoint(SumPoint):
    """The loss at sparse weights, a sum over parts of the items that are evaluated one after the other."""

    @cached_property
    def _kept(self) -> dict[int, Evaluation]:
        """The parts' evaluations, by their number, that there is room for."""
        return {}

    @cached_property
    def _written(self) -> dict[int, int]:
        """Where those are in the scratch file that there is no room for."""
        return {}

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch(self.objective.scratch)

    @property
    def n_kept(self) -> int:
        """How many numbers it keeps in memory: residuals."""
        return sum(found.residual.size for found in self._kept.values())

    def forget(self) -> None:
        """Give up what is kept in memory, to the scratch file if there is one."""
        while self._kept:
            number, evaluation = self._kept.popitem()
            self._write(number, evaluation)

    def _write(self, number: int, evaluation: Evaluation) -> None:
        if self.objective.scratch is not None:
            self._written[number] = self._scratch.write(evaluation)

    def points(self) -> Iterator[Point]:
        """Yield the point of each part, one at a time."""
        owner = self.objective
        for number, part in enumerate(owner.parts):
            point = part.later(self.coords, self.weights)
            if number in self._kept:
                point.evaluation = self._kept[number]
            elif number in self._written:
                point.evaluation = self._scratch.read(self._written[number])
            else:
                found = point.evaluation
                owner.n_passes += part.n_positions / owner.n_positions if owner.most_kept else 0.0
                if owner.most_kept and owner.gives_room(self, found.residual.size):
                    self._kept[number] = found
                else:
                    self._write(number, found)
            yield point

    def ask(self, question: Callable[..., Any], *args: Any) -> Iterator[Any]:
        """Yield what a function answers of each part's point: one pass, where they are not kept."""
        return (question(point, *args) for point in self.points())

    @cached_property
    def sums(self) -> Sums:
        """One pass: item losses, value, dual loss, and the gradient that is likely to be asked for."""
        coords = NO_COORDS if self.objective.keeps_points else self.objective.asked
        proves = self.objective.most_kept > 0  # duals may be as large as the scores
        found = [
            (p.item_losses, p.value, p.dual if proves else NoDual(), p.gradient(coords))
            for p in self.points()
        ]
        losses, values, duals, gradients = zip(*found, strict=True)
        return Sums(np.concatenate(losses), total(values), duals, coords, total(gradients))

    @property
    def told(self) -> Coords:
        """The coordinates whose gradient the first pass has told."""
        return self.sums.coords

    @property
    def item_losses(self) -> Vector:
        """The loss of each item, unweighted, (I,), in nats."""
        return self.sums.item_losses

    @property
    def value(self) -> float:  # type: ignore[override]
        """The loss, in nats."""
        return self.sums.value

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""
        return total(dual.at(scale) for dual in self.sums.duals).value(scale)

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        self.objective.asked = coords
        place, is_known = found_in(self.sums.coords, coords)
        return self.sums.gradient[place] if is_known.all() else super().gradient(coords)


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
) -> Objective | BlockedObjective:
    """Build the objective of a loss over features; parameters as of `Objective`. With more than `most_numbers` scores
    it comes in blocks of about `block_numbers`."""
    whole = Objective(features, loss, weights, support, offset)
    if loss.n_states * features.n_positions <= most_numbers:
        return whole
    return BlockedObjective.of_blocks(whole, max(block_numbers // loss.n_states, 1))


def likelihood(
    store: FeatureStore,
    structure: Structure,
    targets: Labels,
    weights: Vector | None = None,
    n_threads: int | None = None,
) -> Objective:
    """Build the negative log-likelihood of a structured model over sparse features, in one piece."""
    return Objective(SparseMap(store, Pool(n_threads)), Likelihood(structure, targets), weights)
