"""Checks of parameters and data that estimators share; InputError says what was expected and what came."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from numbers import Real
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from crfqn.data.values import check_values
from crfqn.errors import InputError
from crfqn.parameters import refuse_unknown


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


class NamedParameters:
    """Mixin of dataclasses of parameters: a name that none of them has is told with the one that they have for it."""

    def __new__(cls, *values: Any, **named: Any) -> Any:
        own = [*inspect.signature(cls.__init__).parameters.values()][1:]
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in own):  # as a subclass may have
            refuse_unknown(cls.__name__, [parameter.name for parameter in own], named)
        return super().__new__(cls)


def available_if(check: Callable[[Any], object]) -> Any:
    """Return the decorator of a method that only some models have, as scikit-learn's of this name, which hides the
    reason that `check` gives."""
    return lambda method: AvailableIf(method, check)


def check_parameters(model: Any) -> None:
    """Raise InputError for a parameter that is not what its row in the class's PARAMETERS says."""
    for field in fields(model):
        if field.init and field.name in model.PARAMETERS:
            model.PARAMETERS[field.name].check(field.name, getattr(model, field.name))


def is_number(value: Any) -> bool:
    """Return whether a value is a real number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_nonnegative(name: str, value: Any) -> None:
    """Raise InputError unless a parameter is a finite number >= 0."""
    if not is_number(value) or not (np.isfinite(value) and value >= 0):
        raise InputError(f"{name}: expected a finite number >= 0, got {value!r}")


def validated(model: Any, X: Any, *y: Any, **how: Any) -> Any:
    """Return rows, and labels if given, as scikit-learn's `validate_data` does; InputError for values that are too
    large, by item and feature."""
    found = validate_data(model, X, *y, **how)
    rows = found[0] if y else found
    check_values(rows, "item {}".format, getattr(model, "feature_names_in_", None))
    return found


def check_classes(classes: NDArray) -> None:
    """Raise InputError unless there is a class; one is enough, for a model that predicts it always."""
    if not classes.size:
        raise InputError("expected at least one label, got none")
