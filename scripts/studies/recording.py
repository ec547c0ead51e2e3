"""A solver that is looked at as it goes, without a look counting as its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.protocols import Requirements, requirements

SPACING = 1.15  # of the seconds between two looks
Weights = tuple[NDArray[np.int64], NDArray[np.float64]]


def as_they_are(weights: Weights) -> Any:
    """Set the weights aside, to be looked at afterwards."""
    return weights


@dataclass(eq=False)
class Recording:
    """A solver whose weights are looked at: at each step, or in growing intervals of time.

    Attributes
    ----------
    look : what to keep of the weights
    counts_samples : whether the seconds count that the solver spends on samples of the items
    kept : by row of the trace
    pauses : the seconds up to each row that do not count; lost : up to now
    """

    solver: Any
    keeps_all: bool = False
    look: Callable[[Weights], Any] = as_they_are
    counts_samples: bool = True
    kept: dict[int, Any] = field(default_factory=dict)
    pauses: list[float] = field(default_factory=list)
    lost: float = 0.0

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        """Return what the solver asks for."""
        return requirements(self.solver, objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        """Those of the solver."""
        states = self.solver.steps(objective, penalty, start)
        del start
        begin = latest = perf_counter()
        due = 0.0
        for state in states:
            if state.sample_fraction == 1.0:
                if (now := perf_counter() - begin - self.lost) >= due or self.keeps_all:
                    self.kept[len(self.pauses)] = self.look((state.point.coords, state.point.weights))
                    due = SPACING * now
                    self.lost = perf_counter() - begin - now
                self.pauses.append(self.lost)
            elif not self.counts_samples:
                self.lost += perf_counter() - latest
            yield state
            latest = perf_counter()
