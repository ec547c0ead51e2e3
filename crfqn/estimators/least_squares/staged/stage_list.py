"""What models of stages have in common: their stages, stages replayed and copied, and their tables in model files.

Shapes: I items, K labels; tables are float64 (K, ...).
"""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol, TypeVar

import numpy as np

from crfqn.arrays import Vector
from crfqn.errors import ModelFileError
from crfqn.estimators.least_squares.staged.data import Items
from crfqn.estimators.storage.content import Content, finite
from crfqn.model_file import ModelFile
from crfqn.threads import Pool


class StageLearner(Protocol):
    """What adds stages to a model, from its training items."""

    def learn(self, predictions: Vector) -> Vector:
        """Add a stage; returns the predictions after it."""


class StageList(Protocol):
    """What a model of stages is made of."""

    @property
    def n_stages(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    def tables(self) -> list[Vector]: ...
    def keep(self, n_stages: int) -> None: ...
    def prepare(self, rows: Any, pool: Pool) -> Any: ...
    def advance(self, prepared: Any, number: int, predictions: Vector) -> Vector: ...
    def learner(self, items: Items) -> StageLearner: ...
    def loss(self, items: Items, predictions: Vector) -> float: ...
    def probabilities(self, predictions: Vector) -> Vector: ...


StagesT = TypeVar("StagesT", bound=StageList)


def replayed(stages: StageList, items: Items) -> Vector:
    """Return what the stages so far predict of the items, (K, I)."""
    predictions = np.zeros(items.targets.shape)
    if stages.n_stages:
        for rows, part in items.parts():
            prepared = stages.prepare(rows, items.pool)
            for number in range(stages.n_stages):
                predictions[:, part] = stages.advance(prepared, number, predictions[:, part])
    return predictions


def copy_stages(stages: StagesT) -> StagesT:
    """Return a copy whose stages can be dropped and added to."""
    twin = copy(stages)
    for name, value in vars(stages).items():
        if isinstance(value, list):
            setattr(twin, name, [*value])
    return twin


def add_tables(content: Content, name: str, tables: list[Vector]) -> None:
    """Add tables of K rows each to what a model file holds: the numbers of their columns, and all numbers in a row."""
    content.arrays[f"{name}_widths"] = np.array([table.shape[1] for table in tables], np.int64)
    content.arrays[f"{name}_weights"] = np.concatenate([np.empty(0), *(table.ravel() for table in tables)])


def read_tables(file: ModelFile, name: str, n_rows: int) -> list[Vector]:
    """Return the tables that `add_tables` stored; ModelFileError if they do not fit."""
    numbers = finite(file, f"{name}_weights", (None,))
    widths = file.integers(f"{name}_widths", (None,), numbers.size + 1)
    if int(widths.sum()) * n_rows != numbers.size:
        raise ModelFileError(
            f"{file.path}: {name}: expected {int(widths.sum()) * n_rows} weights, found {numbers.size}"
        )
    parts = np.split(numbers, np.cumsum(widths[:-1]) * n_rows) if widths.size else []
    return [part.reshape(n_rows, -1) for part in parts]
