"""Opens model files for labelling: crfqn's own and CRFsuite's, recognised by their first bytes."""

from __future__ import annotations

from typing import Any

from crfqn.data.model_file import ModelFile, ModelSource, at_hand, read_model, start_of
from crfqn.errors import CrfqnError, ModelFileError
from crfqn.model.content import CHAIN, CLASSIFIER, FLAT, TAXONOMY
from crfqn.model.crfsuite_model import FILE_START, read_crfsuite
from crfqn.model.stored_training import check_training
from crfqn.registry import find

# The class of each kind of model, imported when a file of the kind is opened.
MODEL_CLASSES = {CHAIN: "SequenceModel"} | dict.fromkeys((FLAT, CLASSIFIER, TAXONOMY), "ItemModel")


def open_model(source: ModelSource) -> Any:
    """Return the model of a file; ModelFileError as in `crfqn.load`, and for kinds that need an estimator."""
    return model_of(read_any(source))


def read_any(source: ModelSource) -> ModelFile:
    """Return the content of a model file, crfqn's own or CRFsuite's."""
    source = at_hand(source)
    return read_crfsuite(source) if start_of(source, len(FILE_START)) == FILE_START else read_model(source)


def model_of(file: ModelFile) -> Any:
    """Return the model of a file's content; errors as in `open_model`."""
    if file.kind not in MODEL_CLASSES:
        known = ", ".join(map(repr, MODEL_CLASSES))
        raise ModelFileError(
            f"{file.path}: expected a model of kind {known}; it is a {file.kind!r}, which crfqn.load opens if known"
        )
    try:
        check_training(file)
        return find(MODEL_CLASSES[file.kind]).of_file(file)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file.path}: the content does not fit together: {error!r}") from error
