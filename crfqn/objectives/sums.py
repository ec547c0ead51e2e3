"""The sum of a loss over parts of the items, wherever these are: in memory, on disk (`blocks.py`) or on workers.

Every number is a sum over the parts in their order, by `total`: so the same parts give the same bits everywhere. The
questions are functions of this module, so that they can travel to a part and its answer back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np

from crfqn.arrays import Coords, Screening, Vector
from crfqn.errors import ViewError
from crfqn.kernels.sparse import union
from crfqn.objectives.linear.feature_map import Split
from crfqn.objectives.losses.score_loss import DualLoss
from crfqn.objectives.objective import BaseObjective, Objective
from crfqn.objectives.operations import Operations
from crfqn.objectives.point import BasePoint, Point
from crfqn.objectives.proved_zeros import count_screened
from crfqn.objectives.support import Support


def total(answers: Iterable[Any]) -> Any:
    """Return the sum of what the parts answer, in their order."""
    return reduce(add, answers)


class Facts(NamedTuple):
    """Of a part, or sums over the parts: how many items and positions, of how much weight, how often a feature occurs,
    and the operations of inference and of entries."""

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


def value_of(point: Point) -> float:
    """Return the loss, in nats."""
    return point.value


def dual_at(point: Point, scale: float) -> DualLoss:
    """Return the dual loss at a scale."""
    return point.dual.at(scale)


def gradient_of(point: Point, coords: Coords) -> Vector:
    """Return the partial derivatives at `coords`."""
    return point.gradient(coords)


def squares_of(point: Point, coords: Coords) -> Vector:
    """Return diagonal and majorant of the curvature, (2, coords)."""
    return np.stack(point.curvature(coords))


def hessian_share(point: Point, coords: Coords, n_sampled: int, n_positions: int, *limits: Any) -> Any:
    """Return the model from a part's share of the positions that are sampled of all `n_positions`."""
    return point.hessian_model(coords, -(-n_sampled * point.objective.n_positions // n_positions), *limits)


def coords_above(point: Point, threshold: float) -> Coords:
    """Return the coordinates whose gradients are above a threshold."""
    return point.screen(threshold).coords


def coords_of_rows(point: Point, bound: float, inside: float, order: int) -> Coords:
    """Return the coordinates of the rows above a bound, and perhaps of others."""
    return point.screen_rows(bound, inside, order).coords


class SumObjective(BaseObjective):
    """Base of the sums of objectives over the same coordinates.

    first : an objective that has in common with all parts what is no sum: labels, features, support, the kind of loss
    """

    in_blocks: ClassVar[bool] = True
    pool: Any
    n_parts: Any

    def __init__(self) -> None:
        self.n_passes = 0.0

    @property
    def n_states(self) -> int:
        """K."""
        return self.first.n_states

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """F."""
        return self.first.n_features

    @property
    def support(self) -> Support:  # type: ignore[override]
        """The coordinates that may have a weight."""
        return self.first.support

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex."""
        return self.first.is_convex

    @property
    def is_nonnegative(self) -> bool:
        """Whether 0 is the smallest loss."""
        return self.first.is_nonnegative

    @cached_property
    def facts(self) -> list[Facts]:
        """The facts of each part."""
        return self.of_parts(facts_of)

    @cached_property
    def _sums(self) -> Facts:
        return Facts(*map(total, zip(*self.facts, strict=True)))

    @property
    def n_items(self) -> int:
        """I."""
        return self._sums.n_items

    @property
    def n_positions(self) -> int:
        """N."""
        return self._sums.n_positions

    @property
    def mean_occurrence(self) -> float:
        """Positions that have a feature, on average over the features."""
        return self._sums.mean_occurrence

    @property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        found = self._sums
        has_sequences = found.n_positions >= 2 * found.n_items
        return Operations(found.inference, found.entries, self.n_features, self.n_states, has_sequences)

    @property
    def total_weight(self) -> float:
        """The sum of the items' weights."""
        return self._sums.total_weight

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        return self.first.split(coords)

    def firsts_of_sample(self, stride: int) -> list[int]:
        """Return the number, of each part, of its first item of every stride-th of all; it may have fewer items."""
        before = np.cumsum([0, *(facts.n_items for facts in self.facts[:-1])])
        return ((stride // 2 - before) % stride).tolist()

    def squares(self, point: SumPoint, coords: Coords) -> Vector:
        """Return diagonal and majorant at a point, (2, coords); an edge's majorant is that of the sum of residuals."""
        found = total(point.ask(squares_of, coords))
        n_edges = self.split(coords).edges.size
        if n_edges and self.proves_zeros:
            found[1, -n_edges:] = np.abs(point.gradient(coords[-n_edges:]))
        return found

    def hessian_model(
        self, point: SumPoint, coords: Coords, n_sampled: int, max_dense: int, share: float, passes: float
    ) -> Any:
        """Return the sum of the models, each part giving its share of the sampled positions."""
        found: Any = None
        limits = max_dense, share, passes
        for model in point.ask(hessian_share, coords, n_sampled, self.n_positions, *limits):
            if model is None:
                return None
            found = model if found is None else found + model
        return found

    def item_bound(self, point: SumPoint, penalty: Any) -> None:
        """Return None: the shares of all items are chosen together."""
        return

    def at_shares(self, point: SumPoint, shares: Vector) -> Any:
        """Refuse."""
        raise ViewError("mixtures with a share for each item need all of them in one piece")

    def count_within(
        self, point: SumPoint, bound: float, scale: float, radius: float, besides: Coords
    ) -> int:
        """Count the coordinates whose gradients at a point stay within a bound; a few are missed."""
        return count_screened(point, self.ranges, bound, scale, radius, besides)


class SumPoint(BasePoint):
    """Base of the points of sums."""

    def ask(self, question: Callable[..., Any], *args: Any) -> Iterable[Any]:
        """Return what a function, of this module, answers of each part's point, in the parts' order."""
        raise NotImplementedError

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return total(self.ask(value_of))

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        return total(self.ask(dual_at, scale)).value(scale)

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        return total(self.ask(gradient_of, coords))

    def _screen(self, threshold: float) -> Screening:
        """Screen the parts, then add up the gradients of what may stand out in the sum: a sum of n numbers exceeds the
        threshold only where one of them exceeds an n-th of it, so the parts' candidates hold all."""
        coords = union(*self.ask(coords_above, threshold / self.objective.n_parts))
        return Screening(coords, self.gradient(coords)).above(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows above the bound, and perhaps others: where the parts' rows all have ||
        max(|g| - inside / n, 0) || <= bound / n, their sum is within the bound."""
        n = self.objective.n_parts
        coords = union(*self.ask(coords_of_rows, bound / n, inside / n, order))
        return Screening(coords, self.gradient(coords))
