"""A point: the loss at sparse weights, and what one pass over the data tells about it. A ray: a point and a direction.

The gradient is read where it is asked for; no array of F x K numbers ever exists.

Shapes: I items, N positions, F features, K states, E edge weights; coordinates as in `coordinates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.kernels.sparse import union
from crfqn.objectives.linear.coordinates import joined, merge_weights
from crfqn.objectives.linear.screening import RowNorm, ScreeningCache
from crfqn.objectives.losses.score_loss import DualLoss, Evaluation

NO_SCORES = np.empty((0, 0))


@dataclass(eq=False)
class Point:
    """The loss at sparse weights; everything else is computed when it is asked for, once.

    Attributes
    ----------
    objective : Objective
    coords, weights : sorted coordinates and the weights there
    scores : float64 (K, N); edges : float64 (E,)
    memo : what views have found out and keep with the point: they are made anew each time
    """

    objective: Any
    coords: Coords
    weights: Vector
    scores: Vector
    edges: Vector
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    _screenings: ScreeningCache = field(default_factory=ScreeningCache, repr=False)

    @cached_property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point: it is as large as the data."""
        return SparseWeights.without_zeros(self.coords, self.weights)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The one pass over the scores that a point costs."""
        owner = self.objective
        owner.n_passes += 1
        return owner.loss.evaluate(self.scores, self.edges, owner.weights, owner.pool)

    @property
    def with_scores(self) -> Point:
        """The point with its scores: itself."""
        return self

    @property
    def item_losses(self) -> Vector:
        """The loss of each item, unweighted, (I,), in nats."""
        return self.evaluation.item_losses

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self.objective.weights @ self.item_losses)

    @cached_property
    def dual(self) -> DualLoss:
        """The dual loss along the mixtures that the point proves bounds with."""
        owner, found = self.objective, self.evaluation
        dual = owner.loss.dual(found, owner.weights)
        return dual if owner.offset is None else dual.around(float(np.vdot(found.residual, owner.offset)))

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` in (0, 1] times the point's dual variables; its gradient is scale * g."""
        return self.dual.value(scale)

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords` (Zhong et al., equations 20 and 21)."""
        nodes = self.objective.split(coords)
        sums = self.objective.map.adjoint(nodes, self.evaluation.residual)
        return joined(sums, self.evaluation.edge_residual[nodes.edges])

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold, block of features by block."""
        return self._screenings.screen(threshold, self._screen)

    def _screen(self, threshold: float) -> Screening:
        owner, found = self.objective, self.evaluation
        nodes = owner.map.screen(found.residual, threshold)
        edges = np.flatnonzero(np.abs(found.edge_residual) > threshold)
        coords = joined(nodes.coords, edges + owner.n_states * owner.map.n_features)
        return self._within_support(Screening(coords, joined(nodes.gradient, found.edge_residual[edges])))

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows, all weights of a feature: those with || max(|gradient| - inside, 0) || > bound.

        And the point's own. The norm is the sum (order 1) or the Euclidean one (order 2); an edge is a row of its own.
        A few rows below the bound may come with them.
        """
        owner, own, found = self.objective, self.objective.split(self.coords), self.evaluation
        features, gradients = owner.map.screen_rows(
            found.residual, union(own.features), bound, RowNorm(inside, order)
        )
        edges = union(np.flatnonzero(np.abs(found.edge_residual) > bound + inside), own.edges)
        first = owner.map.n_features * np.arange(owner.n_states)
        coords = joined(
            (first[:, None] + features).reshape(-1), edges + owner.n_states * owner.map.n_features
        )
        gradient = joined(gradients.reshape(-1), found.edge_residual[edges])
        return self._within_support(Screening(coords, gradient))

    def _within_support(self, found: Screening) -> Screening:
        support = self.objective.support
        return found if support.is_everything else found.only(support.contains(found.coords))

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""
        return Ray(self, coords, direction)

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""
        return self.objective.view(kind).at(self)


@dataclass(eq=False)
class Ray:
    """A point and a direction; the direction's image X d is computed once, points along it touch scores only."""

    origin: Point
    coords: Coords
    direction: Vector

    @cached_property
    def end(self) -> Point:
        """The point at step 1: nearly always the only one asked for, hence without an image of its own."""
        scores, edges = self.origin.scores.copy(), self.origin.edges.copy()
        owner = self.origin.objective
        nodes = owner.split(self.coords)
        owner.map.image(nodes, self.direction[: nodes.n_nodes], scores)
        edges[nodes.edges] += self.direction[nodes.n_nodes :]
        return self._point(1.0, scores, edges)

    def at(self, step: float) -> Point:
        """Return the point w + step * direction; its scores are interpolated, X d = scores at 1 - scores at 0."""
        if step == 1.0:
            return self.end
        start, end = self.origin, self.end
        scores = start.scores + step * (end.scores - start.scores)
        return self._point(step, scores, start.edges + step * (end.edges - start.edges))

    def _point(self, step: float, scores: Vector, edges: Vector) -> Point:
        start = self.origin
        coords, weights = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return Point(start.objective, coords, weights, scores, edges)


class LazyPoint(Point):
    """A point of which only the weights are known: the pass that it costs waits until somebody asks for more."""

    def __init__(self, objective: Any, coords: Coords, weights: Vector) -> None:
        super().__init__(objective, coords, weights, NO_SCORES, NO_SCORES)

    @cached_property
    def _whole(self) -> Point:
        return self.objective.at(self.coords, self.weights)

    @property
    def with_scores(self) -> Point:
        """The point, evaluated."""
        return self._whole

    @property
    def evaluation(self) -> Evaluation:  # type: ignore[override]
        """The pass over the data."""
        return self._whole.evaluation

    @property
    def value(self) -> float:  # type: ignore[override]
        """The loss, in nats."""
        return self._whole.value

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords`."""
        return self._whole.gradient(coords)

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""
        return self._whole.screen(threshold)

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows, as `Point.screen_rows`."""
        return self._whole.screen_rows(bound, inside, order)

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's dual variables."""
        return self._whole.dual_value(scale)

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""
        return self._whole.along(coords, direction)

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""
        return self._whole.view(kind)
