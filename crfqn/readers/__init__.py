"""Readers of files: sequences as `Labeled`, documents as `Documents`."""

from crfqn.readers.labeled import Labeled

__all__ = ["Labeled"]
