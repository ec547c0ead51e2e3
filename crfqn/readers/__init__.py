"""Readers: files of labelled sequences in, `Labeled` out."""

from crfqn.readers.labeled import Labeled

__all__ = ["Labeled"]
