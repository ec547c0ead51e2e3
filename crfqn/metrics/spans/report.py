"""Reports of spans by type, as text for people and as dicts for programs, in the form of scikit-learn's."""

from __future__ import annotations

from typing import Any, NamedTuple

from crfqn.data.labels.schemes import Scheme
from crfqn.metrics.measures import PrecisionRecallF1
from crfqn.metrics.spans.scores import AVERAGES, SpanCounts, averaged, span_counts

HEADINGS = "precision", "recall", "f1-score", "support"


class _Row(NamedTuple):
    name: str
    ratios: PrecisionRecallF1
    support: int

    def values(self) -> dict[str, float | int]:
        return dict(zip(HEADINGS, (*self.ratios, self.support), strict=True))


def span_report_dict(
    y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True
) -> dict[str, dict[str, float | int]]:
    """Return precision, recall, f1-score and support (given spans) of each type, and of "micro avg" and the others.

    Parameters and errors as in `span_counts`.
    """
    return {
        row.name: row.values() for row in _rows(span_counts(y_true, y_pred, scheme=scheme, strict=strict))
    }


def span_report(
    y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True, digits: int = 3
) -> str:
    """Return a table of precision, recall, F1 and support (given spans) by type, and their averages.

    Parameters and errors as in `span_counts`, and

    digits : int, default 3
        Digits behind the point.

    Examples
    --------
    >>> from crfqn.metrics import span_report
    >>> print(span_report([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "B-NP"]], scheme="IOB2"))
                  precision  recall  f1-score  support
    NP                0.500   1.000     0.667        1
    VP                0.000   0.000     0.000        1
    <BLANKLINE>
    micro avg         0.500   0.500     0.500        2
    macro avg         0.250   0.500     0.333        2
    weighted avg      0.250   0.500     0.333        2
    """
    rows = _rows(span_counts(y_true, y_pred, scheme=scheme, strict=strict))
    width = max(len(row.name) for row in rows)
    widths = [max(len(heading), digits + 2) for heading in HEADINGS]
    lines = ["  ".join([" " * width, *(h.rjust(n) for h, n in zip(HEADINGS, widths, strict=True))])]
    for row in rows:
        if row.name == f"{AVERAGES[0]} avg":
            lines.append("")
        cells = [f"{ratio:.{digits}f}" for ratio in row.ratios] + [str(row.support)]
        shown = [cell.rjust(n) for cell, n in zip(cells, widths, strict=True)]
        lines.append("  ".join([row.name.ljust(width), *shown]))
    return "\n".join(lines)


def _rows(counts: dict[str, SpanCounts]) -> list[_Row]:
    support = sum(count.n_true for count in counts.values())
    types = [_Row(name, count.ratios, count.n_true) for name, count in counts.items()]
    return types + [_Row(f"{average} avg", averaged(counts, average), support) for average in AVERAGES]
