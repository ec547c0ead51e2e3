"""Points: the loss at sparse weights, and what one pass over the data tells about it. Rays: a point and a direction.

A point is a handle: it keeps its scores and residuals where the items are, and reads off them what it is asked for;
those of sums over parts are in `sums.py`. No array of F x K numbers ever exists. Shapes: I items, N positions, F
features, K states, E edge weights; coordinates as in `linear/feature_map.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, Screening, SparseWeights, Vector
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.curvature import MOST_EDGES, margin_model, token_model
from crfqn.objectives.curvature import Matrix as Matrix
from crfqn.objectives.linear.feature_map import merge_weights, with_edges
from crfqn.objectives.losses.score_loss import DualLoss, Evaluation
from crfqn.objectives.marginals import Marginals, edge_curvature

NO_SCORES = np.empty((0, 0))


class Curvature(NamedTuple):
    """Curvature of single coordinates at a point: the diagonal of the token-wise model of the Hessian; majorant : how
    much one may meet on its way to a fit."""

    diagonal: Vector
    majorant: Vector


@dataclass(eq=False)
class BasePoint:
    """Base of points: the weights at sorted `coords`, and the last answers that others can be read off.

    A subclass has `value`, the loss in nats, and the methods of `Point` that are not below; sums have `dual_value` in
    the place of `dual`.
    """

    objective: Any
    coords: Coords
    weights: Vector
    # The least threshold so far and its screening, off which those of higher ones are read; and the coordinates of the
    # last sweep for diagonals and majorants, off which those of subsets are read.
    _last_screening: list[Any] = field(init=False, repr=False)
    _last_squares: list[Any] = field(init=False, repr=False)
    value: ClassVar[Any]
    dual: ClassVar[Any]
    gradient: ClassVar[Any]
    squares: ClassVar[Any]
    hessian_model: ClassVar[Any]
    count_within: ClassVar[Any]
    _screen: ClassVar[Any]

    def __post_init__(self) -> None:
        self._last_screening = [np.inf, Screening(NO_COORDS, NO_VALUES)]
        self._last_squares = [NO_COORDS, np.empty((2, 0))]

    @cached_property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point: it is as large as the data."""
        return SparseWeights.without_zeros(self.coords, self.weights)

    def release(self) -> None:
        """Free what is as large as the data and only gradients need, after the value: a pass makes it again."""

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        return self.dual.value(scale)

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""
        last = self._last_screening
        if threshold < last[0]:
            last[:] = threshold, self._screen(threshold)
        return last[1] if threshold == last[0] else last[1].above(threshold)

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""
        return Ray(self, coords, direction)

    def curvature(self, coords: Coords) -> Curvature:
        """Return diagonal and majorant of the curvature."""
        place, is_there = found_in(self._last_squares[0], coords)
        if not is_there.all():
            squares = self.squares(coords)
            squares.flags.writeable = False  # it is handed out without a copy
            self._last_squares[:] = coords, squares
        if coords is self._last_squares[0]:
            return Curvature(*self._last_squares[1])
        return Curvature(*self._last_squares[1][:, place])

    def count_of(self, bound: float, scale: float, radius: float, coords: Coords) -> int:
        """Count those of some coordinates j with scale |g_j| + radius range_j < bound."""
        ranges = self.objective.ranges.at(self.objective.split(coords))
        return int(np.count_nonzero(scale * np.abs(self.gradient(coords)) + radius * ranges < bound))


class Point(BasePoint):
    """The loss at sparse weights over items in memory; everything is computed when it is asked for, once.

    scores, edges : float64 (K, N) and (E,), optional: those of the weights, made when somebody asks
    """

    def __init__(
        self,
        objective: Any,
        coords: Coords,
        weights: Vector,
        scores: Vector | None = None,
        edges: Vector | None = None,
    ) -> None:
        super().__init__(objective, coords, weights)
        if scores is not None:
            self.image = scores, edges

    @cached_property
    def image(self) -> tuple[Vector, Any]:
        """Scores and edges."""
        return self.objective.image(self.coords, self.weights)

    @property
    def scores(self) -> Vector:
        """The scores, (K, N)."""
        return self.image[0]

    @property
    def edges(self) -> Vector:
        """The scores of the edges, (E,)."""
        return self.image[1]

    @cached_property
    def evaluation(self) -> Evaluation:
        """The one pass over the scores that a point costs."""
        owner = self.objective
        owner.n_passes += 1
        return owner.loss.evaluate(self.scores, self.edges, owner.weights, owner.pool)

    item_losses = property(
        attrgetter("evaluation.item_losses"), doc="The unweighted loss of each item, (I,), in nats."
    )

    @cached_property
    def score_curvature(self) -> Vector:
        """The diagonal of the Hessian by the scores, (K, N), of losses of margins."""
        owner = self.objective
        return owner.loss.curvature(self.scores, self.evaluation, owner.weights)

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self.objective.weights @ self.item_losses)

    def release(self) -> None:
        _ = self.value
        self._last_squares[:] = NO_COORDS, np.empty((2, 0))
        for name in ("evaluation", "score_curvature"):
            self.__dict__.pop(name, None)

    @cached_property
    def dual(self) -> DualLoss:
        """The dual loss along the mixtures that the point proves bounds with."""
        owner, evaluation = self.objective, self.evaluation
        dual = owner.loss.dual(evaluation, owner.weights)
        return (
            dual if owner.offset is None else dual.around(float(np.vdot(evaluation.residual, owner.offset)))
        )

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords` (Zhong et al., equations 20 and 21)."""
        nodes = self.objective.split(coords)
        sums = self.objective.map.adjoint(nodes, self.evaluation.residual)
        return with_edges(sums, self.evaluation.edge_residual[nodes.edges])

    def _screen(self, threshold: float) -> Screening:
        owner, evaluation = self.objective, self.evaluation
        nodes = owner.map.screen(evaluation.residual, threshold)
        edges = np.flatnonzero(np.abs(evaluation.edge_residual) > threshold)
        coords = with_edges(nodes.coords, edges + owner.n_states * owner.map.n_features)
        return self._within_support(
            Screening(coords, with_edges(nodes.gradient, evaluation.edge_residual[edges]))
        )

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows, all weights of a feature: those with || max(|gradient| - inside, 0) || > bound, the
        point's own, and perhaps others; the norm is the sum (order 1) or Euclidean (2); an edge is a row of its own."""
        owner, nodes, evaluation = self.objective, self.objective.split(self.coords), self.evaluation
        features, gradients = owner.map.screen_rows(
            evaluation.residual, union(nodes.features), bound, inside, order
        )
        edges = union(np.flatnonzero(np.abs(evaluation.edge_residual) > bound + inside), nodes.edges)
        first = owner.map.n_features * np.arange(owner.n_states)
        coords = with_edges(
            (first[:, None] + features).reshape(-1), edges + owner.n_states * owner.map.n_features
        )
        gradient = with_edges(gradients.reshape(-1), evaluation.edge_residual[edges])
        return self._within_support(Screening(coords, gradient))

    def _within_support(self, found: Screening) -> Screening:
        support = self.objective.support
        return found if support.is_everything else found.restricted_to(support.contains(found.coords))

    def squares(self, coords: Coords) -> Vector:
        """Return diagonal and majorant of the curvature, (2, coords).

        The diagonal of a likelihood's model is sum_t weight x_tf^2 p_t(k) (1 - p_t(k)), of edges see `marginals.py`.
        The majorant is sum_t weight x_tf^2 |p_t(k) - observed|: where p is 0 and the label is k there is no curvature
        at the point, but p has to pass through 1/2. Of a piecewise quadratic loss the diagonal is the best guess of it,
        too.
        """
        owner, nodes, evaluation = self.objective, self.objective.split(coords), self.evaluation
        if not owner.loss.has_marginals:
            return np.tile(owner.map.squares(nodes, self.score_curvature), (2, 1))
        # Of weighted positions the residual has what is expected given other labels, too.
        residual = Marginals(self).residual if owner.loss.has_position_weights else evaluation.residual
        table = owner.map.residual_squares(nodes, residual, owner.inverse_weights)
        if nodes.edges.size == 0:
            return table
        edges = [edge_curvature(Marginals(self), nodes.edges), np.abs(evaluation.edge_residual)[nodes.edges]]
        return np.concatenate([table, np.stack(edges)], axis=1)

    def hessian_model(
        self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0, passes: float = np.inf
    ) -> Matrix | None:
        """Return the token-wise model of the Hessian, or the generalised Hessian, from about `n_sampled` positions;
        None where it would be too large, or dearer than so many passes."""
        owner, diagonal = self.objective, self.curvature(coords).diagonal
        nodes = owner.split(coords)
        if nodes.edges.size > max(MOST_EDGES, owner.loss.edge_layout.n_pairs):
            return None
        if owner.loss.has_marginals:
            return token_model(Marginals(self), nodes, diagonal, n_sampled, max_dense, share, passes)
        return None if coords.size > max_dense else margin_model(self, coords, diagonal, n_sampled)

    def count_within(self, bound: float, scale: float, radius: float, besides: Coords) -> int:
        """Count the coordinates j of the support, not `besides`, with scale |g_j| + radius range_j < bound, for proofs
        that zeros of a model are zeros of the optimum; scale > 0. Features whose range leaves no room, or whose
        gradients cannot be that large, are not looked at."""
        owner, support, evaluation = self.objective, self.objective.support, self.evaluation
        ranges = owner.ranges
        room = (bound - radius * ranges.features) / scale
        edges = slice(None) if support.edges is None else support.edges
        edge_room = (bound - radius * ranges.edges[edges]) / scale
        count = int(np.count_nonzero(np.abs(evaluation.edge_residual[edges]) < edge_room))
        count -= self.count_of(bound, scale, radius, besides)
        if support.nodes is None:
            return count + owner.map.count_small(evaluation.residual, room) - support.n_empty * (bound > 0)
        gradient = owner.map.adjoint(owner.split(support.nodes), evaluation.residual)
        return count + int(np.count_nonzero(np.abs(gradient) < room[support.nodes % room.size]))

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""
        return ScoreRay(self, coords, direction)


@dataclass(eq=False)
class Ray:
    """The points w + step * direction."""

    origin: BasePoint
    coords: Coords
    direction: Vector

    def at(self, step: float) -> Any:
        """Return the point w + step * direction."""
        return self.origin.objective.at(*self.moved(step))

    def moved(self, step: float) -> SparseWeights:
        """Return w + step * direction."""
        start = self.origin
        return merge_weights(start.coords, start.weights, self.coords, step * self.direction)


class ScoreRay(Ray):
    """A ray whose direction's image X d is computed once, points along it touch scores only."""

    origin: Point

    @cached_property
    def end(self) -> Point:
        """The point at step 1: nearly always the only one asked for, hence without an image of its own."""
        scores, edges = self.origin.scores.copy(), self.origin.edges.copy()
        owner = self.origin.objective
        nodes = owner.split(self.coords)
        owner.map.image(nodes, self.direction[: nodes.n_nodes], scores)
        edges[nodes.edges] += self.direction[nodes.n_nodes :]
        return Point(owner, *self.moved(1.0), scores, edges)

    def at(self, step: float) -> Point:
        """Return the point w + step * direction; its scores are interpolated, X d = scores at 1 - scores at 0."""
        if step == 1.0:
            return self.end
        start, end = self.origin, self.end
        scores = start.scores + step * (end.scores - start.scores)
        edges = start.edges + step * (end.edges - start.edges)
        return Point(start.objective, *self.moved(step), scores, edges)
