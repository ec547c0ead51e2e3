"""Pictures: the figures of the paper, and the convergence of Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from studies import drawing
from studies.drawing import DPI, GRID, Measured
from studies.figures import Figure

from prox_qn_study.competitors import COMPETITORS
from prox_qn_study.superlinear import METHOD, PEER, Convergence

__all__ = ["Measured", "draw", "draw_convergence"]


def draw(figure: Figure, measured: Measured, file: Path) -> None:
    """All panels of a figure."""
    drawing.draw(figure, measured, COMPETITORS, METHOD, file)


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
        axes.grid(which="major", color=GRID)
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
