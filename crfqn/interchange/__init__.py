"""Model files of other tools: `read`, `write` and `convert`, by the formats of `crfqn.interchange.formats`."""

from crfqn.interchange.formats import FORMATS, ModelFormat, convert, read, write

__all__ = ["FORMATS", "ModelFormat", "convert", "read", "write"]
