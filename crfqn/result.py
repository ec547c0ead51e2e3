"""The result of a run: its status, the solution with its certificate, and the trace of its progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

OPTIMUM_TOL = (
    1e-3  # the default relative tolerance if the optimum itself is needed, for certificates and paths
)
MAX_SHOWN_GAP = 0.1  # largest relative gap that is informative enough to be shown
SCALING_ADVICE = "scale the features to similar sizes, and look for items that are far larger than the others"


class Status(Enum):
    """The reason for the end of a run; the value is the message for the user."""

    CONVERGED = "converged: the objective is proved to be within the tolerance of the optimum"
    ESTIMATED = "converged: within the tolerance of the optimum by estimate, not proved"
    WITHIN_BOUND = (
        "converged: the penalty is proved to be within the tolerance of its minimum, "
        "and the loss exceeds its bound by no more than the tolerance"
    )
    AT_FLOOR = (
        "converged: the objective is below an absolute floor, a small fraction of its value without weights; "
        "its relative distance to the optimum may exceed the tolerance"
    )
    STATIONARY = "stopped: further steps would win next to nothing, but nothing tells how far the optimum is"
    RULE_MET = "stopped: the method's own stopping rule is met"
    HELD_OUT = "stopped by the validation items"
    LEARNED = "finished: the online method made its passes; it minimises no objective"
    STAGES_MADE = "finished: all stages are made, or no more of them pay; there is no optimum to be near to"
    STALLED = "stopped: rounding hides any further decrease of the objective"
    LINE_SEARCH_FAILED = "failed: no step along the search direction decreases the objective"
    MAX_ITER = "stopped: the limit of iterations is reached"
    MAX_SECONDS = "stopped: the time limit is reached"
    CALLBACK = "stopped: a callback asked for it"
    INTERRUPTED = "interrupted: the best weights so far are kept"
    IMPORTED = "read from another tool's file, which does not say how the training ended"
    DIVERGED = "failed: the objective is not finite"

    @property
    def is_success(self) -> bool:
        """Whether the tolerance, proved or estimated, or the absolute floor was reached."""
        return self in (Status.CONVERGED, Status.WITHIN_BOUND, Status.ESTIMATED, Status.AT_FLOOR)

    @property
    def is_standstill(self) -> bool:
        """Whether the method could make no further progress before the tolerance was reached."""
        return self in (Status.STALLED, Status.LINE_SEARCH_FAILED, Status.STATIONARY)

    @property
    def is_end(self) -> bool:
        """Whether the method ended at the optimum of an objective, or as near to it as possible."""
        return self.is_standstill or (self.is_success and self is not Status.WITHIN_BOUND)

    @property
    def is_at_limit(self) -> bool:
        """Whether the run has reached a limit of iterations or time."""
        return self in (Status.MAX_ITER, Status.MAX_SECONDS)

    @property
    def is_by_user(self) -> bool:
        """Whether the user or a callback has ended the run."""
        return self in (Status.CALLBACK, Status.INTERRUPTED)

    @property
    def is_cut_off(self) -> bool:
        """Whether the run was stopped before its method had finished, so that it can be continued."""
        return self.is_at_limit or self.is_by_user

    @property
    def is_regular(self) -> bool:
        """Whether the method ended as intended, so that no warning is needed."""
        return self.is_success or self in (Status.LEARNED, Status.STAGES_MADE, Status.HELD_OUT)


@dataclass(frozen=True)
class Progress:
    """One row of the trace, which is also the argument of callbacks.

    Attributes
    ----------
    iteration : int
    value : objective, penalty included, in nats
    gap : certified relative gap, (value - best dual value) / value; nan if none is known yet
    violation : largest KKT violation over the coordinates whose gradient was computed, in nats per unit of weight
    n_active, n_nonzero : weights in the active set (of row descent: rows) and in the model
    passes : inference passes over the data so far; a pass over a sample counts as its fraction of the data
    seconds : since the run started
    is_screening : whether gap and violation are over all coordinates
    sample_fraction : the fraction of the items in `value`; below 1 in the warm-up on a sample, whose rows are not in
        traces
    n_wrong : positions with wrong labels in the epoch, for methods that learn from mistakes; else None
    estimated_gap : estimate of (value - optimum) / value from the recent decrease (`solvers/stopping.py`), no bound;
        nan until there are enough steps
    held_out_score : the latest score of the validation items, nan without any
    n_bytes : bytes sent and received since the previous row if workers hold the data; else 0
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
    estimated_gap: float = float("nan")
    held_out_score: float = float("nan")
    n_bytes: int = 0


def _column(name: str, doc: str) -> property:
    """Return a property that collects a field of `Progress` over the rows of a trace."""
    return property(lambda trace: np.array([getattr(row, name) for row in trace.rows]), doc=doc)


@dataclass(frozen=True, eq=False)
class Trace:
    """The progress of a run as arrays of equal length, with an entry for each row of `Progress`."""

    rows: list[Progress] = field(default_factory=list)

    iteration = _column("iteration", "Number of the iteration, int64.")
    seconds = _column("seconds", "Time since the run started, float64.")
    value = _column("value", "The objective, penalty included, in nats, float64.")
    gap = _column("gap", "The certified relative gap, nan where none is known yet, float64.")
    estimated_gap = _column(
        "estimated_gap", "Estimate of the relative gap, nan where there is none yet, float64."
    )
    violation = _column("violation", "The largest KKT violation, in nats per unit of weight, float64.")
    passes = _column("passes", "Inference passes over the data so far, float64.")
    n_active = _column("n_active", "Weights in the active set, int64.")
    n_nonzero = _column("n_nonzero", "Weights that are not 0, int64.")
    is_screening = _column("is_screening", "Whether gap and violation are over all coordinates, bool.")
    held_out_score = _column(
        "held_out_score", "The latest score of the validation items, nan without any, float64."
    )

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of validation items during a training.

    best, iteration : the score of the returned weights, and their iteration
    iterations, scores : all scores
    is_patience_over : whether training stopped because no later score was better
    """

    metric: str
    best: float
    iteration: int
    iterations: NDArray[np.int64]
    scores: NDArray[np.float64]
    is_patience_over: bool

    def __str__(self) -> str:
        """Return the best score in words."""
        return f"best {self.metric} {self.best:.4f} at iteration {self.iteration}"


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `minimize`.

    Attributes
    ----------
    coords, weights : sorted int64 coordinates of the non-zero weights, and their values
    value : objective, penalty included
    gap : certified relative gap, nan if no certificate exists (no penalty)
    estimated_gap : estimate of the same distance from the recent decrease and the coordinates outside the working set,
        no bound; never above `gap`, nor above the certificate under an assumption on the size of unpenalised weights;
        nan if there were not enough steps
    violation : largest KKT violation over all coordinates at the last full check
    status : the reason for the end of the run
    passes, n_iter, seconds : the cost: inference passes over the data, iterations, time
    trace : the progress, one row an iteration
    n_proved_zeros : the number of zeros that are proved to be zero at the optimum; None if nothing can be proved, or if
        the run was stopped early
    excess : if the loss is constrained by a bound, max(loss - bound, 0) / bound; `value` is the penalty then
    tol : the requested tolerance, nan if it is not known
    is_doubtful : whether the certificate or another check contradicted the estimate, which is then ignored
    held_out : scores of the validation items, None without any. Weights, value, gap and violation are those of the best
        score, whatever the reason for the end; passes, n_iter and seconds those of the whole run
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
    estimated_gap: float = float("nan")
    excess: float | None = None
    held_out: HeldOutScores | None = None
    tol: float = float("nan")
    is_doubtful: bool = False

    def __repr__(self) -> str:
        """Return the result in a line, without the weights and the trace."""
        gaps = f"gap={self.gap:.3g}, estimated_gap={self.estimated_gap:.3g}"
        return (
            f"Result({self.status.name}, value={self.value:.8g}, {gaps}, n_nonzero={self.coords.size}, "
            f"n_iter={self.n_iter}, passes={self.passes:.4g}, seconds={self.seconds:.3g})"
        )

    @property
    def has_informative_gap(self) -> bool:
        """Whether the certified gap is small enough to be shown."""
        return self.gap <= MAX_SHOWN_GAP

    @property
    def message(self) -> str:
        """The reason for the end of the run, for the user."""
        if self.status is Status.ESTIMATED and self.tol > 0:
            within = self.status.value.replace("the tolerance", f"{100 * self.tol:.2g} %")
            return within + ("; tol=1e-3 for more" if self.tol > OPTIMUM_TOL else "")
        if self.is_doubtful and self.status is not Status.HELD_OUT:
            return f"{self.status.value}; it may be far from the optimum: {SCALING_ADVICE}"
        if self.status is not Status.HELD_OUT or self.held_out is None:
            return self.status.value
        how = "stopped" if self.held_out.is_patience_over else "chosen"
        return f"{how} by the validation items: {self.held_out}"

    @property
    def n_nonzero(self) -> int:
        """The number of weights that are not 0."""
        return self.coords.size
