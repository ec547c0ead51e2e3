"""The training loop: it records the states of a solver until a stopping rule ends the run.

A `RunRecord` has the trace, the best weights and the stopping rules (`stopping.StoppingRule`).

Messages go to the logger `crfqn.training` of the standard library: at INFO a line at the beginning and at the end of a
run, at DEBUG a line for each iteration. `verbose=1` of the estimators is a progress display instead.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from crfqn.result import Progress, Result, Status, Trace
from crfqn.solvers.certificate import Best, Proof, value_at
from crfqn.solvers.newton_on_support import newton_on_support
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Solver,
    SparseWeights,
    State,
    check_requirements,
)
from crfqn.solvers.stopping import Estimate, Limits, Run, StoppingRule, ValidationHistory
from crfqn.time_limit import TimeIsUp, TimeLimit

logger = logging.getLogger("crfqn.training")
logging.getLogger("crfqn").addHandler(logging.NullHandler())  # silent unless the program configures logging
DEFAULT_RUN = Run()
LOGGED_ATTRIBUTES = attrgetter(
    "message", "value", "gap", "estimated_gap", "n_nonzero", "n_iter", "passes", "seconds"
)


def minimize(objective: Objective, penalty: Penalty, solver: Solver, run: Run = DEFAULT_RUN) -> Result:
    """Minimise objective + penalty with a solver, from the start of a run and under its settings.

    The run ends as `Status.CONVERGED` if the duality gap is small, value - dual_value <= tol * value, or if no
    coordinate violates its KKT condition. The gap needs a gradient of 0 at unpenalised coordinates: as the violation
    decreases, they are solved with the others fixed, and these weights are the result if only they are within the
    tolerance.

    If there is no gap (no penalty, or a loss that is not convex), the run ends as `Status.STATIONARY` if the largest
    KKT violation is below tol * l1, and below tol * its first value if the run starts from zero or l1 = 0.

    With `stop="estimate"` the run also ends as `Status.ESTIMATED` if the estimated gap is within the tolerance
    (`stopping.Estimate`). If the loss is not convex, the estimate is the expected decrease of further steps, and the
    run ends as `Status.STATIONARY`.

    Raises
    ------
    InputError
        If the solver does not support the problem, or the checkpoint is damaged or belongs to another run.
    """
    check_requirements(solver, objective, penalty)
    name = type(solver).__name__
    logger.info("training by %s, tol %s by %s, at most %d iterations", name, run.tol, run.stop, run.max_iter)
    start, checkpoint = run.start, run.checkpoint
    weights = SparseWeights.without_zeros(*(start if isinstance(start, tuple) else start.sparse_weights))
    record = RunRecord(objective, penalty, run, weights)
    if checkpoint is not None:
        result = checkpoint.open(solver, record, weights)
        if result is not None:
            return result
        if record.newest is not weights:  # the run continues from a checkpoint
            start, solver = record.newest, checkpoint.remaining(solver, record)
    first = objective.at(*start) if isinstance(start, tuple) else start
    status: Status | None = None
    limit = TimeLimit(None if run.max_seconds is None else run.max_seconds - record.seconds)
    try:
        with limit:
            states = solver.steps(objective, penalty, first)
            del first, start  # so that the solver can free the point, which is as large as the data
            for state in states:
                status = record.add(state) if state.has_value else record.preview(state)
                if status is not None:
                    break
                if checkpoint is not None and state.sample_fraction == 1.0:
                    checkpoint.after_step(record, state.point)
            if status is not None and state.certify is not None:
                state = state.certify()
                verdict = record.add(state)
                if verdict in (Status.CONVERGED, Status.WITHIN_BOUND, Status.DIVERGED):
                    status = verdict
            status = status or Status.STALLED
            del states  # and the arrays of the solver
            if run.to_rounding and status.is_end:
                status = record.finish(status)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except TimeIsUp:  # within a step, which is lost; the limit may be that of a caller
        is_own = run.max_seconds is not None and record.seconds >= run.max_seconds
        status = status or (Status.MAX_SECONDS if is_own else Status.CALLBACK)
    if checkpoint is not None:
        checkpoint.after_run(record, status)
    status = record.with_best_score(status)
    result = record.result(status)
    if run.counts_proved_zeros and status.is_end and not limit.was_met and not np.isnan(result.gap):
        is_best = state.is_screening and state.value == result.value
        with limit, suppress(KeyboardInterrupt, TimeIsUp):
            result = record.with_proved_zeros(result, state.point if is_best else None)
    if checkpoint is not None:
        checkpoint.close(result)
    logger.log(
        logging.INFO if result.status.is_regular else logging.WARNING,
        "%s (objective %.8g, gap %.2e, estimated gap %.2e, %d non-zeros, %d iterations, %.1f passes, %.2f s)",
        *LOGGED_ATTRIBUTES(result),
    )
    return result


class RunRecord:
    """The record of a run, and its stopping rules.

    best, newest : the best weights so far with their objective; the weights after the last step
    violation : the largest KKT violation at the last scan of all coordinates
    proof, estimate, history, limits : the stopping rules
    """

    def __init__(self, objective: Objective, penalty: Penalty, run: Run, start: SparseWeights) -> None:
        self.objective, self.penalty, self.run = objective, penalty, run
        self.trace, self.n_iter = Trace(), 0
        self.best, self.newest, self.violation = Best(start, run.tol), start, np.nan
        self.proof = Proof(objective, penalty, self.best)
        self.estimate = Estimate(run, self.proof, self.trace)
        self.history, self.limits = ValidationHistory(run.held_out), Limits(run)
        self.passes_before, self.bytes_before = objective.n_passes, objective.n_bytes
        self.started = time.perf_counter()

    @property
    def passes(self) -> float:
        """The passes over the data of this run."""
        return self.objective.n_passes - self.passes_before

    @property
    def seconds(self) -> float:
        """The time since the run began, in seconds, including that before a checkpoint."""
        return time.perf_counter() - self.started

    def preview(self, state: State) -> Status | None:
        """Report a state of a sample, or one without a value, which is not part of the trace; return the reason to
        stop, or None."""
        if state.certify is None:
            self.newest = state.point.sparse_weights
        if state.sample_fraction == 1.0:
            self.proof.add(state.dual_value)
        self.n_iter += state.n_wrong is not None or state.certify is not None
        if state.n_wrong is not None:
            self.history.after_step(state, self.n_iter, self.passes)
        weights = state.point.sparse_weights if state.certify is None else self.best.weights
        return self._ask(state, self._progress(state, np.nan, weights))

    def add(self, state: State) -> Status | None:
        """Add a state to the trace; return the reason to stop, or None."""
        if not np.isfinite(state.value):
            return Status.DIVERGED
        best, proof, estimate = self.best, self.proof, self.estimate
        self.newest = state.point.sparse_weights
        best.update(state)
        if np.isnan(estimate.value_of_zero) and self.newest.n_nonzero == 0:
            estimate.value_of_zero = state.value
        is_step = state.is_step or not state.is_screening
        if is_step:
            state = estimate.after_step(state, self.passes)
            best.update(state)
        state = proof.after_state(state, self.passes, is_needed=not estimate.may_end)
        if state.is_screening:
            self.violation = state.violation
            if np.isnan(estimate.scale):
                estimate.scale = min(self.penalty.min_threshold or np.inf, state.violation)
        self.n_iter += is_step
        if is_step:
            self.history.after_step(state, self.n_iter, self.passes)
        progress = self._progress(state, proof.gap, state.point.sparse_weights)
        self.trace.rows.append(progress)
        status = self._ask(state, progress, proof, estimate)
        return Status.AT_FLOOR if estimate.is_at_floor(status) else status

    def _ask(self, state: State, progress: Progress, *first: StoppingRule) -> Status | None:
        """Call the callback, then the rules `first`, `history` and `limits`; return the first reason to stop, or
        None."""
        callback = self.run.callback
        self.limits.is_called_off = callback is not None and bool(callback(progress))
        rules = *first, self.history, self.limits
        return next(filter(None, (rule.reason_to_stop(state, progress) for rule in rules)), None)

    def _progress(self, state: State, gap: float, weights: SparseWeights) -> Progress:
        """Return the row of the trace for a state with these weights, and log it at DEBUG."""
        n_bytes, self.bytes_before = -self.bytes_before, self.objective.n_bytes
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
            estimated_gap=self.estimate.value,
            held_out_score=self.history.scores[-1] if self.history.scores else np.nan,
            n_bytes=n_bytes + self.bytes_before,
        )
        logger.debug(
            "iteration %(iteration)d: objective %(value).8g, gap %(gap).2e, estimated gap %(estimated_gap).2e, "
            "%(n_nonzero)d non-zeros, %(passes).1f passes, %(seconds).2f s",
            vars(progress),
        )
        return progress

    def finish(self, status: Status) -> Status:
        """Take Newton steps on the support if the problem is small; return why the run ended. A run without iterations
        returns its start unchanged."""
        if self.n_iter == 0 or not self.objective.is_convex:
            return status
        solved = newton_on_support(self.objective, self.penalty, self.best.point(self.objective))
        if solved is None:
            return status
        # The value may be larger by rounding; the Newton steps are kept.
        self.best.value = self.proof.solves_below = np.inf
        verdict = self.add(solved.state())
        return verdict if verdict in (Status.CONVERGED, Status.ESTIMATED) else status

    def with_best_score(self, status: Status) -> Status:
        """Take the weights with the best score of the held-out items; return why the run ended. The estimate belongs to
        the last weights, and becomes nan if others are taken."""
        history, best = self.history, self.best
        if history.held_out is None:
            return status
        if not history.is_over and status is not Status.INTERRUPTED:
            try:
                history.evaluate(best.weights, self.n_iter, best.value, self.violation, is_last=True)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if history.best is None or (history.best is best.weights and not history.is_over):
            return status
        best.weights, best.value, self.violation = history.best, history.value, history.violation
        self.estimate.value = np.nan
        if np.isnan(best.value):
            best.value = value_at(best.point(self.objective), self.penalty)
        return Status.HELD_OUT if status.is_end or status.is_regular or history.is_over else status

    def result(self, status: Status) -> Result:
        """Return the best weights and the record; the objective is nan if a run that ended before its first step has no
        time for a pass."""
        best, estimate = self.best, self.estimate
        if not self.trace.rows:  # stopped before the first step on all items
            best.value, best.weights = np.nan, self.newest
            with suppress(TimeIsUp), TimeLimit(0.0):  # a pass, for which there may be no time
                best.value = value_at(best.point(self.objective), self.penalty)
            no_point: Any = None
            state = State(no_point, best.value, np.nan, self.newest.coords.size)
            self.trace.rows.append(self._progress(state, np.nan, self.newest))
        last = self.trace.rows[-1]
        # AT_FLOOR says nothing about the gap.
        is_claimed = status.is_success and status is not Status.AT_FLOOR
        estimated = estimate.value if is_claimed or estimate.is_confirmed else np.nan
        bounds = [each for each in (estimated, self.proof.likely_gap) if np.isfinite(each)]
        return Result(
            coords=best.weights.coords,
            weights=best.weights.weights,
            value=best.value,
            gap=self.proof.gap,
            estimated_gap=min(bounds, default=np.nan),
            excess=best.excess,
            violation=self.violation,
            status=status,
            passes=last.passes,
            n_iter=last.iteration,
            seconds=last.seconds,
            trace=self.trace,
            tol=self.run.tol,
            is_doubtful=estimate.status.is_doubtful and not status.is_success,
            held_out=self.history.result(),
        )

    def with_proved_zeros(self, result: Result, point: Point | None) -> Result:
        """Return the result with the number of proved zeros, and with a tighter bound if one is found; point : that of
        its weights, if known."""
        if point is None:
            point = self.best.point(self.objective)
        n_proved = self.proof.count_zeros(point, result.gap, result.passes)
        gap = self.proof.gap
        return replace(
            result,
            gap=gap,
            estimated_gap=min(result.estimated_gap, gap),
            status=Status.CONVERGED if gap <= self.run.tol else result.status,
            n_proved_zeros=n_proved,
        )
