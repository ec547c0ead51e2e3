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

Where the steps of a short run win more than those before them, nothing tells where it will end: so it is after a start
at a model that is far from the optimum.

Zeros that a working set has left out are not in what was won: each adds violation^2 / (2 curvature), what it would win
alone.

This is an estimate and no bound; `certificate.py` has the bound. `scripts/stopping.py` measures how far off it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crfqn.errors import InputError
from crfqn.solvers.certificate import Best, Proofs, relative_gap
from crfqn.solvers.line_search import is_hidden
from crfqn.solvers.newton_on_support import is_small, newton_check, newton_on_support
from crfqn.solvers.protocols import Objective, Penalty, State
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry, screen_point

FEWEST_STEPS = 5  # that say something
FASTEST, SLOWEST = 0.5, 0.9  # what a doubling of the steps may win, as a share of the one before
FEW_STEPS, FASTEST_OF_FEW = 10, 0.7
MANY_STEPS, SLOWEST_OF_MANY = 30, 0.95
CAUTION = 3.0  # times the extrapolation over quarters
PATIENCE = 1.1  # times as many steps until the next look, where what waits outside forbids to stop
RARELY = 2.0  # times as many steps until the next attempt to solve a small problem that only a proof may end
# Times the tolerance may an estimate be contradicted, where kinks or rounding hide what else a look would find.
GROSS = 10.0
SHARE = 0.03  # of the passes so far that a Newton check may take
CHEAP, MOST_CHEAP = 5e6, 50  # operations, some milliseconds, and directions that a look may take in any run


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


@dataclass
class Gains:
    """The least objective after each step, from the start on."""

    values: list[float] = field(default_factory=list)

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
        quarter, half = -(-n // 4), -(-n // 2)
        start, middle, last = (self.values[step - 1] for step in (quarter, half, n))
        is_faster = (middle - last) / (n - half) > (start - middle) / (half - quarter)
        if n < MANY_STEPS and is_faster and not is_hidden(middle - last, last):
            return np.inf
        by_doublings = self._extrapolated(quarter, half, fastest, SLOWEST)
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
    """The estimate along a run, as a share of the objective, and whether it may end the run.

    value : the estimate, nan where nothing can be told
    may_end : whether an estimate within the tolerance ends the run, which is then `is_near`
    is_doubted, is_discredited : whether something spoke against an estimate that would have ended the run; grossly, so
        that only a proof ends it
    to_rounding : whether Newton's method is tried on small problems, until rounding is all that is left
    """

    def __init__(
        self, objective: Objective, penalty: Penalty, tol: float | Estimated, to_rounding: bool
    ) -> None:
        self.objective, self.penalty = objective, penalty
        self.tol, self.may_end = as_tolerance(tol)
        self.to_rounding, self.solves = to_rounding, to_rounding and objective.is_convex
        self.value, self.gains, self.next_look = np.nan, Gains(), 0.0
        self.is_near = self.is_doubted = self.is_discredited = False

    def after_step(self, state: State, best: Best, proofs: Proofs, n_passes: float) -> State:
        """Estimate the distance to the optimum; returns the state of a look at all coordinates, where it takes one.

        What a solver has left out of its working set shows in no value, nor what its steps cannot win: before the
        estimate ends a run, what the violating zeros promise is added, and a Newton check must not find the objective
        lower; where the last steps have won nothing at all, or Newton's method has come to its end, the certificate,
        which is tight at an optimum, must not say otherwise either. Small problems are solved from there, whatever may
        end the run.
        """
        objective, penalty, gains = self.objective, self.penalty, self.gains
        gains.values.append(best.value)
        expected_gain, self.is_near, self.value = gains.rest(), False, np.nan
        can_tell = objective.has_curvature and best.value != 0 and np.isfinite(expected_gain)
        estimate = expected_gain / abs(best.value) if can_tell else np.nan
        says_nothing = gains.are_rounding() and proofs.likely_gap(best) > GROSS * self.tol
        if objective.is_convex and not (self.is_discredited or says_nothing):
            self.value = estimate
        is_due = estimate <= self.tol and len(gains.values) >= self.next_look
        if not (is_due and best.excess is None and (self.may_end or self.solves)):
            return state
        point = (
            state.point
            if state.value == best.value
            else objective.at(best.weights.coords, best.weights.weights)
        )
        solved = newton_on_support(objective, penalty, point) if self.solves else None
        is_solved = self.solves and is_small(objective, penalty, point)
        seen = solved or screen_point(penalty, point)
        if not self.may_end:
            self.next_look = RARELY * len(gains.values) + 1
            return state if solved is None else seen.state(is_final=state.is_final)
        n_cheap = min(CHEAP / objective.operations.of_pass, MOST_CHEAP)
        seen, won = newton_check(seen, self.tol, int(max(SHARE * n_passes, n_cheap, 1)))
        further = predicted_gain_of_zeros(seen) / abs(best.value) + won
        self.value += further
        gap = relative_gap(seen.value, max(proofs.likely_bound, seen.dual_value))
        is_contradicted = (is_solved or gains.are_rounding()) and gap > GROSS * self.tol
        self.is_near = estimate + further <= self.tol and not is_contradicted
        self.is_doubted |= is_contradicted or won > GROSS * self.tol
        self.next_look = PATIENCE * len(gains.values) + 1
        if won > GROSS * self.tol and penalty.min_threshold > 0:
            self.is_discredited, self.may_end, self.value = True, False, np.nan
        return seen.state(is_final=state.is_final, has_failed=state.has_failed, meets_rule=state.meets_rule)


def predicted_gain_of_zeros(seen: ScreenedPoint) -> float:
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
