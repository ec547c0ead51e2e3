"""Tables of `benchmark.py text`, what was asked of it, and whether that is met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from harness.problems import Run
from harness.report import Promise, Report, Table, shown

from benchmarks.flat import dense_table
from benchmarks.text import Measured, Training, Use

LEVELS = (1e-2, 1e-3, 0.0)  # above CRFsuite's end
DISTANCES = (1e-3, 1e-4, 1e-5)  # from the optimum
LIBRARIES = ["crfqn", "python-crfsuite", "sklearn-crfsuite", "scikit-learn", "numba", "numpy"]
SMALL = ("company", "person")  # of which less is asked


def report(measured: Measured) -> Report:
    """Everything that was measured, and what of it was asked."""
    found = Report("text", "Text as people bring it, one core", LIBRARIES)
    trainings = measured.trainings
    if any(each.ours for each in trainings):
        found.tables.append(training_table(trainings))
        found.promises += training_promises(trainings)
    if any(each.reference for each in trainings):
        found.tables.append(certificate_table(trainings))
    if measured.uses:
        found.tables.append(use_table(measured.uses))
        found.promises += use_promises(measured.uses)
    found.promises += memory_promises(measured.memory)
    if measured.flats:
        found.tables.append(dense_table(measured.flats))
        ratios = {each.name: each.ratio for each in measured.flats}
        found.promises += _ratio_promises(
            "flat L2: LogisticRegression's seconds over crfqn's", ratios, 1.0, 2.0
        )
    uses = {name: {kind: use._asdict() for kind, use in uses.items()} for name, uses in measured.uses.items()}
    found.numbers = {
        "trainings": [training_numbers(each) for each in trainings],
        "uses": uses,
        "memory": measured.memory,
        "flat": [asdict(each) for each in measured.flats],
    }
    return found


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
    """How many times sooner than CRFsuite: on every set, and in the median."""
    with_l1 = [each for each in trainings if each.penalty.c1 and each.theirs]
    without = [each for each in trainings if not each.penalty.c1 and each.theirs]
    promises = []
    for of, runs, level, least, small, middle in (
        ("l1", with_l1, 1e-3, 3.0, 2.0, 6.0),
        ("l1", with_l1, 0.0, 6.0, 3.0, 12.0),
        ("c2 alone", without, 1e-3, 3.0, 2.0, 4.0),
        ("c2 alone", without, 0.0, 3.0, 2.0, 4.0),
    ):
        promises += _sooner(of, runs, level, least, small, middle)
    for training in trainings:
        for run, _ in training.ours[:1]:
            said = run.facts["warnings"]
            what = f"{training.name}, {training.penalty.name}: warnings of a fit"
            promises.append(Promise(what, "none", said[0][:60] if said else "none", not said))
    return promises


def _sooner(
    of: str, runs: Sequence[Training], level: float, least: float, small: float, middle: float
) -> list[Promise]:
    if not runs:
        return []
    where = "to CRFsuite's end" if level == 0.0 else f"to {shown(level)} above CRFsuite's end"
    ratios = {f"{each.name}, {each.penalty.name}": speed_up(each, level) for each in runs}
    asked = {f"{each.name}, {each.penalty.name}": small if each.name in SMALL else least for each in runs}
    worst = min(ratios, key=lambda name: ratios[name] / asked[name])
    median = float(np.median(list(ratios.values())))
    few = sum(ratios[name] >= asked[name] for name in ratios)
    on_every = f"{least:g} times ({small:g} on the small sets)"
    found = f"{ratios[worst]:.1f} times ({worst}); met by {few} of {len(ratios)}"
    return [
        Promise(f"{of}, {where}: worst", on_every, found, few == len(ratios)),
        Promise(f"{of}, {where}: median", f"{middle:g} times", f"{median:.1f} times", median >= middle),
    ]


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
        losses = {name: 100 * (theirs.accuracy - ours.accuracy) for name, (theirs, ours) in pairs.items()}
        worst = max(losses, key=losses.__getitem__)
        lost, accuracy = f"{losses[worst]:.2f} ({worst})", f"{what}: points of accuracy lost, at most"
        promises.append(Promise(accuracy, f"{points:g}", lost, losses[worst] <= points))
        if not kind:
            speeds = {
                n: ours.tokens_per_second / theirs.tokens_per_second for n, (theirs, ours) in pairs.items()
            }
            labelling = "dicts to labels: crfqn's words a second over CRFsuite's"
            promises += _ratio_promises(labelling, speeds, 1.5, 1.5)
            slowest = max(1e6 * ours.one_sentence for _, ours in pairs.values())
            what = "one sentence of 20 words, us, at most"
            promises.append(Promise(what, "< 150", f"{slowest:.0f}", slowest < 150))
    return promises


def _ratio_promises(what: str, ratios: dict[str, float], every: float, middle: float) -> list[Promise]:
    worst, median = min(ratios, key=ratios.__getitem__), float(np.median(list(ratios.values())))
    found = f"{ratios[worst]:.2f} ({worst})"
    promises = [Promise(f"{what}, worst", f"{every:g} times", found, ratios[worst] >= every)]
    if len(ratios) > 1:
        promises.append(Promise(f"{what}, median", f"{middle:g} times", f"{median:.2f}", median >= middle))
    return promises


def memory_promises(memory: dict[str, dict[str, tuple[int, int]]]) -> list[Promise]:
    """A fit of crfqn beside one of CRFsuite."""
    promises = []
    for name, of in memory.items():
        used = {library: peak - before for library, (before, peak) in of.items()}
        text = ", ".join(f"{library} {size / 1e6:.0f} MB" for library, size in used.items())
        ratio = used["crfqn"] / used["CRFsuite"] if "CRFsuite" in used else np.nan
        what, is_met = (
            f"{name}: memory of a fit above the imported process",
            None if np.isnan(ratio) else ratio <= 2,
        )
        promises.append(Promise(what, "at most twice CRFsuite's", f"{text}: {ratio:.2f} times", is_met))
    return promises


def training_table(trainings: Sequence[Training]) -> Table:
    """A set at a penalty a row."""
    columns: dict[str, Callable[[Training], str]] = {
        "data": lambda each: each.name,
        "penalty": lambda each: each.penalty.name,
        "CRFsuite: 1e-2 / 1e-3 / end, s": lambda each: _to_levels(each, 1),
        "crfqn: the same / until it stops, s": lambda each: (
            f"{_to_levels(each, 0)} / {_until_stop(each):.2f}"
        ),
        "ratios": _ratios,
        "above the optimum at its stop": lambda each: (
            f"{each.judged['crfqn'].verdict.objective / each.optimum - 1:.1e}"
        ),
        "estimated": lambda each: f"{each.ours[0][0].facts['estimated_gap']:.1e}",
        "certified": lambda each: f"{each.ours[0][0].facts['gap']:.1e}",
        "test accuracy: CRFsuite, crfqn": _accuracies,
        "ended": lambda each: each.ours[0][0].facts["status"].lower(),
    }
    all_pairs = sorted({each.name for each in trainings if each.all_pairs})
    sizes = {each.name: f"{each.name}: {each.describe}" for each in trainings}
    notes = [
        "Seconds of the processor since the features are in memory, to 1e-2 and 1e-3 above the objective at which "
        "CRFsuite ends and to that end; medians of the turns. Ratios: CRFsuite's over crfqn's.",
        "Objectives are recomputed from the weights by a judge of its own; the optimum is the least of any run.",
        f"All pairs of features and labels have weights in {', '.join(all_pairs or ['none of them'])}, elsewhere "
        "those that occur.",
        *sizes.values(),
    ]
    return Table.of("Training", columns, [each for each in trainings if each.ours], notes)


def _to_levels(training: Training, side: int) -> str:
    """Median seconds to each level above CRFsuite's end; side 0: crfqn's, 1: CRFsuite's."""
    if not training.theirs:
        return "-"
    return " / ".join(_seconds(seconds_above_end(training, level)[side]) for level in LEVELS)


def _until_stop(training: Training) -> float:
    return float(np.median([first.facts["total"] for first, _ in training.ours]))


def _ratios(training: Training) -> str:
    return " / ".join(f"{speed_up(training, level):.1f}" for level in LEVELS) if training.theirs else "-"


def _accuracies(training: Training) -> str:
    judged = (training.judged.get(name) for name in ("CRFsuite", "crfqn"))
    return ", ".join(f"{each.verdict.accuracy:.4f}" if each else "-" for each in judged)


def _seconds(values: Sequence[float]) -> str:
    middle = float(np.median(values)) if len(values) else np.inf
    return f"{middle:.2f}" if np.isfinite(middle) else "not reached"


def certificate_table(trainings: Sequence[Training]) -> Table:
    """The certified gap and the estimate when the objective comes within a distance of the optimum."""
    distances = [f"gap, estimate at {shown(distance)}" for distance in DISTANCES]
    head = ["data", "penalty", *distances, "at the end: distance, gap", "s"]
    rows = []
    for each in trainings:
        run = each.reference
        if run is None:
            continue
        optimum, gaps = each.optimum, np.fmin.accumulate(run.facts["gaps"])
        cells = []
        for distance in DISTANCES:
            row = run.row_at(optimum, distance)
            cells.append("-" if row is None else f"{gaps[row]:.1e}, {run.facts['estimated'][row]:.1e}")
        end = f"{run.values.min() / optimum - 1:.1e}, {run.facts['gap']:.1e}"
        rows.append([each.name, each.penalty.name, *cells, end, f"{run.facts['total']:.1f}"])
    note = (
        'Runs with stop="certificate" and tol = 1e-6, or to the limit of time. The optimum is the least objective of '
        "any run, so that small distances are too small by what is left of it."
    )
    return Table("Certified gap and estimate beside the true distance", head, rows, [note])


def use_table(uses: dict[str, dict[str, Use]]) -> Table:
    """A set and a library a row."""
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


def training_numbers(training: Training) -> dict[str, Any]:
    """The raw measurements, for the JSON file."""
    return {
        "data": training.name,
        "penalty": training.penalty.name,
        "optimum": training.optimum,
        "crfqn": [[_record(run) for run in pair if run] for pair in training.ours],
        "CRFsuite": [_record(run) for run in training.theirs],
        "reference": _record(training.reference) if training.reference else None,
        "judged": {name: asdict(judged.verdict) for name, judged in training.judged.items()},
    }


def _record(run: Run) -> dict[str, Any]:
    return {"seconds": run.seconds, "values": run.values, **run.facts}
