"""Folds of cross-validation over whole items: scikit-learn's splitters choose items, never positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing as take

from crfqn.data.labels.codes import split_by_item
from crfqn.data.sequences import Sequences
from crfqn.estimators.ranking.label_sets import are_sets
from crfqn.estimators.sequence.chain import ChainCRF


@dataclass(frozen=True, eq=False)
class Fold:
    """Items to train on, with their weights, and items to test on."""

    X_train: Any
    y_train: Any
    weights: NDArray | None
    X_test: Any
    y_test: Any


def make_folds(
    estimator: Any, X: Any, y: Any, sample_weight: Any, cv: Any, groups: Any = None
) -> Iterator[Fold]:
    """Yield the folds of a scikit-learn splitter; those by default are stratified where items have one label each."""
    n_items = n_items_of(X)
    is_stratified = is_classifier(estimator) and not are_sets(y)
    splitter = check_cv(cv, y if is_stratified else None, classifier=is_stratified)
    labels = y if is_stratified else None
    for train, test in splitter.split(np.empty((n_items, 1)), labels, groups):
        weights = None if sample_weight is None else np.asarray(sample_weight)[train]
        yield Fold(take(X, train), take(y, train), weights, take(X, test), take(y, test))


def labels_by_item(estimator: Any, X: Any, y: Any) -> Any:
    """Return labels with one entry an item: those of sequences that are given by position are cut into lists.

    y : labels that a training has accepted, by item or by position
    """
    if not isinstance(estimator, ChainCRF):
        return y
    labels = list(y)
    is_flat = not hasattr(labels[0], "__len__") or isinstance(labels[0], str)
    if not is_flat:
        return labels
    lengths = X.lengths if isinstance(X, Sequences) else [n_items_of(item) for item in X]
    return split_by_item(np.array(labels), np.concatenate([[0], np.cumsum(lengths)]))


def n_items_of(X: Any) -> int:
    """Return the number of items of X, or of positions of a single item."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
