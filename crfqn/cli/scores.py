"""Scores of predicted labels: accuracy, precision, recall and F1 of each label, and the tree metrics of a taxonomy.

For `crfqn evaluate` and the summary after a training. Labels are compared as text, because files hold text.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.labels.schemes import OUTSIDE, Scheme, find_scheme, fitting_schemes
from crfqn.errors import InputError

if TYPE_CHECKING:
    from crfqn.metrics.spans import SpanCounts
    from crfqn.taxonomy.tree import LabelTree

Labels = Sequence[str]


@dataclass(frozen=True)
class LabelScore:
    """Scores of one label: the fraction right of its predictions (precision) and of its occurrences (recall), and F1.

    A ratio without cases (0/0) is 0, as in scikit-learn.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ChunkScores:
    """Scores of the chunks, which count if found as a whole (see `crfqn.metrics`), in all and by type."""

    precision: float
    recall: float
    f1: float
    types: list[LabelScore]


@dataclass(frozen=True)
class Scores:
    """Scores of predicted against given labels of sequences.

    Attributes
    ----------
    n_items, n_positions : int
    accuracy : float
        Share of positions with the right label.
    item_accuracy : float
        Share of items with all labels right.
    labels : list of LabelScore
        Every label that was given or predicted, sorted.
    chunks : ChunkScores or None
        Where the labels are of a scheme: O, B-..., I-... and the like.
    """

    n_items: int
    n_positions: int
    accuracy: float
    item_accuracy: float
    labels: list[LabelScore]
    chunks: ChunkScores | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class HierarchyScores:
    """Scores that count how near predictions are to the right labels in the taxonomy; see `crfqn.metrics`.

    Attributes
    ----------
    precision, recall, f1, lca_f1 : float
        Hierarchical precision, recall and F1, and the F1 of LCA.
    tree_induced_error : float
        Mean number of edges between the right and the predicted label.
    level_accuracy : list of float or None
        From the tops downwards; None for a level that no label reaches.
    """

    precision: float
    recall: float
    f1: float
    lca_f1: float
    tree_induced_error: float
    level_accuracy: list[float | None]


@dataclass(frozen=True)
class DocumentScores:
    """Scores of predicted against given labels, one an item; `hierarchy` is None without a taxonomy."""

    n_items: int
    accuracy: float
    labels: list[LabelScore]
    hierarchy: HierarchyScores | None

    def as_json(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


class LabelCounts:
    """Counts that the scores of sequences are made of; items are added in parts, and not kept.

    Parameters
    ----------
    scheme : Scheme or str, optional
        What spans are written in; default: what the labels tell (`recognise_scheme`).
    """

    def __init__(self, scheme: Scheme | str | None = None) -> None:
        self._is_given = scheme is not None
        self._schemes = [find_scheme(scheme)] if scheme is not None else fitting_schemes([])
        self._n_items = self._n_right_items = 0
        self._given: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._right: Counter[str] = Counter()
        # By type, for each scheme that the labels so far may be of.
        self._spans: dict[str, dict[str, SpanCounts]] = {scheme.name: {} for scheme in self._schemes}

    def add(self, given: Sequence[Labels], predicted: Sequence[Labels]) -> None:
        """Add items: a sequence of labels for each, equally long in both; InputError for other lengths."""
        lengths = np.array([len(item) for item in given], dtype=np.int64)
        other_lengths = np.array([len(item) for item in predicted], dtype=np.int64)
        if lengths.shape != other_lengths.shape or (lengths != other_lengths).any():
            raise InputError("given and predicted labels have different lengths")
        self._n_items += lengths.size
        flat = [label for item in given for label in item], [label for item in predicted for label in item]
        names, *codes = _codes(*flat)
        is_right = codes[0] == codes[1]
        item_of = np.repeat(np.arange(lengths.size), lengths)
        n_wrong = np.bincount(item_of[~is_right], minlength=lengths.size)
        self._n_right_items += int((n_wrong == 0).sum())
        counters = self._given, self._predicted, self._right
        for counter, found in zip(counters, (*codes, codes[0][is_right]), strict=True):
            counter.update(
                dict(zip(names.tolist(), np.bincount(found, minlength=names.size).tolist(), strict=True))
            )
        if lengths.any():
            self._add_spans(names.tolist(), given, predicted)

    def _add_spans(self, names: list[str], given: Sequence[Labels], predicted: Sequence[Labels]) -> None:
        from crfqn.metrics.spans import span_counts, sum_counts

        if not self._is_given:
            fitting = fitting_schemes(names)
            self._schemes = [scheme for scheme in self._schemes if scheme in fitting]
        for scheme in self._schemes:
            spans = self._spans[scheme.name]
            for kind, count in span_counts(given, predicted, scheme=scheme, strict=False).items():
                spans[kind] = sum_counts([count, *([spans[kind]] if kind in spans else [])])

    def scores(self) -> Scores:
        """Return the scores of all items; InputError if they have no positions."""
        n_positions = self._given.total()
        if not n_positions:
            raise InputError("no labelled positions to compare with")
        names = sorted(self._given)
        return Scores(
            n_items=self._n_items,
            n_positions=n_positions,
            accuracy=self._right.total() / n_positions,
            item_accuracy=self._n_right_items / self._n_items,
            labels=[
                _label_score(name, self._right[name], self._given[name], self._predicted[name])
                for name in names
            ],
            chunks=self._chunks({*names} - {OUTSIDE}),
        )

    def _chunks(self, names: set[str]) -> ChunkScores | None:
        if not self._schemes or not (names or self._is_given):
            return None
        from crfqn.metrics.spans import sum_counts

        counts = sorted(self._spans[self._schemes[0].name].items())
        every = sum_counts([count for _, count in counts])
        rows = [
            LabelScore(kind, count.precision, count.recall, count.f1, count.n_true) for kind, count in counts
        ]
        return ChunkScores(every.precision, every.recall, every.f1, rows)


def score_labels(
    given: Sequence[Labels], predicted: Sequence[Labels], scheme: Scheme | str | None = None
) -> Scores:
    """Compare predicted with given labels; parameters as of `LabelCounts`.

    Raises
    ------
    InputError
        Nothing to compare, or lengths that differ.
    """
    counts = LabelCounts(scheme)
    counts.add(given, predicted)
    return counts.scores()


def score_documents(given: Labels, predicted: Labels, taxonomy: "LabelTree | None" = None) -> DocumentScores:
    """Compare predicted with given labels, one an item.

    Raises
    ------
    InputError
        Nothing to compare, numbers of items that differ, labels that are no nodes of the taxonomy.
    """
    if len(given) != len(predicted):
        raise InputError("given and predicted labels have different lengths")
    if not given:
        raise InputError("no labelled items to compare with")
    if taxonomy is not None:
        taxonomy.nodes_of(given)  # or an error that names the unknown ones
    names, given_codes, predicted_codes = _codes(given, predicted)
    return DocumentScores(
        n_items=len(given),
        accuracy=float((given_codes == predicted_codes).mean()),
        labels=_label_scores(names, given_codes, predicted_codes),
        hierarchy=None if taxonomy is None else _hierarchy_scores(given, predicted, taxonomy),
    )


def score_sets(given: Sequence[Labels], predicted: Sequence[Labels]) -> DocumentScores:
    """Compare predicted with given label sets; the accuracy is the share of the items whose set is right as a whole.

    Raises
    ------
    InputError
        Nothing to compare, or numbers of items that differ.
    """
    if len(given) != len(predicted):
        raise InputError("given and predicted label sets have different lengths")
    if not given:
        raise InputError("no labelled items to compare with")
    pairs = [(set(known), set(found)) for known, found in zip(given, predicted, strict=True)]
    rows = []
    for label in sorted(set().union(*(known | found for known, found in pairs))):
        n_given, n_predicted = (sum(label in pair[side] for pair in pairs) for side in (0, 1))
        n_right = sum(label in known and label in found for known, found in pairs)
        rows.append(_label_score(label, n_right, n_given, n_predicted))
    accuracy = sum(known == found for known, found in pairs) / len(pairs)
    return DocumentScores(len(pairs), accuracy, rows, None)


def _hierarchy_scores(given: Labels, predicted: Labels, taxonomy: "LabelTree") -> HierarchyScores:
    from crfqn import metrics

    labels = given, predicted, taxonomy
    levels = metrics.level_accuracy(*labels).tolist()
    return HierarchyScores(
        *metrics.hierarchical_precision_recall_f1(*labels),
        lca_f1=metrics.lca_f1_score(*labels),
        tree_induced_error=metrics.tree_induced_error(*labels),
        level_accuracy=[None if np.isnan(accuracy) else accuracy for accuracy in levels],
    )


def _codes(given: Labels, predicted: Labels) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of both, sorted, and their numbers on either side."""
    names, codes = np.unique(np.array([given, predicted]), return_inverse=True)
    given_codes, predicted_codes = codes.reshape(2, -1)
    return names, given_codes, predicted_codes


def _label_scores(
    names: NDArray[Any], given: NDArray[np.int64], predicted: NDArray[np.int64]
) -> list[LabelScore]:
    counts = [
        np.bincount(found, minlength=names.size).tolist()
        for found in (given[given == predicted], given, predicted)
    ]
    return [_label_score(*row) for row in zip(names.tolist(), *counts, strict=True)]


def _label_score(name: str, n_right: int, n_given: int, n_predicted: int) -> LabelScore:
    f1 = 2 * n_right / (n_given + n_predicted)  # every label occurs in one of the two
    return LabelScore(name, n_right / max(n_predicted, 1), n_right / max(n_given, 1), f1, n_given)


def log_likelihood(model: Any, inputs: Any, labels: Sequence[Any]) -> float:
    """Return sum over items of log p(given labels | item), in nats; -inf if a label is not one of the model's."""
    label_of = {str(label): label for label in model.classes_}
    one_each = isinstance(labels[0], str)
    if not all(label in label_of for item in ([labels] if one_each else labels) for label in item):
        return -np.inf
    known = [label_of[item] if one_each else [label_of[label] for label in item] for item in labels]
    return float(np.sum(model.log_likelihood(inputs, known)))
