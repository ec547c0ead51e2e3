"""Arguments and result of `crf_path`: the strengths to train with, and the record of the trained models.

The strengths are a descending grid of l1 or group_l1, or a lattice around the strengths of an estimator.
`crfqn.plot.PathDisplay` draws the record.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import product
from operator import attrgetter
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.atomic_write import replace_data_file
from crfqn.errors import InputError
from crfqn.estimators.automatic import Strengths
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.settings import Settings
from crfqn.parameters import Parameter, check_parameters

INNER_TOL_FACTOR = (
    10.0  # default of `inner_tol` / `tol`; it changes the cost of a path, not the model that is refined
)
# The default grid ends at the smaller of these fractions of l1_max and of the automatic strength. The first suffices
# for dense features; the gradients of rare features, as in text, are much smaller than l1_max. Both are set for the
# best score to lie inside of the grid; if it is at an end, a warning says so.
MIN_OF_L1_MAX, MIN_OF_AUTOMATIC = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Grid:
    """A descending grid of l1 or group_l1 for `crf_path`, by default 20 values.

    The grid begins at l1_max, the smallest strength under which all penalised weights are zero (an upper bound of it
    for l1 if `group_l1` > 0); intercepts without penalty are fitted first. By default it ends at a tenth of the value
    of "auto", or at a hundredth of l1_max if that is smaller. For estimators whose penalty is over rows, group_l1
    varies instead of l1 unless `l1` is given.

    Parameters
    ----------
    n_values : int >= 1
        The number of values, evenly on a logarithmic scale from l1_max down.
    ratio : float between 0 and 1, optional
        The smallest value as a fraction of l1_max.
    smallest : float > 0, optional
        The smallest value, instead of `ratio`.
    l1, group_l1 : array-like of float > 0, optional
        The values, in any order, instead of the parameters above; not both. With `group_l1`, l1 is that of the
        estimator.
    inner_tol : float >= 0, optional
        Tolerance of all values but the last, by default ten times that of the estimator. The last and the best model
        are proved to be within the estimator's tolerance of the optimum ("auto": 1e-3).
    patience : int >= 1, optional
        Stop after this number of values in succession without a better score, once a score has exceeded that of the
        first value. With `cv` the score is the mean over the folds.

    Raises
    ------
    InputError
        Invalid parameters.
    """

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        "n_values": Parameter("", int, low=1),
        "ratio": Parameter(
            "", float, above=0.0, below=1.0, is_optional=True, expects="a number between 0 and 1"
        ),
        "smallest": Parameter("", float, above=0.0, is_optional=True),
        "inner_tol": Parameter("", float, low=0.0, is_optional=True),
        "patience": Parameter("", int, low=1, is_optional=True),
    }

    n_values: int = 20
    ratio: float | None = None
    smallest: float | None = None
    l1: ArrayLike | None = None
    group_l1: ArrayLike | None = None
    inner_tol: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.l1 is not None and self.group_l1 is not None:
            raise InputError("expected values of l1 or of group_l1, got both")
        for name in ("l1", "group_l1"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, descending(getattr(self, name), name))

    def parameter(self, estimator: Settings) -> str:
        """Return the parameter that varies, "l1" or "group_l1"; InputError if the penalty has neither."""
        names = [name for name in ("l1", "group_l1") if getattr(self, name) is not None]
        parameter = names[0] if names else estimator.path_parameter
        if parameter == "l2":
            raise InputError("penalty: expected one with l1 or group_l1 to vary, got 'l2'")
        return parameter

    def values(self, l1_max: float, automatic: float) -> NDArray[np.float64]:
        """Return the values, descending. If `smallest` is l1_max or larger, it is the only value.

        automatic : the value of "auto"
        """
        for values in (self.l1, self.group_l1):
            if values is not None:
                return np.asarray(values, np.float64)
        if self.smallest is not None:
            smallest = self.smallest
        elif self.ratio is not None:
            smallest = self.ratio * l1_max
        else:
            smallest = min(MIN_OF_L1_MAX * l1_max, MIN_OF_AUTOMATIC * automatic or np.inf)
        if smallest >= l1_max:
            return np.array([smallest])
        if self.n_values == 1:
            return np.array([l1_max])
        return np.geomspace(l1_max, smallest, self.n_values)  # both ends are exact


@dataclass(frozen=True)
class LocalGrid:
    """Strengths around those that `fit` would use, for `crf_path`; those of `fit` are the first.

    l1 (group_l1 for penalties over rows) and l2, unless they are 0, are multiplied by powers of `factor`, the nearest
    pairs first: 9 pairs are a square. The model of each pair is trained with the tolerance and `stop` of `fit`, and
    scored; then the best is proved to be within the tolerance of the optimum ("auto": 1e-3).

    Parameters
    ----------
    n_values : int >= 1, default 9
        The number of pairs.
    factor : float > 1, default 3.0
        Ratio of neighbouring values.

    Raises
    ------
    InputError
        Invalid parameters.
    """

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        "n_values": Parameter("", int, low=1),
        "factor": Parameter("", float, above=1.0),
    }
    patience: ClassVar[None] = None  # all values are trained

    n_values: int = 9
    factor: float = 3.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def parameter(self, estimator: Settings) -> None:
        """Return None, as no single parameter descends."""

    def values(self, centre: Strengths, parameter: str) -> list[Strengths]:
        """Return the pairs around `centre`, of `parameter` and l2; InputError if both are 0."""
        names = [name for name in dict.fromkeys((parameter, "l2")) if centre[name] > 0]
        if not names:
            raise InputError(f"expected {parameter} > 0 or l2 > 0 to vary, got 0")
        n_steps = 0
        while (2 * n_steps + 1) ** len(names) < self.n_values:
            n_steps += 1
        steps = product(range(n_steps, -n_steps - 1, -1), repeat=len(names))
        nearest = sorted(steps, key=lambda step: sum(number**2 for number in step))[: self.n_values]
        return [
            {name: centre[name] * self.factor**number for name, number in zip(names, step, strict=True)}
            for step in nearest
        ]


def descending(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the distinct values, descending; InputError unless all are positive numbers."""
    try:
        distinct = np.unique(np.asarray(values, np.float64).reshape(-1))[::-1]
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected numbers > 0, got {values!r}") from None
    if distinct.size == 0 or not (np.isfinite(distinct) & (distinct > 0)).all():
        raise InputError(f"{name}: expected one or more finite numbers > 0, got {values!r}")
    return distinct


# Standard errors by which the best score must exceed the default's: about 95 % confidence of one comparison. With one
# standard error, the best of many values may score below the default on test items.
NOISE_ERRORS = 2.0
ROW_COLUMNS = ("score", "n_nonzero", "gap", "violation", "value", "passes", "seconds")


def _column(name: str, doc: str) -> property:
    """Return a property that collects a number of each model."""
    return property(lambda path: np.array([attrgetter(name)(model) for model in path.models]), doc=doc)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Models along a regularisation path, with l1 (or group_l1) descending, or around the default strengths; all arrays
    have n values.

    Attributes
    ----------
    models : tuple of n fitted estimators
    path_parameter : "l1" or "group_l1", the parameter that varies ("l2" if neither does)
    varied : tuple of str, all parameters that vary
    has_default : whether the first model has the strengths of `fit`, and the others strengths around them
    l1, l2, group_l1 : float64, of a path the varying one descending
    score : float64, on the validation items, or the mean over the folds; nan if nothing was scored
    fold_scores : float64 (n, folds), of each fold; no folds without `cv`
    value, gap, violation, passes, seconds : float64, of the training under each value, from the optimum of the
    previous:
        objective, certified relative gap, violation of optimality, passes over the data, wall time in seconds
    n_nonzero : int64
    l1_max : the smallest l1 (or group_l1) under which all penalised weights are zero
    n_screening_violations : int64, weights excluded by the strong rule and added by the check of all gradients
    """

    models: tuple[Estimator, ...]
    score: NDArray[np.float64]
    fold_scores: NDArray[np.float64]
    l1_max: float
    n_screening_violations: NDArray[np.int64]
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
        """Index of the best score, the first of equal ones, which is the sparsest of a path. The default is the best
        unless another mean over the folds is better by more than `NOISE_ERRORS` standard errors. InputError if nothing
        was scored."""
        if np.isnan(self.score).all():
            raise InputError(
                "best model: expected scores to choose by, but the path was solved without validation"
            )
        return 0 if self.is_within_noise else int(np.nanargmax(self.score))

    @property
    def is_within_noise(self) -> bool:
        """Whether the best score is within the noise of the folds of the default's."""
        gain, error = self._gain
        return error > 0 and gain <= NOISE_ERRORS * error

    @property
    def _gain(self) -> tuple[float, float]:
        """The difference between the best score and the default's, and its standard error over the folds,
        paired; 0 without a default or without folds."""
        if not self.has_default:
            return 0.0, 0.0
        best, n_folds = int(np.nanargmax(self.score)), self.fold_scores.shape[1]
        gains = self.fold_scores[best] - self.fold_scores[0]
        error = float(gains.std(ddof=1) / np.sqrt(n_folds)) if n_folds > 1 else 0.0
        return float(self.score[best] - self.score[0]), error

    @property
    def comparison(self) -> str:
        """Sentence that compares the best model with the default; empty without a default or scores."""
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
    def best_model(self) -> Estimator:
        """Estimator at `best_index`."""
        return self.models[self.best_index]

    @property
    def best_end(self) -> str | None:
        """The end of the grid, "smallest" or "largest", that has the best score, if values beyond it may be better;
        else None. Beyond l1_max all weights are zero."""
        if len(self) < 2 or np.isnan(self.score).all() or self.has_default:
            return None
        if self.best_index == len(self) - 1:
            return "smallest"
        return "largest" if self.best_index == 0 and self.values[0] < self.l1_max else None

    @property
    def note(self) -> str:
        """Sentence on values beyond the grid if the best score is at an end of it; else empty."""
        if self.has_default:
            best, beyond = 0 if np.isnan(self.score).all() else self.best_index, []
            for name in self.varied:
                values = getattr(self, name)
                if best and values[best] in (values.min(), values.max()):
                    beyond.append(f"{'smaller' if values[best] == values.min() else 'larger'} {name}")
            ends = f"{' and '.join(beyond)} may be better still"
            return f"the best score is at an end of the grid: {ends}" if beyond else ""
        if self.best_end is None:
            return ""
        smaller = "smaller" if self.best_end == "smallest" else "larger"
        return (
            f"the best score is that of the {self.best_end} of the {len(self)} values, {self.path_parameter} = "
            f"{self.values[self.best_index]:.6g}: {smaller} ones may be better still"
        )

    @property
    def values(self) -> NDArray[np.float64]:
        """Values of `path_parameter`, float64 (n,)."""
        return np.asarray(getattr(self, self.path_parameter))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each value, for `pandas.DataFrame(path.rows())` and tables."""
        names = (*self.varied, *ROW_COLUMNS)
        columns = [getattr(self, name).tolist() for name in names]
        statuses = [model.result_.status.name.lower() for model in self.models]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        best = -1 if np.isnan(self.score).all() else self.best_index
        return [
            row | {"status": status, "is_best": number == best}
            for number, (row, status) in enumerate(zip(rows, statuses, strict=True))
        ]

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows with a header to a CSV file, atomically; cells of unknown numbers (NaN) are empty. DataError
        if it cannot be written."""
        rows, text = self.rows(), StringIO(newline="")
        writer = csv.DictWriter(text, [*rows[0]])
        writer.writeheader()
        for row in rows:
            writer.writerow({name: "" if value != value else value for name, value in row.items()})
        replace_data_file(path, text.getvalue().encode())

    def __len__(self) -> int:
        return len(self.models)
