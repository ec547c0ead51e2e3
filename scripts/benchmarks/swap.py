"""The swap of one import: `sklearn_crfsuite.CRF` against `crfqn.compat.CRF`, on the same Python objects.

Both get the parameters of sklearn-crfsuite's tutorial and a limit of iterations, as its users give it. Processor
seconds of `fit` on one core, each in a process of its own, by turns, after a fit of a few items: crfqn's compilation is
left out.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Section, by_turns
from harness.data import MADE_UP, SOURCES, UserItems, user_items
from harness.measuring import fit_seconds, on_one_core, quietly
from harness.options import Full, Output, Repeats, some_of
from harness.problems import Problem, read_stored, stored
from harness.report import Record, Table, median

LIBRARIES = ["crfqn", "sklearn-crfsuite", "python-crfsuite", "scikit-learn", "numba", "numpy"]
MODULES = {"crfqn": "crfqn.compat", "CRFsuite": "sklearn_crfsuite"}
TUTORIAL: dict[str, Any] = {"c1": 0.1, "c2": 0.1, "all_possible_transitions": True}
LIMITS = (100, 50)  # the second one with --full
FEW = 300  # items of the warm-up
LONG = ("ocr", "conll2000", "dutch-xpos", "btc")  # CRFsuite takes minutes
SETS = (*SOURCES, "units", "entities", "ocr")


def train(path: str, library: str, n_iterations: int) -> Record:
    """Fit on one core; F1 of chunks where labels are IOB tags, elsewhere the share of positions labelled right."""
    on_one_core()
    CRF = import_module(MODULES[library]).CRF
    items: UserItems = read_stored(path)
    with quietly():
        few = CRF(**TUTORIAL, max_iterations=n_iterations).fit(items.X[:FEW], items.y[:FEW])
        few.predict(items.X_test[:1])
        model = CRF(**TUTORIAL, max_iterations=n_iterations)
        seconds = fit_seconds(model, items.X, items.y)
        predicted = [list(labels) for labels in model.predict(items.X_test)]
    iterations = len({row["num"] for row in model.training_log_.iterations}) - 1
    return {"seconds": seconds, "f1": items.score(predicted), "iterations": iterations}


def measure(name: str, n_iterations: int, turns: int) -> Record:
    items = user_items(name)
    fingerprint = Problem(items.X, items.y, items.X_test, items.y_test).fingerprint
    with stored(items) as path:
        tasks = {each: partial(train, path, each, n_iterations) for each in MODULES}
        return {"data": fingerprint, "fits": by_turns(tasks, turns)}


def section(records: list[Record]) -> Section:
    rows, ratios = [], []
    for record in records:
        ours, peer = ([fit["seconds"] for fit in fits] for fits in record["fits"].values())
        ratio = float(np.median(np.divide(peer, ours)))
        ratios.append(ratio)
        (first, *_), (other, *_) = record["fits"].values()
        cells = [record["set"], str(record["limit"]), median(peer), median(ours), f"{ratio:.1f}"]
        rows.append([*cells, f"{other['f1']:.4f}", f"{first['f1']:.4f}", str(first["iterations"])])
    head = ["data", "max_iterations", "CRFsuite, s", "crfqn, s", "ratio"]
    head += ["F1: CRFsuite", "crfqn", "crfqn's iterations"]
    note = "F1: of chunks where labels are IOB tags, elsewhere the share of positions labelled right."
    words = f"one import changed, seconds of fit, median of {len(ratios)} cases"
    overall = Ratio(words, float(np.median(ratios)), "crfqn.compat", "sklearn_crfsuite")
    return Section([Table("Fit", head, rows, [note])], [overall])


SWAP = Comparison(
    "swap", "One import changed: sklearn-crfsuite's names",
    "`CRF(c1=.1, c2=.1, all_possible_transitions=True, max_iterations=...)` of sklearn-crfsuite and of "
    "`crfqn.compat`, from the same dicts (units, OCR: lists of strings): processor seconds of `fit` on one core, by "
    "turns, after a fit of some items. Ratios are CRFsuite's over crfqn's.",
    LIBRARIES, section, ["", "--full"],
)  # fmt: skip


def swap(
    data: Annotated[list[str] | None, some_of([*SETS, MADE_UP])] = None,
    limit: Annotated[list[int] | None, typer.Option(help="max_iterations; default: 100.")] = None,
    repeats: Repeats = 3,
    full: Full = False,
    output: Output = None,
) -> None:
    """One import changed, from dicts: sklearn-crfsuite against crfqn.compat, one core; --full: more sets."""
    names = data or [each for each in SETS if full or each not in LONG]
    pairs = product(names, limit or LIMITS[: None if full else 1])
    SWAP.measure(measure, [{"set": name, "limit": n, "repeats": repeats} for name, n in pairs], output)
