"""Block coordinate descent over rows: Algorithm 1 of Blondel, Seki and Uehara (2013).

A sweep visits rows of the weights, all states of one feature; the objective updates each of them (Algorithms 2 and 3)
and keeps the margins of the positions up to date. Two variants: steps from the generalised Hessian with a line search,
rows in cycles (Tseng and Yun 2009), and constant steps, rows drawn at random (Richtarik and Takac 2012).

With shrinking a sweep visits only the rows that may move, until they are solved well enough; then all of them again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import count
from numbers import Integral
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.solvers.certificate import best_of
from crfqn.solvers.protocols import Objective, Penalty, Point, State, Vector

STEPS = ("line search", "constant", "parallel")
# Of the rows that may leave zero, and how many at least, the first epoch visits.
FIRST_SHARE, FEWEST_FIRST = 0.25, 2000
REGULARISATION = 1e-10  # of the extrapolation's Gram matrix, a share of its trace


class Swept(Protocol):
    """What each step of a sweep met: the violation (equation 9), and how far a zero row was from being wanted."""

    @property
    def violations(self) -> Vector: ...

    @property
    def excess(self) -> Vector: ...


class RowLook(Protocol):
    """The rows that are not zero or may leave zero, with the dual norms of their gradients."""

    @property
    def value(self) -> float: ...

    @property
    def features(self) -> NDArray[np.int64]: ...

    @property
    def norms(self) -> Vector: ...

    @property
    def violation(self) -> float: ...

    def dual_scales(self) -> list[float]: ...

    def conjugate(self, scale: float) -> float: ...

    def dual_value(self, scale: float) -> float: ...


class RowBlocks(Protocol):
    """The rows of the weights, and margins that follow every change of one."""

    @property
    def n_rows(self) -> int: ...

    def shuffle(self, random: np.random.Generator | None) -> None: ...

    def sweep(
        self, order: NDArray[np.int64], penalty: Penalty, sigma: float, omega: float, record: Vector | None
    ) -> Swept: ...

    def sweep_constant(
        self,
        order: NDArray[np.int64],
        penalty: Penalty,
        n_together: int = 1,
        among: NDArray[np.int64] | None = None,
    ) -> Swept: ...

    def value(self, penalty: Penalty) -> float: ...

    def look(self, penalty: Penalty) -> RowLook: ...

    def point(self) -> Point: ...

    def trail(self, n_points: int) -> Trail: ...


class Trail(Protocol):
    """The points of some sweeps."""

    def restart(self, first: RowBlocks) -> None: ...

    @property
    def room(self) -> Vector: ...

    def add(self, blocks: RowBlocks, is_recorded: bool = False) -> None: ...

    def step_products(self) -> Vector: ...

    def combined(self, shares: Vector) -> RowBlocks: ...

    def swap(self, old: RowBlocks) -> None: ...


class RowPoint(Point, Protocol):
    """A point that rows may move from."""

    def row_blocks(self) -> RowBlocks: ...


@dataclass(frozen=True)
class RowDescent:
    """Settings of block coordinate descent.

    Parameters
    ----------
    step : {"line search", "constant", "parallel"}
        L_j of Algorithm 2: the largest second derivative (equation 6) with backtracking on equation 7, rows in
        cycles; or the Lipschitz constant K_j of the row's gradient, without search, rows uniformly at random; or the
        same for `n_together` random rows at a time, which Richtarik and Takac (2012, "Parallel coordinate descent
        methods for big data optimization") would give to as many processors.
    sigma, omega : float within (0, 1)
        Of the line search: the share of the promised decrease that is asked for, and the backtracking factor.
    tau : float or None
        Stop by equation 10: the sum (cyclic) or the largest (random) of the violations met in a sweep over all rows
        is below tau times that of the first sweep. None leaves the end to the certificate.
    shrink : bool
        Leave out zero rows that are inside the penalty's bound by more than the last sweep's largest violation over
        the number of items, weights counted (Yuan et al. 2010; section 5.2.4). And begin from zero with the rows of
        the largest gradients, a quarter of those that may move, where these are many.
    cooling : float within (0, 1)
        All coordinates are looked at, for a certificate and for rows to visit, when the violation has fallen to this
        share of the epoch's first sweep.
    max_sweeps : int
        Or after so many sweeps.
    memory : int
        After as many sweeps of an epoch their fixed point is extrapolated from them (Anderson acceleration; Bertrand
        and Massias 2021), and taken where the objective is lower there. 0 is the paper's method.
    shuffle : bool
        Of the line search: a new random order of the larger rows in each epoch, which takes half to two thirds of the
        sweeps (in each sweep it would leave nothing to extrapolate). False keeps that of the features.
    seed : int
        Of random orders.
    n_together : int
        Rows at a time with parallel steps, tau of Richtarik and Takac. Constants grow with it.

    Notes
    -----
    Threads share out the positions of a large row, whatever the step, and with a line search small rows that have no
    position in common, which come last in a cycle: the updates, and so the result, are those of one thread. Parallel
    steps meet less often and need more sweeps.
    """

    step: str = "line search"
    sigma: float = 0.01
    omega: float = 0.5
    tau: float | None = None
    shrink: bool = True
    cooling: float = 0.1
    max_sweeps: int = 10
    memory: int = 5
    shuffle: bool = True
    seed: int = 0
    n_together: int = 8

    needs = ("row_blocks",)

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise InputError(f"step: expected one of {STEPS}, got {self.step!r}")
        for name in ("sigma", "omega", "cooling", "tau"):
            setting = getattr(self, name)
            if not (name == "tau" and setting is None) and not 0 < setting < 1:
                raise InputError(f"{name}: expected a number between 0 and 1, got {setting!r}")
        for name, least in (("max_sweeps", 1), ("memory", 0), ("seed", 0), ("n_together", 1)):
            setting = getattr(self, name)
            if not isinstance(setting, Integral) or isinstance(setting, bool) or setting < least:
                raise InputError(f"{name}: expected an integer >= {least}, got {setting!r}")
        if self.memory == 1:
            raise InputError("memory: expected 0 or an integer >= 2, got 1")

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """One state a sweep, and one each time that all coordinates are looked at."""
        run = _Run(self, objective, penalty, cast(RowPoint, start))
        yield run.look(is_zero=start.coords.size == 0)
        del start
        while True:
            is_still = yield from run.epoch()
            last = run.look()
            if run.is_rule_met or is_still:
                yield replace(last, meets_rule=run.is_rule_met, is_final=is_still)
                return
            yield last


class _Run:
    """The rows of one run, and which of them it visits."""

    def __init__(self, settings: RowDescent, objective: Objective, penalty: Penalty, start: RowPoint) -> None:
        self.settings, self.objective, self.penalty = settings, objective, penalty
        self.blocks, self.value = start.row_blocks(), np.nan
        self.everything = self.visited = np.arange(self.blocks.n_rows)
        self.trail = self.blocks.trail(settings.memory + 1) if settings.memory else None
        self.random = np.random.default_rng(settings.seed)
        self.is_random = settings.step != "line search"
        self.first_total = np.nan  # the denominator of equation 10
        self.is_rule_met = False

    def look(self, is_zero: bool = False) -> State:
        """Look at all rows, of a point that may be zero: a certificate, and the rows that the next epoch visits."""
        found = self.blocks.look(self.penalty)
        if not self.settings.shrink or self.settings.tau is not None:
            self.visited = self.everything
        else:
            self.visited = strongest(found) if is_zero else found.features
        dual_value = best_of(found.dual_scales(), found.dual_value, found.conjugate).dual_value
        point, n_rows = self.blocks.point(), found.features.size
        return State(point, found.value, found.violation, n_rows, dual_value, is_screening=True)

    def epoch(self) -> Generator[State, None, bool]:
        """Sweeps until the violation has fallen far enough; says whether nothing can move."""
        settings, opening = self.settings, np.nan
        if self.trail is not None:
            self.trail.restart(self.blocks)
        if not self.is_random:
            self.blocks.shuffle(self.random if settings.shuffle else None)
        for n_sweeps in count(1):
            is_full = self.visited.size == self.everything.size
            total, largest = self.sweep()
            self.value = self.blocks.value(self.penalty)
            if self.trail is not None:
                self.extrapolate(self.trail, n_sweeps)
            yield State(self.blocks.point(), self.value, largest, self.visited.size)
            if np.isnan(opening):
                opening = total
            if is_full:
                self.first_total = total if np.isnan(self.first_total) else self.first_total
                self.is_rule_met = settings.tau is not None and total < settings.tau * self.first_total
            if self.is_rule_met or total <= settings.cooling * opening or n_sweeps >= settings.max_sweeps:
                return opening == 0.0 and not self.is_random
        raise AssertionError("count() has no end")

    def sweep(self) -> tuple[float, float]:
        """Algorithm 1's inner loop; returns the violation of equation 10, and the largest of equation 9."""
        settings = self.settings
        order, swept = self.update()
        largest = float(swept.violations.max(initial=0.0))
        if settings.shrink:
            is_inside = swept.excess < -largest / self.objective.total_weight
            inside = is_inside if order is self.visited else np.isin(self.visited, order[is_inside])
            self.visited = self.visited[~inside]
        return (largest if self.is_random else float(swept.violations.sum())), largest

    def update(self) -> tuple[NDArray[np.int64], Swept]:
        """The rows updated, in their order, and what was met."""
        settings, rows = self.settings, self.visited
        if settings.step == "line search":
            room = self.trail.room if self.trail is not None else None
            return rows, self.blocks.sweep(rows, self.penalty, settings.sigma, settings.omega, room)
        if settings.step == "constant" or rows.size == 0:
            order = self.random.choice(rows, rows.size)
            return order, self.blocks.sweep_constant(order, self.penalty)
        tau = min(settings.n_together, rows.size)
        draws = [self.random.choice(rows, tau, replace=False) for _ in range(-(-rows.size // tau))]
        order = np.concatenate(draws)
        return order, self.blocks.sweep_constant(order, self.penalty, tau, rows)

    def extrapolate(self, trail: Trail, n_sweeps: int) -> None:
        """After `memory` sweeps go to the point that they lead to, if the objective is lower there."""
        trail.add(self.blocks, is_recorded=not self.is_random)
        if n_sweeps % self.settings.memory:
            return
        shares = extrapolation(trail.step_products())
        if shares is not None:
            found = trail.combined(shares)
            value = found.value(self.penalty)
            if value < self.value:
                trail.swap(self.blocks)
                self.blocks, self.value = found, value
        trail.restart(self.blocks)


def strongest(found: RowLook) -> NDArray[np.int64]:
    """Of the rows that may leave zero those with the largest gradients: what is missing the next look will find.

    Most of them will not: large rows explain what small ones seemed to.
    """
    rows = found.features
    n = max(FEWEST_FIRST, int(FIRST_SHARE * rows.size))
    if n >= rows.size:
        return rows
    return np.sort(rows[np.argpartition(found.norms, rows.size - n)[-n:]])


def extrapolation(products: Vector) -> Vector | None:
    """Shares, adding up to 1, of the points but the first; their combined step is the smallest. None without steps.

    Steps U are those of the scores, which is where the loss sees them; the shares are those of (U U')^-1 1.

    Parameters
    ----------
    products : float64 (steps, steps), U U'
    """
    trace = float(np.trace(products))
    if trace == 0.0:
        return None
    products[np.diag_indices_from(products)] += REGULARISATION * trace
    shares = np.linalg.solve(products, np.ones(len(products)))
    return shares / shares.sum()
