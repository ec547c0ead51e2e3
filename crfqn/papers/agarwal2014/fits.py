"""The fit of one batch of features to the residuals of earlier ones: the inner updates of Algorithms 2 and 3.

The items are an objective, or a sum of objectives of blocks that are read in every pass; its offset is the prediction
of the stages before. Shapes: K labels, I items, F features of the batch, the constant included; weights are tables,
float64 (K, F), of items float64 (K, I).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.data.inputs import ItemTable
from crfqn.errors import InputError
from crfqn.objectives.executors import LocalParts, StoredParts
from crfqn.objectives.linear.feature_map import FeatureMap, all_nodes, scores_of, sums_of
from crfqn.objectives.linear.sparse_map import PRODUCTS_PER_ENTRY_PAIR
from crfqn.objectives.losses.potentials import Potential, SquaredNorm
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import total
from crfqn.papers.agarwal2014.gls import GLS, Factor, Link
from crfqn.penalties import ElasticNet
from crfqn.threads import Pool

USUAL_CG_STEPS = 60  # usual number of steps of conjugate gradients, to estimate their cost
MAX_CG_STEPS = 1000  # a system that takes more steps is factorised
CG_TOL = 1e-5  # tolerance of the residual, relative to the norm of the right-hand side

# (rows, their slice of the items) -> features
MakeFeatures: TypeAlias = "Callable[[ItemTable, slice], FeatureMap]"


@dataclass(eq=False)
class ItemStream:
    """Rows, targets and weights of the training items, in one block or in several that are read in every pass.

    blocks : returns the rows, block by block, the same ones at each call
    targets, weights : (K, I), points of the simplex or the hypercube; (I,)
    is_whole : whether all rows come in one block that stays in memory
    """

    blocks: Callable[[], Iterator[ItemTable]]
    targets: Vector
    weights: Vector
    is_whole: bool
    pool: Pool

    def parts(self) -> Iterator[tuple[ItemTable, slice]]:
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

    def objective(
        self, features: MakeFeatures, predictions: Vector, potential: Potential | None = None
    ) -> Objective:
        """Return the loss of the items around predictions (or scores), (K, I): least squares, unless a link's
        potential is given."""
        parts = StageParts(self, features, predictions, potential or SquaredNorm())
        return Objective(LocalParts([*parts], np.inf) if self.is_whole else StoredParts(parts, max_kept=0))


@dataclass(frozen=True)
class StageParts:
    """The parts of the blocks; each pass makes them and their features again."""

    items: ItemStream
    features: MakeFeatures
    predictions: Vector
    potential: Potential

    def __iter__(self) -> Iterator[Part]:
        items = self.items
        for rows, part in items.parts():
            loss = Link(self.potential, items.targets[:, part])
            yield Part(self.features(rows, part), loss, items.weights[part], offset=self.predictions[:, part])


def residual(part: Part) -> Vector:
    """Return sum_i c_i (y_i - predictions_i) x_i' of a part, (K, F)."""
    assert isinstance(part.loss, Link)
    assert part.offset is not None
    return sums_of(part.map, (part.loss.targets - part.offset) * part.weights)


def advanced(objective: Objective, predictions: Vector, table: Vector) -> Vector:
    """Return predictions (K, I) with the scores under weights (K, F) added."""
    return predictions + np.concatenate([scores_of(part.map, table) for part in objective.parts], axis=1)


def normal_solver(objective: Objective, ridge: Vector) -> Callable[[Vector], Vector]:
    """Return a solver of W (sum_i c_i x_i x_i' + diag(ridge)) = R for tables R, (K, F): a factor, or conjugate
    gradients if they take fewer operations, as with sparse features of items in memory. Conjugate gradients are
    preconditioned by the diagonal; if they do not converge, the matrix is factorised."""
    if objective.whole is None:  # each step of conjugate gradients would be a pass
        return Factor.from_matrix(objective.gram(), ridge).solve
    features, n_features = objective.whole.map, objective.n_features
    n_products = 2.0 * features.count_entries(all_nodes(objective.n_states, n_features))
    if USUAL_CG_STEPS * n_products * PRODUCTS_PER_ENTRY_PAIR >= n_features**3 / 3:
        return Factor.from_matrix(objective.gram(), ridge).solve
    diagonal = features.weighted_squares(objective.whole.weights) + ridge
    scales = np.where(diagonal > 0, diagonal, 1.0)
    factors: list[Factor] = []  # empty until conjugate gradients have failed

    def solve(table: Vector) -> Vector:
        def linear(times: Callable[[Vector], Vector]) -> LinearOperator:
            shape = (table.size, table.size)
            return LinearOperator(shape, lambda v: times(v.reshape(table.shape)).ravel(), dtype=np.float64)

        if not factors:
            system = linear(lambda w: objective.gram_product(w) + w * ridge)
            inverse = linear(lambda w: w / scales)
            solution, status = cg(system, table.ravel(), rtol=CG_TOL, maxiter=MAX_CG_STEPS, M=inverse)
            if status == 0:
                return solution.reshape(table.shape)
            factors.append(Factor.from_matrix(objective.gram(), ridge))
        return factors[0].solve(table)

    return solve


def ridge_of(n_features: int, l2: float, is_last_free: bool) -> Vector:
    """Return the ridge of each feature, (F,)."""
    ridge = np.full(n_features, l2)
    if is_last_free:
        ridge[-1] = 0.0
    return ridge


def fit_residual(objective: Objective, l2: float, is_last_free: bool) -> Vector:
    """Return argmin_W 1/2 sum_i c_i ||y_i - predictions_i - W x_i||^2 + l2/2 ||W||^2, (K, F)."""
    if objective.whole is not None:
        ridge = ridge_of(objective.n_features, l2, is_last_free)
        return normal_solver(objective, ridge)(residual(objective.whole))
    # Sum sum_i c_i x_i x_i' and the residual, stacked (F + K, F), in one pass: each pass makes the features again.
    equations = total(np.concatenate([part.gram(), residual(part)]) for part in objective.parts)
    n_features = equations.shape[1]
    factor = Factor.from_matrix(equations[:n_features], ridge_of(n_features, l2, is_last_free))
    return factor.solve(equations[n_features:])


def fit_scores(objective: Objective, penalty: ElasticNet, max_steps: int, tol: float) -> Vector:
    """Return the weights (K, F) after up to `max_steps` steps of Algorithm 1 on sum_i c_i loss(scores_i + W x_i) +
    penalty, or until the gradient is `tol` times the first. With a link, stages add up scores, not predictions."""
    start = objective.at(NO_COORDS, NO_VALUES)
    best: Any = start
    value, scale = np.inf, np.nan
    for number, state in enumerate(GLS().steps(objective, penalty, start)):
        if state.value < value:
            best, value = state.point, state.value
        scale = state.violation if number == 0 else scale
        if number >= max_steps or state.violation <= tol * scale:
            break
    table = np.zeros(objective.n_states * objective.n_features)
    table[best.coords] = best.weights
    return table.reshape(objective.n_states, objective.n_features)
