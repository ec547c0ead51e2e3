"""Measuring what a figure or table of this study needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.alone import run_alone
from studies import study
from studies.curves import Curve
from studies.folder import better

from prox_qn_study.cases import AnyProblem, Case, fingerprint
from prox_qn_study.curves import run_case

__all__ = ["Study", "better"]


@dataclass(eq=False)
class Study(study.Study):
    """The study of Prox-QN."""

    def fingerprint(self, problem: AnyProblem) -> str:
        """Of the training items."""
        return fingerprint(problem)

    def run_case(
        self, path: str, case: Case, names: Sequence[str], optimum: float | None
    ) -> tuple[Curve | None, list[Curve]]:
        """`curves.run_case`, in a process of its own unless the study is quick."""
        task = path, case, names, self.seconds, optimum, self.n_threads
        return run_case(*task) if self.is_quick else run_alone(run_case, *task)
