"""Solvers' runs as curves: objective, non-zeros and test accuracy against seconds and passes; references first; what is
written and drawn of them: CSV files, pictures, a table a problem, and who was first.

A study defines cases, problems at a penalty, with `data.title`, `source` (what the items depend on), `quick()` (a small
part), `load()` (its `Problem`), `solver(name)` (None: no settings for the data), `reference` (the method that finds the
optimum) and `task(problem)`, what a solver minimises over the items:
- `fit(solver, **limits)`: run it to a Result; `warm_up(solver, is_first)`: have everything compiled
- `worth(weights)`: test accuracy and non-zeros; `verdict(weights)`: the judge's, its objective scaled
- `scale`: of objectives as they are shown; 1 / items: means; `counts_samples`: whether seconds count that a solver
  spends on samples of the items; `n_features`: 0: non-zeros are weights, at every row; else rows of so many

A process begins with a short training on a part of the items, so that nothing is compiled on the clock, which stands
still while a run's weights are looked at. Every run has one thread, and seconds are of the processor, whatever else the
machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crfqn.result import Progress
from crfqn.solvers.protocols import Requirements, Solver, requirements
from harness.drawing import Panel, Style
from harness.measuring import quietly, run_alone, say
from harness.pages import Folder, Optimum, better
from harness.problems import Problem, first_row, read_stored, stored
from harness.report import Table, number, shown

CLOSE = 1e-7  # a run ends when it is this near to the reference optimum
CERTIFIED = 1e-5  # gap of the reference; its value is nearer by orders of magnitude
PATIENCE = 10.0  # seconds that the reference may take, as a multiple of the other runs'
UNLIMITED = 1_000_000
SPACING = 1.15  # of the seconds between two looks
LEVELS = (1e-2, 1e-3, 1e-4)
LABELS = {
    "seconds": "time, seconds",
    "passes": "passes over the training items",
    "relative_difference": "(F - F*) / F*",
    "n_nonzero": "non-zero weights",
    "rows": "non-zero rows, %",
    "accuracy": "test accuracy",
}
LOGARITHMIC = ("relative_difference", "n_nonzero", "rows")
Weights = tuple[NDArray[np.int64], NDArray[np.float64]]
WARM: set[tuple[bool, str]] = set()  # the structures and solvers that have been run in this process


@dataclass(frozen=True, eq=False)
class Curve:
    """How a solver fared; arrays have an entry a row of its trace.

    status : why the run ended
    seconds, passes : since the first evaluation, which is a pass itself
    values : the objective, penalty included, in nats; gaps : certified, nan where not known
    n_nonzeros : weights, or rows, nan where not computed; accuracies : on the test part, nan where not computed
    objective, accuracy, n_nonzero : of the best weights, recomputed by the judge
    n_features : 0: non-zeros are weights, else rows of so many
    """

    solver: str
    status: str
    iterations: NDArray[np.int64]
    seconds: NDArray[np.float64]
    passes: NDArray[np.float64]
    values: NDArray[np.float64]
    gaps: NDArray[np.float64]
    n_nonzeros: NDArray[Any]
    accuracies: NDArray[np.float64]
    objective: float
    accuracy: float
    n_nonzero: int
    n_features: int = 0

    @property
    def lower_bound(self) -> float:
        """The largest value that the optimum is proved to have; -inf: nothing is proved."""
        bounds = np.minimum.accumulate(self.values) * (1.0 - self.gaps)
        return float(np.nanmax(bounds)) if np.isfinite(bounds).any() else -np.inf

    def row_at(self, optimum: float, level: float) -> int | None:
        """The first row within `level` (relative) of the optimum; None: not reached."""
        return first_row(self.values <= optimum * (1.0 + level))

    def rows_at(self, seconds: float) -> float:
        """Non-zeros at that time, as last seen."""
        seen = np.isfinite(self.n_nonzeros) & (self.seconds <= seconds)
        return float(self.n_nonzeros[seen][-1]) if seen.any() else 0.0

    def columns(self, optimum: float) -> dict[str, Any]:
        """What can be drawn, a number a row of the trace; rows are in per cent."""
        rows = {"rows": 100.0 * self.n_nonzeros / self.n_features} if self.n_features else {}
        return {
            "seconds": self.seconds,
            "passes": self.passes,
            "relative_difference": (self.values - optimum) / optimum,
            **(rows or {"n_nonzero": self.n_nonzeros}),
            "accuracy": self.accuracies,
        }


Measured = Mapping[Any, tuple[float, Sequence[Curve]]]  # by case: the reference optimum, and the runs


@dataclass(eq=False)
class Recording(Solver):
    """A solver whose weights are looked at: at each step, or in growing intervals of time.

    look : what to keep of the weights
    counts_samples : whether the seconds count that the solver spends on samples of the items
    looks : by row of the trace
    now : processor seconds since the first evaluation began, without looks; seconds : at each row of the trace
    """

    solver: Any
    keeps_all: bool = False
    look: Callable[[Weights], Any] = lambda weights: weights
    counts_samples: bool = True
    looks: dict[int, Any] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    now: float = 0.0
    started: float = field(default_factory=lambda: process_time())

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        """Return what the solver asks for; the first evaluation comes next, and the clock starts."""
        self.started = process_time()
        return requirements(self.solver, objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        states = self.solver.steps(objective, penalty, start)
        del start
        due = 0.0
        for state in states:
            is_whole = state.sample_fraction == 1.0
            if is_whole or self.counts_samples:
                self.now = process_time() - self.started
            if is_whole and (self.now >= due or self.keeps_all):
                self.looks[len(self.seconds)] = self.look((state.point.coords, state.point.weights))
                due = SPACING * self.now
            self.started = process_time() - self.now
            if is_whole:
                self.seconds.append(self.now)
            yield state
            self.now = process_time() - self.started


def run_case(
    path: str, case: Any, names: Sequence[str], seconds: float, optimum: float | None
) -> tuple[Curve | None, list[Curve]]:
    """Run methods on a stored problem, one after the other.

    Returns a run far towards the optimum, None where that is known, and the curves; methods without settings for the
    data are left out. `seconds`: the limit of each run.
    """
    problem, reference = read_stored(path), None
    task = case.task(problem)
    if optimum is None:
        limits = {"seconds": PATIENCE * seconds, "tol": CERTIFIED}
        reference = run(task, problem.is_chain, "reference", case.solver(case.reference), **limits)
        reference = replace(reference, solver=case.reference)
        optimum = float(reference.values.min())
    solvers = {name: case.solver(name) for name in names}
    return reference, [
        run(task, problem.is_chain, name, solver, seconds, optimum * (1.0 + CLOSE))
        for name, solver in solvers.items()
        if solver is not None
    ]


def run(
    task: Any,
    is_chain: bool,
    name: str,
    solver: Any,
    seconds: float,
    value: float = -np.inf,
    tol: float = 0.0,
) -> Curve:
    """Warm up, train on the clock until the seconds are over or the (scaled) objective is at `value`, and judge.

    The clock stands still while weights are looked at; tol : the certified gap that ends the run as well.
    """
    kind = is_chain, repr(solver)
    recording = Recording(solver, look=task.worth, counts_samples=task.counts_samples)
    is_over_time = False

    def stop(progress: Progress) -> bool:
        nonlocal is_over_time
        if progress.sample_fraction == 1.0 and task.scale * progress.value <= value:
            return True
        is_over_time = recording.now >= seconds
        return is_over_time

    with quietly(), threadpool_limits(1):
        task.warm_up(solver, kind not in WARM)
        WARM.add(kind)
        result = task.fit(recording, tol=tol, max_iter=UNLIMITED, callback=stop)
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    status = "F* reached" if result.status.name == "CALLBACK" else result.message.partition(": ")[2]
    trace = result.trace
    clock = np.full(len(trace), recording.now)  # a certificate at the end may be a row of its own
    clock[: len(recording.seconds)] = recording.seconds[: len(trace)]
    worths = np.full((len(trace), 2), np.nan)
    for row, worth in recording.looks.items():
        if row < len(trace):
            worths[row] = worth
    verdict = task.verdict((result.coords, result.weights))
    n_nonzero = verdict.n_rows if task.n_features else result.n_nonzero
    worths[np.argmin(trace.value)] = verdict.accuracy, n_nonzero
    curve = Curve(
        solver=name,
        status="seconds are over" if is_over_time else status,
        iterations=trace.iteration,
        seconds=clock,
        passes=trace.passes,
        values=task.scale * trace.value,
        gaps=trace.gap,
        n_nonzeros=worths[:, 1] if task.n_features else trace.n_nonzero,
        accuracies=worths[:, 0],
        objective=verdict.objective,
        accuracy=verdict.accuracy,
        n_nonzero=n_nonzero,
        n_features=task.n_features,
    )
    say(f"  {name}: {curve.seconds[-1]:.1f} s, {curve.values.min():,.8g}, {curve.status}")
    return curve


class CurvePanel(NamedTuple):
    """One diagram: `y` and `x` are columns of the CSV file; `title` may name the `{case}`."""

    title: str
    case: Any
    y: str
    x: str


@dataclass(frozen=True)
class CurveFigure:
    """A figure of a paper: its number, what it shows, the methods, the panels in two columns.

    `is_comparison`: whether it asks who is first, of all methods.
    """

    number: str
    title: str
    solvers: Sequence[str]
    panels: Sequence[CurvePanel]
    is_comparison: bool = False

    @property
    def cases(self) -> list[Any]:
        return list(dict.fromkeys(panel.case for panel in self.panels))

    @property
    def heading(self) -> str:
        """The title, and the problem unless the panels tell."""
        return f"{self.title}: {self.cases[0]}" if "{case}" not in self.panels[0].title else self.title

    def quick(self) -> CurveFigure:
        return replace(self, panels=[panel._replace(case=panel.case.quick()) for panel in self.panels])


@dataclass(eq=False)
class Study:
    """What has been measured so far: references first, then every method, each run once.

    seconds : limit of a single run, looked at after every iteration
    is_quick : all runs share this process; otherwise each has one of its own
    """

    folder: Folder
    seconds: float
    is_quick: bool
    curves: dict[tuple[Any, str], Curve] = field(default_factory=dict)
    problems: dict[Any, Problem] = field(default_factory=dict)

    def alone(self, task: Callable[..., Any], *arguments: Any) -> Any:
        """Run in a process of its own unless the study is quick."""
        return task(*arguments) if self.is_quick else run_alone(task, *arguments)

    def problem(self, case: Any) -> Problem:
        """The items of a case; those of the latest are kept, of small parts all."""
        if case.source not in self.problems:
            if not self.is_quick:
                self.problems.clear()
            say(f"{case.data.title}: preparing")
            self.problems[case.source] = case.load()
        return self.problems[case.source]

    def measure(self, figure: CurveFigure) -> Measured:
        """The reference optimum of each problem, and the curves of the figure's methods."""
        for case in figure.cases:
            self.run(case, figure.solvers)
        measured = {}
        for case in figure.cases:
            curves = [self.curves[case, name] for name in figure.solvers if (case, name) in self.curves]
            measured[case] = self.folder.optima[str(case)].value, curves
        return measured

    def run(self, case: Any, names: Sequence[str]) -> None:
        """Run what has not been run yet; the folder remembers the best value."""
        problem = self.problem(case)
        missing = [name for name in names if (case, name) not in self.curves]
        known = self.folder.optima.get(str(case))
        is_known = known is not None and known.fingerprint == problem.cut
        if not missing and is_known:
            return
        say(f"{case}")
        with stored(problem) as path:
            rounds: list[list[str]] = [[name] for name in missing]
            if self.is_quick:
                rounds = [missing]
            elif not is_known:
                rounds = [[], *rounds]
            for group in rounds:
                optimum = self.folder.optima[str(case)].value if is_known else None
                task = path, case, group, self.seconds, optimum
                name = ", ".join([str(case), *(group or ["reference"])])
                self.keep(case, problem.cut, *self.folder.once(name, self.alone, run_case, *task))
                is_known = True

    def keep(self, case: Any, cut: str, reference: Curve | None, curves: list[Curve]) -> None:
        """Take the curves, and what they tell of the optimum."""
        optimum = None if reference else self.folder.optima[str(case)]
        for curve in [*([reference] if reference else []), *curves]:
            value, accuracy = float(np.min(curve.values)), curve.accuracy
            seen = Optimum(cut, value, curve.lower_bound, curve.solver, curve.n_nonzero, accuracy)
            optimum = seen if optimum is None else better(optimum, seen)
        assert optimum is not None
        if optimum != self.folder.optima.get(str(case)):
            self.folder.remember(str(case), optimum)
        self.curves.update({(case, curve.solver): curve for curve in curves})


def publish_curves(
    folder: Folder, figure: CurveFigure, measured: Measured, styles: Mapping[str, Style], bold: str,
    tables: Sequence[Table], notes: Sequence[str], extra: str = "",
) -> None:  # fmt: skip
    """Write a figure down; the curve of the method `bold` is thicker, and on top."""
    folder.publish(
        f"figure-{figure.number}", figure.heading, tables, notes, records=curve_records(measured),
        panels=panels_of(figure, measured), heading=figure.heading, styles=styles, bold=bold, extra=extra,
    )  # fmt: skip


def panels_of(figure: CurveFigure, measured: Measured) -> list[Panel]:
    panels = []
    for panel in figure.panels:
        optimum, curves = measured[panel.case]
        columns = {curve.solver: curve.columns(optimum) for curve in curves}
        lines = {name: (data[panel.x], data[panel.y]) for name, data in columns.items()}
        logs = "xy" if panel.y in LOGARITHMIC else "x"
        least = CLOSE / 2 if panel.y == "relative_difference" else None
        title = panel.title.format(case=panel.case)
        panels.append(Panel(title, lines, LABELS[panel.x], LABELS[panel.y], logs, least))
    return panels


def curve_records(measured: Measured) -> list[dict[str, Any]]:
    """A record a row of a run's trace."""
    records = []
    for case, (optimum, curves) in measured.items():
        for curve in curves:
            columns = {"iteration": curve.iterations, "objective": curve.values, "gap": curve.gaps}
            columns |= curve.columns(optimum)
            source = {"problem": str(case), "solver": curve.solver}
            rows = zip(*columns.values(), strict=True)
            records += [source | dict(zip(columns, row, strict=True)) for row in rows]
    return records


def curve_table(
    case: Any, optimum: float, curves: Iterable[Curve], notes: Sequence[str], counted: str = "non-zeros"
) -> Table:
    """Seconds and passes to each level, and where each method ended."""
    columns: dict[str, Callable[[Curve], str]] = {"": lambda curve: curve.solver}
    for level in LEVELS:
        columns[f"s to {shown(level)}"] = partial(_reached, "seconds", ".2f", optimum, level)
    for level in LEVELS:
        columns[f"passes to {shown(level)}"] = partial(_reached, "passes", ".1f", optimum, level)
    columns |= {
        "ended at": lambda curve: f"{curve.values.min() / optimum - 1:.1e}",
        counted: lambda curve: f"{curve.n_nonzero:,}",
        "test accuracy": lambda curve: f"{curve.accuracy:.4f}",
        "why it ended": lambda curve: curve.status,
    }
    return Table.from_rows(str(case), columns, curves, notes)


def _reached(unit: str, form: str, optimum: float, level: float, curve: Curve) -> str:
    row = curve.row_at(optimum, level)
    return number(None if row is None else getattr(curve, unit)[row], form)


def times_to(optimum: float, curves: Iterable[Curve], level: float) -> dict[str, float]:
    """Seconds of those that came within `level` of the optimum."""
    rows = {curve.solver: (curve, curve.row_at(optimum, level)) for curve in curves}
    return {name: float(curve.seconds[row]) for name, (curve, row) in rows.items() if row is not None}


def optimum_note(known: Any) -> str:
    """F*, and how good it is."""
    return f"F* = {known.value:,.6f}, by {known.found_by}, at most {known.gap:.1e} above the optimum (certified)."


def first_note(optimum: float, curves: Sequence[Curve], ours: str, variants: tuple[str, ...]) -> str:
    """Whether `ours` was first to each level, and who came next; names that begin as the variants do not compete."""
    words = []
    for level in LEVELS:
        times = times_to(optimum, curves, level)
        others = {name: t for name, t in times.items() if not name.startswith(variants)}
        if ours not in times:
            words.append(f"{shown(level)}: not reached by it")
        elif not others:
            words.append(f"{shown(level)}: yes, the only one")
        else:
            next_one = min(others, key=lambda name: others[name])
            ratio = others[next_one] / times[ours]
            words.append(
                f"{shown(level)}: {'yes' if ratio > 1 else 'NO'}, {next_one} took {ratio:.2g} times as long"
            )
    return f"{ours} first to " + "; ".join(words) + "."


def agreement(curves: Sequence[Curve]) -> str:
    """How well the judge's objectives agree with the solvers' own."""
    worst = max(abs(curve.objective / curve.values.min() - 1) for curve in curves)
    return (
        f"The judge, which shares no code with the library, recomputes all final objectives to {worst:.0e}."
    )
