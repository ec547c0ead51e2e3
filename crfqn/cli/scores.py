"""How good predicted labels are: accuracy by position and by item, and each label's precision, recall and F1.

For `crfqn evaluate` and the summary after a training. Labels are compared as text, because files hold text.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError

Labels = Sequence[str]


@dataclass(frozen=True)
class LabelScore:
    """One label: how often it is right among where it was predicted (precision) and where it stands (recall).

    A ratio without cases (0/0) is 0, as in scikit-learn.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Scores:
    """Scores of predicted against given labels.

    Attributes
    ----------
    n_items, n_positions : int
    accuracy : float
        Share of positions with the right label.
    item_accuracy : float
        Share of items with all labels right.
    labels : list of LabelScore
        Every label that was given or predicted, sorted.
    """

    n_items: int
    n_positions: int
    accuracy: float
    item_accuracy: float
    labels: list[LabelScore]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def score_labels(given: Sequence[Labels], predicted: Sequence[Labels]) -> Scores:
    """Compare predicted with given labels.

    Parameters
    ----------
    given, predicted : sequence of sequences of str
        One sequence an item, equally long in both.

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
    names, codes = np.unique(np.array(flat), return_inverse=True)
    given_codes, predicted_codes = codes.reshape(2, -1)
    is_right = given_codes == predicted_codes
    item_of = np.repeat(np.arange(lengths.size), lengths)
    n_wrong = np.bincount(item_of[~is_right], minlength=lengths.size)
    return Scores(
        n_items=lengths.size,
        n_positions=is_right.size,
        accuracy=float(is_right.mean()),
        item_accuracy=float((n_wrong == 0).mean()),
        labels=_label_scores(names, given_codes, predicted_codes),
    )


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


def log_likelihood(model: Any, inputs: Any, labels: Sequence[Labels]) -> float:
    """Sum over items of log p(given labels | item), in nats; -inf if a label is not one of the model's."""
    label_of = {str(label): label for label in model.classes_}
    if not all(label in label_of for item in labels for label in item):
        return -np.inf
    return float(
        np.sum(model.log_likelihood(inputs, [[label_of[label] for label in item] for item in labels]))
    )
