"""The errors that crfqn raises on purpose.

Each carries one sentence for the user: what was expected, what came, and where. They derive from the
built-in exception that a caller would try first, so `except ValueError` keeps working.
"""


class CrfqnError(Exception):
    """Base of every error that crfqn raises on purpose."""


class InputError(CrfqnError, ValueError):
    """Data or parameters that cannot be used: shapes, types, values out of range."""


class ModelFileError(CrfqnError, ValueError):
    """A model file that is damaged, foreign or of a newer format."""


class DataError(CrfqnError):
    """A dataset that cannot be read or fails its checksum."""


class DataUnavailableError(DataError):
    """A dataset whose files are not on this machine and could not be downloaded."""


class RecipeError(CrfqnError, ValueError):
    """A recipe that is missing, malformed or asks for something unknown."""


class ViewError(InputError):
    """An objective lacks a view that a solver needs (`objectives.views`)."""
