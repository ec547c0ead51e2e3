"""What all estimators are besides their settings: scikit-learn's, with a fitted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crfqn.errors import InputError
from crfqn.estimators.settings import Settings
from crfqn.estimators.storage import save
from crfqn.estimators.training import CallbackSupportMixin
from crfqn.messages import describe, shorten
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.parameters import refuse_unknown_parameters, set_known_parameters


@dataclass(eq=False, repr=False)
class Estimator(Settings, CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators: settings, and after `fit` a model. A subclass names itself in files by `KIND`."""

    model_: Any = field(init=False)

    KIND: ClassVar[str]
    LABELS_SEQUENCES: ClassVar[bool] = False  # an item has a label at each position
    RANKS_LABELS: ClassVar[bool] = False  # an item may have several labels
    RESERVOIR: ClassVar[int] = 10_000  # items that `partial_fit` keeps at most, with solvers that minimise
    BLOCK_NUMBERS: ClassVar[int] = 1 << 23
    """Scores of a block of single items in prediction: 64 MB, and a few arrays like it."""

    save = save

    def __new__(cls, *values: Any, **named: Any) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; InputError, naming the one that is meant, for another name. Returns the estimator."""
        return set_known_parameters(super(), self.get_params(), params)

    @property
    def _is_fitted(self) -> bool:
        """Whether there is a model, of a training or a file."""
        return "model_" in self.__dict__

    @property
    def _fitted(self) -> Any:
        """The fitted model; NotFittedError before a fit."""
        if not self._is_fitted:
            check_is_fitted(self)
        self.model_ = self.model_.current
        return self.model_

    @property
    def _engine(self) -> CompiledEngine:
        """What scores items and infers their labels."""
        return CompiledEngine(self.n_threads, self.BLOCK_NUMBERS)

    def _holding(self, model: Any) -> Self:
        """Return an estimator with these settings and this model."""
        estimator = object.__new__(type(self))
        estimator.__dict__.update(self.__dict__ | {"model_": model})
        return estimator


class Feature(NamedTuple):
    """A feature's name (its column where the model has no names), and its weight for a label."""

    name: Any
    weight: float


def strongest_features(model: Any, label: Any, n: int | None) -> list[Feature]:
    """Return the n features (None: all) of a fitted model with the largest sizes of weights for a label, or a node of a
    taxonomy; InputError for another label, or no such number."""
    labels = model.node_names
    if label not in labels:
        raise InputError(f"label: expected one of {shorten(labels)}, got {describe(label)}")
    if n is not None and (not isinstance(n, Integral) or isinstance(n, bool) or n < 1):
        raise InputError(f"n: expected None or an integer >= 1, got {n!r}")
    return [Feature(*entry) for entry in model.strongest(labels.index(label), n)]
