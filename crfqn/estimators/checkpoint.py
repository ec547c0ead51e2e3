"""Checkpoints: a run's state in a folder, from which a killed training goes on as if nothing had happened, to the bit.

A state is what the solver had in its memory after a step, and what `RunRecord` knew before it was told of that step;
the points, which are as large as the data, are made anew from their weights. That changes no bit: with checkpoints
scores do not depend on the way to a point (`Objective.makes_scores_anew`). Nor does it matter when one is written, by
the clock or by steps. The file is that of models: no code, checked by a sum, replaced as a whole; what a killed
process has left half-written is removed by the next. A training that has ended leaves its result.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from crfqn.atomic_write import StrPath, check_writable
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.automatic import SOLVERS, AutoSolver, solver_maker
from crfqn.objectives.fingerprint import fingerprint
from crfqn.parameters import PARAMETERS
from crfqn.result import Result, Status
from crfqn.solvers.memory import Arrays, packed, unpacked
from crfqn.solvers.protocols import Objective, Point, Solver, SparseWeights, State
from crfqn.solvers.run import RunRecord, result_from, result_memory

logger = logging.getLogger("crfqn.training")
FILE, KIND = "checkpoint.crfqn", "checkpoint"
# Others have come to their end.
CUT_OFF = Status.MAX_ITER, Status.MAX_SECONDS, Status.CALLBACK, Status.INTERRUPTED
DEAREST = 50.0  # times as long as a writing takes is at least the time to the next: less than 2 % of the run
MOST_DIFFERENCES = 3  # that a message names


@dataclass(frozen=True)
class Checkpoint:
    """Where a run's state is kept, and how often it is written: `every` so many steps, or so many seconds, "30s"."""

    folder: StrPath
    every: int | str = "30s"

    def __post_init__(self) -> None:
        PARAMETERS["checkpoint_every"].check("checkpoint_every", self.every)

    @property
    def path(self) -> str:
        """The file of the checkpoint."""
        return os.path.join(os.fspath(self.folder), FILE)

    def open(self, solver: Solver, run: RunRecord, first: SparseWeights) -> Keeper:
        """Return the keeper of a run that begins at these weights."""
        return Keeper(self, solver, run, first)

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return os.path.lexists(self.path)

    def is_due(self, n_steps: int, seconds: float, cost: float) -> bool:
        """Whether to write one, so many steps and seconds after the last, which took `cost` seconds."""
        if isinstance(self.every, str) and self.every.endswith("s"):
            return seconds >= max(float(self.every[:-1]), DEAREST * cost)
        return n_steps >= int(self.every)


class Keeper:
    """Keeper of a run's checkpoint. Raises InputError for a solver that cannot go on from one, a folder that cannot be
    used, and one that has a damaged checkpoint or that of another training.

    result : of the same training, where it has come to its end before
    """

    def __init__(self, checkpoint: Checkpoint, solver: Solver, run: RunRecord, first: SparseWeights) -> None:
        if isinstance(solver, AutoSolver):
            solver = solver.chosen(run.objective, run.penalty)
        if not getattr(solver, "resumes", False):
            known = ", ".join(
                name for name, row in SOLVERS.items() if getattr(solver_maker(row), "resumes", False)
            )
            raise InputError(
                f"checkpoint: expected a solver that can go on from one ({known}), got {type(solver).__name__}"
            )
        self.checkpoint, self.solver, self.run = checkpoint, solver, run
        self.objective: Objective = run.objective
        self.objective.makes_scores_anew = True
        try:
            os.makedirs(checkpoint.folder, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{checkpoint.folder}: no folder for checkpoints: {error.strerror or error}"
            ) from error
        check_writable(checkpoint.path)
        self.settings = settings_of(solver, run, first)
        self.noted: dict[str, Any] | None = None
        self.cost, self.n_steps, self.written, self.is_checked = 0.0, 0, time.perf_counter(), False
        self.found = self._read()
        self.result = result_from(self.found["result"]) if "result" in self.found else None

    def _read(self) -> dict[str, Any]:
        """Return what the folder has of this training, nothing where it has none."""
        path = self.checkpoint.path
        if not self.checkpoint.exists:
            return {}
        try:
            file = read_model(path)
            if file.kind != KIND:
                raise InputError(f"{path}: expected a checkpoint, got a file of kind {file.kind!r}")
            check_same(path, file.table("settings"), self.settings)
            return unpacked(file.metadata["memory"], file.arrays)
        except ModelFileError as error:
            raise InputError(
                f"{error}; it is no checkpoint to go on from: remove it to begin anew"
            ) from error

    def states(self, start: Point) -> Iterator[State]:
        """Yield the states of the run, from that of the checkpoint on if there is one, and write others in time."""
        run, objective, found = self.run, self.objective, self.found
        if found:
            run.resume(found["run"])
            logger.info("going on from %s, iteration %d", self.checkpoint.path, run.n_iter)
        states = self.solver.steps(objective, run.penalty, start, *([found["solver"]] if found else []))
        del start
        self.found = {}
        for state in states:
            if found:
                # To make the points anew was no part of the run.
                objective.n_passes, objective.asked = found["passes"], found["asked"]
                found = {}
            if state.memory is not None:
                self.n_steps += 1
                self.noted = {"solver": state.memory, "run": run.memory()}
                self.noted |= {"passes": objective.n_passes, "asked": objective.asked}
                if not self.is_checked:
                    packed(state.memory(), Arrays())  # refuses what it cannot keep at once
                    self.is_checked = True
                if self.checkpoint.is_due(self.n_steps, time.perf_counter() - self.written, self.cost):
                    self.write()
            yield state
            self.noted = None  # the solver goes on, and what it has in its memory changes

    def write(self) -> None:
        """Write what is noted; a failure costs the checkpoint and not the training."""
        if self.noted is not None:
            self._write(self.noted | {name: self.noted[name]() for name in ("solver", "run")})

    def close(self, result: Result) -> None:
        """Leave the result of a run that has come to its end, or else the last state, and let the objective be."""
        self.objective.makes_scores_anew = False
        if result.status in CUT_OFF:
            self.write()
        elif result.status is not Status.DIVERGED:
            self._write({"result": result_memory(result)})

    def _write(self, content: dict[str, Any]) -> None:
        before, arrays = time.perf_counter(), Arrays()
        memory = packed(content, arrays)
        try:
            write_model(self.checkpoint.path, KIND, arrays, {}, {"settings": self.settings, "memory": memory})
        except ModelFileError as error:
            warn_caller(f"no checkpoint was written: {error}", UserWarning)
        self.written = time.perf_counter()
        self.cost, self.n_steps = self.written - before, 0


def settings_of(solver: Solver, run: RunRecord, start: Any) -> dict[str, Any]:
    """Return all that the steps of a run depend on by name: texts and numbers, and fingerprints of what is larger."""
    objective, penalty, watch = run.objective, run.penalty, run.watch
    sizes = ("n_items", "n_positions", "n_features", "n_coords")
    return {
        "crfqn": version("crfqn"),
        "solver": type(solver).__name__,
        **{f"solver.{name}": value for name, value in parameters_of(solver).items()},
        "penalty": type(penalty).__name__,
        **parameters_of(penalty),
        "tol": run.tol,
        "stop": "estimate" if run.may_estimate else "certificate",
        "to_rounding": run.to_rounding,
        **{
            f"validation.{name}": value
            for name, value in (parameters_of(watch.held_out) if watch else {}).items()
        },
        "start": fingerprint(tuple(start)),
        **{f"data: {name}": int(getattr(objective, name)) for name in sizes},
        **{f"data: {name}": value for name, value in objective.fingerprints().items()},
    }


def parameters_of(settings: Any) -> dict[str, Any]:
    """Return the parameters of a solver or penalty: numbers and texts as they are."""
    names = (
        [field.name for field in fields(settings) if field.init] if is_dataclass(settings) else vars(settings)
    )
    return {name: shown(getattr(settings, name)) for name in names if not callable(getattr(settings, name))}


def shown(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return fingerprint(value) if isinstance(value, (np.ndarray, tuple)) else repr(value)


def check_same(path: str, kept: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise InputError, with what differs, unless a checkpoint is of this training."""
    names = [name for name in {**asked, **kept} if kept.get(name) != asked.get(name)]
    if not names:
        return
    told = [
        f"{name}: checkpoint has {kept.get(name)!r}, this training {asked.get(name)!r}"
        for name in names[:MOST_DIFFERENCES]
    ]
    more = f"; and {len(names) - MOST_DIFFERENCES} more" if len(names) > MOST_DIFFERENCES else ""
    raise InputError(
        f"{path}: the checkpoint of another training: {'; '.join(told)}{more}. Go on with what it has, choose another "
        "folder, or remove it"
    )
