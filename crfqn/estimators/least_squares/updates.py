"""The fit of one batch of features to what earlier ones have left over: the inner updates of Algorithms 2 and 3.

Shapes: K labels, I items, F features of the batch, the constant included; weights are tables, float64 (K, F).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.estimators.least_squares.items import ItemStream
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.linear.coordinates import Split, split_coords
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.link import Link
from crfqn.objectives.losses.potentials import Potential
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.solvers.least_squares.generalized import GLS
from crfqn.solvers.smooth_point import Factor


class PartMaps:
    """The features of the items, part by part: kept where all items are one part, otherwise made anew in every pass."""

    def __init__(self, items: ItemStream, make: Callable[[Any, slice], FeatureMap]) -> None:
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


@dataclass(frozen=True)
class UpdateBlocks:
    """The objectives of the parts of the items, around margins (K, I); made anew in every pass, as the features are."""

    maps: PartMaps
    margins: Vector
    potential: Potential

    def __iter__(self) -> Iterator[Objective]:
        items = self.maps.items
        for features, part in self.maps:
            loss = Link(self.potential, items.targets[:, part])
            yield Objective(features, loss, items.weights[part], offset=self.margins[:, part])


def fit_margins(
    maps: PartMaps, margins: Vector, penalty: ElasticNet, potential: Potential, most: int, tol: float
) -> Vector:
    """Return the weights (K, F) after up to `most` steps of Algorithm 1 on sum_i c_i loss(margins_i + W x_i) + penalty,
    or sooner, at `tol` times the first gradient. With a link, stages add up margins, not predictions."""
    blocks = UpdateBlocks(maps, margins, potential)
    objective = next(iter(blocks)) if maps.items.is_whole else BlockedObjective(blocks, most_kept=0)
    shape = objective.n_states, objective.n_features
    start = objective.at(NO_COORDS, NO_VALUES)
    best: Any = start
    value, scale = np.inf, np.nan
    for number, state in enumerate(GLS().steps(objective, penalty, start)):
        if state.value < value:
            best, value = state.point, state.value
        scale = state.violation if number == 0 else scale
        if number >= most or state.violation <= tol * scale:
            break
    table = np.zeros(shape[0] * shape[1])
    table[best.coords] = best.weights
    return table.reshape(shape)
