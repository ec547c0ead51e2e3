"""Pictures: panels of lines with logarithmic axes, one colour a method, one legend a picture.

Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

N_MARKERS = 9  # on a curve, about
DPI = 150
SHORT = 200.0  # a ratio of ends
GRID = "0.85"  # grey
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#e69f00", "#000000", "#cc79a7", "#56b4e9", "#777777")
MARKERS = "os^vDPX*"


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a method's curve looks."""

    colour: str
    marker: str
    is_dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Method(Look):
    """A solver: what makes it, and the look of its curve."""

    make: Callable[..., Any]


class Panel(NamedTuple):
    """A diagram: lines (x, y) by name, labels, which axes are logarithmic, and where y begins at the lowest."""

    title: str
    lines: Mapping[str, tuple[Any, Any]]
    x: str
    y: str
    logs: str = ""
    least: float | None = None


def looks_of(panels: Sequence[Panel]) -> dict[str, Look]:
    """A look for each of the names, in their order."""
    names = dict.fromkeys(name for panel in panels for name in panel.lines)
    n = len(COLOURS)
    return {
        name: Look(colour=COLOURS[i % n], marker=MARKERS[i % n], is_dashed=i >= n)
        for i, name in enumerate(names)
    }


def draw(
    panels: Sequence[Panel], file: Path, heading: str = "", looks: Mapping[str, Look] | None = None, bold: str = "",
    columns: int = 2,
) -> None:  # fmt: skip
    """All panels in so many columns, and a legend below; the line `bold` is thicker, and on top."""
    picture, all_axes = blank(len(panels), columns)
    looks, lines = looks or looks_of(panels), {}
    for axes, panel in zip(all_axes, panels, strict=True):
        for name, (x, y) in panel.lines.items():
            lines[name] = add_line(axes, looks[name], np.asarray(x), np.asarray(y), panel.logs, name == bold)
        axes.set_title(panel.title, fontsize="medium")
        finish(axes, panel)
    save(picture, {name: lines[name] for name in looks if name in lines}, heading, file)


def blank(n_panels: int, columns: int = 2) -> tuple[Any, Any]:
    """A picture with some columns of panels, drawn without a window system, and its axes."""
    from matplotlib.figure import Figure as Picture

    n_rows, n_columns = ceil(n_panels / columns), min(columns, n_panels)
    picture = Picture(figsize=(1.0 + 5.0 * n_columns, 1.2 + 3.6 * n_rows), layout="constrained")
    all_axes = picture.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in all_axes[n_panels:]:
        axes.remove()
    return picture, all_axes[:n_panels]


def save(picture: Any, lines: Mapping[str, Any], heading: str, file: Path) -> None:
    """A legend below the panels, the heading above them."""
    n_columns = 2 * min(2, len(picture.axes))
    picture.legend([*lines.values()], [*lines], loc="outside lower center", ncols=n_columns, fontsize="small")
    picture.suptitle(heading)
    picture.savefig(file, dpi=DPI)


def add_line(axes: Any, look: Look, x: Any, y: Any, logs: str, is_bold: bool) -> Any:
    """One method's line; returns it."""
    shown = np.isfinite(y) & ((x > 0) | ("x" not in logs)) & ((y > 0) | ("y" not in logs))
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
        markevery=spread(x) if "x" in logs else None,
        zorder=3 if is_bold else 2,
    )[0]


def spread(x: Any) -> list[int]:
    """Some rows, evenly spread over a logarithmic axis, the last one always."""
    if x.size == 0:
        return []
    marks = np.searchsorted(x, np.geomspace(x[0], x[-1], N_MARKERS))
    return sorted({*np.minimum(marks, x.size - 1).tolist(), x.size - 1})


def finish(axes: Any, panel: Panel) -> None:
    """Scales, labels and a grid."""
    for letter in panel.logs:
        axes.set(**{f"{letter}scale": "log"})
    if panel.least is not None:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], panel.least))
    elif "y" in panel.logs:
        label_numbers(axes.yaxis)
    if "x" in panel.logs:
        label_numbers(axes.xaxis)
    axes.set(xlabel=panel.x, ylabel=panel.y)
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
