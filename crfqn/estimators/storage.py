"""Model files: the weights that are not zero, the names that they need, and how they were trained.

A kind of model adds and reads its own part (`_content`, `_restore`); here are settings, result and trace, which all
have. A sequence model trained on named features keeps the names with a weight only; loaded again it knows just these
columns, and predicts the same.
"""

from __future__ import annotations

from copy import copy
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.data.model_file import ModelFile, ModelSource, read_model, write_model
from crfqn.errors import CrfqnError, InputError, ModelFileError
from crfqn.model.content import CHAIN, ModelContent, narrow_weights
from crfqn.model.featurizers import read_featurizer
from crfqn.model.opening import MODELS
from crfqn.model.results import SUMMARY, TRACE, held_out_content, read_result
from crfqn.model.stored_training import check_training

# The class of each kind of model, a name of `crfqn`, which imports it when it is asked for.
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


def save(
    self: Any, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
) -> None:
    """Write the fitted model to one file, atomically and without pickle; `crfqn.load` reads it.

    Parameters
    ----------
    path : str or path-like
    extra : dict, optional
        JSON values to keep with the model, `extra_` of the loaded one.
    dtype : {"float64", "float32"}, default "float64"
        Of the weights in the file. float32 takes half of their bytes and changes a score by at most 6e-8 times the
        sum of |weight x value|; the loaded model computes in float64.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    InputError
        For another dtype, for weights too large for it, and for a path with the extension of another format, such as
        .crfsuite, which `crfqn.interchange.write` writes.
    ModelFileError
        The path cannot be written, or `extra` is no JSON.
    """
    content = whole_content(self, extra, dtype)
    write_model(path, self.KIND, content.arrays, content.strings, content.metadata)


def whole_content(model: Any, extra: dict[str, Any] | None = None, dtype: str = "float64") -> ModelContent:
    """Return all that a file of the fitted model holds, settings, result and trace included; raises as `save`."""
    check_is_fitted(model)
    if model.KIND == CHAIN:
        content = model._content(extra)
        content.metadata["crfqn_version"] = crfqn.__version__
        narrow_weights(content, dtype)
        return content
    model = copy(model)
    model.__dict__.update(getattr(model, "_trained_with", {}))  # whatever has been set since
    result, content = model.result_, model._content()
    narrow_weights(content, dtype)
    rows = [[getattr(row, name) for name in TRACE] for row in result.trace.rows]
    content.arrays["trace"] = np.array(rows, np.float64).reshape(-1, len(TRACE))
    content.metadata |= {
        "crfqn_version": crfqn.__version__,
        "settings": model._settings(),
        "n_nonzero": model._all_weights().coords.size,
        "result": {name: getattr(result, name) for name in (*SUMMARY, "n_iter", "n_proved_zeros")}
        | {"status": result.status.name}
        | ({"is_doubtful": True} if result.is_doubtful else {})
        | ({} if result.held_out is None else {"held_out": held_out_content(result.held_out)}),
        "extra": extra or {},
    }
    if model.training_:
        content.metadata["training"] = model.training_
    if featurizer := model.featurizer_:
        has_weights = hasattr(model, "coef_")  # else features are made of all
        used = np.unique(model.coef_.indices) if has_weights else np.arange(model.n_features_in_)
        content.metadata["featurizer"] = featurizer.as_dict(used)
    return content


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
        if file.kind in MODELS:
            check_training(file)
        model = getattr(crfqn, KINDS[file.kind])._from_settings(file.table("settings"))
        try:
            model._check_parameters()
        except InputError as error:
            raise ModelFileError(f"{path}: settings: {error}") from None
        model._restore(file)
        if file.kind == CHAIN:
            return model
        model.result_ = read_result(file, model._all_weights())
        model.n_iter_ = model.result_.n_iter
        model.extra_, model.training_ = file.table("extra"), file.training
        if (featurizer := read_featurizer(file)) is not None:
            model.featurizer_ = featurizer
        model._keep_parameters()
        return model
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the content does not fit together: {error!r}") from error
