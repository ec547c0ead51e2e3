"""FBPD, regularised: Algorithm 1 of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015), and its steps.

    minimise g(x) + sum_i c_i h_i(T_i x);   tau = 1 / (omega ||T||),   sigma = omega / ||T||

Steps of FBPD turn round the optimum where problems are nearly linear programmes, as sparse hinges are. `Restarts` makes
of them Halpern's iteration z <- a (2 F(z) - z) + (1 - a) z0, a = (k + 1) / (k + 2), F being a step of FBPD, with a new
anchor z0 whenever the residual ||F(z) - z|| has fallen enough; omega is then moved towards ||y - y0|| / ||x - x0||
(Applegate et al. 2021, section 3; Lu and Yang 2024, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from crfqn.errors import InputError
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
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
ENOUGH, SOME, LONGEST = 0.2, 0.8, 0.36


def forward_backward(penalty: Penalty, point: Point, tau: float) -> SparseWeights:
    """Return prox_(tau g)(x - tau T'y), x being the point and T'y its gradient; zeros that stay are not looked at."""
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


@dataclass
class StepSizes:
    """tau and sigma, for tau sigma ||T||^2 = 1; norm : ||T||; omega : sigma ||T||."""

    norm: float
    omega: float

    @property
    def tau(self) -> float:
        return 1.0 / (self.omega * self.norm)

    @property
    def sigma(self) -> float:
        return self.omega / self.norm

    def residual(self, z: Iterate, moved: Iterate) -> float:
        """Return ||F(z) - z|| in the norm of the method, in which F is firmly non-expansive."""
        total = distance(z.x, moved.x) ** 2 / self.tau
        for n, pair in enumerate(zip(z.images, moved.images, z.duals, moved.duals, strict=True)):
            image, dual = pair[1] - pair[0], pair[3] - pair[2]
            total += float(np.vdot(dual, dual)) / self.sigma - 2.0 * float(np.vdot(image, dual))
            if n:  # zeta, with a tau of its own
                total += self.sigma * float(np.vdot(image, image))
        return float(np.sqrt(max(total, 0.0)))


@dataclass
class Restarts:
    """Halpern's iteration with restarts; anchor : z0; n_steps, k : steps of the run and since the anchor; adapts :
    whether omega follows the iterates."""

    size: StepSizes
    anchor: Iterate
    adapts: bool
    n_steps: int = field(default=0, init=False)
    k: int = field(default=0, init=False)
    first: float = field(default=np.inf, init=False)
    before: float = field(default=np.inf, init=False)

    def following(self, z: Iterate, moved: Iterate) -> Iterate:
        """Return where the next step begins, after one from z to F(z) = moved."""
        residual = self.size.residual(z, moved)
        self.n_steps += 1
        if self.k == 0:
            self.first = residual
        has_fallen = residual <= ENOUGH * self.first or (self.before < residual <= SOME * self.first)
        self.before = residual
        if self.k > 0 and (has_fallen or self.k >= LONGEST * self.n_steps):
            self._restart(moved)
            return moved
        a = (self.k + 1.0) / (self.k + 2.0)
        self.k += 1
        return combined((2.0 * a, -a, 1.0 - a), (moved, z, self.anchor))

    def _restart(self, z: Iterate) -> None:
        """Begin anew at z."""
        far_x = distance(z.x, self.anchor.x)
        far_y = np.sqrt(
            sum(float(np.vdot(b - a, b - a)) for a, b in zip(self.anchor.duals, z.duals, strict=True))
        )
        if self.adapts and far_x > 0.0 and far_y > 0.0:
            self.size.omega = float(np.sqrt(self.size.omega * far_y / far_x))
        self.anchor, self.k, self.before = z, 0, np.inf


@dataclass
class Run:
    """A run of either algorithm: z, where the next step begins, and what the last one led to (`moved`).

    restarts : Halpern's iteration; None for the algorithm as printed
    meets_rule : whether the last step changed the weights as little as the paper's rule asks
    """

    z: Iterate
    size: StepSizes
    restarts: Restarts | None

    def __post_init__(self) -> None:
        self.moved, self.meets_rule = self.z, False

    @classmethod
    def begin(cls, z: Iterate, norm: float, omega: float | None, weights: Vector, restarts: bool) -> Run:
        """Return a run from z: with the given omega, or one that follows the iterates if there are restarts."""
        size = StepSizes(norm, omega or first_omega(norm, weights))
        return cls(z, size, Restarts(size, z, omega is None) if restarts else None)

    def advance(
        self, step: Callable[[Iterate, StepSizes], Iterate], n_steps: int, change: float | None
    ) -> None:
        """Make so many steps, or fewer if one meets the paper's rule."""
        for _ in range(n_steps):
            before, self.moved = self.moved.x, step(self.z, self.size)
            self.z = self.restarts.following(self.z, self.moved) if self.restarts else self.moved
            self.meets_rule = is_still(self.moved.x, before, change)
            if self.meets_rule:
                break


def combined(shares: tuple[float, ...], iterates: tuple[Iterate, ...]) -> Iterate:
    """Return the sum of shares of iterates."""
    coords, dense = aligned(*((z.x.coords, z.x.weights) for z in iterates))
    x = np.sum([share * w for share, w in zip(shares, dense, strict=True)], axis=0)
    images, duals = ([z.images for z in iterates], [z.duals for z in iterates])
    return Iterate(SparseWeights(coords, x), mixed(shares, images), mixed(shares, duals))


def mixed(shares: tuple[float, ...], tables: list[tuple[Vector, ...]]) -> tuple[Vector, ...]:
    """Return the sum of shares of each array."""
    return tuple(
        sum(share * part for share, part in zip(shares, parts, strict=True))
        for parts in zip(*tables, strict=True)
    )


def distance(a: SparseWeights, b: SparseWeights) -> float:
    """Return ||a - b||."""
    _, (at_a, at_b) = aligned((a.coords, a.weights), (b.coords, b.weights))
    return float(np.linalg.norm(at_a - at_b))


def is_still(x: SparseWeights, before: SparseWeights, change: float | None) -> bool:
    """Return whether the relative change of the weights is at most `change`, the paper's rule."""
    return change is not None and 0.0 < distance(x, before) <= change * float(np.linalg.norm(x.weights))


def first_omega(norm: float, weights: Vector) -> float:
    """Return omega before anything is known: sigma such that a step moves y by its bound c at a margin of 1."""
    return norm * float(np.sqrt(np.mean(weights**2)))


NORMS = ("scores", "differences")


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
        Halpern's iteration over the steps, with restarts (`Restarts`); without, the algorithm as printed.

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
