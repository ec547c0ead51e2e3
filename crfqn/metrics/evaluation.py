"""Scores of predicted against true labels: accuracy, and scores of labels, spans, label sets and taxonomies.

Used by `crfqn evaluate`, the summary of a training, and reports. Labels are compared as text, because files have text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, compress
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import ItemsLike
from crfqn.data.label_arrays import label_text, number_of, unknown_labels
from crfqn.data.schemes import OUTSIDE, Scheme, find_scheme, fitting_schemes
from crfqn.errors import InputError
from crfqn.metrics.hierarchy import (
    hierarchical_precision_recall_f1,
    lca_f1_score,
    level_accuracy,
    tree_induced_error,
)
from crfqn.metrics.spans import LabelMetrics, SpanCounts, span_counts, sum_counts
from crfqn.taxonomy.reading import extend_taxonomy
from crfqn.taxonomy.tree import LabelTree

Labels = Sequence[str]


@dataclass(frozen=True)
class ChunkScores:
    """Scores of spans read leniently, for all spans and by type; a span counts if it is correct as a whole."""

    precision: float
    recall: float
    f1: float
    types: list[LabelMetrics]

    @property
    def every(self) -> LabelMetrics:
        """The scores of all types together."""
        n_true = sum(row.support for row in self.types)
        return LabelMetrics("all", self.precision, self.recall, self.f1, n_true)


@dataclass(frozen=True)
class HierarchyScores:
    """Scores that measure distances in the taxonomy (`crfqn.metrics.hierarchy`).

    level_accuracy : by level from the top; None for a level without true labels
    """

    precision: float
    recall: float
    f1: float
    lca_f1: float
    tree_induced_error: float
    level_accuracy: list[float | None]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of predicted against true labels: of sequences, of one label an item, or of a set of labels an item.

    n_positions : the number of positions with a true label, None if items are not sequences
    n_unknown : the number of positions without one, which do not count
    accuracy : fraction of positions or items with the correct label; no label (None) counts as wrong
    coverage : fraction of positions or items with a predicted label; accuracy / coverage is their accuracy
    item_accuracy : fraction of items, sequences or sets, that are correct as a whole
    labels : scores of every true or predicted label, sorted
    chunks : scores of spans, if the labels of sequences are in a scheme such as O, B-..., I-...
    hierarchy : scores in the taxonomy, if labels are nodes of one
    scheme : the name of the scheme of chunks
    """

    n_items: int
    n_positions: int | None = None
    n_unknown: int = 0
    accuracy: float
    coverage: float = 1.0
    item_accuracy: float
    labels: list[LabelMetrics]
    chunks: ChunkScores | None = None
    hierarchy: HierarchyScores | None = None
    scheme: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the scores of this kind of items as JSON values."""
        others = {"n_positions", "item_accuracy", "chunks"} if self.n_positions is None else {"hierarchy"}
        others |= {"scheme"} if self.n_unknown else {"scheme", "n_unknown"}
        return {name: value for name, value in asdict(self).items() if name not in others}

    def headline(self) -> dict[str, float | int]:
        """Return the scores of all labels together, with the number of items and positions."""
        numbers: dict[str, float | int | None] = {
            "n_items": self.n_items,
            "n_positions": self.n_positions,
            "accuracy": self.accuracy,
            "item_accuracy": None if self.n_positions is None else self.item_accuracy,
            "chunk_f1": None if self.chunks is None else self.chunks.f1,
            "hierarchical_f1": None if self.hierarchy is None else self.hierarchy.f1,
        }
        return {name: value for name, value in numbers.items() if value is not None}


class LabelCounts:
    """Counts from which the scores of sequences are computed; items are added in batches and not stored.

    Spans are read in the `scheme`, by default in the scheme that fits the labels (`fitting_schemes`).
    """

    def __init__(self, scheme: Scheme | str | None = None) -> None:
        self._has_scheme = scheme is not None
        self._schemes = fitting_schemes([]) if scheme is None else [find_scheme(scheme)]
        self._n_items = self._n_right_items = self._n_unknown = 0
        self.true: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._right: Counter[str] = Counter()
        # By type, for each scheme that fits the labels so far.
        self._spans: dict[str, dict[str, SpanCounts]] = {scheme.name: {} for scheme in self._schemes}

    def add(self, true: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        """Add items: a sequence of labels for each, with equal lengths in both; a predicted label may be None.

        Positions whose true label is None, and items of such positions alone, do not count; for spans, they are outside
        of all spans in both. InputError for different lengths.
        """
        if [*map(len, true)] != [*map(len, predicted)]:
            raise InputError("given and predicted labels have different lengths")
        columns = [*chain.from_iterable(true)], [*chain.from_iterable(predicted)]
        if n_unknown := columns[0].count(None):
            self._n_unknown += n_unknown
            is_known = [label is not None for label in columns[0]]
            columns = [*compress(columns[0], is_known)], [*compress(columns[1], is_known)]
            pairs = [(a, b) for a, b in zip(true, predicted, strict=True) if not a or {*a} != {None}]
            predicted = [[OUTSIDE if x is None else y for x, y in zip(a, b, strict=True)] for a, b in pairs]
            true = [[OUTSIDE if label is None else label for label in a] for a, _ in pairs]
        self._n_items += len(true)
        self._n_right_items += sum([*a] == [*b] for a, b in zip(true, predicted, strict=True))
        self.true.update(columns[0])
        self._predicted.update(label for label in columns[1] if label is not None)
        self._right.update(compress(columns[0], map(eq, *columns)))
        if not self._has_scheme:
            self._schemes = fitting_schemes({*self.true, *self._predicted})
        for scheme in self._schemes if columns[0] else ():
            spans = self._spans[scheme.name]
            for kind, count in span_counts(true, predicted, scheme=scheme, strict=False).items():
                spans[kind] = sum_counts([count, *([spans[kind]] if kind in spans else [])])

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of the labels so far; None if they fit no scheme."""
        is_known = self._schemes and (self._has_scheme or {*self.true, *self._predicted} - {OUTSIDE})
        return self._schemes[0] if is_known else None

    def scores(self) -> Scores:
        """Return the scores of all items; InputError if they have no positions."""
        n_positions = self.true.total()
        if not n_positions:
            raise InputError("no labelled positions to compare with")
        chunks = None
        if self.scheme is not None:
            counts = self._spans[self.scheme.name]
            types = [LabelMetrics.from_counts(kind, count) for kind, count in sorted(counts.items())]
            chunks = ChunkScores(*sum_counts(counts.values()).ratios, types)
        return Scores(
            n_items=self._n_items,
            n_positions=n_positions,
            n_unknown=self._n_unknown,
            accuracy=self._right.total() / n_positions,
            coverage=self._predicted.total() / n_positions,
            item_accuracy=self._n_right_items / self._n_items,
            labels=_label_scores(self.true, self._predicted, self._right),
            chunks=chunks,
            scheme=None if self.scheme is None else self.scheme.name,
        )


def _label_scores(true: Counter[str], predicted: Counter[str], right: Counter[str]) -> list[LabelMetrics]:
    """Return the scores of each label from the numbers of true, predicted and correctly predicted cases."""
    return [
        LabelMetrics.from_counts(name, SpanCounts(true[name], predicted[name], right[name]))
        for name in sorted({*true, *predicted})
    ]


def score_documents(
    true: Labels, predicted: Sequence[str | None], taxonomy: LabelTree | None = None
) -> Scores:
    """Compare predicted with true labels, one per item; a predicted label may be None.

    InputError for no items, or for a true label that is not a node.
    """
    _check_items(true, predicted, "labels")
    hierarchy = None
    if taxonomy is not None:
        taxonomy.nodes_of(true)  # raises InputError, which names unknown labels
        labels = true, predicted, taxonomy
        levels = level_accuracy(*labels).tolist()
        hierarchy = HierarchyScores(
            *hierarchical_precision_recall_f1(*labels),
            lca_f1=lca_f1_score(*labels),
            tree_induced_error=tree_induced_error(*labels),
            level_accuracy=[None if np.isnan(accuracy) else accuracy for accuracy in levels],
        )
    right = Counter(compress(true, map(eq, true, predicted)))
    share, n_predicted = right.total() / len(true), Counter(name for name in predicted if name is not None)
    return Scores(
        n_items=len(true),
        accuracy=share,
        coverage=n_predicted.total() / len(true),
        item_accuracy=share,
        labels=_label_scores(Counter(true), n_predicted, right),
        hierarchy=hierarchy,
    )


def score_sets(true: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]]) -> Scores:
    """Compare predicted with true label sets; the accuracy is the fraction of items whose whole set is correct."""
    _check_items(true, predicted, "label sets")
    columns = [[*map(set, true)], [*map(set, predicted)]]
    n_true, n_predicted = (Counter(chain.from_iterable(sets)) for sets in columns)
    right = Counter(chain.from_iterable(map(set.intersection, *columns)))
    share, rows = sum(map(eq, *columns)) / len(true), _label_scores(n_true, n_predicted, right)
    return Scores(n_items=len(true), accuracy=share, item_accuracy=share, labels=rows)


def _check_items(true: Sequence[Any], predicted: Sequence[Any], noun: str) -> None:
    if len(true) != len(predicted):
        raise InputError(f"given and predicted {noun} have different lengths")
    if not true:
        raise InputError("no labelled items to compare with")


class Spelling:
    """Maps labels to the texts of a model's classes, to compare both.

    If the classes or the labels are numbers, a label that equals a class as a number has the text of this class. Other
    labels keep their own text.
    """

    def __init__(self, classes: NDArray) -> None:
        self.label_of = {label_text(label): label for label in classes.tolist()}
        self._has_numbers = classes.dtype.kind in "iuf"
        self._text_of: dict[Any, str] = {}
        if classes.dtype.kind == "b":  # JSON writes true and false
            self._text_of = {text.lower(): text for text in self.label_of}
        for text in self.label_of:
            self._text_of.setdefault(number_of(text), text)

    def texts(self, item: Any) -> Any:
        """Return a label as text, or a list of labels as texts; None for no label."""
        if item is None:
            return None
        if not isinstance(item, str) and isinstance(item, Iterable):
            return [*map(self.texts, item)]
        text = label_text(item)
        if text in self.label_of:
            return text
        is_number = self._has_numbers or isinstance(item, (int, float))
        return self._text_of.get(number_of(text) if is_number else text, text)

    def check_known(self, labels: Iterable[str]) -> None:
        """Raise InputError if the model has none of the labels."""
        distinct = dict.fromkeys(labels)
        if distinct and self.label_of.keys().isdisjoint(distinct):
            raise InputError(unknown_labels(distinct, self.label_of))


def known_labels(model: Any, labels: Iterable[Any]) -> list[Any]:
    """Return the labels of items as classes of the model; None for an item with a label unknown to the model. The
    labels of sequences may be None."""
    spelling, known = Spelling(model.classes_), []
    label_of = spelling.label_of
    for texts in map(spelling.texts, labels):
        if isinstance(texts, str):
            known.append(label_of.get(texts))
        else:
            is_known = all(text is None or text in label_of for text in texts)
            known.append([label_of.get(text) for text in texts] if is_known else None)
    return known


def log_likelihood(model: Any, inputs: ItemsLike, labels: Sequence[Any]) -> float:
    """Return the sum over items of log p(true labels | item), in nats; -inf if the model does not have a label."""
    known = known_labels(model, labels)
    if any(item is None for item in known):
        return -np.inf
    return float(np.sum(model.log_likelihood(inputs, known)))


def score(model: Any, inputs: ItemsLike, true: Sequence[Any]) -> Scores:
    """Return the scores of the model's predictions for `inputs` against the true labels."""
    kind = model.ANSWERS
    return kind.compare(model, [(true, kind.predict_texts(model, inputs))])


def taxonomy_with(model: Any, labels: Labels) -> LabelTree | None:
    """Return the taxonomy of a model's labels, None without one.

    A taxonomy that was inferred from the training labels is extended by `labels`: an unknown label counts as a miss and
    is not an error.
    """
    tree = getattr(model, "tree_", None)
    return (
        tree if tree is None or model.taxonomy is not None else extend_taxonomy(tree, labels, model.separator)
    )
