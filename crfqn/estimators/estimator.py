"""What all estimators are: scikit-learn's interface of a fitted model, and how a fit finds it.

An estimator is parameters and, after `fit`, a model, the only other attribute; fitted attributes read it. Estimators of
scores that are linear in the weights have the parameters of `Settings`. Their `fit` has four steps, each of which makes
one value: `encode` the data, `pose` the problem, `run` the training, and take the model of the weights.
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
from typing import Any, ClassVar, NamedTuple, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, SparseWeights
from crfqn.data.hybrid import Features
from crfqn.data.model_file import ModelFile, write_model
from crfqn.errors import EmptyModelWarning, InputError, check_count, warn_caller
from crfqn.estimators.automatic import Strengths
from crfqn.estimators.blocks import Blocks, check_alone
from crfqn.estimators.problem import (
    Callbacks,
    Encoded,
    Problem,
    held_out,
    pass_on_interrupt,
    pose,
    run,
    warn_of_end,
)
from crfqn.estimators.settings import NOT_SAVED, saved_values, with_saved_values
from crfqn.estimators.storage import opened, whole_content
from crfqn.messages import describe, named_places, shorten, validation_places
from crfqn.model.answers import LABEL_ANSWERS, LabelAnswers
from crfqn.model.space import Space
from crfqn.model.trained import Fitted, Trained
from crfqn.parameters import check_parameters, refuse_unknown_parameters, set_known_parameters
from crfqn.result import Result
from crfqn.solvers.stopping import ValidationSet


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """Base class of all estimators: parameters, and after `fit` a model. A subclass names itself in files by `KIND`."""

    model_: Any = field(init=False)

    KIND: ClassVar[str]
    SPACE: ClassVar[type[Space]]  # of the weights
    ANSWERS: ClassVar[LabelAnswers] = LABEL_ANSWERS  # the kind of its answers
    STARTS_FROM: ClassVar[str]  # the estimators whose weights `start` may have
    NOT_SAVED: ClassVar[tuple[str, ...]] = NOT_SAVED

    classes_, n_features_in_ = Fitted("classes_"), Fitted("n_features_in_")
    n_iter_, extra_ = Fitted("trained.result.n_iter"), Fitted("trained.extra", is_needed=True)
    training_, featurizer_ = Fitted("trained.training", {}), Fitted("trained.featurizer", None)
    n_dense_, n_weights_ = Fitted("n_dense_", 0), Fitted("trained.n_weights", 0)
    fitted_strengths = Fitted("trained.strengths", {})

    def __new__(cls, *values: Any, **named: Any) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; InputError, naming the one that is meant, for another name. Returns the estimator."""
        return set_known_parameters(super(), self.get_params(), params)

    def check_parameters(self) -> None:
        """Raise InputError for parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values; what has none stays an object."""
        return saved_values(self)

    @classmethod
    def from_stored(cls, values: dict[str, Any]) -> Self:
        """Return an estimator with the parameters of a model file."""
        estimator: Self = with_saved_values(cls, values)
        return estimator

    @staticmethod
    def check_stored(values: Mapping[str, Any]) -> None:
        """Raise InputError for parameters of a training that a model file cannot hold; most can be held."""

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
            coords, weights = self.all_weights()
            known["_result"] = replace(trained.result, coords=coords, weights=weights)
        return known["_result"]

    def all_weights(self) -> SparseWeights:
        """Return the weights that are not 0 by coordinate."""
        model = self.current_model
        return self.SPACE.from_model(model).weights(model)

    @abstractmethod
    def model_of_file(self, file: ModelFile) -> Any:
        """Return the model of a file; ModelFileError, or another error, where it does not fit together."""

    @property
    def is_fitted(self) -> bool:
        """Whether there is a model, of a training or a file."""
        return "model_" in self.__dict__

    @property
    def current_model(self) -> Any:
        """The fitted model, with the arrays that users have set; NotFittedError before a fit."""
        if not self.is_fitted:
            check_is_fitted(self)
        self.model_ = self.model_.current
        return self.model_

    def with_model(self, model: Any) -> Self:
        """Return an estimator with these settings and this model, None for an estimator without one."""
        estimator = object.__new__(type(self))
        estimator.__dict__.update(self.__dict__ | {"model_": model})
        if model is None:
            del estimator.model_
        return estimator

    def take_model(self, model: Any, **memory: Any) -> None:
        """Take a model, and what the next pass of `partial_fit` goes on from."""
        for name in ("_memory", "_reservoir"):
            self.__dict__.pop(name, None)
        self.__dict__.update(memory, model_=model)


def prepare(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    start: Any = None,
    *,
    validation: Any = None,
) -> Problem:
    """Return the training that an estimator's `fit` would do, without doing it; parameters and errors as in `fit`."""
    estimator.check_parameters()
    if isinstance(X, Blocks):
        check_alone(X, y, sample_weight, validation)
    encoded = estimator.encode(X, y, sample_weight)
    begin = start_of(estimator, encoded.space, start)
    return pose(encoded, estimator, begin, validation_set(estimator, encoded, validation))


def train(estimator: Any, problem: Problem) -> Any:
    """Train an estimator, and return it with the model; KeyboardInterrupt where that ended the training."""
    result, reason_of_empty = run(problem, estimator, Callbacks(estimator, problem.validation is not None))
    estimator.take_model(model_of(estimator, problem, result, problem.strengths))
    warn_of_end(result, estimator.tol_, problem.objective.is_convex)
    if reason_of_empty is not None:
        warn_caller(reason_of_empty, EmptyModelWarning)
    pass_on_interrupt(result)
    return estimator


def start_of(estimator: Any, space: Space, start: Any) -> SparseWeights | None:
    """Return the weights that a training starts from: those of `start`, perhaps the name of a model file, or with
    `warm_start` of the last fit."""
    if start is None and not (estimator.warm_start and estimator.is_fitted):
        return None
    before = estimator if start is None else opened(start)
    if getattr(before, "STARTS_FROM", None) != estimator.STARTS_FROM:
        raise InputError(f"start: expected a {estimator.STARTS_FROM}, got {type(before).__name__}")
    return space.start(before.current_model, start is not None, bool(estimator.verbose))


def validation_set(estimator: Any, encoded: Encoded, validation: Any) -> ValidationSet | None:
    """Return the held-out items that are scored during a training, None without any."""
    if validation is None:
        return None
    space = encoded.space
    with named_places(validation_places()):
        items, labels, n_positions = estimator.encode_held_out(validation, space)
    cost = n_positions / encoded.n_positions
    return held_out(
        lambda weights: estimator.with_model(space.model(weights)), estimator, items, labels, cost
    )


def model_of(estimator: Any, problem: Problem, result: Result, strengths: Strengths) -> Any:
    """Return the model that a training under these strengths has found."""
    trained = Trained(
        replace(result, coords=NO_COORDS, weights=NO_VALUES),
        {name: float(value) for name, value in strengths.items()},
        estimator.stored_parameters(),
        problem.objective.n_coords,
    )
    model = problem.space.model(problem.uncentered_weights(result), trained)
    return model if problem.source is None else estimator.with_thresholds(model, problem)


def fitted_under(settings: Any, problem: Problem, result: Result, strengths: Strengths) -> Any:
    """Return an estimator with the result of a training under these strengths, of a path."""
    estimator = settings.with_model(None)
    for name, value in strengths.items():
        setattr(estimator, name, value)
    estimator.take_model(model_of(estimator, problem, result, problem.strengths | strengths))
    warn_of_end(result, estimator.tol_, True)
    return estimator


def check_no_dense(estimator: Any, X: Any, name: str) -> None:
    """Raise InputError for a dense block where none is supported."""
    if isinstance(X, Features) or estimator.n_dense_:
        raise InputError(f"{name}: expected a model and items without a dense block, got crfqn.Features")


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
    check_count("n", n, or_none=True)
    return [Feature(*entry) for entry in model.strongest(labels.index(label), n)]


OF_MODELS_ONLY = ("engine", "positions")  # parameters that a model's methods have, and an estimator's do not


def has_probabilities(model: Any) -> bool:
    """Return True for likelihoods; AttributeError, as scikit-learn asks, for losses without probabilities."""
    if not model.loss_variant.loss_class.has_marginals:
        raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {model.loss!r}")
    return True


class AvailableIf:
    """Method of models for which `check` is true; of others an AttributeError: that of `check`, which says why."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self.method, self.check = method, check

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        if not self.check(model):
            raise AttributeError(f"{type(model).__name__} has no {self.method.__name__}")
        return MethodType(self.method, model)


def available_if(check: Callable[[Any], object]) -> Any:
    """Return the decorator of a method that only some models have. Unlike scikit-learn's decorator of this name, it
    shows the reason that `check` gives."""
    return lambda method: AvailableIf(method, check)


def of_model(method: Callable[..., Any], check: Callable[[Any], object] | None = has_probabilities) -> Any:
    """Return the method of an estimator that calls `method` of its fitted model, with the estimator's engine, on items
    that the estimator has checked (`checked_items`); check : says which estimators have it, None: all."""
    signature = inspect.signature(method)
    has_engine = "engine" in signature.parameters

    @wraps(method)
    def call(self: Any, X: Any, *values: Any, **named: Any) -> Any:
        model, X = self.current_model, self.checked_items(X)
        if has_engine:
            named["engine"] = self.engine
        return getattr(model, method.__name__)(X, *values, **named)

    shown = [each for each in signature.parameters.values() if each.name not in OF_MODELS_ONLY]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    not_fitted = r"\1        sklearn.exceptions.NotFittedError\n"
    call.__doc__ = re.sub(r"(Raises\n +------\n)", not_fitted, method.__doc__ or "")
    return call if check is None else AvailableIf(call, check)


def calibrate(self: Any, X: Any = None, y: Any = None, *, temperature: float | None = None) -> Any:
    """Find the temperature under which held-out labels are most probable; return the estimator.

    All scores are divided by `temperature_` where they become probabilities: of labellings, positions and spans, of
    classes and nodes. Labels do not change, files keep it, and another `fit` begins at 1 again. It minimises the mean
    of -log P(y_t | x) over the positions, of single items over the items, between 0.01 and 100 (Guo, Pleiss, Sun,
    Weinberger 2017, ICML, section 4.2).

    Parameters
    ----------
    X, y : labelled items that the model was not trained on, as in `fit`
        Positions without a known label are left out.
    temperature : float, optional
        The temperature, in the place of items; 1 undoes the calibration.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    InputError
        As in `log_likelihood`; no items, or items and a temperature at once.
    """
    model = self.current_model
    labels = None if y is None else self.checked_labels(y)
    items = None if X is None else self.checked_items(X)
    self.model_ = model.calibrate(items, labels, self.engine, temperature=temperature)
    return self


CALIBRATE = available_if(has_probabilities)(calibrate)  # a method of the estimators with probabilities
