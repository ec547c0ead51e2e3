"""scikit-learn's saga: the only solver of LogisticRegression that has both L1 and the multinomial loss.

The same objective: C = 1 / l1, no intercept. It reports nothing on its way and keeps no memory between fits, so that
its seconds to a level are those of a fit of as many epochs as it needs to get there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.alone import peak_memory, say
from benchmarks.item_judge import objective
from benchmarks.items import ItemProblem, read_stored
from benchmarks.problem import Run

RESOLUTION = 0.03  # of the number of epochs: the smallest that reach a level are found up to this share


def train(path: str, l1: float, epochs: Sequence[int]) -> Run:
    """Fits of so many epochs each, ascending; the model is the last one's. Values are the judge's."""
    problem = read_stored(path)
    _fit(problem.part(1000), l1, 1)  # loads what is to be loaded
    seconds, processor, values = [], [], []
    for n_epochs in epochs:
        begin, begin_processor = perf_counter(), process_time()
        model = _fit(problem, l1, n_epochs)
        seconds.append(perf_counter() - begin)
        processor.append(process_time() - begin_processor)
        peak = peak_memory()
        values.append(objective(problem, l1, model.coef_))
        say(f"  saga: {n_epochs} epochs, {seconds[-1]:.1f} s, {values[-1]:,.1f}")
    return Run(
        name="saga",
        iterations=np.array(epochs),
        seconds=np.array(seconds),
        values=np.array(values),
        setup_seconds=0.0,
        passes=float(epochs[-1]),
        weights=model.coef_,
        n_nonzero=int(np.count_nonzero(model.coef_)),
        peak_bytes=peak,
        facts={"processor_seconds": np.array(processor)},
    )


def epochs_to(
    path: str, l1: float, optimum: float, levels: Sequence[float], limit: float
) -> dict[float, int]:
    """The epochs of the first fit within each level of the optimum; a level that takes more than `limit` seconds
    is left out.

    Numbers of epochs are doubled until they are enough; then the last interval is searched.
    """
    trials, found = _Trials(read_stored(path), l1, optimum, limit), {}
    for level in sorted(levels, reverse=True):
        n_epochs = max(trials.distances, default=1)
        while trials.fit(n_epochs) and trials.distances[n_epochs] > level:
            n_epochs *= 2
        if n_epochs in trials.distances:
            found[level] = trials.smallest(level)
    return found


@dataclass(eq=False)
class _Trials:
    """Fits made so far: relative distance from the optimum by epochs."""

    problem: ItemProblem
    l1: float
    optimum: float
    limit: float
    distances: dict[int, float] = field(default_factory=dict)
    seconds_an_epoch: float = 0.0

    def fit(self, n_epochs: int) -> bool:
        """Fit with so many epochs, unless that would take too long."""
        if n_epochs in self.distances:
            return True
        if n_epochs * self.seconds_an_epoch > self.limit:
            return False
        begin = perf_counter()
        model = _fit(self.problem, self.l1, n_epochs)
        seconds = perf_counter() - begin
        distance = objective(self.problem, self.l1, model.coef_) / self.optimum - 1
        say(f"  saga: {n_epochs} epochs, {seconds:.1f} s, {distance:.1e} above the optimum")
        self.distances[n_epochs], self.seconds_an_epoch = distance, seconds / n_epochs
        return True

    def smallest(self, level: float) -> int:
        """The fewest epochs within the level, up to RESOLUTION, by bisection on a logarithmic scale."""
        while True:
            high = min(n for n, distance in self.distances.items() if distance <= level)
            low = max((n for n in self.distances if n < high), default=0)
            middle = max(low + 1, round(np.sqrt(low * high)))
            if high - low <= max(1, RESOLUTION * high) or not self.fit(middle):
                return high


def _fit(problem: ItemProblem, l1: float, n_epochs: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        solver="saga",
        l1_ratio=1.0,
        C=1.0 / l1,
        fit_intercept=False,
        tol=0.0,
        max_iter=n_epochs,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return model.fit(problem.X_train, problem.y_train)
