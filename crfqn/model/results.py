"""What files of models and checkpoints hold of a training: its result, and its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.messages import describe
from crfqn.result import HeldOutScores, Progress, Result, Status, Trace

SUMMARY = ("value", "gap", "estimated_gap", "violation", "passes", "seconds", "tol")
TRACE = tuple(field.name for field in fields(Progress) if field.name != "held_out_score")
# Types of a trace's columns, of which a file keeps floats.
WHOLE: dict[str, type] = {"int": int, "bool": bool}
MOST_COUNTED = 2**53  # beyond, floats are not whole numbers one by one


def held_out_content(held_out: HeldOutScores) -> dict[str, Any]:
    """Return the scores of validation items as JSON values."""
    return asdict(held_out) | {"iterations": held_out.iterations.tolist(), "scores": held_out.scores.tolist()}


def result_content(result: Result) -> dict[str, Any]:
    """Return a result without its weights and trace as JSON values; what few results have is left out of others."""
    content = {name: getattr(result, name) for name in (*SUMMARY, "n_iter", "n_proved_zeros")}
    content["status"] = result.status.name
    if result.is_doubtful:
        content["is_doubtful"] = True
    if result.excess is not None:
        content["excess"] = result.excess
    if result.held_out is not None:
        content["held_out"] = held_out_content(result.held_out)
    return content


def trace_table(trace: Trace, names: Sequence[str] = TRACE) -> NDArray[np.float64]:
    """Return columns of a trace, float64 (rows, names)."""
    rows = [[getattr(row, name) for name in names] for row in trace.rows]
    return np.array(rows, np.float64).reshape(-1, len(names))


def read_trace(file: ModelFile, names: Sequence[str] = TRACE) -> Trace:
    """Return the trace that `trace_table` made; ModelFileError for what is none."""
    table = file.array("trace", "float64", (None, len(names)))
    kinds = {each.name: WHOLE.get(str(each.type), float) for each in fields(Progress)}
    for name, column in zip(names, table.T, strict=True):
        is_count = (column >= 0) & (column <= MOST_COUNTED) & (column == np.floor(column))
        if kinds[name] is not float and not is_count.all():
            raise ModelFileError(f"{file.path}: trace: {name}: expected counts, got {column[~is_count][0]:g}")
    rows = (zip(names, row, strict=True) for row in table.tolist())
    return Trace([Progress(**{name: kinds[name](value) for name, value in row}) for row in rows])


def read_result(file: ModelFile, weights: SparseWeights, names: Sequence[str] = TRACE) -> Result:
    """Return the result of the training that found these weights; ModelFileError for what is none."""
    saved = file.table("result")
    numbers: dict[str, Any] = {name: _number(file, name, saved.get(name)) for name in SUMMARY}
    n_proved, status, excess = saved.get("n_proved_zeros"), saved["status"], saved.get("excess")
    if status not in list(Status.__members__):
        raise ModelFileError(
            f"{file.path}: result: status: expected a name of a status, got {describe(status)}"
        )
    return Result(
        coords=weights.coords,
        weights=weights.weights,
        status=Status[status],
        trace=read_trace(file, names),
        **numbers,
        n_iter=_whole_number(file, "n_iter", saved["n_iter"]),
        n_proved_zeros=None if n_proved is None else _whole_number(file, "n_proved_zeros", n_proved),
        excess=None if excess is None else _number(file, "excess", excess),
        is_doubtful=saved.get("is_doubtful") is True,
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
