"""crfqn itself: training runs after a warm-up, what a first fit costs, and the time of an import."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.alone import environment, peak_memory, run_alone, say
from benchmarks.items import ItemProblem, read_stored
from benchmarks.problem import Problem, Run

WARM_UP = 0.2  # of the training items: enough positions that a warm-up stage runs, and with it every kernel
STRONGER = 5.0  # times the penalty, for few weights: a warm-up of a second or two
ROUGH = 1e-2  # tol of the warm-up
WARM_UP_STEPS = 30  # at the most, where the certificate comes late
Maker = Callable[..., Any]  # of an estimator, from l1 and tol


def train(recipe: str, l1: float, tol: float, n_threads: int | None, repeats: int) -> Run:
    """Train `repeats` times and return the run of median time; the peak of memory is that of the first."""
    problem, make = _chains(recipe, n_threads)
    _fit_part(make, problem, l1)
    runs = [_timed_fit(make(l1=l1, tol=tol), problem) for _ in range(repeats)]
    middle = sorted(runs, key=lambda run: run.seconds[-1])[(repeats - 1) // 2]
    return replace(middle, peak_bytes=runs[0].peak_bytes)


def train_observed(
    path: str,
    l1: float,
    l2: float,
    tol: float,
    solver: str,
    n_threads: int | None,
    repeats: int,
    max_seconds: float,
) -> Run:
    """As `train`, on a stored problem of chains: weights only for pairs that occur in the training items.

    `facts` has the size of the model file, and the tokens a second when it labels the test items, on one thread
    and on all.
    """
    from crfqn import ChainCRF

    problem: Problem = read_stored(path)
    observed = {"all_possible_states": False, "all_possible_transitions": False}
    make = partial(ChainCRF, l2=l2, solver=solver, n_threads=n_threads, **observed)
    _fit_part(partial(make, max_iter=WARM_UP_STEPS), problem, l1)
    runs, models = [], []
    for _ in range(repeats):
        models.append(make(l1=l1, tol=tol, max_seconds=max_seconds))
        runs.append(_timed_fit(models[-1], problem))
    middle = sorted(runs, key=lambda run: run.seconds[-1])[(repeats - 1) // 2]
    middle.facts["file_bytes"] = _file_bytes(models[-1])
    for name, threads in (("tokens_per_second", 1), ("tokens_per_second_all", n_threads)):
        middle.facts[name] = _tokens_per_second(models[-1].set_params(n_threads=threads), problem)
    return replace(middle, peak_bytes=runs[0].peak_bytes)


def _tokens_per_second(model: Any, problem: Problem, repeats: int = 5) -> float:
    """The median speed of `predict` over the test items, in the columns of the model; the first call warms up."""
    seconds = []
    for _ in range(repeats + 1):
        begin = perf_counter()
        model.predict(problem.X_test)
        seconds.append(perf_counter() - begin)
    return problem.X_test.n_positions / float(np.median(seconds[1:]))


def train_items(
    path: str, l1: float, tol: float, n_threads: int | None, max_seconds: float | None = None
) -> Run:
    """Train once on a stored problem, flat or over its taxonomy, without intercepts.

    Seconds count from the matrix in memory, the features' own store included. `facts` has for each row of the run
    the certified gap, the passes, and the processor time of all threads; and the size of the model file.
    """
    problem = read_stored(path)
    make = _item_maker(problem, n_threads)
    # On all items: it also touches the memory, whose first use is slow on a virtual machine. (The same holds for
    # saga, whose short fits come first.)
    make(l1=STRONGER * l1, tol=ROUGH).fit(problem.X_train, problem.y_train)
    clocks: list[tuple[float, float]] = []

    def note(progress: Any) -> None:
        if progress.sample_fraction == 1.0:  # a row of the trace, no preview on a sample
            clocks.append((perf_counter(), process_time()))

    model = make(l1=l1, tol=tol, max_seconds=max_seconds, callback=note)
    begin = np.array([perf_counter(), process_time()])
    run = _timed_fit(model, problem)
    seconds, processor_seconds = (np.array(clocks) - begin).T
    trace = model.result_.trace
    run.facts.update(
        gaps=trace.gap,
        row_passes=trace.passes,
        processor_seconds=processor_seconds,
        file_bytes=_file_bytes(model),
    )
    return replace(run, seconds=seconds, setup_seconds=float(seconds[0] - trace.seconds[0]))


def _chains(recipe: str, n_threads: int | None) -> tuple[Problem, Maker]:
    from crfqn import ChainCRF

    return Problem.of_recipe(recipe), partial(ChainCRF, n_threads=n_threads)


def _item_maker(problem: ItemProblem, n_threads: int | None) -> Maker:
    from crfqn import MulticlassCRF, TaxonomyCRF

    if problem.taxonomy is None:
        return partial(MulticlassCRF, fit_intercept=False, n_threads=n_threads)
    return partial(TaxonomyCRF, taxonomy=problem.taxonomy, n_threads=n_threads)


def _timed_fit(model: Any, problem: Problem | ItemProblem) -> Run:
    """Fit, and what there is to say about it."""
    begin = perf_counter()
    model.fit(problem.X_train, problem.y_train)
    result, total = model.result_, perf_counter() - begin
    peak = peak_memory()
    say(f"  crfqn: {total:.1f} s, gap {result.gap:.1e}")
    edges = {"edges": model.edge_coef_.toarray()} if hasattr(model, "edge_coef_") else {}
    return Run(
        name="crfqn",
        iterations=np.array([row.iteration for row in result.trace.rows]),
        seconds=result.trace.seconds,
        values=result.trace.value,
        setup_seconds=total - result.seconds,
        passes=float(result.passes),
        weights=model.coef_,
        n_nonzero=result.n_nonzero,
        peak_bytes=peak,
        **edges,
        facts={"gap": result.gap, "status": result.message, "seconds": result.seconds},
    )


def _fit_part(make: Maker, problem: Problem | ItemProblem, l1: float) -> float:
    """Train on a part of the items with a penalty that leaves few weights; returns the seconds."""
    part = problem.part(int(WARM_UP * len(problem.y_train)))
    begin = perf_counter()
    make(l1=STRONGER * WARM_UP * l1, tol=ROUGH).fit(part.X_train, part.y_train)
    return perf_counter() - begin


def _file_bytes(model: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.crfqn"
        model.save(path)
        return path.stat().st_size


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
    problem, make = _chains(recipe, n_threads)
    first, *later = (_fit_part(make, problem, l1) for _ in range(4))
    return first - float(np.median(later))


def import_seconds(statement: str, repeats: int = 5) -> float:
    """The median time of an import statement in fresh interpreters, their own start not included."""
    program = f"from time import perf_counter as now; begin = now(); {statement}; print(now() - begin)"
    outputs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(repeats)
    ]
    return float(np.median([float(output) for output in outputs]))
