"""Scorers by name for `scoring=` of scikit-learn's searches and cross-validation: of spans, taxonomies and labels.

Scores of labels have scikit-learn's names; for sequences they are computed over the labels of all positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer

from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.data.schemes import Scheme, find_scheme
from crfqn.errors import InputError
from crfqn.messages import describe, hint
from crfqn.metrics import hierarchy
from crfqn.metrics.label_arrays import encode_pair
from crfqn.metrics.spans import (
    AVERAGE_NAMES,
    check_average,
    chunk_f1_score,
    sequence_accuracy,
    span_precision_recall_f1,
    token_accuracy,
)
from crfqn.taxonomy.reading import extend_taxonomy
from crfqn.taxonomy.tree import LabelTree

F1_MEASURES = "f1", "precision", "recall"
HIERARCHY_SCORES: dict[str, Callable[..., float]] = {
    **{
        f"{kind}_{measure}": getattr(hierarchy, f"{kind}_{measure}_score")
        for kind in ("hierarchical", "lca")
        for measure in F1_MEASURES
    },
    "tree_induced_error": hierarchy.tree_induced_error,
}
LABEL_SCORES: dict[str, Callable[..., float]] = {
    "accuracy": sklearn.metrics.accuracy_score,
    "balanced_accuracy": sklearn.metrics.balanced_accuracy_score,
    "matthews_corrcoef": sklearn.metrics.matthews_corrcoef,
    **{
        f"{measure}_{average}": partial(
            getattr(sklearn.metrics, f"{measure}_score"), average=average, zero_division=0
        )
        for measure in (*F1_MEASURES, "jaccard")
        for average in ("micro", "macro", "weighted")
    },
}
SPAN_SCORES = {
    f"span_{measure}" + ("" if average == AVERAGE_NAMES[0] else f"_{average}"): (measure, average)
    for average in AVERAGE_NAMES
    for measure in F1_MEASURES
}
SEQUENCE_SCORES = {"token_accuracy": token_accuracy, "sequence_accuracy": sequence_accuracy}


def find_scorer(name: str) -> Callable[..., float]:
    """Return the scorer with a name, for `scoring=`; `scorer_names` lists the names.

    Parameters
    ----------
    name : str
        "token_accuracy" or "sequence_accuracy"; span_f1, span_precision or span_recall, followed by "_macro" or
        "_weighted" for another average than "micro", and by a scheme, such as "span_f1:IOB2"; a name that
        `hierarchical_scorer` accepts; or scikit-learn's "accuracy", "balanced_accuracy", "matthews_corrcoef",
        "f1_macro", "f1_weighted", "f1_micro" and the same of precision, recall and jaccard. For sequences,
        which scikit-learn's own scorers refuse, these are computed over the labels of all positions.

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> from crfqn.metrics import find_scorer
    >>> scorer = find_scorer("span_f1:IOB2")
    """
    if name in SEQUENCE_SCORES:
        return make_scorer(SEQUENCE_SCORES[name])
    if name in LABEL_SCORES:
        return make_scorer(label_score, name=name)
    kind, _, scheme = str(name).partition(":")
    if kind in SPAN_SCORES:
        measure, average = SPAN_SCORES[kind]
        return make_span_scorer(scheme, measure=measure, average=average)
    if name in HIERARCHY_SCORES or kind == "level_accuracy":
        return hierarchical_scorer(name)
    near = hint(kind, (each.partition(":")[0] for each in scorer_names()))
    raise InputError(f"expected one of {', '.join(scorer_names())}, got {describe(name)}{near}")


def scorer_names() -> list[str]:
    """Return the names that `find_scorer` accepts; <scheme> and <n> are placeholders for a label scheme and a level."""
    spans = [f"{name}:<scheme>" for name in SPAN_SCORES]
    return [*SEQUENCE_SCORES, *LABEL_SCORES, *spans, *HIERARCHY_SCORES, "level_accuracy:<n>"]


def hierarchical_scorer(name: str, taxonomy: object = None, separator: str = "/") -> Callable[..., float]:
    """Make a scorer for scikit-learn's `scoring=`: `scorer(estimator, X, y)`, greater is better.

    Parameters
    ----------
    name : str
        "hierarchical_f1", "hierarchical_precision", "hierarchical_recall", "lca_f1", "lca_precision",
        "lca_recall", "tree_induced_error" (the scorer gives it a minus sign), or "level_accuracy:2" for the
        accuracy at level 2.
    taxonomy : LabelTree, or another form that `crfqn.taxonomy.reading.open_taxonomy` accepts, optional
        None: the fitted `tree_` of the estimator, of a pipeline's last step or of a search's best estimator, extended
        by the labels in `y` if it was inferred from the labels of a fold; without any, the tree of the paths in `y` and
        the predictions, or a star.
    separator : str, default "/"
        As in `hierarchical_precision_recall_f1`.

    Returns
    -------
    callable
        With a taxonomy an object of `sklearn.metrics.make_scorer`, which supports metadata routing.

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from crfqn.metrics import hierarchical_scorer
    >>> scorer = hierarchical_scorer("tree_induced_error", [("sport", "golf"), ("sport", "tennis")])
    >>> scorer(DummyClassifier().fit([[0]], ["golf"]), [[0], [0]], ["golf", "tennis"])
    -1.0
    """
    scorer = _made_scorer(name, taxonomy, separator)
    return OwnTreeScorer(name, separator) if taxonomy is None else scorer


@dataclass(frozen=True)
class OwnTreeScorer:
    """A scorer that reads the taxonomy from the estimator; see `hierarchical_scorer`."""

    name: str
    separator: str = "/"

    def __call__(
        self, estimator: Any, X: ItemsLike, y: LabelsLike, sample_weight: ArrayLike | None = None
    ) -> float:
        # The estimator may be inside a search or a pipeline; the `tree_` of decision trees is not a LabelTree.
        owner, tree = estimator, None
        while owner is not None and not isinstance(getattr(owner, "tree_", None), LabelTree):
            steps = getattr(owner, "steps", None)
            owner = steps[-1][1] if steps else getattr(owner, "best_estimator_", None)
        if owner is not None:
            tree = owner.tree_
            if getattr(owner, "taxonomy", owner) is None:  # it was inferred from the labels of a fold
                tree = extend_taxonomy(tree, y, getattr(owner, "separator", self.separator))
        scorer = _made_scorer(self.name, tree, self.separator)
        return scorer(estimator, X, y, sample_weight=sample_weight)


def _made_scorer(name: str, taxonomy: object, separator: str) -> Callable[..., float]:
    settings = {"taxonomy": taxonomy, "separator": separator}
    kind, colon, level = str(name).partition(":")
    if kind in HIERARCHY_SCORES and not colon:
        return make_scorer(HIERARCHY_SCORES[kind], greater_is_better=kind != "tree_induced_error", **settings)
    if kind != "level_accuracy" or not level.isdecimal() or int(level) < 1:
        expected = ", ".join(map(repr, HIERARCHY_SCORES))
        raise InputError(
            f"expected a name among {expected} or 'level_accuracy:<n>', n >= 1, got {describe(name)}"
        )
    return make_scorer(_accuracy_at_level, level=int(level), **settings)


def _accuracy_at_level(
    y_true: Iterable[object], y_pred: Iterable[object], *, level: int, **options: Any
) -> float:
    accuracies = hierarchy.level_accuracy(y_true, y_pred, **options)
    if level > accuracies.size:
        raise InputError(f"level_accuracy: expected a level from 1 to {accuracies.size}, got {level}")
    return float(accuracies[level - 1])


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
        For an unknown name, now and not later in the search's workers.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from crfqn import ChainCRF
    >>> from crfqn.metrics import make_span_scorer
    >>> search = GridSearchCV(ChainCRF(), {"l1": [0.5, 1.0]}, scoring=make_span_scorer("IOB2"))
    """
    name = find_scheme(scheme).name
    check_average(average)
    if measure not in F1_MEASURES:
        raise InputError(f"measure: expected one of {list(F1_MEASURES)}, got {describe(measure)}")
    return make_scorer(_span_score, scheme=name, measure=measure, average=average, strict=strict)


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


def label_score(
    y_true: Iterable[Any], y_pred: Iterable[object], *, name: str, sample_weight: ArrayLike | None = None
) -> float:
    """Return the score `name` of labels, for sequences of the labels of all positions, with the weights of their
    items."""
    is_table = isinstance(y_true, np.ndarray) and y_true.dtype != object
    if is_table or not any(isinstance(item, (list, tuple, np.ndarray)) for item in y_true):
        return float(LABEL_SCORES[name](y_true, y_pred, sample_weight=sample_weight))
    if sample_weight is not None:
        sample_weight = np.repeat(sample_weight, [len(item) for item in y_true])
    codes = encode_pair(y_true, y_pred)
    return float(LABEL_SCORES[name](codes.true, codes.predicted, sample_weight=sample_weight))


def _span_score(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    *,
    scheme: str,
    measure: str,
    average: str,
    strict: bool,
) -> float:
    scores = span_precision_recall_f1(y_true, y_pred, scheme=scheme, average=average, strict=strict)
    return float(getattr(scores, measure))
