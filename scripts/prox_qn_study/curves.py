"""The runs of the study's methods, as curves.

A process begins with a short training on a part of the items, so that nothing is compiled on the clock. The weights
that accuracies are computed from are set aside during the run, and looked at afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.alone import say
from benchmarks.items import read_stored
from benchmarks.problem import Problem
from studies.curves import CLOSE, PATIENCE, UNLIMITED, Curve, Limits, why
from studies.recording import Recording

from prox_qn_study.cases import AnyProblem, Case, Model, accuracy, estimator, judged
from prox_qn_study.competitors import COMPETITORS, REFERENCE

WARM_UP, STRONGER, WARM_UP_STEPS = 0.2, 5.0, 10
WARM_UP_SECONDS = 60.0  # compiling must come to its end
CERTIFIED = 1e-5  # gap of the reference; its value is nearer by orders of magnitude
TOUCH_SECONDS = 3.0  # memory that a process has for the first time costs more than a pass over it
WARM: set[tuple[bool, str]] = set()  # the structures and solvers that have been run in this process


def run_case(
    path: str, case: Case, names: Sequence[str], seconds: float, optimum: float | None, n_threads: int | None
) -> tuple[Curve | None, list[Curve]]:
    """Run competitors on a stored problem, one after the other.

    Returns a run far towards the optimum, None where that is known, and the curves; competitors without settings for
    the data are left out. `seconds`: the limit of each run.
    """
    problem, reference = read_stored(path), None
    if optimum is None:
        solver = COMPETITORS[REFERENCE].make(case.data)
        reference = run(
            problem, case.strength, "reference", solver, Limits(PATIENCE * seconds, tol=CERTIFIED), n_threads
        )
        reference = replace(reference, solver=REFERENCE)
        optimum = reference.values.min()
    limits = Limits(seconds, optimum * (1.0 + CLOSE))
    solvers = {name: COMPETITORS[name].make(case.data) for name in names}
    return reference, [
        run(problem, case.strength, name, solver, limits, n_threads)
        for name, solver in solvers.items()
        if solver is not None
    ]


def run(
    problem: AnyProblem, l1: float, name: str, solver: Any, limits: Limits, n_threads: int | None
) -> Curve:
    """Warm up, train on the clock, and judge."""
    warm_up(problem, l1, solver, n_threads)
    recording = Recording(solver)
    model = estimator(
        problem,
        l1=l1,
        tol=limits.tol,
        max_iter=UNLIMITED,
        max_seconds=limits.seconds,
        solver=recording,
        callback=lambda progress: progress.sample_fraction == 1.0 and progress.value <= limits.value,
        n_threads=n_threads,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ConvergenceWarning: that is what the curve is about
        model.fit(problem.X_train, problem.y_train)
    result = model.result_
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    say(f"  {name}: {result.seconds:.1f} s, {result.value:,.3f}, {why(result)}")
    return curve_of(problem, l1, name, model, recording)


def curve_of(problem: AnyProblem, l1: float, name: str, model: Any, recording: Recording) -> Curve:
    """What there is to say about a run, its weights looked at."""
    result = model.result_
    trace, shape = result.trace, model.coef_.shape
    accuracies = np.full(len(trace), np.nan)
    for row, weights in recording.kept.items():
        if row < len(trace):
            accuracies[row] = accuracy(problem, Model.of(*weights, *shape))
    verdict = judged(problem, l1, Model.of(result.coords, result.weights, *shape))
    return Curve(
        solver=name,
        status=why(result),
        iterations=np.array([progress.iteration for progress in trace.rows]),
        seconds=trace.seconds,
        passes=trace.passes,
        values=trace.value,
        gaps=trace.gap,
        n_nonzeros=trace.n_nonzero,
        accuracies=accuracies,
        objective=verdict.objective,
        accuracy=verdict.accuracy,
        n_nonzero=result.n_nonzero,
    )


def warm_up(problem: AnyProblem, l1: float, solver: Any, n_threads: int | None) -> None:
    """Compile: a few steps on a part of the items, with few weights; and two on all, which touch the memory."""
    kind = isinstance(problem, Problem), repr(solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind not in WARM:
            WARM.add(kind)
            part = problem.part(max(20, int(WARM_UP * len(problem.y_train))))
            limits = {"max_iter": WARM_UP_STEPS, "max_seconds": WARM_UP_SECONDS, "tol": 1e-2}
            model = estimator(part, l1=STRONGER * WARM_UP * l1, solver=solver, n_threads=n_threads, **limits)
            model.fit(part.X_train, part.y_train)
        limits = {"max_iter": 2, "max_seconds": TOUCH_SECONDS}
        model = estimator(problem, l1=STRONGER * l1, solver=solver, n_threads=n_threads, **limits)
        model.fit(problem.X_train, problem.y_train)
