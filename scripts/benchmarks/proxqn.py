"""crfqn itself: training runs after a warm-up, what a first fit costs, and the time of an import."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.alone import environment, peak_memory, run_alone, say
from benchmarks.problem import Problem, Run

WARM_UP = 0.2  # of the training items: enough positions that a warm-up stage runs, and with it every kernel
STRONGER = 5.0  # times the penalty, for few weights: a warm-up of a second or two


def train(recipe: str, l1: float, tol: float, n_threads: int | None, repeats: int) -> Run:
    """Train `repeats` times and return the run of median time; the peak of memory is that of the first."""
    from crfqn import ChainCRF

    problem = Problem.of_recipe(recipe)
    _fit_part(problem, l1, n_threads)
    runs = []
    for repeat in range(repeats):
        model = ChainCRF(l1=l1, tol=tol, n_threads=n_threads)
        begin = perf_counter()
        model.fit(problem.X_train, problem.y_train)
        result, total = model.result_, perf_counter() - begin
        if repeat == 0:
            peak = peak_memory()
        say(f"  crfqn: run {repeat + 1} of {repeats}, {total:.1f} s, gap {result.gap:.1e}")
        runs.append(
            Run(
                name="crfqn",
                iterations=np.array([row.iteration for row in result.trace.rows]),
                seconds=result.trace.seconds,
                values=result.trace.value,
                setup_seconds=total - result.seconds,
                passes=float(result.passes),
                weights=model.coef_,
                edges=model.edge_coef_.toarray(),
                n_nonzero=result.n_nonzero,
                peak_bytes=peak,
                facts={"gap": result.gap, "status": result.message, "seconds": result.seconds},
            )
        )
    return sorted(runs, key=lambda run: run.seconds[-1])[(repeats - 1) // 2]


def _fit_part(problem: Problem, l1: float, n_threads: int | None) -> float:
    """Train on a part of the items with a penalty that leaves few weights; returns the seconds."""
    from crfqn import ChainCRF

    part = problem.part(int(WARM_UP * len(problem.X_train)))
    begin = perf_counter()
    ChainCRF(l1=STRONGER * WARM_UP * l1, tol=1e-2, n_threads=n_threads).fit(part.X_train, part.y_train)
    return perf_counter() - begin


@dataclass(frozen=True)
class FirstFit:
    """Seconds by which the first `fit` of a process takes longer than the next ones."""

    never_compiled: float
    compiled_before: float


def first_fit(recipe: str, l1: float, n_threads: int | None) -> FirstFit:
    """Two processes that share an empty cache of machine code: the first compiles, the second loads."""
    with tempfile.TemporaryDirectory() as folder, environment({"NUMBA_CACHE_DIR": folder}):
        return FirstFit(*(run_alone(_excess, recipe, l1, n_threads) for _ in range(2)))


def _excess(recipe: str, l1: float, n_threads: int | None) -> float:
    problem = Problem.of_recipe(recipe)
    first, *later = (_fit_part(problem, l1, n_threads) for _ in range(4))
    return first - float(np.median(later))


def import_seconds(statement: str, repeats: int = 5) -> float:
    """The median time of an import statement in fresh interpreters, their own start not included."""
    program = f"from time import perf_counter as now; begin = now(); {statement}; print(now() - begin)"
    outputs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(repeats)
    ]
    return float(np.median([float(output) for output in outputs]))
