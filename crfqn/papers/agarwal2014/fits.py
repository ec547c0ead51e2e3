"""The fit of one batch of features to what earlier ones have left over: the inner updates of Algorithms 2 and 3.

Shapes: K labels, I items, F features of the batch, the constant included; weights are tables, float64 (K, F), of items
float64 (K, I).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import FeatureMap, all_nodes, gram_product, scores_of, sums_of
from crfqn.objectives.linear.sparse_map import DENSE_PRODUCTS
from crfqn.objectives.losses.potentials import Potential
from crfqn.objectives.objective import Objective
from crfqn.objectives.sums import Sum
from crfqn.papers.agarwal2014.gls import GLS, Link
from crfqn.penalties import ElasticNet
from crfqn.solvers.smooth_point import Factor
from crfqn.threads import Pool

CG_STEPS = 60  # that conjugate gradients usually take
MOST_CG_STEPS = 1000  # more are a sign of a problem that needs a factor
CG_TOL = 1e-5  # of the right-hand side's norm


@dataclass(eq=False)
class ItemStream:
    """Rows, targets and weights of the items that a model is trained on, in one piece or in blocks that are read anew
    in every pass.

    blocks : returns the rows, block by block, the same ones at each call
    targets, weights : (K, I), points of the simplex or the hypercube; (I,)
    is_whole : whether all rows come in one block that stays in memory
    """

    blocks: Callable[[], Iterator[Any]]
    targets: Vector
    weights: Vector
    is_whole: bool
    pool: Pool

    def parts(self) -> Iterator[tuple[Any, slice]]:
        """Yield the rows of each block, and the slice of the items that they are."""
        first, n_items = 0, self.targets.shape[1]
        for rows in self.blocks():
            part = slice(first, first + rows.shape[0])
            first = part.stop
            yield rows, part
        if first != n_items:
            raise InputError(
                f"blocks: expected the same {n_items:,} items in every pass, got {first:,} this time"
            )


class PartMaps:
    """The features of the items, part by part: kept where all items are one part, otherwise made anew in every pass.

    make : returns the features of some rows, given these and the part of the items that they are
    """

    def __init__(self, items: ItemStream, make: Callable[[Any, slice], FeatureMap]) -> None:
        self.items = items
        self.make = make
        self._whole: list[tuple[FeatureMap, slice]] | None = None

    def __iter__(self) -> Iterator[tuple[FeatureMap, slice]]:
        parts = ((self.make(rows, part), part) for rows, part in self.items.parts())
        if self.items.is_whole and self._whole is None:
            self._whole = [*parts]
        yield from parts if self._whole is None else self._whole

    @property
    def n_numbers(self) -> float:
        """Numbers in the features that are kept."""
        return sum(
            features.count_entries(all_nodes(1, features.n_features)) for features, _ in self._whole or ()
        )

    def sums(self, *queries: Callable[[FeatureMap, slice], Vector]) -> list[Vector]:
        """Return the sums over the parts of what each query returns of a part, in one pass."""
        totals: list[Vector] = []
        for features, part in self:
            terms = [query(features, part) for query in queries]
            totals = [np.add(a, b, out=a) for a, b in zip(totals, terms, strict=True)] if totals else terms
        return totals

    def moments(self, features: FeatureMap, part: slice, is_rounded: bool = False) -> Vector:
        """Return sum_i c_i x_i x_i' of a part, (F, F)."""
        return features.gram(self.items.weights[part], is_rounded)

    def residual(self, predictions: Vector, features: FeatureMap, part: slice) -> Vector:
        """Return sum_i c_i (y_i - predictions_i) x_i' of a part, (K, F)."""
        errors = (self.items.targets[:, part] - predictions[:, part]) * self.items.weights[part]
        return sums_of(features, errors)

    def advanced(self, predictions: Vector, table: Vector) -> Vector:
        """Return predictions (K, I) with the scores under weights (K, F) added."""
        after = predictions.copy()
        for features, part in self:
            after[:, part] += scores_of(features, table)
        return after

    def solver(self, l2: float, is_last_free: bool) -> Callable[[Vector], Vector]:
        """Return what solves W (sum_i c_i x_i x_i' + l2) = R for tables R, (K, F), without l2 for the last feature if
        it is free: a factor, or conjugate gradients where they take fewer operations, as with sparse features. These
        work in units of the diagonal; where they do not end, a factor is made."""
        first, _ = next(iter(self))
        weights, ridge = self.items.weights, ridge_of(first.n_features, l2, is_last_free)

        def product(table: Vector) -> Vector:
            return self.sums(lambda features, part: gram_product(features, weights[part], table))[0]

        def matrix(is_rounded: bool) -> Vector:
            return self.sums(partial(self.moments, is_rounded=is_rounded))[0]

        def factor() -> Factor:
            if first.is_roundable:
                return Factor.of_rounded(matrix, product, ridge)
            return Factor.of(matrix(False), ridge)

        n_products = 2.0 * first.count_entries(all_nodes(len(self.items.targets), first.n_features))
        is_cheap = CG_STEPS * n_products * DENSE_PRODUCTS < first.n_features**3 / 3
        if not (is_cheap and self.items.is_whole):  # each step is a pass
            return factor().solve
        (diagonal,) = self.sums(lambda features, part: features.weighted_squares(weights[part]))
        diagonal += ridge
        scales = np.where(diagonal > 0, diagonal, 1.0)
        factors: list[Factor] = []  # one, once it was needed

        def solve(table: Vector) -> Vector:
            def linear(times: Callable[[Vector], Vector]) -> LinearOperator:
                shape = (table.size, table.size)
                return LinearOperator(
                    shape, lambda v: times(v.reshape(table.shape)).ravel(), dtype=np.float64
                )

            if not factors:
                system, inverse = linear(lambda w: product(w) + w * ridge), linear(lambda w: w / scales)
                solution, status = cg(system, table.ravel(), rtol=CG_TOL, maxiter=MOST_CG_STEPS, M=inverse)
                if status == 0:
                    return solution.reshape(table.shape)
                factors.append(factor())
            return factors[0].solve(table)

        return solve


def ridge_of(n_features: int, l2: float, is_last_free: bool) -> Vector:
    """Return the ridge of each feature, (F,)."""
    ridge = np.full(n_features, l2)
    if is_last_free:
        ridge[-1] = 0.0
    return ridge


def fit_residual(maps: PartMaps, predictions: Vector, l2: float, is_last_free: bool) -> Vector:
    """Return argmin_W 1/2 sum_i c_i ||y_i - predictions_i - W x_i||^2 + l2/2 ||W||^2, (K, F)."""
    residual = partial(maps.residual, predictions)
    if maps.items.is_whole:
        return maps.solver(l2, is_last_free)(*maps.sums(residual))
    moments, sums = maps.sums(maps.moments, residual)  # in one pass over what is made anew in every pass
    return Factor.of(moments, ridge_of(len(moments), l2, is_last_free)).solve(sums)


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
    objective = next(iter(blocks)) if maps.items.is_whole else Sum.of(blocks, most_kept=0)
    start = objective.at(NO_COORDS, NO_VALUES)
    best: Any = start
    value, scale = np.inf, np.nan
    for number, state in enumerate(GLS().steps(objective, penalty, start)):
        if state.value < value:
            best, value = state.point, state.value
        scale = state.violation if number == 0 else scale
        if number >= most or state.violation <= tol * scale:
            break
    table = np.zeros(objective.n_states * objective.n_features)
    table[best.coords] = best.weights
    return table.reshape(objective.n_states, objective.n_features)
