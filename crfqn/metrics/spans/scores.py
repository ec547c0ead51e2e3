"""Precision, recall and F1 of spans: a span counts as found if its first position, its last and its type are right.

Two readings of labels that are wrong in their scheme, such as an I of IOB2 that continues nothing:

- strict: they are no spans, neither given nor predicted ones;
- lenient: a span begins where a label does not continue the one before, as `conlleval` counts.

Shapes: I items, N positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crfqn.data.labels.schemes import Scheme, find_scheme
from crfqn.errors import InputError
from crfqn.metrics.measures import PrecisionRecallF1
from crfqn.metrics.spans.encoding import encode_pair
from crfqn.metrics.spans.finding import read_spans, same_borders
from crfqn.wording import describe

AVERAGES = "micro", "macro", "weighted"


@dataclass(frozen=True)
class SpanCounts:
    """Numbers of spans: given ones, predicted ones, and right ones among the predicted.

    precision, recall and f1 are in [0, 1]; a ratio without cases (0/0) is 0, as in conlleval.
    """

    n_true: int
    n_predicted: int
    n_right: int

    @property
    def precision(self) -> float:
        """Fraction of the predicted spans that are right, in [0, 1]."""
        return self.n_right / max(self.n_predicted, 1)

    @property
    def recall(self) -> float:
        """Fraction of the given spans that are found, in [0, 1]."""
        return self.n_right / max(self.n_true, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in [0, 1]."""
        return 2 * self.n_right / max(self.n_true + self.n_predicted, 1)

    @property
    def ratios(self) -> PrecisionRecallF1:
        """The three of them."""
        return PrecisionRecallF1(self.precision, self.recall, self.f1)


def span_counts(
    y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True
) -> dict[str, SpanCounts]:
    """Count spans by their type.

    Parameters
    ----------
    y_true, y_pred : list of I label sequences
        Equally long, item by item. A flat list of N labels is taken as one item.
    scheme : str or Scheme
        "IOB1", "IOB2" ("BIO"), "IOE1", "IOE2", "BIOES" ("IOBES"), "BILOU", "BMES".
    strict : bool, default True
        Whether only spans count that the scheme writes so; otherwise labels that are wrong in it have spans, too.

    Returns
    -------
    dict
        The types that were given or predicted, sorted; labels that are a letter alone have the type "".

    Raises
    ------
    InputError (a ValueError)
        No positions, lengths that differ (the item is named), labels that the scheme does not have.

    Notes
    -----
    O(N), in array operations once the labels have numbers.

    Examples
    --------
    >>> from crfqn.metrics import span_counts
    >>> span_counts([["B-NP", "I-NP", "O"]], [["I-NP", "I-NP", "O"]], scheme="IOB2")
    {'NP': SpanCounts(n_true=1, n_predicted=0, n_right=0)}
    >>> span_counts([["B-NP", "I-NP", "O"]], [["I-NP", "I-NP", "O"]], scheme="IOB2", strict=False)
    {'NP': SpanCounts(n_true=1, n_predicted=1, n_right=1)}
    """
    true, predicted, types = read_spans(encode_pair(y_true, y_pred), find_scheme(scheme), strict)
    ours, theirs = same_borders(true, predicted)
    right = true.types[ours][true.types[ours] == predicted.types[theirs]]
    counts = (np.bincount(found, minlength=len(types)) for found in (true.types, predicted.types, right))
    return {
        name: SpanCounts(*map(int, row))
        for name, *row in zip(types, *counts, strict=True)
        if row[0] or row[1]
    }


def span_precision_recall_f1(
    y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True, average: str = "micro"
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of all spans.

    Parameters and errors as in `span_counts`, and

    average : {"micro", "macro", "weighted"}, default "micro"
        "micro" sums the counts of all types; "macro" is the mean of the types' own precisions, recalls and F1s, and
        "weighted" the mean weighted by how many spans of the type are given. Without any span all are 0.

    Examples
    --------
    >>> from crfqn.metrics import span_precision_recall_f1
    >>> y_true, y_pred = [["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "B-NP", "I-VP"]]
    >>> span_precision_recall_f1(y_true, y_pred, scheme="IOB2")
    PrecisionRecallF1(precision=0.5, recall=0.5, f1=0.5)
    """
    check_average(average)
    return averaged(span_counts(y_true, y_pred, scheme=scheme, strict=strict), average)


def span_f1_score(
    y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True, average: str = "micro"
) -> float:
    """Return the F1 of `span_precision_recall_f1`, which has the same parameters and errors."""
    return span_precision_recall_f1(y_true, y_pred, scheme=scheme, strict=strict, average=average).f1


def averaged(counts: dict[str, SpanCounts], average: str) -> PrecisionRecallF1:
    """Return the ratios of all types, averaged; 0 without any span."""
    found = list(counts.values())
    if average == "micro":
        return sum_counts(found).ratios
    ratios = np.array([count.ratios for count in found]).reshape(-1, 3)
    weights = np.array([count.n_true if average == "weighted" else 1.0 for count in found])
    mean = np.average(ratios, axis=0, weights=weights) if weights.sum() > 0 else np.zeros(3)
    return PrecisionRecallF1(*mean.tolist())


def sum_counts(counts: list[SpanCounts]) -> SpanCounts:
    """Return the sums of the counts of all types."""
    return SpanCounts(
        sum(count.n_true for count in counts),
        sum(count.n_predicted for count in counts),
        sum(count.n_right for count in counts),
    )


def check_average(average: str) -> None:
    """Refuse an average that is not known."""
    if average not in AVERAGES:
        raise InputError(f"average: expected one of {list(AVERAGES)}, got {describe(average)}")
