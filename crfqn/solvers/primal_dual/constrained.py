"""FBPD, constrained: Algorithm 2 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015).

    minimise g(x)   where   sum_i c_i h_i(T_i x) <= eta

Variables zeta_i between the losses and the bound split it into epigraphs, (T_i x, zeta_i) in epi h_i, and a half-space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crfqn.objectives.protocols import EpigraphSplitting, EpigraphView
from crfqn.solvers.primal_dual.steps import StepSizes, distance, first_omega, forward_backward, is_still
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, SparseWeights, State, Vector
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.settings import check_integers, check_positive


@dataclass(frozen=True)
class ConstrainedFBPD:
    """Settings of the constrained method; an iteration is `n_steps` steps and a bound.

    Parameters
    ----------
    omega, change, n_steps
        As of `FBPD`.
    one_tau : bool
        One tau for x and zeta, with tau sigma max(||T||^2, 1) <= 1, as printed. Since T works on x and the identity on
        zeta, each may have its own: tau sigma ||T||^2 <= 1 and tau_zeta sigma <= 1.

    Notes
    -----
    A state's value is g(x), below the optimum perhaps while the loss is above eta: `State.excess` says by how much.

    References
    ----------
    Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.
    """

    omega: float | None = None
    change: float | None = None
    n_steps: int = 10
    one_tau: bool = False

    def __post_init__(self) -> None:
        check_positive(self, "omega", or_none=True)
        check_positive(self, "change", or_none=True)
        check_integers(self, 1, "n_steps")

    def requires(self, objective: Objective) -> Requirements:
        """Return what is asked of the problem: a bound on the loss, split."""
        return Requirements((EpigraphView,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state, with a bound, every `n_steps` steps."""
        h = objective.view(EpigraphView).start()
        x = x0 = start.sparse_weights
        del start
        Tx = h.image(x.coords, x.weights)
        zeta, y, xi = np.zeros(len(Tx)), np.zeros_like(Tx), np.zeros(len(Tx))
        size, meets_rule = self.first_size(h), False
        while True:
            yield state(h, penalty, x, Tx, y, xi, meets_rule)
            for _ in range(self.n_steps):
                tau, sigma = size.tau, size.sigma
                before, x = x, forward_backward(penalty, h.point(x, y), tau)
                zeta_before, zeta = zeta, h.project_budget(zeta - (tau if self.one_tau else 1.0 / sigma) * xi)
                Tx_before, Tx = Tx, h.image(x.coords, x.weights)
                y_hat = y + sigma * (2.0 * Tx - Tx_before)
                xi_hat = xi + sigma * (2.0 * zeta - zeta_before)
                p, theta = h.project_epigraphs(y_hat / sigma, xi_hat / sigma)
                y, xi = y_hat - sigma * p, xi_hat - sigma * theta
                meets_rule = is_still(x, before, self.change)
                if meets_rule:
                    break
                if size.is_due:
                    size.balance(distance(x, x0), float(np.linalg.norm(y)))

    def first_size(self, h: EpigraphSplitting) -> StepSizes:
        """Return the first steps."""
        norm = h.norm("differences")
        norm = max(norm, 1.0) if self.one_tau else norm
        return StepSizes(norm, self.omega or first_omega(norm, h.weights), self.omega is None)


def state(
    h: EpigraphSplitting,
    penalty: Penalty,
    x: SparseWeights,
    Tx: Vector,
    y: Vector,
    xi: Vector,
    meets_rule: bool,
) -> State:
    """Return the state at x: the penalty, how far the loss is above its bound, and what y and xi prove."""
    point = h.priced(x, y, xi, balanced=penalty.unpenalised.size > 0)
    seen = screen_point(penalty, point)
    return State(
        point,
        penalty.value(x.coords, x.weights),
        penalty.at(seen.coords).largest_violation(seen.w, seen.g),
        seen.coords.size,
        seen.dual_value,
        is_screening=True,
        is_step=True,
        meets_rule=meets_rule,
        excess=h.excess(Tx),
    )
