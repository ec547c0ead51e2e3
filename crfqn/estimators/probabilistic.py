"""Probabilities of the classes of single items, for classifiers trained by maximum likelihood.

Shapes: I items, F features.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from crfqn.data.label_codes import encode_known_labels
from crfqn.errors import InputError
from crfqn.estimators.base import Decoding
from crfqn.estimators.features import warn_of_empty_rows
from crfqn.estimators.items import ItemModel, Vector

LIKELIHOOD = "logistic"  # the loss that is -log P(y)


def has_probabilities(model: Any) -> bool:
    """Return True for the logistic loss; AttributeError, as scikit-learn asks, for losses without probabilities."""
    loss = getattr(model, "loss", LIKELIHOOD)
    if loss != LIKELIHOOD:
        raise AttributeError(f"probabilities are those of loss={LIKELIHOOD!r}; the loss is {loss!r}")
    return True


class Probabilistic(ItemModel):
    """Mixin of the classifiers trained by maximum likelihood: P(k | x) ~ exp(score of class k)."""

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> Vector:
        """Return log P(k | x) of each class, float64 (n_items, n_classes), in nats; X and errors as in `predict`."""
        return np.concatenate([log_softmax(scores, axis=0).T for scores in self._class_scores(X)])

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Vector:
        """Return P(k | x) of each class, float64 (n_items, n_classes), summing to 1; X and errors as in `predict`."""
        return np.concatenate([softmax(scores, axis=0).T for scores in self._class_scores(X)])

    @available_if(has_probabilities)
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

    @available_if(has_probabilities)
    def decode(self, X: Any) -> Decoding:
        """Return the most probable label of each item and its log-probability; X and errors as in `predict`."""
        found = [
            (scores.argmax(axis=0), log_softmax(scores, axis=0).max(axis=0))
            for scores in self._class_scores(X)
        ]
        codes, log_probability = (np.concatenate(parts) for parts in zip(*found, strict=True))
        warn_of_empty_rows(X)
        return Decoding(self._as_given(self.classes_[codes]), log_probability)

    @available_if(has_probabilities)
    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats.

        X and errors as in `predict`; InputError also for labels that are not among the classes.
        """
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
    """Most probable labels of each item, the most probable first.

    Attributes
    ----------
    labels : ndarray (I, k)
    probabilities : float64 (I, k)
    """

    labels: NDArray
    probabilities: NDArray[np.float64]
