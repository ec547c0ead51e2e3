"""A solver's run as a curve: objective, non-zeros and test accuracy against seconds and passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CLOSE = 1e-7  # a run ends when it is this near to the reference optimum
PATIENCE = 10.0  # seconds that the reference may take, as a multiple of the other runs'
UNLIMITED = 1_000_000


class Limits(NamedTuple):
    """When a run ends besides by its own rule: seconds, an objective, a certified gap."""

    seconds: float
    value: float = -np.inf
    tol: float = 0.0


@dataclass(frozen=True, eq=False)
class Curve:
    """How a solver fared; arrays have an entry a row of its trace.

    Attributes
    ----------
    status : why the run ended
    seconds, passes : since the first evaluation, which is a pass itself
    values : the objective, penalty included, in nats; gaps : certified, nan where not known
    accuracies : on the test part, nan where not computed
    objective, accuracy, n_nonzero : of the best weights, recomputed by the judge
    """

    solver: str
    status: str
    iterations: NDArray[np.int64]
    seconds: NDArray[np.float64]
    passes: NDArray[np.float64]
    values: NDArray[np.float64]
    gaps: NDArray[np.float64]
    n_nonzeros: NDArray[np.int64]
    accuracies: NDArray[np.float64]
    objective: float
    accuracy: float
    n_nonzero: int

    @property
    def lower_bound(self) -> float:
        """The largest value that the optimum is proved to have; -inf: nothing is proved."""
        bounds = np.minimum.accumulate(self.values) * (1.0 - self.gaps)
        return float(np.nanmax(bounds)) if np.isfinite(bounds).any() else -np.inf

    def row_at(self, optimum: float, level: float) -> int | None:
        """The first row within `level` (relative) of the optimum; None: not reached."""
        reached = np.flatnonzero(self.values <= optimum * (1.0 + level))
        return int(reached[0]) if reached.size else None

    def columns(self, optimum: float) -> dict[str, Any]:
        """What can be drawn, a number a row of the trace."""
        return {
            "seconds": self.seconds,
            "passes": self.passes,
            "relative_difference": (self.values - optimum) / optimum,
            "n_nonzero": self.n_nonzeros,
            "accuracy": self.accuracies,
        }


def why(result: Any) -> str:
    """Why a run ended, in few words; only its own callback asks one to stop."""
    return "F* reached" if result.status.name == "CALLBACK" else result.message.partition(": ")[2]
