"""What all estimators are: scikit-learn's interface of a fitted model, and how a fit finds it.

`fit` has three steps, each of which makes one value: `encode` the data, `pose` the problem, `run` the training. Then it
takes the model of the weights, the only attribute besides the parameters; fitted attributes read it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, SparseWeights, Vector
from crfqn.choices import STRENGTHS
from crfqn.data.hybrid import Features
from crfqn.data.model_file import ModelFile, write_model
from crfqn.errors import EmptyModelWarning, InputError, warn_caller
from crfqn.estimators.automatic import Strengths
from crfqn.estimators.blocks import Blocks, check_alone
from crfqn.estimators.problem import Problem, pose, run
from crfqn.estimators.settings import Settings
from crfqn.estimators.sources import Encoded
from crfqn.estimators.storage import opened, whole_content
from crfqn.estimators.training import (
    Callbacks,
    CallbackSupportMixin,
    held_out,
    pass_on_interrupt,
    warn_of_end,
)
from crfqn.messages import describe, named_places, shorten, validation_places
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.model.space import Space
from crfqn.model.trained import Fitted, Trained
from crfqn.model.weights import FittedMatrix
from crfqn.parameters import refuse_unknown_parameters, set_known_parameters
from crfqn.result import Result
from crfqn.solvers.validation import ValidationSet


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """Base class of all estimators: parameters, and after `fit` a model. A subclass names itself in files by `KIND`."""

    model_: Any = field(init=False)

    KIND: ClassVar[str]
    LABELS_SEQUENCES: ClassVar[bool] = False  # an item has a label at each position
    RANKS_LABELS: ClassVar[bool] = False  # an item may have several labels

    classes_, n_features_in_ = Fitted("classes_"), Fitted("n_features_in_")
    n_iter_, extra_ = Fitted("trained.result.n_iter"), Fitted("trained.extra", is_needed=True)
    training_, featurizer_ = Fitted("trained.training", {}), Fitted("trained.featurizer", None)
    n_dense_ = Fitted("n_dense_", 0)

    def __new__(cls, *values: Any, **named: Any) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; InputError, naming the one that is meant, for another name. Returns the estimator."""
        return set_known_parameters(super(), self.get_params(), params)

    def save(
        self, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
    ) -> None:
        """Write the fitted model to one file, atomically and without pickle; `crfqn.load` reads it.

        Parameters
        ----------
        path : str or path-like
        extra : dict, optional
            JSON values to keep with the model, `extra_` of the loaded one.
        dtype : {"float64", "float32"}, default "float64"
            Of the weights in the file. float32 takes half of their bytes and changes a score by at most 6e-8 times the
            sum of |weight x value|; the loaded model computes in float64.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            For another dtype, for weights too large for it, for a path with the extension of another format, such as
            .crfsuite, which `crfqn.interchange.write` writes, and for what a file cannot hold, such as functions.
        ModelFileError
            The path cannot be written, or `extra` is no JSON.
        """
        content = whole_content(self, extra, dtype)
        write_model(path, self.KIND, content.arrays, content.strings, content.metadata)

    @property
    def result_(self) -> Result:
        """How the training has ended, with the weights."""
        trained = getattr(self.__dict__.get("model_"), "trained", None)
        if trained is None:
            raise AttributeError(f"{type(self).__name__} has no result_ of a training")
        known: dict[str, Any] = self.model_.__dict__
        if "_result" not in known:
            coords, weights = self._all_weights()
            known["_result"] = replace(trained.result, coords=coords, weights=weights)
        return known["_result"]

    @abstractmethod
    def _all_weights(self) -> SparseWeights:
        """Return the weights that are not 0 by coordinate."""

    @abstractmethod
    def _model_of_file(self, file: ModelFile) -> Any:
        """Return the model of a file; ModelFileError, or another error, where it does not fit together."""

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

    def _holding(self, model: Any) -> Self:
        """Return an estimator with these settings and this model, None for an estimator without one."""
        estimator = object.__new__(type(self))
        estimator.__dict__.update(self.__dict__ | {"model_": model})
        if model is None:
            del estimator.model_
        return estimator

    def _take(self, model: Any, **memory: Any) -> None:
        """Take a model, and what the next pass of `partial_fit` goes on from."""
        for name in ("_memory", "_reservoir"):
            self.__dict__.pop(name, None)
        self.__dict__.update(memory, model_=model)


@dataclass(eq=False, repr=False)
class LinearEstimator(Settings, CallbackSupportMixin, Estimator):
    """Base class of the estimators of scores that are linear in the weights, which `minimize` trains."""

    RESERVOIR: ClassVar[int] = 10_000  # items that `partial_fit` keeps at most, with solvers that minimise
    BLOCK_NUMBERS: ClassVar[int] = 1 << 23
    """Scores of a block of single items in prediction: 64 MB, and a few arrays like it."""
    _space_class: ClassVar[type[Space]]

    coef_ = FittedMatrix("weights")
    # Of another tool's model nobody knows the strengths.
    l1_, l2_, group_l1_ = (Fitted(f"trained.strengths.{name}") for name in STRENGTHS)
    _n_weights = Fitted("trained.n_weights", 0)

    @property
    def dense_coef_(self) -> Vector:
        """The weights of a dense block; AttributeError without one."""
        if not self.n_dense_:
            raise AttributeError(f"{type(self).__name__} has no dense_coef_ of a training")
        return self.model_.dense_coef_

    @dense_coef_.setter
    def dense_coef_(self, weights: Vector) -> None:
        self.model_ = replace(self.model_, dense_coef_=np.asarray(weights))

    @abstractmethod
    def _encode(self, X: Any, y: Any, sample_weight: Any) -> Encoded:
        """Return the items of a training, wherever they are."""

    @abstractmethod
    def _encode_held_out(self, validation: Any, space: Any) -> tuple[Any, Any, int]:
        """Return validation items, encoded once for all looks, their labels, and the number of positions."""

    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Problem:
        """Return the training that `fit` would do, without doing it; parameters and errors as in `fit`."""
        self._check_parameters()
        if isinstance(X, Blocks):
            check_alone(X, y, sample_weight, validation)
        encoded = self._encode(X, y, sample_weight)
        begin = self._start(encoded.space, start)
        return pose(encoded, self, begin, self._validation_set(encoded, validation))

    def _solve(self, problem: Problem) -> Self:
        """Train, and take the model; KeyboardInterrupt where that ended the training."""
        result, reason_of_empty = run(problem, self, Callbacks(self, problem.validation is not None))
        self._take(self._model_of(problem, result, problem.strengths))
        warn_of_end(result, self.tol_, problem.objective.is_convex)
        if reason_of_empty is not None:
            warn_caller(reason_of_empty, EmptyModelWarning)
        pass_on_interrupt(result)
        return self

    def _start(self, space: Space, start: Any) -> SparseWeights | None:
        """Return the weights that a training starts from: those of `start`, perhaps the name of a model file, or with
        `warm_start` of the last fit."""
        if start is None and not (self.warm_start and self._is_fitted):
            return None
        estimator = self if start is None else opened(start)
        if not isinstance(estimator, LinearEstimator) or estimator.LABELS_SEQUENCES != self.LABELS_SEQUENCES:
            names = "ChainCRF" if self.LABELS_SEQUENCES else OF_ITEMS
            raise InputError(f"start: expected a {names}, got {type(estimator).__name__}")
        return space.start(estimator._fitted, start is not None, bool(self.verbose))

    def _validation_set(self, encoded: Encoded, validation: Any) -> ValidationSet | None:
        """Return the held-out items that are scored during a training, None without any."""
        if validation is None:
            return None
        space = encoded.space
        with named_places(validation_places()):
            items, labels, n_positions = self._encode_held_out(validation, space)
        cost = n_positions / encoded.n_positions
        return held_out(lambda weights: self._holding(space.model(weights)), self, items, labels, cost)

    def _model_of(self, problem: Problem, result: Result, strengths: Strengths) -> Any:
        """Return the model that a training has found."""
        trained = Trained(
            replace(result, coords=NO_COORDS, weights=NO_VALUES),
            {name: float(value) for name, value in strengths.items()},
            self._settings(),
            problem.objective.n_coords,
        )
        return problem.space.model(problem.given_weights(result), trained)

    def _trained(self, problem: Problem, result: Result, strengths: Strengths) -> Self:
        """Return an estimator with the result of a training under these strengths, of a path."""
        estimator = self._holding(None)
        for name, value in strengths.items():
            setattr(estimator, name, value)
        estimator._take(estimator._model_of(problem, result, problem.strengths | strengths))
        warn_of_end(result, self.tol_, True)
        return estimator

    def _check_no_dense(self, X: Any, name: str) -> None:
        """Raise InputError for a dense block where none is supported."""
        if isinstance(X, Features) or self.n_dense_:
            raise InputError(f"{name}: expected a model and items without a dense block, got crfqn.Features")

    @property
    def _engine(self) -> CompiledEngine:
        """What scores items and infers their labels."""
        return CompiledEngine(self.n_threads, self.BLOCK_NUMBERS)

    @property
    def _fitted_strengths(self) -> Strengths:
        """Strengths of the last fit; before any those that the parameters say."""
        return self.strengths_asked | (dict(self.model_.trained.strengths) if self._is_fitted else {})

    def _all_weights(self) -> SparseWeights:
        model = self._fitted
        return self._space_class.of(model).weights(model)


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


OF_ITEMS = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"
