"""Estimators to model files and back: the weights that are not zero, the names that they need, how they came.

What a kind of model adds, it says itself (`SparseCRF._content`, `_restore`); here is what all have: settings, result,
trace. A sequence model trained on named features keeps the names with a weight only; loaded again it knows just these
columns, and predicts the same.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.errors import CrfqnError, ModelFileError
from crfqn.estimators.base import SparseCRF
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.multiclass import MulticlassCRF
from crfqn.estimators.multiclass_classifier import MulticlassClassifier
from crfqn.estimators.multilabel_ranker import MultilabelRanker
from crfqn.estimators.taxonomy import TaxonomyCRF
from crfqn.model_file import ModelFile, read_model, write_model
from crfqn.result import Progress, Result, Status, Trace

KINDS: dict[str, type[SparseCRF]] = {
    kind.KIND: kind for kind in (ChainCRF, MulticlassCRF, MulticlassClassifier, MultilabelRanker, TaxonomyCRF)
}
SUMMARY = ("value", "gap", "violation", "passes", "n_iter", "seconds")
TRACE = tuple(field.name for field in fields(Progress))


def save(model: SparseCRF, path: str | PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model to one file, atomically; `extra` is kept as JSON.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    ModelFileError
        The path cannot be written, or `extra` is no JSON.
    """
    check_is_fitted(model)
    result, content = model.result_, model._content()
    rows = [astuple(row) for row in result.trace.rows]
    arrays = content.arrays | {"trace": np.array(rows, np.float64).reshape(-1, len(TRACE))}
    metadata = content.metadata | {
        "crfqn_version": crfqn.__version__,
        "settings": model._settings(),
        "n_nonzero": model._weights().coords.size,
        "data_fingerprint": model.data_fingerprint_,
        "result": {name: getattr(result, name) for name in (*SUMMARY, "n_proved_zeros")}
        | {"status": result.status.name},
        "extra": extra or {},
    }
    write_model(path, model.KIND, arrays, content.strings, metadata)


def load(path: str | PathLike[str]) -> Any:
    """Read a model file: a fitted estimator of the class that was saved, with `extra_` as it was saved.

    Raises
    ------
    ModelFileError
        Anything but a whole and undamaged model file of a known kind and version.
    """
    file = read_model(path)
    if file.kind not in KINDS:
        known = ", ".join(repr(kind) for kind in sorted(KINDS))
        raise ModelFileError(f"{path}: expected a model of kind {known}; it is a {file.kind!r}")
    try:
        return _restore(file)
    except (KeyError, TypeError, ValueError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the content does not fit together: {error!r}") from error


def _restore(file: ModelFile) -> SparseCRF:
    meta = file.metadata
    model = KINDS[file.kind]._from_settings(meta["settings"])
    model._restore(file)
    model.data_fingerprint_ = str(meta["data_fingerprint"])
    model.result_ = _result(file, model)
    model.n_iter_ = model.result_.n_iter
    model.extra_ = dict(meta["extra"])
    return model


def _result(file: ModelFile, model: SparseCRF) -> Result:
    saved = file.metadata["result"]
    rows = [
        Progress(
            **{
                name: _as(kind.type, value)
                for name, kind, value in zip(TRACE, fields(Progress), row, strict=True)
            }
        )
        for row in file.array("trace", "float64", (None, len(TRACE))).tolist()
    ]
    coords, weights = model._weights()
    numbers: dict[str, Any] = {name: np.nan if saved[name] is None else saved[name] for name in SUMMARY}
    return Result(
        coords=coords,
        weights=weights,
        status=Status[saved["status"]],
        trace=Trace(rows),
        n_proved_zeros=saved.get("n_proved_zeros"),
        **numbers,
    )


def _as(kind: Any, value: float) -> Any:
    return {"int": int, "bool": bool}.get(kind, float)(value)
