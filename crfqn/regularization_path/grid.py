"""Strengths to train with: a descending grid of l1 or group_l1, or a lattice around the strengths that are given.

Both know how precisely each is solved; `Strengths` are floats by parameter, of the parameters that vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.errors import InputError
from crfqn.estimators.automatic import Strengths
from crfqn.estimators.base import SparseLinearModel
from crfqn.parameters import is_number

LOOSER = 10.0  # times tol: the tolerance of all values but the last
# Where the default grid ends at the latest: at this share of l1_max, where dense features have come in, and at this
# share of the automatic strength, as the gradients of the many rare features of texts are far below l1_max.
OF_LARGEST, OF_AUTOMATIC = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Grid:
    """Values of l1, or of group_l1, for `crf_path`; without arguments, 20 of them from l1_max down.

    They end at a tenth of what "auto" stands for, or at a hundredth of l1_max if that is less.

    l1_max is the smallest strength under which all penalised weights are zero (an upper bound of it for l1 where
    `group_l1` > 0); intercepts without penalty are fitted first. Of estimators whose penalty is over rows, group_l1
    varies unless `l1` is given, and all that is said of l1 is then true of group_l1.

    Parameters
    ----------
    n_values : int >= 1
        The number of values, evenly on a logarithmic scale from l1_max down.
    ratio : float between 0 and 1, optional
        The smallest value as a fraction of l1_max.
    smallest : float > 0, optional
        The smallest value itself, instead of `ratio`.
    l1, group_l1 : array-like of float > 0, optional
        The values themselves, in any order; the parameters above do not count then. With `group_l1`, l1 is that of the
        estimator. At most one of both.
    inner_tol : float >= 0, optional
        The relative distance from the optimum, as `tol` of the estimator, to which the values on the way are solved;
        10 `tol` by default. The last one is proved to `tol` ("auto": 1e-3), and so is the best.
    patience : int >= 1, optional
        Stop when so many values in succession have not improved the score, once it has been better than that of the
        first value; with `cv` by the mean over the folds, which are then solved side by side, all in memory.

    Raises
    ------
    InputError
        Says what was expected and what came.
    """

    n_values: int = 20
    ratio: float | None = None
    smallest: float | None = None
    l1: ArrayLike | None = None
    group_l1: ArrayLike | None = None
    inner_tol: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        check_count("n_values", self.n_values)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.ratio is not None and not (is_number(self.ratio) and 0 < self.ratio < 1):
            raise InputError(f"ratio: expected None or a number between 0 and 1, got {self.ratio!r}")
        if self.smallest is not None and not (is_number(self.smallest) and 0 < self.smallest < np.inf):
            raise InputError(f"smallest: expected None or a finite number > 0, got {self.smallest!r}")
        tol = self.inner_tol
        if tol is not None and not (is_number(tol) and 0 <= tol < np.inf):
            raise InputError(f"inner_tol: expected None or a number >= 0, got {tol!r}")
        if self.l1 is not None and self.group_l1 is not None:
            raise InputError("expected values of l1 or of group_l1, got both")
        for name in ("l1", "group_l1"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, descending(getattr(self, name), name))

    def parameter(self, estimator: SparseLinearModel) -> str:
        """Return the parameter that varies, "l1" or "group_l1"; InputError where the penalty has neither."""
        given = [name for name in ("l1", "group_l1") if getattr(self, name) is not None]
        parameter = given[0] if given else estimator._path_parameter
        if parameter == "l2":
            raise InputError("penalty: expected one with l1 or group_l1 to walk, got 'l2'")
        return parameter

    def values(self, l1_max: float, automatic: float) -> NDArray[np.float64]:
        """Return the values, descending; a `smallest` that is not below l1_max is the only one.

        automatic : what "auto" stands for
        """
        for given in (self.l1, self.group_l1):
            if given is not None:
                return np.asarray(given, np.float64)
        if self.smallest is not None:
            smallest = self.smallest
        elif self.ratio is not None:
            smallest = self.ratio * l1_max
        else:
            smallest = min(OF_LARGEST * l1_max, OF_AUTOMATIC * automatic or np.inf)
        if smallest >= l1_max:
            return np.array([smallest])
        if self.n_values == 1:
            return np.array([l1_max])
        return np.geomspace(l1_max, smallest, self.n_values)  # both ends are exact

    def tol(self, tol: float) -> float:
        """Return the tolerance of values on the way, for an estimator with this `tol`."""
        return LOOSER * tol if self.inner_tol is None else self.inner_tol


@dataclass(frozen=True)
class Around:
    """Strengths around those that `fit` would train with, which are the first, for `crf_path`: what is compared is the
    default itself.

    l1 (group_l1 of penalties over rows) and l2, as far as they are not 0, are multiplied by powers of `factor`: the
    nearest pairs first, so that 9 of them are a square. All are solved as `fit` would have it, by `tol` and `stop`, and
    scored; then the best is proved to `tol` ("auto": 1e-3).

    Parameters
    ----------
    n_values : int >= 1, default 9
        The number of pairs.
    factor : float > 1, default 3.0
        From one value to the next.

    Raises
    ------
    InputError
        Says what was expected and what came.
    """

    n_values: int = 9
    factor: float = 3.0

    def __post_init__(self) -> None:
        check_count("n_values", self.n_values)
        if not (is_number(self.factor) and 1 < self.factor < np.inf):
            raise InputError(f"factor: expected a finite number > 1, got {self.factor!r}")

    def values(self, centre: Strengths, parameter: str) -> list[Strengths]:
        """Return the pairs around `centre`, of `parameter` and l2; InputError where both are 0."""
        names = [name for name in dict.fromkeys((parameter, "l2")) if centre[name] > 0]
        if not names:
            raise InputError(f"expected {parameter} > 0 or l2 > 0 to vary, got 0")
        reach = 0
        while (2 * reach + 1) ** len(names) < self.n_values:
            reach += 1
        steps = product(range(reach, -reach - 1, -1), repeat=len(names))
        nearest = sorted(steps, key=lambda step: sum(number**2 for number in step))[: self.n_values]
        return [
            {name: centre[name] * self.factor**number for name, number in zip(names, step, strict=True)}
            for step in nearest
        ]


def descending(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the values, the largest first and none twice; InputError unless all are positive numbers."""
    try:
        found = np.unique(np.asarray(values, np.float64).reshape(-1))[::-1]
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected numbers > 0, got {values!r}") from None
    if found.size == 0 or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(f"{name}: expected finite numbers > 0, at least one, got {values!r}")
    return found


def check_count(name: str, count: Any) -> None:
    """Raise InputError unless `count` is a whole number from 1 on."""
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
        raise InputError(f"{name}: expected an integer >= 1, got {count!r}")
