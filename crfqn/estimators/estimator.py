"""Base classes of all estimators: scikit-learn's interface of parameters and a fitted model.

After `fit`, an estimator has one attribute besides its parameters, `model_`, whose values fitted attributes return. The
`fit` of an estimator with `TrainingMixin` has four steps: encode the data, pose the problem, run the training, and take
the model.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from os import PathLike
from types import MethodType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, SparseWeights
from crfqn.choices import STRENGTHS
from crfqn.data.hybrid import Features
from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight
from crfqn.data.model_file import ModelFile, write_model
from crfqn.errors import EmptyModelWarning, InputError, check_count, warn_caller
from crfqn.estimators.automatic import Strengths
from crfqn.estimators.blocks import Blocks, check_blocks_alone
from crfqn.estimators.problem import (
    Callbacks,
    Encoded,
    Problem,
    Validation,
    make_validation_set,
    pass_on_interrupt,
    pose,
    run_training,
    warn_of_end,
)
from crfqn.estimators.settings import NOT_SAVED, saved_values, with_saved_values
from crfqn.estimators.storage import load, whole_content
from crfqn.messages import describe, named_places, shorten, validation_places
from crfqn.model.answers import LABEL_ANSWERS, LabelAnswers
from crfqn.model.item_model import ItemModel
from crfqn.model.sequences import SequenceModel
from crfqn.model.space import Space
from crfqn.model.trained import Fitted, FittedModel, Trained
from crfqn.model.weights import FittedDense, FittedMatrix
from crfqn.parameters import check_parameters, refuse_unknown_parameters, set_known_parameters
from crfqn.result import Result
from crfqn.solvers.stopping import ValidationSet

StartLike: TypeAlias = "Estimator | str | PathLike[str] | None"


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """Base class of all estimators: parameters, and after `fit` a model. `KIND` is the estimator's name in files."""

    model_: Any = field(init=False)

    KIND: ClassVar[str]
    SPACE: ClassVar[type[Space]]  # of the weights
    ANSWERS: ClassVar[LabelAnswers] = LABEL_ANSWERS  # the kind of its predictions
    STARTS_FROM: ClassVar[str]  # names of the estimators that may be the `start` of a training
    NOT_SAVED: ClassVar[tuple[str, ...]] = NOT_SAVED

    classes_, n_features_in_ = Fitted("classes_"), Fitted("n_features_in_")
    n_iter_, extra_ = Fitted("trained.result.n_iter"), Fitted("trained.extra", is_needed=True)
    training_, featurizer_ = Fitted("trained.training", {}), Fitted("trained.featurizer", None)
    n_dense_, n_weights_ = Fitted("n_dense_", 0), Fitted("trained.n_weights", 0)
    fitted_strengths = Fitted("trained.strengths", {})

    def __new__(cls, *values: object, **named: object) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def set_params(self, **params: object) -> Self:
        """Set parameters and return the estimator; InputError, with the most similar name, for an unknown name."""
        return set_known_parameters(super(), self.get_params(), params)

    def check_parameters(self) -> None:
        """Raise InputError for parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values if they have any."""
        return saved_values(self)

    @classmethod
    def from_stored(cls, values: dict[str, Any]) -> Self:
        """Return an estimator with the parameters of a model file."""
        estimator: Self = with_saved_values(cls, values)
        return estimator

    @staticmethod
    def check_stored(values: Mapping[str, Any]) -> None:
        """Raise InputError for parameters of a training that a model file cannot hold; by default files hold all."""

    def save(
        self, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
    ) -> None:
        """Write the fitted model to one file, atomically and without pickle; `crfqn.load` reads it.

        Parameters
        ----------
        path : str or path-like
        extra : dict, optional
            JSON values to store with the model; the loaded estimator has them as `extra_`.
        dtype : {"float64", "float32"}, default "float64"
            Type of the weights in the file. float32 takes half of the bytes and changes a score by 6e-8 times the sum
            of |weight x value| or less; the loaded model computes in float64.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Another dtype, weights too large for it, a path with the extension of another format, such as .crfsuite
            (`crfqn.interchange.write` writes these), or parameters that a file cannot hold, such as functions.
        ModelFileError
            The path cannot be written, or `extra` is not JSON.
        """
        content = whole_content(self, extra, dtype)
        write_model(path, self.KIND, content.arrays, content.strings, content.metadata)

    @property
    def result_(self) -> Result:
        """The result of the training: why it ended, with its value, trace and weights."""
        trained = getattr(self.__dict__.get("model_"), "trained", None)
        if trained is None:
            raise AttributeError(f"{type(self).__name__} has no result_ of a training")
        known: dict[str, Any] = self.model_.__dict__
        if "_result" not in known:
            coords, weights = self.all_weights()
            known["_result"] = replace(trained.result, coords=coords, weights=weights)
        return known["_result"]

    def all_weights(self) -> SparseWeights:
        """Return the weights that are not 0, sorted by coordinate."""
        model = self.current_model
        return self.SPACE.from_model(model).weights(model)

    @abstractmethod
    def model_of_file(self, file: ModelFile) -> Any:
        """Return the model of a file; ModelFileError, or another error, if its content is inconsistent."""

    @property
    def is_fitted(self) -> bool:
        """Whether the estimator has a model, of a training or a file."""
        return "model_" in self.__dict__

    @property
    def current_model(self) -> Any:
        """The fitted model, with the arrays that the user has set; NotFittedError before a fit."""
        if not self.is_fitted:
            check_is_fitted(self)
        self.model_ = self.model_.current
        return self.model_

    def with_model(self, model: object) -> Self:
        """Return an estimator with the same parameters and another model; None: unfitted."""
        estimator = object.__new__(type(self))
        estimator.__dict__.update(self.__dict__ | {"model_": model})
        if model is None:
            del estimator.model_
        return estimator

    def take_model(self, model: FittedModel, **memory: object) -> None:
        """Set the model, and the state with which `partial_fit` continues."""
        for name in ("_memory", "_reservoir"):
            self.__dict__.pop(name, None)
        self.__dict__.update(memory, model_=model)


class Feature(NamedTuple):
    """The name of a feature, or its column if features have no names, and its weight for a label."""

    name: str | int
    weight: float


class TrainingMixin(BaseEstimator):
    """Training of the estimators with the parameters of `Settings`, whose scores are linear in the weights."""

    MODEL: ClassVar[type[SequenceModel | ItemModel]]

    coef_, dense_coef_ = FittedMatrix("weights"), FittedDense("dense_coef_")
    l1_, l2_, group_l1_ = (Fitted(f"trained.strengths.{name}") for name in STRENGTHS)

    def prepare(
        self,
        X: ItemsLike,
        y: LabelsLike | None = None,
        sample_weight: SampleWeight = None,
        start: StartLike = None,
        *,
        validation: Validation = None,
    ) -> Problem:
        """Return the problem that `fit` would solve; parameters and errors as in `fit`."""
        self.check_parameters()
        if isinstance(X, Blocks):
            check_blocks_alone(y, sample_weight, validation)
        encoded = self.encode(X, y, sample_weight)
        begin = self.starting_weights(encoded.space, start)
        return pose(encoded, self, begin, self.validation_set(encoded, validation))

    def train(self, problem: Problem) -> Self:
        """Train on a problem and take its model; raises KeyboardInterrupt after an interrupted training."""
        result, reason_of_empty = run_training(problem, self, Callbacks(self, problem.validation is not None))
        self.take_model(self.trained_model(problem, result, problem.strengths))
        warn_of_end(result, self.tol_, problem.objective.is_convex)
        if reason_of_empty is not None:
            warn_caller(reason_of_empty, EmptyModelWarning)
        pass_on_interrupt(result)
        return self

    def starting_weights(self, space: Space, start: StartLike) -> SparseWeights | None:
        """Return the weights that a training starts from: those of `start`, an estimator or the name of a model file,
        or those of the last fit with `warm_start`; None for zero weights."""
        if start is None and not (self.warm_start and self.is_fitted):
            return None
        before = self if start is None else load(start) if isinstance(start, (str, PathLike)) else start
        if getattr(before, "STARTS_FROM", None) != self.STARTS_FROM:
            raise InputError(f"start: expected a {self.STARTS_FROM}, got {type(before).__name__}")
        return space.start(before.current_model, start is not None, bool(self.verbose))

    def validation_set(self, encoded: Encoded, validation: Validation) -> ValidationSet | None:
        """Return the held-out items that are scored during a training, None without any."""
        if validation is None:
            return None
        space = encoded.space
        with named_places(validation_places()):
            items, labels, n_positions = self.encode_held_out(validation, space)
        cost = n_positions / encoded.n_positions
        return make_validation_set(
            lambda weights: self.with_model(space.model(weights)), self, items, labels, cost
        )

    def trained_model(self, problem: Problem, result: Result, strengths: Strengths) -> Any:
        """Return the model with the weights of a result, of a training under these strengths."""
        trained = Trained(
            replace(result, coords=NO_COORDS, weights=NO_VALUES),
            {name: float(value) for name, value in strengths.items()},
            self.stored_parameters(),
            problem.objective.n_coords,
        )
        return problem.space.model(problem.uncentered_weights(result), trained)

    def model_of_file(self, file: ModelFile) -> Any:
        return self.MODEL.of_file(file)

    def top_features(self, label: object, n: int | None = 10) -> list[Feature]:
        """Return the features with the largest absolute weights for a label, the largest first.

        Parameters
        ----------
        label : one of `classes_`, for a taxonomy any node
        n : int >= 1, or None for all weights that are not 0

        Returns
        -------
        list of Feature (name, weight)
            The name of a feature without a name is its column, and that of the intercept is "(intercept)".

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Another label, or another n.
        """
        model = self.current_model
        labels = model.node_names
        if label not in labels:
            raise InputError(f"label: expected one of {shorten(labels)}, got {describe(label)}")
        check_count("n", n, or_none=True)
        return [Feature(*entry) for entry in model.strongest(labels.index(label), n)]


def fitted_under(settings: Estimator, problem: Problem, result: Result, strengths: Strengths) -> Estimator:
    """Return an estimator with the result of a training of a path, under these strengths."""
    estimator = settings.with_model(None)
    for name, value in strengths.items():
        setattr(estimator, name, value)
    estimator.take_model(estimator.trained_model(problem, result, problem.strengths | strengths))
    warn_of_end(result, estimator.tol_, True)
    return estimator


def check_no_dense(estimator: Estimator, X: ItemsLike, name: str) -> None:
    """Raise InputError if the items or the model have a dense block; `name` is that of the method."""
    if isinstance(X, Features) or estimator.n_dense_:
        raise InputError(f"{name}: expected a model and items without a dense block, got crfqn.Features")


MODEL_PARAMETERS = ("engine", "positions")  # parameters of the methods of models that estimators do not have


def has_probabilities(model: Any) -> bool:
    """Return True for likelihoods; AttributeError, as scikit-learn expects, for losses without probabilities."""
    if not model.loss_variant.loss_class.has_marginals:
        raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {model.loss!r}")
    return True


class AvailableIf:
    """Method of the objects for which `check` is true; others raise AttributeError, that of `check` with a reason."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self.method, self.check = method, check

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        if not self.check(model):
            raise AttributeError(f"{type(model).__name__} has no {self.method.__name__}")
        return MethodType(self.method, model)


def available_if(check: Callable[[Any], object]) -> Any:
    """Return the decorator of a method that only some objects have. Unlike scikit-learn's decorator of this name, it
    passes the error of `check` on."""
    return lambda method: AvailableIf(method, check)


def of_model(method: Callable[..., Any], check: Callable[[Any], object] | None = has_probabilities) -> Any:
    """Return the method of an estimator that calls `method` of its fitted model, with the estimator's engine, on
    `checked_items`; check : true for the estimators that have the method, None for all."""
    signature = inspect.signature(method)
    has_engine = "engine" in signature.parameters

    @wraps(method)
    def call(self: Any, X: ItemsLike, *values: object, **named: object) -> Any:
        model, X = self.current_model, self.checked_items(X)
        if has_engine:
            named["engine"] = self.engine
        return getattr(model, method.__name__)(X, *values, **named)

    shown = [each for each in signature.parameters.values() if each.name not in MODEL_PARAMETERS]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    not_fitted = r"\1        sklearn.exceptions.NotFittedError\n"
    call.__doc__ = re.sub(r"(Raises\n +------\n)", not_fitted, method.__doc__ or "")
    return call if check is None else AvailableIf(call, check)


class CalibrationMixin(BaseEstimator):
    """`calibrate` and `temperature_` of the estimators with probabilities."""

    temperature_ = Fitted("temperature")

    @available_if(has_probabilities)
    def calibrate(
        self, X: ItemsLike | None = None, y: LabelsLike | None = None, *, temperature: float | None = None
    ) -> Self:
        """Find the temperature that maximises the likelihood of held-out labels; return the estimator.

        Probabilities are those of the scores divided by `temperature_`: of labellings, positions and spans, of classes
        and nodes. Predicted labels do not change. Model files keep the temperature, and `fit` resets it to 1. The
        temperature minimises the mean of -log P(y_t | x) over the positions, or over single items, between 0.01 and 100
        (Guo, Pleiss, Sun, Weinberger 2017, ICML, section 4.2).

        Parameters
        ----------
        X, y : labelled items that the model was not trained on, as in `fit`
            Positions without a known label are ignored.
        temperature : float, optional
            The temperature, instead of items; 1 undoes the calibration.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            As in `log_likelihood`; no items, or both items and a temperature.
        """
        model = self.current_model
        labels = None if y is None else self.checked_labels(y)
        items = None if X is None else self.checked_items(X)
        self.model_ = model.calibrate(items, labels, self.engine, temperature=temperature)
        return self
