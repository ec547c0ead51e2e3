"""The settings of a run of `minimize`, and the rules that end it, asked in order: a proof, an estimate of the distance
to the optimum, scores of held-out items, and limits.

`Proof` is in `certificate.py`. `Estimate` estimates F(w) - F* from the recent
decrease of F and from the coordinates outside the working set.

The decrease of the objective in the second half of all steps is d, that in the quarter before it d', and r = d / d'.
If every doubling of the steps goes on to win r times what the one before has won, the rest is

    d r + d r^2 + ... = d r / (1 - r),

Aitken's extrapolation on the scale of doublings: it suits methods that converge linearly, whose r falls, and those
that slow down. r is kept between 1/2 and .9, so that one lucky or unlucky doubling decides nothing.

From many steps the same formula over the last two quarters of them forgets sooner how slow the beginning was, but
mistakes a pause for the end: the estimate is three times its result, and at least a third of the first one.

There is no estimate if the steps of a short run decrease F more than those before them, as after a start at a model
that is far from the optimum. Each zero outside the working set adds violation^2 / (2 curvature), the decrease if it
moved alone.

This is an estimate and no bound; `certificate.py` has the bound. `scripts/stopping.py` measures its error
(docs/numerics.md).
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
STOPS = ("certificate", "estimate")


@dataclass(frozen=True, eq=False)
class Run:
    """Where a run of `minimize` starts, when it stops, and what is done besides the steps of its solver.

    Parameters
    ----------
    start : tuple (coords, weights), sorted coordinates and weights, empty for zero; or a point of the objective
    tol : float >= 0, the relative distance to the optimum that ends the run
    stop : "certificate" or "estimate", whether `tol` must be proved or may be estimated (`stopping.Estimate`)
    max_iter : int >= 1, the largest number of iterations
    max_seconds : float or None, the time after which the run ends. A step that takes longer than
        `time_limit.GRACE_SECONDS` beyond it is lost.
    callback : function or None, called with every `Progress`; a true answer stops the run
    counts_proved_zeros : bool, whether to count the proved zeros at the end: one or two sweeps over the gradient
    to_rounding : bool, whether small problems that are solved go on with Newton steps on the support until only
        rounding is left: the weights then depend neither on the order of the data nor on the processor
    held_out : ValidationSet or None, items that are scored along the run. The result has the weights with the best
        score; the run ends as `Status.HELD_OUT` if no better score comes, or if an earlier score is better than the
        last one.
    checkpoint : `estimators.checkpoint.Checkpoint` or None, which keeps weights and trace in a file. If the file
        exists, the run continues from its latest weights with its trace, or returns its result if that run had ended.

    Raises
    ------
    InputError
        If `tol` is negative, `max_iter` below 1, or `stop` another word.
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
        if self.stop not in STOPS:
            raise InputError(f"stop: expected one of {STOPS}, got {self.stop!r}")


MAX_COST_OF_SCORES = 0.1  # of the run's passes


@dataclass(frozen=True)
class ValidationSet:
    """Held-out items that are scored along a run.

    score, metric : called with sparse weights, the larger, the better; its name
    cost : of a score, in passes over the training data
    patience : the number of successive scores without a better one that ends the run
    items : the items and their labels, by which a checkpoint knows them
    """

    score: Callable[[SparseWeights], float]
    cost: float
    patience: int
    metric: str
    items: tuple[Any, ...] = ()


@dataclass
class ValidationHistory:
    """The scores of held-out items along a run, if there are any, and the rule that ends the run when none is better.

    best : the weights with the best score, None before the first
    value, violation : the objective and the KKT violation at `best`, nan if not computed
    iterations, scores : of each evaluation; best_index : the place of the best in these lists
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
        """Whether patience has run out."""
        n_worse = len(self.scores) - 1 - self.best_index
        return self.held_out is not None and n_worse >= self.held_out.patience

    @property
    def latest(self) -> float:
        """The latest score, nan before the first."""
        return self.scores[-1] if self.scores else np.nan

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return `HELD_OUT` if patience has run out."""
        return Status.HELD_OUT if self.is_over else None

    def after_step(self, state: State, iteration: int, passes: float) -> None:
        """Score the weights of a step if a score is due."""
        if self.held_out is not None and passes >= self.due:
            self.due = passes + self.held_out.cost / MAX_COST_OF_SCORES
            violation = state.violation if state.is_screening else np.nan
            self.evaluate(state.point.sparse_weights, iteration, state.value, violation)

    def evaluate(
        self, weights: SparseWeights, iteration: int, value: float, violation: float, is_last: bool = False
    ) -> None:
        """Score weights; those that a run ends with (`is_last`) are preferred to earlier ones of the same score."""
        assert self.held_out is not None
        score = self.held_out.score(weights)
        best_score = self.scores[self.best_index] if self.scores else -np.inf
        self.iterations.append(iteration)
        self.scores.append(score)
        if score > best_score or (is_last and score == best_score) or self.best is None:
            self.best, self.value, self.violation = weights, value, violation
            self.best_index = len(self.scores) - 1

    def result(self) -> HeldOutScores | None:
        """Return the scores as a part of the run's result, None if there are none."""
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


FEWEST_STEPS = 5  # that say something
FASTEST, SLOWEST = 0.5, 0.9  # what a doubling of the steps may win, as a share of the one before
FEW_STEPS, FASTEST_OF_FEW = 10, 0.7
MANY_STEPS, SLOWEST_OF_MANY = 30, 0.95
FACTOR_OF_QUARTERS = 3.0  # times the extrapolation over quarters
CHECK_INTERVAL = 1.1  # times as many steps until the next Newton check, after one that did not end the run
SOLVE_INTERVAL = 2.0  # the same of small problems that are to be solved although only a proof may end the run
GROSS_ERROR = 10.0  # times the tolerance: counts if kinks or rounding limit the Newton check
MAX_COST_OF_CHECK = 0.03  # of the passes so far
CHEAP_OPERATIONS = 5e6  # some milliseconds, which a Newton check may take in any run,
MOST_CHEAP_DIRECTIONS = 50  # for at most so many directions
NOTHING_LEFT = 1e-5  # of the objective without weights, for `OPTIMUM_TOL` and looser tolerances


class StoppingRule(Protocol):
    """A rule that may end a run. `minimize` asks `Proof`, `Estimate`, `ValidationHistory` and `Limits`, in this order,
    after each state of all items, and the last two after others; the first status that is not None ends the run."""

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return why the run ends at this state, whose row of the trace is `progress`, or None."""
        ...


class Limits:
    """The rule that ends a run when its callback asks for it, its solver can go no further, or a limit is reached."""

    def __init__(self, run: Run) -> None:
        self.run, self.is_called_off = run, False

    def show(self, progress: Progress) -> None:
        """Call the callback, if there is one."""
        self.is_called_off = self.run.callback is not None and bool(self.run.callback(progress))

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return the limit that is reached, or None."""
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
        return max(by_doublings / FACTOR_OF_QUARTERS, FACTOR_OF_QUARTERS * by_quarters)

    def _extrapolated(self, first: int, second: int, fastest: float, slowest: float) -> float:
        """Return d r / (1 - r), from what was won between two numbers of steps and since, r kept within limits."""
        start, middle, last = (self.values[n - 1] for n in (first, second, len(self.values)))
        newer, older = middle - last, start - middle
        share = min(max(newer / older, fastest), slowest) if older > 0 else slowest
        return newer * share / (1.0 - share)


class EstimateStatus(Enum):
    """What the estimate says at a step, and whether something has spoken against it; the value is in words."""

    OPEN = "above the tolerance, or not known"
    NEAR = "within the tolerance, and the Newton check agrees"
    UNCONFIRMED = "within the tolerance, but the steps have won less than the certificate leaves open"
    DOUBTED = "was unconfirmed at an earlier step, or the certificate or the Newton check contradicted it"
    DISCREDITED = "the Newton check found far more than was estimated, so that only a proof ends the run"

    @property
    def is_near(self) -> bool:
        """Whether the estimate is within the tolerance at the latest step."""
        return self in (EstimateStatus.NEAR, EstimateStatus.UNCONFIRMED)

    @property
    def is_doubtful(self) -> bool:
        """Whether something has spoken against the estimate."""
        return self not in (EstimateStatus.OPEN, EstimateStatus.NEAR)


class Estimate:
    """The rule that ends a run whose optimum is within the tolerance by estimate, or whose steps win nothing more.

    value : the estimate of the distance to the optimum, as a share of the objective; nan if nothing can be told
    status : what the estimate says
    scale : the violation that the tolerance is a share of if nothing is proved; nan until it is known
    value_of_zero : the objective without weights, nan until it is known
    is_asked : whether an estimate may end the run; `may_end` : and is not discredited
    solves : whether Newton's method is tried on small problems, until rounding is all that is left
    """

    def __init__(self, run: Run, proof: Proof, trace: Trace) -> None:
        self.objective, self.penalty, self.best = proof.objective, proof.penalty, proof.best
        self.proof, self.trace = proof, trace
        self.tol, self.is_asked = run.tol, run.stop == "estimate"
        self.solves = run.to_rounding and self.objective.is_convex
        self.value, self.gains, self.next_check = np.nan, Gains(), 0.0
        self.status, self.value_of_zero = EstimateStatus.OPEN, np.nan
        self.is_cold = self.best.weights.coords.size == 0
        self.scale = np.nan if self.is_cold else self.penalty.min_threshold or np.nan

    @property
    def may_end(self) -> bool:
        """Whether an estimate within the tolerance ends the run."""
        return self.is_asked and self.status is not EstimateStatus.DISCREDITED

    def after_step(self, state: State, n_passes: float) -> State:
        """Estimate the distance to the optimum; return the state of a scan of all coordinates if it takes one.

        The decrease of the objective shows neither what a solver has left out of its working set nor what its steps
        cannot reach. Before the estimate ends a run, the predicted gain of the violating zeros is added, and a Newton
        check must not find the objective lower. If the last steps have won nothing at all, or Newton's method has come
        to its end, the certificate, which is tight at an optimum, must not contradict it either. Small problems are
        solved from there, whatever may end the run.
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
        n_cheap = min(CHEAP_OPERATIONS / self.objective.operations.of_pass, MOST_CHEAP_DIRECTIONS)
        seen, won = newton_check(seen, self.tol, int(max(MAX_COST_OF_CHECK * n_passes, n_cheap, 1)))
        further = predicted_gain_of_zeros(seen) / abs(best.value) + won
        self.value += further
        gap = relative_gap(seen.value, max(proof.likely_bound, seen.dual_value))
        is_contradicted = (is_solved or gains.are_rounding()) and gap > GROSS_ERROR * self.tol
        self.next_check = CHECK_INTERVAL * len(gains.values) + 1
        if won > GROSS_ERROR * self.tol and self.penalty.min_threshold > 0:
            self.status, self.value = EstimateStatus.DISCREDITED, np.nan
        elif is_contradicted or won > GROSS_ERROR * self.tol:
            self.status = EstimateStatus.DOUBTED
        elif estimate + further <= self.tol:
            self.status = EstimateStatus.NEAR
        return seen.state(end=state.end)

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return why the estimate ends the run, or None; an estimate that nothing confirms is doubted."""
        if not self.proof.is_known:
            if self.may_end and self.proof.likely_gap <= self.tol:
                return Status.ESTIMATED
            # At the end of all steps the penalty's strength is the measure: a run may have started at its optimum.
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
        """Whether more has been won from zero than the certificate leaves open. If not, the steps may have gone
        nowhere, from zero or from a start that is as far from the optimum; without a bound nothing tells. If the bound
        is assumed, or the penalty has kinks that no Newton check sees past, the bound has to be within `GROSS_ERROR`
        tolerances."""
        value, gap = self.best.value, self.proof.likely_gap
        left = gap * abs(value)
        if np.isnan(left):
            return False
        if self.penalty.has_hidden_kinks or not self.proof.is_known:
            return bool(gap <= GROSS_ERROR * self.tol)
        if left == 0 or (self.is_cold and left <= self.trace.rows[0].value - value):
            return True
        return left <= self.without_weights() - value  # samples may have won most of it

    def is_at_floor(self, status: Status | None) -> bool:
        """Return whether a run that ends short of its tolerance, or goes on with a doubted estimate, has nothing left.

        Nothing is left if the objective is next to nothing beside that without weights and cannot be below 0. The
        hinge's is the penalty alone if the data can be separated, and only the direction of its weights matters.
        """
        is_short = self.status.is_doubtful if status is None else status.is_standstill or status.is_at_limit
        if not (is_short and self.is_asked and self.best.excess is None):
            return False
        has_floor = self.objective.has_dual and self.objective.has_curvature
        share = NOTHING_LEFT * min(self.tol / OPTIMUM_TOL, 1.0)
        return has_floor and self.best.value <= share * self.without_weights()

    def without_weights(self) -> float:
        """Return the objective without weights: a pass over the data, once."""
        if np.isnan(self.value_of_zero):
            self.value_of_zero = self.objective.at(*NO_WEIGHTS).value
        return self.value_of_zero


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
