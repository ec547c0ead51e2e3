"""The fit of one batch of features to what earlier ones have left over: the inner updates of Algorithms 2 and 3.

Shapes: K labels, I items, F features of the batch, the constant included; weights are tables, float64 (K, F).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, Vector
from crfqn.errors import ViewError
from crfqn.estimators.least_squares.items import Items
from crfqn.objectives.hessian_bound import Gram
from crfqn.objectives.linear.coordinates import Split, merge_weights, split_coords
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.link import Link
from crfqn.objectives.losses.potentials import Potential
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import GramView
from crfqn.penalties import ElasticNet
from crfqn.solvers.least_squares.generalized import GLS
from crfqn.solvers.smooth_point import Factor


class PartMaps:
    """The features of the items, part by part: kept where all items are one part, otherwise made anew in every pass."""

    def __init__(self, items: Items, make: Callable[[Any, slice], FeatureMap]) -> None:
        self.items = items
        self.make = make  # the features of some rows, and of the part of the items that they are
        self._kept: list[tuple[FeatureMap, slice]] | None = None

    def __iter__(self) -> Iterator[tuple[FeatureMap, slice]]:
        found = ((self.make(rows, part), part) for rows, part in self.items.parts())
        if self.items.is_whole and self._kept is None:
            self._kept = [*found]
        yield from found if self._kept is None else self._kept

    def sums(self, *asks: Callable[[FeatureMap, slice], Vector]) -> list[Vector]:
        """Return the sums over the parts of what is asked of each, in one pass."""
        totals: list[Vector] = []
        for features, part in self:
            own = [ask(features, part) for ask in asks]
            totals = [np.add(a, b, out=a) for a, b in zip(totals, own, strict=True)] if totals else own
        return totals

    def moments(self, features: FeatureMap, part: slice) -> Vector:
        """Return sum_i c_i x_i x_i' of a part, (F, F)."""
        return features.gram(self.items.weights[part])

    def residual(self, predictions: Vector, features: FeatureMap, part: slice) -> Vector:
        """Return sum_i c_i (y_i - predictions_i) x_i' of a part, (K, F)."""
        left = (self.items.targets[:, part] - predictions[:, part]) * self.items.weights[part]
        shape = left.shape[0], features.n_features
        return features.adjoint(all_nodes(*shape), left).reshape(shape)

    def advanced(self, predictions: Vector, table: Vector) -> Vector:
        """Return predictions (K, I) with the scores under weights (K, F) added."""
        after = predictions.copy()
        for features, part in self:
            after[:, part] += scores_of(features, table)
        return after


def all_nodes(n_states: int, n_features: int) -> Split:
    """Return the coordinates of a whole table of weights, (K, F)."""
    return split_coords(np.arange(n_states * n_features), n_states, n_features)


def scores_of(features: FeatureMap, table: Vector) -> Vector:
    """Return the scores of all positions, (K, N), under weights (K, F)."""
    scores = np.zeros((table.shape[0], features.n_positions))
    features.image(all_nodes(*table.shape), table.ravel(), scores)
    return scores


def ridge_factor(moments: Vector, l2: float, is_last_free: bool) -> Factor:
    """Return the factor of the second moments (F, F) + l2, without l2 for the last feature if it is not penalised."""
    ridge = np.full(len(moments), l2)
    if is_last_free:
        ridge[-1] = 0.0
    return Factor.of(moments, ridge)


def fit_residual(maps: PartMaps, predictions: Vector, l2: float, is_last_free: bool) -> Vector:
    """Return argmin_W 1/2 sum_i c_i ||y_i - predictions_i - W x_i||^2 + l2/2 ||W||^2, (K, F)."""
    moments, residual = maps.sums(maps.moments, partial(maps.residual, predictions))
    return ridge_factor(moments, l2, is_last_free).solve(residual)


def fit_margins(
    maps: PartMaps, margins: Vector, penalty: ElasticNet, potential: Potential, most: int, tol: float
) -> Vector:
    """Return the weights (K, F) after up to `most` steps of Algorithm 1 on sum_i c_i loss(margins_i + W x_i) + penalty.

    With a link other than the identity, stages add up margins, not predictions. The steps end sooner when the
    gradient has fallen to `tol` times its first size.
    """
    items = maps.items

    def blocks() -> Iterator[Objective]:
        for features, part in maps:
            loss = Link(potential, items.targets[:, part])
            yield Objective(features, loss, items.weights[part], offset=margins[:, part])

    shape = len(margins), next(iter(maps))[0].n_features
    objective = next(blocks()) if items.is_whole else StreamedObjective(blocks, *shape)
    start = objective.at(NO_COORDS, NO_VALUES)
    best, value, scale = start, np.inf, np.nan
    for number, state in enumerate(GLS().steps(objective, penalty, start)):  # type: ignore[arg-type]
        if state.value < value:
            best, value = state.point, state.value  # type: ignore[assignment]
        scale = state.violation if number == 0 else scale
        if number >= most or state.violation <= tol * scale:
            break
    table = np.zeros(shape[0] * shape[1])
    table[best.coords] = best.weights
    return table.reshape(shape)


@dataclass(frozen=True, eq=False)
class StreamedObjective:
    """The sum of objectives over all weights (K, F) that are made anew in every pass: what GLS asks of one."""

    blocks: Callable[[], Iterator[Objective]]
    n_states: int
    n_features: int

    def all_coords(self) -> Coords:
        return np.arange(self.n_states * self.n_features)

    def at(self, coords: Coords, weights: Vector) -> StreamedPoint:
        return StreamedPoint(self, coords, weights)

    def view(self, kind: type) -> Gram:
        """Return the Gram matrix of all blocks, and nothing else."""
        if kind is not GramView:
            raise ViewError(f"{type(self).__name__} has no {kind.__name__}")
        return Gram(self.blocks, self.n_features)


@dataclass(eq=False)
class StreamedPoint:
    """The loss at sparse weights; the pass over the blocks that it costs waits until somebody asks."""

    objective: StreamedObjective
    coords: Coords
    weights: Vector

    @cached_property
    def _sums(self) -> tuple[float, Vector]:
        """The loss and its gradient at all coordinates, (K F,)."""
        value, everything = 0.0, self.objective.all_coords()
        gradient = np.zeros(everything.size)
        for block in self.objective.blocks():
            point = block.at(self.coords, self.weights)
            value += point.value
            gradient += point.gradient(everything)
        return value, gradient

    @property
    def value(self) -> float:
        return self._sums[0]

    def gradient(self, coords: Coords) -> Vector:
        return self._sums[1][coords]

    def dual_value(self, scale: float) -> float:
        """Return -inf: no stage asks how far it is from its optimum."""
        return -np.inf

    def view(self, kind: type) -> Any:
        raise ViewError(f"{type(self).__name__} has no {kind.__name__}")

    def along(self, coords: Coords, direction: Vector) -> StreamedRay:
        return StreamedRay(self, coords, direction)


@dataclass(frozen=True, eq=False)
class StreamedRay:
    """The points w + step * direction."""

    origin: StreamedPoint
    coords: Coords
    direction: Vector

    def at(self, step: float) -> StreamedPoint:
        start = self.origin
        found = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return start.objective.at(*found)
