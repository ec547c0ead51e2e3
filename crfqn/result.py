"""The result of a run: its status, the solution with its certificate, and the trace of progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Status(Enum):
    """The reason for which a run ended; the value is the message for people."""

    CONVERGED = "converged: the objective is proved to be within the tolerance of the optimum"
    STATIONARY = "stopped: the gradient is small; without a penalty nothing tells how far the optimum is"
    RULE_MET = "stopped: the method's own stopping rule is met"
    LEARNED = "finished: the online method made its passes; it minimises no objective"
    STALLED = "stopped: rounding hides any further decrease of the objective"
    LINE_SEARCH_FAILED = "failed: no step along the search direction decreases the objective"
    MAX_ITER = "stopped: the limit of iterations is reached"
    MAX_SECONDS = "stopped: the time limit is reached"
    CALLBACK = "stopped: a callback asked for it"
    INTERRUPTED = "interrupted: the best weights so far are kept"
    DIVERGED = "failed: the objective is not finite"

    @property
    def is_success(self) -> bool:
        """Whether the tolerance was reached."""
        return self is Status.CONVERGED

    @property
    def is_regular(self) -> bool:
        """Whether the run ended as its method is meant to, so that there is nothing to warn of."""
        return self in (Status.CONVERGED, Status.LEARNED)


@dataclass(frozen=True)
class Progress:
    """One row of the trace, which is also the argument of callbacks.

    Attributes
    ----------
    iteration : int
    value : objective, penalty included, in nats
    gap : certified relative gap, (value - best dual value) / value; nan where none is known yet
    violation : largest KKT violation over the coordinates whose gradient was computed, in nats a unit of weight
    n_active, n_nonzero : weights in the active set (of row descent: rows) and in the model
    passes : inference passes over the data so far; a pass over a sample counts as its fraction of the data
    seconds : since the run started
    is_screening : whether gap and violation are over all coordinates
    sample_fraction : the fraction of the items that `value` is over; below 1 in the warm-up on a sample, of which
        traces have no rows
    n_wrong : positions that were labelled wrongly in the epoch, by a method that learns from mistakes; else None
    """

    iteration: int
    value: float
    gap: float
    violation: float
    n_active: int
    n_nonzero: int
    passes: float
    seconds: float
    is_screening: bool
    sample_fraction: float = 1.0
    n_wrong: int | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """The run as arrays of equal length, one entry a row of `Progress`."""

    rows: list[Progress] = field(default_factory=list)

    def _column(self, name: str) -> NDArray:
        return np.array([getattr(row, name) for row in self.rows])

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Time since the run started."""
        return self._column("seconds")

    @property
    def value(self) -> NDArray[np.float64]:
        """The objective, penalty included, in nats."""
        return self._column("value")

    @property
    def gap(self) -> NDArray[np.float64]:
        """The certified relative gap, nan where none is known yet."""
        return self._column("gap")

    @property
    def violation(self) -> NDArray[np.float64]:
        """The largest KKT violation, in nats a unit of weight."""
        return self._column("violation")

    @property
    def passes(self) -> NDArray[np.float64]:
        """Inference passes over the data so far."""
        return self._column("passes")

    @property
    def n_active(self) -> NDArray[np.int64]:
        """Weights in the active set."""
        return self._column("n_active")

    @property
    def n_nonzero(self) -> NDArray[np.int64]:
        """Weights that are not 0."""
        return self._column("n_nonzero")

    @property
    def is_screening(self) -> NDArray[np.bool_]:
        """Whether gap and violation are over all coordinates."""
        return self._column("is_screening")

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `minimize`.

    Attributes
    ----------
    coords, weights : sorted int64 coordinates of the non-zero weights, and their values
    value : objective, penalty included
    gap : certified relative gap, nan where no certificate exists (no penalty)
    violation : largest KKT violation over all coordinates at the last full check
    status : the reason for which the run ended
    passes, n_iter, seconds : the cost: inference passes over the data, iterations, time
    trace : the progress, one row an iteration
    n_proved_zeros : how many of the zeros are proved to be zeros of the optimum; None where nothing can be proved, and
        where the run was stopped before its end
    """

    coords: NDArray[np.int64]
    weights: NDArray[np.float64]
    value: float
    gap: float
    violation: float
    status: Status
    passes: float
    n_iter: int
    seconds: float
    trace: Trace
    n_proved_zeros: int | None = None

    @property
    def message(self) -> str:
        """The reason for which the run ended, for people."""
        return self.status.value

    @property
    def n_nonzero(self) -> int:
        """The number of weights that are not 0."""
        return self.coords.size
