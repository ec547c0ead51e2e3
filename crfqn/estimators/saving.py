"""Model files from estimators: the weights that are not zero, the names that they need, and how they were trained.

A kind of model adds its own part (`SparseCRF._content`); written here are settings, result and trace, which all have. A
sequence model trained on named features keeps the names with a weight only; loaded again it knows just these columns,
and predicts the same. `persistence.py` reads the files.
"""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.data.model_file import write_model
from crfqn.estimators.content import Content, narrow_weights
from crfqn.estimators.strengths import is_auto
from crfqn.result import HeldOutScores, Progress

SUMMARY = ("value", "gap", "estimated_gap", "violation", "passes", "seconds")
TRACE = tuple(field.name for field in fields(Progress) if field.name != "held_out_score")


def save(
    model: Any, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
) -> None:
    """Write a fitted model to one file, atomically; `extra` is kept as JSON, weights as `dtype`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    InputError
        For another dtype than float64 and float32, and weights too large for it.
    ModelFileError
        The path cannot be written, or `extra` is no JSON.
    """
    content = whole_content(model, extra, dtype)
    write_model(path, model.KIND, content.arrays, content.strings, content.metadata)


def whole_content(model: Any, extra: dict[str, Any] | None = None, dtype: str = "float64") -> Content:
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
    strengths = getattr(model, "_fitted_strengths", {})  # a kernel's model has C, among its settings
    if not any(map(is_auto, strengths.values())):  # of another tool's model nobody knows them
        content.metadata["strengths"] = strengths
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
