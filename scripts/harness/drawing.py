"""Pictures (SVG): panels of lines or points with logarithmic axes, one colour a method, one legend a picture.

Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

N_POINTS, N_MARKERS = 24, 4  # on a curve, about
SHORT = 100.0  # a ratio of ends
GRID, DARK_GRID = "0.85", "0.35"  # grey
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#e69f00", "#000000", "#cc79a7", "#56b4e9", "#777777")
MARKERS = "os^vDPX*"
INK, DARK_INK = "#000000", "#e6e6e6"
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "legend.edgecolor")
DARK: Any = {**dict.fromkeys((*INKED, "legend.labelcolor"), DARK_INK), "legend.framealpha": 0.0}


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a method's curve is drawn."""

    colour: str
    marker: str
    is_dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Method(Style):
    """A solver: what makes it, and the style of its curve."""

    make: Callable[..., Any]


class Panel(NamedTuple):
    """A diagram: lines (x, y) by name, labels, which axes are logarithmic, and where y begins at the lowest.

    ticks : the names of y = 0, 1, ...; is_dotted : points without lines between them
    """

    title: str
    lines: Mapping[str, tuple[Any, Any]]
    x: str
    y: str
    logs: str = ""
    least: float | None = None
    ticks: Sequence[str] = ()
    is_dotted: bool = False


def draw(
    panels: Sequence[Panel], file: Path, heading: str = "", styles: Mapping[str, Style] | None = None,
    bold: str = "", columns: int = 2, is_dark: bool = False, size: tuple[float, float] = (5.0, 3.6),
) -> None:  # fmt: skip
    """All panels in so many columns, of this size in inches, and a legend below; the line `bold` is thicker, on top."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Picture

    names = dict.fromkeys(name for panel in panels for name in panel.lines)
    if styles is None:
        styles = {
            name: Style(colour=COLOURS[i % 8], marker=MARKERS[i % 8], is_dashed=i >= 8)
            for i, name in enumerate(names)
        }
    n_rows, n_columns = ceil(len(panels) / columns), min(columns, len(panels))
    with rc_context(DARK if is_dark else {}):
        width, height = 0.2 * size[0] + size[0] * n_columns, size[1] / 3 + size[1] * n_rows
        picture = Picture(figsize=(width, height), layout="constrained")
        all_axes = picture.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axes in all_axes[len(panels) :]:
            axes.remove()
        lines = {}
        for axes, panel in zip(all_axes, panels, strict=False):
            for name, (x, y) in panel.lines.items():
                lines[name] = add_line(
                    axes, styles[name], panel, np.asarray(x), np.asarray(y), name == bold, is_dark
                )
            axes.set_title(panel.title, fontsize="medium")
            finish(axes, panel, is_dark)
        chosen = [name for name in styles if name in lines]
        picture.legend(
            [lines[name] for name in chosen], chosen, loc="outside lower center", fontsize="small",
            ncols=2 * n_columns if n_columns < 3 else 4,
        )  # fmt: skip
        picture.suptitle(heading)
        write(picture, file, is_transparent=is_dark)


def draw_by_theme(panels: Sequence[Panel], stem: Path, **how: Any) -> None:
    """Draw `stem`.svg and, for pages with a dark background, `stem`-dark.svg; make their folder."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, is_dark in (("", False), ("-dark", True)):
        draw(panels, stem.with_name(f"{stem.name}{suffix}.svg"), is_dark=is_dark, **how)


def write(picture: Any, file: Path, is_transparent: bool = False) -> None:
    """Write a small SVG file: text as text, coordinates to a tenth of a point, nothing indented."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "crfqn", "font.sans-serif": ["DejaVu Sans"]}):
        picture.savefig(file, format="svg", metadata={"Date": None}, transparent=is_transparent)
    text = re.sub(r"(?<=\.\d)\d{5}\b|(?<=\n) +", "", file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")


def add_line(axes: Any, style: Style, panel: Panel, x: Any, y: Any, is_bold: bool, is_dark: bool) -> Any:
    """One method's line, thinned out; returns it."""
    shown = np.isfinite(y) & ((x > 0) | ("x" not in panel.logs)) & ((y > 0) | ("y" not in panel.logs))
    x, y = x[shown], y[shown]
    is_thinned = "x" in panel.logs and not panel.is_dotted
    if is_thinned:
        rows = spread(x, N_POINTS)
        x, y = x[rows], y[rows]
    colour = DARK_INK if is_dark and style.colour == INK else style.colour
    background = "none" if is_dark else "white"
    return axes.plot(
        x,
        y,
        color=colour,
        linestyle="" if panel.is_dotted else (0, (4, 2)) if style.is_dashed else "-",
        linewidth=2.2 if is_bold else 1.4,
        marker=style.marker,
        markersize=7 if panel.is_dotted else 4.5,
        markeredgewidth=1.0 if style.is_dashed else 0.0,
        markerfacecolor=background if style.is_dashed else colour,
        markevery=spread(x, N_MARKERS) if is_thinned else None,
        zorder=3 if is_bold else 2,
    )[0]


def spread(x: Any, n: int) -> list[int]:
    """About n rows, evenly spread over a logarithmic axis, the last one always."""
    if x.size == 0:
        return []
    marks = np.searchsorted(x, np.geomspace(x[0], x[-1], n))
    return sorted({*np.minimum(marks, x.size - 1).tolist(), x.size - 1})


def finish(axes: Any, panel: Panel, is_dark: bool = False) -> None:
    """Scales, labels and a grid; plain numbers on a logarithmic axis, 2 and 5 between powers where these are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for letter in panel.logs:
        axes.set(**{f"{letter}scale": "log"})
        if letter == "y" and panel.least is not None:
            axes.set_ylim(bottom=max(axes.get_ylim()[0], panel.least))
        axis = getattr(axes, f"{letter}axis")
        first, last = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if last < SHORT * first else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.ticks:
        axes.set_yticks(range(len(panel.ticks)), panel.ticks)
        axes.set_ylim(len(panel.ticks) - 0.5, -0.5)
    axes.grid(which="major", color=DARK_GRID if is_dark else GRID)
    axes.set_axisbelow(True)
