"""Node marginals of a likelihood at a point, read off its residuals; positions sampled by what these leave undecided.

    p_t(k) = residual[k, t] / weight_t + [k is observed at t]

Shapes: N positions, K states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.taxonomy import add_marginal_variance
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.threads import N_PARTS


@dataclass(frozen=True, eq=False)
class Marginals:
    """The marginals of all nodes at a point.

    Parameters
    ----------
    point : Point of an objective whose loss has marginals
    """

    point: Point

    @property
    def objective(self) -> Objective:
        """Whose point it is."""
        return self.point.objective

    @property
    def loss(self) -> ScoreLoss:
        """The likelihood."""
        return self.objective.loss

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


def sample_positions(
    marginal_variance: NDArray[np.float64], weights: NDArray[np.float64], n_sampled: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Draw about `n_sampled` positions; returns them and the weight that each stands for, (S,) each.

    A position adds to the Hessian what it leaves undecided: it is drawn with a probability in proportion to
    weight_t sqrt(undecided_t), undecided_t = sum_k p_t(k) (1 - p_t(k)), systematically and without chance, and
    counts by its inverse. Drawn evenly, the sample of a well-fitted model would consist of decided positions, which
    have no curvature: on the digit strings that took 369 passes, against 220.
    """
    if n_sampled >= weights.size:
        sampled = np.flatnonzero(weights > 0)
        return sampled, weights[sampled]
    size = weights * np.sqrt(np.maximum(marginal_variance, 0.0))
    total = size.sum()
    if total == 0:
        return np.empty(0, np.intp), np.empty(0)
    share = np.minimum(1.0, size * (n_sampled / total))
    ticks = np.floor(np.cumsum(share) + 0.5)
    sampled = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return sampled, weights[sampled] / share[sampled]


def diagonal_scale(sampled: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the diagonal of D with D sampled D = exact, (n,); 0 where the sample has nothing."""
    ratio = np.divide(exact, sampled, out=np.zeros_like(exact), where=sampled > 0)
    return np.sqrt(np.maximum(ratio, 0.0)).astype(np.float32)
