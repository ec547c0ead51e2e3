"""Tables and figures of `benchmark.py text`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.problem import Run
from benchmarks.report import Figure, Report, Table, shown
from benchmarks.text.estimators import Use
from benchmarks.text.flat import LEVEL, Flat
from benchmarks.text.measure import Measured, Training

LEVELS = (1e-2, 1e-3, 0.0)  # above CRFsuite's end
DISTANCES = (1e-3, 1e-4, 1e-5)  # from the optimum
LIBRARIES = ["crfqn", "python-crfsuite", "sklearn-crfsuite", "scikit-learn", "numba", "numpy"]
SMALL = ("company", "person")  # of which less is asked


def report(measured: Measured) -> Report:
    """Everything that was measured, and what of it was asked."""
    found = Report("text", "Text as people bring it, one core", LIBRARIES)
    if any(each.ours for each in measured.trainings):
        found.tables.append(training_table(measured.trainings))
        found.figures += training_figures(measured.trainings)
    if any(each.reference for each in measured.trainings):
        found.tables.append(certificate_table(measured.trainings))
    if measured.uses:
        found.tables.append(use_table(measured.uses))
        found.figures += use_figures(measured.uses)
    if measured.memory:
        found.figures += memory_figures(measured.memory)
    if measured.flats:
        found.tables.append(flat_table(measured.flats))
        found.figures += flat_figures(measured.flats)
    found.numbers = {
        "trainings": [training_numbers(each) for each in measured.trainings],
        "uses": {
            name: {kind: use._asdict() for kind, use in uses.items()} for name, uses in measured.uses.items()
        },
        "memory": measured.memory,
        "flat": [asdict(each) for each in measured.flats],
    }
    return found


def seconds_above_end(training: Training, level: float) -> tuple[list[float], list[float]]:
    """Seconds of crfqn and of CRFsuite, turn by turn, to `level` above CRFsuite's end; inf where it was not reached."""
    ours, theirs = [], []
    for (first, finished), peer in zip(training.ours, training.theirs, strict=True):
        end = float(peer.values.min())
        runs = (first, finished or first)
        seconds = next((s for run in runs if (s := run.seconds_to(end, level)) is not None), np.inf)
        ours.append(seconds)
        its = peer.seconds_to(end, level)
        theirs.append(peer.facts["total"] if level == 0.0 else its)
    return ours, theirs


def speed_up(training: Training, level: float) -> float:
    """CRFsuite's seconds over crfqn's: the median of the turns; nan without CRFsuite."""
    ours, theirs = seconds_above_end(training, level)
    return float(np.median(np.divide(theirs, ours))) if theirs else np.nan


def training_table(trainings: Sequence[Training]) -> Table:
    rows = [_training_row(each) for each in trainings if each.ours]
    head = [
        "data",
        "penalty",
        "CRFsuite: 1e-2 / 1e-3 / end, s",
        "crfqn: the same / until it stops, s",
        "ratios",
    ]
    head += [
        "above the optimum at its stop",
        "estimated",
        "certified",
        "test accuracy: CRFsuite, crfqn",
        "ended",
    ]
    sizes = {each.name: f"{each.name}: {each.describe}" for each in trainings}
    notes = [
        "Seconds of the processor since the features are in memory, to 1e-2 and 1e-3 above the objective at which "
        "CRFsuite ends and to that end; medians of the turns. Ratios: CRFsuite's over crfqn's.",
        "Objectives are recomputed from the weights by a judge of its own; the optimum is the least of any run.",
        "All pairs of features and labels have weights in " + ", ".join(
            sorted({each.name for each in trainings if each.all_pairs}) or ["none of them"]
        ) + ", elsewhere those that occur.",
        *sizes.values(),
    ]  # fmt: skip
    return Table("Training", head, rows, notes)


def _training_row(training: Training) -> list[str]:
    columns = [seconds_above_end(training, level) for level in LEVELS]
    first, _ = training.ours[0]
    stop = float(np.median([pair[0].facts["total"] for pair in training.ours]))
    ours = " / ".join(_seconds(mine) for mine, _ in columns) if training.theirs else "-"
    theirs = " / ".join(_seconds(its) for _, its in columns) if training.theirs else "-"
    ratios = " / ".join(f"{speed_up(training, level):.1f}" for level in LEVELS) if training.theirs else "-"
    accuracies = [
        f"{training.judged[name].verdict.accuracy:.4f}" if name in training.judged else "-"
        for name in ("CRFsuite", "crfqn")
    ]
    return [
        training.name, training.penalty.name, theirs, f"{ours} / {stop:.2f}", ratios,
        f"{training.judged['crfqn'].verdict.objective / training.optimum - 1:.1e}",
        f"{first.facts['estimated_gap']:.1e}", f"{first.facts['gap']:.1e}", ", ".join(accuracies),
        first.facts["status"].lower(),
    ]  # fmt: skip


def _seconds(values: Sequence[float]) -> str:
    middle = float(np.median(values)) if len(values) else np.inf
    return f"{middle:.2f}" if np.isfinite(middle) else "not reached"


def training_figures(trainings: Sequence[Training]) -> list[Figure]:
    """How many times sooner than CRFsuite: on every set, and in the median."""
    with_l1 = [each for each in trainings if each.penalty.c1 and each.theirs]
    without = [each for each in trainings if not each.penalty.c1 and each.theirs]
    figures = []
    for of, runs, levels, least, small, middle in (
        ("l1", with_l1, (1e-3,), 3.0, 2.0, 6.0),
        ("l1", with_l1, (0.0,), 6.0, 3.0, 12.0),
        ("c2 alone", without, (1e-3, 0.0), 3.0, 2.0, 4.0),
    ):
        for level in levels:
            figures += _sooner(of, runs, level, least, small, middle)
    for training in trainings:
        for run, _ in training.ours[:1]:
            clean = not run.facts["warnings"]
            said = "none" if clean else run.facts["warnings"][0][:60]
            figures.append(
                Figure(f"{training.name}, {training.penalty.name}: warnings of a fit", "none", said, clean)
            )
    return figures


def _sooner(
    of: str, runs: Sequence[Training], level: float, least: float, small: float, middle: float
) -> list[Figure]:
    if not runs:
        return []
    where = "to CRFsuite's end" if level == 0.0 else f"to {shown(level)} above CRFsuite's end"
    ratios = {f"{each.name}, {each.penalty.name}": speed_up(each, level) for each in runs}
    asked = {f"{each.name}, {each.penalty.name}": small if each.name in SMALL else least for each in runs}
    worst = min(ratios, key=lambda name: ratios[name] / asked[name])
    median = float(np.median(list(ratios.values())))
    few = sum(ratios[name] >= asked[name] for name in ratios)
    return [
        Figure(
            f"{of}, {where}: worst",
            f"{least:g} times ({small:g} on the small sets)",
            f"{ratios[worst]:.1f} times ({worst}); met by {few} of {len(ratios)}",
            few == len(ratios),
        ),
        Figure(f"{of}, {where}: median", f"{middle:g} times", f"{median:.1f} times", median >= middle),
    ]


def certificate_table(trainings: Sequence[Training]) -> Table:
    """The certified gap and the estimate when the objective comes within a distance of the optimum."""
    head = [
        "data",
        "penalty",
        *(f"gap, estimate at {shown(d)}" for d in DISTANCES),
        "at the end: distance, gap",
        "s",
    ]
    rows = []
    for each in trainings:
        run = each.reference
        if run is None:
            continue
        optimum, gaps = each.optimum, np.fmin.accumulate(run.facts["gaps"])
        cells = []
        for distance in DISTANCES:
            row = run.row_at(optimum, distance)
            known = "-" if row is None else f"{gaps[row]:.1e}, {run.facts['estimated'][row]:.1e}"
            cells.append(known)
        end = f"{run.values.min() / optimum - 1:.1e}, {run.facts['gap']:.1e}"
        rows.append([each.name, each.penalty.name, *cells, end, f"{run.facts['total']:.1f}"])
    notes = [
        'Runs with stop="certificate" and tol = 1e-6, or to the limit of time. The optimum is the least objective of '
        "any run, so that small distances are too small by what is left of it."
    ]
    return Table("Certified gap and estimate beside the true distance", head, rows, notes)


def use_table(uses: dict[str, dict[str, Use]]) -> Table:
    head = [
        "data",
        "",
        "fit from dicts, s",
        "test accuracy",
        "words labelled a second",
        "one sentence, us",
        "says",
    ]
    rows = [
        [
            name, kind, f"{use.seconds:.2f}", f"{use.accuracy:.4f}", f"{use.tokens_per_second:,.0f}",
            f"{1e6 * use.one_sentence:.0f}", use.note[:60],
        ]
        for name, kinds in uses.items() for kind, use in kinds.items()
    ]  # fmt: skip
    notes = [
        "crfqn: `ChainCRF()`, with its defaults; CRFsuite: `sklearn_crfsuite.CRF(c1=.1, c2=.1)`; ap and pa: both "
        "libraries' averaged perceptron and passive-aggressive learning over the pairs that occur, at most 20 epochs. "
        "Dicts to labels on the test part, the least of three."
    ]  # fmt: skip
    return Table("From dicts", head, rows, notes)


def use_figures(uses: dict[str, dict[str, Use]]) -> list[Figure]:
    figures: list[Figure] = []
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
        figures += _ratio_figures(f"{what}: CRFsuite's seconds over crfqn's", ratios, every, middle)
        losses = {name: 100 * (theirs.accuracy - ours.accuracy) for name, (theirs, ours) in pairs.items()}
        worst = max(losses, key=losses.__getitem__)
        figures.append(
            Figure(f"{what}: points of accuracy lost, at most", f"{points:g}", f"{losses[worst]:.2f} ({worst})",
                   losses[worst] <= points)
        )  # fmt: skip
        if not kind:
            speeds = {
                n: ours.tokens_per_second / theirs.tokens_per_second for n, (theirs, ours) in pairs.items()
            }
            figures += _ratio_figures(
                "dicts to labels: crfqn's words a second over CRFsuite's", speeds, 1.5, 1.5
            )
            slowest = max(1e6 * ours.one_sentence for _, ours in pairs.values())
            figures.append(
                Figure("one sentence of 20 words, us, at most", "< 150", f"{slowest:.0f}", slowest < 150)
            )
    return figures


def _ratio_figures(what: str, ratios: dict[str, float], every: float, middle: float) -> list[Figure]:
    worst, median = min(ratios, key=ratios.__getitem__), float(np.median(list(ratios.values())))
    figures = [
        Figure(f"{what}, worst", f"{every:g} times", f"{ratios[worst]:.2f} ({worst})", ratios[worst] >= every)
    ]
    if len(ratios) > 1:
        figures.append(Figure(f"{what}, median", f"{middle:g} times", f"{median:.2f}", median >= middle))
    return figures


def memory_figures(memory: dict[str, dict[str, tuple[int, int]]]) -> list[Figure]:
    figures = []
    for name, of in memory.items():
        used = {library: peak - before for library, (before, peak) in of.items()}
        text = ", ".join(f"{library} {size / 1e6:.0f} MB" for library, size in used.items())
        ratio = used["crfqn"] / used["CRFsuite"] if "CRFsuite" in used else np.nan
        figures.append(
            Figure(f"{name}: memory of a fit above the imported process", "at most twice CRFsuite's",
                   f"{text}: {ratio:.2f} times", None if np.isnan(ratio) else ratio <= 2)
        )  # fmt: skip
    return figures


def flat_table(flats: Sequence[Flat]) -> Table:
    head = [
        "data",
        "items",
        "crfqn to 1e-4 / until it stops, s",
        "LogisticRegression(lbfgs): the same, s",
        "ratio",
    ]
    head.append("test accuracy when they stop: crfqn, scikit-learn")
    rows = [
        [
            each.name, each.describe, f"{np.median(each.ours):.2f} / {each.until_stop['crfqn']:.2f}",
            f"{np.median(each.theirs):.2f} / {each.until_stop['scikit-learn']:.2f}", f"{each.ratio:.1f}",
            ", ".join(f"{value:.4f}" for value in each.accuracy.values()),
        ]
        for each in flats
    ]  # fmt: skip
    note = f"L2 alone, l2 = 1 (C = 1), no intercept; to within {shown(LEVEL)} of the optimum, medians of the turns."
    return Table("Flat classes, L2", head, rows, [note])


def flat_figures(flats: Sequence[Flat]) -> list[Figure]:
    ratios = {each.name: each.ratio for each in flats}
    return _ratio_figures("flat L2: LogisticRegression's seconds over crfqn's", ratios, 1.0, 2.0)


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
