"""Tables of `benchmark.py text`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.problem import Run
from benchmarks.report import Report, Table, shown
from benchmarks.text.estimators import Use
from benchmarks.text.figures import (
    flat_figures,
    memory_figures,
    seconds_above_end,
    speed_up,
    training_figures,
    use_figures,
)
from benchmarks.text.flat import LEVEL, Flat
from benchmarks.text.measure import Measured, Training

LEVELS = (1e-2, 1e-3, 0.0)  # above CRFsuite's end
DISTANCES = (1e-3, 1e-4, 1e-5)  # from the optimum
LIBRARIES = ["crfqn", "python-crfsuite", "sklearn-crfsuite", "scikit-learn", "numba", "numpy"]


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
