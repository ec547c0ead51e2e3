"""FBPD, regularised: Algorithm 1 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015).

    minimise g(x) + sum_i c_i h_i(T_i x);   tau = 1 / (omega ||T||),   sigma = omega / ||T||

`FBPD.step` is a step of the algorithm; `halpern.py` accelerates the iteration of steps. docs/fbpd.md has the algorithm
in plain numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from crfqn.errors import InputError
from crfqn.papers.chierchia2015.halpern import FBPDIteration, Iterate, StepSizes
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    SparseWeights,
    State,
    check_integers,
    check_positive,
)
from crfqn.solvers.screened_point import may_move, screen_point


def forward_backward_step(penalty: Penalty, point: Point, tau: float) -> SparseWeights:
    """Return prox_(tau g)(x - tau T'y) for a point x with the gradient T'y; only weights that may move are computed."""
    coords, w, slope = may_move(penalty, point, penalty.screen(point), penalty.unpenalised)
    moved = penalty.prox(coords, w - tau * slope, tau)
    stays = np.flatnonzero(moved)
    return SparseWeights(coords[stays], moved[stays])


STEP_SIZE_NORMS = ("scores", "differences")


@dataclass(frozen=True)
class FBPD(Solver):
    """Settings of the forward-backward primal-dual method; an iteration is `n_steps` steps and a certificate.

    Parameters
    ----------
    norm : {"scores", "differences"}
        The map whose norm gives the step sizes: "differences" is T as printed; "scores" is the map to the scores, which
        gives the same steps and whose norm is up to sqrt(K) smaller.
    omega : float > 0, optional
        sigma / tau = omega^2; by default it is adapted to the iterates at each restart.
    change : float > 0, optional
        Stop when the relative change of the weights in a step is up to this, the paper's rule (1e-5); by default the
        certificate ends a run.
    n_steps : int
        Steps between two certificates.
    restarts : bool
        Use Halpern's iteration over the steps, with restarts (`halpern.py`); otherwise the algorithm as printed.

    Notes
    -----
    A run starts from the given weights, with dual variables c_i at the labels. The result is the last iterate; the
    objective need not decrease in every step. A step costs a product with the features and one with their transpose.

    References
    ----------
    Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.
    """

    norm: str = STEP_SIZE_NORMS[0]
    omega: float | None = None
    change: float | None = None
    n_steps: int = 10
    restarts: bool = True

    def __post_init__(self) -> None:
        if self.norm not in STEP_SIZE_NORMS:
            raise InputError(f"norm: expected one of {STEP_SIZE_NORMS}, got {self.norm!r}")
        check_positive(self, "omega", or_none=True)
        check_positive(self, "change", or_none=True)
        check_integers(self, 1, "n_steps")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(states=(HingeSplitting,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state, with a bound, every `n_steps` steps."""
        h = objective.state(HingeSplitting)
        x, y = start.sparse_weights, h.labels()
        del start
        z = Iterate(x, (h.image(x.coords, x.weights),), (y,))
        run = FBPDIteration(z, h.norm(self.norm), self.omega, h.weights, self.restarts)
        while True:
            (x, (Tx,), (y,)) = run.moved
            point = h.certified(x, Tx, y, balanced=penalty.unpenalised.size > 0)
            yield screen_point(penalty, point).state(is_step=True, end=run.end)
            run.advance(partial(self.step, h, penalty), self.n_steps, self.change)

    def step(self, h: HingeSplitting, penalty: Penalty, z: Iterate, size: StepSizes) -> Iterate:
        """Return the iterate after a step of Algorithm 1."""
        (x, (Tx_before,), (y,)) = z
        x = forward_backward_step(penalty, h.point(x, y), size.tau)
        Tx = h.image(x.coords, x.weights)
        y = h.project(y + size.sigma * (2.0 * Tx - Tx_before) + size.sigma * h.required_margins)
        return Iterate(x, (Tx,), (y,))
