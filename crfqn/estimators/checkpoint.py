"""Checkpoints: files with the weights and the trace of a run, from which a training continues that was killed.

A resumed training starts from the newest weights and continues the trace and the bound of the optimum; solvers estimate
the curvature again. The file has the format of models: no code, a checksum, written atomically. A finished training
writes its result.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import fields, is_dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.atomic_write import StrPath, check_writable
from crfqn.data.model_file import ModelFile, read_model, write_model
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.model.results import read_result, read_trace, result_content, trace_table
from crfqn.objectives.fingerprint import fingerprint
from crfqn.result import Progress, Result, Status, Trace
from crfqn.solvers.automatic.auto_solver import AutoSolver
from crfqn.solvers.minimize import RunRecord
from crfqn.solvers.protocols import Point, Solver

logger = logging.getLogger("crfqn.training")
CHECKPOINT_FILE, CHECKPOINT_KIND = "checkpoint.crfqn", "checkpoint"
FORMAT_VERSION = 3  # of the content, which is compared
# Minimum time between two checkpoints / time of writing one, so that writing takes less than 2 % of a run.
MIN_INTERVAL_RATIO = 50.0
MAX_DIFFERENCES = 3  # maximum number of differences that a message names
TRACE_COLUMNS = [column.name for column in fields(Progress) if column.name != "n_wrong"]
HISTORY_FIELDS = ("value", "violation", "iterations", "scores", "best_index", "due")


class Checkpoint:
    """The file of the state of a run, written `every` number of steps, or of seconds as "30s"."""

    def __init__(self, folder: StrPath, every: int | str = "30s") -> None:
        self.folder, self.every = folder, every
        self.path = os.path.join(os.fspath(folder), CHECKPOINT_FILE)
        self.settings: dict[str, Any] = {}
        self.cost, self.written, self.n_iter_written = 0.0, time.perf_counter(), 0
        self.has_warned = False

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return os.path.lexists(self.path)

    def open(self, solver: Solver, record: RunRecord, first: SparseWeights) -> Result | None:
        """Resume a run that begins at the weights `first` from the file, if there is one; return the result of a
        finished run, else None.

        Raises InputError for a folder that cannot be used, and for a file that is damaged or of another training.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.folder}: no folder for checkpoints: {error.strerror or error}"
            ) from error
        check_writable(self.path)
        self.settings = settings_of(solver, record, first)
        self.written = time.perf_counter()
        if not self.exists:
            return None
        try:
            file = read_model(self.path)
            if file.kind != CHECKPOINT_KIND:
                raise InputError(f"{self.path}: expected a checkpoint, got a file of kind {file.kind!r}")
            check_same(self.path, file.table("settings"), self.settings)
            if "result" in file.metadata:
                return read_result(file, weights_of(file, "best"), TRACE_COLUMNS)
        except ModelFileError as error:
            raise InputError(
                f"{error}; the training cannot continue from this checkpoint: remove it to start again"
            ) from error
        resume(record, file)
        self.n_iter_written = record.n_iter
        logger.info("continuing from %s, iteration %d", self.path, record.n_iter)
        return None

    def remaining(self, solver: Any, record: RunRecord) -> Any:
        """Return the solver for the remaining steps, with the remaining epochs if it has a fixed number of them."""
        if not hasattr(solver, "n_epochs"):
            return solver
        return replace(solver, n_epochs=max(solver.n_epochs - record.n_iter, 1))

    def after_step(self, record: RunRecord, point: Point) -> None:
        """Write weights and trace after a step on all items, if a checkpoint is due."""
        if isinstance(self.every, str) and self.every.endswith("s"):
            interval = max(float(self.every[:-1]), MIN_INTERVAL_RATIO * self.cost)
            is_due = time.perf_counter() - self.written >= interval
        else:
            is_due = record.n_iter - self.n_iter_written >= int(self.every)
        if is_due:
            self._write(record, point.sparse_weights)

    def after_run(self, record: RunRecord, status: Status) -> None:
        """Write the last weights of an interrupted run."""
        if status.is_cut_off:
            self._write(record, record.newest)

    def close(self, result: Result) -> None:
        """Write the result of a finished run."""
        if result.status.is_cut_off or result.status is Status.DIVERGED:
            return
        arrays = arrays_of(best=SparseWeights(result.coords, result.weights))
        self._write_file(arrays, result.trace, {"result": result_content(result)})

    def _write(self, record: RunRecord, newest: SparseWeights) -> None:
        arrays = arrays_of(best=record.best.weights, newest=newest)
        numbers: dict[str, Any] = {
            "n_iter": record.n_iter,
            "passes": record.passes,
            "seconds": time.perf_counter() - record.started,
            "value": record.best.value,
            "excess": record.best.excess,
            "dual_value": record.proof.dual_value,
            "violation": record.violation,
        }
        if record.history.best is not None:
            arrays |= arrays_of(best_score=record.history.best)
            numbers["history"] = {name: getattr(record.history, name) for name in HISTORY_FIELDS}
        self._write_file(arrays, record.trace, {"run": numbers})
        self.n_iter_written = record.n_iter

    def _write_file(self, arrays: dict[str, NDArray[Any]], trace: Trace, content: dict[str, Any]) -> None:
        """Replace the file; if this fails, a warning is given and the training continues."""
        before = time.perf_counter()
        arrays["trace"] = trace_table(trace, TRACE_COLUMNS)
        try:
            write_model(self.path, CHECKPOINT_KIND, arrays, {}, {"settings": self.settings} | content)
        except ModelFileError as error:
            if not self.has_warned:  # later checkpoints usually fail, too
                warn_caller(f"no checkpoint was written: {error}")
            self.has_warned = True
        self.written = time.perf_counter()
        self.cost = self.written - before


def arrays_of(**weights: SparseWeights) -> dict[str, NDArray[Any]]:
    """Return weights as arrays of a file by name."""
    return {
        f"{name}.{part}": getattr(those, part)
        for name, those in weights.items()
        for part in ("coords", "weights")
    }


def weights_of(file: ModelFile, name: str) -> SparseWeights:
    """Return the weights of the arrays of `arrays_of`."""
    coords = file.arrays[f"{name}.coords"].astype(np.int64)
    return SparseWeights(coords, file.array(f"{name}.weights", "float64", (coords.size,)))


def resume(record: RunRecord, file: ModelFile) -> None:
    """Set a run to the state in the file; the rest is computed from the trace."""
    numbers = file.table("run")
    record.n_iter, record.violation = numbers["n_iter"], numbers["violation"]
    record.passes_before -= numbers["passes"]
    record.started -= numbers["seconds"]
    record.newest, record.best.weights = weights_of(file, "newest"), weights_of(file, "best")
    record.best.value, record.best.excess = numbers["value"], numbers["excess"]
    record.proof.dual_value = numbers["dual_value"]
    rows = record.trace.rows
    rows[:] = read_trace(file, TRACE_COLUMNS).rows
    scans = [row for row in rows if row.is_screening]
    if np.isnan(record.estimate.scale) and scans:
        record.estimate.scale = min(record.penalty.min_threshold or np.inf, scans[0].violation)
    iterations = [0, *(row.iteration for row in rows)]
    values = [row.value for row, before in zip(rows, iterations, strict=False) if row.iteration > before]
    record.estimate.gains.values[:] = np.minimum.accumulate(values).tolist()
    if "history" in numbers:
        vars(record.history).update(numbers["history"])
        record.history.best = weights_of(file, "best_score")


def settings_of(solver: Solver, record: RunRecord, start: SparseWeights) -> dict[str, Any]:
    """Return all settings that a run depends on, by name: texts and numbers, and fingerprints of arrays."""
    objective, penalty = record.objective, record.penalty
    if isinstance(solver, AutoSolver):
        solver = solver.chosen(objective, penalty)
    validation = {} if record.run.held_out is None else parameters_of(record.run.held_out)
    sizes = ("n_items", "n_positions", "n_features", "n_coords")
    return {
        "crfqn": version("crfqn"),
        "format": FORMAT_VERSION,
        "solver": type(solver).__name__,
        **{f"solver.{name}": value for name, value in parameters_of(solver).items()},
        "penalty": type(penalty).__name__,
        **parameters_of(penalty),
        "tol": record.run.tol,
        "stop": record.run.stop,
        "to_rounding": record.run.to_rounding,
        **{f"validation.{name}": value for name, value in validation.items()},
        "start": fingerprint(tuple(start)),
        **{f"data: {name}": int(getattr(objective, name)) for name in sizes},
        **{f"data: {name}": value for name, value in objective.fingerprints().items()},
    }


def parameters_of(settings: object) -> dict[str, Any]:
    """Return the parameters of a solver or penalty as JSON values: numbers and texts, and fingerprints of arrays."""
    names = (
        [field.name for field in fields(settings) if field.init] if is_dataclass(settings) else vars(settings)
    )
    parameters = {name: getattr(settings, name) for name in names}
    return {
        name: value
        if value is None or isinstance(value, (bool, int, float, str))
        else fingerprint(value)
        if isinstance(value, (np.ndarray, tuple))
        else repr(value)
        for name, value in parameters.items()
        if not callable(value)
    }


def check_same(path: str, saved: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise InputError with the differences if a checkpoint is of another training."""
    names = [name for name in {**asked, **saved} if saved.get(name) != asked.get(name)]
    if not names:
        return
    differences = [
        f"{name}: checkpoint has {saved.get(name)!r}, this training {asked.get(name)!r}"
        for name in names[:MAX_DIFFERENCES]
    ]
    more = f"; and {len(names) - MAX_DIFFERENCES} more" if len(names) > MAX_DIFFERENCES else ""
    raise InputError(
        f"{path}: the checkpoint of another training: {'; '.join(differences)}{more}. Use the settings of the "
        "checkpoint, choose another folder, or remove it"
    )
