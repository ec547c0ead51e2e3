"""The swap of one import: `sklearn_crfsuite.CRF` against `crfqn.compat.CRF`, on the same Python objects.

Both get the parameters of sklearn-crfsuite's tutorial and a limit of iterations, as its users give it. Processor
seconds of `fit` on one core, each in a process of its own, by turns, after a fit of a few items: crfqn's compilation is
left out.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from harness.data import MADE_UP, Texts, made_up
from harness.default_sets import entity_texts
from harness.measuring import quietly, run_alone, say
from harness.options import Output, some_of
from harness.problems import Problem, read_stored, stored
from harness.report import Promise, Report, Table, finish

from benchmarks import crfsuite

LIBRARIES = ["crfqn", "sklearn-crfsuite", "python-crfsuite", "scikit-learn", "numba", "numpy"]
TUTORIAL: dict[str, Any] = {"c1": 0.1, "c2": 0.1, "all_possible_transitions": True}
LIMITS = (100, 50)
LONG = 5.0  # seconds of a fit that is not repeated
FEW = 300  # items of the warm-up
CHUNKED = ("conll2000-500", "conll2000-2000", "conll2000", "btc", "entities")
SETS = ("company", "person", "units", "conll2000-500", "dutch-upos", "conll2000-2000", "entities", "btc", "ocr",
        "conll2000", "dutch-xpos")  # fmt: skip
MEDIAN, WORST, LOST = 0.5, 0.8, 0.002


class Items(NamedTuple):
    """Training and test items as users hold them: lists of dicts, or of lists of strings; their labels."""

    X: list[Any]
    y: list[Any]
    X_test: list[Any]
    y_test: list[Any]


class Fit(NamedTuple):
    """Processor seconds of a fit, F1 on the test items, the objective after each iteration, and how it ended."""

    seconds: float
    f1: float
    losses: list[float]
    ended: str


def load(name: str) -> Items:
    """A set by its name in `SETS`, or the made-up one."""
    if name in ("ocr", "units"):
        problem = units() if name == "units" else Problem.of_recipe("ocr")
        X, X_test = (list(crfsuite.strings(each)) for each in (problem.X_train, problem.X_test))
        return Items(X, problem.y_train, X_test, problem.y_test)
    texts = entity_texts() if name == "entities" else made_up() if name == MADE_UP else Texts.load(name)
    return Items(texts.dicts[0], texts.y_train, texts.dicts[1], texts.y_test)


def units() -> Problem:
    """GROBID's units of measurement, characters, by its own templates; from `grobid_units` below CRFQN_DATA."""
    from crfqn import Templates
    from crfqn.readers.conll import read_conll

    folder = Path(os.environ.get("CRFQN_DATA", "")) / "grobid_units"
    names = ("w", *map(str, range(1, 7)))
    train, test = (read_conll(folder / f"{part}.data.gz", names) for part in ("train", "test"))
    templates = Templates((folder / "units.template").read_text(encoding="utf-8"))
    return Problem(
        templates.fit_transform(train.inputs), train.labels, templates.transform(test.inputs), test.labels
    )


def train(path: str, library: str, n_iterations: int, is_chunked: bool) -> Fit:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from crfqn.metrics import chunk_f1_score

    CRF = import_module("crfqn.compat" if library == "crfqn" else "sklearn_crfsuite").CRF
    items: Items = read_stored(path)
    with quietly():
        few = CRF(**TUTORIAL, max_iterations=n_iterations).fit(items.X[:FEW], items.y[:FEW])
        few.predict(items.X_test[:1])
        model = CRF(**TUTORIAL, max_iterations=n_iterations)
        began = process_time()
        model.fit(items.X, items.y)
        seconds = process_time() - began
        predicted = [list(labels) for labels in model.predict(items.X_test)]
    right = np.concatenate(predicted) == np.concatenate(items.y_test)
    f1 = chunk_f1_score(items.y_test, predicted) if is_chunked else float(np.mean(right))
    losses = {row["num"]: row["loss"] for row in model.training_log_.iterations}
    ended = model.model_.result_.status.name.lower() if library == "crfqn" else ""
    return Fit(seconds, float(f1), [*losses.values()], ended)


def by_turns(path: str, n_iterations: int, is_chunked: bool, repeats: int) -> dict[str, list[Fit]]:
    """Fits of both, in turns; one of each where CRFsuite takes long."""
    fits: dict[str, list[Fit]] = {"crfqn": [], "CRFsuite": []}
    for _ in range(repeats):
        for library, runs in fits.items():
            runs.append(run_alone(train, path, library, n_iterations, is_chunked))
            say(f"  {n_iterations}, {library}: {runs[-1].seconds:.2f} s")
        if fits["CRFsuite"][0].seconds > LONG:
            break
    return fits


def swap(
    data: Annotated[list[str] | None, some_of([*SETS, MADE_UP])] = None,
    limit: Annotated[list[int] | None, typer.Option(help="max_iterations; default: 100 and 50.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; a fit above 5 s is made once.")] = 3,
    output: Output = None,
) -> None:
    """One import changed, from dicts: sklearn-crfsuite against crfqn.compat, one core."""
    report = Report("swap", "One import changed: sklearn-crfsuite's names, one core", LIBRARIES)
    rows, ratios, lost = [], {}, {}
    for name in data or SETS:
        items = load(name)
        say(f"{name}: {len(items.X):,} items")
        report.data[name] = Problem(items.X, items.y, items.X_test, items.y_test).fingerprint
        with stored(items) as path:
            del items
            for n_iterations in limit or LIMITS:
                fits = by_turns(path, n_iterations, name in CHUNKED, repeats)
                key = f"{name}, {n_iterations}"
                ours, theirs = (float(np.median([fit.seconds for fit in runs])) for runs in fits.values())
                first, peer = (runs[0] for runs in fits.values())
                ratios[key], lost[key], report.numbers[key] = ours / theirs, peer.f1 - first.f1, fits
                cells = [f"{each:.2f}" for each in (theirs, ours, ours / theirs)]
                cells += [f"{peer.f1:.4f}", f"{first.f1:.4f}"]
                rows.append([name, str(n_iterations), *cells, str(len(first.losses) - 1), first.ended])
    head = ["data", "max_iterations", "CRFsuite, s", "crfqn, s", "share", "F1: CRFsuite"]
    report.tables.append(Table("Fit", [*head, "crfqn", "iterations", "ended"], rows))
    middle = float(np.median([*ratios.values()]))
    worst, largest = max(ratios, key=ratios.__getitem__), max(lost, key=lost.__getitem__)
    share = "share of CRFsuite's processor time, median"
    report.promises += [
        Promise(share, f"<= {MEDIAN}", f"{middle:.2f}", middle <= MEDIAN),
        Promise("the same, worst", f"<= {WORST}", f"{ratios[worst]:.2f} ({worst})", ratios[worst] <= WORST),
        Promise("F1 lost, at most", f"{LOST}", f"{lost[largest]:.4f} ({largest})", lost[largest] <= LOST),
    ]
    report.notes.append(
        "F1: of chunks where labels are IOB tags, elsewhere of positions: the share of right ones."
    )
    finish(report, output)
