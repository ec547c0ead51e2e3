"""Measuring what a figure or table needs: references first, then every method, each run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from benchmarks.alone import run_alone, say
from benchmarks.items import stored

from prox_qn_study.cases import AnyProblem, Case, fingerprint
from prox_qn_study.competitors import REFERENCE
from prox_qn_study.curves import Curve, run_case
from prox_qn_study.drawing import Measured
from prox_qn_study.figures import Figure
from prox_qn_study.folder import Folder, Optimum


@dataclass(eq=False)
class Study:
    """What has been measured so far.

    Attributes
    ----------
    seconds : limit of a single run, looked at after every iteration
    is_quick : all runs share this process; otherwise each has one of its own
    """

    folder: Folder
    seconds: float
    is_quick: bool
    n_threads: int | None
    curves: dict[tuple[Case, str], Curve] = field(default_factory=dict)
    latest: tuple[Case, AnyProblem] | None = None

    def problem(self, case: Case) -> AnyProblem:
        """The items of a case; those of the latest are kept."""
        if self.latest is None or (self.latest[0].data, self.latest[0].share) != (case.data, case.share):
            say(f"{case.data.title}: preparing")
            self.latest = case, case.load()
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

    def run(self, case: Case, names: Sequence[str]) -> None:
        """Run what has not been run yet; the folder remembers the best value."""
        problem = self.problem(case)
        cut = fingerprint(problem)
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
                task = path, case, some, self.seconds, optimum, self.n_threads
                found = run_case(*task) if self.is_quick else run_alone(run_case, *task)
                self.keep(case, cut, *found)
                is_known = True

    def keep(self, case: Case, cut: str, reference: Curve | None, curves: list[Curve]) -> None:
        """Take the curves, and what they tell of the optimum."""
        optimum = None if reference else self.folder.optima[str(case)]
        for curve in [*([reference] if reference else []), *curves]:
            seen = Optimum(
                cut,
                float(np.min(curve.values)),
                curve.lower_bound,
                REFERENCE if curve is reference else curve.solver,
                curve.n_nonzero,
                curve.accuracy,
            )
            optimum = seen if optimum is None else better(optimum, seen)
        assert optimum is not None
        if optimum != self.folder.optima.get(str(case)):
            self.folder.remember(str(case), optimum)
        self.curves.update({(case, curve.solver): curve for curve in curves})


def better(first: Optimum, second: Optimum) -> Optimum:
    """The lower value, with the better of the bounds."""
    best = second if second.value < first.value else first
    return replace(best, lower_bound=max(first.lower_bound, second.lower_bound))
