"""A model on labelled data: predictions, scores of each label, what was taken for what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from crfqn.data.labels.schemes import Scheme, find_scheme, recognise_scheme
from crfqn.errors import InputError
from crfqn.metrics.spans import span_counts, sum_counts
from crfqn.plot.matrices import ConfusionDisplay, flat_labels
from crfqn.report.subject import Subject
from crfqn.wording import describe

MOST_CONFUSIONS = 200
MOST_LABELS = 400  # in the picture of the confusion matrix


class LabelScores(NamedTuple):
    """Scores of one label; ratios without cases (0/0) are 0."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


class Mistake(NamedTuple):
    """How often a label was taken for another, and which share of its occurrences that is."""

    given: str
    predicted: str
    n_times: int
    share: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Given and predicted labels of items, as text.

    Attributes
    ----------
    X : features of the items, as the model takes them
    given, predicted : of each item a str, or a list of str for sequences and sets of labels
    has_sets : whether an item may have several labels
    source : where the data is from, for people; may be empty
    scheme : what the labels write spans in, if they do
    """

    X: Any
    given: list[Any]
    predicted: list[Any]
    has_sets: bool = False
    source: str = ""
    scheme: Scheme | None = None

    @classmethod
    def of(cls, subject: Subject, data: Any, source: str = "") -> Evaluation:
        """Return the evaluation of a model on a pair (X, y).

        Raises
        ------
        InputError
            No pair, no items, or X and y of different lengths.
        """
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise InputError(f"data: expected a pair (X, y), got {describe(data)}")
        X, y = data
        model = subject.model
        if subject.is_sequence:
            predicted: list[Any] = [[str(label) for label in item] for item in model.predict(X)]
            given: list[Any] = _cut(y, [len(item) for item in predicted])
        elif hasattr(model, "predict_sets") and _are_sets(y):
            predicted = [[str(label) for label in labels] for labels in model.predict_sets(X)]
            given = [[str(label) for label in labels] for labels in y]
        else:
            predicted = [str(label) for label in flat_labels(model.predict(X))]
            given = [str(label) for label in flat_labels(y)]
        _check(given, predicted, subject.is_sequence)
        scheme = None
        if subject.is_sequence:
            named = getattr(model, "scheme", None)
            scheme = find_scheme(named) if named else recognise_scheme({*chain(*given, *predicted)})
        return cls(X, given, predicted, not subject.is_sequence and _are_sets(given), source, scheme)

    @cached_property
    def flat(self) -> tuple[list[str], list[str]]:
        """Given and predicted labels position by position, or item by item."""
        return flat_labels(self.given), flat_labels(self.predicted)

    @property
    def accuracy(self) -> float:
        """Share of the positions or items with the right label; of sets, of those that are right as a whole."""
        if self.has_sets:
            return self.item_accuracy
        given, predicted = self.flat
        return float(np.mean([a == b for a, b in zip(given, predicted, strict=True)]))

    @property
    def item_accuracy(self) -> float:
        """Share of the items that are right as a whole."""
        pairs = zip(self.given, self.predicted, strict=True)
        return float(np.mean([set(a) == set(b) if self.has_sets else a == b for a, b in pairs]))

    def by_label(self) -> list[LabelScores]:
        """Return the scores of each label that was given or predicted."""
        if self.has_sets:
            coder = MultiLabelBinarizer().fit([*self.given, *self.predicted])
            names, tables = (
                coder.classes_.tolist(),
                (coder.transform(self.given), coder.transform(self.predicted)),
            )
            scores = precision_recall_fscore_support(*tables, average=None, zero_division=0)
        else:
            given, predicted = self.flat
            names = sorted({*given, *predicted})
            scores = precision_recall_fscore_support(
                given, predicted, labels=names, average=None, zero_division=0
            )
        columns = [np.asarray(column).tolist() for column in scores]
        return [LabelScores(*row) for row in zip(names, *columns, strict=True)]

    def spans(self) -> list[LabelScores]:
        """Return the scores of spans, which count if found as a whole: of all, then by type; none without a scheme."""
        if self.scheme is None:
            return []
        counts = span_counts(self.given, self.predicted, scheme=self.scheme, strict=False)
        every = {"all": sum_counts(list(counts.values()))}
        return [LabelScores(name, *found.ratios, found.n_true) for name, found in (every | counts).items()]

    def mistakes(self) -> list[Mistake]:
        """Return which label was taken for which, the most frequent first."""
        given, predicted = self.flat
        support = Counter(given)
        wrong = Counter((a, b) for a, b in zip(given, predicted, strict=True) if a != b)
        return [Mistake(a, b, n, n / support[a]) for (a, b), n in wrong.most_common(MOST_CONFUSIONS)]

    def confusion(self) -> ConfusionDisplay | None:
        """Return the confusion matrix; None for sets of labels, and for more labels than a picture shows."""
        if self.has_sets or len({*self.flat[0], *self.flat[1]}) > MOST_LABELS:
            return None
        return ConfusionDisplay.of(*self.flat, normalize="true")


def _are_sets(y: Any) -> bool:
    values = list(y[:1]) if hasattr(y, "__getitem__") else []
    return bool(values) and isinstance(values[0], list | tuple | set | frozenset)


def _cut(y: Any, lengths: list[int]) -> list[list[str]]:
    """Return the given labels item by item: as they are, or a flat array of the positions' cut up."""
    values = list(y)
    if len(values) == len(lengths) and all(np.ndim(value) == 1 for value in values):
        return [[str(label) for label in item] for item in values]
    if len(values) != sum(lengths):
        raise InputError(
            f"data: expected labels of {len(lengths)} items or {sum(lengths)} positions, got {len(values)}"
        )
    ends = np.cumsum(lengths).tolist()
    return [[str(label) for label in values[end - n : end]] for n, end in zip(lengths, ends, strict=True)]


def _check(given: list[Any], predicted: list[Any], is_sequence: bool) -> None:
    """Raise InputError unless there are labels, as many as items, and of a sequence as many as positions."""
    if len(given) != len(predicted):
        raise InputError(
            f"data: expected as many labels as items, got {len(given)} labels for {len(predicted)} items"
        )
    if not flat_labels(given):
        raise InputError("data: expected at least one labelled item, got none")
    for number, (known, found) in enumerate(zip(given, predicted, strict=True)):
        if is_sequence and len(known) != len(found):
            raise InputError(f"data: item {number}: expected {len(found)} labels, got {len(known)}")
