"""Precision, recall and F1 of chunks (phrases, names) in IOB labels, as the shared tasks of CoNLL count them.

The lenient reading of `spans`, for labels `O` (outside), `B-<type>` (first of a chunk) and `I-<type>` (in a chunk). The
rules are those of the tasks' program `conlleval`: a chunk begins at every B, and at an I that begins an item or stands
behind an O or another type. So one definition serves IOB2, where every chunk begins with B, IOB1, where B only parts
neighbours of one type, and labels that are wrong in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.metrics import make_scorer

from crfqn.metrics.measures import PrecisionRecallF1
from crfqn.metrics.spans.scores import SpanCounts, span_counts, span_precision_recall_f1

IOB: dict[str, Any] = {"scheme": "IOB2", "strict": False}


def chunk_counts(y_true: Any, y_pred: Any) -> dict[str, SpanCounts]:
    """Count chunks by their type.

    Parameters
    ----------
    y_true, y_pred : list of I label sequences
        Equally long, item by item. A flat list of N labels is taken as one item.

    Returns
    -------
    dict
        The types that were given or predicted, sorted; `B` and `I` without a type have the type "".

    Raises
    ------
    InputError (a ValueError)
        No positions, lengths that differ (the item is named), labels that are none of O, B, I, B-..., I-....

    References
    ----------
    Tjong Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL 2000. Their program:
    conlleval, 2004.
    """
    return span_counts(y_true, y_pred, **IOB)


def chunk_precision_recall_f1(y_true: Any, y_pred: Any, *, average: str = "micro") -> PrecisionRecallF1:
    """Return precision, recall and F1 of all chunks, as conlleval's line for all types has them (divided by 100).

    Parameters and errors as in `chunk_counts`; `average` as in `span_precision_recall_f1`.

    Examples
    --------
    >>> found = chunk_precision_recall_f1([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "B-NP", "I-VP"]])
    >>> found.recall, round(found.precision, 3)
    (1.0, 0.667)
    """
    return span_precision_recall_f1(y_true, y_pred, average=average, **IOB)


def chunk_f1_score(y_true: Any, y_pred: Any, *, average: str = "micro") -> float:
    """Return the F1 of `chunk_precision_recall_f1`, which has the same parameters and errors."""
    return chunk_precision_recall_f1(y_true, y_pred, average=average).f1


def chunk_scorer(average: str = "micro") -> Callable[..., float]:
    """Make a scorer for scikit-learn's `scoring=`: the F1 of chunks of an estimator that labels sequences.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from crfqn import ChainCRF
    >>> from crfqn.metrics import chunk_scorer
    >>> search = GridSearchCV(ChainCRF(), {"l1": [0.5, 1.0]}, scoring=chunk_scorer())
    """
    return make_scorer(chunk_f1_score, average=average)
