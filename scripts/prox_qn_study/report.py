"""What is written about a measurement: CSV files, tables for the page, and what to keep in mind."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import Table, machine, shown

from prox_qn_study.cases import LSHTC1, OCR, PAPER, Case
from prox_qn_study.competitors import REFERENCE
from prox_qn_study.curves import Curve
from prox_qn_study.drawing import Measured, columns
from prox_qn_study.figures import Figure
from prox_qn_study.folder import Optimum
from prox_qn_study.superlinear import METHOD, PEER, Convergence

LEVELS = (1e-2, 1e-3, 1e-4)
LIBRARIES = ("crfqn", "numba", "numpy", "scipy", "scikit-learn", "matplotlib")
NOTES = {
    OCR: "OCR: a random split as the paper's, 6216 words for training and 661 for the test, but not the same one: "
    "the paper's is not published.",
    LSHTC1: "LSHTC1: Task 2 of the dry-run data. The paper has Task 1, whose training part is not at hand: the same "
    "number of items, 4463, with 51,033 features. So its values, table 2's too, are of another problem.",
}
SGD = "SGD, the paper's rate: eta0 = {eta0:g}, as the paper has it for its own features; SGD: calibrated on a sample."
BCD = "BCD has no fair count of passes, as the paper says: these are positions that its inference visits, over all."


def facts() -> str:
    """The machine, and versions."""
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in machine(LIBRARIES).items()) + "."


def write_curves(measured: Measured, file: Path) -> None:
    """A line a row of a run's trace; what is not known is left empty."""
    head = ["problem", "solver", "iteration", "objective", "gap"]
    with file.open("w", newline="", encoding="utf-8") as lines:
        out = csv.writer(lines)
        for case, (optimum, curves) in measured.items():
            for curve in curves:
                data = columns(curve, optimum)
                if lines.tell() == 0:
                    out.writerow([*head, *data])
                rows = zip(curve.iterations, curve.values, curve.gaps, *data.values(), strict=True)
                out.writerows([str(case), curve.solver, *map(cell, row)] for row in rows)


def write_convergence(runs: Sequence[Convergence], file: Path) -> None:
    """Distances and ratios of Theorem 1."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        out = csv.writer(lines)
        out.writerow(["problem", "solver", "step", "distance", "ratio"])
        for number, run in enumerate(runs):
            for name, distances in run.distances.items():
                ratios = [np.nan, *run.ratios(name)]
                rows = zip(distances, ratios, strict=True)
                out.writerows([number, name, step, *map(cell, row)] for step, row in enumerate(rows))


def cell(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) and isfinite(value) else "" if value != value else value
    )


def describe(figure: Figure, measured: Measured, optima: Mapping[str, Optimum]) -> str:
    """The picture, a table a problem, and notes."""
    blocks = [f"![Figure {figure.number}](figure-{figure.number}.png)"]
    for case, (optimum, curves) in measured.items():
        known = optima[str(case)]
        notes = [
            f"F* = {known.value:,.6f}, by {known.found_by}, at most {known.gap:.1e} above the optimum (certified).",
            *([first_note(optimum, curves)] if figure.is_comparison else []),
            agreement(curves),
        ]
        blocks.append(subsection(curve_table(case, optimum, curves, notes)))
    notes = [NOTES[case.data] for case in figure.cases[:1] if case.data in NOTES]
    notes += [SGD.format(eta0=case.data.eta0) for case in figure.cases if case.data.eta0 is not None]
    notes += [BCD] if any("BCD" in (c.solver for c in curves) for _, curves in measured.values()) else []
    return "\n\n".join([*blocks, "\n".join(f"- {note}" for note in notes)]).rstrip()


def subsection(table: Table) -> str:
    """The table with a heading below those of the page's sections."""
    return "#" + table.markdown()


def curve_table(case: Case, optimum: float, curves: Iterable[Curve], notes: Sequence[str]) -> Table:
    """Seconds and passes to each level, and where each method ended."""
    head = [
        "",
        *(f"s to {shown(level)}" for level in LEVELS),
        *(f"passes to {shown(level)}" for level in LEVELS),
    ]
    head += ["ended at", "non-zeros", "test accuracy", "why it ended"]
    rows = []
    for curve in curves:
        found = [curve.row_at(optimum, level) for level in LEVELS]
        rows.append(
            [
                curve.solver,
                *("-" if row is None else f"{curve.seconds[row]:.2f}" for row in found),
                *("-" if row is None else f"{curve.passes[row]:.1f}" for row in found),
                f"{curve.values.min() / optimum - 1:.1e}",
                f"{curve.n_nonzero:,}",
                f"{curve.accuracy:.4f}",
                curve.status,
            ]
        )
    return Table(str(case), head, rows, notes)


def first_note(optimum: float, curves: Sequence[Curve]) -> str:
    """Whether Prox-QN was first to each level, and who came next."""
    words = []
    for level in LEVELS:
        times = {
            curve.solver: curve.seconds[row]
            for curve in curves
            if (row := curve.row_at(optimum, level)) is not None
        }
        others = {name: t for name, t in times.items() if not name.startswith(REFERENCE)}
        if REFERENCE not in times:
            words.append(f"{shown(level)}: not reached by it")
        elif not others:
            words.append(f"{shown(level)}: yes, the only one")
        else:
            next_one = min(others, key=lambda name: others[name])
            ratio = others[next_one] / times[REFERENCE]
            words.append(
                f"{shown(level)}: {'yes' if ratio > 1 else 'NO'}, {next_one} took {ratio:.2g} times as long"
            )
    return "Prox-QN first to " + "; ".join(words) + "."


def agreement(curves: Sequence[Curve]) -> str:
    """How well the judge's objectives agree with the solvers' own."""
    worst = max(abs(curve.objective / curve.values.min() - 1) for curve in curves)
    return (
        f"The judge, which shares no code with the library, recomputes all final objectives to {worst:.0e}."
    )


def optimum_table(cases: Sequence[Case], optima: Mapping[str, Optimum]) -> str:
    """The models at the optimum beside the paper's (its tables 1 and 2)."""
    rows = []
    for case in cases:
        known, (n_nonzero, accuracy) = optima[str(case)], PAPER[case.data.recipe][case.l1]
        row = [f"{case.strength:g}", f"{known.n_nonzero:,}", f"{n_nonzero:,}"]
        row += [f"{known.accuracy:.4f}", f"{accuracy:.4f}", f"{known.value:,.3f}", f"{known.gap:.0e}"]
        rows.append(row)
    head = ["l1", "non-zeros", "the paper's", "test accuracy", "the paper's", "objective", "certified gap"]
    part = str(cases[0]).partition("(")[1:]
    notes = [
        NOTES[cases[0].data],
        *([f"A part of the data {''.join(part)}: the paper's values are of all."] if part[0] else []),
    ]
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
