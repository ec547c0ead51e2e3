"""What a fitted chain has learnt, by the names of features and labels, and predictions of single items."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.estimators.base import Fitted
from crfqn.estimators.probabilistic import has_probabilities
from crfqn.messages import describe, shorten


class Feature(NamedTuple):
    """A feature's name (its column where the model has no names), and its weight for a label."""

    name: Any
    weight: float


class SequenceInspection(Fitted):
    """Mixin: weights by name, and items one by one, under sklearn-crfsuite's names for them."""

    coef_: scipy.sparse.csr_array
    edge_coef_: scipy.sparse.csr_array
    vocabulary_: Vocabulary | None

    @abstractmethod
    def predict(self, X: Any) -> NDArray[np.object_]:
        """Return a list of labels for each item."""

    @abstractmethod
    def predict_marginals(self, X: Any) -> Any:
        """Return the probabilities of the labels at each position."""

    def predict_single(self, x: Any) -> list:
        """Return the labels of one item; x is an item as in `predict`, whose errors it has."""
        return self.predict([x])[0]

    @available_if(has_probabilities)
    def predict_marginals_single(self, x: Any) -> NDArray[np.float64]:
        """Return the probabilities of one item, float64 (positions, classes); errors as in `predict_marginals`."""
        return self.predict_marginals([x])[0]

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (feature, label); features without names are their columns."""
        check_is_fitted(self)
        found, labels = self.coef_.tocoo(), self.classes_.tolist()
        return {
            (self._name(f), labels[k]): weight
            for k, f, weight in zip(*(a.tolist() for a in (found.row, found.col, found.data)), strict=True)
        }

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (label, next label)."""
        check_is_fitted(self)
        found, labels = self.edge_coef_.tocoo(), self.classes_.tolist()
        return {
            (labels[j], labels[k]): weight
            for j, k, weight in zip(*(a.tolist() for a in (found.row, found.col, found.data)), strict=True)
        }

    def top_features(self, label: Any, n: int | None = 10) -> list[Feature]:
        """Return the features with the largest sizes of weights for a label, the largest first.

        Parameters
        ----------
        label : one of `classes_`
        n : int >= 1, or None for all that are not 0

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Another label, or no such number.
        """
        check_is_fitted(self)
        labels = self.classes_.tolist()
        if label not in labels:
            raise InputError(f"label: expected one of {shorten(labels)}, got {describe(label)}")
        if n is not None and (not isinstance(n, Integral) or isinstance(n, bool) or n < 1):
            raise InputError(f"n: expected None or an integer >= 1, got {n!r}")
        row = labels.index(label)
        begin, end = self.coef_.indptr[row], self.coef_.indptr[row + 1]
        columns, weights = self.coef_.indices[begin:end], self.coef_.data[begin:end]
        order = np.argsort(-np.abs(weights), kind="stable")[:n]
        return [Feature(self._name(int(columns[e])), float(weights[e])) for e in order]

    def _name(self, column: int) -> Any:
        return column if self.vocabulary_ is None else self.vocabulary_.names[column]
