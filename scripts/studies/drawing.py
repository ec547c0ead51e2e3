"""Pictures: panels of curves with logarithmic axes, one colour a method, one legend a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from studies.curves import CLOSE, Curve
from studies.figures import Figure

LABELS = {
    "seconds": "time, seconds",
    "passes": "passes over the training items",
    "relative_difference": "(F - F*) / F*",
    "n_nonzero": "non-zero weights",
    "rows": "non-zero rows, %",
    "accuracy": "test accuracy",
}
LOGARITHMIC = ("n_nonzero", "rows")
N_MARKERS = 9  # on a curve, about
DPI = 150
SHORT = 200.0  # a ratio of ends
GRID = "0.85"  # grey
Measured = Mapping[Any, tuple[float, Sequence[Curve]]]  # by case: the reference optimum, and the runs


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a method's curve looks."""

    colour: str
    marker: str
    is_dashed: bool = False


def blank(n_panels: int) -> tuple[Any, Any]:
    """A picture with two columns of panels, drawn without a window system, and its axes."""
    from matplotlib.figure import Figure as Picture

    n_rows, n_columns = ceil(n_panels / 2), min(2, n_panels)
    picture = Picture(figsize=(1.0 + 5.0 * n_columns, 1.2 + 3.6 * n_rows), layout="constrained")
    all_axes = picture.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in all_axes[n_panels:]:
        axes.remove()
    return picture, all_axes[:n_panels]


def draw(figure: Figure, measured: Measured, looks: Mapping[str, Look], bold: str, file: Path) -> None:
    """All panels, and a legend below; the curve of the method `bold` is thicker, and on top."""
    picture, all_axes = blank(len(figure.panels))
    lines: dict[str, Any] = {}
    for axes, panel in zip(all_axes, figure.panels, strict=True):
        optimum, curves = measured[panel.case]
        for curve in curves:
            data, name = curve.columns(optimum), curve.solver
            lines[name] = add_curve(axes, looks[name], data[panel.x], data[panel.y], is_bold=name == bold)
        axes.set_title(panel.title.format(case=panel.case), fontsize="medium")
        finish(axes, panel.x, panel.y)
    save(picture, {name: lines[name] for name in looks if name in lines}, figure.heading, file)


def save(picture: Any, lines: Mapping[str, Any], heading: str, file: Path) -> None:
    """A legend below the panels, the heading above them."""
    n_columns = 2 * min(2, len(picture.axes))
    picture.legend([*lines.values()], [*lines], loc="outside lower center", ncols=n_columns, fontsize="small")
    picture.suptitle(heading)
    picture.savefig(file, dpi=DPI)


def add_curve(axes: Any, look: Look, x: Any, y: Any, is_bold: bool) -> Any:
    """One method's line; returns it."""
    shown = np.isfinite(y) & (x > 0) & (y > 0)
    x, y = x[shown], y[shown]
    return axes.plot(
        x,
        y,
        color=look.colour,
        linestyle=(0, (4, 2)) if look.is_dashed else "-",
        linewidth=2.2 if is_bold else 1.4,
        marker=look.marker,
        markersize=4.5,
        markerfacecolor="white" if look.is_dashed else look.colour,
        markevery=spread(x),
        zorder=3 if is_bold else 2,
    )[0]


def spread(x: Any) -> list[int]:
    """Some rows, evenly spread over a logarithmic axis, the last one always."""
    if x.size == 0:
        return []
    marks = np.searchsorted(x, np.geomspace(x[0], x[-1], N_MARKERS))
    return sorted({*np.minimum(marks, x.size - 1).tolist(), x.size - 1})


def finish(axes: Any, x: str, y: str) -> None:
    """Scales, labels and a grid."""
    axes.set_xscale("log")
    if y == "relative_difference":
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], CLOSE / 2))
    elif y in LOGARITHMIC:
        axes.set_yscale("log")
        label_numbers(axes.yaxis)
    label_numbers(axes.xaxis)
    axes.set(xlabel=LABELS[x], ylabel=LABELS[y])
    axes.grid(which="major", color=GRID)
    axes.set_axisbelow(True)


def label_numbers(axis: Any) -> None:
    """Plain numbers on a logarithmic axis: powers of ten, with 2 and 5 between where there are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    first, last = axis.get_view_interval()
    is_short = last < SHORT * first
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))
    axis.set_minor_formatter(NullFormatter())
