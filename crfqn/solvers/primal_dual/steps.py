"""The steps tau and sigma of primal-dual splitting, and the weights' step, which both algorithms share.

    tau = 1 / (omega ||T||),   sigma = omega / ||T||

Any omega > 0 converges, and how fast depends on it: the bound of Chambolle and Pock (2011, theorem 1) is least where
omega = ||y* - y0|| / ||x* - x0||. That is what `StepSizes` takes it from, the iterates standing for the optimum, at
intervals that double: as these settle, so does omega (after Applegate et al. 2021, section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crfqn.solvers.protocols import Penalty, Point, SparseWeights, Vector
from crfqn.solvers.screened_point import may_move

FIRST_LOOK = 16  # steps until omega is taken from the iterates


def forward_backward(penalty: Penalty, point: Point, tau: float) -> SparseWeights:
    """Return prox_(tau g)(x - tau T'y), x being the point and T'y its gradient; zeros that stay are not looked at."""
    coords, w, slope = may_move(penalty, point, penalty.screen(point), penalty.unpenalised)
    moved = penalty.prox(coords, w - tau * slope, tau)
    stays = np.flatnonzero(moved)
    return SparseWeights(coords[stays], moved[stays])


@dataclass
class StepSizes:
    """tau and sigma, for tau sigma ||T||^2 = 1.

    Attributes
    ----------
    norm : ||T||; omega : sigma ||T||
    adapts : whether omega follows the iterates
    """

    norm: float
    omega: float
    adapts: bool
    n_steps: int = field(default=0, init=False)
    next_look: int = field(default=FIRST_LOOK, init=False)

    @property
    def tau(self) -> float:
        return 1.0 / (self.omega * self.norm)

    @property
    def sigma(self) -> float:
        return self.omega / self.norm

    @property
    def is_due(self) -> bool:
        """Count a step; returns whether omega is to be taken from the iterates."""
        self.n_steps += 1
        return self.adapts and self.n_steps == self.next_look

    def balance(self, far_x: float, far_y: float) -> None:
        """Move omega half-way, in its logarithm, to the ratio of how far y and x have come."""
        self.next_look *= 2
        if far_x > 0.0 and far_y > 0.0:
            self.omega = float(np.sqrt(self.omega * far_y / far_x))


def distance(a: SparseWeights, b: SparseWeights) -> float:
    """Return ||a - b||."""
    _, at_a, at_b = np.intersect1d(a.coords, b.coords, assume_unique=True, return_indices=True)
    squares = float(a.weights @ a.weights) + float(b.weights @ b.weights)
    return float(np.sqrt(max(squares - 2.0 * float(a.weights[at_a] @ b.weights[at_b]), 0.0)))


def is_still(x: SparseWeights, before: SparseWeights, change: float | None) -> bool:
    """Return whether the relative change of the weights is at most `change`, the paper's rule."""
    return change is not None and 0.0 < distance(x, before) <= change * float(np.linalg.norm(x.weights))


def first_omega(norm: float, weights: Vector) -> float:
    """Return omega before anything is known: sigma such that a step moves y by its bound c at a margin of 1."""
    return norm * float(np.sqrt(np.mean(weights**2)))
