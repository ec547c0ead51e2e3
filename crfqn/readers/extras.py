"""Packages that only some formats need: imported when they are, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from crfqn.errors import DataError


def import_extra(package: str, extra: str, purpose: str) -> Any:
    """Return a package; DataError, naming the extra of crfqn that brings it, where it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise DataError(
            f"{purpose} needs the package {package}, which is not installed: pip install 'crfqn[{extra}]'"
        ) from error
