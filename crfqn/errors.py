"""The errors and warnings of crfqn.

The message of an error is one sentence: what was expected, what came, and where. Each error also derives from the
usual built-in exception, so that `except ValueError` works, too.
"""

import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from numbers import Integral
from typing import Any

from crfqn.messages import bounded, shorten

_warns_of_items: ContextVar[bool] = ContextVar("_warns_of_items", default=True)


class CrfqnError(Exception):
    """Base class of the errors of crfqn. Long messages are cut in the middle (`messages.bounded`)."""

    def __init__(self, message: str = "", *others: object) -> None:
        super().__init__(bounded(message), *others)


class InputError(CrfqnError, ValueError):
    """Data or parameters that cannot be used: shapes, types, values out of range."""


class ModelFileError(CrfqnError, ValueError):
    """A model file that is damaged, of another program or of a newer format."""


class ModelFileMissingError(ModelFileError, FileNotFoundError):
    """A model file that does not exist."""

    __new__ = FileNotFoundError.__new__  # type: ignore[assignment] # the base class with fields


class NotOpenError(InputError, RuntimeError):
    """A tagger without a model: none has been opened, or it is closed."""


class DataError(CrfqnError):
    """A dataset that cannot be read or fails its checksum."""


class EmptyDataError(DataError):
    """Data without any items."""


class DataUnavailableError(DataError):
    """A dataset whose files are not on this machine and could not be downloaded."""


class RecipeError(CrfqnError, ValueError):
    """A recipe that is missing, malformed or has unknown settings."""


class UnsupportedObjectiveError(InputError):
    """An objective lacks a capability that a solver requires (`solvers/protocols.py`)."""


class CrfqnWarning(UserWarning):
    """Base class of the warnings of crfqn about data, models and files; long messages are cut, as those of errors."""

    def __init__(self, message: str = "") -> None:
        super().__init__(bounded(message))


class CommentWarning(CrfqnWarning):
    """Lines of a file of columns that are read as comments, not as tokens."""


class EmptyModelWarning(CrfqnWarning):
    """A model whose penalised weights are all zero, because the penalty is too strong for the data."""


class RepeatedFileWarning(CrfqnWarning):
    """A file that occurs twice in a set of files; its items count once."""


class ColumnWarning(CrfqnWarning):
    """A column of features or labels that seems to be something else: nearly all texts are different, its numbers count
    rows or characters, or two labels differ only in blanks."""


class TokenWarning(CrfqnWarning):
    """Text that is tokenized differently from the training data: tokens have another form, or the tokenizer gets less
    than 98 % of the training tokens right."""


class UnknownFeaturesWarning(CrfqnWarning):
    """`n_items` items without a feature that has a weight, so that their labels do not depend on them; or, with
    `n_items` 0, a column none of whose values is in the model, in items with other features."""

    def __init__(self, message: str, n_items: int) -> None:
        super().__init__(message)
        self.n_items = n_items


def check_count(name: str, value: Any, largest: float = math.inf, or_none: bool = False) -> Any:
    """Return the value of a count parameter; InputError unless it is an integer from 1 to `largest`, or None if that is
    allowed."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and 1 <= value <= largest) and not (or_none and value is None):
        limit = ">= 1" if largest == math.inf else f"from 1 to {largest}"
        raise InputError(f"{name}: expected {'None or ' * or_none}an integer {limit}, got {shorten(value)}")
    return None if value is None else int(value)


@contextmanager
def without_item_warnings() -> Iterator[None]:
    """Suppress warnings of items without known features while several models are scored on the same items."""
    token = _warns_of_items.set(False)
    try:
        yield
    finally:
        _warns_of_items.reset(token)


def warns_of_items() -> bool:
    """Return whether to warn of items without known features."""
    return _warns_of_items.get()


def warn_caller(message: str | Warning, category: type[Warning] = CrfqnWarning) -> None:
    """Warn at the line that called this package, before Python 3.12 at the line that calls this function.

    A warning that cannot be written is not an error.
    """
    with suppress(OSError, ValueError, AttributeError):  # errors of stderr, not warnings turned into errors
        if sys.version_info >= (3, 12):
            warnings.warn(message, category, skip_file_prefixes=_packages())
        else:
            warnings.warn(message, category, stacklevel=2)


def _packages() -> tuple[str, ...]:
    """Return the folders of this package and of scikit-learn, whose wrappers may call this package."""
    paths = (getattr(sys.modules.get(name), "__file__", None) for name in ("crfqn", "sklearn"))
    return tuple(os.path.dirname(path) + os.sep for path in paths if path)
