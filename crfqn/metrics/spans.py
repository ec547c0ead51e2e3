"""Scores of label sequences: of spans by type, of chunks as in CoNLL's shared tasks, and of positions.

A predicted span is correct if its first position, its last position and its type are. Labels that break the rules of
their scheme, such as an I of IOB2 that continues no span, are read in one of two ways:

- strict: they are in no span, neither true nor predicted;
- lenient: a span begins where a label does not continue the previous one, as in the tasks' program `conlleval`.

Chunks are the spans of the labels O, B-<type> and I-<type> read leniently, which is the same for IOB1 and IOB2: a chunk
begins at every B, and at an I that begins an item or follows an O or another type.
Shapes: I items, N positions, K labels or types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.schemes import Scheme, find_scheme
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.metrics.label_arrays import encode_pair, read_spans, same_borders

AVERAGE_NAMES = "micro", "macro", "weighted"
REPORT_HEADINGS = "precision", "recall", "f1-score", "support"
CHUNK_READING: dict[str, Any] = {"scheme": "IOB2", "strict": False}
NO_SPAN = "(none)"


class PrecisionRecallF1(NamedTuple):
    """Precision, recall and F1, their harmonic mean (for each item, if averaged over items), each in [0, 1]."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class SpanCounts:
    """The number of true, predicted and correctly predicted spans; a ratio 0/0 is 0, as in conlleval."""

    n_true: int
    n_predicted: int
    n_right: int

    @property
    def precision(self) -> float:
        """The fraction of correct spans among the predicted ones, in [0, 1]."""
        return self.n_right / max(self.n_predicted, 1)

    @property
    def recall(self) -> float:
        """The fraction of predicted spans among the true ones, in [0, 1]."""
        return self.n_right / max(self.n_true, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in [0, 1]."""
        return 2 * self.n_right / max(self.n_true + self.n_predicted, 1)

    @property
    def ratios(self) -> PrecisionRecallF1:
        """Precision, recall and F1."""
        return PrecisionRecallF1(self.precision, self.recall, self.f1)


@dataclass(frozen=True)
class LabelMetrics:
    """Scores of one label or type of spans, or averages; `support` is the number of true cases."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def from_counts(cls, label: str, counts: SpanCounts) -> LabelMetrics:
        """Return the ratios of counts; 0/0 is 0."""
        return cls(label, *counts.ratios, counts.n_true)


def span_counts(
    y_true: Iterable[object], y_pred: Iterable[object], *, scheme: str | Scheme, strict: bool = True
) -> dict[str, SpanCounts]:
    """Count spans by their type.

    Parameters
    ----------
    y_true, y_pred : list of I label sequences
        With equal lengths, item by item. A flat list of N labels is one item. A predicted label may be None
        (`predict(X, threshold=...)`): it is wrong and in no span.
    scheme : str or Scheme
        "IOB1", "IOB2" ("BIO"), "IOE1", "IOE2", "BIOES" ("IOBES"), "BILOU", "BMES".
    strict : bool, default True
        Whether labels that break the rules of the scheme are in no span; if False they are read leniently.

    Returns
    -------
    dict
        By type, for all true or predicted types, sorted; a label that is only a letter has the type "".

    Raises
    ------
    InputError (a ValueError)
        No positions, different lengths (the message names the item), labels that the scheme does not have.

    Notes
    -----
    O(N), in array operations after the labels have been encoded.

    Examples
    --------
    >>> from crfqn.metrics import span_counts
    >>> span_counts([["B-NP", "I-NP", "O"]], [["I-NP", "I-NP", "O"]], scheme="IOB2")
    {'NP': SpanCounts(n_true=1, n_predicted=0, n_right=0)}
    >>> span_counts([["B-NP", "I-NP", "O"]], [["I-NP", "I-NP", "O"]], scheme="IOB2", strict=False)
    {'NP': SpanCounts(n_true=1, n_predicted=1, n_right=1)}
    """
    true, predicted, types = read_spans(encode_pair(y_true, y_pred), find_scheme(scheme), strict)
    in_true, in_predicted = same_borders(true, predicted)
    right = true.types[in_true][true.types[in_true] == predicted.types[in_predicted]]
    columns = [np.bincount(kinds, minlength=len(types)) for kinds in (true.types, predicted.types, right)]
    counts = zip(types, *(column.tolist() for column in columns), strict=True)
    return {name: SpanCounts(*row) for name, *row in counts if row[0] or row[1]}


def span_precision_recall_f1(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    *,
    scheme: str | Scheme,
    strict: bool = True,
    average: str = "micro",
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of all spans.

    Parameters and errors as in `span_counts`, and

    average : {"micro", "macro", "weighted"}, default "micro"
        "micro" sums the counts of all types; "macro" is the mean over the types, and "weighted" the mean weighted by
        the number of true spans of the type. Without any span all are 0.

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
    y_true: Iterable[object],
    y_pred: Iterable[object],
    *,
    scheme: str | Scheme,
    strict: bool = True,
    average: str = "micro",
) -> float:
    """Return the F1 of `span_precision_recall_f1`, which has the same parameters and errors."""
    return span_precision_recall_f1(y_true, y_pred, scheme=scheme, strict=strict, average=average).f1


def averaged(counts: dict[str, SpanCounts], average: str) -> PrecisionRecallF1:
    """Return the ratios averaged over all types; 0 without any span."""
    if average == "micro":
        return sum_counts(counts.values()).ratios
    ratios = np.array([count.ratios for count in counts.values()]).reshape(-1, 3)
    weights = np.array([count.n_true if average == "weighted" else 1.0 for count in counts.values()])
    mean = np.average(ratios, axis=0, weights=weights) if weights.sum() > 0 else np.zeros(3)
    return PrecisionRecallF1(*mean.tolist())


def sum_counts(counts: Iterable[SpanCounts]) -> SpanCounts:
    """Return the sums of the counts."""
    rows = [(count.n_true, count.n_predicted, count.n_right) for count in counts]
    return SpanCounts(*map(sum, zip(*rows, strict=True))) if rows else SpanCounts(0, 0, 0)


def check_average(average: str) -> None:
    """Raise InputError for an unknown average."""
    if average not in AVERAGE_NAMES:
        raise InputError(f"average: expected one of {list(AVERAGE_NAMES)}, got {describe(average)}")


def chunk_counts(y_true: Iterable[object], y_pred: Iterable[object]) -> dict[str, SpanCounts]:
    """Count chunks by their type: `span_counts` of IOB labels read leniently, with the same parameters and errors.

    References
    ----------
    Tjong Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL 2000. Their program:
    conlleval, 2004.
    """
    return span_counts(y_true, y_pred, **CHUNK_READING)


def chunk_precision_recall_f1(
    y_true: Iterable[object], y_pred: Iterable[object], *, average: str = "micro"
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of all chunks, as in conlleval's line for all types (divided by 100).

    Parameters and errors as in `span_precision_recall_f1`.

    Examples
    --------
    >>> scores = chunk_precision_recall_f1([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "B-NP", "I-VP"]])
    >>> scores.recall, round(scores.precision, 3)
    (1.0, 0.667)
    """
    return span_precision_recall_f1(y_true, y_pred, average=average, **CHUNK_READING)


def chunk_f1_score(y_true: Iterable[object], y_pred: Iterable[object], *, average: str = "micro") -> float:
    """Return the F1 of `chunk_precision_recall_f1`, which has the same parameters and errors."""
    return span_precision_recall_f1(y_true, y_pred, average=average, **CHUNK_READING).f1


def token_accuracy(y_true: Iterable[object], y_pred: Iterable[object]) -> float:
    """Return the fraction of positions with the correct label; parameters and errors as in `span_counts`."""
    codes = encode_pair(y_true, y_pred)
    return float((codes.true == codes.predicted).mean())


def sequence_accuracy(y_true: Iterable[object], y_pred: Iterable[object]) -> float:
    """Return the fraction of items, among those with positions, whose labels are all correct; as `token_accuracy`."""
    codes = encode_pair(y_true, y_pred)
    wrong = (codes.true != codes.predicted).astype(int)
    return float((np.add.reduceat(wrong, codes.starts) == 0).mean())


class Confusion(NamedTuple):
    """The number of cases by true label (row) and predicted label (column).

    Attributes
    ----------
    labels : list of K
    counts : int64 (K, K)
    """

    labels: list[Any]
    counts: NDArray[np.int64]


def token_confusion(y_true: Iterable[object], y_pred: Iterable[object]) -> Confusion:
    """Count positions by true and predicted label; the labels that occur are sorted.

    Parameters and errors as in `span_counts`; labels may be any that can be sorted.
    """
    codes = encode_pair(y_true, y_pred)
    # None, no label, is last.
    order = sorted(range(len(codes.labels)), key=lambda n: (codes.labels[n] is None, codes.labels[n]))
    rank = np.argsort(order)
    labels = [codes.labels[n] for n in order]
    return Confusion(labels, _pair_counts(rank[codes.true], rank[codes.predicted], len(order)))


def span_confusion(
    y_true: Iterable[object], y_pred: Iterable[object], *, scheme: str | Scheme, strict: bool = True
) -> Confusion:
    """Count pairs of true and predicted spans with the same first and last position by their types.

    Parameters and errors as in `span_counts`. The last row, "(none)", counts predicted spans without a true span at the
    same positions, the last column true spans without a predicted one.
    """
    true, predicted, types = read_spans(encode_pair(y_true, y_pred), find_scheme(scheme), strict)
    in_true, in_predicted = same_borders(true, predicted)
    missed, extra = np.delete(true.types, in_true), np.delete(predicted.types, in_predicted)
    nothing = len(types)
    rows = np.concatenate([true.types[in_true], missed, np.full(extra.size, nothing)])
    columns = np.concatenate([predicted.types[in_predicted], np.full(missed.size, nothing), extra])
    return Confusion([*types, NO_SPAN], _pair_counts(rows, columns, nothing + 1))


def _pair_counts(rows: NDArray[Any], columns: NDArray[Any], n: int) -> NDArray[np.int64]:
    return np.bincount(rows * n + columns, minlength=n * n).reshape(n, n)


def span_report_dict(
    y_true: Iterable[object], y_pred: Iterable[object], *, scheme: str | Scheme, strict: bool = True
) -> dict[str, dict[str, float | int]]:
    """Return precision, recall, f1-score and support (true spans) of each type, and of "micro avg" and the others.

    Parameters and errors as in `span_counts`.
    """
    counts = span_counts(y_true, y_pred, scheme=scheme, strict=strict)
    rows = {name: (*count.ratios, count.n_true) for name, count in counts.items()}
    support = sum(count.n_true for count in counts.values())
    rows |= {f"{average} avg": (*averaged(counts, average), support) for average in AVERAGE_NAMES}
    return {name: dict(zip(REPORT_HEADINGS, row, strict=True)) for name, row in rows.items()}


def span_report(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    *,
    scheme: str | Scheme,
    strict: bool = True,
    digits: int = 3,
) -> str:
    """Return a table of precision, recall, F1 and support (true spans) by type, and their averages.

    Parameters and errors as in `span_counts`; `digits` (int, default 3) is the number of digits after the point.

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
    rows = span_report_dict(y_true, y_pred, scheme=scheme, strict=strict)
    table: list[tuple[str, ...]] = [("", *REPORT_HEADINGS)]
    for name, row in rows.items():
        *ratios, support = row.values()
        table.append((name, *(f"{ratio:.{digits}f}" for ratio in ratios), str(support)))
    widths = [max(map(len, rows)), *(max(len(heading), digits + 2) for heading in REPORT_HEADINGS)]
    lines = []
    for name, *cells in table:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines += [""] if name == "micro avg" else []
        lines.append("  ".join([name.ljust(widths[0]), *numbers]))
    return "\n".join(lines)
