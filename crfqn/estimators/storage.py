"""Reads and writes the files of fitted estimators: models and parameters.

The file of a sequence model with named features holds only the features that have a weight. The loaded model has only
their columns, and its predictions are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator

import crfqn
from crfqn.data.model_file import ModelFile, ModelSource, read_model
from crfqn.errors import CrfqnError, InputError, ModelFileError
from crfqn.model.content import ModelContent
from crfqn.model.opening import MODEL_CLASSES
from crfqn.model.stored_training import check_training
from crfqn.registry import find

# The class of each kind of model, imported when a file of its kind is loaded.
ESTIMATORS_BY_KIND = {
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
    estimator: BaseEstimator, extra: dict[str, Any] | None = None, dtype: str = "float64"
) -> ModelContent:
    """Return the content of the file of a fitted estimator; errors as in its `save`."""
    model = estimator.current_model
    if model.trained is not None:
        estimator.check_stored(model.trained.settings)
        model = replace(model, trained=replace(model.trained, version=crfqn.__version__))
    return model.content(extra or {}, dtype)


def load(path: ModelSource) -> Any:
    """Read a model file and return the fitted estimator that was saved.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
        The path of a model file, or its bytes.

    Returns
    -------
    ChainCRF, TaxonomyCRF or another estimator
        With `extra_` as it was saved.

    Raises
    ------
    ModelFileError
        If the source is not a whole and undamaged model file of a known kind and version. If there is no file, the
        error is a FileNotFoundError, too.
    """
    return restore(read_model(path))


def restore(file: ModelFile) -> BaseEstimator:
    """Return the fitted estimator of the content of a model file, of any format; ModelFileError, naming `file.path`,
    for an unknown kind, or inconsistent content."""
    path = file.path
    if file.kind not in ESTIMATORS_BY_KIND:
        known = ", ".join(repr(kind) for kind in sorted(ESTIMATORS_BY_KIND))
        raise ModelFileError(f"{path}: expected a model of kind {known}; it is a {file.kind!r}")
    try:
        if file.kind in MODEL_CLASSES:
            check_training(file)
        estimator: BaseEstimator = find(ESTIMATORS_BY_KIND[file.kind]).from_stored(file.table("settings"))
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
