"""The figures of section 5.2 over some data sets: which solvers, at which lambda, drawn as what against time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from studies.figures import Figure, Panel

from bcd_study.cases import Case, Data, Source

STRONG, WEAK = 1e-3, 1e-5


def of_solvers(number: str, strength: float) -> Callable[[Sequence[Data], Sequence[str]], Figure]:
    """Objective and accuracy, a row of panels a data set."""

    def figure(data: Sequence[Data], solvers: Sequence[str]) -> Figure:
        panels = [
            Panel("{case}", Case(Source(each), strength), y, "seconds")
            for each in data
            for y in ("relative_difference", "accuracy")
        ]
        title = "Objective and test accuracy against training time"
        return Figure(number, title, tuple(solvers), panels, is_comparison=True)

    return figure


def of_rows(data: Sequence[Data], solvers: Sequence[str]) -> Figure:
    """Non-zero rows, the strong penalty to the left."""
    panels = [
        Panel("{case}", Case(Source(each), strength), "rows", "seconds")
        for each in data
        for strength in (STRONG, WEAK)
    ]
    return Figure("4", "Non-zero rows against training time", tuple(solvers), panels)


FIGURES: Mapping[str, Callable[[Sequence[Data], Sequence[str]], Figure]] = {
    "2": of_solvers("2", STRONG),
    "3": of_solvers("3", WEAK),
    "4": of_rows,
}
