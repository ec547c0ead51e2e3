"""The fit of one batch of features to what earlier ones have left over: the inner updates of Algorithms 2 and 3.

Shapes: K labels, I items, F features of the batch, the constant included; weights are tables, float64 (K, F).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.estimators.least_squares.staged.data import Items, PartMaps, sums_of
from crfqn.objectives.losses.link import Link
from crfqn.objectives.losses.potentials import Potential
from crfqn.objectives.objective import Objective
from crfqn.objectives.streamed import StreamedObjective
from crfqn.penalties import ElasticNet
from crfqn.solvers.least_squares.factor import Factor
from crfqn.solvers.least_squares.generalized import GLS


def ridge_of(n_features: int, l2: float, unpenalised: bool) -> Vector:
    """Return the ridge of each feature, (F,): l2, or 0 for the last feature if it is not penalised."""
    ridge = np.full(n_features, l2)
    if unpenalised:
        ridge[-1] = 0.0
    return ridge


def moments(maps: PartMaps, items: Items) -> Vector:
    """Return the second moments sum_i c_i x_i x_i', (F, F)."""
    total: Vector | None = None
    for features, part in maps:
        own = features.gram(items.weights[part])
        total = own if total is None else np.add(total, own, out=total)
    assert total is not None  # there are items
    return total


def moments_and_residual(maps: PartMaps, items: Items, predictions: Vector) -> tuple[Vector, Vector]:
    """Return sum_i c_i x_i x_i', (F, F), and sum_i c_i (y_i - predictions_i) x_i', (K, F), in one pass."""
    gram: Vector | None = None
    cross: Vector | float = 0.0
    for features, part in maps:
        own = features.gram(items.weights[part])
        gram = own if gram is None else np.add(gram, own, out=gram)
        cross = cross + residual_sums(features, items, predictions, part)
    assert gram is not None  # there are items
    return gram, np.asarray(cross)


def residual_sums(features, items: Items, predictions: Vector, part: slice) -> Vector:  # type: ignore[no-untyped-def]
    """Return sum_i c_i (y_i - predictions_i) x_i' over a part of the items, (K, F)."""
    return sums_of(features, (items.targets[:, part] - predictions[:, part]) * items.weights[part])


def fit_residual(maps: PartMaps, items: Items, predictions: Vector, l2: float, unpenalised: bool) -> Vector:
    """Return argmin_W 1/2 sum_i c_i ||y_i - predictions_i - W x_i||^2 + l2/2 ||W||^2, (K, F)."""
    gram, cross = moments_and_residual(maps, items, predictions)
    return Factor.of(gram, ridge_of(len(gram), l2, unpenalised)).solve(cross)


def fit_margins(
    maps: PartMaps,
    items: Items,
    margins: Vector,
    penalty: ElasticNet,
    potential: Potential,
    most: int,
    tol: float,
) -> Vector:
    """Return the weights (K, F) after up to `most` steps of Algorithm 1 on sum_i c_i loss(margins_i + W x_i) + penalty.

    With a link other than the identity, stages add up margins, not predictions. The steps end sooner when the
    gradient has fallen to `tol` times its first size.
    """

    def blocks() -> Iterator[Objective]:
        for features, part in maps:
            loss = Link(potential, items.targets[:, part])
            yield Objective(features, loss, items.weights[part], offset=margins[:, part])

    first = next(iter(maps))[0]
    shape = items.targets.shape[0], first.n_features
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
