"""Fitted models as frozen values, and the record of the training that made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_WEIGHTS
from crfqn.atomic_write import StrPath
from crfqn.choices import STRENGTHS
from crfqn.data.model_file import ModelFile, write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe
from crfqn.model.answers import LABEL_ANSWERS, LabelAnswers
from crfqn.model.content import ModelContent, narrow_weights
from crfqn.model.results import read_result, result_content, trace_table
from crfqn.result import Result

if TYPE_CHECKING:
    from crfqn.model.featurizers import Featurizer


@dataclass(frozen=True, eq=False)
class Trained:
    """The record of a training.

    result : of the training, without the weights, which are in the model
    strengths : of the penalty by name; empty if unknown, as for models of other tools
    settings : the parameters of the training, as a model file stores them
    n_weights : number of weights that the training could choose, 0 if unknown
    extra : JSON values of users in the model's file, None for a model without a file
    training, featurizer : the record of `crfqn train` (docs/formats.md), and the featurizer of single items
    version : of crfqn in the model's file, None for a model without a file
    """

    result: Result
    strengths: Mapping[str, float]
    settings: Mapping[str, Any]
    n_weights: int = 0
    extra: dict[str, Any] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    featurizer: Featurizer | None = None
    version: str | None = None

    @classmethod
    def of_file(cls, file: ModelFile) -> Trained:
        """Return the record that a model file holds; ModelFileError if it is invalid."""
        strengths: Mapping[str, float] = {}
        if "strengths" in file.metadata:
            strengths = file.table("strengths")
            if strengths.keys() != set(STRENGTHS):
                raise ModelFileError(
                    f"{file.path}: strengths: expected {', '.join(STRENGTHS)}, got {[*strengths]}"
                )
        for name, value in strengths.items():
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value < np.inf:
                raise ModelFileError(
                    f"{file.path}: strengths: {name}: expected a finite number >= 0, got {describe(value)}"
                )
        featurizer = None
        if file.metadata.get("featurizer") is not None:
            from crfqn.model.featurizers import read_featurizer  # models of sequences have none

            featurizer = read_featurizer(file)
        return cls(
            read_result(file, NO_WEIGHTS),
            {name: float(value) for name, value in strengths.items()},
            file.table("settings"),
            extra=file.table("extra"),
            training=file.training,
            featurizer=featurizer,
            version=file.metadata.get("crfqn_version"),
        )

    def add_to(self, content: ModelContent) -> None:
        """Add the record to the content of a model file."""
        result = self.result
        content.arrays["trace"] = trace_table(result.trace)
        if self.strengths:
            content.metadata["strengths"] = dict(self.strengths)
        content.metadata |= {"settings": dict(self.settings), "result": result_content(result)}
        if self.version is not None:
            content.metadata["crfqn_version"] = self.version
        if self.training:
            content.metadata["training"] = self.training


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel(ABC):
    """The result of a training, a frozen value.

    kind : of its files; classes_ : the labels; n_features_in_ : the number of features
    trained : the record of the training
    """

    ANSWERS: ClassVar[LabelAnswers] = LABEL_ANSWERS

    kind: str
    classes_: NDArray
    n_features_in_: int
    trained: Trained | None = None

    @abstractmethod
    def add_to(self, content: ModelContent) -> None:
        """Add labels, features and weights to the content of a model file."""

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """The number of weights other than 0, as a file stores them."""

    @property
    def used_features(self) -> NDArray[np.int64]:
        """The features that a prediction reads, sorted."""
        return np.arange(self.n_features_in_)

    @property
    def current(self) -> Self:
        """The model, or a new one if users have replaced arrays of its weights."""
        return self

    def content(self, extra: dict[str, Any] | None = None, dtype: str = "float64") -> ModelContent:
        """Return the content of the model's file; parameters and errors as in `save`."""
        if self.trained is None:
            raise InputError("expected a model of a training or of a file, got one without")
        content = ModelContent(
            metadata={
                "n_features": self.n_features_in_,
                "n_classes": len(self.classes_),
                "n_nonzero": self.n_stored,
                "extra": (self.trained.extra if extra is None else extra) or {},
            }
        )
        self.trained.add_to(content)
        if self.trained.featurizer:
            content.metadata["featurizer"] = self.trained.featurizer.as_dict(self.used_features)
        self.add_to(content)
        narrow_weights(content, dtype)
        return content

    def save(self, path: StrPath, extra: dict[str, Any] | None = None, dtype: str = "float64") -> None:
        """Write the model to one file, atomically and without pickle; `crfqn.load` and `open` read it.

        Parameters
        ----------
        path : str or path-like
        extra : dict, optional
            JSON values to store with the model; by default those of the file that it was opened from.
        dtype : {"float64", "float32"}, default "float64"
            Type of the weights in the file.

        Raises
        ------
        InputError
            For another dtype, for weights too large for it, for a path with the extension of another format, and for
            values that a file cannot store, such as functions.
        ModelFileError
            The path cannot be written, or `extra` has other values than those of JSON.
        """
        content = self.content(extra, dtype)
        write_model(path, self.kind, content.arrays, content.strings, content.metadata)

    @property
    def training_(self) -> Mapping[str, Any]:
        """The record of `crfqn train` about the training and its data (docs/formats.md)."""
        return {} if self.trained is None else self.trained.training

    @property
    def featurizer_(self) -> Featurizer | None:
        """The featurizer of texts, of a table's rows or of other numbers, or None."""
        return None if self.trained is None else self.trained.featurizer

    @property
    def extra_(self) -> dict[str, Any]:
        """The JSON values of users in the file."""
        return {} if self.trained is None else self.trained.extra or {}

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the parameters of the training by name; those chosen automatically are "auto"."""
        return {} if self.trained is None else dict(self.trained.settings)

    @property
    def fitted_strengths(self) -> dict[str, float]:
        """The strengths of the penalty by name."""
        return {} if self.trained is None else dict(self.trained.strengths)

    @cached_property
    def result_(self) -> Result:
        """The result of the training, without weights."""
        if self.trained is None:
            raise AttributeError("the model has no result of a training")
        return self.trained.result


NOT_SET: Any = object()  # the absence of a value


class Fitted:
    """Attribute of a fitted estimator: an attribute of its model, under a dotted path. Setting it replaces the model.

    default : the value before a fit, without it an AttributeError; is_needed : whether None is an AttributeError too
    """

    def __init__(self, path: str, default: Any = NOT_SET, is_needed: bool = False) -> None:
        self.path, self.default, self.is_needed = path.split("."), default, is_needed

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        value = estimator.__dict__.get("model_", NOT_SET)
        for name in self.path if value is not NOT_SET else ():
            value = value.get(name, NOT_SET) if isinstance(value, dict) else getattr(value, name, NOT_SET)
        value = self.default if value is NOT_SET else value
        if value is NOT_SET or (value is None and self.is_needed):
            raise AttributeError(f"{type(estimator).__name__} has no {self.name} of a training")
        return value

    def __set__(self, estimator: Any, value: Any) -> None:
        estimator.model_ = _replaced(estimator.model_, self.path, value)


def _replaced(owner: Any, path: list[str], value: Any) -> Any:
    """Return a copy of a value in which the attribute under a path of names is replaced."""
    if len(path) > 1:
        value = _replaced(getattr(owner, path[0]), path[1:], value)
    return replace(owner, **{path[0]: value})
