"""Points: the loss at sparse weights with the results of one pass over the data. Rays: a point and a direction.

A point consists of evaluations of the parts, which stay with the parts; every number is a sum over them in their order.
If the objective is one part in memory, the point also keeps its scores (`whole`). Shapes: I items, N positions, F
features, K states, E edge weights; coordinates as in `linear/feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, Screening, SparseWeights, Vector
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.curvature import Matrix as Matrix
from crfqn.objectives.linear.feature_map import merge_weights
from crfqn.objectives.losses.score_loss import NO_DUAL, DualLoss
from crfqn.objectives.part import PartPoint

Answer = TypeVar("Answer")


class Curvature(NamedTuple):
    """Curvature of single coordinates at a point: the diagonal of the token-wise model of the Hessian; majorant : its
    likely maximum on the way to the optimum."""

    diagonal: Vector
    majorant: Vector


def total(answers: Iterable[Answer]) -> Answer:
    """Return the sum of the parts' answers, in their order."""
    return reduce(add, answers)


def dual_at(point: PartPoint, scale: float) -> DualLoss:
    """Return the dual loss of a part at a scale."""
    return point.dual.at(scale)


def coords_above(point: PartPoint, threshold: float) -> Coords:
    """Return the coordinates of a part whose gradients are above a threshold."""
    return point.screen(threshold).coords


def coords_of_rows(point: PartPoint, bound: float, inside: float, order: int) -> Coords:
    """Return the coordinates of a part's rows above a bound, and perhaps of others."""
    return point.screen_rows(bound, inside, order).coords


class Point:
    """The loss at sparse weights; all attributes are computed on first use.

    objective, coords, weights : Objective; sorted coordinates and their values
    scores, edges : float64 (K, N) and (E,), optional: those of the weights, if the objective is one part in memory
    """

    def __init__(
        self,
        objective: Any,
        coords: Coords,
        weights: Vector,
        scores: Vector | None = None,
        edges: Vector | None = None,
    ) -> None:
        self.objective, self.coords, self.weights = objective, coords, weights
        if scores is not None:
            self.whole = PartPoint(objective.whole, coords, weights, scores, edges)
        self.forget()

    def forget(self) -> None:
        """Forget screenings and curvatures."""
        # The smallest threshold so far and its screening, which contains those of higher thresholds; the coordinates of
        # the last diagonals and majorants, which contain those of subsets.
        self._last_screening = np.inf, Screening(NO_COORDS, NO_VALUES)
        self._last_squares = NO_COORDS, np.empty((2, 0))

    @cached_property
    def whole(self) -> PartPoint | None:
        """The point of the only part of an objective in memory, which keeps scores and residuals; else None."""
        part = self.objective.whole
        return None if part is None else part.at(self.coords, self.weights)

    @cached_property
    def held(self) -> Any:
        """What the executor keeps for this point."""
        return self.objective.executor.hold(self)

    def map_parts(self, function: Callable[..., Any], *args: Any) -> Iterable[Any]:
        """Return `function(part_point, *args)` of each part's point, in their order."""
        return self.objective.executor.map(function, *args, point=self)

    @cached_property
    def sparse_weights(self) -> SparseWeights:
        """The weights, to be kept longer than the point, which is as large as the data."""
        return SparseWeights.without_zeros(self.coords, self.weights)

    @cached_property
    def _first_sweep(self) -> tuple[float, tuple[DualLoss, ...], Coords, Vector] | None:
        """The value, the dual losses, and the coordinates and gradient that are likely to be used next, from one sweep
        over local parts; None if later functions cost no pass, or if parts are on workers."""
        owner, room = self.objective, self.objective.executor.room
        if not owner.executor.answers_together:
            return None
        keeps_points = room == np.inf or (room > 0 and owner.n_states * owner.n_positions <= room)
        coords = NO_COORDS if keeps_points else owner.likely_coords

        def answers(part: PartPoint) -> tuple[float, DualLoss, Vector]:
            dual = part.dual if room else NO_DUAL  # duals may be as large as the scores
            return part.value, dual, part.gradient(coords)

        values, duals, gradients = zip(*self.map_parts(answers), strict=True)
        return total(values), duals, coords, total(gradients)

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        first = self._first_sweep
        return total(self.map_parts(attrgetter("value"))) if first is None else first[0]

    @property
    def item_losses(self) -> Vector:
        """The unweighted loss of each item, (I,), in nats."""
        return np.concatenate([*self.map_parts(attrgetter("evaluation.item_losses"))])

    def release(self) -> None:
        """Free, after the value, arrays as large as the data that only gradients use; a pass computes them again."""
        if self.whole is not None:
            _ = self.value
            self._last_squares = NO_COORDS, np.empty((2, 0))
            self.whole.forget("evaluation", "score_curvature")

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        if self.whole is not None:
            return self.whole.dual.value(scale)
        first = self._first_sweep
        duals = self.map_parts(dual_at, scale) if first is None else (dual.at(scale) for dual in first[1])
        return total(duals).value(scale)

    @cached_property
    def _gradients(self) -> list[tuple[Coords, Vector]]:
        """Coordinates and gradients of the first sweep over local parts, and the last computed ones."""
        first = self._first_sweep
        return [(NO_COORDS, NO_VALUES) if first is None else first[2:]]

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        if self.whole is not None:
            return self.whole.gradient(coords)
        self.objective.likely_coords = coords
        for known_coords, gradient in self._gradients:
            place, is_known = found_in(known_coords, coords)
            if is_known.all():
                return gradient[place]
        gradient = total(self.map_parts(PartPoint.gradient, coords))
        self._gradients[1:] = [(coords, gradient)]
        return gradient.copy()

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""
        if threshold < self._last_screening[0]:
            self._last_screening = threshold, self._screen(threshold)
        last_threshold, screening = self._last_screening
        return screening if threshold == last_threshold else screening.above(threshold)

    def _screen(self, threshold: float) -> Screening:
        """Screen the parts, then sum the gradients of the coordinates that may exceed the threshold: a sum of n numbers
        exceeds it only if one of them exceeds an n-th of it, so the parts' candidates contain all."""
        if self.whole is not None:
            return self.whole.screen(threshold)
        coords = union(*self.map_parts(coords_above, threshold / len(self.objective.parts)))
        return Screening(coords, self.gradient(coords)).above(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows above the bound, as `PartPoint.screen_rows`, and perhaps others: if all parts' rows have
        || max(|g| - inside / n, 0) || <= bound / n, their sum is within the bound."""
        if self.whole is not None:
            return self.whole.screen_rows(bound, inside, order)
        n = len(self.objective.parts)
        coords = union(*self.map_parts(coords_of_rows, bound / n, inside / n, order))
        return Screening(coords, self.gradient(coords))

    def curvature(self, coords: Coords) -> Curvature:
        """Return diagonal and majorant of the curvature."""
        place, is_there = found_in(self._last_squares[0], coords)
        if not is_there.all():
            squares = self._squares(coords)
            squares.flags.writeable = False  # it is returned without a copy
            self._last_squares = coords, squares
        if coords is self._last_squares[0]:
            return Curvature(*self._last_squares[1])
        return Curvature(*self._last_squares[1][:, place])

    def _squares(self, coords: Coords) -> Vector:
        """Return diagonal and majorant, (2, coords); an edge's majorant is that of the sum of residuals."""
        squares = total(self.map_parts(PartPoint.squares, coords))
        n_edges = self.objective.split(coords).edges.size
        if n_edges and self.objective.has_marginals:
            squares[1, -n_edges:] = np.abs(self.gradient(coords[-n_edges:]))
        return squares

    def hessian_model(
        self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0, passes: float = np.inf
    ) -> Matrix | None:
        """Return the token-wise model of the Hessian, or the generalised Hessian, from about `n_sampled` positions of
        all parts, in proportion; None if it would be too large for a part, or cost more than `passes`."""
        diagonal = None if self.whole is None else self.curvature(coords).diagonal
        arguments = coords, diagonal, n_sampled, self.objective.n_positions, max_dense, share, passes
        sum_of_models: Any = None
        for model in self.map_parts(PartPoint.hessian_model, *arguments):
            if model is None:
                return None
            sum_of_models = model if sum_of_models is None else sum_of_models + model
        return sum_of_models

    def count_within(self, bound: float, scale: float, radius: float, besides: Coords) -> int:
        """Count the coordinates j of the support, not `besides`, with scale |g_j| + radius range_j < bound, for proofs
        that zeros of a model are zeros of the optimum; scale > 0. With several parts, coordinates with radius range_j >
        bound / 2 do not count: a screening contains all others that are not within the bound."""
        owner, support = self.objective, self.objective.support
        half, ranges = 0.5 * bound, owner.ranges
        if self.whole is not None:
            count = self.whole.count_within(bound, scale, radius, ranges)
        else:
            screening = self.screen(half / scale)
            change = radius * ranges.at(owner.split(screening.coords))
            exceeds = (change <= half) & (scale * np.abs(screening.gradient) + change >= bound)
            features, edges = radius * ranges.features <= half, radius * ranges.edges <= half
            n_edges = (edges if support.edges is None else edges[support.edges]).sum()
            if support.nodes is None:
                n_nodes = owner.n_states * features.sum() - support.n_empty * (bound > 0)
            else:
                n_nodes = features[support.nodes % features.size].sum()
            count = int(n_nodes + n_edges - exceeds.sum())
        change = scale * np.abs(self.gradient(besides)) + radius * ranges.at(owner.split(besides))
        return count - int(np.count_nonzero(change < bound))

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""
        return Ray(self, coords, direction)


@dataclass(eq=False)
class Ray:
    """The points w + step * direction. If the objective is one part in memory, the direction's image X d is computed
    once, and points along the ray need operations on scores only."""

    origin: Point
    coords: Coords
    direction: Vector

    @cached_property
    def _end(self) -> Point:
        """The point at step 1, nearly always the only one; the image of the direction follows from its scores."""
        coords, weights = self.moved(1.0)
        assert self.origin.whole is not None
        end = self.origin.objective.at(coords, weights)
        end.whole = self.origin.whole.moved(coords, weights, self.coords, self.direction)
        return end

    def at(self, step: float) -> Point:
        """Return the point w + step * direction, from kept scores by X d = scores at 1 - scores at 0."""
        owner, start = self.origin.objective, self.origin.whole
        if start is None:
            return owner.at(*self.moved(step))
        if step == 1.0:
            return self._end
        end = self._end.whole
        assert end is not None
        scores = start.scores + step * (end.scores - start.scores)
        edges = start.edges + step * (end.edges - start.edges)
        return Point(owner, *self.moved(step), scores, edges)

    def moved(self, step: float) -> SparseWeights:
        """Return w + step * direction."""
        start = self.origin
        return merge_weights(start.coords, start.weights, self.coords, step * self.direction)
