"""Model files of other tools: `read`, `write` and `convert`, by the formats of `crfqn.interchange.formats`."""

from typing import Any

from crfqn.errors import EarlierNameWarning, warn_caller
from crfqn.interchange.formats import FORMATS, ModelFormat, convert, read, write

__all__ = ["FORMATS", "ModelFormat", "convert", "read", "write"]


def __getattr__(name: str) -> Any:
    if name == "Format":
        warn_caller("crfqn.interchange.Format is an earlier name of ModelFormat", EarlierNameWarning)
        return ModelFormat
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
