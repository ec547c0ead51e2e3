"""Checks of parameters and data that estimators share: InputError says what was expected and what came."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import FeatureMap

LARGEST_VALUE = 1e12


def check_flags(model: Any, *names: str) -> None:
    """Refuse parameters that are neither True nor False."""
    for name in names:
        if not isinstance(getattr(model, name), (bool, np.bool_)):
            raise InputError(f"{name}: expected True or False, got {getattr(model, name)!r}")


def is_number(value: Any) -> bool:
    """Whether it is a real number, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_nonnegative(name: str, value: Any) -> None:
    """Refuse a parameter that is no finite number from 0 on."""
    if not is_number(value) or not (np.isfinite(value) and value >= 0):
        raise InputError(f"{name}: expected a finite number >= 0, got {value!r}")


def check_size(features: FeatureMap) -> None:
    """Refuse features whose squares, summed up, would leave no digits or overflow."""
    if features.largest_value <= LARGEST_VALUE:
        return
    largest = np.sqrt(features.feature_scales)
    feature = int(np.argmax(largest))
    raise InputError(
        f"expected feature values up to {LARGEST_VALUE:g} in size, but feature {feature} reaches "
        f"{largest[feature]:g}: scale it"
    )


def check_classes(classes: NDArray) -> None:
    """Refuse what leaves nothing to tell apart."""
    if classes.size < 2:
        found = f"one class: {classes.tolist()[0]!r}" if classes.size else "none"
        raise InputError(f"expected items of at least two classes, got {found}")
