"""The file of a CRF's model under sklearn-crfsuite's name, `crf.modelfile`: named, or temporary."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress
from typing import Any

from crfqn.interchange import crfsuite


class TrainedFile:
    """A model in CRFsuite's format: the file `filename`, or a temporary one that is deleted with this object.

    Attributes
    ----------
    name : str or None, the path; None where there is no file yet
    auto : bool, whether the file is a temporary one
    keep_tempfiles : bool, whether a temporary file stays
    """

    def __init__(self, filename: Any, keep_tempfiles: bool) -> None:
        self.name, self.auto, self.keep_tempfiles = filename, filename is None, bool(keep_tempfiles)

    def hold(self, model: Any) -> None:
        """Write a fitted chain to a temporary file unless there is a file."""
        if self.name is not None:
            return
        descriptor, name = tempfile.mkstemp(".crfsuite", "model")
        os.close(descriptor)
        if not self.keep_tempfiles:
            self._delete = weakref.finalize(self, _remove, name)
        crfsuite.write(model, name)
        self.name = name

    def cleanup(self) -> None:
        """Delete a temporary file that does not stay; `crf.modelfile` writes it again."""
        if self.auto and not self.keep_tempfiles and self.name is not None:
            self._delete()
            self.name = None

    def refresh(self) -> None:
        """Do the same as `cleanup`: `crf.modelfile` has a new file then."""
        self.cleanup()


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
