"""Scores of predicted labels: accuracy, precision, recall and F1 of each label, and the tree metrics of a taxonomy.

For `crfqn evaluate` and the summary after a training. Labels are compared as text, because files hold text.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.labels.schemes import Scheme, recognise_scheme
from crfqn.errors import InputError

if TYPE_CHECKING:
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
    """Scores of the chunks, which count if found as a whole (see `crfqn.metrics.spans`), in all and by type."""

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


def score_labels(
    given: Sequence[Labels], predicted: Sequence[Labels], scheme: Scheme | str | None = None
) -> Scores:
    """Compare predicted with given labels.

    Parameters
    ----------
    given, predicted : sequence of sequences of str
        One sequence an item, equally long in both.
    scheme : Scheme or str, optional
        What spans are written in; default: what the labels tell (`recognise_scheme`).

    Raises
    ------
    InputError
        Nothing to compare, or lengths that differ.
    """
    lengths = np.array([len(item) for item in given], dtype=np.int64)
    other_lengths = np.array([len(item) for item in predicted], dtype=np.int64)
    if lengths.shape != other_lengths.shape or (lengths != other_lengths).any():
        raise InputError("given and predicted labels have different lengths")
    if lengths.sum() == 0:
        raise InputError("no labelled positions to compare with")
    flat = [label for item in given for label in item], [label for item in predicted for label in item]
    names, given_codes, predicted_codes = _codes(*flat)
    is_right = given_codes == predicted_codes
    item_of = np.repeat(np.arange(lengths.size), lengths)
    n_wrong = np.bincount(item_of[~is_right], minlength=lengths.size)
    return Scores(
        n_items=lengths.size,
        n_positions=is_right.size,
        accuracy=float(is_right.mean()),
        item_accuracy=float((n_wrong == 0).mean()),
        labels=_label_scores(names, given_codes, predicted_codes),
        chunks=_chunk_scores(given, predicted, scheme or recognise_scheme(names)),
    )


def _chunk_scores(
    given: Sequence[Labels], predicted: Sequence[Labels], scheme: Scheme | str | None
) -> ChunkScores | None:
    if scheme is None:
        return None
    from crfqn.metrics.spans.scores import span_counts, sum_counts

    counts = span_counts(given, predicted, scheme=scheme, strict=False)
    every = sum_counts(list(counts.values()))
    rows = [
        LabelScore(kind, count.precision, count.recall, count.f1, count.n_true)
        for kind, count in counts.items()
    ]
    return ChunkScores(every.precision, every.recall, every.f1, rows)


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
        precision, recall = n_right / max(n_predicted, 1), n_right / max(n_given, 1)
        rows.append(LabelScore(label, precision, recall, 2 * n_right / (n_given + n_predicted), n_given))
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
    n_right = np.bincount(given[given == predicted], minlength=names.size)
    n_given = np.bincount(given, minlength=names.size)
    n_predicted = np.bincount(predicted, minlength=names.size)
    precision = n_right / np.maximum(n_predicted, 1)
    recall = n_right / np.maximum(n_given, 1)
    f1 = 2 * n_right / (n_given + n_predicted)  # every label occurs in one of the two
    rows = zip(
        names.tolist(), precision.tolist(), recall.tolist(), f1.tolist(), n_given.tolist(), strict=True
    )
    return [LabelScore(*row) for row in rows]


def log_likelihood(model: Any, inputs: Any, labels: Sequence[Any]) -> float:
    """Return sum over items of log p(given labels | item), in nats; -inf if a label is not one of the model's."""
    label_of = {str(label): label for label in model.classes_}
    one_each = isinstance(labels[0], str)
    if not all(label in label_of for item in ([labels] if one_each else labels) for label in item):
        return -np.inf
    known = [label_of[item] if one_each else [label_of[label] for label in item] for item in labels]
    return float(np.sum(model.log_likelihood(inputs, known)))
