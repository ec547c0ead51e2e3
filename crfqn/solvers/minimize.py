"""The one loop around every solver: its states are recorded until one of them is the last.

Four objects follow a run: its trace, what has been proved (`certificate.Proofs`), the estimate of the distance to the
optimum (`stopping.DistanceEstimate`), and the scores of held-out items (`validation.ValidationHistory`).

The log is the standard library's, logger `crfqn.training`. INFO: a line at the beginning and one at the end of each
run; DEBUG: a line an iteration. `verbose=1` of the estimators is another thing, a display for people.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from crfqn.arrays import NO_WEIGHTS
from crfqn.errors import InputError
from crfqn.objectives.sums import Executor, Sum
from crfqn.result import OPTIMAL, Progress, Result, Status, Trace
from crfqn.solvers.certificate import Best, Proofs, value_at
from crfqn.solvers.newton_on_support import newton_on_support
from crfqn.solvers.protocols import (
    Coords,
    Objective,
    Penalty,
    Point,
    Solver,
    SparseWeights,
    State,
    Vector,
    check_requirements,
)
from crfqn.solvers.stopping import GROSS, DistanceEstimate, Estimated, as_tolerance
from crfqn.solvers.validation import ValidationHistory, ValidationSet
from crfqn.time_limit import TimeIsUp, TimeLimit

logger = logging.getLogger("crfqn.training")
logging.getLogger("crfqn").addHandler(logging.NullHandler())  # silent unless the program wants to hear
Callback = Callable[[Progress], object]
# Of these a run has converged after all where nothing is left of its objective.
CUT_OFF = (Status.STALLED, Status.LINE_SEARCH_FAILED, Status.STATIONARY, Status.MAX_ITER, Status.MAX_SECONDS)
# Others are asked to stop at once.
ENDS = (
    Status.CONVERGED, Status.ESTIMATED, Status.AT_FLOOR, Status.STALLED, Status.LINE_SEARCH_FAILED, Status.STATIONARY,
)  # fmt: skip
NOTHING_LEFT = 1e-5  # of the objective without weights, to OPTIMAL and looser tolerances


def minimize(
    objective: Objective,
    penalty: Penalty,
    solver: Solver,
    start: tuple[Coords, Vector] | Point = NO_WEIGHTS,
    tol: float | Estimated = 1e-3,
    max_iter: int = 500,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    proves_zeros: bool = True,
    to_rounding: bool = False,
    held_out: ValidationSet | None = None,
    checkpoint: Any = None,
) -> Result:
    """Minimise objective + penalty from `start`: sorted coordinates and weights, empty for zero, or a point of it.

    The run has converged when value - dual_value <= tol * value, proved by the duality gap, or nothing is violated at
    all. Where a coordinate is unpenalised, its gradient has to be zero for a proof: as the violation falls those
    coordinates are solved, the others held, and if that is within the tolerance it is the result. Where nothing is
    proved (no penalty at all, or a loss that is not convex) the run ends as `Status.STATIONARY` once the largest KKT
    violation has fallen below tol * l1, and below tol * its first value where it starts from zero or l1 = 0. With
    `Estimated(tol)` the run also ends as `Status.ESTIMATED`, when `stopping.py` estimates that the distance to the
    optimum is within the tolerance; of a loss that is not convex that is what its steps would still win, and the run
    ends as `Status.STATIONARY`.

    Parameters
    ----------
    max_seconds : the time after which the run ends. A step that takes longer than `time_limit.GRACE` beyond it is lost.
    callback : called with every `Progress`; a true answer stops the run.
    proves_zeros : whether to count the zeros that are proved, in the end: a sweep or two over the gradient.
    to_rounding : whether to go on with Newton steps on the support from where a small problem has been solved, until
        rounding is all that is left: the weights then depend neither on the order of the data nor on the processor.
    held_out : items whose score is followed. The result has the weights of the best score; the run ends as
        `Status.HELD_OUT` when no better score comes, or when an earlier score than that of its end is the best.
    checkpoint : a `Checkpoint` (`estimators/checkpoint.py`), which keeps weights and trace in a file. From a file that
        is there the run goes on: it starts from the newest weights, and its trace continues. The result of a run that
        has ended is returned.

    Raises
    ------
    InputError
        For a negative tolerance or limits below 1, and a checkpoint that is damaged or that of another run.
    """
    as_tolerance(tol)  # before a pass over the data
    if max_iter < 1:
        raise InputError(f"max_iter: expected an integer >= 1, got {max_iter!r}")
    check_requirements(solver, objective, penalty)
    logger.info("training by %s, tol %s, at most %d iterations", type(solver).__name__, tol, max_iter)
    weights = SparseWeights.without_zeros(*(start if isinstance(start, tuple) else start.sparse_weights))
    run = RunState(objective, penalty, weights, tol, max_iter, max_seconds, callback, to_rounding, held_out)
    if checkpoint is not None:
        result = checkpoint.open(solver, run, weights)
        if result is not None:
            return result
        if run.newest is not weights:  # it goes on from a file
            start, solver = run.newest, checkpoint.remaining(solver, run)
    first = objective.at(*start) if isinstance(start, tuple) else start
    status: Status | None = None
    limit = TimeLimit(None if max_seconds is None else max_seconds - run.seconds)
    try:
        with limit:
            states = solver.steps(objective, penalty, first)
            del first, start  # the solver drops it when it can: a point is as large as the data
            for state in states:
                status = run.record(state) if state.has_value else run.preview(state)
                if status is not None:
                    break
                if checkpoint is not None and state.sample_fraction == 1.0:
                    checkpoint.after_step(run, state.point)
            if status is not None and state.certify is not None:
                state = state.certify()
                verdict = run.record(state)
                if verdict in (Status.CONVERGED, Status.WITHIN_BOUND, Status.DIVERGED):
                    status = verdict
            status = status or Status.STALLED
            del states  # and the method's own arrays
            if to_rounding and status in ENDS:
                status = run.finish(status)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except TimeIsUp:  # within a step, which is lost; another limit than that of this run is its caller's
        is_own = max_seconds is not None and run.seconds >= max_seconds
        status = status or (Status.MAX_SECONDS if is_own else Status.CALLBACK)
    if checkpoint is not None:
        checkpoint.after_run(run, status)
    status = run.with_best_score(status)
    result = run.result(status)
    if proves_zeros and status in ENDS and not limit.was_met and not np.isnan(result.gap):
        is_best = state.is_screening and state.value == result.value
        with limit:
            result = run.with_proved_zeros(result, state.point if is_best else None)
    if checkpoint is not None:
        checkpoint.close(result)
    logger.log(
        logging.INFO if result.status.is_regular else logging.WARNING,
        "%s (objective %.8g, gap %.2e, estimated gap %.2e, %d non-zeros, %d iterations, %.1f passes, %.2f s)",
        result.message,
        result.value,
        result.gap,
        result.estimated_gap,
        result.n_nonzero,
        result.n_iter,
        result.passes,
        result.seconds,
    )
    return result


class RunState:
    """The record of one run, and the verdict on each of its states.

    best, newest : the best weights so far with their objective; the weights after the last step
    violation : the largest KKT violation at the last scan of all coordinates
    scale : the violation that the tolerance is a share of where nothing is proved, nan while it is not known
    """

    def __init__(
        self,
        objective: Objective,
        penalty: Penalty,
        start: SparseWeights,
        tol: float | Estimated,
        max_iter: int = 500,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        to_rounding: bool = False,
        held_out: ValidationSet | None = None,
    ) -> None:
        self.objective, self.penalty, self.callback = objective, penalty, callback
        self.max_iter, self.max_seconds = max_iter, max_seconds
        self.tol, self.may_estimate = as_tolerance(tol)
        self.is_convex = objective.is_convex
        self.trace, self.n_iter = Trace(), 0
        self.proofs = Proofs(objective, penalty, self.tol)
        self.distance = DistanceEstimate(objective, penalty, tol, to_rounding)
        self.looks = None if held_out is None else ValidationHistory(held_out)
        self.best, self.newest = Best(start, self.tol), start
        self.violation, self.value_of_zero = np.nan, np.nan
        self.is_cold = start.coords.size == 0
        self.scale = np.nan if self.is_cold or penalty.min_threshold == 0 else penalty.min_threshold
        self.executor = objective.executor if isinstance(objective, Sum) else Executor()
        self.passes_before, self.bytes_before = objective.n_passes, self.executor.n_bytes
        self.started = time.perf_counter()

    @property
    def passes(self) -> float:
        """The passes over the data of this run."""
        return self.objective.n_passes - self.passes_before

    @property
    def seconds(self) -> float:
        """The time since the run began, of all its processes."""
        return time.perf_counter() - self.started

    @property
    def gap(self) -> float:
        """The certified relative gap of the best weights, nan where nothing is proved."""
        return self.proofs.gap(self.best)

    @property
    def likely_gap(self) -> float:
        """The relative gap of the best weights to the bound that is proved or assumed, nan where there is neither."""
        return self.proofs.likely_gap(self.best)

    def preview(self, state: State) -> Status | None:
        """Show a step on a sample, or an epoch without a value: it may be stopped, but proves and traces nothing."""
        if state.certify is None:
            self.newest = state.point.sparse_weights
        if state.sample_fraction == 1.0:
            self.proofs.add(state.dual_value)
        self.n_iter += state.n_wrong is not None or state.certify is not None
        if state.n_wrong is not None:
            self._look(state)
        weights = state.point.sparse_weights if state.certify is None else self.best.weights
        progress = self._progress(state, np.nan, weights)
        asked_to_stop = self.callback is not None and bool(self.callback(progress))
        return Status.CALLBACK if asked_to_stop else self._limit(progress)

    def record(self, state: State) -> Status | None:
        """Add a state to the trace; returns why to stop, or None to go on."""
        if not np.isfinite(state.value):
            return Status.DIVERGED
        best, proofs = self.best, self.proofs
        self.newest = state.point.sparse_weights
        best.update(state)
        if np.isnan(self.value_of_zero) and self.newest.n_nonzero == 0:
            self.value_of_zero = state.value
        is_step = state.is_step or not state.is_screening
        if is_step:
            state = self.distance.after_step(state, best, proofs, self.passes)
            best.update(state)
        proofs.add(state.dual_value)
        if state.is_screening and proofs.solves_unpenalised and not self.gap <= self.tol:
            state = proofs.with_unpenalised_solved(state, best)
        if state.is_screening and not self.distance.may_end and self.is_convex:
            proofs.bound_by_items(state.point, best, self.passes)
        if state.is_screening:
            self.violation = state.violation
            if np.isnan(self.scale):
                self.scale = min(self.penalty.min_threshold or np.inf, state.violation)
        self.n_iter += is_step
        if is_step:
            self._look(state)
        progress = self._progress(state, self.gap, state.point.sparse_weights)
        self.trace.rows.append(progress)
        asked_to_stop = self.callback is not None and bool(self.callback(progress))
        status = self._reason_to_stop(state, progress, asked_to_stop)
        is_end = status in CUT_OFF or (status is None and self.distance.is_doubted)
        if is_end and self.may_estimate and best.excess is None:
            # Nothing is left where the objective is next to nothing beside that without weights, and nothing can be
            # below 0. The hinge's is the penalty alone where data can be separated, and its direction is all that
            # matters.
            has_floor = self.objective.is_nonnegative and self.objective.has_curvature
            share = NOTHING_LEFT * min(self.tol / OPTIMAL, 1.0)
            if has_floor and best.value <= share * self._without_weights():
                return Status.AT_FLOOR
        return status

    def _look(self, state: State) -> None:
        """Score the held-out items, if there are any and a look is due."""
        if self.looks is not None:
            violation = state.violation if state.is_screening else np.nan
            self.looks.after_step(
                state.point.sparse_weights, self.n_iter, self.passes, state.value, violation
            )

    def _progress(self, state: State, gap: float, weights: SparseWeights) -> Progress:
        """Return the row of a state with such weights, and log it at DEBUG."""
        n_bytes, self.bytes_before = -self.bytes_before, self.executor.n_bytes
        progress = Progress(
            iteration=self.n_iter,
            value=state.value,
            gap=gap,
            violation=state.violation,
            n_active=state.n_active,
            n_nonzero=weights.n_nonzero,
            passes=self.passes,
            seconds=self.seconds,
            is_screening=state.is_screening,
            sample_fraction=state.sample_fraction,
            n_wrong=state.n_wrong,
            estimated_gap=self.distance.value,
            held_out_score=self.looks.scores[-1] if self.looks is not None and self.looks.scores else np.nan,
            n_bytes=n_bytes + self.bytes_before,
        )
        logger.debug(
            "iteration %(iteration)d: objective %(value).8g, gap %(gap).2e, estimated gap %(estimated_gap).2e, "
            "%(n_nonzero)d non-zeros, %(passes).1f passes, %(seconds).2f s",
            vars(progress),
        )
        return progress

    def _reason_to_stop(self, state: State, progress: Progress, asked_to_stop: bool) -> Status | None:
        # At the end of all steps the penalty's strength is the measure: a run may have started at its optimum.
        scale = max(self.scale, self.penalty.min_threshold) if state.is_final else self.scale
        if self.gap <= self.tol:
            return Status.CONVERGED if self.best.excess is None else Status.WITHIN_BOUND
        is_proved = np.isfinite(self.proofs.dual_value)
        if not is_proved and self.distance.may_end and self.likely_gap <= self.tol:
            return Status.ESTIMATED
        if state.is_screening and not is_proved and state.violation <= self.tol * scale:
            if state.violation == 0.0 and self.is_convex:
                return Status.CONVERGED
            has_penalty = max(self.penalty.min_threshold, self.penalty.l2) > 0
            if state.is_final or not (self.distance.may_end and self.is_convex and has_penalty):
                return Status.STATIONARY
        if self.distance.is_near:
            if not self.is_convex:
                return Status.STATIONARY
            if self.is_confirmed:
                return Status.ESTIMATED
            self.distance.is_doubted = True
        if asked_to_stop:
            return Status.CALLBACK
        if state.meets_rule:
            return Status.RULE_MET if state.n_wrong is None else Status.LEARNED
        if state.is_final:
            return Status.LINE_SEARCH_FAILED if state.has_failed else Status.STALLED
        return self._limit(progress)

    def _limit(self, progress: Progress) -> Status | None:
        if self.looks is not None and self.looks.is_over:
            return Status.HELD_OUT
        if progress.iteration >= self.max_iter:
            return Status.MAX_ITER
        if self.max_seconds is not None and progress.seconds >= self.max_seconds:
            return Status.MAX_SECONDS
        return None

    @property
    def is_confirmed(self) -> bool:
        """Whether more has been won from zero than the certificate leaves open. If not, the steps may have gone
        nowhere, from zero or from a start that is as far from the optimum; without a bound nothing tells. Where the
        bound is assumed, or the penalty has kinks that no Newton check sees past, the bound has to be
        within `GROSS` tolerances."""
        value, gap = self.best.value, self.likely_gap
        left = gap * abs(value)
        if np.isnan(left):
            return False
        if self.penalty.has_hidden_kinks or not np.isfinite(self.proofs.dual_value):
            return bool(gap <= GROSS * self.tol)
        if left == 0 or (self.is_cold and left <= self.trace.rows[0].value - value):
            return True
        return left <= self._without_weights() - value  # samples may have won most of it

    def _without_weights(self) -> float:
        """Return the objective without weights: a pass over the data, once."""
        if np.isnan(self.value_of_zero):
            self.value_of_zero = self.objective.at(*NO_WEIGHTS).value
        return self.value_of_zero

    def finish(self, status: Status) -> Status:
        """Go on by Newton's method on the support, if the problem is small; returns why the run ended. A run that has
        not moved is left alone: who starts at an optimum gets it back."""
        if self.n_iter == 0 or not self.is_convex:
            return status
        seen = newton_on_support(
            self.objective,
            self.penalty,
            self.objective.at(self.best.weights.coords, self.best.weights.weights),
        )
        if seen is None:
            return status
        # Rounding may have added to the value: no reason to go back.
        self.best.value = self.proofs.solves_below = np.inf
        verdict = self.record(seen.state())
        return verdict if verdict in (Status.CONVERGED, Status.ESTIMATED) else status

    def with_best_score(self, status: Status) -> Status:
        """Take the weights with the best score of the held-out items; returns why the run ended. The proofs and
        estimates of a run that has reached its own end belong to its last weights."""
        looks, best = self.looks, self.best
        if looks is None:
            return status
        if not looks.is_over and status is not Status.INTERRUPTED:
            try:
                looks.look(best.weights, self.n_iter, best.value, self.violation, is_last=True)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if looks.best is None or (looks.best is best.weights and not looks.is_over):
            return status
        best.weights, best.value, self.violation = looks.best, looks.value, looks.violation
        self.distance.value = np.nan
        if np.isnan(best.value):
            best.value = value_at(self.objective.at(best.weights.coords, best.weights.weights), self.penalty)
        return Status.HELD_OUT if status in ENDS or status.is_regular or looks.is_over else status

    def result(self, status: Status) -> Result:
        """Return the best weights and the record; the objective is nan where it was not known and takes long."""
        if not self.trace.rows:  # stopped before the first step on all items
            self.best.value, self.best.weights = np.nan, self.newest
            with suppress(TimeIsUp), TimeLimit(0.0):  # a pass, for which there may be no time
                point = self.objective.at(self.newest.coords, self.newest.weights)
                self.best.value = value_at(point, self.penalty)
            unseen: Any = None
            state = State(unseen, self.best.value, np.nan, self.newest.coords.size)
            self.trace.rows.append(self._progress(state, np.nan, self.newest))
        last, best, gap = self.trace.rows[-1], self.best, self.gap
        is_claimed = (
            status.is_success and status is not Status.AT_FLOOR
        )  # a floor says nothing of the distance
        estimate = self.distance.value if is_claimed or self.is_confirmed else np.nan
        bounds = [each for each in (estimate, self.likely_gap) if np.isfinite(each)]
        return Result(
            coords=best.weights.coords,
            weights=best.weights.weights,
            value=best.value,
            gap=gap,
            estimated_gap=min(bounds, default=np.nan),
            excess=best.excess,
            violation=self.violation,
            status=status,
            passes=last.passes,
            n_iter=last.iteration,
            seconds=last.seconds,
            trace=self.trace,
            tol=self.tol,
            is_doubtful=self.distance.is_doubted and not status.is_success,
            held_out=None if self.looks is None or self.looks.best is None else self.looks.result(),
        )

    def with_proved_zeros(self, result: Result, point: Point | None) -> Result:
        """Return the result with the number of zeros that are proved, and a bound found on the way; point : that of its
        weights, if known."""
        try:
            if point is None:
                point = self.objective.at(result.coords, result.weights)
            n_proved = self.proofs.at_the_end(point, self.best, result.gap, result.passes)
        except (KeyboardInterrupt, TimeIsUp):
            return result
        gap = self.gap
        return replace(
            result,
            gap=gap,
            estimated_gap=min(result.estimated_gap, gap),
            status=Status.CONVERGED if gap <= self.tol else result.status,
            n_proved_zeros=n_proved,
        )
