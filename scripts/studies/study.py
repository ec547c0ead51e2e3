"""Measuring what a figure or table needs: references first, then every method, each run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.alone import say
from benchmarks.items import stored

from studies.curves import Curve
from studies.drawing import Measured
from studies.figures import Figure
from studies.folder import Folder, Optimum, better


@dataclass(eq=False)
class Study:
    """What has been measured so far.

    A subclass says how a problem is told from another and what runs on it.

    Attributes
    ----------
    seconds : limit of a single run, looked at after every iteration
    is_quick : all runs share this process; otherwise each has one of its own
    """

    folder: Folder
    seconds: float
    is_quick: bool
    n_threads: int | None
    curves: dict[tuple[Any, str], Curve] = field(default_factory=dict)
    latest: tuple[Any, Any] | None = None

    def fingerprint(self, problem: Any) -> str:
        """Of the training items."""
        raise NotImplementedError

    def run_case(
        self, path: str, case: Any, names: Sequence[str], optimum: float | None
    ) -> tuple[Curve | None, list[Curve]]:
        """Run methods on a stored problem, and the reference where no optimum is known."""
        raise NotImplementedError

    def problem(self, case: Any) -> Any:
        """The items of a case; those of the latest are kept."""
        if self.latest is None or self.latest[0] != case.source:
            say(f"{case.data.title}: preparing")
            self.latest = case.source, case.load()
        return self.latest[1]

    def measure(self, figure: Figure) -> Measured:
        """The reference optimum of each problem, and the curves of the figure's methods."""
        for case in figure.cases:
            self.run(case, figure.solvers)
        return {
            case: (
                self.folder.optima[str(case)].value,
                [self.curves[case, name] for name in figure.solvers if (case, name) in self.curves],
            )
            for case in figure.cases
        }

    def run(self, case: Any, names: Sequence[str]) -> None:
        """Run what has not been run yet; the folder remembers the best value."""
        problem = self.problem(case)
        cut = self.fingerprint(problem)
        missing = [name for name in names if (case, name) not in self.curves]
        known = self.folder.optima.get(str(case))
        is_known = known is not None and known.fingerprint == cut
        if not missing and is_known:
            return
        say(f"{case}")
        with stored(problem) as path:
            rounds: list[list[str]] = [[name] for name in missing]
            if self.is_quick:
                rounds = [missing]
            elif not is_known:
                rounds = [[], *rounds]
            for some in rounds:
                optimum = self.folder.optima[str(case)].value if is_known else None
                self.keep(case, cut, *self.run_case(path, case, some, optimum))
                is_known = True

    def keep(self, case: Any, cut: str, reference: Curve | None, curves: list[Curve]) -> None:
        """Take the curves, and what they tell of the optimum."""
        optimum = None if reference else self.folder.optima[str(case)]
        for curve in [*([reference] if reference else []), *curves]:
            seen = Optimum(
                cut,
                float(np.min(curve.values)),
                curve.lower_bound,
                curve.solver,
                curve.n_nonzero,
                curve.accuracy,
            )
            optimum = seen if optimum is None else better(optimum, seen)
        assert optimum is not None
        if optimum != self.folder.optima.get(str(case)):
            self.folder.remember(str(case), optimum)
        self.curves.update({(case, curve.solver): curve for curve in curves})
