"""What is written and drawn of curves: CSV files, pictures, a table a problem, and who was first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from harness.curves import CLOSE, Curve, CurveFigure, Measured
from harness.drawing import Panel, Style
from harness.pages import Folder
from harness.report import Table, number, shown

LEVELS = (1e-2, 1e-3, 1e-4)
LABELS = {
    "seconds": "time, seconds",
    "passes": "passes over the training items",
    "relative_difference": "(F - F*) / F*",
    "n_nonzero": "non-zero weights",
    "rows": "non-zero rows, %",
    "accuracy": "test accuracy",
}
LOGARITHMIC = ("relative_difference", "n_nonzero", "rows")


def publish_curves(
    folder: Folder, figure: CurveFigure, measured: Measured, styles: Mapping[str, Style], bold: str,
    tables: Sequence[Table], notes: Sequence[str], extra: str = "",
) -> None:  # fmt: skip
    """Write a figure down; the curve of the method `bold` is thicker, and on top."""
    folder.publish(
        f"figure-{figure.number}", figure.heading, tables, notes, records=curve_records(measured),
        panels=panels_of(figure, measured), heading=figure.heading, styles=styles, bold=bold, extra=extra,
    )  # fmt: skip


def panels_of(figure: CurveFigure, measured: Measured) -> list[Panel]:
    """The diagrams of a figure."""
    panels = []
    for panel in figure.panels:
        optimum, curves = measured[panel.case]
        columns = {curve.solver: curve.columns(optimum) for curve in curves}
        lines = {name: (data[panel.x], data[panel.y]) for name, data in columns.items()}
        logs = "xy" if panel.y in LOGARITHMIC else "x"
        least = CLOSE / 2 if panel.y == "relative_difference" else None
        title = panel.title.format(case=panel.case)
        panels.append(Panel(title, lines, LABELS[panel.x], LABELS[panel.y], logs, least))
    return panels


def curve_records(measured: Measured) -> list[dict[str, Any]]:
    """A record a row of a run's trace."""
    records = []
    for case, (optimum, curves) in measured.items():
        for curve in curves:
            own = {"iteration": curve.iterations, "objective": curve.values, "gap": curve.gaps}
            columns = own | curve.columns(optimum)
            for row in zip(*columns.values(), strict=True):
                known = dict(zip(columns, row, strict=True))
                records.append({"problem": str(case), "solver": curve.solver, **known})
    return records


def curve_table(
    case: Any, optimum: float, curves: Iterable[Curve], notes: Sequence[str], counted: str = "non-zeros"
) -> Table:
    """Seconds and passes to each level, and where each method ended."""
    columns: dict[str, Callable[[Curve], str]] = {"": lambda curve: curve.solver}
    for level in LEVELS:
        columns[f"s to {shown(level)}"] = partial(_reached, "seconds", ".2f", optimum, level)
    for level in LEVELS:
        columns[f"passes to {shown(level)}"] = partial(_reached, "passes", ".1f", optimum, level)
    columns |= {
        "ended at": lambda curve: f"{curve.values.min() / optimum - 1:.1e}",
        counted: lambda curve: f"{curve.n_nonzero:,}",
        "test accuracy": lambda curve: f"{curve.accuracy:.4f}",
        "why it ended": lambda curve: curve.status,
    }
    return Table.of(str(case), columns, curves, notes)


def _reached(unit: str, form: str, optimum: float, level: float, curve: Curve) -> str:
    row = curve.row_at(optimum, level)
    return number(None if row is None else getattr(curve, unit)[row], form)


def times_to(optimum: float, curves: Iterable[Curve], level: float) -> dict[str, float]:
    """Seconds of those that came within `level` of the optimum."""
    rows = {curve.solver: (curve, curve.row_at(optimum, level)) for curve in curves}
    return {name: float(curve.seconds[row]) for name, (curve, row) in rows.items() if row is not None}


def optimum_note(known: Any) -> str:
    """F*, and how good it is."""
    return f"F* = {known.value:,.6f}, by {known.found_by}, at most {known.gap:.1e} above the optimum (certified)."


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
