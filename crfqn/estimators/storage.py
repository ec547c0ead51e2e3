"""Files of fitted estimators: what their model holds, and the parameters.

A sequence model trained on named features keeps the names with a weight only; loaded again it knows just these
columns, and predicts the same.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import crfqn
from crfqn.data.model_file import ModelFile, ModelSource, read_model
from crfqn.errors import CrfqnError, InputError, ModelFileError
from crfqn.model.content import ModelContent
from crfqn.model.opening import MODEL_CLASSES
from crfqn.model.stored_training import check_training
from crfqn.registry import find

# The class of each kind of model, imported when a file of its kind is loaded.
KINDS = {
    "calibrated-least-squares": "CalibratedLeastSquares",
    "chain-crf": "ChainCRF",
    "generalized-least-squares": "GeneralizedLeastSquares",
    "multiclass-classifier": "MulticlassClassifier",
    "multiclass-crf": "MulticlassCRF",
    "multiclass-svc": "MulticlassSVC",
    "multilabel-ranker": "MultilabelRanker",
    "stagewise-regression": "StagewiseRegression",
    "taxonomy-crf": "TaxonomyCRF",
}


def whole_content(
    estimator: Any, extra: dict[str, Any] | None = None, dtype: str = "float64"
) -> ModelContent:
    """Return all that a file of a fitted estimator holds; errors as of its `save`."""
    model = estimator.current_model
    if model.trained is not None:
        estimator.check_stored(model.trained.settings)
        model = replace(model, trained=replace(model.trained, version=crfqn.__version__))
    return model.content(extra or {}, dtype)


def load(path: ModelSource) -> Any:
    """Read a model file: return a fitted estimator of the class that was saved.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
        The bytes of a model file do as well as its path.

    Returns
    -------
    ChainCRF, TaxonomyCRF or another estimator
        With `extra_` as it was saved.

    Raises
    ------
    ModelFileError
        Anything but a whole and undamaged model file of a known kind and version; a FileNotFoundError, too, where there
        is none.
    """
    return restore(read_model(path))


def opened(start: Any) -> Any:
    """Return the model that a training starts from: that of a file, by its name; anything else as it is."""
    return load(start) if isinstance(start, (str, PathLike)) else start


def restore(file: ModelFile) -> Any:
    """Return the fitted estimator of a model file's content, perhaps of another format; ModelFileError, naming
    `file.path`, for an unknown kind, or content that does not fit together."""
    path = file.path
    if file.kind not in KINDS:
        known = ", ".join(repr(kind) for kind in sorted(KINDS))
        raise ModelFileError(f"{path}: expected a model of kind {known}; it is a {file.kind!r}")
    try:
        if file.kind in MODEL_CLASSES:
            check_training(file)
        estimator = find(KINDS[file.kind]).from_stored(file.table("settings"))
        try:
            estimator.check_parameters()
        except InputError as error:
            raise ModelFileError(f"{path}: settings: {error}") from None
        model = estimator.model_of_file(file)
        estimator.model_ = replace(
            model, trained=replace(model.trained, settings=estimator.stored_parameters())
        )
        return estimator
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the content does not fit together: {error!r}") from error
