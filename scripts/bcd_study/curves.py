"""The runs of the study's solvers, as curves; objectives are means over the training items, as in the paper.

A process begins with a short training on a part of the items, so that nothing is compiled on the clock. The clock
stands still while a run's weights are looked at, and while FOBOS compares rates of learning on held-out items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.alone import say
from benchmarks.items import ItemProblem, read_stored
from numpy.typing import NDArray
from studies.curves import CLOSE, PATIENCE, UNLIMITED, Curve, Limits, why
from studies.recording import Recording

from bcd_study.cases import Case
from bcd_study.methods import SOLVERS, STRAIGHT, Task
from crfqn.result import Progress, Result
from crfqn.solvers.minimize import minimize

CERTIFIED = 1e-5  # gap of the reference; its value is nearer by orders of magnitude
WARM_UP_ITEMS, WARM_UP_STEPS, WARM_UP_SECONDS = 300, 12, 60.0  # seconds: compiling must come to its end
WARM_UP_STRENGTH = 3e-3
WARM: set[str] = set()  # what has been run in this process


@dataclass(frozen=True, eq=False)
class RowCurve(Curve):
    """A curve whose non-zeros are rows, known where the weights were looked at; n_features: of how many."""

    n_features: int = 1

    def columns(self, optimum: float) -> dict[str, Any]:
        """As of any curve, and the rows in per cent."""
        found = super().columns(optimum)
        del found["n_nonzero"]
        return {**found, "rows": self.row_shares}

    @property
    def row_shares(self) -> NDArray[np.float64]:
        """Non-zero rows in per cent, nan where not known."""
        return 100.0 * self.n_nonzeros / self.n_features

    def rows_at(self, seconds: float) -> float:
        """Non-zero rows at that time, as last seen."""
        seen = np.isfinite(self.n_nonzeros) & (self.seconds <= seconds)
        return float(self.n_nonzeros[seen][-1]) if seen.any() else 0.0


@dataclass(eq=False)
class Watch:
    """Stops a run by its limits, the pauses of its recording left out."""

    limits: Limits
    recording: Recording
    n_items: int
    is_over_time: bool = False

    def __call__(self, progress: Progress) -> bool:
        if progress.sample_fraction == 1.0 and progress.value <= self.limits.value * self.n_items:
            return True
        self.is_over_time = progress.seconds - self.recording.lost >= self.limits.seconds
        return self.is_over_time

    def why(self, result: Result) -> str:
        """Why the run has ended."""
        return "seconds are over" if self.is_over_time else why(result)


def run_case(
    path: str, case: Case, names: Sequence[str], seconds: float, optimum: float | None, n_threads: int | None
) -> tuple[Curve | None, list[Curve]]:
    """Run solvers on a stored problem, one after the other.

    Returns a run far towards the optimum, None where that is known, and the curves. `seconds`: the limit of each run.
    """
    problem = read_stored(path)
    reference: Curve | None = None
    task = Task.of(problem, case.strength, n_threads=n_threads)
    if optimum is None:
        limits = Limits(PATIENCE * seconds, tol=CERTIFIED)
        warm_up(problem, case.data.reference, n_threads)
        reference = run(task, case, "reference", SOLVERS[case.data.reference].make(), limits)
        reference = replace(reference, solver=case.data.reference)
        optimum = reference.values.min()
    limits = Limits(seconds, optimum * (1.0 + CLOSE))
    curves: list[Curve] = []
    for name in names:
        warm_up(problem, name, n_threads)
        curves.append(run(task, case, name, SOLVERS[name].make(), limits))
    return reference, curves


def warm_up(problem: ItemProblem, name: str, n_threads: int | None) -> None:
    """Compile, once in a process: a few steps on a part of the items."""
    if name in WARM:
        return
    WARM.add(name)
    task = Task.of(problem.part(WARM_UP_ITEMS), WARM_UP_STRENGTH, n_threads=n_threads)
    minimize(
        task.objective,
        task.penalty,
        SOLVERS[name].make(),
        max_iter=WARM_UP_STEPS,
        max_seconds=WARM_UP_SECONDS,
        proves_zeros=False,
    )


def run(task: Task, case: Case, name: str, solver: Any, limits: Limits) -> RowCurve:
    """Train on the clock, and judge."""
    n_items = task.objective.n_items
    recording = Recording(solver, look=task.judge.glance, counts_samples=False)
    watch = Watch(limits, recording, n_items)
    result = minimize(
        task.objective,
        task.penalty,
        recording,
        tol=limits.tol,
        max_iter=UNLIMITED,
        callback=watch,
        proves_zeros=False,
    )
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    curve = curve_of(task, case, name, result, recording, watch.why(result))
    say(f"  {name}: {curve.seconds[-1]:.1f} s, {curve.values.min():.8f}, {curve.status}")
    return curve


def curve_of(
    task: Task, case: Case, name: str, result: Result, recording: Recording, status: str
) -> RowCurve:
    """What there is to say about a run."""
    trace, n_items = result.trace, task.objective.n_items
    glances = np.full((len(trace), 2), np.nan)
    for row, glance in recording.kept.items():
        if row < len(trace):
            glances[row] = glance
    verdict = task.judge.verdict((result.coords, result.weights), STRAIGHT, case.strength)
    glances[np.argmin(trace.value)] = verdict.accuracy, verdict.n_rows
    return RowCurve(
        solver=name,
        status=status,
        iterations=np.array([progress.iteration for progress in trace.rows]),
        seconds=trace.seconds - np.array(recording.pauses[: len(trace)]),
        passes=trace.passes,
        values=trace.value / n_items,
        gaps=trace.gap,
        n_nonzeros=glances[:, 1],
        accuracies=glances[:, 0],
        objective=verdict.objective,
        accuracy=verdict.accuracy,
        n_nonzero=verdict.n_rows,
        n_features=task.judge.n_features,
    )
