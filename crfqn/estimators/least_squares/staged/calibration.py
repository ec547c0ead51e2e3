"""Calibrated least squares: Agarwal et al. (2014), Algorithm 2, learnt and replayed.

    y~ = y^ + W_t x          W_t fits the residual y - y^ (equation 10)
    y^ = clip(B_t G(y~))     B_t fits y to functions of the predictions (equation 11)

Each of the three can only lower the squared error. Shapes: K labels, I items, F features, m functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from crfqn.arrays import Vector
from crfqn.estimators.features import item_features
from crfqn.estimators.least_squares.basis import Basis
from crfqn.estimators.least_squares.clipping import clipped
from crfqn.estimators.least_squares.staged.data import Items, PartMaps, scores_of
from crfqn.estimators.least_squares.staged.updates import moments, residual_sums, ridge_of
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.solvers.least_squares.factor import Factor
from crfqn.threads import Pool

SMALLEST = 1e-6  # singular value of the functions, in units of the largest: powers of 0 and 1 are the same


@dataclass(eq=False)
class Calibration:
    """Stages of calibrated least squares: their weights, and how predictions go through them.

    Attributes
    ----------
    l2 : float, ridge of W
    has_constant, is_constant_penalised : bool, whether the last feature is a constant 1, and is penalised
    basis : Basis, the functions G
    is_exclusive : bool, whether an item has one label, so that predictions lie on the simplex
    residual_tables, calibration_tables : lists of W_t, float64 (K, F), and of B_t, float64 (K, m)
    """

    l2: float
    has_constant: bool
    is_constant_penalised: bool
    basis: Basis
    is_exclusive: bool
    residual_tables: list[Vector] = field(default_factory=list)
    calibration_tables: list[Vector] = field(default_factory=list)

    @property
    def n_stages(self) -> int:
        """Number of stages so far."""
        return len(self.residual_tables)

    @property
    def n_features(self) -> int:
        """Number of features of the items, constant included; 0 before the first stage."""
        return self.residual_tables[0].shape[1] if self.residual_tables else 0

    def tables(self) -> list[Vector]:
        """Return the weights of all stages, for counting and storing."""
        return [*self.residual_tables, *self.calibration_tables]

    def keep(self, n_stages: int) -> None:
        """Drop all stages but the first `n_stages`."""
        del self.residual_tables[n_stages:], self.calibration_tables[n_stages:]

    def prepare(self, rows: Any, pool: Pool) -> FeatureMap:
        """Return the features of rows, which `advance` takes."""
        return item_features(rows, self.has_constant, pool)

    def advance(self, prepared: FeatureMap, number: int, predictions: Vector) -> Vector:
        """Return the predictions after stage `number`, (K, N), given those before it."""
        between = predictions + scores_of(prepared, self.residual_tables[number])
        return clipped(self.calibration_tables[number] @ self.basis(between), self.is_exclusive)

    def probabilities(self, predictions: Vector) -> Vector:
        """Return the predictions, which are within 0 and 1 already."""
        return predictions

    def learner(self, items: Items) -> Learner:
        """Return the learner that adds stages fitted to these items."""
        return Learner(self, items)

    def loss(self, items: Items, predictions: Vector) -> float:
        """Return the squared error of predictions (K, I), 1/2 sum_i c_i ||y_i - y^_i||^2."""
        return 0.5 * float(np.square(items.targets - predictions).sum(axis=0) @ items.weights)


@dataclass(eq=False)
class Learner:
    """Learner of further stages: the training items' features, and one factorisation of their second moments."""

    stages: Calibration
    items: Items

    @cached_property
    def maps(self) -> PartMaps:
        """Features of the training items."""
        stages, items = self.stages, self.items
        return PartMaps(items, lambda rows, part: stages.prepare(rows, items.pool))

    @cached_property
    def factor(self) -> Factor:
        """Factor of sum_i c_i x_i x_i' + l2."""
        gram, stages = moments(self.maps, self.items), self.stages
        is_free = stages.has_constant and not stages.is_constant_penalised
        return Factor.of(gram, ridge_of(len(gram), stages.l2, is_free))

    def learn(self, predictions: Vector) -> Vector:
        """Add a stage; return the predictions after it, (K, I), given those before it."""
        stages, items = self.stages, self.items
        cross: Any = 0.0
        for features, part in self.maps:
            cross = cross + residual_sums(features, items, predictions, part)
        table = self.factor.solve(cross)
        between = predictions.copy()
        for features, part in self.maps:
            between[:, part] += scores_of(features, table)
        functions, roots = stages.basis(between), np.sqrt(items.weights)
        # Powers are nearly dependent: their second moments would lose half of the digits.
        calibration = lstsq((functions * roots).T, (items.targets * roots).T, cond=SMALLEST)[0].T
        stages.calibration_tables.append(calibration)
        stages.residual_tables.append(table)  # with which the stage counts
        return clipped(calibration @ functions, stages.is_exclusive)
