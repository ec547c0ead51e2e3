"""FBPD, regularised: Algorithm 1 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015), and its steps.

    minimise g(x) + sum_i c_i h_i(T_i x);   tau = 1 / (omega ||T||),   sigma = omega / ||T||

Steps of FBPD circle around the optimum if problems are nearly linear programmes, like sparse hinges. `Run` applies to
them Halpern's iteration z <- a (2 F(z) - z) + (1 - a) z0, a = (k + 1) / (k + 2), F being a step of FBPD, with a new
anchor z0 whenever the residual ||F(z) - z|| has fallen enough; omega is then moved towards ||y - y0|| / ||x - x0||
(Applegate et al. 2021, section 3; Lu and Yang 2024, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crfqn.errors import InputError
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
from crfqn.result import Status
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    SparseWeights,
    State,
    Vector,
    check_integers,
    check_positive,
)
from crfqn.solvers.screened_point import aligned, may_move, screen_point

# Of the residual at the anchor: when to restart at once, and when as soon as it rises; of all steps: the longest epoch.
RESTART_DECREASE, RESTART_DECREASE_WHEN_RISING, MAX_EPOCH_SHARE = 0.2, 0.8, 0.36


def forward_backward_step(penalty: Penalty, point: Point, tau: float) -> SparseWeights:
    """Return prox_(tau g)(x - tau T'y), x being the point and T'y its gradient; zeros that remain are skipped."""
    coords, w, slope = may_move(penalty, point, penalty.screen(point), penalty.unpenalised)
    moved = penalty.prox(coords, w - tau * slope, tau)
    stays = np.flatnonzero(moved)
    return SparseWeights(coords[stays], moved[stays])


class Iterate(NamedTuple):
    """Weights x, dual variables y and xi (`duals`), and `images` of the primal variables that these are paired with: T
    x, and zeta."""

    x: SparseWeights
    images: tuple[Vector, ...]
    duals: tuple[Vector, ...]


class StepSizes(NamedTuple):
    """tau and sigma, for which tau sigma ||T||^2 = 1."""

    tau: float
    sigma: float


class Run:
    """A run of either algorithm by steps F: as printed, or Halpern's iteration over them, with restarts.

    z, moved : the start of the next step, and the result of the last one
    anchor, n_steps, k : z0; steps of the run, and since the anchor
    omega : sigma ||T||; it follows the iterates if it was not given
    end : `RULE_MET` if the last step changed the weights as little as the paper's rule asks, else None
    """

    def __init__(self, z: Iterate, norm: float, omega: float | None, weights: Vector, restarts: bool) -> None:
        """norm : ||T||; weights : of the items, of which the first omega is made where none is given: a step moves y by
        its bound c at a margin of 1."""
        self.z = self.moved = self.anchor = z
        self.norm, self.omega = norm, omega or norm * float(np.sqrt(np.mean(weights**2)))
        self.restarts, self.adapts = restarts, omega is None
        self.end: Status | None = None
        self.n_steps = self.k = 0
        self.first = self.before = np.inf  # residuals

    @property
    def size(self) -> StepSizes:
        return StepSizes(1.0 / (self.omega * self.norm), self.omega / self.norm)

    def advance(
        self, step: Callable[[Iterate, StepSizes], Iterate], n_steps: int, change: float | None
    ) -> None:
        """Make so many steps, or fewer if one meets the paper's rule: a relative change of the weights."""
        for _ in range(n_steps):
            before, self.moved = self.moved.x, step(self.z, self.size)
            self.z = self._following() if self.restarts else self.moved
            x = self.moved.x
            self.end = None
            if change is not None and 0.0 < distance(x, before) <= change * float(np.linalg.norm(x.weights)):
                self.end = Status.RULE_MET
                break

    def _following(self) -> Iterate:
        """Return the start of the next step, after one from z to F(z)."""
        z, moved, (tau, sigma) = self.z, self.moved, self.size
        # The residual ||F(z) - z|| in the norm of the method, in which F is firmly non-expansive.
        total = distance(z.x, moved.x) ** 2 / tau
        for n, pair in enumerate(zip(z.images, moved.images, z.duals, moved.duals, strict=True)):
            image, dual = pair[1] - pair[0], pair[3] - pair[2]
            total += float(np.vdot(dual, dual)) / sigma - 2.0 * float(np.vdot(image, dual))
            if n:  # zeta, with a separate tau
                total += sigma * float(np.vdot(image, image))
        residual = float(np.sqrt(max(total, 0.0)))
        self.n_steps += 1
        if self.k == 0:
            self.first = residual
        has_fallen = residual <= RESTART_DECREASE * self.first or (
            self.before < residual <= RESTART_DECREASE_WHEN_RISING * self.first
        )
        self.before = residual
        if self.k == 0 or not (has_fallen or self.k >= MAX_EPOCH_SHARE * self.n_steps):
            a = (self.k + 1.0) / (self.k + 2.0)
            self.k += 1
            return combined((2.0 * a, -a, 1.0 - a), (moved, z, self.anchor))
        far_x = distance(moved.x, self.anchor.x)
        changes = (after - before for before, after in zip(self.anchor.duals, moved.duals, strict=True))
        far_y = np.sqrt(sum(float(np.vdot(change, change)) for change in changes))
        if self.adapts and far_x > 0.0 and far_y > 0.0:
            self.omega = float(np.sqrt(self.omega * far_y / far_x))
        self.anchor, self.k, self.before = moved, 0, np.inf
        return moved


def combined(shares: tuple[float, ...], iterates: tuple[Iterate, ...]) -> Iterate:
    """Return the sum of shares of iterates."""

    def mixed(parts: Any) -> Any:
        return sum(share * part for share, part in zip(shares, parts, strict=True))

    coords, weights = aligned(*((z.x.coords, z.x.weights) for z in iterates))
    images = tuple(map(mixed, zip(*(z.images for z in iterates), strict=True)))
    duals = tuple(map(mixed, zip(*(z.duals for z in iterates), strict=True)))
    return Iterate(SparseWeights(coords, mixed(weights)), images, duals)


def distance(a: SparseWeights, b: SparseWeights) -> float:
    """Return ||a - b||."""
    _, (at_a, at_b) = aligned((a.coords, a.weights), (b.coords, b.weights))
    return float(np.linalg.norm(at_a - at_b))


STEP_SIZE_NORMS = ("scores", "differences")


@dataclass(frozen=True)
class FBPD(Solver):
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
        Halpern's iteration over the steps, with restarts (`Run`); without, the algorithm as printed.

    Notes
    -----
    It starts from the weights given and dual variables at the labels. The last iterate is the result: the objective
    does not fall in every step. A step costs a product with the features and one with their transpose.

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
        run = Run(z, h.norm(self.norm), self.omega, h.weights, self.restarts)
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
