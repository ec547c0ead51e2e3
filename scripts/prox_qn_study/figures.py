"""The figures of the paper: which methods, on which problems, drawn as what against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from studies.figures import Figure, Panel

from prox_qn_study.cases import DIGITS, LSHTC1, OCR, Case

ALL = ("Prox-QN", "Prox-QN as published", "OWL-QN", "SGD", "SGD, the paper's rate", "BCD", "Prox-GD", "FISTA")
WITHOUT_SHRINKING = (
    "Prox-QN", "Prox-QN, no shrinking, 10 sweeps", "Prox-QN, no shrinking, 1 sweep",
    "OWL-QN", "SGD", "SGD, the paper's rate", "Prox-GD", "FISTA",
)  # fmt: skip


def convergence(number: str, title: str, case: Case, letters: str = "ab") -> Figure:
    """Distance and non-zeros, against seconds and against passes."""
    names = {"relative_difference": "relative objective difference", "n_nonzero": "non-zero weights"}
    panels = [
        Panel(f"({letter}) {names[y]}" if x == "seconds" else f"{names[y]}, by passes", case, y, x)
        for x in ("seconds", "passes")
        for letter, y in zip(letters, names, strict=True)
    ]
    return Figure(number, title, ALL, panels, is_comparison=True)


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
            is_comparison=True,
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
