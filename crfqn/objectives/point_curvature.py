"""Second-order information at a point: diagonals, majorants and models of the Hessian, for quasi-Newton metrics.

Of a likelihood it comes from the marginals (`token_model.py`). Of losses of margins it is the generalised Hessian

    H = sum_i c_i x_i x_i' (x) H_i,   H_i = 2 sum over violated pairs (y, r) of (e_y - e_r)(e_y - e_r)'

Where no pair changes sides this is the loss itself, up to a line. Off the diagonal H_i has entries at violated pairs
only: a product for each pair of states takes the few positions where the pair is violated. Shapes as in `point.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Vector
from crfqn.errors import ViewError
from crfqn.objectives.blocks import BlockedObjective, BlockedPoint
from crfqn.objectives.edge_model import edge_curvature
from crfqn.objectives.hessian_bound import lipschitz_bound
from crfqn.objectives.linear.coordinates import joined
from crfqn.objectives.marginals import Marginals, sample_positions
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.protocols import Curvature, CurvatureView, LipschitzView, Matrix
from crfqn.objectives.registry import offers
from crfqn.objectives.token_model import scale_to_diagonal, token_model


def margin_model(
    point: Point, coords: Coords, diagonal: Vector, score_curvature: Vector, n_sampled: int
) -> NDArray[np.float32]:
    """Return the model on `coords`, float32 (n, n), with the given diagonal, from about `n_sampled` positions.

    score_curvature : float64 (K, N), the diagonal of the Hessian by the scores
    """
    owner = point.objective
    split = owner.split(coords)
    marginal_variance = score_curvature.sum(axis=0) * owner.inverse_weights
    sampled, c = sample_positions(marginal_variance, owner.weights, n_sampled)
    features, where = np.unique(split.features, return_inverse=True)
    x = owner.map.values_at(features, sampled)
    states = np.unique(split.states)
    bounds = np.append(np.searchsorted(split.states, states), split.n_nodes)
    blocks = [slice(bounds[i], bounds[i + 1]) for i in range(states.size)]
    loss = owner.loss.take(sampled, sampled, np.arange(sampled.size + 1))
    scores = point.scores[:, sampled]
    second_by_state = score_curvature[:, sampled] * owner.inverse_weights[sampled]
    model = np.zeros((coords.size, coords.size), np.float32)
    pairs = [(i, j) for i in range(states.size) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = pairs[part]
        r, s = states[i], states[j]
        second = c * (second_by_state[r] if i == j else loss.mixed(r, s, scores))
        met = np.flatnonzero(second)
        if met.size == 0:
            return
        columns = np.ascontiguousarray(x[:, met])
        left = (columns * second[met].astype(np.float32))[where[blocks[i]]]
        product = left @ columns[where[blocks[j]]].T
        model[blocks[i], blocks[j]] = product
        model[blocks[j], blocks[i]] = product.T

    owner.pool.each(len(pairs), multiply)
    return scale_to_diagonal(model, diagonal)


@dataclass(eq=False)
class PointCurvature:
    """Base of the models of the Hessian at a point: the sweep for the diagonal is kept for later subsets."""

    point: Point

    def diagonal(self, coords: Coords) -> Vector:
        """Return the diagonal of the model: sum_t weight x_tf^2 p_t(k) (1 - p_t(k)); edges: see `edge_model.py`."""
        return self._squares(coords)[0]

    def majorant(self, coords: Coords) -> Vector:
        """Return sum_t weight x_tf^2 |p_t(k) - observed|: how much curvature a coordinate may meet on its way to a fit.

        Where p is 0 and the label is k there is none at the point, but p has to pass through 1/2.
        """
        return self._squares(coords)[1]

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        nodes = self.point.objective.split(coords)
        return joined(self.point.objective.map.feature_scales[nodes.features], np.ones(nodes.edges.size))

    def _squares(self, coords: Coords) -> Vector:
        """Return diagonal and majorant, (2, coords)."""
        known, table = self.point.memo.get("squares", (NO_COORDS, np.empty((2, 0))))
        place = np.minimum(np.searchsorted(known, coords), max(known.size - 1, 0))
        if known.size == 0 or not np.array_equal(known[place], coords):
            self.point.memo["squares"] = known, table = coords, self._measure(coords)
            place = np.arange(coords.size)
        return table[:, place]

    def _measure(self, coords: Coords) -> Vector:
        raise NotImplementedError


class LikelihoodCurvature(PointCurvature):
    """The token-wise model of a likelihood."""

    def _measure(self, coords: Coords) -> Vector:
        point, owner = self.point, self.point.objective
        nodes, found = owner.split(coords), self.point.evaluation
        squares = owner.map.residual_squares(nodes, found.residual, owner.inverse_weights)
        if nodes.edges.size == 0:
            return squares
        edges = [edge_curvature(Marginals(point), nodes.edges), np.abs(found.edge_residual)[nodes.edges]]
        return np.concatenate([squares, np.stack(edges)], axis=1)

    def matrix(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Matrix | None:
        """Return the token-wise model from about n_sampled positions; None where it would be too large."""
        split, diagonal = self.point.objective.split(coords), self.diagonal(coords)
        return token_model(Marginals(self.point), split, diagonal, n_sampled, max_dense, share)


class MarginCurvature(PointCurvature):
    """The generalised Hessian of a loss of margins: exact, but for the sample."""

    @property
    def by_scores(self) -> Vector:
        """The diagonal of the Hessian by the scores, (K, N)."""
        point, owner = self.point, self.point.objective
        if "by_scores" not in point.memo:
            point.memo["by_scores"] = owner.loss.curvature(point.scores, point.evaluation, owner.weights)
        return point.memo["by_scores"]

    def _measure(self, coords: Coords) -> Vector:
        """Return the diagonal twice: of a piecewise quadratic loss it is the best guess of the majorant, too."""
        owner = self.point.objective
        return np.tile(owner.map.squares(owner.split(coords), self.by_scores), (2, 1))

    def matrix(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Matrix | None:
        """Return the model from about n_sampled positions; None for more than `max_dense` coordinates."""
        if coords.size > max_dense:
            return None
        return margin_model(self.point, coords, self.diagonal(coords), self.by_scores, n_sampled)


@dataclass(frozen=True)
class PointCurvatures:
    """The models of an objective in one piece."""

    model: Callable[[Point], Curvature]

    def at(self, point: Point) -> Curvature:
        """Return the models at a point."""
        return self.model(point)


@offers(CurvatureView, Objective)
def curvature_of(objective: Objective) -> PointCurvatures:
    """Return the models that the loss has."""
    if not objective.loss.has_curvature:
        raise ViewError(
            f"a CurvatureView needs a loss with curvature; {type(objective.loss).__name__} has none"
        )
    return PointCurvatures(LikelihoodCurvature if objective.loss.has_marginals else MarginCurvature)


@dataclass(frozen=True)
class BlockedCurvatures:
    """The models of a sum."""

    parts: list[Any]

    def at(self, point: BlockedPoint) -> BlockedCurvature:
        """Return the models at a point."""
        return BlockedCurvature(point, self.parts)


@dataclass(frozen=True)
class BlockedCurvature:
    """The sum of the parts' models; every question costs a pass.

    Attributes
    ----------
    views : of each part, its own view
    """

    point: BlockedPoint
    views: list[Any]

    def _ask(self, question: Callable[[Any], Any]) -> list[Any]:
        return [question(view.at(p)) for view, p in zip(self.views, self.point.points(), strict=True)]

    def diagonal(self, coords: Coords) -> Vector:
        """Return the diagonal of the model."""
        return np.sum(self._ask(lambda part: part.diagonal(coords)), axis=0)

    def majorant(self, coords: Coords) -> Vector:
        """Return how much curvature a coordinate may meet on its way to a fit."""
        return np.sum(self._ask(lambda part: part.majorant(coords)), axis=0)

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature."""
        nodes = self.point.objective.split(coords)
        scales = np.maximum.reduce([p.map.feature_scales for p in self.point.objective.parts])
        return joined(scales[nodes.features], np.ones(nodes.edges.size))

    def matrix(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Matrix | None:
        """Return the sum of the models, each part giving its share of the sampled positions."""
        total: Any = None
        n_positions = self.point.objective.n_positions
        for view, point in zip(self.views, self.point.points(), strict=True):
            own = -(-n_sampled * point.objective.n_positions // n_positions)
            model = view.at(point).matrix(coords, own, max_dense, share)
            if model is None:
                return None
            total = model if total is None else total + model
        return total


@offers(CurvatureView, BlockedObjective)
def curvature_of_blocks(objective: BlockedObjective) -> BlockedCurvatures:
    """Return the models that the parts' loss has."""
    return BlockedCurvatures([curvature_of(part) for part in objective.parts])


@dataclass(frozen=True)
class Lipschitz:
    """A Lipschitz constant of the gradient, summed over parts."""

    parts: list[Objective]

    def bound(self) -> float:
        """Return at least the largest eigenvalue of the Hessian, at all weights."""
        return sum(lipschitz_bound(part) for part in self.parts)


@offers(LipschitzView, Objective)
@offers(LipschitzView, BlockedObjective)
def lipschitz_of(owner: Objective | BlockedObjective) -> Lipschitz:
    """Return the bound of an objective, or the sum of its blocks' bounds."""
    return Lipschitz(owner.parts if isinstance(owner, BlockedObjective) else [owner])
