"""What is written about runs: CSV files, a table a problem, who was first, and the machine."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import Table, machine, shown

from studies.curves import Curve
from studies.drawing import Measured

LEVELS = (1e-2, 1e-3, 1e-4)
LIBRARIES = ("crfqn", "numba", "numpy", "scipy", "scikit-learn", "matplotlib")
NEVER = "-"


def facts() -> str:
    """The machine, and versions."""
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in machine(LIBRARIES).items()) + "."


def write_rows(file: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A CSV file; what is not known is left empty."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        out = csv.writer(lines)
        out.writerow(head)
        out.writerows([*map(cell, row)] for row in rows)


def write_curves(measured: Measured, file: Path) -> None:
    """A line a row of a run's trace."""
    head, rows = ["problem", "solver", "iteration", "objective", "gap"], []
    names: Sequence[str] = ()
    for case, (optimum, curves) in measured.items():
        for curve in curves:
            data = curve.columns(optimum)
            names = [*data]
            known = zip(curve.iterations, curve.values, curve.gaps, *data.values(), strict=True)
            rows += [(str(case), curve.solver, *row) for row in known]
    write_rows(file, [*head, *names], rows)


def cell(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) and isfinite(value) else "" if value != value else value
    )


def subsection(table: Table) -> str:
    """The table with a heading below those of the page's sections."""
    return "#" + table.markdown()


def optimum_note(known: Any) -> str:
    """F*, and how good it is."""
    return f"F* = {known.value:,.6f}, by {known.found_by}, at most {known.gap:.1e} above the optimum (certified)."


def curve_table(
    case: Any, optimum: float, curves: Iterable[Curve], notes: Sequence[str], counted: str = "non-zeros"
) -> Table:
    """Seconds and passes to each level, and where each method ended."""
    head = [
        "",
        *(f"s to {shown(level)}" for level in LEVELS),
        *(f"passes to {shown(level)}" for level in LEVELS),
    ]
    head += ["ended at", counted, "test accuracy", "why it ended"]
    rows = []
    for curve in curves:
        found = [curve.row_at(optimum, level) for level in LEVELS]
        rows.append(
            [
                curve.solver,
                *(NEVER if row is None else f"{curve.seconds[row]:.2f}" for row in found),
                *(NEVER if row is None else f"{curve.passes[row]:.1f}" for row in found),
                f"{curve.values.min() / optimum - 1:.1e}",
                f"{curve.n_nonzero:,}",
                f"{curve.accuracy:.4f}",
                curve.status,
            ]
        )
    return Table(str(case), head, rows, notes)


def times_to(optimum: float, curves: Iterable[Curve], level: float) -> dict[str, float]:
    """Seconds of those that came within `level` of the optimum."""
    rows = {curve.solver: (curve, curve.row_at(optimum, level)) for curve in curves}
    return {name: float(curve.seconds[row]) for name, (curve, row) in rows.items() if row is not None}


def first_note(optimum: float, curves: Sequence[Curve], ours: str, is_ours: Callable[[str], bool]) -> str:
    """Whether `ours` was first to each level, and who came next; those that `is_ours` do not compete with it."""
    words = []
    for level in LEVELS:
        times = times_to(optimum, curves, level)
        others = {name: t for name, t in times.items() if not is_ours(name)}
        if ours not in times:
            words.append(f"{shown(level)}: not reached by it")
        elif not others:
            words.append(f"{shown(level)}: yes, the only one")
        else:
            next_one = min(others, key=lambda name: others[name])
            ratio = others[next_one] / times[ours]
            words.append(
                f"{shown(level)}: {'yes' if ratio > 1 else 'NO'}, {next_one} took {ratio:.2g} times as long"
            )
    return f"{ours} first to " + "; ".join(words) + "."


def agreement(curves: Sequence[Curve]) -> str:
    """How well the judge's objectives agree with the solvers' own."""
    worst = max(abs(curve.objective / curve.values.min() - 1) for curve in curves)
    return (
        f"The judge, which shares no code with the library, recomputes all final objectives to {worst:.0e}."
    )


def page_of(picture: str, blocks: Sequence[str], notes: Sequence[str]) -> str:
    """The picture, what belongs to it, and notes."""
    return "\n\n".join([picture, *blocks, "\n".join(f"- {note}" for note in notes)]).rstrip()
