"""Monitor of a staged training: records the loss and the held-out score of each stage, and says when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from crfqn.result import Progress, Status, Trace

SOLVED = 1e-6  # of the first loss: what is left over is no matter for another stage


class Rules(NamedTuple):
    """Rules by which a staged training ends.

    Attributes
    ----------
    most_stages : int
    seconds : float, limit of time, or None
    patience : int, stages in succession without a better held-out score, or None
    tol : float, relative decrease of the training loss below which a stage is the last, or None
    """

    most_stages: int
    seconds: float | None
    patience: int | None
    tol: float | None


@dataclass(eq=False)
class Monitor:
    """Record of a staged training.

    Attributes
    ----------
    rules : Rules
    callback : called with every `Progress`; a true answer stops the training
    first : int, stages before this training (warm start)
    trace : Trace, a row for each stage, and one before them
    scores : list of float, held-out scores, one for each row of the trace; empty without held-out items
    started : float, `time.perf_counter` at the start, in seconds
    """

    rules: Rules
    callback: Callable[[Progress], object]
    first: int = 0
    trace: Trace = field(default_factory=Trace)
    scores: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def n_stages(self) -> int:
        """Number of stages so far."""
        return self.first + len(self.trace) - 1

    @property
    def best(self) -> int:
        """Number of stages to keep: up to the best held-out score if there is patience, else all."""
        if self.rules.patience is None or not self.scores:
            return self.n_stages
        return max(1, self.first + int(np.argmax(self.scores)))

    def record(self, value: float, n_features: int, n_weights: int, score: float | None) -> Status | None:
        """Add the figures after a stage; return the status to stop with, or None to go on."""
        before = self.trace.rows[-1].value if len(self.trace) else np.inf
        seconds = time.perf_counter() - self.started
        number = self.first + len(self.trace)
        row = Progress(number, value, np.nan, np.nan, n_features, n_weights, float(number), seconds, False)
        self.trace.rows.append(row)
        if score is not None:
            self.scores.append(score)
        asked_to_stop = bool(self.callback(row))
        return self._verdict(value, before, asked_to_stop)

    def _verdict(self, value: float, before: float, asked_to_stop: bool) -> Status | None:
        rules = self.rules
        if not np.isfinite(value):
            return Status.DIVERGED
        if asked_to_stop:
            return Status.CALLBACK
        if rules.patience is not None and self.scores and self.n_stages - self.best >= rules.patience:
            return Status.STAGES_MADE
        is_fitted = value <= SOLVED * self.trace.rows[0].value
        if rules.tol is not None and (is_fitted or number_is_small(before - value, rules.tol * before)):
            return Status.STAGES_MADE
        if self.n_stages >= rules.most_stages:  # where nothing else is asked for, that is what was asked for
            return Status.STAGES_MADE if rules.tol is None else Status.MAX_ITER
        if rules.seconds is not None and self.trace.rows[-1].seconds >= rules.seconds:
            return Status.MAX_SECONDS
        return None


def number_is_small(decrease: float, bound: float) -> bool:
    """Return whether a decrease is known (no NaN) and at most `bound`."""
    return bool(np.isfinite(decrease) and decrease <= bound)
