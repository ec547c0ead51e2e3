"""Text as people bring it: names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn.

Comparisons are made in turns, one process a run and one core for all; seconds are the processor's, after a warm-up.

Training: both minimise -log P + c1 |w|_1 + c2 |w|^2 (crfqn's l2 is 2 c2) over the same pairs of features and labels.
CRFsuite's features are in its own structures when the clock starts, crfqn's in a sparse matrix: what each makes of them
(indices by label, stores by column) counts.

From dicts to a model and from dicts to labels, each library as its users call it: crfqn's `ChainCRF()` with nothing but
its defaults beside `sklearn_crfsuite.CRF(c1=.1, c2=.1)`, and online methods of 20 epochs beside CRFsuite's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import typer
from harness.data import MADE_UP, SOURCES, Texts
from harness.judging import Judged, judge_run
from harness.measuring import peak_memory, processor_times, quietly, run_alone, say
from harness.options import SEVERAL, Output, OwnLimit, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Promise, Report, Table, below, finish, number, shown

from benchmarks import crfsuite, flat
from benchmarks.crfqn_fits import timed_fit

LEVELS = (1e-2, 1e-3, 0.0)  # above CRFsuite's end
LIBRARIES = ["crfqn", "python-crfsuite", "sklearn-crfsuite", "scikit-learn", "numba", "numpy"]
SMALL = ("company", "person")  # of which less is asked
PARTS = ("training", "estimators", "online", "memory", "flat")
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LARGEST = "btc"  # whose memory is asked
LONG = 10.0  # seconds of a fit that is not repeated
ROUGH_STEPS = 8  # of the warm-up on a part
FINE = 1e-7  # tol of a run to another's end
FEW = 60  # items of the warm-up
N_EPOCHS = 20
LENGTH = 20  # words of the single sentence
N_CALLS = 200
OBSERVED = {"all_possible_states": False, "all_possible_transitions": False}


@dataclass(frozen=True)
class Penalty:
    """As CRFsuite names it."""

    c1: float
    c2: float

    @property
    def name(self) -> str:
        if self.c1 == self.c2:
            return f"c1=c2={self.c1:g}"
        return f"c1={self.c1:g}" if self.c1 else f"c2={self.c2:g}"

    @property
    def strengths(self) -> dict[str, float]:
        """As crfqn has them."""
        return {"l1": self.c1, "l2": 2 * self.c2}


PENALTIES = (Penalty(1, 0), Penalty(0.1, 0.1), Penalty(0, 0.1), Penalty(0, 1))


@dataclass(frozen=True, eq=False)
class Training:
    """Runs of one set at one penalty, by turns: crfqn's first, and that which went on to CRFsuite's end, or None."""

    name: str
    describe: str
    penalty: Penalty
    all_pairs: bool
    ours: list[tuple[Run, Run | None]]
    theirs: list[Run]
    judged: dict[str, Judged]

    @property
    def optimum(self) -> float:
        """The least objective of any run."""
        runs = [*(run for pair in self.ours for run in pair if run), *self.theirs]
        return min(run.values.min() for run in runs)


def compare(
    texts: Texts, problem: Problem, path: str, penalty: Penalty, repeats: int, limit: float,
    n_iterations: int | None, has_peers: bool,
) -> Training:  # fmt: skip
    """Train with both, in turns; n_iterations : of CRFsuite, None: all it takes."""
    say(f"{texts.name}, {penalty.name}")
    ours: list[tuple[Run, Run | None]] = []
    theirs: list[Run] = []
    pairs, as_theirs = texts.all_pairs, {"c1": penalty.c1, "c2": penalty.c2}
    for _ in range(repeats):
        target = -np.inf
        if has_peers:
            theirs.append(
                run_alone(crfsuite.train, path, as_theirs, pairs, n_iterations, clock="processor_seconds")
            )
            target = float(theirs[0].values.min())
        ours.append(run_alone(train, path, penalty, pairs, target, limit))
        if max(run.seconds[-1] for run in (*theirs, ours[-1][0])) > LONG:
            break
    firsts = [("crfqn", ours[0][0]), *(("CRFsuite", run) for run in theirs[:1])]
    judged = {name: judge_run(problem, run, penalty.c1, 2 * penalty.c2) for name, run in firsts}
    return Training(texts.name, texts.describe(), penalty, pairs, ours, theirs, judged)


def train(
    path: str, penalty: Penalty, all_pairs: bool, target: float, limit: float
) -> tuple[Run, Run | None]:
    """crfqn to 1e-3, and, if it has not got so far, once more until `target`."""
    problem: Problem = read_stored(path)
    make = maker(penalty, all_pairs)
    with quietly():  # the compiled code is loaded: some steps on a few items, and one on all
        part = problem.part(max(min(len(problem.y_train) // 3, FEW), 1))
        make(max_iter=ROUGH_STEPS).fit(part.X_train, part.y_train)
        make(max_iter=1).fit(problem.X_train, problem.y_train)
    first = timed_fit(make(), problem, "processor", limit=limit)
    if first.values.min() <= target or not np.isfinite(target):
        return first, None
    return first, timed_fit(make(tol=FINE, max_iter=5000), problem, "processor", target, limit)


def maker(penalty: Penalty, all_pairs: bool) -> Any:
    """Makes estimators with this penalty over these pairs, on one thread."""
    from crfqn import ChainCRF

    pairs = {"all_possible_states": all_pairs, "all_possible_transitions": all_pairs}
    return partial(ChainCRF, **penalty.strengths, **pairs, n_threads=1, tol=1e-3)


class Use(NamedTuple):
    """How long a fit takes and what it is worth; words labelled a second, seconds for one sentence; bytes."""

    seconds: float
    accuracy: float
    tokens_per_second: float
    one_sentence: float
    peak_bytes: int
    note: str


def make(kind: str) -> Any:
    """Make an untrained estimator: "crfqn", "CRFsuite", or either with " ap" or " pa" behind it."""
    library, _, online = kind.partition(" ")
    if library == "crfqn":
        from crfqn import ChainCRF

        solver = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}.get(online)
        return ChainCRF(n_threads=1, **({"solver": solver, **OBSERVED} if solver else {}))
    from sklearn_crfsuite import CRF

    return CRF(algorithm=online, max_iterations=N_EPOCHS) if online else CRF(c1=0.1, c2=0.1)


def use(path: str, kind: str, repeats: int) -> Use:
    """Fit on the dicts of stored texts, label those of the test part."""
    texts: Texts = read_stored(path)
    X, X_test = texts.dicts
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few = max(len(X) // 10, 5)
        make(kind).fit(X[:few], texts.y_train[:few]).predict(X_test[:1])  # loads compiled code
        seconds = []
        caught.clear()
        for _ in range(repeats):
            model, began = make(kind), process_time()
            model.fit(X, texts.y_train)
            seconds.append(process_time() - began)
    is_right = np.concatenate(model.predict(X_test)) == np.concatenate(texts.y_test)
    one = next((item for item in X_test if len(item) == LENGTH), max(X_test, key=len))
    say(f"  {kind}: {np.median(seconds):.2f} s")
    return Use(
        float(np.median(seconds)),
        float(np.mean(is_right)),
        is_right.size / min(processor_times(lambda: model.predict(X_test), 3)),
        min(processor_times(lambda: [model.predict([one]) for _ in range(N_CALLS)], 5)) / N_CALLS,
        peak_memory(),
        "; ".join(sorted({str(warning.message).split("\n")[0] for warning in caught})),
    )


def fit_memory(path: str, library: str) -> tuple[int, int]:
    """The bytes of a process that has imported the library, and its peak when it has trained on stored columns.

    CRFsuite gets an item at a time; both hold the stored matrix as well.
    """
    if library == "crfqn":
        import crfqn.estimators.chain  # noqa: F401
    else:
        import pycrfsuite  # noqa: F401
    before = peak_memory()
    if library == "crfqn":
        problem: Problem = read_stored(path)
        maker(PENALTIES[0], False)().fit(problem.X_train, problem.y_train)
        return before, peak_memory()
    return before, crfsuite.train(path, {"c1": 1.0, "c2": 0.0}, False, n_iterations=5).peak_bytes


def seconds_above_end(training: Training, level: float) -> tuple[list[float], list[float]]:
    """Seconds of crfqn and of CRFsuite, turn by turn, to `level` above CRFsuite's end; inf where it was not reached."""
    ours: list[float] = []
    theirs: list[float] = []
    for (first, finished), peer in zip(training.ours, training.theirs, strict=True):
        end = float(peer.values.min())
        runs = (first, finished or first)
        seconds = next((s for run in runs if (s := run.seconds_to(end, level)) is not None), np.inf)
        ours.append(seconds)
        its = peer.seconds_to(end, level)
        theirs.append(peer.facts["total"] if level == 0.0 else np.nan if its is None else its)
    return ours, theirs


def speed_up(training: Training, level: float) -> float:
    """CRFsuite's seconds over crfqn's: the median of the turns; nan without CRFsuite."""
    ours, theirs = seconds_above_end(training, level)
    return float(np.median(np.divide(theirs, ours))) if theirs else np.nan


def training_promises(trainings: Sequence[Training]) -> list[Promise]:
    """How many times sooner than CRFsuite: on every set, and in the median; and that no fit warns."""
    promises = []
    for of, has_l1, level, least, small, middle in (
        ("l1", True, 1e-3, 3.0, 2.0, 6.0),
        ("l1", True, 0.0, 6.0, 3.0, 12.0),
        ("c2 alone", False, 1e-3, 3.0, 2.0, 4.0),
        ("c2 alone", False, 0.0, 3.0, 2.0, 4.0),
    ):
        runs = [each for each in trainings if each.theirs and (each.penalty.c1 > 0) == has_l1]
        if not runs:
            continue
        ratios = {f"{each.name}, {each.penalty.name}": speed_up(each, level) for each in runs}
        asked = {name: small if name.split(",")[0] in SMALL else least for name in ratios}
        worst = min(ratios, key=lambda name: ratios[name] / asked[name])
        median = float(np.median([*ratios.values()]))
        few = sum(ratios[name] >= asked[name] for name in ratios)
        where = f"{of}, to {f'{shown(level)} above ' if level else ''}CRFsuite's end"
        on_every = f"{least:g} times ({small:g} on the small sets)"
        at_worst = f"{ratios[worst]:.1f} times ({worst}); met by {few} of {len(ratios)}"
        promises.append(Promise(f"{where}: worst", on_every, at_worst, few == len(ratios)))
        measured = f"{median:.1f} times"
        promises.append(Promise(f"{where}: median", f"{middle:g} times", measured, median >= middle))
    for training in trainings:
        messages = training.ours[0][0].facts["warnings"]
        what = f"{training.name}, {training.penalty.name}: warnings of a fit"
        promises.append(Promise(what, "none", messages[0][:60] if messages else "none", not messages))
    return promises


def use_promises(uses: dict[str, dict[str, Use]]) -> list[Promise]:
    """Fits from dicts and online ones: how many times sooner, and what accuracy they lose; labelling."""
    promises: list[Promise] = []
    for kind, what, every, middle, points in (
        ("", "fit from dicts", 1.0, 5.0, 0.1),
        (" ap", "averaged perceptron", 2.0, 2.0, 0.2),
    ):
        pairs = {
            name: (kinds["CRFsuite" + kind], kinds["crfqn" + kind])
            for name, kinds in uses.items()
            if "CRFsuite" + kind in kinds
        }
        if not pairs:
            continue
        ratios = {name: theirs.seconds / ours.seconds for name, (theirs, ours) in pairs.items()}
        promises += _ratio_promises(f"{what}: CRFsuite's seconds over crfqn's", ratios, every, middle)
        lost, name = max(
            (100 * (theirs.accuracy - ours.accuracy), name) for name, (theirs, ours) in pairs.items()
        )
        accuracy = f"{what}: points of accuracy lost, at most"
        promises.append(Promise(accuracy, f"{points:g}", f"{lost:.2f} ({name})", lost <= points))
        if not kind:
            speeds = {n: own.tokens_per_second / their.tokens_per_second for n, (their, own) in pairs.items()}
            labelling = "dicts to labels: crfqn's words a second over CRFsuite's"
            promises += _ratio_promises(labelling, speeds, 1.5, 1.5)
            slowest = max(1e6 * ours.one_sentence for _, ours in pairs.values())
            what = "one sentence of 20 words, us, at most"
            promises.append(below(what, "150", f"{slowest:.0f}", slowest, 150))
    return promises


def _ratio_promises(what: str, ratios: dict[str, float], every: float, middle: float) -> list[Promise]:
    worst, median = min(ratios, key=ratios.__getitem__), float(np.median(list(ratios.values())))
    at_worst = f"{ratios[worst]:.2f} ({worst})"
    promises = [Promise(f"{what}, worst", f"{every:g} times", at_worst, ratios[worst] >= every)]
    if len(ratios) > 1:
        promises.append(Promise(f"{what}, median", f"{middle:g} times", f"{median:.2f}", median >= middle))
    return promises


def training_table(trainings: Sequence[Training]) -> Table:
    """A set at a penalty a row."""

    def to_levels(training: Training, side: int) -> str:
        if not training.theirs:
            return "-"
        middles = [float(np.median(seconds_above_end(training, level)[side])) for level in LEVELS]
        return " / ".join(f"{middle:.2f}" if np.isfinite(middle) else "not reached" for middle in middles)

    columns: dict[str, Callable[[Training], str]] = {
        "data": lambda each: each.name,
        "penalty": lambda each: each.penalty.name,
        "CRFsuite: 1e-2 / 1e-3 / end, s": lambda each: to_levels(each, 1),
        "crfqn: the same / until it stops, s": lambda each: (
            f"{to_levels(each, 0)} / {np.median([first.facts['total'] for first, _ in each.ours]):.2f}"
        ),
        "ratios": lambda each: (
            " / ".join(f"{speed_up(each, level):.1f}" for level in LEVELS) if each.theirs else "-"
        ),
        "above the optimum at its stop": lambda each: (
            f"{each.judged['crfqn'].verdict.objective / each.optimum - 1:.1e}"
        ),
        "estimated": lambda each: f"{each.ours[0][0].facts['estimated_gap']:.1e}",
        "certified": lambda each: f"{each.ours[0][0].facts['gap']:.1e}",
        "test accuracy: CRFsuite, crfqn": lambda each: ", ".join(
            f"{each.judged[name].verdict.accuracy:.4f}" if name in each.judged else "-"
            for name in ("CRFsuite", "crfqn")
        ),
        "ended": lambda each: each.ours[0][0].facts["status"].lower(),
    }
    all_pairs = sorted({each.name for each in trainings if each.all_pairs})
    notes = [
        "Seconds of the processor since the features are in memory, to 1e-2 and 1e-3 above the objective at which "
        "CRFsuite ends and to that end; medians of the turns. Ratios: CRFsuite's over crfqn's.",
        "Objectives are recomputed from the weights by a judge of its own; the optimum is the least of any run.",
        f"All pairs of features and labels have weights in {', '.join(all_pairs or ['none of them'])}, elsewhere "
        "those that occur.",
        *{each.name: f"{each.name}: {each.describe}" for each in trainings}.values(),
    ]
    return Table.of("Training", columns, trainings, notes)


def use_table(uses: dict[str, dict[str, Use]]) -> Table:
    columns: dict[str, Callable[[tuple[str, str, Use]], str]] = {
        "data": lambda entry: entry[0],
        "": lambda entry: entry[1],
        "fit from dicts, s": lambda entry: f"{entry[2].seconds:.2f}",
        "test accuracy": lambda entry: f"{entry[2].accuracy:.4f}",
        "words labelled a second": lambda entry: f"{entry[2].tokens_per_second:,.0f}",
        "one sentence, us": lambda entry: f"{1e6 * entry[2].one_sentence:.0f}",
        "says": lambda entry: entry[2].note[:60],
    }
    entries = [(name, kind, use) for name, kinds in uses.items() for kind, use in kinds.items()]
    note = (
        "crfqn: `ChainCRF()`, with its defaults; CRFsuite: `sklearn_crfsuite.CRF(c1=.1, c2=.1)`; ap and pa: both "
        "libraries' averaged perceptron and passive-aggressive learning over the pairs that occur, at most 20 epochs. "
        "Dicts to labels on the test part, the least of three."
    )
    return Table.of("From dicts", columns, entries, [note])


def text(
    data: Annotated[list[str] | None, some_of([*SOURCES])] = None,
    penalty: Annotated[list[str] | None, some_of([each.name for each in PENALTIES])] = None,
    part: Annotated[
        list[str] | None, some_of(PARTS, f"{SEVERAL[:-1]}; default: all, memory of btc alone.")
    ] = None,
    flat_data: Annotated[
        list[str] | None, some_of([*flat.WITH_L2], "Of the part flat; default: all, none if --data is given.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; a fit above 10 s is made once.")] = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of CRFsuite; default: all it takes, minutes.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A made-up set: seconds, says nothing.")] = False,
    output: Output = None,
) -> None:
    """Names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn, one core."""
    parts = part or [*PARTS]
    if quick:
        data, repeats = [MADE_UP], 1
    penalties = [each for each in PENALTIES if penalty is None or each.name in penalty][
        : 1 if quick else None
    ]
    has_peers = crfsuite.is_installed() and find_spec("sklearn_crfsuite") is not None
    if not has_peers:
        say("CRFsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    report = Report("text", "Text as people bring it, one core", LIBRARIES)
    trainings: list[Training] = []
    uses: dict[str, dict[str, Use]] = {}
    memory: dict[str, dict[str, tuple[int, int]]] = {}
    with patch.dict(os.environ, ONE_CORE):
        for name in data or SOURCES:
            texts = Texts.load(name)
            say(f"{name}: {texts.describe()}")
            if {"training", "memory"} & {*parts}:
                problem = texts.problem()
                report.data[name] = problem.fingerprint
                with stored(problem) as path:
                    for each in penalties if "training" in parts else ():
                        limits = repeats, limit, crfsuite_iterations, has_peers
                        trainings.append(compare(texts, problem, path, each, *limits))
                    if "memory" in parts and (name == LARGEST or parts == ["memory"]):
                        libraries = ("crfqn", "CRFsuite") if has_peers else ("crfqn",)
                        memory[name] = {each: run_alone(fit_memory, path, each) for each in libraries}
            kinds = [""] * ("estimators" in parts) + [" ap", " pa"] * ("online" in parts)
            if kinds:
                n_fits = 1 if texts.n_tokens > 50_000 else repeats
                libraries = ("CRFsuite", "crfqn") if has_peers else ("crfqn",)
                names = [library + kind for kind in kinds for library in libraries]
                with stored(texts) as path:
                    uses[name] = {each: run_alone(use, path, each, n_fits) for each in names}
        flat_sets = (flat_data or ([] if data else [*flat.WITH_L2])) if "flat" in parts else []
        flats = [flat.compare_dense(name, repeats) for name in flat_sets]
    if trainings:
        report.tables.append(training_table(trainings))
        report.promises += training_promises(trainings)
    if uses:
        report.tables.append(use_table(uses))
        report.promises += use_promises(uses)
    for name, by_library in memory.items():
        used = {library: peak - before for library, (before, peak) in by_library.items()}
        sizes = ", ".join(f"{library} {size / 1e6:.0f} MB" for library, size in used.items())
        ratio = used["crfqn"] / used["CRFsuite"] if "CRFsuite" in used else None
        what, is_met = f"{name}: memory of a fit above the imported process", ratio is not None and ratio <= 2
        measured = f"{sizes}: {number(ratio, '.2f')} times"
        report.promises.append(Promise(what, "at most twice CRFsuite's", measured, is_met if ratio else None))
    if flats:
        report.tables.append(flat.dense_table(flats))
        ratios = {each["name"]: each["ratio"] for each in flats}
        report.promises += _ratio_promises(
            "flat L2: LogisticRegression's seconds over crfqn's", ratios, 1.0, 2.0
        )
    optima = {f"{each.name}, {each.penalty.name}": each.optimum for each in trainings}
    report.numbers = {"optima": optima, "trainings": trainings, "uses": uses}
    report.numbers |= {"memory": memory, "flats": flats}
    finish(report, output)
