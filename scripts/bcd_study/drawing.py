"""Pictures: the figures of section 5.2, and figure 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies import drawing
from studies.drawing import GRID, LABELS, Measured, blank, label_numbers, save
from studies.figures import Figure

from bcd_study.cases import Source
from bcd_study.grid import Solution, averages
from bcd_study.methods import COMPARED, OBJECTIVES, PAPER_BCD, SOLVERS


def draw(figure: Figure, measured: Measured, file: Path) -> None:
    """All panels of a figure."""
    drawing.draw(figure, measured, SOLVERS, PAPER_BCD, file)


def draw_grid(solved: Mapping[Source, Sequence[Solution]], file: Path) -> None:
    """Figure 5: accuracy against non-zero rows, a panel a data set, a point a lambda."""
    picture, all_axes = blank(len(solved))
    lines = {}
    for axes, (source, solutions) in zip(all_axes, solved.items(), strict=True):
        for name in COMPARED:
            look, found = OBJECTIVES[name], averages(solutions, name)
            some = found["share"] > 0
            lines[name] = axes.plot(
                found["share"][some],
                found["accuracy"][some],
                color=look.colour,
                marker=look.marker,
                linestyle="--" if look.is_dashed else "-",
                markersize=4.5,
            )[0]
        axes.set_xscale("log")
        label_numbers(axes.xaxis)
        axes.set(xlabel=LABELS["rows"], ylabel=LABELS["accuracy"], title=source.title)
        axes.grid(which="major", color=GRID)
    save(picture, lines, "Sparsity and test accuracy of the objectives", file)
