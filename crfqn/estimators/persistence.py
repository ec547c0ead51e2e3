"""Estimators to model files and back: the weights that are not zero, the names that they need, how they came.

A model trained on named features keeps the names with a weight only; loaded again it knows just these columns,
and predicts the same.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.encoding import Vocabulary
from crfqn.errors import CrfqnError, ModelFileError
from crfqn.estimators.base import csr
from crfqn.estimators.chain import ChainCRF
from crfqn.model_file import ModelFile, read_model, write_model
from crfqn.result import Progress, Result, Status, Trace

KIND = "chain-crf"
SETTINGS = ("l1", "l2", "tol", "max_iter", "max_seconds", "n_threads", "verbose", "warm_start")
SUMMARY = ("value", "gap", "violation", "passes", "n_iter", "seconds")
TRACE = tuple(field.name for field in fields(Progress))


def save(model: ChainCRF, path: str | PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model to one file, atomically; `extra` is kept as JSON.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    ModelFileError
        The path cannot be written, or `extra` is no JSON.
    """
    check_is_fitted(model)
    result = model.result_
    node, edge = model.coef_.tocoo(), model.edge_coef_.tocoo()
    arrays = {
        "node_state": node.row.astype(np.int32),
        "node_feature": node.col.astype(np.int64),
        "node_weight": node.data,
        "edge_from": edge.row.astype(np.int32),
        "edge_to": edge.col.astype(np.int32),
        "edge_weight": edge.data,
        "trace": np.array([astuple(row) for row in result.trace.rows], np.float64).reshape(-1, len(TRACE)),
    }
    strings: dict[str, list[str]] = {}
    n_features = model.n_features_in_
    if model.vocabulary_ is not None:
        used, arrays["node_feature"] = np.unique(arrays["node_feature"], return_inverse=True)
        strings["feature_names"] = [model.vocabulary_.names[f] for f in used]
        n_features = used.size
    if model.classes_.dtype.kind in "US":
        strings["classes"] = [str(label) for label in model.classes_]
    else:
        arrays["classes"] = model.classes_
    metadata = {
        "crfqn_version": crfqn.__version__,
        "settings": {name: getattr(model, name) for name in SETTINGS} | {"solver": str(model.solver)},
        "n_features": n_features,
        "n_classes": len(model.classes_),
        "n_nonzero": node.nnz + edge.nnz,
        "data_fingerprint": model.data_fingerprint_,
        "result": {name: getattr(result, name) for name in SUMMARY} | {"status": result.status.name},
        "extra": extra or {},
    }
    write_model(path, KIND, arrays, strings, metadata)


def load(path: str | PathLike[str]) -> ChainCRF:
    """Read a model file: a fitted estimator, with `extra_` as it was saved.

    Raises
    ------
    ModelFileError
        Anything but a whole and undamaged model file of a known kind and version.
    """
    file = read_model(path)
    if file.kind != KIND:
        raise ModelFileError(f"{path}: expected a model of kind {KIND!r}, it is a {file.kind!r}")
    try:
        return _restore(file)
    except (KeyError, TypeError, ValueError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the content does not fit together: {error!r}") from error


def _restore(file: ModelFile) -> ChainCRF:
    meta = file.metadata
    known = {name: meta["settings"][name] for name in SETTINGS}
    solver = meta["settings"]["solver"]
    model = ChainCRF(**known, solver=solver if solver in ("prox-qn", "prox-qn-paper") else "prox-qn")
    n_states, n_features = int(meta["n_classes"]), int(meta["n_features"])
    model.classes_ = _classes(file, n_states)
    model.vocabulary_ = None
    if "feature_names" in file.strings:
        model.vocabulary_ = Vocabulary(file.string_list("feature_names"))
        if len(model.vocabulary_) != n_features:
            raise ModelFileError(f"{file.path}: {len(model.vocabulary_)} names for {n_features} features")
    model.n_features_in_ = n_features
    model.coef_ = _matrix(file, "node", ("state", "int32", n_states), ("feature", "int64", n_features))
    model.edge_coef_ = _matrix(file, "edge", ("from", "int32", n_states), ("to", "int32", n_states))
    model.data_fingerprint_ = str(meta["data_fingerprint"])
    model.result_ = _result(file, model)
    model.n_iter_ = model.result_.n_iter
    model.extra_ = dict(meta["extra"])
    return model


def _classes(file: ModelFile, n_states: int) -> NDArray:
    is_text = "classes" in file.strings
    classes = np.array(file.string_list("classes")) if is_text else file.arrays.get("classes", np.empty(0))
    if classes.shape != (n_states,) or n_states < 1:
        raise ModelFileError(f"{file.path}: expected {n_states} classes, found {classes.shape}")
    return classes


def _matrix(file: ModelFile, what: str, row: tuple[str, str, int], column: tuple[str, str, int]) -> Any:
    values = file.array(f"{what}_weight", "float64", (None,))
    if not np.isfinite(values).all():
        raise ModelFileError(f"{file.path}: a weight of {what}_weight is not finite")
    places = []
    for name, dtype, size in (row, column):
        place = file.array(f"{what}_{name}", dtype, values.shape)
        if place.size and not 0 <= place.min() <= place.max() < size:
            raise ModelFileError(f"{file.path}: {what}_{name} is out of the range 0 ... {size - 1}")
        places.append(place)
    return csr(values, places[0], places[1], (row[2], column[2]))


def _result(file: ModelFile, model: ChainCRF) -> Result:
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
        coords=coords, weights=weights, status=Status[saved["status"]], trace=Trace(rows), **numbers
    )


def _as(kind: Any, value: float) -> Any:
    return {"int": int, "bool": bool}.get(kind, float)(value)
