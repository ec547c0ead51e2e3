"""Record of a regularisation path: models and figures by value of l1, the best of them, a table.

`crfqn.plot.PathDisplay` draws it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from operator import attrgetter
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.estimators.base import SparseLinearModel

COLUMNS = ("score", "n_nonzero", "gap", "violation", "value", "passes", "seconds", "status")


def _column(name: str, doc: str) -> Any:
    """Return a property that collects a number of each model."""
    return property(lambda path: np.array([attrgetter(name)(model) for model in path.models]), doc=doc)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Models along a regularisation path, the largest l1 (or group_l1) first; all arrays have n values.

    Attributes
    ----------
    models : tuple of n fitted estimators
    path_parameter : "l1" or "group_l1", the parameter that varies
    l1, group_l1 : float64, the varying one descending
    score : float64, on the validation items, or the mean over the folds; nan where nothing was scored
    fold_scores : float64 (n, folds), of each fold; no folds without `cv`
    value, gap, violation, passes, seconds : float64, of the training at this value alone, started at the one before:
        objective, certified relative gap, violation of optimality, passes over the data, wall time in seconds
    n_nonzero : int64
    l1_max : the smallest l1 (or group_l1) under which all penalised weights are zero
    n_broken : int64, weights that the strong rule had left out and the check of all gradients added
    """

    models: tuple[SparseLinearModel, ...]
    score: NDArray[np.float64]
    fold_scores: NDArray[np.float64]
    l1_max: float
    n_broken: NDArray[np.int64]
    path_parameter: str = "l1"

    l1 = _column("l1_", "Values of l1, float64 (n,).")
    group_l1 = _column("group_l1_", "Values of group_l1, float64 (n,).")
    value = _column("result_.value", "Objective at each value, in nats, float64 (n,).")
    gap = _column("result_.gap", "Certified relative gap at each value, float64 (n,).")
    violation = _column("result_.violation", "Violation of optimality at each value, float64 (n,).")
    n_nonzero = _column("result_.n_nonzero", "Weights of each model that are not zero, int64 (n,).")
    passes = _column("result_.passes", "Passes over the data at each value alone, float64 (n,).")
    seconds = _column("result_.seconds", "Wall time of each value alone, float64 (n,).")

    @property
    def best_index(self) -> int:
        """Index of the best score; of equal ones that of the sparsest model. InputError where nothing was scored."""
        if np.isnan(self.score).all():
            raise InputError(
                "best model: expected scores to choose by, but the path was solved without validation"
            )
        return int(np.nanargmax(self.score))

    @property
    def best_model(self) -> SparseLinearModel:
        """Estimator at `best_index`."""
        return self.models[self.best_index]

    @property
    def best_end(self) -> str | None:
        """End of the grid with the best score, "smallest" or "largest", beyond which better ones may lie; else None, as
        of a grid from l1_max on, above which all weights are zero."""
        if len(self) < 2 or np.isnan(self.score).all():
            return None
        if self.best_index == len(self) - 1:
            return "smallest"
        return "largest" if self.best_index == 0 and self.values[0] < self.l1_max else None

    @property
    def note(self) -> str:
        """Sentence for the user where the best score is at an end of the grid; empty otherwise."""
        if self.best_end is None:
            return ""
        smaller = "smaller" if self.best_end == "smallest" else "larger"
        return (
            f"the best score is that of the {self.best_end} of the {len(self)} values, {self.path_parameter} = "
            f"{self.values[self.best_index]:.6g}: {smaller} ones may be better still"
        )

    @property
    def values(self) -> NDArray[np.float64]:
        """Values of the parameter that varies, float64 (n,), descending."""
        return self.group_l1 if self.path_parameter == "group_l1" else self.l1

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each value, for `pandas.DataFrame(path.rows())` and tables."""
        names = (self.path_parameter, *COLUMNS)
        columns = [getattr(self, name).tolist() for name in names[:-1]]
        statuses = [model.result_.status.name.lower() for model in self.models]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, statuses, strict=True)]

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows with a heading to a CSV file; numbers that are not known (NaN) are left empty."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, (self.path_parameter, *COLUMNS))
            writer.writeheader()
            for row in self.rows():
                writer.writerow({name: "" if value != value else value for name, value in row.items()})

    def __len__(self) -> int:
        return len(self.models)
