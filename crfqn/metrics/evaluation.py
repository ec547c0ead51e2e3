"""Scores of predicted against true labels: of labels, spans, whole items, label sets and taxonomies together.

For `crfqn evaluate`, the summary after a training, and reports. Labels are compared as text, because files hold text.
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
    """Scores of spans in lenient reading, of all spans and by type; a span counts if it is right as a whole."""

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
    """Scores by the distance of predictions in the taxonomy (`crfqn.metrics.hierarchy`); `level_accuracy` begins at the
    top level, and is None for a level that no label reaches."""

    precision: float
    recall: float
    f1: float
    lca_f1: float
    tree_induced_error: float
    level_accuracy: list[float | None]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of predicted against true labels: of sequences, of one label an item, or of a set of labels an item.

    n_positions : None for items that are no sequences
    accuracy : share of positions or items with the right label; none at all (None) is not right
    coverage : share of positions or items with a predicted label; accuracy / coverage is the accuracy of these
    item_accuracy : share of items, sequences or sets, that are right as a whole
    labels : scores of every label that is true or predicted somewhere, sorted
    chunks : where the labels of sequences are of a scheme: O, B-..., I-... and the like
    hierarchy : where labels are nodes of a taxonomy
    scheme : name of that of the chunks
    """

    n_items: int
    n_positions: int | None = None
    accuracy: float
    coverage: float = 1.0
    item_accuracy: float
    labels: list[LabelMetrics]
    chunks: ChunkScores | None = None
    hierarchy: HierarchyScores | None = None
    scheme: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the scores as JSON values: those that items of this kind have."""
        others = ("n_positions", "item_accuracy", "chunks") if self.n_positions is None else ("hierarchy",)
        return {name: value for name, value in asdict(self).items() if name not in (*others, "scheme")}

    def headline(self) -> dict[str, float | int]:
        """Return the scores of all labels together, and of how many items and positions they are."""
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
    """Counts from which the scores of sequences are computed; items are added in batches and not stored. Spans are read
    in the `scheme`, by default in the one that fits the labels (`fitting_schemes`)."""

    def __init__(self, scheme: Scheme | str | None = None) -> None:
        self._has_scheme = scheme is not None
        self._schemes = fitting_schemes([]) if scheme is None else [find_scheme(scheme)]
        self._n_items = self._n_right_items = 0
        self.true: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._right: Counter[str] = Counter()
        # By type, for each scheme that the labels so far may be of.
        self._spans: dict[str, dict[str, SpanCounts]] = {scheme.name: {} for scheme in self._schemes}

    def add(self, true: Sequence[Labels], predicted: Sequence[Labels]) -> None:
        """Add items: a sequence of labels for each, equally long in both, predicted ones None where the model has none;
        InputError for other lengths."""
        if [*map(len, true)] != [*map(len, predicted)]:
            raise InputError("given and predicted labels have different lengths")
        self._n_items += len(true)
        self._n_right_items += sum([*a] == [*b] for a, b in zip(true, predicted, strict=True))
        columns = [*chain.from_iterable(true)], [*chain.from_iterable(predicted)]
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
        """The scheme of the labels so far; None for labels of no scheme."""
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
            accuracy=self._right.total() / n_positions,
            coverage=self._predicted.total() / n_positions,
            item_accuracy=self._n_right_items / self._n_items,
            labels=_label_scores(self.true, self._predicted, self._right),
            chunks=chunks,
            scheme=None if self.scheme is None else self.scheme.name,
        )


def _label_scores(true: Counter[str], predicted: Counter[str], right: Counter[str]) -> list[LabelMetrics]:
    """Return the scores of each label by the numbers of its true, predicted and correctly predicted cases."""
    return [
        LabelMetrics.from_counts(name, SpanCounts(true[name], predicted[name], right[name]))
        for name in sorted({*true, *predicted})
    ]


def score_documents(
    true: Labels, predicted: Sequence[str | None], taxonomy: LabelTree | None = None
) -> Scores:
    """Compare predicted with true labels, one an item, predicted ones None where the model has none; InputError for no
    items, or a true label that is no node."""
    _check_items(true, predicted, "labels")
    hierarchy = None
    if taxonomy is not None:
        taxonomy.nodes_of(true)  # or an error that names the unknown ones
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
    """Compare predicted with true label sets; the accuracy is the share of the items whose set is right as a whole."""
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
    """Maps labels to the text of a model's classes, to compare both. Where the classes or the labels are numbers, a
    label that equals a class as a number has the text of this class; any other label is written as it is."""

    def __init__(self, classes: NDArray) -> None:
        self.label_of = {label_text(label): label for label in classes.tolist()}
        self._has_numbers = classes.dtype.kind in "iuf"
        self._text_of: dict[Any, str] = {}
        if classes.dtype.kind == "b":  # as JSON writes them, too
            self._text_of = {text.lower(): text for text in self.label_of}
        for text in self.label_of:
            self._text_of.setdefault(number_of(text), text)

    def texts(self, item: Any) -> Any:
        """Return an item's labels as text: one, or a list of them; None for no label."""
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
        """Raise InputError where none of the labels is one of the model's."""
        distinct = dict.fromkeys(labels)
        if distinct and self.label_of.keys().isdisjoint(distinct):
            raise InputError(unknown_labels(distinct, self.label_of))


def known_labels(model: Any, labels: Iterable[Any]) -> list[Any]:
    """Return the labels of items as the model has them; None for an item with a label that the model does not have."""
    spelling, known = Spelling(model.classes_), []
    label_of = spelling.label_of
    for texts in map(spelling.texts, labels):
        if isinstance(texts, str):
            known.append(label_of.get(texts))
        else:
            is_known = all(text in label_of for text in texts)
            known.append([label_of[text] for text in texts] if is_known else None)
    return known


def log_likelihood(model: Any, inputs: Any, labels: Sequence[Any]) -> float:
    """Return sum over items of log p(true labels | item), in nats; -inf if a label is not one of the model's."""
    known = known_labels(model, labels)
    if any(item is None for item in known):
        return -np.inf
    return float(np.sum(model.log_likelihood(inputs, known)))


def score(model: Any, inputs: Any, true: Sequence[Any]) -> Scores:
    """Return the scores of the model's predictions for `inputs` against the true labels."""
    kind = model.ANSWERS
    return kind.compare(model, [(true, kind.predict_texts(model, inputs))])


def taxonomy_with(model: Any, labels: Labels) -> LabelTree | None:
    """Return the taxonomy of a model's labels, None without one; where it is made of the labels, with these ones, as
    another label is a miss, and no mistake."""
    tree = getattr(model, "tree_", None)
    return (
        tree if tree is None or model.taxonomy is not None else extend_taxonomy(tree, labels, model.separator)
    )
