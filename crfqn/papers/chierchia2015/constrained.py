"""FBPD, constrained: Algorithm 2 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015).

    minimise g(x)   subject to   sum_i c_i h_i(T_i x) <= eta

Auxiliary variables zeta_i split the constraint into epigraphs, (T_i x, zeta_i) in epi h_i, and the half-space
sum_i c_i zeta_i <= eta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from crfqn.kernels.projection import PIVOT
from crfqn.papers.chierchia2015.bounded_loss import BoundedSplitting
from crfqn.papers.chierchia2015.epigraph_kernels import epigraph_rows
from crfqn.papers.chierchia2015.halpern import FBPDIteration, Iterate, StepSizes
from crfqn.papers.chierchia2015.regularised import forward_backward_step
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_positive,
)
from crfqn.solvers.screened_point import screen_point


@dataclass(frozen=True)
class ConstrainedFBPD(Solver):
    """Settings of the constrained method; an iteration is `n_steps` steps and a bound.

    Parameters
    ----------
    omega, change, n_steps, restarts
        As in `FBPD`. Without restarts, x and zeta have one tau with tau sigma max(||T||^2, 1) <= 1, as printed; with
        restarts, x has tau with tau sigma ||T||^2 <= 1, and zeta has tau_zeta with tau_zeta sigma <= 1.

    Notes
    -----
    The value of a state is g(x), which may be below the optimum while the loss exceeds eta (`State.excess`).

    References
    ----------
    Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.
    """

    omega: float | None = None
    change: float | None = None
    n_steps: int = 10
    restarts: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "omega", or_none=True)
        check_positive(self, "change", or_none=True)
        check_integers(self, 1, "n_steps")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(states=(BoundedSplitting,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state, with a bound, every `n_steps` steps."""
        h = objective.state(BoundedSplitting)
        x = start.sparse_weights
        del start
        images = h.image(x.coords, x.weights), np.zeros(len(h.weights))
        z = Iterate(x, images, (np.zeros_like(images[0]), np.zeros_like(images[1])))
        norm = h.norm("differences")
        run = FBPDIteration(
            z, norm if self.restarts else max(norm, 1.0), self.omega, h.weights, self.restarts
        )
        while True:
            x, (Tx, _), (y, xi) = run.moved
            point = h.priced(x, y, xi, balanced=penalty.unpenalised.size > 0)
            view = screen_point(penalty, point)
            yield State(
                point,
                penalty.value(x.coords, x.weights),
                view.violation,
                view.coords.size,
                view.dual_value,
                is_screening=True,
                is_step=True,
                end=run.end,
                excess=h.excess(Tx),
            )
            run.advance(partial(self.step, h, penalty), self.n_steps, self.change)

    def step(self, h: BoundedSplitting, penalty: Penalty, z: Iterate, size: StepSizes) -> Iterate:
        """Return the iterate after a step of Algorithm 2."""
        tau, sigma = size.tau, size.sigma
        tau_zeta = 1.0 / sigma if self.restarts else tau
        (x, (Tx_before, zeta_before), (y, xi)) = z
        x = forward_backward_step(penalty, h.point(x, y), tau)
        zeta = h.objective.budget.project(zeta_before - tau_zeta * xi, h.weights)
        Tx = h.image(x.coords, x.weights)
        y_hat = y + sigma * (2.0 * Tx - Tx_before)
        xi_hat = xi + sigma * (2.0 * zeta - zeta_before)
        # The projections onto the epigraphs (proposition 3.3).
        p, theta = np.empty_like(y_hat), np.empty_like(xi_hat)
        epigraph_rows(y_hat / sigma, xi_hat / sigma, h.required_margins, PIVOT, 0.0, p, theta)
        return Iterate(x, (Tx, zeta), (y_hat - sigma * p, xi_hat - sigma * theta))
