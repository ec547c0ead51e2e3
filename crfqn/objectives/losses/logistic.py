"""The multinomial logistic loss: the likelihood of the flat structure, and a loss of margins for row descent.

Equation 12 of Blondel, Seki and Uehara (2013) as a sum. Shapes as in `hinges.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.kernels.margins import LOGISTIC
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.hinges import checked_labels
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.structures.flat import flat


@dataclass(frozen=True, eq=False)
class MultinomialLogistic(Likelihood):
    """sum_i c_i log(1 + sum_{r != y_i} exp(s_r - s_y)); build it with `of_labels`."""

    code = LOGISTIC

    @classmethod
    def of_labels(cls, labels: Labels, n_states: int) -> MultinomialLogistic:
        """Build the loss of labels 0 ... K - 1, K >= 2, int32 (N,)."""
        labels = checked_labels(labels, n_states)
        return cls(flat(n_states, labels.size), labels)

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> MultinomialLogistic:
        return MultinomialLogistic(self.structure.over(offsets), self.targets[positions])

    @property
    def labels(self) -> Labels:
        """The labels, int32 (N,)."""
        return self.targets

    def score_bounds(self) -> Vector:
        """Return 1/2: no eigenvalue of diag p - p p' is larger."""
        return np.full(self.n_positions, 0.5)

    def constants(self, features: FeatureMap, weights: Vector) -> Vector:
        """Return 1/2 sum_i c_i x_ij^2, (F,)."""
        return features.weighted_squares(weights * self.score_bounds())

    def margins(self, scores: Vector) -> Vector:
        """Return s_r - s_y, (N, K)."""
        return (scores - scores[self.targets, np.arange(self.n_positions)]).T.copy()
