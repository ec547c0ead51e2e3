"""The figures of the paper: which methods, on which problems, drawn as what against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prox_qn_study.cases import DIGITS, LSHTC1, OCR, Case

ALL = ("Prox-QN", "Prox-QN as published", "OWL-QN", "SGD", "SGD, the paper's rate", "BCD", "Prox-GD", "FISTA")
WITHOUT_SHRINKING = (
    "Prox-QN", "Prox-QN, no shrinking, 10 sweeps", "Prox-QN, no shrinking, 1 sweep",
    "OWL-QN", "SGD", "SGD, the paper's rate", "Prox-GD", "FISTA",
)  # fmt: skip


class Panel(NamedTuple):
    """One diagram: `y` and `x` are columns of the CSV file; `title` may name the `{case}`."""

    title: str
    case: Case
    y: str
    x: str


@dataclass(frozen=True)
class Figure:
    """A figure: its number, what it shows, the methods, the panels in two columns."""

    number: str
    title: str
    solvers: Sequence[str]
    panels: Sequence[Panel]

    @property
    def cases(self) -> list[Case]:
        """The problems, each once."""
        return list(dict.fromkeys(panel.case for panel in self.panels))

    @property
    def is_comparison(self) -> bool:
        """Whether it asks who is first, of all methods."""
        return tuple(self.solvers) == ALL

    @property
    def heading(self) -> str:
        """The title, and the problem unless the panels tell."""
        return f"{self.title}: {self.cases[0]}" if "{case}" not in self.panels[0].title else self.title

    def quick(self) -> Figure:
        """The same on small parts of the data."""
        return replace(self, panels=[panel._replace(case=panel.case.quick()) for panel in self.panels])


def convergence(number: str, title: str, case: Case, letters: str = "ab") -> Figure:
    """Distance and non-zeros, against seconds and against passes."""
    names = {"relative_difference": "relative objective difference", "n_nonzero": "non-zero weights"}
    panels = [
        Panel(f"({letter}) {names[y]}" if x == "seconds" else f"{names[y]}, by passes", case, y, x)
        for x in ("seconds", "passes")
        for letter, y in zip(letters, names, strict=True)
    ]
    return Figure(number, title, ALL, panels)


FIGURES: Mapping[str, Figure] = {
    figure.number: figure
    for figure in (
        convergence("1", "Sequence labelling", Case(OCR, 100.0), "bc"),
        convergence("2", "Hierarchical classification", Case(LSHTC1, 1.0), "bc"),
        convergence("3", "Sequence labelling", Case(OCR, 500.0)),
        convergence("4", "Sequence labelling", Case(OCR, 50.0)),
        convergence("5", "Hierarchical classification", Case(LSHTC1, 2.0)),
        convergence("6", "Hierarchical classification", Case(LSHTC1, 0.5)),
        Figure(
            "7",
            "Test accuracy against training time",
            ALL,
            [
                Panel("(a) {case}", Case(OCR, 100.0), "accuracy", "seconds"),
                Panel("(b) {case}", Case(LSHTC1, 1.0), "accuracy", "seconds"),
            ],
        ),
        Figure(
            "8",
            "Without shrinking, against passes",
            WITHOUT_SHRINKING,
            [Panel("{case}", Case(OCR, 100.0), "relative_difference", "passes")],
        ),
        convergence("digits", "Sequence labelling, built-in data", Case(DIGITS, 3.0)),
    )
}
TABLES: Mapping[str, Sequence[Case]] = {
    "1": [Case(OCR, l1) for l1 in (50.0, 100.0, 500.0)],
    "2": [Case(LSHTC1, l1) for l1 in (0.5, 1.0, 2.0)],
}
