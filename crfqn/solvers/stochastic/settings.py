"""Checks of the settings of stochastic methods."""

from numbers import Integral, Real

from crfqn.errors import InputError


def is_number(setting: object) -> bool:
    """Whether it is a real number, and not a boolean."""
    return isinstance(setting, Real) and not isinstance(setting, bool)


def check_integers(settings: object, **least: int) -> None:
    """Raise InputError for a setting that is no integer, or below the least allowed; least: by the setting's name."""
    for name, smallest in least.items():
        setting = getattr(settings, name)
        if not is_number(setting) or not isinstance(setting, Integral) or setting < smallest:
            raise InputError(f"{name}: expected an integer >= {smallest}, got {setting!r}")
