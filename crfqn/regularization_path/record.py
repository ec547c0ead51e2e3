"""Record of a regularisation path: models and figures by strength, the best of them, a table.

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

NOISE = 2.0  # standard errors of what is chosen among several: at one, ends are below the default on test items, too
COLUMNS = ("score", "n_nonzero", "gap", "violation", "value", "passes", "seconds")


def _column(name: str, doc: str) -> Any:
    """Return a property that collects a number of each model."""
    return property(lambda path: np.array([attrgetter(name)(model) for model in path.models]), doc=doc)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Models along a regularisation path, the largest l1 (or group_l1) first, or around a default; all arrays have n
    values.

    Attributes
    ----------
    models : tuple of n fitted estimators
    path_parameter : "l1" or "group_l1", the parameter that varies ("l2" where neither does)
    varied : tuple of str, all parameters that vary
    has_default : whether the first model has the strengths that `fit` would train with, the others those around them
    l1, l2, group_l1 : float64, of a path the varying one descending
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
    varied: tuple[str, ...] = ()
    has_default: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "varied", self.varied or (self.path_parameter,))

    l1 = _column("l1_", "Values of l1, float64 (n,).")
    l2 = _column("l2_", "Values of l2, float64 (n,).")
    group_l1 = _column("group_l1_", "Values of group_l1, float64 (n,).")
    value = _column("result_.value", "Objective at each value, in nats, float64 (n,).")
    gap = _column("result_.gap", "Certified relative gap at each value, float64 (n,).")
    violation = _column("result_.violation", "Violation of optimality at each value, float64 (n,).")
    n_nonzero = _column("result_.n_nonzero", "Weights of each model that are not zero, int64 (n,).")
    passes = _column("result_.passes", "Passes over the data at each value alone, float64 (n,).")
    seconds = _column("result_.seconds", "Wall time of each value alone, float64 (n,).")

    @property
    def best_index(self) -> int:
        """Index of the best score, of equal ones the first: of a path the sparsest. A default stays unless the mean
        over the folds is better by more than `NOISE` standard errors. InputError where nothing was scored."""
        if np.isnan(self.score).all():
            raise InputError(
                "best model: expected scores to choose by, but the path was solved without validation"
            )
        return 0 if self.is_within_noise else int(np.nanargmax(self.score))

    @property
    def is_within_noise(self) -> bool:
        """Whether the folds do not tell the best score from that of the default."""
        gain, error = self._gain
        return error > 0 and gain <= NOISE * error

    @property
    def _gain(self) -> tuple[float, float]:
        """By how much the best score is above the default's, and the standard error of the mean over the folds,
        paired; 0 where there is no default, or no folds."""
        if not self.has_default:
            return 0.0, 0.0
        best, n_folds = int(np.nanargmax(self.score)), self.fold_scores.shape[1]
        gains = self.fold_scores[best] - self.fold_scores[0]
        error = float(gains.std(ddof=1) / np.sqrt(n_folds)) if n_folds > 1 else 0.0
        return float(self.score[best] - self.score[0]), error

    @property
    def comparison(self) -> str:
        """Sentence for the user that compares the best with the default; empty without a default and scores."""
        if not self.has_default or len(self) < 2 or np.isnan(self.score).all():
            return ""
        best, (gain, error) = int(np.nanargmax(self.score)), self._gain
        if best == 0:
            return f"the default is kept: none of the {len(self) - 1} others scores better"
        where = ", ".join(f"{name} = {getattr(self, name)[best]:.6g}" for name in self.varied)
        n_folds = self.fold_scores.shape[1]
        noise = f"standard error {error:.4f} over {n_folds} folds" if n_folds > 1 else "on one set of items"
        if self.is_within_noise:
            return f"the default is kept: {where} scores {gain:+.4f}, which is within noise ({noise})"
        return f"better than the default by {gain:.4f} ({noise}): {where}"

    @property
    def best_model(self) -> SparseLinearModel:
        """Estimator at `best_index`."""
        return self.models[self.best_index]

    @property
    def best_end(self) -> str | None:
        """End of the grid with the best score, "smallest" or "largest", beyond which better ones may lie; else None, as
        of a grid from l1_max on, above which all weights are zero."""
        if len(self) < 2 or np.isnan(self.score).all() or self.has_default:
            return None
        if self.best_index == len(self) - 1:
            return "smallest"
        return "largest" if self.best_index == 0 and self.values[0] < self.l1_max else None

    @property
    def note(self) -> str:
        """Sentence for the user where the best score is at an end of the grid; empty otherwise."""
        if self.has_default:
            return self._note_around
        if self.best_end is None:
            return ""
        smaller = "smaller" if self.best_end == "smallest" else "larger"
        return (
            f"the best score is that of the {self.best_end} of the {len(self)} values, {self.path_parameter} = "
            f"{self.values[self.best_index]:.6g}: {smaller} ones may be better still"
        )

    @property
    def _note_around(self) -> str:
        """Sentence for the user where the best is the smallest or the largest of what was tried around a default."""
        best, beyond = 0 if np.isnan(self.score).all() else self.best_index, []
        for name in self.varied:
            values = getattr(self, name)
            if best and values[best] in (values.min(), values.max()):
                beyond.append(f"{'smaller' if values[best] == values.min() else 'larger'} {name}")
        if not beyond:
            return ""
        return (
            f"the best score is that of an end of what was tried: {' and '.join(beyond)} may be better still"
        )

    @property
    def values(self) -> NDArray[np.float64]:
        """Values of `path_parameter`, float64 (n,)."""
        return np.asarray(getattr(self, self.path_parameter))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each value, for `pandas.DataFrame(path.rows())` and tables."""
        names = (*self.varied, *COLUMNS)
        columns = [getattr(self, name).tolist() for name in names]
        statuses = [model.result_.status.name.lower() for model in self.models]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        best = -1 if np.isnan(self.score).all() else self.best_index
        return [
            row | {"status": status, "is_best": number == best}
            for number, (row, status) in enumerate(zip(rows, statuses, strict=True))
        ]

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows with a heading to a CSV file; numbers that are not known (NaN) are left empty."""
        rows = self.rows()
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            for row in rows:
                writer.writerow({name: "" if value != value else value for name, value in row.items()})

    def __len__(self) -> int:
        return len(self.models)
