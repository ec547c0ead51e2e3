"""What predictions by a model file of any kind have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError
from crfqn.model.content import Entries
from crfqn.model.scores import FeatureWeights, Rows

NO_ENTRIES = Entries(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


class Predictor:
    """Base of the predictors: `kind`, labels `classes_`, `n_features_in_`, `weights`, and `_training` of a model file.

    Methods keep nothing: threads may share one.
    """

    RANKS_LABELS = False
    classes_: NDArray
    n_features_in_: int
    weights: FeatureWeights
    dense_coef_: Vector  # (K, D), of a dense block
    edges: Entries = NO_ENTRIES  # of a chain
    bigrams: FeatureWeights | None = None  # of a chain with bigram features, by pairs of labels

    def __init__(self, file: ModelFile) -> None:
        self.kind, self._training = file.kind, file.training
        settings = file.table("settings")
        self.loss = settings.get("loss", "logistic")  # earlier files do not name it
        self.scheme = settings.get("scheme")

    @property
    def n_dense_(self) -> int:
        """D, 0 for a model without a dense block."""
        return self.dense_coef_.shape[1]

    def _with_dense(self, scores: Vector, dense: Vector) -> Vector:
        """Return scores (N, K) with what the dense features of a block (N, D) add."""
        return scores + np.asarray(dense, np.float64) @ self.dense_coef_.T

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted."""
        return self.weights.features

    @property
    def names(self) -> Sequence[str] | None:
        """The names of all features, None where they have none."""
        return None

    @property
    def node_names(self) -> list:
        """The names of what has weights: the labels, in a taxonomy the nodes."""
        return self.classes_.tolist()

    def _strongest(self, rows: Rows, position: int, states: list[int], n: int) -> list[tuple[Any, float]]:
        """Return the n features whose terms, weights times values, are the largest in size for some states together,
        by name (or column), with these terms, the largest first."""
        terms, of_states, features = self.weights.terms(rows, position)
        is_asked = np.isin(of_states, states)
        found, place = np.unique(features[is_asked], return_inverse=True)
        sums = np.bincount(place, terms[is_asked], found.size)
        order = np.argsort(-np.abs(sums), kind="stable")[:n].tolist()
        return [(self.feature_name(int(found[k])), float(sums[k])) for k in order if sums[k]]

    def feature_name(self, column: int) -> Any:
        """Return the name of a feature, its column where there is none."""
        return column if self.names is None else self.names[column]

    @property
    def has_probabilities(self) -> bool:
        """Whether scores are logarithms of probabilities."""
        return self.loss == "logistic"

    def check_probabilities(self) -> None:
        """Raise AttributeError, as estimators do, for losses without probabilities."""
        if not self.has_probabilities:
            raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {self.loss!r}")


def check_number(n: Any) -> int:
    """Return how many labellings are asked for; InputError for no number of them."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"n: expected an integer >= 1, got {n!r}")
    return int(n)
