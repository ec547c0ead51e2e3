"""Handwritten words (OCR) and chunking (CoNLL-2000): crfqn against CRFsuite on one objective.

Each run has a process of its own; both keep the features in memory before the clock starts, and crfqn's compiled code
is warm. OCR: all pairs of features and labels have weights. The reference optima are an independent solver's (largest
KKT violation 1e-4). They, and what belongs to them, hold for one split only: RandomState(0).permutation(6877) of the
words in the table's order, 6216 train. CRFsuite may take hours there, so that its seconds can be those of a few
iterations times the iterations that it is known to need.

CoNLL-2000: weights only for what occurs together in the training part. Two penalties: L1 (CRFsuite's c1 = 1) and L2
(its c2 = 1, which is our l2 = 2: it adds c2 times the squared norm). Each library is asked for the seconds until it has
what the other ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from harness.judging import Judged, best_labels, chunk_f1, judge_run
from harness.measuring import run_alone, say
from harness.problems import Problem, Run, stored
from harness.report import (
    Known,
    Promise,
    Report,
    Table,
    below,
    model_promises,
    number,
    shown,
    speed_promises,
    times,
)

from benchmarks import crfqn_fits, crfsuite, inference

LIBRARIES = ["crfqn", "python-crfsuite", "numba", "numpy"]
SPLIT = "0138e387c7658e24"  # of the training labels in their order, first digits of the fingerprint
KNOWN = {
    50.0: Known(54_880.567, 2415, 0.8466, {1e-3: 135}, {1e-3: 60}),
    100.0: Known(76_129.228, 1487, 0.7576, {1e-3: 101, 1e-4: 215}, {1e-3: 80, 1e-4: 120}, tail=1.6),
    500.0: Known(128_706.324, 235, 0.3652, {}, {}),
}
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)  # relative distances from the optimum
LAST_LEVEL = 1e-4  # of CRFsuite
MOST_ITERATIONS = 400  # of CRFsuite, where nobody knows how many it needs
LEAST_F1 = 0.936
FASTER_TAGGING = 3.0


def iterations_of_peer(n_iterations: int | None) -> int | None:
    """So many, none (0) where CRFsuite is not installed."""
    if n_iterations == 0 or crfsuite.is_installed():
        return n_iterations
    say("python-crfsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    return 0


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


def measure_ocr(
    penalties: Sequence[float], *, n_threads: int | None, repeats: int, crfsuite_iterations: int | None
) -> Report:
    """Compare at each penalty (see `compare`), then measure what does not depend on it."""
    crfsuite_iterations = iterations_of_peer(crfsuite_iterations)
    problem = Problem.of_recipe("ocr")
    is_known_split = problem.fingerprint.startswith(SPLIT)
    if not is_known_split:
        say("The words come in another order than the reference's: no optimum is known for this split.")
    report = Report("ocr", f"OCR: {problem.describe_chains('words', 'letters')}", LIBRARIES)
    comparisons = []
    with stored(problem) as path:
        for l1 in penalties:
            known = KNOWN.get(l1) if is_known_split else None
            comparison = compare(path, problem, l1, known, n_threads, repeats, crfsuite_iterations)
            comparisons.append(comparison)
            report.tables.append(comparison_table(comparison))
            at = f"l1 = {l1:g}: "
            report.promises += model_promises(at, comparison.crfqn, known, "test accuracy by letter")
            report.promises += speed_promises(at, known, "CRFsuite", comparison.speed_up)
            report.promises += _tail_promises(comparison)
        say("inference pass, first fit, import")
        run = comparisons[0].crfqn.run
        pass_time = run_alone(inference.measure_chains, path, run.weights, run.edges)
        first = crfqn_fits.first_fit(path, penalties[0], n_threads)
    statements = "import crfqn", "from crfqn import ChainCRF"
    imports = {statement: crfqn_fits.import_seconds(statement) for statement in statements}
    report.promises += _cost_promises(run, pass_time, first, imports)
    report.notes.append(pass_time.describe_chains())
    report.numbers = {
        "comparisons": [numbers(comparison) for comparison in comparisons],
        "inference": {**asdict(pass_time), "distance": pass_time.distance},
        "first_fit": asdict(first),
        "import": imports,
    }
    return report


def compare(
    path: str, problem: Problem, l1: float, known: Known | None, n_threads: int | None, repeats: int,
    crfsuite_iterations: int | None,
) -> Comparison:  # fmt: skip
    """Train with both and judge. `crfsuite_iterations` None: to LAST_LEVEL, 0: none."""
    say(f"l1 = {l1:g}: crfqn")
    tol = 1e-6 if known is None else 1e-4  # where no optimum is known, its own must serve as the reference
    ours = judge_run(
        problem, run_alone(crfqn_fits.train_chains, path, n_threads, repeats, l1=l1, tol=tol), l1
    )
    optimum = known.optimum if known else ours.verdict.objective
    if crfsuite_iterations is None:
        needed = known.peer_iterations.get(LAST_LEVEL) if known else None
        crfsuite_iterations = MOST_ITERATIONS if needed is None else needed + 5
    if crfsuite_iterations == 0:
        return Comparison(l1, known, optimum, ours, None)
    say(f"l1 = {l1:g}: CRFsuite, {crfsuite_iterations} iterations after a minute or two of preparation")
    penalty = {"c1": l1, "c2": 0.0}
    run = run_alone(crfsuite.train, path, penalty, True, crfsuite_iterations, **crfsuite.TO_THE_LIMIT)  # type: ignore[arg-type]
    return Comparison(l1, known, optimum, ours, judge_run(problem, run, l1))


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


def _tail_promises(comparison: Comparison) -> list[Promise]:
    """How long the last digits take."""
    known = comparison.known
    early, late = comparison.crfqn_seconds(1e-3), comparison.crfqn_seconds(1e-6)
    if known is None or known.tail is None or early is None:
        return []
    tail = None if late is None else late / early
    what = f"l1 = {comparison.l1:g}: crfqn's seconds to 1e-6 over those to 1e-3"
    is_met = tail is not None and tail <= known.tail
    return [Promise(what, f"<= {known.tail:g}", number(tail, ".2f", "not reached"), is_met)]


def _cost_promises(
    run: Run, pass_time: inference.PassTime, first: crfqn_fits.FirstFit, imports: dict[str, float]
) -> list[Promise]:
    """Inference, memory, compilation, import."""
    plain, estimator = imports.values()
    microseconds, before, never = 1e-3 * pass_time.measured, first.compiled_before, first.never_compiled
    measured = f"{microseconds:.2f}, {pass_time.distance:.1f} times the bound"
    memory, both = f"{run.peak_bytes / 1e6:.0f} MB", f"{plain:.3f} s ({estimator:.2f} s)"
    first_fit = "first fit of a process over later ones, compiled before"
    return [
        below("one inference pass, us a position and core", "0.7", measured, microseconds, 0.7),
        below("peak memory of the training process", "600 MB", memory, run.peak_bytes, 600e6),
        below(first_fit, "1 s", f"{before:.2f} s", before, 1),
        below("first fit over later ones, never compiled", "20 s", f"{never:.1f} s", never, 20),
        below("import crfqn (with ChainCRF and all that it needs)", "0.7 s", both, plain, 0.7),
    ]


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


def measure_conll2000(
    names: Sequence[str],
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
    crfsuite_iterations = iterations_of_peer(crfsuite_iterations)
    problem = Problem.of_recipe("conll2000")
    title = f"CoNLL-2000: {problem.describe_chains('sentences', 'words')}"
    report = Report("conll2000", title, LIBRARIES)
    pairs = {"all_possible_states": False, "all_possible_transitions": False}
    with stored(problem) as path:
        for name in names:
            setting = SETTINGS[name]
            l1, l2 = setting.l1, setting.l2
            own = {"tol": setting.tol, "solver": setting.solver, "max_seconds": limit, **pairs}
            say(f"{setting.name}: crfqn")
            run = run_alone(crfqn_fits.train_chains, path, n_threads, repeats, l1=l1, l2=l2, **own)
            ours, theirs = _judged(problem, setting, run), None
            if crfsuite_iterations != 0:
                say(f"{setting.name}: CRFsuite")
                run = run_alone(crfsuite.train, path, {"c1": l1, "c2": l2 / 2}, False, crfsuite_iterations)
                theirs = _judged(problem, setting, run)
            report.tables.append(_table(setting, ours, theirs))
            report.promises += _promises(setting, ours, theirs)
            sides = [ours] if theirs is None else [ours, theirs]
            report.numbers[name] = {side.run.name: side.numbers() for side in sides}
    return report


def _judged(problem: Problem, setting: Setting, run: Run) -> Side:
    f1 = chunk_f1(problem.y_test, best_labels(problem, run.weights, run.edges))
    return Side(judge_run(problem, run, setting.l1, setting.l2), f1)


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
        [number(side.seconds_to(level), ".1f", "not reached") for side in (ours, theirs) if side]
        for level in setting.earlier
    ]
    rows[:0] = [[level, *cells] for level, cells in zip(levels, seconds, strict=True)]
    return Table(setting.name, head, rows, notes)


def _column(side: Side, other: Side | None) -> dict[str, str]:
    run, facts = side.run, side.run.facts
    at_ends = (
        {}
        if other is None
        else {"seconds to the other's end": number(side.seconds_to(other.objective), ".1f", "not reached")}
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


def _promises(setting: Setting, ours: Side, theirs: Side | None) -> list[Promise]:
    at = f"{setting.name}: "
    f1 = Promise(at + "F1 of chunks", f">= {LEAST_F1:.1%}", f"{ours.f1:.2%}", ours.f1 >= LEAST_F1)
    if theirs is None:
        return [f1]
    levels = {theirs.objective: setting.at_its_end, **setting.earlier}
    sooner = [
        _faster(f"{at}CRFsuite's seconds to {level:,.1f} over crfqn's", level, asked, ours, theirs)
        for level, asked in levels.items()
    ]
    tagging = ours.run.facts["tokens_per_second"] / theirs.run.facts["tokens_per_second"]
    words = times(at + "words labelled in a second, one thread, over CRFsuite's", FASTER_TAGGING, tagging)
    if not setting.smaller:
        return [f1, *sooner, words]
    ratio = theirs.run.facts["file_bytes"] / ours.run.facts["file_bytes"]
    return [f1, *sooner, words, times(at + "CRFsuite's model file over crfqn's", setting.smaller, ratio)]


def _faster(what: str, objective: float, asked: float, ours: Side, theirs: Side) -> Promise:
    seconds, their_seconds = ours.seconds_to(objective), theirs.seconds_to(objective)
    if theirs.objective == objective:
        their_seconds = float(theirs.run.seconds[-1])
    if seconds is None or their_seconds is None:
        return Promise(what, f"{asked:g} times", "not reached", None if their_seconds is None else False)
    return times(what, asked, their_seconds / seconds)
