"""Record of one run: the best weights and bounds so far, the trace, the log, and the verdict on each state.

The log is the standard library's, logger `crfqn.training`. INFO: a line at the beginning and one at the end of each
run; DEBUG: a line an iteration. `verbose=1` of the estimators is another thing, a display for people.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from crfqn.arrays import NO_WEIGHTS
from crfqn.result import OPTIMAL, HeldOutScores, Progress, Result, Status, Trace
from crfqn.solvers.certificate import PRICE, BoundSchedule, best_dual_value, count_proved_zeros
from crfqn.solvers.newton_on_support import is_small, newton_on_support, second_look, steps_worth_taking
from crfqn.solvers.protocols import Objective, Penalty, Point, SparseWeights, State
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.stopping import DistanceEstimate, Estimated, as_tolerance, promise_of_zeros, relative_gap
from crfqn.solvers.unpenalised import solve_unpenalised
from crfqn.solvers.validation import ValidationMonitor, ValidationSet

logger = logging.getLogger("crfqn.training")
Callback = Callable[[Progress], object]
# Of these a run has converged after all where nothing is left of its objective.
CUT_OFF = (Status.STALLED, Status.LINE_SEARCH_FAILED, Status.STATIONARY, Status.MAX_ITER, Status.MAX_SECONDS)
# Others are asked to stop at once.
ENDS = (Status.CONVERGED, Status.ESTIMATED, Status.STALLED, Status.LINE_SEARCH_FAILED, Status.STATIONARY)
# Of the violation at the last bound with unpenalised coordinates: when to prove another.
SOONEST, LATEST = 0.25, 0.9
NOTHING_LEFT = 1e-5  # of the objective without weights, to OPTIMAL and looser tolerances
# Times the tolerance may an estimate be contradicted, where kinks or rounding hide what else a look would find.
GROSS = 10.0
RARELY = 2.0  # times as many steps until the next attempt to solve a small problem that only a proof may end
MOST_SHARE = 10.0  # times its price must a run have cost that ends with a bound by items


# What a run remembers as it is, and of a `ValidationMonitor`.
REMEMBERED = (
    "best", "latest", "value", "excess", "dual_value", "violation", "estimate", "is_near", "is_discredited",
    "is_doubted", "may_estimate", "solves_below", "n_iter", "is_cold", "scale", "passes_before", "value_of_zero",
)  # fmt: skip
WATCHED = ("best", "value", "violation", "best_look", "_due")
COLUMNS = [column.name for column in fields(Progress) if column.name != "n_wrong"]


class RunRecord:
    """The record of one run: the best weights so far, the best dual value, the trace."""

    def __init__(
        self,
        objective: Objective,
        penalty: Penalty,
        start: SparseWeights,
        tol: float | Estimated,
        max_iter: int,
        max_seconds: float | None,
        callback: Callback | None,
        to_rounding: bool = False,
    ) -> None:
        held_out: ValidationSet | None = getattr(callback, "held_out", None)
        self.watch = None if held_out is None else ValidationMonitor(held_out)
        self.objective, self.penalty = objective, penalty
        self.tol, may_estimate = as_tolerance(tol)
        self.is_convex = getattr(objective, "is_convex", True)
        self.may_estimate = may_estimate
        self.max_iter, self.max_seconds, self.to_rounding = max_iter, max_seconds, to_rounding
        self.distance = DistanceEstimate(objective, penalty, self.tol)
        self.estimate, self.is_near = np.nan, False  # is_near: all coordinates have been looked at
        self.is_discredited = False  # the estimate, grossly: then only a proof ends the run
        self.is_doubted = False  # the estimate, once it would have ended the run
        self.callback = callback
        self.trace = Trace()
        self.value, self.best, self.latest = np.inf, start, start
        self.excess: float | None = None  # of the loss above its bound, where it has one
        self.dual_value = -np.inf
        self.violation = np.nan
        self.item_bounds = BoundSchedule()
        self.solves_below = np.inf  # the violation from which the unpenalised coordinates are worth solving
        self.solves_unpenalised = penalty.unpenalised.size > 0 and objective.has_curvature
        self.n_iter = 0
        self.is_cold = start.coords.size == 0
        self.value_of_zero = np.nan  # the objective without weights, once it is known
        self.has_floor = may_estimate and getattr(objective, "is_nonnegative", False)
        self.scale = (
            np.nan if self.is_cold or penalty.dual_radius == 0 else penalty.dual_radius
        )  # nan: not known yet
        self.passes_before, self.bytes_before = objective.n_passes, objective.n_bytes
        self.started = time.perf_counter()

    @property
    def gap(self) -> float:
        """The certified relative gap of the best value; nan while nothing is proved, or the loss exceeds its bound."""
        return relative_gap(self.value, self.dual_value) if self.is_feasible else np.nan

    @property
    def is_feasible(self) -> bool:
        """Whether the best weights keep the loss within its bound, but for the tolerance."""
        return self.excess is None or self.excess <= self.tol

    def is_better(self, state: State) -> bool:
        """Whether a state's value is the best so far; where the loss has a bound, it has to be kept first."""
        if state.excess is None:
            return state.value <= self.value
        excess = np.inf if self.excess is None else self.excess
        return (max(state.excess, self.tol), state.value) <= (max(excess, self.tol), self.value)

    def _keep_if_better(self, state: State) -> None:
        if self.is_better(state):
            self.value, self.best, self.excess = state.value, state.point.sparse_weights, state.excess

    def preview(self, state: State) -> Status | None:
        """Show a step on a sample, or an epoch without a value: it may be stopped, but proves and traces nothing."""
        if state.is_evaluated:
            self.latest = state.point.sparse_weights
        if state.sample_fraction == 1.0:
            self.dual_value = max(self.dual_value, state.dual_value)
        self.n_iter += state.n_wrong is not None or not state.is_evaluated
        if state.n_wrong is not None:
            self._look(state)
        progress = self._progress(state, np.nan)
        asked_to_stop = self.callback is not None and bool(self.callback(progress))
        return Status.CALLBACK if asked_to_stop else self._limit(progress)

    def last(self, state: State, status: Status) -> Status:
        """Record the state, evaluated at last, at which the run has been stopped; returns why it ended."""
        verdict = self.record(state)
        return verdict if verdict in (Status.CONVERGED, Status.WITHIN_BOUND, Status.DIVERGED) else status

    def record(self, state: State) -> Status | None:
        """Add a state to the trace; returns why to stop, or None to go on."""
        if not np.isfinite(state.value):
            return Status.DIVERGED
        self._keep_if_better(state)
        if np.isnan(self.value_of_zero) and state.point.sparse_weights.n_nonzero == 0:
            self.value_of_zero = state.value
        is_step = state.is_step or not state.is_screening
        if is_step:
            state = self._estimated(state)
            self._keep_if_better(state)
        self.dual_value = max(self.dual_value, state.dual_value)
        if state.is_screening and self.solves_unpenalised and not self.gap <= self.tol:
            state = self._with_unpenalised_solved(state)
        if state.is_screening and not self.may_estimate and self.is_convex:
            self._bound_by_items(state)
        if state.is_screening:
            self.violation = state.violation
            if np.isnan(self.scale):
                self.scale = (
                    state.violation
                    if self.penalty.dual_radius == 0
                    else min(self.penalty.dual_radius, state.violation)
                )
        self.n_iter += is_step
        if is_step:
            self._look(state)
        progress = self._progress(state, self.gap)
        self.trace.rows.append(progress)
        asked_to_stop = self.callback is not None and bool(self.callback(progress))
        return self._verdict(state, progress, asked_to_stop)

    def _look(self, state: State) -> None:
        """Score the held-out items, if there are any and a look is due."""
        if self.watch is not None:
            passes = self.objective.n_passes - self.passes_before
            violation = state.violation if state.is_screening else np.nan
            self.watch.after_step(state.point.sparse_weights, self.n_iter, passes, state.value, violation)

    def with_best_score(self, status: Status) -> Status:
        """Take the weights with the best score of the held-out items; returns why the run ended. The proofs and
        estimates of a run that has reached its own end belong to its last weights."""
        watch = self.watch
        if watch is None:
            return status
        if not watch.is_over and status is not Status.INTERRUPTED:
            try:
                watch.after_run(self.best, self.n_iter, self.value, self.violation)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if watch.best is None or (watch.best is self.best and not watch.is_over):
            return status
        self.best, self.value, self.violation = watch.best, watch.value, watch.violation
        self.estimate = np.nan
        if np.isnan(self.value):
            point = self.objective.at(self.best.coords, self.best.weights)
            self.value = point.value + self.penalty.value(point.coords, point.weights)
        return Status.HELD_OUT if status in ENDS or status.is_regular or watch.is_over else status

    def _estimated(self, state: State) -> State:
        """Estimate the distance to the optimum; returns the state of a look at all coordinates, where it takes one.

        What a solver has left out of its working set shows in no value, nor what its steps cannot win: before the
        estimate ends a run, what the violating zeros promise is added, and a second look must not find the objective
        lower; where the last steps have won nothing at all, or Newton's method has come to its end, the certificate,
        which is tight at an optimum, must not say otherwise either. Small problems are solved from there, whatever may
        end the run.
        """
        estimate = self.distance.after_step(self.value)
        self.is_near, solves = False, self.to_rounding and self.is_convex
        says_nothing = self.distance.gains.are_rounding() and self.gap > GROSS * self.tol
        self.estimate = np.nan if self.is_discredited or not self.is_convex or says_nothing else estimate
        asks = self.excess is None and (self.may_estimate or solves)
        if not (asks and self.distance.wants_look(estimate)):
            return state
        point = state.point if state.value == self.value else self._best_point()
        solved = newton_on_support(self.objective, self.penalty, point) if solves else None
        is_solved = solves and is_small(self.objective, self.penalty, point)
        seen = solved or screen_point(self.penalty, point)
        if not self.may_estimate:
            self.distance.put_off(RARELY)
            return state if solved is None else seen.state(is_final=state.is_final)
        passes = self.objective.n_passes - self.passes_before
        seen, found = second_look(
            seen, self.tol, steps_worth_taking(passes, self.objective.operations.of_pass)
        )
        further = promise_of_zeros(seen) / abs(self.value) + found
        self.estimate += further
        gap = relative_gap(seen.value, max(self.dual_value, seen.dual_value))
        is_contradicted = (is_solved or self.distance.gains.are_rounding()) and gap > GROSS * self.tol
        self.is_near = estimate + further <= self.tol and not is_contradicted
        self.is_doubted |= is_contradicted or found > GROSS * self.tol
        self.distance.put_off()
        if found > GROSS * self.tol and self.penalty.dual_radius > 0:
            self.is_discredited, self.may_estimate, self.estimate = True, False, np.nan
        return seen.state(is_final=state.is_final, has_failed=state.has_failed, meets_rule=state.meets_rule)

    def _best_point(self) -> Point:
        return self.objective.at(self.best.coords, self.best.weights)

    def _with_unpenalised_solved(self, state: State) -> State:
        """Bound the optimum from the point with its unpenalised coordinates solved, once the violation has fallen.

        The solver's own weights stay the run's unless the solved ones are within the tolerance and they are not. A gap
        falls as the violation does, or as its square: the next bound is due when it could be small enough.
        """
        is_far = state.violation > self.solves_below or state.least_gap > self.tol * abs(state.value)
        if is_far and not state.is_final:
            return state
        point = solve_unpenalised(state.point, self.penalty.unpenalised)
        value = point.value + self.penalty.value(point.coords, point.weights)
        dual_value = best_dual_value(point, self.penalty, self.penalty.screen(point))
        self.dual_value = max(self.dual_value, dual_value)
        gap = relative_gap(value, self.dual_value)
        share = np.sqrt(self.tol / gap) if gap > 0 else 1.0
        self.solves_below = state.violation * min(max(share, SOONEST), LATEST)
        if not gap <= self.tol < self.gap:
            return state
        self.value, self.best = value, point.sparse_weights
        return replace(state, point=point, value=value)

    def _bound_by_items(self, state: State) -> None:
        """Look for a tighter bound when the run may be near its end."""
        n_passes = self.objective.n_passes - self.passes_before
        if self.gap <= self.tol or not self.item_bounds.is_due(n_passes, self.value, self.tol):
            return
        bound = state.point.item_bound(self.penalty)
        if bound is not None:
            self.dual_value = max(self.dual_value, bound.dual_value)
            self.item_bounds.looked(n_passes)

    def with_proved_zeros(self, result: Result, point: Point | None) -> Result:
        """Return the result with the number of zeros that are proved, counted at the point of its weights, if known."""
        try:
            if point is None:
                point = self.objective.at(result.coords, result.weights)
            if self.penalty.unpenalised.size and self.objective.proves_zeros:
                point = solve_unpenalised(point, self.penalty.unpenalised)
            is_worth_it = result.gap > 0 and result.passes >= MOST_SHARE * PRICE
            bound = point.item_bound(self.penalty) if is_worth_it else None
            if bound is not None:
                result = self.tightened(result, bound.dual_value)
            n_proved = count_proved_zeros(self.objective, self.penalty, point, result.value, bound)
            return replace(result, n_proved_zeros=n_proved)
        except KeyboardInterrupt:
            return result

    def tightened(self, result: Result, dual_value: float) -> Result:
        """Return the result with a bound found after its end."""
        self.dual_value = max(self.dual_value, dual_value)
        is_proved = self.gap <= self.tol and result.status in ENDS
        return replace(
            result,
            gap=self.gap,
            estimated_gap=min(result.estimated_gap, self.gap),
            status=Status.CONVERGED if is_proved else result.status,
        )

    def finish(self, status: Status) -> Status:
        """Go on by Newton's method on the support, if the problem is small; returns why the run ended. A run that has
        not moved is left alone: who starts at an optimum gets it back."""
        if self.n_iter == 0 or not self.is_convex:
            return status
        seen = newton_on_support(self.objective, self.penalty, self._best_point())
        if seen is None:
            return status
        self.value, self.solves_below = (
            np.inf,
            np.inf,
        )  # rounding may have added to the value: no reason to go back
        verdict = self.record(seen.state())
        return Status.CONVERGED if verdict is Status.CONVERGED else status

    def _progress(self, state: State, gap: float) -> Progress:
        n_bytes, self.bytes_before = -self.bytes_before, self.objective.n_bytes
        progress = Progress(
            iteration=self.n_iter,
            value=state.value,
            gap=gap,
            violation=state.violation,
            n_active=state.n_active,
            n_nonzero=(state.point.sparse_weights if state.is_evaluated else self.best).n_nonzero,
            passes=self.objective.n_passes - self.passes_before,
            seconds=time.perf_counter() - self.started,
            is_screening=state.is_screening,
            sample_fraction=state.sample_fraction,
            n_wrong=state.n_wrong,
            estimated_gap=self.estimate,
            held_out_score=np.nan if self.watch is None else self.watch.latest,
            n_bytes=n_bytes + self.bytes_before,
        )
        log_progress(progress)
        return progress

    def _verdict(self, state: State, progress: Progress, asked_to_stop: bool) -> Status | None:
        status = self._reason_to_stop(state, progress, asked_to_stop)
        is_end = status in CUT_OFF or (status is None and self.is_doubted)
        return Status.CONVERGED if is_end and self._is_nothing_left() else status

    def _reason_to_stop(self, state: State, progress: Progress, asked_to_stop: bool) -> Status | None:
        # At the end of all steps the penalty's strength is the measure: a run may have started at its optimum.
        scale = max(self.scale, self.penalty.dual_radius) if state.is_final else self.scale
        if self.gap <= self.tol:
            return Status.CONVERGED if self.excess is None else Status.WITHIN_BOUND
        if state.is_screening and not np.isfinite(self.dual_value) and state.violation <= self.tol * scale:
            if state.violation == 0.0 and self.is_convex:
                return Status.CONVERGED
            can_tell = (
                self.may_estimate and self.is_convex and max(self.penalty.dual_radius, self.penalty.l2) > 0
            )
            if state.is_final or not can_tell:
                return Status.STATIONARY
        if self.is_near:
            if not self._is_contradicted:
                return Status.ESTIMATED if self.is_convex else Status.STATIONARY
            self.is_doubted = True
        if asked_to_stop:
            return Status.CALLBACK
        if state.meets_rule:
            return Status.RULE_MET if state.n_wrong is None else Status.LEARNED
        if state.is_final:
            return Status.LINE_SEARCH_FAILED if state.has_failed else Status.STALLED
        return self._limit(progress)

    @property
    def _is_contradicted(self) -> bool:
        """Whether all that has been won from zero is less than the certificate leaves open: the steps may have gone
        nowhere, from zero or from a start that is as far from the optimum."""
        left = self.gap * abs(self.value)
        if not left > 0 or (self.is_cold and left <= self.trace.rows[0].value - self.value):
            return False
        return left > self._without_weights() - self.value  # samples may have won most of it

    def _without_weights(self) -> float:
        """Return the objective without weights: a pass over the data, once."""
        if np.isnan(self.value_of_zero):
            self.value_of_zero = self.objective.at(*NO_WEIGHTS).value
        return self.value_of_zero

    def _is_nothing_left(self) -> bool:
        """Whether the objective is next to nothing beside that without weights, and nothing can be below 0. The hinge's
        is the penalty alone where data can be separated, and its direction is all that matters."""
        is_bounded = self.has_floor and self.distance.can_tell and self.excess is None
        return (
            is_bounded and self.value <= NOTHING_LEFT * min(self.tol / OPTIMAL, 1.0) * self._without_weights()
        )

    def _limit(self, progress: Progress) -> Status | None:
        if self.watch is not None and self.watch.is_over:
            return Status.HELD_OUT
        if progress.iteration >= self.max_iter:
            return Status.MAX_ITER
        if self.max_seconds is not None and progress.seconds >= self.max_seconds:
            return Status.MAX_SECONDS
        return None

    def memory(self) -> Callable[[], dict[str, Any]]:
        """Return what makes the memory of this moment, also while the next state is recorded: lists only grow."""
        watch, gains, rows = self.watch, self.distance.gains.values, self.trace.rows
        n_rows, n_gains, n_looks = len(rows), len(gains), 0 if watch is None else len(watch.scores)
        kept = {name: getattr(self, name) for name in REMEMBERED}
        kept |= {"next_look": self.distance.next_look, "item_bounds": {**vars(self.item_bounds)}}
        kept |= {"seconds": time.perf_counter() - self.started}
        looks = {} if watch is None else {name: getattr(watch, name) for name in WATCHED}
        is_best = watch is not None and watch.best is self.best
        return lambda: kept | {
            "trace": columns_of(rows[:n_rows]),
            "gains": gains[:n_gains],
            "looks": None if watch is None else looks
            | {"iterations": watch.iterations[:n_looks], "scores": watch.scores[:n_looks], "is_best": is_best},
        }  # fmt: skip

    def resume(self, memory: dict[str, Any]) -> None:
        """Go on from a memory."""
        for name in REMEMBERED:
            setattr(self, name, memory[name])
        self.best, self.latest = SparseWeights(*self.best), SparseWeights(*self.latest)
        self.trace.rows[:] = rows_of(memory["trace"])
        self.distance.gains.values[:], self.distance.next_look = memory["gains"], memory["next_look"]
        vars(self.item_bounds).update(memory["item_bounds"])
        self.started = time.perf_counter() - memory["seconds"]
        if self.watch is not None:
            looks = memory["looks"]
            is_best, best = looks.pop("is_best"), looks["best"]
            vars(self.watch).update(looks)
            self.watch.best = self.best if is_best else best and SparseWeights(*best)

    def result(self, status: Status) -> Result:
        """Return the best weights and the record."""
        if not self.trace.rows:
            self._adopt_latest()
        last = self.trace.rows[-1]
        estimate = np.nan if not status.is_success and self._is_contradicted else self.estimate
        return Result(
            coords=self.best.coords,
            weights=self.best.weights,
            value=self.value,
            gap=self.gap,
            estimated_gap=min(estimate, self.gap) if np.isfinite(self.gap) else estimate,
            excess=self.excess,
            violation=self.violation,
            status=status,
            passes=last.passes,
            n_iter=last.iteration,
            seconds=last.seconds,
            trace=self.trace,
            tol=self.tol,
            is_doubtful=self.is_doubted and not status.is_success,
            held_out=None if self.watch is None or self.watch.best is None else self.watch.record(),
        )

    def _adopt_latest(self) -> None:
        """Evaluate where the run stood when it was stopped before its first step on all items."""
        point = self.objective.at(self.latest.coords, self.latest.weights)
        self.value = point.value + self.penalty.value(point.coords, point.weights)
        self.best = self.latest
        state = State(point, self.value, np.nan, point.coords.size)
        self.trace.rows.append(self._progress(state, np.nan))


def columns_of(rows: list[Progress]) -> dict[str, Any]:
    """Return the rows of a trace as arrays."""
    return {name: np.array([getattr(row, name) for row in rows]) for name in COLUMNS}


def rows_of(columns: dict[str, Any]) -> list[Progress]:
    """Return the rows that `columns_of` has made columns of."""
    numbers = zip(*(columns[name].tolist() for name in COLUMNS), strict=True)
    return [Progress(**dict(zip(COLUMNS, row, strict=True))) for row in numbers]


def result_memory(result: Result) -> dict[str, Any]:
    """Return a result as a memory."""
    held_out = result.held_out and vars(result.held_out)
    known = {"status": result.status.name, "trace": columns_of(result.trace.rows), "held_out": held_out}
    return vars(result) | known


def result_from(memory: dict[str, Any]) -> Result:
    """Return the result that `result_memory` has made a memory of."""
    held_out = memory["held_out"] and HeldOutScores(**memory["held_out"])
    known = {
        "status": Status[memory["status"]],
        "trace": Trace(rows_of(memory["trace"])),
        "held_out": held_out,
    }
    return Result(**(memory | known))


def log_start(solver: Any, tol: Any, max_iter: int) -> None:
    """Log at INFO what is going to be run."""
    logger.info("training by %s, tol %s, at most %d iterations", type(solver).__name__, tol, max_iter)


def log_progress(progress: Progress) -> None:
    """Log a record of progress at DEBUG."""
    logger.debug(
        "iteration %(iteration)d: objective %(value).8g, gap %(gap).2e, estimated gap %(estimated_gap).2e, "
        "%(n_nonzero)d non-zeros, %(passes).1f passes, %(seconds).2f s",
        vars(progress),
    )


def log_result(result: Result) -> None:
    """Log at INFO how a run ended; at WARNING where it did not end as its method is meant to."""
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
