"""Node marginals of a likelihood at a point, read off its residuals where they are asked for.

    p_t(k) = residual[k, t] / weight_t + [k is observed at t]

Shapes: N positions, K states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.taxonomy.marginals import add_marginal_variance
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.threads import N_PARTS


@dataclass(frozen=True, eq=False)
class Marginals:
    """The marginals of all nodes at a point.

    Parameters
    ----------
    point : Point of an objective whose loss is a `Likelihood`
    """

    point: Point

    @property
    def objective(self) -> Objective:
        """Whose point it is."""
        return self.point.objective

    @property
    def loss(self) -> Likelihood:
        """The likelihood."""
        return cast(Likelihood, self.objective.loss)

    @property
    def residual(self) -> Vector:
        """Weighted marginals less the observed labels, (K, N)."""
        return self.point.evaluation.residual

    def at(self, states: NDArray[np.integer], positions: NDArray[np.integer]) -> Vector:
        """Return P(state) of some states (ascending) at some positions, (states, positions); 0 at weight 0."""
        owner = self.objective
        inverse = owner.inverse_weights[positions]
        p = self.residual[np.ix_(states, positions)] * inverse
        if states.size == 0:
            return p
        observed, column = self.loss.observed_at(positions)
        row = np.minimum(np.searchsorted(states, observed), states.size - 1)
        is_asked = (states[row] == observed) & (inverse[column] > 0)
        p[row[is_asked], column[is_asked]] += 1.0
        return p

    def variance(self, states: NDArray[np.integer]) -> Vector:
        """Return sum_k p_t(k) (1 - p_t(k)) over some states, (N,): what each position leaves undecided."""
        owner, residual = self.objective, self.residual
        out, n = np.zeros(owner.n_positions), owner.n_positions
        cuts = n * np.arange(N_PARTS + 1) // N_PARTS

        def run(part: int) -> None:
            add_marginal_variance(cuts[part], cuts[part + 1], states, residual, owner.inverse_weights, out)

        owner.pool.each(N_PARTS, run)
        return out
