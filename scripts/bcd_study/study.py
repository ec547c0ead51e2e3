"""Measuring what a figure or table of this study needs, each run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.alone import run_alone, say
from benchmarks.items import ItemProblem, stored
from studies import study
from studies.curves import Curve

from bcd_study.cases import Case, Data, Source
from bcd_study.curves import run_case
from bcd_study.grid import Order, Solution, solve_all

QUICK_STEP = 4  # through the lambdas


@dataclass(eq=False)
class Study(study.Study):
    """The study of block coordinate descent; `step`: through the lambdas, where it is quick."""

    solutions: dict[tuple[Source, str], list[Solution]] = field(default_factory=dict)
    step: int = QUICK_STEP

    def fingerprint(self, problem: ItemProblem) -> str:
        """Of the training items: the labels, and the size of the matrix."""
        return f"{problem.fingerprint} {problem.X_train.shape[1]} {problem.X_train.nnz}"

    def run_case(
        self, path: str, case: Case, names: Sequence[str], optimum: float | None
    ) -> tuple[Curve | None, list[Curve]]:
        """`curves.run_case`, in a process of its own unless the study is quick."""
        task = path, case, names, self.seconds, optimum, self.n_threads
        return run_case(*task) if self.is_quick else run_alone(run_case, *task)

    def solve(self, data: Data, names: Sequence[str], n_splits: int) -> list[Solution]:
        """Objectives over the grid of lambdas, on several splits."""
        found = []
        for split in range(n_splits):
            source = Source(data, split, self.is_quick)
            missing = [name for name in names if (source, name) not in self.solutions]
            if missing:
                self.solve_on(source, missing)
            found += [each for name in names for each in self.solutions[source, name]]
        return found

    def solve_on(self, source: Source, names: Sequence[str]) -> None:
        """Objectives on one split; each objective has a process of its own unless the study is quick."""
        lambdas = source.data.lambdas
        strengths = lambdas[:: self.step] if self.is_quick else lambdas
        problem = self.problem(Case(source, strengths[0]))
        say(f"{source.title}: {len(strengths)} lambdas")
        with stored(problem) as path:
            for name in names:
                order = Order([name], strengths, source.split, self.seconds, self.n_threads)
                solve = solve_all(path, order) if self.is_quick else run_alone(solve_all, path, order)
                self.solutions[source, name] = solve
