"""What is written about a measurement: CSV files, tables for the page, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import Table, shown
from studies import report
from studies.curves import Curve
from studies.drawing import Measured
from studies.figures import Figure
from studies.folder import Optimum
from studies.report import (
    LEVELS,
    agreement,
    curve_table,
    facts,
    optimum_note,
    page_of,
    subsection,
    write_curves,
    write_rows,
)

from prox_qn_study.cases import LSHTC1, OCR, PAPER, Case
from prox_qn_study.competitors import REFERENCE
from prox_qn_study.superlinear import METHOD, PEER, Convergence

__all__ = ["LEVELS", "facts", "shown", "write_curves"]
NOTES = {
    OCR: "OCR: a random split as the paper's, 6216 words for training and 661 for the test, but not the same one: "
    "the paper's is not published.",
    LSHTC1: "LSHTC1: Task 2 of the dry-run data. The paper has Task 1, whose training part is not at hand: the same "
    "number of items, 4463, with 51,033 features. So its values, table 2's too, are of another problem.",
}
STAND_IN = "{0} is not on this machine: {1}, built in, take its place here. `crfqn data get {2}` fetches it."
SGD = "SGD, the paper's rate: eta0 = {eta0:g}, as the paper has it for its own features; SGD: calibrated on a sample."
BCD = "BCD has no fair count of passes, as the paper says: these are positions that its inference visits, over all."


def write_convergence(runs: Sequence[Convergence], file: Path) -> None:
    """Distances and ratios of Theorem 1."""
    rows: list[Sequence[Any]] = []
    for number, run in enumerate(runs):
        for name, distances in run.distances.items():
            ratios = [np.nan, *run.ratios(name)]
            known = zip(distances, ratios, strict=True)
            rows += [(number, name, step, *row) for step, row in enumerate(known)]
    write_rows(file, ["problem", "solver", "step", "distance", "ratio"], rows)


def describe(figure: Figure, measured: Measured, optima: Mapping[str, Optimum]) -> str:
    """The picture, a table a problem, and notes."""
    blocks = []
    for case, (optimum, curves) in measured.items():
        notes = [
            optimum_note(optima[str(case)]),
            *([first_note(optimum, curves)] if figure.is_comparison else []),
            agreement(curves),
        ]
        blocks.append(subsection(curve_table(case, optimum, curves, notes)))
    notes = notes_on(figure.cases)
    notes += [SGD.format(eta0=case.data.eta0) for case in figure.cases if case.data.eta0 is not None]
    notes += [BCD] if any("BCD" in (c.solver for c in curves) for _, curves in measured.values()) else []
    return page_of(f"![Figure {figure.number}](figure-{figure.number}.png)", blocks, notes)


def first_note(optimum: float, curves: Sequence[Curve]) -> str:
    """Whether Prox-QN was first to each level, and who came next."""
    return report.first_note(optimum, curves, REFERENCE, lambda name: name.startswith(REFERENCE))


def notes_on(cases: Sequence[Case]) -> list[str]:
    """How the data differ from the paper's, each data set once."""
    notes = [
        NOTES.get(case.data, "")
        if case.stands_for is None
        else STAND_IN.format(case.stands_for.title, case.data.title.lower(), case.stands_for.registered)
        for case in cases
    ]
    return list(dict.fromkeys(note for note in notes if note))


def optimum_title(name: str, case: Case) -> str:
    """The heading of table `name`; `case` is one of its problems."""
    beside = " beside the paper's" if case.stands_for is None else ""
    return f"Table {name}: the optimum{beside}, {case.data.title}"


def optimum_table(cases: Sequence[Case], optima: Mapping[str, Optimum]) -> str:
    """The models at the optimum, beside the paper's (its tables 1 and 2) where the data are its."""
    is_of_paper = cases[0].stands_for is None
    rows = []
    for case in cases:
        known = optima[str(case)]
        row = [f"{case.strength:.3g}", f"{known.n_nonzero:,}", f"{known.accuracy:.4f}"]
        row += [f"{known.value:,.3f}", f"{known.gap:.0e}"]
        if is_of_paper:
            n_nonzero, accuracy = PAPER[case.data.recipe][case.l1]
            row += [f"{n_nonzero:,}", f"{accuracy:.4f}"]
        rows.append(row)
    head = ["l1", "non-zeros", "test accuracy", "objective", "certified gap"]
    head += ["the paper's non-zeros", "the paper's accuracy"] if is_of_paper else []
    notes = notes_on(cases)
    if is_of_paper and cases[0].share < 1.0:
        notes.append(
            f"A part of the data, {100 * cases[0].share:g} % of the items: the paper's values are of all."
        )
    return subsection(Table(cases[0].data.title, head, rows, notes))


def describe_convergence(runs: Sequence[Convergence]) -> str:
    """The picture of Theorem 1, its numbers, and how to read them."""
    rows = []
    for number, run in enumerate(runs):
        geometry = run.geometry
        d, rank = geometry.basis.shape
        row = [str(number), str(d), str(rank), f"{geometry.angle:.0e}", str(run.n_nonzero)]
        for name in (METHOD, PEER):
            row += [" ".join(f"{ratio:.2f}" for ratio in run.thirds(name)), str(run.ratios(name).size)]
        rows.append(row)
    head = ["problem", "weights", "rank of the Hessian", "sine of angle", "non-zeros"]
    for name in (METHOD, PEER):
        head += [f"{name}: ratios", "steps"]
    notes = [
        "Sine of angle: the largest one between the Hessian's row spaces at w = 0 and at the optimum. They are the "
        "same space, as constant nullspace strong convexity wants, and smaller than the space of weights.",
        "Ratios: ||z_{t+1} - z*|| / ||z_t - z*||, z the projection on that space, geometric means over the first, "
        "second and last third of the steps. Superlinear: they fall. Linear: they stay.",
        "The run ends where the distance is 1e-7 of the first; nearer, rounding hides the decrease of the objective.",
        "Prox-QN as published, without shrinking, the inner problem solved to the end, all secant pairs kept. Its "
        "B0 = gamma I is not confined to the row space, as the theorem's is; that does no harm here.",
    ]
    table = subsection(Table("Ratios of successive distances", head, rows, notes))
    return "\n\n".join(["![Superlinear convergence](superlinear.png)", table])
