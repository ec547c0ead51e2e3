"""An estimate of how far above its optimum a run is, from what its steps have won and what waits to come in.

The decrease of the objective in the second half of all steps is d, that in the quarter before it d', and r = d / d'.
If every doubling of the steps goes on to win r times what the one before has won, the rest is

    d r + d r^2 + ... = d r / (1 - r),

Aitken's extrapolation on the scale of doublings: it suits methods that converge linearly, whose r falls, and those
that slow down. r is kept between 1/2 and .9, so that one lucky or unlucky doubling decides nothing.

Where there are many steps the same over the last two quarters of them forgets sooner how slow the beginning was, but
takes a pause for the end: three times that counts, and a third of the first estimate at least. On recorded runs over
text (18, of 31 to 809 steps) this takes 1.42, 1.34, 1.33, 1.41 and 1.57 times the passes that .1, .03, 1e-2, 1e-3 and
1e-4 need, where the first alone takes 1.46, 1.34, 1.45, 1.70 and 1.86; true distances are at most .6, .9, 1.2, 1.0 and
.5 of these.

Zeros that a working set has left out are not in what was won: each adds violation^2 / (2 curvature), what it would win
alone.

This is an estimate and no bound; `certificate.py` has the bound. `scripts/stopping.py` measures how far off it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crfqn.errors import InputError
from crfqn.solvers.line_search import is_hidden
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry

FEWEST_STEPS = 5  # that say something
FASTEST, SLOWEST = 0.5, 0.9  # what a doubling of the steps may win, as a share of the one before
FEW_STEPS, FASTEST_OF_FEW = 10, 0.7
MANY_STEPS, SLOWEST_OF_MANY = 30, 0.95
CAUTION = 3.0  # times the extrapolation over quarters
PATIENCE = 1.1  # times as many steps until the next look, where what waits outside forbids to stop


@dataclass(frozen=True)
class Estimated:
    """A tolerance that an estimate of the distance to the optimum may meet, where no proof has done so before."""

    tol: float


def as_tolerance(tol: float | Estimated) -> tuple[float, bool]:
    """Return the number and whether an estimate may meet it; InputError for a negative one."""
    number, is_estimated = (tol.tol, True) if isinstance(tol, Estimated) else (tol, False)
    if not number >= 0:
        raise InputError(f"tol: expected a number >= 0, got {number!r}")
    return number, is_estimated


def relative_gap(value: float, dual_value: float) -> float:
    """The distance to a lower bound as a share of the value; nan while one of them is not known."""
    if not (np.isfinite(value) and np.isfinite(dual_value)):
        return np.nan
    return max(value - dual_value, 0.0) / abs(value) if value != 0 else 0.0


@dataclass
class Gains:
    """The least objective after each step, from the start on."""

    values: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Take the objective after a step."""
        self.values.append(value)

    def are_rounding(self) -> bool:
        """Whether the second half of all steps has won nothing: at an optimum, or where the method goes nowhere."""
        half, last = self.values[-(-len(self.values) // 2) - 1], self.values[-1]
        return is_hidden(half - last, last)

    def rest(self) -> float:
        """The decrease that is still to be won, in nats; infinite while there are too few steps to tell."""
        n = len(self.values)
        if n < FEWEST_STEPS:
            return np.inf
        fastest = FASTEST_OF_FEW if n < FEW_STEPS else FASTEST
        by_doublings = self._extrapolated(-(-n // 4), -(-n // 2), fastest, SLOWEST)
        if n < MANY_STEPS:
            return by_doublings
        by_quarters = self._extrapolated(n - 2 * (n // 4), n - n // 4, FASTEST, SLOWEST_OF_MANY)
        return max(by_doublings / CAUTION, CAUTION * by_quarters)

    def _extrapolated(self, first: int, second: int, fastest: float, slowest: float) -> float:
        """Return d r / (1 - r), from what was won between two numbers of steps and since, r kept within limits."""
        start, middle, last = (self.values[n - 1] for n in (first, second, len(self.values)))
        newer, older = middle - last, start - middle
        share = min(max(newer / older, fastest), slowest) if older > 0 else slowest
        return newer * share / (1.0 - share)


class DistanceEstimate:
    """The estimate along a run, in shares of the objective."""

    def __init__(self, objective: Objective, penalty: Penalty, tol: float) -> None:
        self.penalty, self.tol = penalty, tol
        self.gains = Gains()
        self.can_tell = objective.has_curvature
        self.next_look = 0.0

    def after_step(self, value: float) -> float:
        """Take the least objective so far; returns what is left by the steps' gains, nan where nothing can be told."""
        self.gains.add(value)
        rest = self.gains.rest()
        return rest / abs(value) if self.can_tell and value != 0 and np.isfinite(rest) else np.nan

    def wants_look(self, estimate: float) -> bool:
        """Whether it is time to look at all coordinates, because the steps alone would end the run."""
        return estimate <= self.tol and len(self.gains.values) >= self.next_look

    def put_off(self, times: float = PATIENCE) -> None:
        """Wait for some more steps before the next look."""
        self.next_look = times * len(self.gains.values) + 1


def promise_of_zeros(seen: ScreenedPoint) -> float:
    """What the zeros that ask to leave zero would win, each block alone: violation^2 / (2 curvature), in nats. A zero
    within a block that is not zero is one alone."""
    local, blocks = seen.local, seen.local.blocks
    is_alone = blocks.spread(blocks.largest(np.abs(seen.w))) > 0
    excess = np.maximum(np.abs(seen.g) - seen.penalty.l1_of(seen.coords), 0.0)
    violation = np.where(is_alone, excess, local.violation(seen.w, seen.g))
    asks = (seen.w == 0) & (violation > 0)
    if not asks.any():
        return 0.0
    curvature, won = np.zeros(seen.w.size), np.zeros(seen.w.size)
    curvature[asks] = curvature_at_entry(seen.point, seen.coords[asks])
    curvature = np.where(is_alone, curvature, blocks.spread(blocks.largest(curvature)))
    won[asks] = violation[asks] ** 2 / (2.0 * curvature[asks])
    return float(won[is_alone].sum() + blocks.largest(np.where(is_alone, 0.0, won)).sum())
