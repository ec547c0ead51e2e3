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

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from harness.judging import Judged, best_labels, judge_run
from harness.measuring import run_alone, say
from harness.options import Output, OwnLimit, Penalties, Repeats, Threads, some_of
from harness.problems import Problem, stored
from harness.report import Comparison, Known, Promise, Report, below, finish, number, shown, times

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


CRFSUITE_NOTE = (
    "CRFsuite works on one core; its seconds are processor time, by its own log. Labelled: the test part from "
    "features that each library keeps its own way (crfqn: the columns of a sparse matrix; CRFsuite: its ItemSequences "
    "of names), the median of 5 runs."
)
KNOWN_NOTE = (
    "CRFsuite's seconds to what it did not reach here are the iterations that a full run is known to need ({0}) times "
    "the median seconds of those made. --full measures them."
)


def speed_notes(comparison: Comparison) -> list[str]:
    """How long CRFsuite's iterations took, by its log and by the wall clock."""
    if comparison.peer is None:
        return []
    log, wall = (comparison.peer.run.facts[name] for name in ("log_seconds", "wall_seconds"))
    return [
        f"CRFsuite: {np.median(log):.2f} s an iteration (the median; {np.median(wall):.2f} s by the wall clock), "
        f"{np.sum(log):.0f} s in all ({np.sum(wall):.0f} s)."
    ]


def iterations_of_peer(n_iterations: int | None) -> int | None:
    """So many, none (0) where CRFsuite is not installed."""
    if n_iterations == 0 or crfsuite.is_installed():
        return n_iterations
    say("python-crfsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    return 0


def ocr(
    l1: Penalties = None,
    threads: Threads = None,
    repeats: Repeats = 3,
    crfsuite_iterations: Annotated[
        int, typer.Option(min=0, help="Iterations of CRFsuite, for its seconds an iteration; 0: none.")
    ] = 10,
    full: Annotated[
        bool, typer.Option("--full", help="CRFsuite to 1e-4 of the optimum: half an hour and more.")
    ] = False,
    output: Output = None,
) -> None:
    """Handwritten words (26 labels, 8257 features): crfqn against CRFsuite."""
    n_iterations, penalties = iterations_of_peer(None if full else crfsuite_iterations), l1 or [100.0]
    problem = Problem.of_recipe("ocr")
    is_known_split = problem.fingerprint.startswith(SPLIT)
    if not is_known_split:
        say("The words come in another order than the reference's: no optimum is known for this split.")
    report = Report("ocr", f"OCR: {problem.describe_chains('words', 'letters')}", LIBRARIES)
    report.data["ocr"] = problem.fingerprint
    comparisons = []
    with stored(problem) as path:
        for strength in penalties:
            known = KNOWN.get(strength) if is_known_split else None
            comparison, optimum = compare_ocr(path, problem, strength, known, threads, repeats, n_iterations)
            comparisons.append(comparison)
            report_ocr(report, strength, comparison, known, optimum)
        say("inference pass, first fit, import")
        run = comparisons[0].crfqn.run
        pass_time = run_alone(inference.measure_chains, path, run.weights, run.edges)
        first = crfqn_fits.first_fit(path, penalties[0], threads)
    statements = "import crfqn", "from crfqn import ChainCRF"
    imports = {statement: crfqn_fits.import_seconds(statement) for statement in statements}
    plain, estimator = imports.values()
    microseconds, before, never = 1e-3 * pass_time.measured, first["compiled_before"], first["never_compiled"]
    measured = f"{microseconds:.2f}, {pass_time.distance:.1f} times the bound"
    memory, both = f"{run.peak_bytes / 1e6:.0f} MB", f"{plain:.3f} s ({estimator:.2f} s)"
    first_fit = "first fit of a process over later ones, compiled before"
    report.promises += [
        below("one inference pass, us a position and core", "0.7", measured, microseconds, 0.7),
        below("peak memory of the training process", "600 MB", memory, run.peak_bytes, 600e6),
        below(first_fit, "1 s", f"{before:.2f} s", before, 1),
        below("first fit over later ones, never compiled", "20 s", f"{never:.1f} s", never, 20),
        below("import crfqn (with ChainCRF and all that it needs)", "0.7 s", both, plain, 0.7),
    ]
    report.notes.append(pass_time.describe_chains())
    report.numbers = {"comparisons": comparisons, "inference": pass_time, "first_fit": first}
    report.numbers["import"] = imports
    finish(report, output)


def report_ocr(
    report: Report, l1: float, comparison: Comparison, known: Known | None, optimum: float
) -> None:
    """Add the table of a penalty, and what was asked of it; also how long the last digits take."""
    at, reference = f"l1 = {l1:g}: ", "an independent solver's" if known else "crfqn's own, certified"
    iterations = ", ".join(f"{n} to {level}" for level, n in comparison.iterations.items()) or "none"
    notes = [
        f"Reference optimum {optimum:,.3f} ({reference}); seconds count from the first step.",
        KNOWN_NOTE.format(iterations),
        CRFSUITE_NOTE,
    ]
    columns: dict[str, Any] = {"above": lambda side: f"{side.verdict.objective / optimum - 1:.1e}"}
    report.tables.append(comparison.table(f"l1 = {l1:g}", notes + speed_notes(comparison), **columns))
    report.promises += comparison.promises(at, known, "test accuracy by letter")
    early, late = (comparison.seconds(comparison.crfqn, shown(level)) for level in (1e-3, 1e-6))
    if known and known.tail and early:
        tail = late[0] / early[0] if late else None
        is_met = tail is not None and tail <= known.tail
        measured = number(tail, ".2f", "not reached")
        what = f"{at}crfqn's seconds to 1e-6 over those to 1e-3"
        report.promises.append(Promise(what, f"<= {known.tail:g}", measured, is_met))


def compare_ocr(
    path: str, problem: Problem, l1: float, known: Known | None, n_threads: int | None, repeats: int,
    n_iterations: int | None,
) -> tuple[Comparison, float]:  # fmt: skip
    """Train with both and judge; returns the optimum, too. `n_iterations` of CRFsuite; None: to LAST_LEVEL, 0: none."""
    say(f"l1 = {l1:g}: crfqn")
    tol = 1e-6 if known is None else 1e-4  # where no optimum is known, its own must serve as the reference
    run = run_alone(crfqn_fits.train_chains, path, n_threads, repeats, l1=l1, tol=tol)
    judged = [judge_run(problem, run, l1)]
    optimum = known.optimum if known else judged[0].verdict.objective
    if n_iterations is None:
        needed = known.peer_iterations.get(LAST_LEVEL) if known else None
        n_iterations = MOST_ITERATIONS if needed is None else needed + 5
    if n_iterations:
        say(f"l1 = {l1:g}: CRFsuite, {n_iterations} iterations after a minute or two of preparation")
        to_the_limit: dict[str, Any] = {"epsilon": 0.0, "delta": 0.0}  # no stop by gradient or decrease
        run = run_alone(crfsuite.train, path, {"c1": l1, "c2": 0.0}, True, n_iterations, **to_the_limit)
        judged.append(judge_run(problem, run, l1))
    targets = {shown(level): optimum * (1.0 + level) for level in LEVELS}
    iterations = {shown(level): n for level, n in known.peer_iterations.items()} if known else {}
    return Comparison(judged, targets, iterations=iterations), optimum


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
THEIR_END, OUR_END = "CRFsuite's end", "crfqn's end"


def conll2000(
    penalty: Annotated[list[str] | None, some_of([*SETTINGS])] = None,
    threads: Threads = 2,
    repeats: Repeats = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[
        int | None,
        typer.Option(min=0, help="Iterations of CRFsuite; 0: none; default: all it takes, six minutes."),
    ] = None,
    output: Output = None,
) -> None:
    """Chunking (22 labels, 335,674 features), L1 and L2: crfqn against CRFsuite."""
    from seqeval.metrics import f1_score  # as conlleval has it: a chunk is right if its ends and its type are

    n_iterations = iterations_of_peer(crfsuite_iterations)
    problem = Problem.of_recipe("conll2000")
    report = Report("conll2000", f"CoNLL-2000: {problem.describe_chains('sentences', 'words')}", LIBRARIES)
    report.data["conll2000"] = problem.fingerprint

    def f1(side: Judged) -> float:
        return float(f1_score(problem.y_test, best_labels(problem, side.run.weights, side.run.edges)))

    with stored(problem) as path:
        for name in penalty or SETTINGS:
            setting = SETTINGS[name]
            comparison = compare_conll2000(path, problem, setting, threads, repeats, limit, n_iterations)
            columns: dict[str, Any] = {"F1 of chunks, %": lambda side: f"{100 * f1(side):.2f}"}
            note = "Seconds count from the first step, features in memory before."
            notes = [note, CRFSUITE_NOTE, *speed_notes(comparison)]
            report.tables.append(comparison.table(setting.name, notes, **columns))
            ours = f1(comparison.crfqn)
            asked = f">= {LEAST_F1:.1%}", f"{ours:.2%}", ours >= LEAST_F1
            report.promises.append(Promise(f"{setting.name}: F1 of chunks", *asked))
            report.promises += _promises(setting, comparison)
            report.numbers[name] = {"comparison": comparison, "f1": ours}
    finish(report, output)


def compare_conll2000(
    path: str, problem: Problem, setting: Setting, n_threads: int | None, repeats: int, limit: float,
    n_iterations: int | None,
) -> Comparison:  # fmt: skip
    """Train with both and judge; targets are where each ends."""
    l1, l2 = setting.l1, setting.l2
    own = {"tol": setting.tol, "solver": setting.solver, "max_seconds": limit}
    own |= {"all_possible_states": False, "all_possible_transitions": False}
    say(f"{setting.name}: crfqn")
    run = run_alone(crfqn_fits.train_chains, path, n_threads, repeats, l1=l1, l2=l2, **own)
    sides = {OUR_END: judge_run(problem, run, l1, l2)}
    if n_iterations != 0:
        say(f"{setting.name}: CRFsuite")
        run = run_alone(crfsuite.train, path, {"c1": l1, "c2": l2 / 2}, False, n_iterations)
        sides[THEIR_END] = judge_run(problem, run, l1, l2)
    targets = {f"{level:,.0f}": level for level in setting.earlier}
    # As reported or as recomputed, whichever is larger: rounding does not make an end one that is not reached.
    targets |= {end: max(float(side.run.values[-1]), side.verdict.objective) for end, side in sides.items()}
    return Comparison([*sides.values()], targets)


def _promises(setting: Setting, comparison: Comparison) -> list[Promise]:
    """How many times sooner than CRFsuite, faster and smaller."""
    if comparison.peer is None:
        return []
    at, ours, theirs = f"{setting.name}: ", comparison.crfqn.run.facts, comparison.peer.run.facts
    asked = {THEIR_END: setting.at_its_end} | {f"{level:,.0f}": r for level, r in setting.earlier.items()}
    promises = []
    for target, ratio in asked.items():
        what = f"{at}CRFsuite's seconds to {target} over crfqn's"
        promises.append(times(what, ratio, comparison.speed_up(target), missing="not reached"))
    tagging = ours["tokens_per_second"] / theirs["tokens_per_second"]
    what = at + "words labelled in a second, one thread, over CRFsuite's"
    promises.append(times(what, FASTER_TAGGING, tagging))
    if setting.smaller:
        ratio = theirs["file_bytes"] / ours["file_bytes"]
        promises.append(times(at + "CRFsuite's model file over crfqn's", setting.smaller, ratio))
    return promises
