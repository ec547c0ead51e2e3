"""Text as people bring it, on one objective: crfqn against CRFsuite, from features in memory.

Comparisons are made by turns, one process a run and one core for all; seconds are the processor's, after a warm-up.
Both minimise -log P + c1 |w|_1 + c2 |w|^2 (crfqn's l2 is 2 c2) over the same pairs of features and labels. CRFsuite's
features are in its own structures when the clock starts, crfqn's in a sparse matrix: what each makes of them (indices
by label, stores by column) counts.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Results, Section, by_turns
from harness.data import MADE_UP, SOURCES, Texts
from harness.judging import judge_run
from harness.measuring import peak_memory, quietly, run_alone, say
from harness.options import SEVERAL, Full, Output, OwnLimit, Quick, Repeats, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Record, Table

from benchmarks import crfsuite, flat
from benchmarks.crfqn_fits import timed_fit

LEVELS = {"1e-2": 1e-2, "1e-3": 1e-3, "end": 0.0}  # above CRFsuite's end
LIBRARIES = ["crfqn", "python-crfsuite", "scikit-learn", "numba", "numpy"]
PARTS = ("training", "memory", "flat")
PENALTIES = {
    "c1=1": (1.0, 0.0),
    "c1=c2=0.1": (0.1, 0.1),
    "c2=0.1": (0.0, 0.1),
    "c2=1": (0.0, 1.0),
}  # c1 and c2
MILD = "c2=0.1"  # of --full
LONG = ("conll2000-2000", "btc", "conll2000", "dutch-xpos")  # CRFsuite takes minutes
FINE = 1e-7  # tol of a run to another's end
FEW, ROUGH_STEPS = 60, 8  # items and steps of the warm-up


def measure_training(name: str, penalty: str, turns: int, limit: float, n_iterations: int | None) -> Record:
    """Train with both by turns; n_iterations : of CRFsuite, None: all it takes."""
    texts = Texts.load(name)
    problem, (c1, c2), pairs = texts.problem(), PENALTIES[penalty], texts.all_pairs
    theirs: list[Run] = []
    ours: list[tuple[Run, Run]] = []
    with stored(problem) as path:
        for _ in range(turns):
            if find_spec("pycrfsuite"):
                theirs.append(run_alone(crfsuite.train, path, {"c1": c1, "c2": c2}, pairs, n_iterations))
            target = float(theirs[0].values.min()) if theirs else -np.inf
            ours.append(run_alone(train, path, penalty, pairs, target, limit))
    first = ours[0][0]
    verdicts = [judge_run(problem, run, c1, 2 * c2).verdict for run in (first, *theirs[:1])]
    optimum = min(run.values.min() for run in (*(run for pair in ours for run in pair), *theirs))
    seconds: dict[str, dict[str, list[Any]]] = {"crfqn": {}, "CRFsuite": {}}
    for level, share in LEVELS.items() if theirs else ():
        goal = target * (1.0 + share)
        seconds["crfqn"][level] = [
            next((s for run in pair if (s := run.seconds_to(goal)) is not None), None) for pair in ours
        ]
        seconds["CRFsuite"][level] = [
            run.facts["total"] if level == "end" else run.seconds_to(goal) for run in theirs
        ]
    return {
        "data": problem.fingerprint, "about": texts.describe(), "all_pairs": pairs, "seconds": seconds,
        "until_stop": [run.facts["total"] for run, _ in ours], "above": verdicts[0].objective / optimum - 1,
        "estimated": first.facts["estimated_gap"], "certified": first.facts["gap"], "status": first.facts["status"],
        "warnings": first.facts["warnings"], "accuracy": [verdict.accuracy for verdict in verdicts[::-1]],
    }  # fmt: skip


def train(path: str, penalty: str, all_pairs: bool, target: float, limit: float) -> tuple[Run, Run]:
    """crfqn to 1e-3, and, if it has not got so far, once more until `target`."""
    problem: Problem = read_stored(path)
    make = maker(penalty, all_pairs)
    with quietly():  # the compiled code is loaded: some steps on a few items, and one on all
        part = problem.part(max(min(len(problem.y_train) // 3, FEW), 1))
        make(max_iter=ROUGH_STEPS).fit(part.X_train, part.y_train)
        make(max_iter=1).fit(problem.X_train, problem.y_train)
    first = timed_fit(make(), problem, limit=limit)
    if first.values.min() <= target or not np.isfinite(target):
        return first, first
    return first, timed_fit(make(tol=FINE, max_iter=5000), problem, target, limit)


def maker(penalty: str, all_pairs: bool) -> Any:
    """Makes estimators with this penalty over these pairs, on one thread."""
    from crfqn import ChainCRF

    c1, c2 = PENALTIES[penalty]
    pairs = {"all_possible_states": all_pairs, "all_possible_transitions": all_pairs}
    return partial(ChainCRF, l1=c1, l2=2 * c2, **pairs, n_threads=1, tol=1e-3)


def fit_memory(path: str, library: str) -> int:
    """The bytes by which the peak of a process that trains on stored columns is above that of one that has imported
    the library.

    CRFsuite gets an item at a time; both hold the stored matrix as well.
    """
    if library == "crfqn":
        import crfqn.estimators.chain  # noqa: F401
    else:
        import pycrfsuite  # noqa: F401
    before = peak_memory()
    if library == "CRFsuite":
        run = crfsuite.train(path, {"c1": 1.0, "c2": 0.0}, False, n_iterations=5)
        return run.peak_bytes - before
    problem: Problem = read_stored(path)
    maker("c1=1", False)().fit(problem.X_train, problem.y_train)
    return peak_memory() - before


def measure_memory(name: str, turns: int) -> Record:
    problem = Texts.load(name).problem()
    libraries = ["crfqn", *(["CRFsuite"] if find_spec("pycrfsuite") else [])]
    with stored(problem) as path:
        tasks = {each: partial(fit_memory, path, each) for each in libraries}
        return {"data": problem.fingerprint, "bytes": by_turns(tasks, turns)}


def training_section(records: list[Record]) -> Section:
    """A set at a penalty a row."""

    def median(values: list[Any]) -> float:
        return float(np.median([np.nan if value is None else value for value in values]))

    def seconds(record: Record, library: str) -> str:
        middles = [median(values) for values in record["seconds"][library].values()]
        return " / ".join("-" if np.isnan(each) else f"{each:.2f}" for each in middles)

    def ratios(record: Record) -> list[float]:
        by_level = zip(*(record["seconds"][name].values() for name in ("CRFsuite", "crfqn")), strict=True)
        return [median([a / b if a and b else None for a, b in zip(*pair, strict=True)]) for pair in by_level]

    rows = []
    for each in records:
        until_stop = f"{seconds(each, 'crfqn')} / {median(each['until_stop']):.2f}"
        rows.append([
            each["set"], each["penalty"], seconds(each, "CRFsuite"), until_stop,
            " / ".join(f"{ratio:.1f}" for ratio in ratios(each)), f"{each['above']:.1e}",
            f"{each['estimated']:.1e}", f"{each['certified'] or np.nan:.1e}",
            ", ".join(f"{right:.4f}" for right in each["accuracy"]), "; ".join(each["warnings"])[:60],
        ])  # fmt: skip
    head = [
        "data",
        "penalty",
        "CRFsuite: 1e-2 / 1e-3 / end, s",
        "crfqn: the same / until it stops, s",
        "ratios",
    ]
    head += ["above the optimum at its stop", "estimated", "certified", "test accuracy: CRFsuite, crfqn"]
    head += ["warnings"]
    all_pairs = sorted({each["set"] for each in records if each["all_pairs"]})
    notes = [
        "Processor seconds since the features are in memory, to 1e-2 and 1e-3 above the objective at which CRFsuite "
        "ends and to that end; medians of the turns. Ratios: CRFsuite's over crfqn's.",
        "Objectives are recomputed from the weights by a judge of its own; the optimum is the least of any run.",
        f"All pairs of features and labels have weights in {', '.join(all_pairs or ['none'])}, elsewhere those that "
        "occur.",
        *{each["set"]: f"{each['set']}: {each['about']}" for each in records}.values(),
    ]
    overall = []
    for what, has_l1 in (("L1", True), ("L2 alone", False)):
        chosen = [ratios(each) for each in records if (PENALTIES[each["penalty"]][0] > 0) == has_l1]
        table = np.array([each for each in chosen if each])
        for level, column in zip(LEVELS, table.T, strict=False):
            above = "" if level == "end" else f"{level} above "
            words = f"{what}: seconds to {above}CRFsuite's end, median of {column.size}"
            overall.append(Ratio(words, float(np.nanmedian(column)), "ChainCRF", "CRFsuite"))
    return Section([Table("Training", head, rows, notes).without_empty_columns()], overall)


def section(records: list[Record]) -> Section:
    """The sections of the parts, one after the other."""
    sections = []
    for part, make in zip(PARTS, (training_section, memory_section, flat.l2_section), strict=True):
        chosen = [each for each in records if each["part"] == part]
        sections += [make(chosen)] if chosen else []
    tables = [table for each in sections for table in each.tables]
    return Section(tables, [ratio for each in sections for ratio in each.ratios])


def memory_section(records: list[Record]) -> Section:
    sizes = [[f"{np.median(each) / 1e6:.0f}" for each in record["bytes"].values()] for record in records]
    rows = [[record["set"], *cells] for record, cells in zip(records, sizes, strict=True)]
    head = ["data", *records[0]["bytes"]]
    return Section([Table("Memory of a fit above the imported process, MB", head, rows)])


TEXT = Comparison(
    "text", "Names, tags and chunks on one objective, against CRFsuite; flat classes with L2",
    "Names of companies and people, parts of speech, chunks and tweets with the features of `crfqn.word_features`; "
    "`--full` adds the sets on which CRFsuite takes minutes. The part `flat` has `MulticlassCRF` with an L2 penalty "
    "alone beside `LogisticRegression(solver='lbfgs')`.",
    LIBRARIES, section, ["", "--full"],
)  # fmt: skip


def text(
    data: Annotated[list[str] | None, some_of([*SOURCES])] = None,
    penalty: Annotated[list[str] | None, some_of([*PENALTIES])] = None,
    part: Annotated[
        list[str] | None,
        some_of(PARTS, f"{SEVERAL[:-1]}; default: training and flat; --full: memory of btc, too."),
    ] = None,
    flat_data: Annotated[
        list[str] | None,
        some_of([*flat.WITH_L2], "Of the part flat; default: all but mnist, none if --data is given."),
    ] = None,
    repeats: Repeats = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of CRFsuite; default: all it takes.")
    ] = None,
    full: Full = False,
    quick: Quick = False,
    output: Output = None,
) -> None:
    """Names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn, one core."""
    parts, results = part or ["training", *["memory"] * full, "flat"], Results(TEXT, output)
    repeats = 1 if quick else repeats
    sets = [MADE_UP] if quick else data or [each for each in SOURCES if full or each not in LONG]
    if not find_spec("pycrfsuite"):
        say("CRFsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    for name in sets if "training" in parts else ():
        for each in (penalty or [each for each in PENALTIES if full or each != MILD])[: 1 if quick else None]:
            case = {"part": "training", "set": name, "penalty": each, "repeats": repeats}
            case["iterations"] = crfsuite_iterations
            limits = repeats, limit, crfsuite_iterations
            results.case(case, partial(measure_training, name, each, *limits))
    for name in sets if parts == ["memory"] else ["btc"] * ("memory" in parts and not (data or quick)):
        results.case({"part": "memory", "set": name}, partial(measure_memory, name, 1))
    default_sets = [] if data or quick else [each for each in flat.WITH_L2 if full or each != "mnist"]
    flat_sets = flat_data or default_sets
    for name in flat_sets if "flat" in parts else ():
        case = {"part": "flat", "flat_data": name, "repeats": repeats}
        results.case(case, partial(flat.measure_l2, name, repeats))
    results.finish()
