"""The sum of a loss over blocks of items: for data whose scores, items x states, do not fit into memory.

A block's scores and residuals live while the block is worked on; a point keeps its weights and a number or two an item.
So what an `Objective` reads off its one evaluation costs a pass each time here, but memory is that of one block.
The blocks are fixed by the data, and sums run over them in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.kernels.sparse import union
from crfqn.objectives.linear.coordinates import Split, merge_weights
from crfqn.objectives.linear.screening import ScreeningCache
from crfqn.objectives.losses.score_loss import DualLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.operations import Operations
from crfqn.objectives.point import Point
from crfqn.objectives.registry import InMemory
from crfqn.objectives.support import Support
from crfqn.threads import Pool


class BlockedObjective(InMemory):
    """The sum of objectives over the same coordinates, evaluated one after the other.

    Parameters
    ----------
    parts : list of Objective
    whole : Objective, optional: all of it in one piece, for what needs the data and no evaluation
    """

    def __init__(self, parts: list[Objective], whole: Objective | None = None) -> None:
        self.parts, self.whole = parts, whole
        self.n_passes = 0.0

    @classmethod
    def of_blocks(cls, whole: Objective, n_positions: int) -> BlockedObjective:
        """Cut into runs of items of about `n_positions` positions, one item at least."""
        offsets = whole.map.offsets
        cuts = [0]
        while cuts[-1] < whole.n_items:
            after = int(np.searchsorted(offsets, offsets[cuts[-1]] + n_positions, side="right")) - 1
            cuts.append(max(after, cuts[-1] + 1))
        return cls([whole.take(np.arange(first, last)) for first, last in pairwise(cuts)], whole)

    @property
    def pool(self) -> Pool:
        """The threads of the parts."""
        return self.parts[0].pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        for part in self.parts:
            part.pool = pool

    @property
    def n_states(self) -> int:
        """K."""
        return self.parts[0].n_states

    @property
    def n_coords(self) -> int:
        """d, the number of weights there may be."""
        return self.parts[0].n_coords

    @property
    def support(self) -> Support:
        """The coordinates that may have a weight."""
        return self.parts[0].support

    @property
    def n_items(self) -> int:
        """I."""
        return sum(part.n_items for part in self.parts)

    @property
    def n_positions(self) -> int:
        """N."""
        return sum(part.n_positions for part in self.parts)

    @property
    def n_node_coords(self) -> int:
        """K F, on whatever support."""
        return self.parts[0].n_node_coords

    @property
    def mean_occurrence(self) -> float:
        """Positions that have a feature, on average over the features."""
        return sum(part.mean_occurrence for part in self.parts)

    @property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        inference, entries, *_ = np.sum([part.operations for part in self.parts], axis=0)
        first = self.parts[0].operations
        return first._replace(inference=float(inference), entries=float(entries))

    @cached_property
    def weights(self) -> Vector:
        """The weights of the items, (I,)."""
        return np.concatenate([part.weights for part in self.parts])

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex."""
        return self.parts[0].is_convex

    @property
    def total_weight(self) -> float:
        """The sum of the items' weights."""
        return sum(part.total_weight for part in self.parts)

    def all_coords(self) -> Coords:
        """Return every coordinate that may have a weight, sorted."""
        return self.support.coords()

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        return self.parts[0].split(coords)

    def rows(self, features: Coords, edges: Coords) -> Coords:
        """Return all coordinates of some features and edges."""
        return self.parts[0].rows(features, edges)

    def sample(self, stride: int) -> BlockedObjective:
        """Return the loss over every stride-th item of each part."""
        return BlockedObjective([part.sample(stride) for part in self.parts if part.n_items > stride // 2])

    def at(self, coords: Coords, weights: Vector) -> BlockedPoint:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        return BlockedPoint(self, coords, weights)


class Sums(NamedTuple):
    """Results of one pass: the loss of each item, unweighted, (I,), and the dual loss."""

    item_losses: Vector
    dual: DualLoss


@dataclass(eq=False)
class BlockedPoint:
    """The loss at sparse weights; every question but those about single items costs a pass."""

    objective: BlockedObjective
    coords: Coords
    weights: Vector
    _screenings: ScreeningCache = field(default_factory=ScreeningCache, repr=False)

    @cached_property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point."""
        return SparseWeights.without_zeros(self.coords, self.weights)

    def points(self) -> Iterator[Point]:
        """Yield the point of each part, one at a time."""
        owner = self.objective
        for part in owner.parts:
            yield part.at(self.coords, self.weights)
            owner.n_passes += part.n_positions / owner.n_positions

    def sum(self, ask: Callable[[Point], Vector]) -> Vector:
        """Return the sum of what the parts' points answer: one pass."""
        return np.sum([ask(point) for point in self.points()], axis=0)

    @cached_property
    def sums(self) -> Sums:
        """One pass: item losses and the dual loss."""
        found = [Sums(point.item_losses, point.dual) for point in self.points()]
        return Sums(
            np.concatenate([part.item_losses for part in found]), reduce(add, (p.dual for p in found))
        )

    @property
    def item_losses(self) -> Vector:
        """The loss of each item, unweighted, (I,), in nats."""
        return self.sums.item_losses

    @property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self.objective.weights @ self.sums.item_losses)

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables."""
        return self.sums.dual.value(scale)

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        return self.sum(lambda point: point.gradient(coords))

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""
        return self._screenings.screen(threshold, self._screen)

    def _screen(self, threshold: float) -> Screening:
        """Screen the parts, then add up the gradients of what may stand out in the sum.

        A sum of n numbers exceeds the threshold only where one of them exceeds an n-th of it: the candidates of the
        parts hold all that is sought, and a second pass adds up their gradients.
        """
        share = threshold / len(self.objective.parts)
        coords = union(*[point.screen(share).coords for point in self.points()])
        return Screening(coords, self.gradient(coords)).above(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows above the bound, and perhaps others.

        Where the parts' rows all have || max(|g| - inside / n, 0) || <= bound / n, their sum is within the bound.
        """
        n = len(self.objective.parts)
        coords = union(*[point.screen_rows(bound / n, inside / n, order).coords for point in self.points()])
        return Screening(coords, self.gradient(coords))

    def along(self, coords: Coords, direction: Vector) -> BlockedRay:
        """Return the ray w + step * direction."""
        return BlockedRay(self, coords, direction)

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""
        return self.objective.view(kind).at(self)  # type: ignore[attr-defined]


@dataclass(eq=False)
class BlockedRay:
    """A point and a direction."""

    origin: BlockedPoint
    coords: Coords
    direction: Vector

    def at(self, step: float) -> BlockedPoint:
        """Return the point w + step * direction."""
        start = self.origin
        moved = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return BlockedPoint(start.objective, *moved)
