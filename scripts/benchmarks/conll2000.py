"""Chunking (CoNLL-2000): crfqn against CRFsuite, both with weights only for what occurs together in the training part.

Two penalties: L1 (CRFsuite's c1 = 1) and L2 (its c2 = 1, which is our l2 = 2: it adds c2 times the squared norm). Both
minimise the same function, so that each is asked for the seconds until it has what the other ends with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks import crfsuite, proxqn
from benchmarks.alone import run_alone, say
from benchmarks.chunks import chunk_f1
from benchmarks.items import stored
from benchmarks.judge import Judged, best_labels, judge
from benchmarks.problem import Problem, Run
from benchmarks.report import Figure, Report, Table

RECIPE = "conll2000"
LEAST_F1 = 0.936
FASTER_TAGGING = 3.0


@dataclass(frozen=True)
class Setting:
    """A penalty, and what was asked: how many times sooner than CRFsuite at its end, and at rougher objectives.

    tol is crfqn's: small enough that it passes where CRFsuite ends.
    """

    name: str
    l1: float
    l2: float
    solver: str
    tol: float
    at_its_end: float
    earlier: dict[float, float]
    smaller: float | None = None  # its file


SETTINGS = {
    "l1": Setting("L1, c1 = 1", 1.0, 0.0, "prox-qn", 1e-3, 10, {17_300.0: 4}, smaller=2),
    "l2": Setting("L2, c2 = 1", 0.0, 2.0, "l-bfgs", 1e-5, 4, {}),
}


class Side(NamedTuple):
    """One library's run, the judge's verdict and F1 of chunks."""

    judged: Judged
    f1: float

    @property
    def run(self) -> Run:
        return self.judged.run

    @property
    def objective(self) -> float:
        """At the end, recomputed."""
        return self.judged.verdict.objective

    def seconds_to(self, objective: float) -> float | None:
        return self.run.seconds_to(objective, 0.0)

    def numbers(self) -> dict[str, Any]:
        return {**self.judged.numbers(), "f1": self.f1}


def measure(
    names: list[str],
    *,
    n_threads: int | None,
    repeats: int,
    limit: float,
    crfsuite_iterations: int | None,
) -> Report:
    """Compare at each penalty.

    `limit`: seconds for a fit of crfqn, if its certificate does not end it before. `crfsuite_iterations` None: as many
    as it takes (minutes), 0: only crfqn runs.
    """
    if crfsuite_iterations != 0 and not crfsuite.is_installed():
        say("python-crfsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
        crfsuite_iterations = 0
    problem = Problem.of_recipe(RECIPE)
    report = Report(
        "conll2000", f"CoNLL-2000: {_describe(problem)}", ["crfqn", "python-crfsuite", "numba", "numpy"]
    )
    with stored(problem) as path:
        for name in names:
            setting = SETTINGS[name]
            say(f"{setting.name}: crfqn")
            run = run_alone(
                proxqn.train_observed,
                *(path, setting.l1, setting.l2, setting.tol, setting.solver, n_threads, repeats, limit),
            )
            ours, theirs = _judged(problem, setting, run), None
            if crfsuite_iterations != 0:
                say(f"{setting.name}: CRFsuite")
                run = run_alone(crfsuite.train_to_its_end, path, setting.l1, setting.l2, crfsuite_iterations)
                theirs = _judged(problem, setting, run)
            report.tables.append(_table(setting, ours, theirs))
            report.figures += _figures(setting, ours, theirs)
            sides = [ours] if theirs is None else [ours, theirs]
            report.numbers[name] = {side.run.name: side.numbers() for side in sides}
    return report


def _judged(problem: Problem, setting: Setting, run: Run) -> Side:
    verdict = judge(problem, setting.l1, run.weights, run.edges, setting.l2)
    return Side(Judged(run, verdict), chunk_f1(problem.y_test, best_labels(problem, run.weights, run.edges)))


def _describe(problem: Problem) -> str:
    return (
        f"{len(problem.y_train):,} sentences and {problem.X_train.n_positions:,} words for training, "
        f"{problem.X_train.n_features:,} features, {len(problem.classes)} labels"
    )


def _table(setting: Setting, ours: Side, theirs: Side | None) -> Table:
    columns = [_column(ours, theirs)]
    head, notes = ["", "crfqn"], ["Seconds count from the first step, features in memory before."]
    if theirs:
        columns.append(_column(theirs, ours))
        head.append(f"CRFsuite, {theirs.run.iterations[-1]} iterations")
        log, wall = (np.sum(theirs.run.facts[name]) for name in ("log_seconds", "wall_seconds"))
        notes.append(
            f"CRFsuite works on one core; its seconds are processor time by its own log ({log:.0f} s in all, "
            f"{wall:.0f} s by the wall clock)."
        )
    notes.append(
        "Words a second: the test part from features that each library keeps its own way (crfqn: the columns of "
        "a sparse matrix; CRFsuite: its ItemSequences of names), the median of 5 runs."
    )
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    levels = [f"seconds to {level:,.0f}" for level in setting.earlier]
    seconds = [
        [_shown(side.seconds_to(level)) for side in (ours, theirs) if side] for level in setting.earlier
    ]
    rows[:0] = [[level, *cells] for level, cells in zip(levels, seconds, strict=True)]
    return Table(setting.name, head, rows, notes)


def _column(side: Side, other: Side | None) -> dict[str, str]:
    run, facts = side.run, side.run.facts
    at_ends = (
        {} if other is None else {"seconds to the other's end": _shown(side.seconds_to(other.objective))}
    )
    speeds = [facts[name] for name in ("tokens_per_second", "tokens_per_second_all") if name in facts]
    return {
        **at_ends,
        "seconds to the end": f"{run.seconds[-1]:.1f}",
        "set-up before the first step, s": f"{run.setup_seconds:.2f}",
        "passes over the data": f"{run.passes:.0f}",
        "objective at the end (recomputed)": f"{side.objective:,.3f}",
        "... against what the library reports": f"{abs(run.values[-1] / side.objective - 1):.0e}",
        "... certified relative gap": f"{facts['gap']:.1e}" if "gap" in facts else "",
        "non-zeros": f"{run.n_nonzero:,}",
        "model file, kB": f"{facts['file_bytes'] / 1e3:,.0f}",
        "F1 of chunks, %": f"{100 * side.f1:.2f}",
        "accuracy by word": f"{side.judged.verdict.accuracy:.4f}",
        "words a second, one thread (all threads)": f"{speeds[0]:,.0f}"
        + (f" ({speeds[1]:,.0f})" if len(speeds) > 1 else ""),
        "peak memory, MB": f"{run.peak_bytes / 1e6:.0f}",
    }


def _figures(setting: Setting, ours: Side, theirs: Side | None) -> list[Figure]:
    at = f"{setting.name}: "
    figures = [
        Figure(at + "F1 of chunks", f">= {LEAST_F1:.1%}", f"{ours.f1:.2%}", ours.f1 >= LEAST_F1),
    ]
    if theirs is None:
        return figures
    levels = {theirs.objective: setting.at_its_end, **setting.earlier}
    figures += [
        _faster(f"{at}CRFsuite's seconds to {level:,.1f} over crfqn's", level, asked, ours, theirs)
        for level, asked in levels.items()
    ]
    ratios = {
        "words labelled in a second, one thread, over CRFsuite's": (
            FASTER_TAGGING,
            _speed_ratio(ours, theirs),
        )
    }
    if setting.smaller:
        ratio = theirs.run.facts["file_bytes"] / ours.run.facts["file_bytes"]
        ratios["CRFsuite's model file over crfqn's"] = setting.smaller, ratio
    return figures + [
        Figure(at + what, f"{asked:g} times", f"{ratio:.1f} times", ratio >= asked)
        for what, (asked, ratio) in ratios.items()
    ]


def _faster(what: str, objective: float, asked: float, ours: Side, theirs: Side) -> Figure:
    seconds, their_seconds = ours.seconds_to(objective), theirs.seconds_to(objective)
    if theirs.objective == objective:
        their_seconds = float(theirs.run.seconds[-1])
    if seconds is None or their_seconds is None:
        return Figure(what, f"{asked:g} times", "not reached", None if their_seconds is None else False)
    ratio = their_seconds / seconds
    return Figure(what, f"{asked:g} times", f"{ratio:.1f} times", ratio >= asked)


def _speed_ratio(ours: Side, theirs: Side) -> float:
    return ours.run.facts["tokens_per_second"] / theirs.run.facts["tokens_per_second"]


def _shown(seconds: float | None) -> str:
    return "not reached" if seconds is None else f"{seconds:.1f}"
