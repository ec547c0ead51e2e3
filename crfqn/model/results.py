"""The result and the trace of a training in model files and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.messages import describe
from crfqn.result import HeldOutScores, Progress, Result, Status, Trace

RESULT_NUMBERS = ("value", "gap", "estimated_gap", "violation", "passes", "seconds", "tol")
TRACE_COLUMNS = tuple(field.name for field in fields(Progress) if field.name != "held_out_score")
# Types of a trace's columns that a file stores as floats.
INTEGER_TYPES: dict[str, type] = {"int": int, "bool": bool}
MAX_EXACT_INTEGER = 2**53  # float64 represents all integers up to this one


def held_out_content(held_out: HeldOutScores) -> dict[str, object]:
    """Return the scores of validation items as JSON values."""
    return asdict(held_out) | {"iterations": held_out.iterations.tolist(), "scores": held_out.scores.tolist()}


def result_content(result: Result) -> dict[str, object]:
    """Return a result without its weights and trace as JSON values, without the rare fields that are empty."""
    content: dict[str, object] = {
        name: getattr(result, name) for name in (*RESULT_NUMBERS, "n_iter", "n_proved_zeros")
    }
    content["status"] = result.status.name
    if result.is_doubtful:
        content["is_doubtful"] = True
    if result.excess is not None:
        content["excess"] = result.excess
    if result.held_out is not None:
        content["held_out"] = held_out_content(result.held_out)
    return content


def trace_table(trace: Trace, names: Sequence[str] = TRACE_COLUMNS) -> NDArray[np.float64]:
    """Return columns of a trace, float64 (rows, names)."""
    rows = [[getattr(row, name) for name in names] for row in trace.rows]
    return np.array(rows, np.float64).reshape(-1, len(names))


def read_trace(file: ModelFile, names: Sequence[str] = TRACE_COLUMNS) -> Trace:
    """Return the trace that `trace_table` made; ModelFileError for anything else."""
    table = file.array("trace", "float64", (None, len(names)))
    kinds = {each.name: INTEGER_TYPES.get(str(each.type), float) for each in fields(Progress)}
    for name, column in zip(names, table.T, strict=True):
        is_count = (column >= 0) & (column <= MAX_EXACT_INTEGER) & (column == np.floor(column))
        if kinds[name] is not float and not is_count.all():
            raise ModelFileError(f"{file.path}: trace: {name}: expected counts, got {column[~is_count][0]:g}")
    rows = (zip(names, row, strict=True) for row in table.tolist())
    return Trace([Progress(**{name: kinds[name](value) for name, value in row}) for row in rows])


def read_result(file: ModelFile, weights: SparseWeights, names: Sequence[str] = TRACE_COLUMNS) -> Result:
    """Return the result of the training that has these weights; ModelFileError for anything else."""
    saved = file.table("result")
    numbers = {name: _number(file, name, saved.get(name)) for name in RESULT_NUMBERS}
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


def _held_out(file: ModelFile, saved: object) -> HeldOutScores:
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


def _number(file: ModelFile, name: str, value: object) -> float:
    """Return a number of the result, nan for None (unknown); ModelFileError for anything else."""
    if value is None:
        return np.nan
    if type(value) is float or (type(value) is int and abs(value) <= MAX_EXACT_INTEGER):
        return float(value)
    raise ModelFileError(f"{file.path}: result: {name}: expected a number or null, got {describe(value)}")


def _whole_number(file: ModelFile, name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_EXACT_INTEGER:
        raise ModelFileError(
            f"{file.path}: result: {name}: expected a whole number from 0 to {MAX_EXACT_INTEGER}, got {describe(value)}"
        )
    return value
