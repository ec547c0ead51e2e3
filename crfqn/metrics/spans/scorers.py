"""Scorers of sequence labellings, for `scoring=` of scikit-learn's searches and cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from crfqn.data.labels.schemes import Scheme, find_scheme
from crfqn.errors import InputError
from crfqn.metrics.spans.encoding import encode_pair
from crfqn.metrics.spans.scores import check_average, span_precision_recall_f1
from crfqn.wording import describe

MEASURES = "f1", "precision", "recall"


def make_span_scorer(
    scheme: str | Scheme, *, measure: str = "f1", average: str = "micro", strict: bool = True
) -> Callable[..., float]:
    """Make a scorer of spans for `scoring=`.

    Parameters
    ----------
    scheme : str or Scheme, as in `span_counts`
    measure : {"f1", "precision", "recall"}, default "f1"
    average : {"micro", "macro", "weighted"}, default "micro"
    strict : bool, default True

    Raises
    ------
    InputError
        At once, not in the search's workers, for a name that is not known.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from crfqn import ChainCRF
    >>> from crfqn.metrics import make_span_scorer
    >>> search = GridSearchCV(ChainCRF(), {"l1": [0.5, 1.0]}, scoring=make_span_scorer("IOB2"))
    """
    found = find_scheme(scheme)
    check_average(average)
    if measure not in MEASURES:
        raise InputError(f"measure: expected one of {list(MEASURES)}, got {describe(measure)}")
    return make_scorer(_span_score, scheme=found.name, measure=measure, average=average, strict=strict)


def token_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of the positions that are labelled right; parameters and errors as in `span_counts`."""
    codes = encode_pair(y_true, y_pred)
    return float((codes.true == codes.predicted).mean())


def sequence_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of the items with all labels right, those without positions left out; as `token_accuracy`."""
    codes = encode_pair(y_true, y_pred)
    wrong = (codes.true != codes.predicted).astype(int)
    return float((np.add.reduceat(wrong, codes.starts) == 0).mean())


def _span_score(y_true: Any, y_pred: Any, *, scheme: str, measure: str, average: str, strict: bool) -> float:
    scores = span_precision_recall_f1(y_true, y_pred, scheme=scheme, average=average, strict=strict)
    return float(getattr(scores, measure))
