"""The lines at which warnings are shown."""

import sys
from pathlib import Path

import crfqn


def is_at_line_of(warning, file):
    """Whether a warning is shown at a line of a file that called the package; before Python 3.12, of the package."""
    if sys.version_info >= (3, 12):
        return warning.filename == file
    return Path(crfqn.__file__).parent in Path(warning.filename).parents
