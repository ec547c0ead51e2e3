"""The errors and warnings of crfqn.

The message of an error is one sentence: what was expected, what came, and where. Each error derives from the
built-in exception that a caller would try first, so `except ValueError` works too.
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
    """Base of every error that crfqn raises on purpose. Long messages are cut in the middle (`messages.bounded`)."""

    def __init__(self, message: str = "", *others: Any) -> None:
        super().__init__(bounded(message), *others)


class InputError(CrfqnError, ValueError):
    """Data or parameters that cannot be used: shapes, types, values out of range."""


class ModelFileError(CrfqnError, ValueError):
    """A model file that is damaged, foreign or of a newer format."""


class ModelFileMissingError(ModelFileError, FileNotFoundError):
    """A model file that is not there."""

    __new__ = FileNotFoundError.__new__  # type: ignore[assignment] # of its built-in bases the one with fields


class NotOpenError(InputError, RuntimeError):
    """A tagger without a model: none has been opened, or it is closed."""


class DataError(CrfqnError):
    """A dataset that cannot be read or fails its checksum."""


class EmptyDataError(DataError):
    """Data without any items."""


class DataUnavailableError(DataError):
    """A dataset whose files are not on this machine and could not be downloaded."""


class RecipeError(CrfqnError, ValueError):
    """A recipe that is missing, malformed or asks for something unknown."""


class UnsupportedObjectiveError(InputError):
    """An objective lacks a capability that a solver requires (`solvers/protocols.py`)."""


class CrfqnWarning(UserWarning):
    """Base of the warnings of crfqn about data, models and files, bounded as errors are."""

    def __init__(self, message: str = "") -> None:
        super().__init__(bounded(message))


class CommentWarning(CrfqnWarning):
    """Lines of a file of columns that are read as comments, not as tokens."""


class EmptyModelWarning(CrfqnWarning):
    """A model all of whose penalised weights are zero: its penalty is too strong for the data."""


class RepeatedFileWarning(CrfqnWarning):
    """A file that is named twice in a set of files; its items count once."""


class ColumnWarning(CrfqnWarning):
    """A column of features or labels that seems to hold something else: most of its texts are different,
    its numbers count rows or characters, or two of its labels differ in blanks alone."""


class TokenWarning(CrfqnWarning):
    """Text that is tokenized differently from the training data: tokens of another form, or a tokenizer that gets less
    than 98 % of the training tokens right."""


class UnknownFeaturesWarning(CrfqnWarning):
    """Items to label that have no feature with a weight, `n_items` of them: their labels do not depend on them. Or,
    with `n_items` 0, a column none of whose values is in the model, though items have other features."""

    def __init__(self, message: str, n_items: int) -> None:
        super().__init__(message)
        self.n_items = n_items


def check_count(name: str, value: Any, most: float = math.inf, or_none: bool = False) -> Any:
    """Return the value of a count parameter; InputError unless it is an integer from 1 to `most`, or
    None if that is allowed."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and 1 <= value <= most) and not (or_none and value is None):
        limit = ">= 1" if most == math.inf else f"from 1 to {most}"
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
    """Warn at the line that called this package; before Python 3.12 at the line that calls this function. That a
    warning cannot be shown is no error."""
    with suppress(OSError, ValueError, AttributeError):  # of stderr; no warning that is made an error is one
        if sys.version_info >= (3, 12):
            warnings.warn(message, category, skip_file_prefixes=_packages())
        else:
            warnings.warn(message, category, stacklevel=2)


def _packages() -> tuple[str, ...]:
    """Return the folders of this package, and of scikit-learn, whose wrappers may be between a caller and us."""
    paths = (getattr(sys.modules.get(name), "__file__", None) for name in ("crfqn", "sklearn"))
    return tuple(os.path.dirname(path) + os.sep for path in paths if path)
