"""Parameters of estimators: checks of their names and values, and what of them a training keeps; methods that only some
models have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from types import MappingProxyType, MethodType
from typing import Any, Self

from crfqn.parameters import refuse_unknown

# Parameters that a trained model does not depend on.
OF_A_RUN = ("callback", "checkpoint", "checkpoint_every", "client", "random_state", "scoring", "verbose")
NOTHING: Any = None
NO_FACTS: Any = MappingProxyType({})


def has_probabilities(model: Any) -> bool:
    """Return True for likelihoods; AttributeError, as scikit-learn asks, for losses without probabilities."""
    if not model._loss_form.loss_class.has_marginals:
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


def refuse_unknown_parameters(cls: type, named: dict[str, Any]) -> None:
    """Raise TypeError, naming the parameter that is meant, where a class does not have a parameter of `named`."""
    parameters = [*inspect.signature(cls.__init__).parameters.values()][1:]  # type: ignore[misc]
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):  # as a subclass may have
        refuse_unknown(cls.__name__, [parameter.name for parameter in parameters], named)


class NamedParameters:
    """Mixin of estimators that are no `SparseLinearModel`, which checks the names of parameters itself."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)


def check_parameters(model: Any) -> None:
    """Raise InputError for a parameter that is not what its row in the class's PARAMETERS says."""
    for parameter in fields(model):
        if parameter.init and parameter.name in model.PARAMETERS:
            model.PARAMETERS[parameter.name].check(parameter.name, getattr(model, parameter.name))


def keep_parameters(model: Any) -> None:
    """Keep the parameters of a training that has ended: its files hold these, whatever is set later."""
    model._trained_with = {
        parameter.name: getattr(model, parameter.name)
        for parameter in fields(model)
        if parameter.init and parameter.name in model.PARAMETERS and parameter.name not in OF_A_RUN
    }


def forget_training(model: Any) -> None:
    """Remove what a model file told of an earlier training and its data."""
    for name in ("extra_", "featurizer_", "training_"):
        model.__dict__.pop(name, None)
