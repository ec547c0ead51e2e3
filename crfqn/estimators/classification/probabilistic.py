"""What the classifiers of single items share that have probabilities: an item is a row of a matrix, and has one label.

Training by maximum likelihood, and probabilities of classes; all else is in `items.py`.

Shapes: I items, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from crfqn.data.labels import encode_known_labels
from crfqn.errors import InputError
from crfqn.estimators.base import Decoding, SparseCRF, pass_on_interrupt
from crfqn.estimators.classification.items import ItemModel, Vector


class ItemClassifier(ItemModel):
    """Base of the classifiers; X is a matrix (items x features), y has one label an item."""

    SETTINGS = (*SparseCRF.SETTINGS, "fit_intercept", "penalize_intercept")

    def __init__(
        self,
        l1: float = 1.0,
        l2: float = 0.0,
        *,
        group_l1: float = 0.0,
        group_norm: str = "l2",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Mapping | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 500,
        max_seconds: float | None = None,
        solver: Any = "prox-qn",
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Callable[..., object] | None = None,
    ) -> None:
        super().__init__(
            l1, l2, tol, max_iter, max_seconds, solver, n_threads, random_state, verbose, warm_start, callback,
            group_l1=group_l1, group_norm=group_norm,
        )  # fmt: skip
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, start: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read as they are, without a copy.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; for `TaxonomyCRF` also rows of the parts of a path.
        sample_weight : array-like, shape (n_items,), optional
            How often each item counts; 0 is the same as leaving it out.
        start : fitted MulticlassCRF, MulticlassClassifier or MultilabelRanker, of `TaxonomyCRF` also one, optional
            Start from its weights, of the labels (nodes) and features (by name where both have names) in common, others
            from zero. It goes before `warm_start`. `verbose` says how much was kept.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Says what was expected and what came.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback; the model has the best weights so far, and is usable.
        """
        self._check_parameters()
        checked = copy(self)  # takes the columns' names: a fit that fails leaves the last model as it was
        X, targets = self._read(checked, X, y, sample_weight)
        weights = self._start(checked, targets, start)
        store = self._store(X)
        del X  # so that a caller who does not keep it gets its memory back
        self._keep(self._learn(checked, store, targets, weights))
        pass_on_interrupt(self.result_)
        return self

    def predict_log_proba(self, X: Any) -> Vector:
        """log P(label | x) of each class, (I, n_classes), in nats."""
        return np.concatenate([log_softmax(scores, axis=0).T for scores in self._class_scores(X)])

    def predict_proba(self, X: Any) -> Vector:
        """P(label | x) of each class, (I, n_classes), rows that sum to 1."""
        return np.concatenate([softmax(scores, axis=0).T for scores in self._class_scores(X)])

    def predict_top(self, X: Any, k: int) -> Ranking:
        """The k most probable labels of each item, the most probable first; ties in the order of `classes_`."""
        check_is_fitted(self)
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= k <= len(self.classes_):
            raise InputError(f"k: expected an integer from 1 to {len(self.classes_)}, got {k!r}")
        found = []
        for scores in self._class_scores(X):
            codes = np.argsort(-scores.T, axis=1, kind="stable")[:, :k]
            found.append((codes, np.take_along_axis(softmax(scores, axis=0).T, codes, axis=1)))
        codes, probabilities = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Ranking(self.classes_[codes], probabilities)

    def decode(self, X: Any) -> Decoding:
        """The most probable label of each item, and the logarithm of its probability."""
        found = [
            (scores.argmax(axis=0), log_softmax(scores, axis=0).max(axis=0))
            for scores in self._class_scores(X)
        ]
        codes, log_probability = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Decoding(self._as_given(self.classes_[codes]), log_probability)

    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """log P(y_i | x_i) of each item, (I,), in nats; the labels must be among the classes."""
        check_is_fitted(self)
        names = column_or_1d(self._label_names(y)[0])
        check_consistent_length(X, names)
        codes = encode_known_labels(names, np.arange(names.size + 1), self.classes_)
        found = []
        for scores in self._class_scores(X):
            n = scores.shape[1]
            found.append(log_softmax(scores, axis=0)[codes[:n], np.arange(n)])
            codes = codes[n:]
        return np.concatenate(found)


class Ranking(NamedTuple):
    """labels, (I, k), and their probabilities, float64 (I, k), the most probable first."""

    labels: NDArray
    probabilities: NDArray[np.float64]
