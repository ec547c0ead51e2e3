"""Opening of model files for labelling: crfqn's own and CRFsuite's, told by how they begin."""

from __future__ import annotations

from typing import Any

from crfqn.data.model_file import ModelFile, ModelSource, at_hand, read_model, start_of
from crfqn.errors import CrfqnError, ModelFileError
from crfqn.model.content import CHAIN, CLASSIFIER, FLAT, TAXONOMY
from crfqn.model.crfsuite_model import MAGIC, read_crfsuite
from crfqn.model.stored_training import check_training
from crfqn.registry import find

# Classes of the kinds, imported when a file of theirs is opened.
MODELS = {CHAIN: "SequenceModel"} | dict.fromkeys((FLAT, CLASSIFIER, TAXONOMY), "ItemModel")


def open_model(source: ModelSource) -> Any:
    """Return the model of a file; ModelFileError as of `crfqn.load`, and for kinds that need an estimator."""
    return model_of(read_any(source))


def read_any(source: ModelSource) -> ModelFile:
    """Return the content of crfqn's own model file, or of CRFsuite's as if it were one."""
    source = at_hand(source)
    return read_crfsuite(source) if start_of(source, len(MAGIC)) == MAGIC else read_model(source)


def model_of(file: ModelFile) -> Any:
    """Return the model of a file's content; errors as of `open_model`."""
    if file.kind not in MODELS:
        known = ", ".join(map(repr, MODELS))
        raise ModelFileError(
            f"{file.path}: expected a model of kind {known}; it is a {file.kind!r}, which crfqn.load opens if known"
        )
    try:
        check_training(file)
        return find(MODELS[file.kind]).of_file(file)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file.path}: the content does not fit together: {error!r}") from error
