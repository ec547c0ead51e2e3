"""The evaluation of a model on labelled data: scores, confusions, and the worst errors position by position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.inputs import ItemsLike
from crfqn.data.label_arrays import label_text, position_labels
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.metrics.evaluation import Scores, Spelling, known_labels
from crfqn.model.answers import LABEL_ANSWERS, SET_ANSWERS, LabelAnswers
from crfqn.model.explanations import Explanation
from crfqn.model.item_model import ItemModel
from crfqn.model.model import Model
from crfqn.model.sequences import SequenceModel
from crfqn.plot.matrices import ConfusionDisplay
from crfqn.report.images import Pixels, ink_of

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator

MAX_CONFUSIONS = 200  # rows of the table of confusions
MAX_MATRIX_LABELS = 30  # in the picture of the confusion matrix: more names cannot be read
MAX_SHOWN_POSITIONS = 60  # of a sequence, around its first error, so that an error fits a screen
MAX_MARGINALS = 4  # labels with their probabilities per position
MAX_REASONS = 8  # terms of an explanation
# The feature of the position itself, named as by window templates and CRFsuite's examples: w[0]=dog.
OWN_FEATURE = re.compile(r"[^\[\]|=]+\[0\]=(.*)", re.S)


@dataclass(frozen=True, eq=False)
class EvaluationSection:
    """The evaluation of an estimator on labelled items.

    X : the items
    given, predicted : the labels of each item as text, a list of str for sequences and sets
    has_sets : whether the labels of an item are a set
    source : where the data is from, for the reader
    """

    X: ItemsLike
    given: list[Any]
    predicted: list[Any]
    scores: Scores
    has_sets: bool = False
    source: str = ""

    @classmethod
    def from_model(cls, model: Estimator, data: object, source: str = "") -> EvaluationSection:
        """Return the evaluation of an estimator on a pair (X, y); InputError unless X and y have the same items."""
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise InputError(f"data: expected a pair (X, y), got {describe(data)}")
        X, y = data
        kind, first = model.ANSWERS, list(y[:1]) if hasattr(y, "__getitem__") else []
        if kind is SET_ANSWERS and not (first and isinstance(first[0], list | tuple | set | frozenset)):
            kind = LABEL_ANSWERS
        predicted = kind.predict_texts(model, X)
        true = [*map(Spelling(model.classes_).texts, kind.by_item(y, predicted))]
        _check(true, predicted, kind)
        scores = kind.compare(model, [(true, predicted)])
        return cls(X, true, predicted, scores, kind is SET_ANSWERS, source)

    @cached_property
    def flat(self) -> tuple[list[str], list[str]]:
        """Given and predicted labels position by position, or item by item."""
        return position_labels(self.given), position_labels(self.predicted)

    def mistakes(self) -> list[dict[str, Any]]:
        """Return the pairs of a label and a wrong prediction, by decreasing frequency, with the fraction of the label's
        occurrences."""
        true, predicted = self.flat
        support = Counter(true)
        wrong = Counter((a, b) for a, b in zip(true, predicted, strict=True) if a != b)
        return [
            {"given": a, "predicted": b, "n_times": n, "share": n / support[a]}
            for (a, b), n in wrong.most_common(MAX_CONFUSIONS)
        ]

    def confusion(self) -> ConfusionDisplay | None:
        """Return the confusion matrix of the MAX_MATRIX_LABELS labels with the most errors; None for sets."""
        if self.has_sets:
            return None
        display = ConfusionDisplay.from_labels(*self.flat, normalize="true")
        names = display.display_labels.tolist()
        if len(names) <= MAX_MATRIX_LABELS:
            return display
        n_wrong = Counter(
            label for pair in zip(*self.flat, strict=True) if pair[0] != pair[1] for label in pair
        )
        shown = sorted(names.index(label) for label, _ in n_wrong.most_common(MAX_MATRIX_LABELS))
        return ConfusionDisplay(
            display.confusion_matrix[np.ix_(shown, shown)],
            display_labels=display.display_labels[shown],
            normalize="true",
        )


def _check(given: list[Any], predicted: list[Any], kind: LabelAnswers) -> None:
    """Raise InputError unless there are labels, one per item, or for sequences one per position."""
    if len(given) != len(predicted):
        raise InputError(
            f"data: expected as many labels as items, got {len(given)} labels for {len(predicted)} items"
        )
    if not position_labels(given):
        raise InputError("data: expected at least one labelled item, got none")
    for number, (item, labels) in enumerate(zip(given, predicted, strict=True)):
        if kind.n_positions(item) != kind.n_positions(labels):
            raise InputError(f"data: item {number}: expected {len(labels)} labels, got {len(item)}")


class Probable(NamedTuple):
    """A label and its probability."""

    label: str
    probability: float


@dataclass(frozen=True)
class Position:
    """A position of a sequence, or an item with one label."""

    given: str
    predicted: str
    text: str = ""
    image: str = ""
    marginals: list[Probable] = field(default_factory=list)
    explanation: Explanation | None = None

    @property
    def is_wrong(self) -> bool:
        return self.given != self.predicted


@dataclass(frozen=True)
class Error:
    """An item with wrong labels.

    number : from 1
    log_likelihood : of the given labels, in nats; nan if the model has none, -inf for unknown labels
    positions : those that are shown, after `n_before` others
    """

    number: int
    log_likelihood: float
    n_wrong: int
    n_positions: int = 1
    positions: list[Position] = field(default_factory=list)
    n_before: int = 0

    @property
    def n_after(self) -> int:
        return self.n_positions - self.n_before - len(self.positions)

    @property
    def is_possible(self) -> bool:
        """Whether the given labels have a positive probability."""
        return isfinite(self.log_likelihood)


@dataclass(frozen=True, eq=False)
class Errors:
    """Finds the items that an estimator labels wrongly.

    weights : the Model of the estimator, None if it has no weights of features
    texts : the text of each item, or a list of the texts of its positions
    pixels : shows images
    """

    model: Estimator
    weights: Model | None
    evaluation: EvaluationSection
    texts: Sequence[Any] | None = None
    pixels: Pixels | None = None

    def worst(self, n_errors: int) -> list[Error]:
        """Return up to `n_errors` wrong items, by increasing probability of the given labels or, if the model has no
        probabilities, by decreasing number of wrong positions."""
        model, evaluation = self.model, self.evaluation
        pairs = list(zip(evaluation.given, evaluation.predicted, strict=True))
        wrong = [i for i, (a, b) in enumerate(pairs) if (set(a) != set(b) if evaluation.has_sets else a != b)]
        if not wrong:
            return []
        likelihoods = self._likelihoods(wrong)
        n_wrong = np.ones(len(wrong), np.int64)
        for k, (given, predicted) in enumerate(pairs[i] for i in wrong):
            if not isinstance(given, str) and len(given) != len(predicted):
                n_wrong[k] = len(set(given) ^ set(predicted))
            elif not isinstance(given, str):
                n_wrong[k] = sum(a != b for a, b in zip(given, predicted, strict=True))
        order = np.lexsort((-n_wrong, np.where(np.isnan(likelihoods), 0.0, likelihoods)))[:n_errors]
        items = [wrong[k] for k in order]
        X, kind, tables = take(evaluation.X, items), model.ANSWERS, [None] * len(items)
        if hasattr(model, kind.tables_by):
            tables = [*getattr(model, kind.tables_by)(X)]
        explanations: list[Any] = [{} if kind.has_positions else None] * len(items)
        if isinstance(self.weights, SequenceModel):
            wrong_positions = [
                [t for t, (a, b) in enumerate(zip(*pairs[i], strict=True)) if a != b][:MAX_SHOWN_POSITIONS]
                for i in items
            ]
            explained = self.weights.explain(X, MAX_REASONS, positions=wrong_positions)
            explanations = [
                dict(zip(*one, strict=True)) for one in zip(wrong_positions, explained, strict=True)
            ]
        elif isinstance(self.weights, ItemModel) and not evaluation.has_sets:
            explanations = [*self.weights.explain(X, MAX_REASONS)]
        described = self._of_sequence if kind.has_positions else self._of_item
        return [
            described(Error(i + 1, float(likelihoods[k]), int(n_wrong[k])), table, explained)
            for i, k, table, explained in zip(items, order, tables, explanations, strict=True)
        ]

    def _likelihoods(self, items: list[int]) -> NDArray[np.float64]:
        """Return log P(given labels) of items; -inf if a label is unknown to the model, nan without probabilities."""
        values = np.full(len(items), np.nan)
        if not hasattr(self.model, "log_likelihood") or self.evaluation.has_sets:
            return values
        labels = known_labels(self.model, [self.evaluation.given[i] for i in items])
        known = [k for k, item in enumerate(labels) if item is not None]
        values[:] = -np.inf
        if known:
            X = take(self.evaluation.X, [items[k] for k in known])
            values[known] = self.model.log_likelihood(X, [labels[k] for k in known])
        return values

    def _probable(self, row: Vector | None, given: str) -> list[Probable]:
        """Return the MAX_MARGINALS labels with the largest probabilities, of which the given one replaces the last."""
        if row is None:
            return []
        labels = [*map(label_text, self.model.classes_)]
        best = np.argsort(-row, kind="stable")[:MAX_MARGINALS].tolist()
        if given in labels and labels.index(given) not in best:
            best[-1] = labels.index(given)
        return [Probable(labels[k], float(row[k])) for k in best]

    def _of_sequence(self, error: Error, table: Vector | None, explanations: dict[int, Explanation]) -> Error:
        """Return the error with its positions around the first wrong one."""
        evaluation, i = self.evaluation, error.number - 1
        true, predicted, item = evaluation.given[i], evaluation.predicted[i], take(evaluation.X, [i])[0]
        first_wrong = next(t for t, (a, b) in enumerate(zip(true, predicted, strict=True)) if a != b)
        begin = max(0, min(first_wrong - MAX_SHOWN_POSITIONS // 2, len(true) - MAX_SHOWN_POSITIONS))
        positions = []
        for t in range(begin, min(begin + MAX_SHOWN_POSITIONS, len(true))):
            if self.texts is not None:
                text = str(self.texts[i][t]) if t < len(self.texts[i]) else ""
            else:
                text = "" if self.pixels else _text(evaluation.X, item, t)
            image = ink_of(self.pixels, evaluation.X, item, t)
            marginals = self._probable(None if table is None else table[t], true[t])
            positions.append(Position(true[t], predicted[t], text, image, marginals, explanations.get(t)))
        return replace(error, n_positions=len(true), positions=positions, n_before=begin)

    def _of_item(self, error: Error, table: Vector | None, explanation: Explanation | None) -> Error:
        """Return the error with its only position."""
        evaluation, i = self.evaluation, error.number - 1
        true, predicted, row = evaluation.given[i], evaluation.predicted[i], take(evaluation.X, [i])
        text = "" if self.texts is None else self.texts[i]
        if isinstance(text, list) and len(text) == 1 and isinstance(text[0], dict):  # a table's row
            text = ", ".join(f"{name} {cell}" for name, cell in text[0].items())
        if evaluation.has_sets:
            return replace(error, positions=[Position(", ".join(true), ", ".join(predicted), str(text))])
        image = ink_of(self.pixels, evaluation.X, row, 0)
        position = Position(true, predicted, str(text), image, self._probable(table, true), explanation)
        return replace(error, positions=[position])


def take(X: Any, items: list[int]) -> Any:
    """Return some items of a list, a data frame, a matrix or Sequences."""
    if hasattr(X, "iloc"):
        return X.iloc[items]
    if hasattr(X, "shape"):
        return X[np.array(items, np.int64)]
    values = X if hasattr(X, "__getitem__") else list(X)
    return [values[i] for i in items]


def _text(X: Any, item: Any, t: int) -> str:
    """Return the word at a position: the value of its first feature `x[0]=value`, otherwise its first feature."""
    first = ""
    if isinstance(item, list):
        features = item[t]
        pairs = list(features.items() if isinstance(features, dict) else ((name, "") for name in features))
        names = [
            f"{name}={value}" if isinstance(value, str) and value else str(name) for name, value in pairs
        ]
        first = next((value for _, value in pairs[:1] if isinstance(value, str)), "")
    else:
        known = getattr(X, "feature_names", None)
        if known is None or not hasattr(item, "indptr"):
            return ""
        names = [known[column] for column in item.indices[item.indptr[t] : item.indptr[t + 1]].tolist()]
    words = (match[1] for match in map(OWN_FEATURE.match, names) if match)
    return next(words, first or (names[0] if names else ""))
