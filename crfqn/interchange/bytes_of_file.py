"""Whole content of a model file of another tool, packed or not; its failures are those of model files."""

from __future__ import annotations

import os

from crfqn.data.files.lines import check_regular, read_bytes
from crfqn.errors import DataError, ModelFileError


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file, unpacked if it is compressed; ModelFileError where that fails."""
    try:
        check_regular(os.fspath(path))
        return read_bytes(os.fspath(path))
    except DataError as error:
        raise ModelFileError(str(error)) from error
