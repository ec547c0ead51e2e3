"""FBPD, regularised: Algorithm 1 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015).

minimise g(x) + sum_i c_i h_i(T_i x)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from crfqn.errors import InputError
from crfqn.solvers.primal_dual.splitting import HingeSplitting
from crfqn.solvers.primal_dual.steps import Iterate, Run, StepSizes, forward_backward
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, State
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.settings import check_integers, check_positive

NORMS = ("scores", "differences")


@dataclass(frozen=True)
class FBPD:
    """Settings of the forward-backward primal-dual method; an iteration is `n_steps` steps and a certificate.

    Parameters
    ----------
    norm : {"scores", "differences"}
        Of which map tau sigma ||T||^2 <= 1 has to hold: T as printed, or that to the scores, whose steps are the same
        and whose norm is up to sqrt(K) smaller.
    omega : float > 0, optional
        sigma / tau is omega^2; by default it follows the iterates from restart to restart.
    change : float > 0, optional
        Stop at this relative change of the weights in a step, the paper's rule (1e-5); the certificate by default.
    n_steps : int
        Steps between two certificates.
    restarts : bool
        Halpern's iteration over the steps, with restarts (`steps.py`); without, the algorithm as printed.

    Notes
    -----
    It starts from the weights given and dual variables at the labels. The last iterate is the result: the objective
    does not fall in every step. A step costs a product with the features and one with their transpose.

    References
    ----------
    Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.
    """

    norm: str = NORMS[0]
    omega: float | None = None
    change: float | None = None
    n_steps: int = 10
    restarts: bool = True

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise InputError(f"norm: expected one of {NORMS}, got {self.norm!r}")
        check_positive(self, "omega", or_none=True)
        check_positive(self, "change", or_none=True)
        check_integers(self, 1, "n_steps")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return what is asked of the problem: the loss, split."""
        return Requirements(states=(HingeSplitting,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state, with a bound, every `n_steps` steps."""
        h = objective.state(HingeSplitting)
        x, y = start.sparse_weights, h.labels()
        del start
        z = Iterate(x, (h.image(x.coords, x.weights),), (y,))
        run = Run.begin(z, h.norm(self.norm), self.omega, h.weights, self.restarts)
        while True:
            (x, (Tx,), (y,)) = run.moved
            point = h.certified(x, Tx, y, balanced=penalty.unpenalised.size > 0)
            yield screen_point(penalty, point).state(is_step=True, meets_rule=run.meets_rule)
            run.advance(partial(self.step, h, penalty), self.n_steps, self.change)

    def step(self, h: HingeSplitting, penalty: Penalty, z: Iterate, size: StepSizes) -> Iterate:
        """Return what a step of Algorithm 1 leads to."""
        (x, (Tx_before,), (y,)) = z
        x = forward_backward(penalty, h.point(x, y), size.tau)
        Tx = h.image(x.coords, x.weights)
        y = h.project(y + size.sigma * (2.0 * Tx - Tx_before) + size.sigma * h.margins)
        return Iterate(x, (Tx,), (y,))
