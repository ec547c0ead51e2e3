"""The multiclass hinge for primal-dual splitting: scores' differences, dual variables on simplices, epigraphs.

    loss(x) = sum_i c_i h_i(T_i x),   T_i x = (s_ik - s_iy)_k,   h_i(u) = max_k u_k + r_ik

(Chierchia et al. 2015, equations 6 and 7, lambda being the weights c of the items.) T'y is the adjoint of the feature
map at the residual y_i - (sum_k y_ik) e_y. On the simplex a constant added to an item's row changes no projection, so
that Algorithm 1 takes the same steps with the scores themselves in the place of T, whose norm is up to sqrt(K) smaller.
Shapes: N positions, one an item; K states; F features; images, y, required_margins float64 (N, K).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import UnsupportedObjectiveError
from crfqn.kernels.projection import PIVOT, simplex_rows
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap
from crfqn.objectives.losses.score_loss import NO_EDGES, DualLoss, Evaluation
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.part import Part, PartPoint
from crfqn.objectives.point import Point

MAX_POWER_ROUNDS = 300  # of a power iteration
POWER_TOLERANCE = 1e-5  # its relative change in a round that ends it
# It comes from below; steps up to 4/3 of what the theory of 2013 asks converge (He et al. 2022).
NORM_MARGIN = 1.01
NO_ITEMS = np.empty(0)
NO_SCORES = np.empty((0, 0))


class SplitPoint(PartPoint):
    """Weights whose gradient T'y and whose bound are those of dual variables, not of a subgradient at the scores.

    y, losses : float64 (N, K) >= 0; float64 (N,), unweighted; empty if not needed; slope : the dual loss at y
    """

    def __init__(self, part: Part, x: SparseWeights, y: Vector, losses: Vector, slope: float) -> None:
        super().__init__(part, x.coords, x.weights, NO_SCORES, NO_SCORES)
        self._y, self._losses, self._slope = y, losses, slope

    @cached_property
    def evaluation(self) -> Evaluation:  # type: ignore[override]
        """The residual in the scores."""
        residual = np.ascontiguousarray(self._y.T)
        labels = self.part.loss.labels
        residual[labels, np.arange(labels.size)] -= self._y.sum(axis=1)
        return Evaluation(self._losses, residual, NO_EDGES)

    @cached_property
    def dual(self) -> DualLoss:  # type: ignore[override]
        """The dual loss, linear in y."""
        return DualLoss(self._slope)


class HingeSplitting(MethodState):
    """The multiclass hinge h(T x), T x the differences of scores from the label's, split by items.

    h_i(u) = max_k u_k + margin_k is the loss of item i; y, its dual variables, are positive with the sum c_i, its
    weight. required_margins : float64 (N, K), r: 1, and 0 at the label; the offset's differences are in it.
    """

    def __init__(self, objective: Objective) -> None:
        part = objective.whole
        assert part is not None
        self.objective, self.part, self.weights = objective, part, part.weights
        loss = part.loss
        self._labels, self._items = loss.labels, np.arange(loss.n_items)
        self.required_margins = np.ones((loss.n_items, loss.n_states))
        if part.offset is not None:
            self.required_margins += part.offset.T - part.offset[self._labels, self._items][:, None]
        self.required_margins[self._items, self._labels] = 0.0

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError for other losses than the hinge, and supports."""
        loss = objective.first.loss
        if not loss.has_label_duals:
            raise UnsupportedObjectiveError(
                f"primal-dual splitting needs the multiclass hinge; the loss is {type(loss).__name__}"
            )
        if not objective.support.is_everything:
            raise UnsupportedObjectiveError(
                "primal-dual splitting needs all weights; this objective has a support"
            )

    def norm(self, of: str) -> float:
        """Return ||T||, or that of the map to the scores."""
        if of == "scores":
            return power_iteration(lambda u: gram_times(self.part.map, u), (1, self._items.size))

        def times(u: Vector) -> Vector:
            """Return T T' u, (K, N)."""
            residual = u.copy()
            residual[self._labels, self._items] -= u.sum(axis=0)
            scores = np.concatenate([gram_times(self.part.map, row[None]) for row in residual])
            return scores - scores[self._labels, self._items]

        return power_iteration(times, self.required_margins.T.shape)

    def image(self, coords: Coords, weights: Vector) -> Vector:
        """Return T x, (N, K); a pass over the data."""
        owner = self.objective
        owner.n_passes += 1
        scores = np.zeros((owner.n_states, owner.n_positions))
        self.part.map.image(owner.split(coords), weights, scores)
        table = np.ascontiguousarray(scores.T)
        return table - table[self._items, self._labels][:, None]

    def labels(self) -> Vector:
        """Return the dual variables that are c at the label."""
        y = np.zeros(self.required_margins.shape)
        y[self._items, self._labels] = self.weights
        return y

    def project(self, y: Vector) -> Vector:
        """Return the projection onto (S_c)^I, in place."""
        simplex_rows(y, self.weights, PIVOT, 0.0, y)
        return y

    def losses(self, image: Vector) -> Vector:
        """Return h_i(T_i x), (N,)."""
        return (image + self.required_margins).max(axis=1)

    def point(self, x: SparseWeights, y: Vector, losses: Vector = NO_ITEMS, slope: float = np.nan) -> Point:
        """Return x as a point whose gradient is T'y; losses and slope as of `SplitPoint`."""
        point = Point(self.objective, x.coords, x.weights)
        point.whole = SplitPoint(self.part, x, y, losses, slope)
        return point

    def certified(self, x: SparseWeights, image: Vector, y: Vector, balanced: bool) -> Point:
        """Return x with its loss, and the bound that y proves."""
        y = self._balanced(y, self.weights) if balanced else y
        return self.point(x, y, self.losses(image), float(np.vdot(self.required_margins, y)))

    def _balanced(self, y: Vector, masses: Vector) -> Vector:
        """Return y with what states have above the masses of their items' labels given to those that lack it."""
        totals = y.sum(axis=0)
        surplus = totals - np.bincount(self._labels, masses, y.shape[1])
        share = np.divide(np.maximum(surplus, 0.0), totals, out=np.zeros_like(totals), where=totals > 0)
        lack, taken = np.maximum(-surplus, 0.0), y * share
        total = lack.sum()
        return y - taken + taken.sum(axis=1)[:, None] * (lack / total if total > 0 else 0.0)


def gram_times(map: FeatureMap, u: Vector) -> Vector:
    """Return X X' u, (1, N)."""
    every = CoordinateParts(
        np.zeros(map.n_features, np.int64), np.arange(map.n_features), np.empty(0, np.int64)
    )
    image = np.zeros_like(u)
    map.image(every, map.adjoint(every, u), image)
    return image


def power_iteration(times: Callable[[Vector], Vector], shape: tuple[int, ...]) -> float:
    """Return the root of the largest eigenvalue of a positive semidefinite operator, 1 % above the limit."""
    u = np.random.default_rng(0).standard_normal(shape)
    before = 0.0
    for _ in range(MAX_POWER_ROUNDS):
        u /= max(float(np.linalg.norm(u)), np.finfo(float).tiny)
        u = times(u)
        eigenvalue = float(np.linalg.norm(u))
        if eigenvalue <= before * (1.0 + POWER_TOLERANCE):
            break
        before = eigenvalue
    return float(np.sqrt(NORM_MARGIN * eigenvalue))
