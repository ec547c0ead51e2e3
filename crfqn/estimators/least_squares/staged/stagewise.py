"""Stagewise regression: Agarwal et al. (2014), Algorithm 3, learnt and replayed.

A stage makes a batch of features x~ and fits what the stages before have left over:

    linear      y^ <- y^ + W x~,   W fits the residual y - y^
    calibrated  y^ <- clip(y^ + W [x~, y^, y^^2, y^^3]),   W fits the residual
    logistic    f <- f + W x~,   some steps of Algorithm 1 with f as a constant offset;   y^ = g(f)

With a link other than the identity, a residual y - y^ cannot be fitted as if it were a label: margins f are kept.
Features are made when they are asked for, from a seed and the number of the stage, and never kept.

Shapes: K labels, I items, p features of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.data.generators.sources import Source
from crfqn.estimators.classification.items import intercept_coords
from crfqn.estimators.least_squares.basis import Basis
from crfqn.estimators.least_squares.clipping import clipped
from crfqn.estimators.least_squares.staged.data import Items, PartMaps, scores_of
from crfqn.estimators.least_squares.staged.updates import fit_margins, fit_residual
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.generated_map import GeneratedMap
from crfqn.objectives.linear.joined_map import JoinedMap
from crfqn.objectives.linear.tiled_map import TiledMap
from crfqn.objectives.losses.link import Link
from crfqn.objectives.losses.potentials import LINKS
from crfqn.penalties import ElasticNet
from crfqn.threads import Pool

UPDATES = ("calibrated", "linear", "logistic")
LINK_OF = {True: "softmax", False: "sigmoid"}  # of logistic updates, by whether an item has one label


@dataclass(frozen=True)
class Update:
    """Settings by which the weights of a stage are fitted.

    Attributes
    ----------
    kind : one of UPDATES
    batch_size : int, features of a batch, p
    l2 : float, ridge
    has_constant, is_constant_penalised : bool, whether a batch has one more feature that is 1, and it is penalised
    most_steps, tol : of logistic updates, steps of Algorithm 1 at most, and the gradient's decrease that ends them
    """

    kind: str
    batch_size: int
    l2: float
    has_constant: bool
    is_constant_penalised: bool
    most_steps: int
    tol: float


@dataclass(eq=False)
class Stages:
    """Stages of stagewise regression: their weights, and how predictions go through them.

    Attributes
    ----------
    source : Source, makes the features of each stage
    update : Update
    basis : Basis, functions of the predictions that are features of a calibrated stage as well
    is_exclusive : bool, whether an item has one label
    weights : list of float64 (K, p + ...), one a stage
    """

    source: Source
    update: Update
    basis: Basis
    is_exclusive: bool
    weights: list[Vector] = field(default_factory=list)

    @property
    def n_stages(self) -> int:
        """Number of stages so far."""
        return len(self.weights)

    @property
    def n_features(self) -> int:
        """Number of features of all stages together."""
        return sum(table.shape[1] for table in self.weights)

    def tables(self) -> list[Vector]:
        """Return the weights of all stages, for counting and storing."""
        return self.weights

    def keep(self, n_stages: int) -> None:
        """Drop all stages but the first `n_stages`."""
        del self.weights[n_stages:]

    def prepare(self, rows: Any, pool: Pool) -> tuple[Any, Pool]:
        """Return rows and threads, which `advance` takes."""
        return rows, pool

    def features(self, rows: Any, number: int, predictions: Vector, pool: Pool, keeps: bool) -> TiledMap:
        """Return the features of stage `number` for rows, functions of the predictions (K, N) included."""
        offsets, is_plain = np.arange(rows.shape[0] + 1), self.update.kind != "calibrated"
        batch = self.source.batch(number, self.update.batch_size)
        made = GeneratedMap(rows, batch, offsets, self.update.has_constant and is_plain, pool)
        if is_plain:
            return made.kept() if keeps else made
        given = DenseMap(np.ascontiguousarray(self.basis(predictions).T), offsets, pool=pool)
        return JoinedMap([made.kept() if keeps else made, given], self.update.has_constant)

    def advance(self, prepared: tuple[Any, Pool], number: int, predictions: Vector) -> Vector:
        """Return the predictions (logistic: the margins) after stage `number`, (K, N), given those before it."""
        rows, pool = prepared
        features = self.features(rows, number, predictions, pool, keeps=False)
        return self._after(predictions + scores_of(features, self.weights[number]))

    def _after(self, predictions: Vector) -> Vector:
        return clipped(predictions, self.is_exclusive) if self.update.kind == "calibrated" else predictions

    def probabilities(self, predictions: Vector) -> Vector:
        """Return probabilities, (K, N), from predictions (logistic: margins)."""
        if self.update.kind == "logistic":
            return LINKS[LINK_OF[self.is_exclusive]].gradient(predictions)
        return clipped(predictions, self.is_exclusive)

    def learner(self, items: Items) -> Learner:
        """Return the learner that adds stages fitted to these items."""
        return Learner(self, items)

    def link(self, items: Items) -> Link:
        """Return the loss that logistic updates minimise."""
        return Link(LINKS[LINK_OF[self.is_exclusive]], items.targets)

    def loss(self, items: Items, predictions: Vector) -> float:
        """Return 1/2 sum_i c_i ||y_i - y^_i||^2 of predictions (K, I), or the logistic loss of margins, in nats."""
        if self.update.kind == "logistic":
            return float(
                items.weights
                @ self.link(items).evaluate(predictions, NO_VALUES, items.weights, items.pool).item_losses
            )
        return 0.5 * float(np.square(items.targets - predictions).sum(axis=0) @ items.weights)


@dataclass(frozen=True, eq=False)
class Learner:
    """Learner of further stages from the training items."""

    stages: Stages
    items: Items

    def learn(self, predictions: Vector) -> Vector:
        """Add a stage; return the predictions (logistic: the margins) after it, (K, I), given those before it."""
        stages, items, update = self.stages, self.items, self.stages.update
        number = stages.n_stages
        maps = PartMaps(
            items, lambda rows, part: stages.features(rows, number, predictions[:, part], items.pool, True)
        )
        is_free = update.has_constant and not update.is_constant_penalised
        if update.kind == "logistic":
            n_columns = next(iter(maps))[0].n_features
            free = intercept_coords(len(predictions), n_columns) if is_free else NO_COORDS
            penalty = ElasticNet(0.0, update.l2, free)
            potential = stages.link(items).potential
            table = fit_margins(maps, items, predictions, penalty, potential, update.most_steps, update.tol)
        else:
            table = fit_residual(maps, items, predictions, update.l2, is_free)
        after = predictions.copy()
        for features, part in maps:
            after[:, part] += scores_of(features, table)
        stages.weights.append(table)
        return stages._after(after)
