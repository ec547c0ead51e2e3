"""Metrics of sklearn-crfsuite: scikit-learn's over the labels of all positions, and the accuracy over sequences.

Further arguments are passed to the metric of scikit-learn with the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.compat.utils import flatten
from crfqn.errors import InputError
from crfqn.metrics.label_arrays import check_label_pair

LabelSequences: TypeAlias = Iterable[Iterable[object]]
Score: TypeAlias = float | NDArray[np.float64]  # an array with average=None


def _score(name: str, y_true: LabelSequences, y_pred: LabelSequences, **kwargs: object) -> Any:
    """Return a metric of scikit-learn, imported when it is called, of the labels of all positions; InputError if
    true and predicted labels do not match."""
    import sklearn.metrics

    true, predicted = ([list(item) for item in y] for y in (y_true, y_pred))
    if len(true) != len(predicted):
        raise InputError(f"expected labels of {len(true)} items, got {len(predicted)}")
    for i, (left, right) in enumerate(zip(true, predicted, strict=True)):
        if len(left) != len(right):
            raise InputError(f"item {i}: expected {len(left)} labels, got {len(right)}")
    labels = flatten(true), flatten(predicted)
    if None in labels[1]:
        raise InputError("y_pred: expected a label at each position, got None")
    check_label_pair(true, predicted, [*labels[0], *labels[1]])
    return getattr(sklearn.metrics, name)(*labels, **kwargs)


def flat_accuracy_score(y_true: LabelSequences, y_pred: LabelSequences) -> float:
    """Return the accuracy over positions."""
    return _score("accuracy_score", y_true, y_pred)


def flat_precision_score(y_true: LabelSequences, y_pred: LabelSequences, **kwargs: object) -> Score:
    """Return `sklearn.metrics.precision_score` of the labels of all positions."""
    return _score("precision_score", y_true, y_pred, **kwargs)


def flat_recall_score(y_true: LabelSequences, y_pred: LabelSequences, **kwargs: object) -> Score:
    """Return `sklearn.metrics.recall_score` of the labels of all positions."""
    return _score("recall_score", y_true, y_pred, **kwargs)


def flat_f1_score(y_true: LabelSequences, y_pred: LabelSequences, **kwargs: object) -> Score:
    """Return `sklearn.metrics.f1_score` of the labels of all positions."""
    return _score("f1_score", y_true, y_pred, **kwargs)


def flat_fbeta_score(y_true: LabelSequences, y_pred: LabelSequences, beta: float, **kwargs: object) -> Score:
    """Return `sklearn.metrics.fbeta_score` of the labels of all positions."""
    return _score("fbeta_score", y_true, y_pred, beta=beta, **kwargs)


def flat_classification_report(
    y_true: LabelSequences, y_pred: LabelSequences, labels: Sequence | None = None, **kwargs: object
) -> str | dict:
    """Return `sklearn.metrics.classification_report` of the labels of all positions."""
    return _score("classification_report", y_true, y_pred, labels=labels, **kwargs)


def sequence_accuracy_score(y_true: LabelSequences, y_pred: LabelSequences) -> float:
    """Return the fraction of items without a wrong position; 0 without items."""
    true, predicted = ([list(item) for item in y] for y in (y_true, y_pred))
    if len(true) != len(predicted):
        raise InputError(f"expected labels of {len(true)} items, got {len(predicted)}")
    hits = [left == right for left, right in zip(true, predicted, strict=True)]
    return float(np.mean(hits)) if hits else 0.0
