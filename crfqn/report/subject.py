"""The model that a report is about: its labels, the rows of its weights, and the names of its features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from crfqn.estimators.sequence.chain import ChainCRF
from crfqn.taxonomy.tree import LabelTree

INTERCEPT = "(intercept)"


class FeatureNames(Protocol):
    """Names of features by column, such as a list."""

    def __getitem__(self, column: int, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class Subject:
    """Fitted estimator with names for whatever it has.

    Parameters
    ----------
    model : fitted estimator of crfqn
    feature_names : names by column, optional; default: those that the model has, else numbers
    """

    model: Any
    feature_names: FeatureNames | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.model, "result_"):
            raise NotFittedError(f"expected a fitted estimator of crfqn, got {type(self.model).__name__}")

    @property
    def extra(self) -> dict[str, Any]:
        """What was kept with the model in its file."""
        return getattr(self.model, "extra_", None) or {}

    @cached_property
    def is_sequence(self) -> bool:
        """Whether an item is a sequence with a label at each position."""
        return isinstance(self.model, ChainCRF)

    @cached_property
    def tree(self) -> LabelTree | None:
        """The taxonomy of the labels."""
        return getattr(self.model, "tree_", None)

    @cached_property
    def labels(self) -> list[str]:
        """Names of the labels, in the model's order."""
        return [str(label) for label in self.model.classes_]

    @cached_property
    def rows(self) -> list[str]:
        """Names of the rows of the weights: nodes of a taxonomy, else labels."""
        return self.labels if self.tree is None else [str(name) for name in self.tree.names]

    @cached_property
    def weights(self) -> Any:
        """Weights of features, csr_array (rows, features); None for a model that has none of single features."""
        from scipy.sparse import csr_array

        found = getattr(self.model, "coef_", None)
        return found if found is None or hasattr(found, "indptr") else csr_array(found)

    @cached_property
    def transitions(self) -> Any:
        """Weights of pairs of labels, csr_array; None for items without order."""
        return getattr(self.model, "edge_coef_", None)

    @cached_property
    def intercepts(self) -> NDArray[np.float64] | None:
        """Weight of the constant by row; None where there is none."""
        found = getattr(self.model, "intercept_", None)
        return None if found is None or not np.any(found) else np.asarray(found)

    def name_of(self, column: int) -> str:
        """Return the name of a feature; that of a model without names is its number."""
        names = self.feature_names
        if names is None and getattr(self.model, "vocabulary_", None) is not None:
            names = self.model.vocabulary_.names
        if names is None:
            names = getattr(self.model, "feature_names_in_", None)
        return f"feature {column}" if names is None else str(names[column])

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether the model gives probabilities of labels; margins are none."""
        return hasattr(self.model, "predict_marginals" if self.is_sequence else "predict_proba")

    @property
    def n_features(self) -> int:
        """Number of features of the training, where the file says it, else of the model."""
        known = self.extra.get("n_features")
        return known if type(known) is int else int(self.model.n_features_in_)

    @property
    def recipe(self) -> dict[str, Any]:
        """Recipe that the model was trained by, as JSON values; empty if there was none."""
        found = self.extra.get("recipe")
        return found if isinstance(found, dict) else {}
