"""The settings of a run of `minimize`, and its stopping rules: a duality gap, an estimate, held-out scores, limits.

`Proof`, the rule by the duality gap, is in `certificate.py`. `Estimate` estimates F(w) - F* from the recent decrease of
F and from the coordinates outside the working set.

Let d be the decrease of the objective in the second half of all steps, d' that in the quarter before it, and
r = d / d'. If every further doubling of the steps decreases the objective by r times the doubling before it, then

    F(w) - F* = d r + d r^2 + ... = d r / (1 - r),

which is Aitken's extrapolation on the scale of doublings. r is limited to the interval from 1/2 to .9, so that no
single doubling determines the estimate.

With 30 or more steps the same formula is also applied to the last two quarters of the steps. It adapts faster after a
slow beginning, but mistakes a pause for the end: the estimate is the maximum of three times its result and a third of
the first one.

There is no estimate if the later steps of a short run decrease F more than the earlier ones. Each zero outside the
working set adds violation^2 / (2 curvature), the decrease if it moved alone.

The estimate is not a bound. `scripts/measure.py stopping` measures its error (docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from crfqn.arrays import NO_WEIGHTS, SparseWeights
from crfqn.errors import InputError
from crfqn.result import OPTIMUM_TOL, HeldOutScores, Progress, Status, Trace
from crfqn.solvers.certificate import Proof, relative_gap
from crfqn.solvers.line_search import is_hidden
from crfqn.solvers.newton_on_support import is_small, newton_check, newton_on_support
from crfqn.solvers.protocols import Coords, Point, State, Vector
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry, screen_point

Callback = Callable[[Progress], object]
STOP_CRITERIA = ("certificate", "estimate")  # the values of `Run.stop`


@dataclass(frozen=True, eq=False)
class Run:
    """The settings of a run of `minimize`: its start, its stopping criteria, and what follows the steps.

    Parameters
    ----------
    start : tuple (coords, weights), sorted coordinates and weights, empty for zero; or a point of the objective
    tol : float >= 0, the relative gap at which the run ends
    stop : "certificate" or "estimate", whether the gap must be proved or may be estimated (`stopping.Estimate`)
    max_iter : int >= 1, the maximum number of iterations
    max_seconds : float or None, the maximum time. A step that exceeds it by more than `time_limit.GRACE_SECONDS` is
        lost.
    callback : function or None, called with every `Progress`; a true return value stops the run
    counts_proved_zeros : bool, whether to count the proved zeros at the end, in one or two sweeps over the gradient
    to_rounding : bool, whether solved small problems continue with Newton steps on the support to the rounding error:
        the weights then depend neither on the order of the data nor on the processor
    held_out : ValidationSet or None, items that are scored along the run. The result has the weights with the best
        score; the run ends as `Status.HELD_OUT` after `patience` scores without a better one, or if an earlier score is
        better than the last one.
    checkpoint : `estimators.checkpoint.Checkpoint` or None, which saves weights and trace in a file. If the file
        exists, the run continues from its latest weights with its trace, or returns its result if that run had ended.

    Raises
    ------
    InputError
        If `tol` is negative, `max_iter` is below 1, or `stop` is not one of `STOP_CRITERIA`.
    """

    start: tuple[Coords, Vector] | Point = NO_WEIGHTS
    tol: float = 1e-3
    stop: str = "certificate"
    max_iter: int = 500
    max_seconds: float | None = None
    callback: Callback | None = None
    counts_proved_zeros: bool = True
    to_rounding: bool = False
    held_out: ValidationSet | None = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol: expected a number >= 0, got {self.tol!r}")
        if self.max_iter < 1:
            raise InputError(f"max_iter: expected an integer >= 1, got {self.max_iter!r}")
        if self.stop not in STOP_CRITERIA:
            raise InputError(f"stop: expected one of {STOP_CRITERIA}, got {self.stop!r}")


MAX_COST_OF_SCORES = 0.1  # maximum cost of held-out scores, as a fraction of the passes of the run


@dataclass(frozen=True)
class ValidationSet:
    """Held-out items that are scored along a run.

    score, metric : a function of sparse weights, larger values being better; its name
    cost : the cost of a score, in passes over the training data
    patience : the number of successive scores without a better one after which the run ends
    items : the items and their labels, for the fingerprint in a checkpoint
    """

    score: Callable[[SparseWeights], float]
    cost: float
    patience: int
    metric: str
    items: tuple[object, ...] = ()


@dataclass
class ValidationHistory:
    """The scores of held-out items along a run, and the rule that ends the run after `patience` scores without a better
    one.

    held_out : the items, None if there are none
    best : the weights with the best score, None before the first score
    value, violation : the objective and the KKT violation at `best`, nan if not computed
    iterations, scores : the iteration and the score of each evaluation
    best_index : the index of the best score
    due : the number of passes at which the next score is computed
    """

    held_out: ValidationSet | None
    best: SparseWeights | None = None
    value: float = np.nan
    violation: float = np.nan
    iterations: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_index: int = -1
    due: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the last `patience` scores are not better than one before."""
        n_worse = len(self.scores) - 1 - self.best_index
        return self.held_out is not None and n_worse >= self.held_out.patience

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return `HELD_OUT` if the rule holds, else None."""
        return Status.HELD_OUT if self.is_over else None

    def after_step(self, state: State, iteration: int, passes: float) -> None:
        """Score the weights of a state if a score is due; passes : of the run so far."""
        if self.held_out is not None and passes >= self.due:
            self.due = passes + self.held_out.cost / MAX_COST_OF_SCORES
            violation = state.violation if state.is_screening else np.nan
            self.evaluate(state.point.sparse_weights, iteration, state.value, violation)

    def evaluate(
        self, weights: SparseWeights, iteration: int, value: float, violation: float, is_last: bool = False
    ) -> None:
        """Score weights and keep the best; the last ones of a run (`is_last`) replace earlier ones of equal score."""
        assert self.held_out is not None
        score = self.held_out.score(weights)
        best_score = self.scores[self.best_index] if self.scores else -np.inf
        self.iterations.append(iteration)
        self.scores.append(score)
        if score > best_score or (is_last and score == best_score) or self.best is None:
            self.best, self.value, self.violation = weights, value, violation
            self.best_index = len(self.scores) - 1

    def result(self) -> HeldOutScores | None:
        """Return the scores for the result of the run, None if there are none."""
        if self.held_out is None or self.best is None:
            return None
        return HeldOutScores(
            self.held_out.metric,
            self.scores[self.best_index],
            self.iterations[self.best_index],
            np.array(self.iterations, np.int64),
            np.array(self.scores),
            self.is_over,
        )


# Constants of the estimate, chosen with `scripts/measure.py stopping`.
MIN_STEPS = 5  # steps below which there is no estimate
# Limits of r, the decrease of a doubling of the steps relative to the one before.
MIN_RATIO, MAX_RATIO = 0.5, 0.9
FEW_STEPS, MIN_RATIO_OF_FEW = 10, 0.7  # with fewer steps the lower limit of r is larger
# The number of steps from which quarters are used too, with a larger upper limit of r.
MANY_STEPS, MAX_RATIO_OF_MANY = 30, 0.95
FACTOR_OF_QUARTERS = 3.0  # factor of the extrapolation over quarters
CHECK_INTERVAL = 1.1  # factor of the steps from a Newton check that did not end the run to the next
SOLVE_INTERVAL = 2.0  # the same for small problems that are solved although only a proof ends the run
GROSS_ERROR = 10.0  # errors above this multiple of the tolerance contradict the estimate
MAX_COST_OF_CHECK = 0.03  # maximum cost of a Newton check, as a fraction of the passes so far
CHEAP_OPERATIONS = 5e6  # of a Newton check that every run may spend: some milliseconds
MAX_CHEAP_DIRECTIONS = 50  # maximum number of directions of such a check
# Fraction of the objective without weights below which it counts as 0, for tolerances from `OPTIMUM_TOL` on.
FLOOR_FRACTION = 1e-5


class StoppingRule(Protocol):
    """A rule that may end a run. `minimize` calls `Proof`, `Estimate`, `ValidationHistory` and `Limits`, in this order,
    after each state of all items, and the last two after other states; the first status that is not None ends the run.
    """

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return the status with which the run ends at this state, or None; progress : its row of the trace."""
        ...


@dataclass
class Limits:
    """The rule that ends a run if the callback stops it, the solver has ended, or a limit is reached."""

    run: Run
    is_called_off: bool = False  # whether the callback has stopped the run

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return the status of the limit that is reached, or None."""
        if self.is_called_off:
            return Status.CALLBACK
        if state.has_value and state.end is not None:
            return state.end
        if progress.iteration >= self.run.max_iter:
            return Status.MAX_ITER
        is_late = self.run.max_seconds is not None and progress.seconds >= self.run.max_seconds
        return Status.MAX_SECONDS if is_late else None


@dataclass
class Gains:
    """The smallest objective so far at the start and after each step, and its extrapolation."""

    values: list[float] = field(default_factory=list)

    def are_rounding(self) -> bool:
        """Return whether the second half of all steps has decreased the objective by no more than rounding."""
        half, last = self.values[-(-len(self.values) // 2) - 1], self.values[-1]
        return is_hidden(half - last, last)

    def rest(self) -> float:
        """Return the expected decrease of all further steps, in nats; infinite if there is no estimate."""
        n = len(self.values)
        if n < MIN_STEPS:
            return np.inf
        min_ratio = MIN_RATIO_OF_FEW if n < FEW_STEPS else MIN_RATIO
        quarter, half = -(-n // 4), -(-n // 2)
        start, middle, last = (self.values[step - 1] for step in (quarter, half, n))
        is_faster = (middle - last) / (n - half) > (start - middle) / (half - quarter)
        if n < MANY_STEPS and is_faster and not is_hidden(middle - last, last):
            return np.inf
        by_doublings = self._extrapolated(quarter, half, min_ratio, MAX_RATIO)
        if n < MANY_STEPS:
            return by_doublings
        by_quarters = self._extrapolated(n - 2 * (n // 4), n - n // 4, MIN_RATIO, MAX_RATIO_OF_MANY)
        return max(by_doublings / FACTOR_OF_QUARTERS, FACTOR_OF_QUARTERS * by_quarters)

    def _extrapolated(self, first: int, second: int, min_ratio: float, max_ratio: float) -> float:
        """Return d r / (1 - r), d the decrease after step `second` and d' that from `first` to `second`."""
        start, middle, last = (self.values[n - 1] for n in (first, second, len(self.values)))
        newer, older = middle - last, start - middle
        ratio = min(max(newer / older, min_ratio), max_ratio) if older > 0 else max_ratio
        return newer * ratio / (1.0 - ratio)


class EstimateStatus(Enum):
    """The status of the estimate at a step; the value explains it."""

    OPEN = "above the tolerance, or not known"
    NEAR = "within the tolerance, and the Newton check agrees"
    UNCONFIRMED = "within the tolerance, but the decrease since the start is smaller than the gap"
    DOUBTED = "was unconfirmed at an earlier step, or the gap or the Newton check contradicted it"
    DISCREDITED = "the Newton check found a far larger decrease, so that only a proof ends the run"

    @property
    def is_near(self) -> bool:
        """Whether the estimate is within the tolerance at the latest step."""
        return self in (EstimateStatus.NEAR, EstimateStatus.UNCONFIRMED)

    @property
    def is_doubtful(self) -> bool:
        """Whether a check has contradicted the estimate or not confirmed it."""
        return self not in (EstimateStatus.OPEN, EstimateStatus.NEAR)


class Estimate:
    """The rule that ends a run whose estimated relative gap is within the tolerance.

    value : the estimated relative gap, nan if there is no estimate
    status : the status of the estimate
    scale : the unit of violations if there is no bound, nan until it is known
    value_of_zero : the objective without weights, nan until it is known
    is_enabled : whether `Run.stop` is "estimate"; may_end : whether an estimate may still end the run
    solves : whether Newton's method solves small problems to the rounding error
    """

    def __init__(self, run: Run, proof: Proof, trace: Trace) -> None:
        self.objective, self.penalty, self.best = proof.objective, proof.penalty, proof.best
        self.proof, self.trace = proof, trace
        self.tol = run.tol
        self.is_enabled = self.may_end = run.stop == "estimate"
        self.solves = run.to_rounding and self.objective.is_convex
        self.value, self.gains, self.next_check = np.nan, Gains(), 0.0
        self.status, self.value_of_zero = EstimateStatus.OPEN, np.nan
        self.is_cold = self.best.weights.coords.size == 0
        self.scale = np.nan if self.is_cold else self.penalty.min_threshold or np.nan

    def after_step(self, state: State, n_passes: float) -> State:
        """Estimate the gap; return the state, or that of a scan of all coordinates if one was computed.

        The decrease of the objective says nothing about coordinates outside the working set or about a solver that
        stalls. Before the estimate ends a run, the predicted gain of the violating zeros is therefore added, and a
        Newton check must not find a lower objective. If the last steps have not decreased the objective, or Newton's
        method has converged, the duality gap must not contradict the estimate either. Small problems are solved from
        there, even if an estimate may not end the run.
        """
        best, proof, gains = self.best, self.proof, self.gains
        gains.values.append(best.value)
        expected_gain, self.value = gains.rest(), np.nan
        if self.status.is_near:
            self.status = EstimateStatus.DOUBTED if self.status.is_doubtful else EstimateStatus.OPEN
        can_tell = self.objective.has_curvature and best.value != 0 and np.isfinite(expected_gain)
        estimate = expected_gain / abs(best.value) if can_tell else np.nan
        says_nothing = gains.are_rounding() and proof.likely_gap > GROSS_ERROR * self.tol
        is_discredited = self.status is EstimateStatus.DISCREDITED
        if self.objective.is_convex and not (is_discredited or says_nothing):
            self.value = estimate
        is_due = estimate <= self.tol and len(gains.values) >= self.next_check
        if not (is_due and best.excess is None and (self.may_end or self.solves)):
            return state
        point = state.point if state.value == best.value else best.point(self.objective)
        solved = newton_on_support(self.objective, self.penalty, point) if self.solves else None
        is_solved = self.solves and is_small(self.objective, self.penalty, point)
        seen = solved or screen_point(self.penalty, point)
        if not self.may_end:
            self.next_check = SOLVE_INTERVAL * len(gains.values) + 1
            return state if solved is None else seen.state(end=state.end)
        decrease, proved_gap = 0.0, relative_gap(seen.value, max(proof.dual_value, seen.dual_value))
        if not proved_gap <= self.tol:  # also if no bound is proved: the gap is nan
            n_cheap = min(CHEAP_OPERATIONS / self.objective.operations.of_pass, MAX_CHEAP_DIRECTIONS)
            seen, decrease = newton_check(seen, self.tol, int(max(MAX_COST_OF_CHECK * n_passes, n_cheap, 1)))
        unreached = predicted_gain_of_zeros(seen) / abs(best.value) + decrease
        self.value += unreached
        gap = relative_gap(seen.value, max(proof.likely_bound, seen.dual_value))
        is_contradicted = (is_solved or gains.are_rounding()) and gap > GROSS_ERROR * self.tol
        self.next_check = CHECK_INTERVAL * len(gains.values) + 1
        if decrease > GROSS_ERROR * self.tol and self.penalty.min_threshold > 0:
            self.status, self.value, self.may_end = EstimateStatus.DISCREDITED, np.nan, False
        elif is_contradicted or decrease > GROSS_ERROR * self.tol:
            self.status = EstimateStatus.DOUBTED
        elif estimate + unreached <= self.tol:
            self.status = EstimateStatus.NEAR
        return seen.state(end=state.end)

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return the status with which the run ends, or None; an unconfirmed estimate does not end it."""
        if not np.isfinite(self.proof.dual_value):
            if self.may_end and self.proof.likely_gap <= self.tol:
                return Status.ESTIMATED
            # At the end of all steps the unit is the strength of the penalty: a run may have started at its optimum.
            scale = max(self.scale, self.penalty.min_threshold) if state.is_final else self.scale
            has_penalty = max(self.penalty.min_threshold, self.penalty.l2) > 0
            may_tell = self.may_end and self.objective.is_convex and has_penalty and not state.is_final
            if state.is_screening and state.violation <= self.tol * scale and not may_tell:
                return Status.STATIONARY
        if self.status.is_near:
            if not self.objective.is_convex:
                return Status.STATIONARY
            if self.is_confirmed:
                return Status.ESTIMATED
            self.status = EstimateStatus.UNCONFIRMED
        return None

    @property
    def is_confirmed(self) -> bool:
        """Whether the gap is smaller than the decrease of the objective from zero: otherwise the steps may have stalled
        at the start. If the bound is assumed, or the penalty has kinks that the Newton check does not see, the gap must
        be within `GROSS_ERROR` tolerances. Without a bound nothing is confirmed."""
        value, gap = self.best.value, self.proof.likely_gap
        remaining = gap * abs(value)
        if np.isnan(remaining):
            return False
        if self.penalty.has_hidden_kinks or not np.isfinite(self.proof.dual_value):
            return bool(gap <= GROSS_ERROR * self.tol)
        if remaining == 0 or (self.is_cold and remaining <= self.trace.rows[0].value - value):
            return True
        return remaining <= self.without_weights() - value  # the first row may be after steps on samples

    def is_at_floor(self, status: Status | None) -> bool:
        """Return whether the objective is almost 0, its lower bound, although the tolerance is not reached.

        It is if it is below `FLOOR_FRACTION` of that without weights. This is for runs that end before their
        tolerance, or continue with a doubtful estimate, and for losses with curvature: the objective of the hinge is
        the penalty alone if the data are separable.
        """
        is_short = self.status.is_doubtful if status is None else status.is_standstill or status.is_at_limit
        if not (is_short and self.is_enabled and self.best.excess is None):
            return False
        has_floor = self.objective.has_dual and self.objective.has_curvature
        share = FLOOR_FRACTION * min(self.tol / OPTIMUM_TOL, 1.0)
        return has_floor and self.best.value <= share * self.without_weights()

    def without_weights(self) -> float:
        """Return the objective without weights, which is computed once, in a pass over the data."""
        if np.isnan(self.value_of_zero):
            self.value_of_zero = self.objective.at(*NO_WEIGHTS).value
        return self.value_of_zero


def predicted_gain_of_zeros(seen: ScreenedPoint) -> float:
    """Return the sum of violation^2 / (2 curvature) over the blocks of violating zeros, in nats: the predicted decrease
    of the objective if each block moved alone. A zero within a block that is not zero counts as a block."""
    local, blocks = seen.local, seen.local.blocks
    is_alone = blocks.spread(blocks.largest(np.abs(seen.w))) > 0
    excess = np.maximum(np.abs(seen.g) - seen.penalty.l1_of(seen.coords), 0.0)
    violation = np.where(is_alone, excess, local.violation(seen.w, seen.g))
    may_enter = (seen.w == 0) & (violation > 0)
    if not may_enter.any():
        return 0.0
    curvature, gain = np.zeros(seen.w.size), np.zeros(seen.w.size)
    curvature[may_enter] = curvature_at_entry(seen.point, seen.coords[may_enter])
    curvature = np.where(is_alone, curvature, blocks.spread(blocks.largest(curvature)))
    gain[may_enter] = violation[may_enter] ** 2 / (2.0 * curvature[may_enter])
    return float(gain[is_alone].sum() + blocks.largest(np.where(is_alone, 0.0, gain)).sum())
