"""Model files: the weights that are not zero, the names that they need, and how they were trained.

A kind of model adds and reads its own part (`_content`, `_restore`); here are settings, result and trace, which all
have. A sequence model trained on named features keeps the names with a weight only; loaded again it knows just these
columns, and predicts the same.
"""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.data.model_file import ModelFile, read_model, write_model
from crfqn.errors import CrfqnError, InputError, ModelFileError
from crfqn.estimators.checks import check_nonnegative
from crfqn.estimators.strengths import STRENGTHS, Strengths, is_auto
from crfqn.messages import describe
from crfqn.result import HeldOutScores, Progress, Result, Status, Trace
from crfqn.tagging.content import ModelContent, narrow_weights

SUMMARY = ("value", "gap", "estimated_gap", "violation", "passes", "seconds", "tol")
TRACE = tuple(field.name for field in fields(Progress) if field.name != "held_out_score")
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
# Types of a trace's columns, of which a file keeps floats.
WHOLE: dict[str, type] = {"int": int, "bool": bool}
MOST_COUNTED = 2**53  # beyond, floats are not whole numbers one by one


def save(
    model: Any, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
) -> None:
    """Write a fitted model to one file, atomically, weights as `dtype`, `extra` as JSON; NotFittedError, InputError
    unless float64 or float32 holds the weights, ModelFileError for a path or `extra` that cannot be written."""
    content = whole_content(model, extra, dtype)
    write_model(path, model.KIND, content.arrays, content.strings, content.metadata)


def whole_content(model: Any, extra: dict[str, Any] | None = None, dtype: str = "float64") -> ModelContent:
    """Return all that a file of the fitted model holds, settings, result and trace included; raises as `save`."""
    check_is_fitted(model)
    result, content = model.result_, model._content()
    narrow_weights(content, dtype)
    rows = [[getattr(row, name) for name in TRACE] for row in result.trace.rows]
    content.arrays["trace"] = np.array(rows, np.float64).reshape(-1, len(TRACE))
    content.metadata |= {
        "crfqn_version": crfqn.__version__,
        "settings": model._settings(),
        "n_nonzero": model._weights().coords.size,
        "result": {name: getattr(result, name) for name in (*SUMMARY, "n_iter", "n_proved_zeros")}
        | {"status": result.status.name}
        | ({} if result.held_out is None else {"held_out": held_out_content(result.held_out)}),
        "extra": extra or {},
    }
    return content


def held_out_content(held_out: HeldOutScores) -> dict[str, Any]:
    """Return the scores of validation items as JSON values."""
    return {
        "metric": held_out.metric,
        "best": held_out.best,
        "iteration": held_out.iteration,
        "iterations": held_out.iterations.tolist(),
        "scores": held_out.scores.tolist(),
        "is_patience_over": held_out.is_patience_over,
    }


def load(path: str | PathLike[str]) -> Any:
    """Read a model file: return a fitted estimator of the class that was saved.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    ChainCRF, TaxonomyCRF or another estimator
        With `extra_` as it was saved.

    Raises
    ------
    ModelFileError
        Anything but a whole and undamaged model file of a known kind and version.
    """
    return restore(read_model(path))


def restore(file: ModelFile) -> Any:
    """Return the fitted estimator of a model file's content, perhaps of another format; ModelFileError, naming
    `file.path`, for an unknown kind, or content that does not fit together."""
    path = file.path
    if file.kind not in KINDS:
        known = ", ".join(repr(kind) for kind in sorted(KINDS))
        raise ModelFileError(f"{path}: expected a model of kind {known}; it is a {file.kind!r}")
    try:
        return _restore(file)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the content does not fit together: {error!r}") from error


def _restore(file: ModelFile) -> Any:
    model = _unfitted(file)
    model._restore(file)
    model.result_ = _result(file, model)
    model.n_iter_ = model.result_.n_iter
    model.extra_ = file.table("extra")
    return model


def _unfitted(file: ModelFile) -> Any:
    """Return an estimator with the settings of the file; ModelFileError for one that `fit` would not take."""
    model = getattr(crfqn, KINDS[file.kind])._from_settings(file.table("settings"))
    try:
        model._check_parameters()
    except InputError as error:
        raise ModelFileError(f"{file.path}: settings: {error}") from None
    return model


def stored_strengths(file: ModelFile, model: Any) -> Strengths:
    """Return the strengths that a model was trained with; none where the file says "auto" only. Files from before there
    were automatic ones have them among the settings, 1 where not given."""
    if "strengths" in file.metadata:
        strengths = file.table("strengths")
        if strengths.keys() != set(STRENGTHS):
            raise ModelFileError(
                f"{file.path}: strengths: expected {', '.join(STRENGTHS)}, got {[*strengths]}"
            )
    else:
        known = {name: 1.0 if is_auto(value) else value for name, value in model._strengths.items()}
        strengths = {name: value for name, value in known.items() if not is_auto(getattr(model, name))}
    for name, value in strengths.items():
        check_nonnegative(name, value)
    return strengths


def _result(file: ModelFile, model: Any) -> Result:
    saved = file.table("result")
    coords, weights = model._weights()
    return Result(
        coords=coords,
        weights=weights,
        status=_status(file, saved["status"]),
        trace=_trace(file),
        **{name: _number(file, name, saved.get(name)) for name in SUMMARY},
        n_iter=_whole_number(file, "n_iter", saved["n_iter"]),
        n_proved_zeros=None
        if saved.get("n_proved_zeros") is None
        else _whole_number(file, "n_proved_zeros", saved["n_proved_zeros"]),
        held_out=_held_out(file, saved["held_out"]) if "held_out" in saved else None,
    )


def _held_out(file: ModelFile, saved: Any) -> HeldOutScores:
    """Return the scores of the training's validation items."""
    if not isinstance(saved, dict) or type(saved.get("metric")) is not str:
        raise ModelFileError(f"{file.path}: result: held_out: expected a table with a metric")
    iterations, scores = saved.get("iterations"), saved.get("scores")
    if not isinstance(iterations, list) or not isinstance(scores, list) or len(iterations) != len(scores):
        raise ModelFileError(f"{file.path}: result: held_out: expected as many iterations as scores")
    return HeldOutScores(
        saved["metric"],
        _number(file, "best", saved.get("best")),
        _whole_number(file, "iteration", saved.get("iteration")),
        np.array([_whole_number(file, "iterations", value) for value in iterations], np.int64),
        np.array([_number(file, "scores", value) for value in scores], np.float64),
        saved.get("is_patience_over") is True,
    )


def _status(file: ModelFile, name: Any) -> Status:
    if name not in list(Status.__members__):
        raise ModelFileError(
            f"{file.path}: result: status: expected a name of a status, got {describe(name)}"
        )
    return Status[name]


def _trace(file: ModelFile) -> Trace:
    """Return the rows of the trace; ModelFileError where a count is not a whole number."""
    table = file.array("trace", "float64", (None, len(TRACE)))
    kinds = [WHOLE.get(str(column.type), float) for column in fields(Progress) if column.name in TRACE]
    for name, kind, column in zip(TRACE, kinds, table.T, strict=True):
        is_count = (column >= 0) & (column <= MOST_COUNTED) & (column == np.floor(column))
        if kind is not float and not is_count.all():
            raise ModelFileError(f"{file.path}: trace: {name}: expected counts, got {column[~is_count][0]:g}")
    return Trace(
        [Progress(*(kind(value) for kind, value in zip(kinds, row, strict=True))) for row in table.tolist()]
    )


def _number(file: ModelFile, name: str, value: Any) -> float:
    """Return a number of the result, nan for None, which stands for an unknown one; ModelFileError for others."""
    if (
        value is not None
        and type(value) is not float
        and not (type(value) is int and abs(value) <= MOST_COUNTED)
    ):
        raise ModelFileError(f"{file.path}: result: {name}: expected a number or null, got {describe(value)}")
    return np.nan if value is None else float(value)


def _whole_number(file: ModelFile, name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNTED:
        raise ModelFileError(
            f"{file.path}: result: {name}: expected a whole number from 0 to {MOST_COUNTED}, got {describe(value)}"
        )
    return value
