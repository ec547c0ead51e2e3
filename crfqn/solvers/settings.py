"""Checks of a solver's settings: a wrong one is refused by its name when the solver is made."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real

import numpy as np

from crfqn.errors import InputError


def is_number(setting: object) -> bool:
    """Return whether a setting is a real number, and not a boolean."""
    return isinstance(setting, Real) and not isinstance(setting, bool)


def check_integers(settings: object, least: int, *names: str) -> None:
    """Raise InputError unless the named settings are integers >= `least`."""
    _check(settings, names, f"an integer >= {least}", lambda x: isinstance(x, Integral) and int(x) >= least)


def check_numbers(settings: object, least: float, *names: str) -> None:
    """Raise InputError unless the named settings are numbers >= `least`; they may be infinite."""
    _check(settings, names, f"a number >= {least}", lambda x: x >= least)


def check_positive(settings: object, name: str, or_none: bool = False) -> None:
    """Raise InputError unless the named setting is a finite number above 0, or None where that is allowed."""
    if not (or_none and getattr(settings, name) is None):
        what = "None or a finite number > 0" if or_none else "a finite number > 0"
        _check(settings, (name,), what, lambda x: 0 < x < np.inf)


def check_shares(settings: object, *names: str) -> None:
    """Raise InputError unless the named settings are numbers between 0 and 1, neither of them allowed."""
    _check(settings, names, "a number between 0 and 1", lambda x: 0 < x < 1)


def _check(settings: object, names: tuple[str, ...], what: str, is_allowed: Callable[..., bool]) -> None:
    for name in names:
        setting = getattr(settings, name)
        if not (is_number(setting) and is_allowed(setting)):
            raise InputError(f"{name}: expected {what}, got {setting!r}")
