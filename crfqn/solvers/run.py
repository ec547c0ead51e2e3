"""The settings of a run of `minimize`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crfqn.arrays import NO_WEIGHTS
from crfqn.errors import InputError
from crfqn.result import Progress
from crfqn.solvers.protocols import Coords, Point, Vector
from crfqn.solvers.validation import ValidationSet

Callback = Callable[[Progress], object]
STOPS = ("certificate", "estimate")


@dataclass(frozen=True, eq=False)
class Run:
    """Where a run of `minimize` starts, when it stops, and what is done besides the steps of its solver.

    Parameters
    ----------
    start : tuple (coords, weights), sorted coordinates and weights, empty for zero; or a point of the objective
    tol : float >= 0, the relative distance to the optimum that ends the run
    stop : "certificate" or "estimate", whether `tol` must be proved or may be estimated (`stopping.Estimate`)
    max_iter : int >= 1, the largest number of iterations
    max_seconds : float or None, the time after which the run ends. A step that takes longer than `time_limit.GRACE`
        beyond it is lost.
    callback : function or None, called with every `Progress`; a true answer stops the run
    proves_zeros : bool, whether to count the proved zeros at the end: one or two sweeps over the gradient
    to_rounding : bool, whether small problems that are solved go on with Newton steps on the support until only
        rounding is left: the weights then depend neither on the order of the data nor on the processor
    held_out : ValidationSet or None, items that are scored along the run. The result has the weights with the best
        score; the run ends as `Status.HELD_OUT` if no better score comes, or if an earlier score is better than the
        last one.
    checkpoint : `estimators.checkpoint.Checkpoint` or None, which keeps weights and trace in a file. If the file
        exists, the run continues from its latest weights with its trace, or returns its result if that run had ended.

    Raises
    ------
    InputError
        If `tol` is negative, `max_iter` below 1, or `stop` another word.
    """

    start: tuple[Coords, Vector] | Point = NO_WEIGHTS
    tol: float = 1e-3
    stop: str = "certificate"
    max_iter: int = 500
    max_seconds: float | None = None
    callback: Callback | None = None
    proves_zeros: bool = True
    to_rounding: bool = False
    held_out: ValidationSet | None = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol: expected a number >= 0, got {self.tol!r}")
        if self.max_iter < 1:
            raise InputError(f"max_iter: expected an integer >= 1, got {self.max_iter!r}")
        if self.stop not in STOPS:
            raise InputError(f"stop: expected one of {STOPS}, got {self.stop!r}")
