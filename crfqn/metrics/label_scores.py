"""scikit-learn's scores of single labels, by its names, over the labels of all positions where items are sequences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn.metrics

from crfqn.metrics.spans.encoding import encode_pair

AVERAGED = {
    "f1": sklearn.metrics.f1_score,
    "precision": sklearn.metrics.precision_score,
    "recall": sklearn.metrics.recall_score,
    "jaccard": sklearn.metrics.jaccard_score,
}
LABEL_SCORES: dict[str, Callable[..., float]] = {
    "accuracy": sklearn.metrics.accuracy_score,
    "balanced_accuracy": sklearn.metrics.balanced_accuracy_score,
    "matthews_corrcoef": sklearn.metrics.matthews_corrcoef,
    **{
        f"{name}_{average}": partial(score, average=average, zero_division=0)
        for name, score in AVERAGED.items()
        for average in ("micro", "macro", "weighted")
    },
}


def label_score(y_true: Any, y_pred: Any, *, name: str, sample_weight: Any = None) -> float:
    """Return the score `name` of labels, or of the labels of all positions of sequences.

    sample_weight : array-like (n_items,), optional; of sequences the weight of each position of the item
    """
    if not _are_sequences(y_true):
        return float(LABEL_SCORES[name](y_true, y_pred, sample_weight=sample_weight))
    if sample_weight is not None:
        sample_weight = np.repeat(sample_weight, [len(item) for item in y_true])
    codes = encode_pair(y_true, y_pred)
    return float(LABEL_SCORES[name](codes.true, codes.predicted, sample_weight=sample_weight))


def _are_sequences(y: Any) -> bool:
    """Return whether labels come as one list an item."""
    is_table = isinstance(y, np.ndarray) and y.dtype != object
    return not is_table and any(isinstance(item, (list, tuple, np.ndarray)) for item in y)
