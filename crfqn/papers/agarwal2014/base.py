"""Base of the classifiers by least squares: targets on the simplex or the hypercube, probabilities, an L2 penalty."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import Coords, Vector
from crfqn.estimators.checks import available_if
from crfqn.estimators.items import ItemEstimator
from crfqn.estimators.labels import LabelSets
from crfqn.estimators.strengths import Strengths
from crfqn.model.model import Decoding
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet
from crfqn.projections import project_simplex

LINK_OF = {True: "softmax", False: "sigmoid"}  # by whether an item has one label
NEVER = float(np.finfo(np.float64).eps)  # the smallest probability of a label among several
HALF = 0.5  # of a label's probability: from there on an item has it


def clipped(table: Vector, is_exclusive: bool) -> Vector:
    """Return predictions (K, N) projected onto the simplex where an item has one label, else onto [0, 1]^K."""
    if is_exclusive:
        return np.ascontiguousarray(project_simplex(table.T).T)
    return np.clip(table, 0.0, 1.0)


def has_one_label(model: Any) -> bool:
    """Return True where items have one label each; AttributeError, as scikit-learn asks, if not."""
    if hasattr(model, "_space") and not model._space.has_one_label:
        raise AttributeError("items have several labels: predict_proba has the probability of each")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class LeastSquaresModel(ItemEstimator):
    """Base class of the classifiers by least squares; their penalty is l2/2 ||W||^2, a ridge."""

    l1: float | str | None = field(default=0.0, init=False)
    l2: float | None = field(default=1.0, kw_only=False)
    group_l1: float | str | None = field(default=0.0, init=False)
    tol: float = 1e-3

    TAKES_SETS: ClassVar[bool] = True
    PARAMETERS: ClassVar = {
        **PARAMETERS,
        **{name: replace(PARAMETERS[name], words=()) for name in ("l2", "tol")},
    }

    @abstractmethod
    def _probabilities(self, scores: Vector) -> Vector:
        """Return the predicted probability of each label, (K, items), from scores (K, items)."""

    @property
    def _is_exclusive(self) -> bool:
        """Whether an item has one label."""
        return self._space.has_one_label

    def _targets_of(self, sets: LabelSets) -> Vector:
        """Return the label sets as vertices of the simplex or of the hypercube, (K, I)."""
        return np.ascontiguousarray(sets.table.toarray().T)

    def _chosen(self, scores: Vector) -> NDArray[np.bool_]:
        return self._probabilities(scores.T).T >= HALF

    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each label, float64 (n_items, n_labels); X and errors as in `predict`.

        Rows sum to 1 where an item has one label.
        """
        check_is_fitted(self)
        return np.concatenate([self._shown(scores) for scores in self._class_scores(X)])

    def _shown(self, scores: Vector) -> Vector:
        """Return probabilities, (items, K), from scores; none is exactly 0 or 1 where items may have several labels."""
        found = self._probabilities(scores).T
        return found if self._is_exclusive else np.clip(found, NEVER, 1.0 - NEVER)

    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithms of `predict_proba`, (n_items, n_labels), in nats; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(has_one_label)
    def decode(self, X: Any) -> Decoding:
        """Return the best label of each item and the logarithm of its probability; X and errors as in `predict`."""
        check_is_fitted(self)
        codes, best = [], []
        for scores in self._class_scores(X):
            codes.append(scores.argmax(axis=0))
            best.append(np.take_along_axis(self._probabilities(scores), codes[-1][None], axis=0)[0])
        with np.errstate(divide="ignore"):
            return Decoding(self.classes_[np.concatenate(codes)], np.log(np.concatenate(best)))

    @property
    def _path_parameter(self) -> str:
        return "l2"

    @property
    def _strengths(self) -> dict[str, float]:
        return {"l1": 0.0, "l2": float(self.l2 or 0.0), "group_l1": 0.0}

    def _penalty(
        self, strengths: Strengths, n_features: int, n_states: int, unpenalised: Coords
    ) -> ElasticNet:
        return ElasticNet(0.0, strengths["l2"], unpenalised)
