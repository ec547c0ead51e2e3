"""Flat objectives: features x a loss of the scores, for items of one position each.

    loss(w) = sum_i weight_i loss_i(W x_i),   gradient = X' residual

The losses of `losses.py` take the place of a structure's likelihood; everything that is linear, from the scores of the
weights to the gradients of rows, is that of `crf.py`. With the logistic loss it is the CRF of a flat structure.

Shapes as in `crf.py`; no edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.features import FeatureStore
from crfqn.kernels.margin_losses import squared_columns
from crfqn.objectives.by_feature import Rows
from crfqn.objectives.coordinates import merge_weights
from crfqn.objectives.crf import CRFObjective
from crfqn.objectives.curvature_bound import largest_eigenvalue
from crfqn.objectives.losses import Evaluation, Loss, MultinomialLogistic
from crfqn.objectives.margin_model import margin_model
from crfqn.objectives.point import Coords, Point, Ray, Vector
from crfqn.objectives.scores import add_image
from crfqn.objectives.token_model import Model
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.structures.flat import flat
from crfqn.structures.structure import NO_EDGES, Inference
from crfqn.threads import Pool

if TYPE_CHECKING:
    from crfqn.objectives.incremental import Incremental
    from crfqn.objectives.row_blocks import RowBlocks
    from crfqn.objectives.row_learner import RowLearner


class FlatObjective(CRFObjective):
    """A loss over a feature store; `at(coords, weights)` evaluates it.

    Parameters
    ----------
    store : FeatureStore of N items of one position each, and F features
    loss : Loss over as many positions, with their labels
    weights : ndarray of float64, shape (N,), optional: how often each item counts
    n_threads, pool : as in `CRFObjective`

    Raises
    ------
    InputError
        For items of several positions, and for a loss over another number of positions.
    """

    def __init__(
        self,
        store: FeatureStore,
        loss: Loss,
        weights: Vector | None = None,
        n_threads: int | None = None,
        pool: Pool | None = None,
    ) -> None:
        if store.n_items != store.n_positions:
            raise InputError(
                f"a flat objective needs one position an item, got {store.n_positions} in {store.n_items} items"
            )
        if loss.n_positions != store.n_positions:
            raise InputError(
                f"expected a loss over {store.n_positions} positions, as the features, got {loss.n_positions}"
            )
        structure = flat(loss.n_states, store.n_items)
        super().__init__(store, structure, loss.labels, weights, n_threads=n_threads, pool=pool)
        self.loss = loss

    def take(self, items: NDArray[np.integer]) -> FlatObjective:
        """The loss over some items (ascending), with the same coordinates."""
        store, positions = self.store.take(items, self.pool)
        return FlatObjective(store, self.loss.take(positions), self.weights[items], pool=self.pool)

    def at(self, coords: Coords, weights: Vector) -> FlatPoint:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        scores = np.zeros((self.structure.n_states, self.store.n_positions))
        add_image(self.store, coords, weights, scores, np.empty(0), self.pool)
        return FlatPoint(self, coords, weights, scores, NO_EDGES)

    @cached_property
    def constants(self) -> Vector:
        """A Lipschitz constant of each feature's row of the gradient, (F,) (appendix A of Blondel et al.)."""
        return self.loss.constants(self.store, self.weights)

    def online(self, *arguments: object) -> NoReturn:
        """Not for these losses yet: the updates of single items are those of a likelihood."""
        raise InputError(
            f"learning item by item is for likelihoods; the loss is {type(self.loss).__name__}: use another solver"
        )

    def row_learner(
        self, start: tuple[Coords, Vector], penalty: ElasticNet | GroupLasso, share: float = 1.0
    ) -> RowLearner:
        """Rows that learn item by item, for forward-backward splitting."""
        from crfqn.objectives.row_learner import RowLearner

        return RowLearner(self, start, penalty, share)

    def lipschitz_bound(self) -> float:
        """A bound on the largest eigenvalue of the Hessian that holds everywhere.

        That of sum_i c_i x_i x_i', c_i = weight_i times the loss's bound at a position: of the multiclass squared hinge
        2 K ||X||_2^2, where the global constant of the paper's appendix A is 4 (K - 1) sum_ij x_ij^2.
        """
        return largest_eigenvalue(self, self.weights * self.loss.score_bounds())


@dataclass(eq=False)
class FlatPoint(Point):
    """The loss at sparse weights."""

    objective: FlatObjective

    @cached_property
    def evaluation(self) -> Evaluation:
        """The one pass over the scores that a point costs."""
        owner = self.objective
        owner.n_passes += 1
        return owner.loss.evaluate(self.scores, owner.weights, owner.pool)

    @cached_property
    def inference(self) -> Inference:
        """The same in the words of a structure, whose loss is log_partition - target_score."""
        found = self.evaluation
        return Inference(found.losses, np.zeros_like(found.losses), np.nan, found.residual, NO_EDGES)

    @property
    def count_within(self) -> Callable[[float, float, float], int]:  # type: ignore[override]
        """Of likelihoods only: the spreads of features are."""
        if isinstance(self.objective.loss, MultinomialLogistic):
            return super().count_within
        raise AttributeError(f"no safe screening with {type(self.objective.loss).__name__}")

    @property
    def incremental(self) -> Callable[[], Incremental]:  # type: ignore[override]
        """Of likelihoods only: its kernels are."""
        if isinstance(self.objective.loss, MultinomialLogistic):
            return super().incremental
        raise AttributeError(f"no incremental evaluation with {type(self.objective.loss).__name__}")

    def dual_value(self, scale: float) -> float:
        """The dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""
        return self.objective.loss.dual_value(self.evaluation, self.objective.weights, scale)

    @cached_property
    def score_curvature(self) -> Vector:
        """Diagonal of the Hessian by the scores, (K, N)."""
        return self.objective.loss.curvature(self.scores, self.evaluation, self.objective.weights)

    def _measure_squares(self, coords: Coords) -> Vector:
        """Curvature and roughness: of a piecewise quadratic loss the curvature is the best guess of both."""
        owner = self.objective
        if isinstance(owner.loss, MultinomialLogistic):
            return super()._measure_squares(coords)
        store, split, out = owner.store, owner.split(coords), np.empty((2, coords.size))
        whole = Rows.of(store, split, owner.structure.n_states)
        if whole is not None:
            out[:] = whole.sums(self.score_curvature, owner.pool, of_squares=True)
            return out

        def sweep(first: int, last: int) -> None:
            squared_columns(
                first, last, split.states, split.features, store.indptr, store.indices, store.values,
                self.score_curvature, out[0],
            )  # fmt: skip

        owner.each_column(split, sweep)
        out[1] = out[0]
        return out

    def token_model(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Model | None:
        """The Hessian on `coords`, from about n_sampled positions: no two positions have a covariance here."""
        if isinstance(self.objective.loss, MultinomialLogistic):
            return super().token_model(coords, n_sampled, max_dense, share)
        return margin_model(self, coords, n_sampled, max_dense)

    def row_blocks(self) -> RowBlocks:
        """The weights by feature, for block coordinate descent."""
        from crfqn.objectives.row_blocks import RowBlocks

        return RowBlocks.at(self)

    def along(self, coords: Coords, direction: Vector) -> FlatRay:
        """The ray w + step * direction."""
        return FlatRay(self, coords, direction)


class FlatRay(Ray):
    """A point and a direction."""

    def _point(self, step: float, scores: Vector, edges: Vector) -> FlatPoint:
        start = self.origin
        assert isinstance(start, FlatPoint)
        coords, weights = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return FlatPoint(start.objective, coords, weights, scores, edges)
