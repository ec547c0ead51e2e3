"""The errors that crfqn raises on purpose, and warnings at the line of whoever called it.

Each error carries one sentence for the user: what was expected, what came, and where. They derive from the
built-in exception that a caller would try first, so `except ValueError` keeps working.
"""

import sys
import warnings
from contextlib import suppress
from typing import Any

from crfqn.messages import bounded

WITHIN = (
    "crfqn",
    "sklearn.callback",
    "sklearn.utils._metadata_requests",
)  # what may stand between a caller and us


class CrfqnError(Exception):
    """Base of every error that crfqn raises on purpose. A long message loses its middle (`crfqn.messages.bounded`)."""

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


class ViewError(InputError):
    """An objective lacks what a solver requires of it (`solvers/protocols.py`)."""


class CrfqnWarning(UserWarning):
    """Base of the warnings of crfqn about data, models and files, bounded as errors are."""

    def __init__(self, message: str = "") -> None:
        super().__init__(bounded(message))


class CommentWarning(CrfqnWarning):
    """Lines of a file of columns that are taken for comments, and are no tokens."""


class EmptyModelWarning(CrfqnWarning):
    """A model all of whose penalised weights are zero: its penalty is too strong for the data."""


class RepeatedFileWarning(CrfqnWarning):
    """A file that is named twice in a set of files; its items count once."""


class ColumnWarning(CrfqnWarning):
    """A column that is taken for features or labels, and looks like something else: most of its texts are different,
    its numbers count rows or characters, or two of its labels differ in blanks alone."""


class TokenWarning(CrfqnWarning):
    """Text that is cut otherwise than the training data: tokens of another form, or a tokenizer that gets fewer than 98
    % of the training tokens right."""


class UnknownFeaturesWarning(CrfqnWarning):
    """Items to label that have no feature with a weight, `n_items` of them: their labels tell nothing of them. Or, with
    `n_items` 0, a column none of whose values the model knows, though items have other features."""

    def __init__(self, message: str, n_items: int) -> None:
        super().__init__(message)
        self.n_items = n_items


def is_called_from(*modules: str) -> bool:
    """Return whether a function of one of the modules, or of those within them, waits for us to return."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if _is_within(str(frame.f_globals.get("__name__")), modules):
            return True
    return False


def warn_caller(message: str | Warning, category: type[Warning] = CrfqnWarning) -> None:
    """Warn at the line that called into this package, however many functions and wrappers lie between. That a warning
    cannot be shown is no error."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_within(str(frame.f_globals.get("__name__"))):
        level, frame = level + 1, frame.f_back
    with suppress(OSError, ValueError, AttributeError):  # of stderr; no warning that is made an error is one
        warnings.warn(message, category, stacklevel=level)


def _is_within(module: str, others: tuple[str, ...] = WITHIN) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in others)
