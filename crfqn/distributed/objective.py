"""The sum of a loss over shards of the items, each held by a worker of a Dask cluster.

The same numbers to the bit as `BlockedObjective` has over the same shards, whose parts keep their points: sums run over
the shards in their order. What crosses the wire: of a new point the weights that have changed, or along a direction,
which is sent once, the step; values and dual values as numbers; gradients of the coordinates that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any
from weakref import finalize

import numpy as np

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.distributed.shard import (
    Along,
    Changed,
    Facts,
    Halved,
    Make,
    Question,
    Strides,
    changed,
    facts_of,
    feature_scale,
)
from crfqn.distributed.workers import Holder, Tally, Workers
from crfqn.errors import ViewError
from crfqn.kernels.sparse import union
from crfqn.objectives.blocks import with_joint_edges
from crfqn.objectives.linear.coordinates import Split, split_coords
from crfqn.objectives.objective import REFUSALS, InMemory
from crfqn.objectives.point import Handle, Ray
from crfqn.objectives.protocols import MethodState, Operations
from crfqn.objectives.proved_zeros import count_screened
from crfqn.objectives.support import Support
from crfqn.threads import Pool


class DistributedObjective(InMemory):
    """The sum of objectives over the same coordinates that workers hold.

    Parameters
    ----------
    workers : Workers
    strides : of a sample of the items; all by default
    holders : those that have some of its items; all by default

    Notes
    -----
    States that methods keep over the items (row descent, stochastic and dual methods) are refused by name: they change
    item by item, and would have to travel with every one of them.
    """

    def __init__(
        self, workers: Workers, strides: Strides = (), holders: Sequence[Holder] | None = None
    ) -> None:
        self.workers, self.strides = workers, strides
        self.holders = list(workers.holders if holders is None else holders)
        self.n_passes = 0.0
        self.pool = Pool(1)
        if strides:
            finalize(self, workers.release, strides)

    @classmethod
    def of(cls, client: Any, makes: Sequence[Make]) -> DistributedObjective:
        """Open shards on the workers of a client: each of `makes` is called where its items shall be."""
        return cls(Workers(client, makes))

    @property
    def tally(self) -> Tally:
        """What has crossed the wire so far."""
        return self.workers.tally

    @property
    def n_bytes(self) -> int:
        """What has crossed the wire so far."""
        return self.tally.total

    # ---- facts

    @cached_property
    def facts(self) -> list[Facts]:
        """The facts of each shard."""
        return self.of_parts(facts_of)

    @cached_property
    def first(self) -> Facts:  # type: ignore[override]
        """What all have in common is read off the first."""
        return self.facts[0]

    @property
    def n_states(self) -> int:
        """K."""
        return self.first.n_states

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """F."""
        return self.first.n_features

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex."""
        return self.first.is_convex

    @property
    def has_hessian_bound(self) -> bool:
        """Whether the Hessian is bounded over all weights."""
        return self.first.has_hessian_bound

    @property
    def has_gram(self) -> bool:
        """Whether that bound is a matrix over the features alone."""
        return self.first.has_gram

    @property
    def has_curvature(self) -> bool:
        """Whether the loss has second derivatives."""
        return self.first.has_curvature

    @property
    def proves_zeros(self) -> bool:
        """Whether the loss is a likelihood."""
        return self.first.proves_zeros

    @property
    def support(self) -> Support:  # type: ignore[override]
        """The coordinates that may have a weight."""
        return self.first.support

    @cached_property
    def n_items(self) -> int:
        """I."""
        return sum(facts.n_items for facts in self.facts)

    @cached_property
    def n_positions(self) -> int:
        """N."""
        return sum(facts.n_positions for facts in self.facts)

    @cached_property
    def mean_occurrence(self) -> float:
        """Positions that have a feature, on average over the features."""
        return sum(facts.mean_occurrence for facts in self.facts)

    @cached_property
    def total_weight(self) -> float:
        """The sum of the items' weights."""
        return sum(facts.total_weight for facts in self.facts)

    @cached_property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        inference, entries, *_ = np.sum([facts.operations for facts in self.facts], axis=0)
        return self.first.operations._replace(inference=float(inference), entries=float(entries))

    def refusal(self, fact: str) -> str:
        """Return why a fact does not hold."""
        return f"{REFUSALS[fact]}; the loss is {self.first.loss}"

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        return split_coords(coords, self.n_states, self.n_features)

    def check_state(self, kind: type[MethodState]) -> None:
        """Refuse every state: the items are not here."""
        raise ViewError(
            f"{type(self).__name__} has no {kind.__name__}, which is kept item by item: the items are on workers"
        )

    # ---- questions

    def of_parts(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function of a module answers of each shard's objective, in their order."""
        return self.workers.ask(
            [(holder, lambda holder: self._question(holder, question, args, None)) for holder in self.holders]
        )

    def ask_point(self, point: DistributedPoint, name: str, further: list[tuple[Any, ...]]) -> list[Any]:
        """Ask every shard about a point, with its own `further` arguments; the first question costs a pass."""
        if not point.is_counted:
            point.is_counted = True
            for facts in self.facts:
                self.n_passes += facts.n_positions / self.n_positions

        def question(args: tuple[Any, ...]) -> Callable[[Holder], Question]:
            return lambda holder: self._question(holder, name, args, point)

        answers = self.workers.ask(list(zip(self.holders, map(question, further), strict=True)))
        point.way = None
        return answers

    def _question(
        self,
        holder: Holder,
        what: str | Callable[..., Any],
        args: tuple[Any, ...],
        point: DistributedPoint | None,
    ) -> Question:
        """Write a question down as short as what the shard knows allows."""
        released = tuple(holder.released.popleft() for _ in range(len(holder.released)))
        holder.known.difference_update(released)
        if args and isinstance(args[0], np.ndarray):
            if holder.coords is not None and np.array_equal(holder.coords, args[0]):
                args = (None, *args[1:])
            else:
                holder.coords = args[0]
        if point is None:
            return Question(self.strides, what, args, released=released)
        origin = None
        if point.number not in holder.known:
            origin = point.origin_for(holder)
            holder.known.add(point.number)
            holder.last = SparseWeights(point.coords, point.weights)
        return Question(self.strides, what, args, point.number, origin, released)

    def sample(self, stride: int) -> DistributedObjective:
        """Return the loss over every stride-th item of each shard."""
        some = [h for h, facts in zip(self.holders, self.facts, strict=True) if facts.n_items > stride // 2]
        return DistributedObjective(self.workers, (*self.strides, stride), some)

    def at(self, coords: Coords, weights: Vector) -> DistributedPoint:
        """Return the handle of the sparse weights (sorted coordinates, values)."""
        return DistributedPoint(self, coords, weights)

    later = at  # the passes of its points wait anyway

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        if all(facts.is_unit for facts in self.facts):
            return np.ones(coords.size)
        return np.maximum.reduce(self.of_parts(feature_scale, coords))

    def squares(self, point: DistributedPoint, coords: Coords) -> Vector:
        """Return diagonal and majorant at a point, (2, coords)."""
        return with_joint_edges(point, coords, reduce(add, point.ask("squares", coords)))

    def hessian_model(
        self,
        point: DistributedPoint,
        coords: Coords,
        n_sampled: int,
        max_dense: int,
        share: float,
        passes: float,
    ) -> Any:
        """Return the sum of the models, each shard giving its share of the sampled positions."""
        sampled = [-(-n_sampled * facts.n_positions // self.n_positions) for facts in self.facts]
        args = [(coords, own, max_dense, share, passes) for own in sampled]
        models = [
            model.whole() if isinstance(model, Halved) else model
            for model in self.ask_point(point, "hessian_model", args)
        ]
        return None if any(model is None for model in models) else reduce(add, models)

    def item_bound(self, point: DistributedPoint, penalty: Any) -> None:
        """Return None: the shares of all items are chosen together."""
        return

    def at_shares(self, point: DistributedPoint, shares: Vector) -> Any:
        """Refuse."""
        raise ViewError("mixtures with a share for each item need all of them in one piece")

    def count_within(
        self, point: DistributedPoint, bound: float, scale: float, radius: float, besides: Coords
    ) -> int:
        """Count the coordinates whose gradients at a point stay within a bound; a few are missed."""
        return count_screened(point, self.ranges, bound, scale, radius, besides)


class DistributedPoint(Handle):
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

    def ask(self, name: str, *args: Any) -> list[Any]:
        """Return what each shard answers to a question."""
        return self.objective.ask_point(self, name, [args] * len(self.objective.holders))

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

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return sum(self.ask("value"))

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        return sum(self.ask("dual_value", scale))

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        if self._gradient is None or not np.array_equal(self._gradient[0], coords):
            self._gradient = coords, reduce(add, self.ask("gradient", coords))
        return self._gradient[1].copy()

    def _screen(self, threshold: float) -> Screening:
        """Screen the shards, then add up the gradients of what may stand out in the sum (`SumPoint._screen`)."""
        coords = union(*self.ask("screen", threshold / len(self.objective.holders)))
        return Screening(coords, self.gradient(coords)).above(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows above the bound, and perhaps others (`SumPoint.screen_rows`)."""
        n = len(self.objective.holders)
        coords = union(*self.ask("screen_rows", bound / n, inside / n, order))
        return Screening(coords, self.gradient(coords))

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
