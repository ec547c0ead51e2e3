"""The one loop around every solver: its states are recorded until one of them is the last."""

from __future__ import annotations

import numpy as np

from crfqn.arrays import NO_WEIGHTS
from crfqn.errors import InputError
from crfqn.result import Result, Status
from crfqn.solvers.protocols import (
    Coords,
    Objective,
    Penalty,
    Point,
    Solver,
    SparseWeights,
    Vector,
    check_requirements,
)
from crfqn.solvers.run import ENDS, Callback, RunRecord, log_result, log_start
from crfqn.solvers.stopping import Estimated, as_tolerance


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
    callback : called with every `Progress`; a true answer stops the run. One with an attribute `held_out` that is a
        `ValidationSet` has the steps' weights scored on these items: the result has those of the best score. The run
        ends as `Status.HELD_OUT` when no better score comes, or when an earlier score than that of its end is the best.
        One with an attribute `checkpoint` (`estimators/checkpoint.py`) has the run's state kept: from one that is there
        the run goes on, to the same bits as if it had never been stopped, and a result that is there is returned.
    proves_zeros : whether to count the zeros that are proved, in the end: a sweep or two over the gradient.
    to_rounding : whether to go on with Newton steps on the support from where a small problem has been solved, until
        rounding is all that is left: the weights then depend neither on the order of the data nor on the processor.

    Raises
    ------
    InputError
        For a negative tolerance or limits below 1, a solver that cannot go on from a checkpoint, and a checkpoint that
        is damaged or that of another run.
    """
    as_tolerance(tol)  # before a pass over the data
    if max_iter < 1:
        raise InputError(f"max_iter: expected an integer >= 1, got {max_iter!r}")
    check_requirements(solver, objective, penalty)
    log_start(solver, tol, max_iter)
    weights = SparseWeights.without_zeros(*(start if isinstance(start, tuple) else start.sparse_weights))
    run = RunRecord(objective, penalty, weights, tol, max_iter, max_seconds, callback, to_rounding)
    checkpoint = getattr(callback, "checkpoint", None)
    keeper = None if checkpoint is None else checkpoint.open(solver, run, weights)
    if keeper is not None and keeper.result is not None:
        return keeper.result
    first = objective.at(*start) if isinstance(start, tuple) else start
    status: Status | None = None
    try:
        states = solver.steps(objective, penalty, first) if keeper is None else keeper.states(first)
        del first, start  # the solver drops it when it can: a point is as large as the data
        for state in states:
            status = run.record(state) if state.has_value else run.preview(state)
            if status is not None:
                break
        if status is not None and state.certify is not None:
            state = state.certify()
            status = run.last(state, status)
        status = status or Status.STALLED
        if to_rounding and status in ENDS:
            status = run.finish(status)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    result = run.result(run.with_best_score(status))
    if proves_zeros and result.status in ENDS and not np.isnan(result.gap):
        is_best = state.is_screening and state.value == result.value
        result = run.with_proved_zeros(result, state.point if is_best else None)
    if keeper is not None:
        keeper.close(result)
    log_result(result)
    return result
