"""Pictures: panels of curves with logarithmic axes, one colour a method, one legend a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from crfqn.errors import InputError
from prox_qn_study.cases import Case
from prox_qn_study.competitors import COMPETITORS
from prox_qn_study.curves import CLOSE, Curve
from prox_qn_study.figures import Figure
from prox_qn_study.superlinear import METHOD, PEER, Convergence

LABELS = {
    "seconds": "time, seconds",
    "passes": "passes over the training items",
    "relative_difference": "(F - F*) / F*",
    "n_nonzero": "non-zero weights",
    "accuracy": "test accuracy",
}
N_MARKERS = 9  # on a curve, about
DPI = 150
SHORT = 200.0  # a ratio of ends
Measured = Mapping[Case, tuple[float, Sequence[Curve]]]  # the reference optimum, and the runs


def check_plotting() -> None:
    """Raise InputError unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise InputError(
            "figures need matplotlib, which is not installed here: pip install 'crfqn[plot]'"
        ) from None


def columns(curve: Curve, optimum: float) -> dict[str, Any]:
    """What can be drawn of a curve, a number a row of its trace."""
    return {
        "seconds": curve.seconds,
        "passes": curve.passes,
        "relative_difference": (curve.values - optimum) / optimum,
        "n_nonzero": curve.n_nonzeros,
        "accuracy": curve.accuracies,
    }


def draw(figure: Figure, measured: Measured, file: Path) -> None:
    """All panels, and a legend below."""
    from matplotlib.figure import Figure as Picture  # draws without a window system, whatever the backend is

    n_rows, n_columns = ceil(len(figure.panels) / 2), min(2, len(figure.panels))
    picture = Picture(figsize=(1.0 + 5.0 * n_columns, 1.2 + 3.6 * n_rows), layout="constrained")
    all_axes = picture.subplots(n_rows, n_columns, squeeze=False).ravel()
    lines: dict[str, Any] = {}
    for axes, panel in zip(all_axes, figure.panels, strict=True):
        optimum, curves = measured[panel.case]
        for curve in curves:
            data = columns(curve, optimum)
            lines[curve.solver] = add_curve(axes, curve.solver, data[panel.x], data[panel.y])
        axes.set_title(panel.title.format(case=panel.case), fontsize="medium")
        finish(axes, panel.x, panel.y)
    names = [name for name in COMPETITORS if name in lines]
    picture.legend(
        [lines[name] for name in names],
        names,
        loc="outside lower center",
        ncols=2 * n_columns,
        fontsize="small",
    )
    picture.suptitle(figure.heading)
    picture.savefig(file, dpi=DPI)


def add_curve(axes: Any, name: str, x: Any, y: Any) -> Any:
    """One method's line; returns it."""
    look = COMPETITORS[name]
    shown = np.isfinite(y) & (x > 0) & (y > 0)
    x, y = x[shown], y[shown]
    return axes.plot(
        x,
        y,
        color=look.colour,
        linestyle=(0, (4, 2)) if look.is_dashed else "-",
        linewidth=2.2 if name == METHOD else 1.4,
        marker=look.marker,
        markersize=4.5,
        markerfacecolor="white" if look.is_dashed else look.colour,
        markevery=spread(x),
        zorder=3 if name == METHOD else 2,
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
    elif y == "n_nonzero":
        axes.set_yscale("log")
        label_numbers(axes.yaxis)
    label_numbers(axes.xaxis)
    axes.set(xlabel=LABELS[x], ylabel=LABELS[y])
    axes.grid(which="major", color="0.85")
    axes.set_axisbelow(True)


def label_numbers(axis: Any) -> None:
    """Plain numbers on a logarithmic axis: powers of ten, with 2 and 5 between where there are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    first, last = axis.get_view_interval()
    is_short = last < SHORT * first
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_convergence(runs: Sequence[Convergence], file: Path) -> None:
    """Distances of Theorem 1, and their ratios, step by step; a line a problem."""
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(11.0, 4.8), layout="constrained")
    left, right = picture.subplots(1, 2)
    lines = {}
    for name in (PEER, METHOD):
        look, every = COMPETITORS[name], 4 if name == PEER else 1
        style = {"color": look.colour, "marker": look.marker, "markersize": 4, "markevery": every}
        for run in runs:
            left.semilogy(run.distances[name], linewidth=1.3, alpha=0.8, **style)
            right.plot(
                np.arange(1, run.distances[name].size), run.ratios(name), color=look.colour, alpha=0.25
            )
        n_steps = min(run.ratios(name).size for run in runs)
        mean = np.exp(np.mean([np.log(run.ratios(name)[:n_steps]) for run in runs], axis=0))
        lines[name] = right.plot(np.arange(1, n_steps + 1), mean, linewidth=2.2, **style)[0]
    longest = max(run.distances[METHOD].size for run in runs)
    for axes in (left, right):
        axes.set(xlabel="step t", xlim=(-0.5, 2.5 * longest))
        axes.grid(which="major", color="0.85")
    left.set(ylabel="$\\|z_t - z^*\\|$, units of weight", title="distance from the optimum")
    right.set(
        ylabel="$\\|z_t - z^*\\| \\; / \\; \\|z_{t-1} - z^*\\|$",
        title="ratio of successive distances; bold: geometric mean",
    )
    right.set_ylim(0.0, 1.05)
    picture.legend(
        [lines[METHOD], lines[PEER]], [METHOD, PEER], loc="outside lower center", ncols=2, fontsize="small"
    )
    picture.suptitle(f"Superlinear convergence with redundant features: {len(runs)} problems")
    picture.savefig(file, dpi=DPI)
