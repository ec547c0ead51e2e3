"""crfqn and CRFsuite on one problem at one penalty: two runs, the judge's verdicts, a table side by side.

Both keep the features in memory before the clock starts; crfqn's compiled code is warm. CRFsuite may take
hours, so that its seconds can be those of a few iterations times the iterations that it is known to need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks import crfsuite, proxqn
from benchmarks.alone import run_alone, say
from benchmarks.judge import Judged, judge
from benchmarks.known import Known
from benchmarks.problem import Problem, Run
from benchmarks.report import Table, shown

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)  # relative distances from the optimum
LAST_LEVEL = 1e-4  # of CRFsuite
MOST_ITERATIONS = 400  # of CRFsuite, where nobody knows how many it needs


@dataclass(frozen=True, eq=False)
class Comparison:
    """Judged runs at one penalty and the reference optimum; CRFsuite's may be missing."""

    l1: float
    known: Known | None
    optimum: float
    crfqn: Judged
    crfsuite: Judged | None

    def crfqn_seconds(self, level: float) -> float | None:
        return self.crfqn.run.seconds_to(self.optimum, level)

    def crfsuite_seconds(self, level: float) -> tuple[float, str] | None:
        """Seconds by CRFsuite's log and how they were found; None: not known."""
        if self.crfsuite is None:
            return None
        run = self.crfsuite.run
        row = run.row_at(self.optimum, level)
        if row is not None:
            return float(run.seconds[row]), f"measured, {run.iterations[row]} iterations"
        if self.known is None or level not in self.known.peer_iterations:
            return None
        iterations = self.known.peer_iterations[level]
        each = float(np.median(run.facts["log_seconds"]))
        return iterations * each, f"{iterations} iterations (known) x {each:.2f} s"

    def speed_up(self, level: float) -> float | None:
        """CRFsuite's seconds to `level` over crfqn's."""
        ours, theirs = self.crfqn_seconds(level), self.crfsuite_seconds(level)
        return None if ours is None or theirs is None else theirs[0] / ours


def compare(
    recipe: str,
    problem: Problem,
    l1: float,
    known: Known | None,
    n_threads: int | None,
    repeats: int,
    crfsuite_iterations: int | None,
) -> Comparison:
    """Train with both, one process each, and judge. `crfsuite_iterations` None: to LAST_LEVEL, 0: none."""
    say(f"l1 = {l1:g}: crfqn")
    tol = 1e-6 if known is None else 1e-4  # where no optimum is known, its own must serve as the reference
    run = run_alone(proxqn.train, recipe, l1, tol, n_threads, repeats)
    ours = Judged(run, judge(problem, l1, run.weights, run.edges))
    optimum = known.optimum if known else ours.verdict.objective
    if crfsuite_iterations is None:
        needed = known.peer_iterations.get(LAST_LEVEL) if known else None
        crfsuite_iterations = MOST_ITERATIONS if needed is None else needed + 5
    if crfsuite_iterations == 0:
        return Comparison(l1, known, optimum, ours, None)
    say(f"l1 = {l1:g}: CRFsuite, {crfsuite_iterations} iterations after a minute or two of preparation")
    run = run_alone(crfsuite.train, recipe, l1, crfsuite_iterations)
    theirs = Judged(run, judge(problem, l1, run.weights, run.edges))
    return Comparison(l1, known, optimum, ours, theirs)


def comparison_table(comparison: Comparison) -> Table:
    """Side by side: seconds to each level, and the two models."""
    ours, theirs = comparison.crfqn, comparison.crfsuite
    reference = "an independent solver's" if comparison.known else "crfqn's own, certified"
    notes = [f"Reference optimum {comparison.optimum:,.3f} ({reference}); seconds count from the first step."]
    head = ["", "crfqn", "CRFsuite", "ratio"]
    left = _model_column(comparison, ours)
    right = _model_column(comparison, theirs) if theirs else dict.fromkeys(left, "")
    rows = [_level_row(comparison, level) for level in LEVELS]
    rows += [[name, left[name], right[name], ""] for name in left]
    if theirs:
        head[2] += f", {theirs.run.iterations[-1]} iterations"
        notes += _crfsuite_notes(theirs.run)
    return Table(f"l1 = {comparison.l1:g}", head, rows, notes)


def _level_row(comparison: Comparison, level: float) -> list[str]:
    ours, theirs = comparison.crfqn_seconds(level), comparison.crfsuite_seconds(level)
    speed_up = comparison.speed_up(level)
    return [
        f"seconds to within {shown(level)} of the optimum",
        "not reached" if ours is None else f"{ours:.2f}",
        "not measured" if theirs is None else f"{theirs[0]:.0f} ({theirs[1]})",
        "" if speed_up is None else f"{speed_up:.0f}",
    ]


def _model_column(comparison: Comparison, judged: Judged) -> dict[str, str]:
    run, verdict = judged
    reported = abs(run.values[-1] - verdict.objective) / verdict.objective
    return {
        "set-up before the first step, s": f"{run.setup_seconds:.2f}",
        "passes over the data": f"{run.passes:.1f}",
        "objective at the end (recomputed)": f"{verdict.objective:,.3f}",
        "... above the optimum": f"{verdict.objective / comparison.optimum - 1:.1e}",
        "... against what the library reports": f"{reported:.0e}",
        "non-zeros": f"{run.n_nonzero:,}",
        "test accuracy": f"{verdict.accuracy:.4f}",
        "peak memory, MB": f"{run.peak_bytes / 1e6:.0f}",
    }


def _crfsuite_notes(run: Run) -> list[str]:
    log, wall = (np.median(run.facts[name]) for name in ("log_seconds", "wall_seconds"))
    return [
        f"CRFsuite, on one core, made {run.iterations[-1]} iterations of {log:.2f} s (the median; processor "
        f"time, by its own log; {wall:.2f} s by the wall clock). Its column shows the model at that point.",
        "Where it says (known), CRFsuite did not go so far here: the seconds are the iterations of a full "
        "run times the median seconds of those made. --full measures them.",
    ]


def numbers(comparison: Comparison) -> dict[str, object]:
    """The raw measurements of a comparison, for the JSON file."""
    content: dict[str, object] = {"l1": comparison.l1, "reference_optimum": comparison.optimum}
    for judged in (comparison.crfqn, comparison.crfsuite):
        if judged:
            content[judged.run.name] = judged.numbers()
    return content
