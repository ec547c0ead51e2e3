"""Readers and writers of files: sequences as `Labeled`, documents as `Documents`; `read`, `write` know every format."""

from crfqn.readers.format import Format
from crfqn.readers.frames import from_frame
from crfqn.readers.labelled_items import Documents, Labeled
from crfqn.readers.registry import FORMATS, find_format, read, write

__all__ = ["FORMATS", "Documents", "Format", "Labeled", "find_format", "from_frame", "read", "write"]
