"""crfqn itself: training runs after a warm-up, what a first fit costs, and the time of an import."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from harness.measuring import file_size, peak_memory, quietly, run_alone, say
from harness.problems import Problem, Run, middle_run, read_stored

WARM_UP = 0.2  # of the training items: enough positions that a warm-up stage runs, and with it every kernel
STRONGER = 5.0  # times the penalty, for few weights: a warm-up of a second or two
ROUGH = 1e-2  # tol of the warm-up
WARM_UP_STEPS = 30  # at the most, where the certificate comes late
Maker = Callable[..., Any]  # of an estimator, from its settings


@dataclass(eq=False)
class Clock:
    """A callback that notes the clocks and what is known at each row of the trace; it stops at `target`.

    limit : of the processor's seconds; most_passes : those over samples count as well
    """

    target: float = -np.inf
    limit: float = np.inf
    most_passes: float = np.inf

    def __post_init__(self) -> None:
        self.rows: list[tuple[float, float, Any]] = []  # by the wall, by the processor, Progress
        self.begin = perf_counter(), process_time()

    def __call__(self, progress: Any) -> bool:
        is_over = progress.passes > self.most_passes
        if progress.sample_fraction != 1.0:  # no row of the trace: a preview on a sample
            return is_over
        processor = process_time() - self.begin[1]
        self.rows.append((perf_counter() - self.begin[0], processor, progress))
        return is_over or progress.value <= self.target or processor > self.limit


def timed_fit(
    model: Any, problem: Problem, clock: str = "steps", target: float = -np.inf, limit: float = np.inf
) -> Run:
    """Fit, and what there is to say about it.

    clock : of the run's seconds: "steps" (the first step begins it), "wall" or "processor" (the call of fit does)
    target : an objective that ends the fit; limit : processor seconds that do

    `facts` has a number for each row of the run of the certified gaps, the estimated ones, passes and processor
    seconds; and for the whole fit seconds of the processor (`total`), gaps, status and warnings.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        note = Clock(target, limit)
        model.set_params(callback=note).fit(problem.X_train, problem.y_train)
        whole, total = perf_counter() - note.begin[0], process_time() - note.begin[1]
    peak, result = peak_memory(), model.result_
    say(f"  crfqn: {whole:.2f} s, {result.value:,.2f}, {result.status.name}, gap {result.gap:.1e}")
    # A limit may end a fit on its sample, before the callback sees a row.
    known = note.rows or [(whole, total, row) for row in result.trace.rows]
    walls, processor, rows = zip(*known, strict=True)
    steps = [row.seconds for row in rows]
    by_clock = {"steps": steps, "wall": walls, "processor": processor}
    setup = {"steps": whole - result.seconds, "wall": walls[0] - steps[0], "processor": processor[0]}
    return Run(
        name="crfqn",
        iterations=np.array([row.iteration for row in rows]),
        seconds=np.array(by_clock[clock]),
        values=np.minimum.accumulate([row.value for row in rows]),
        weights=model.coef_,
        n_nonzero=result.n_nonzero,
        peak_bytes=peak,
        setup_seconds=float(setup[clock]),
        passes=float(result.passes),
        edges=model.edge_coef_.toarray() if problem.is_chain else np.zeros((0, 0)),
        facts={
            "estimated": np.array([row.estimated_gap for row in rows]),
            "gaps": np.array([row.gap for row in rows]),
            "row_passes": np.array([row.passes for row in rows]),
            "processor_seconds": np.array(processor),
            "total": total,
            "seconds": result.seconds,
            "status": result.status.name,
            "estimated_gap": result.estimated_gap,
            "gap": result.gap,
            "value": result.value,
            "warnings": [str(warning.message).split("\n")[0] for warning in caught],
        },
    )


def train_chains(path: str, n_threads: int | None, repeats: int, **settings: Any) -> Run:
    """Train `repeats` times and return the run of median time; the peak of memory is that of the first.

    `facts` has the size of the model file, and the tokens a second when it labels the test items, on one thread
    and on all.
    """
    from crfqn import ChainCRF

    problem: Problem = read_stored(path)
    make = partial(ChainCRF, n_threads=n_threads, **settings)
    fit_part(make, problem, settings["l1"], max_iter=WARM_UP_STEPS)
    runs, model = [], None
    for _ in range(repeats):
        model = make()
        runs.append(timed_fit(model, problem))
    assert model is not None
    middle = middle_run(runs)
    middle.facts["file_bytes"] = file_size(model.save)
    for name, threads in (("tokens_per_second", 1), ("tokens_per_second_all", n_threads)):
        middle.facts[name] = tokens_per_second(model.set_params(n_threads=threads), problem)
    return replace(middle, peak_bytes=runs[0].peak_bytes)


def tokens_per_second(model: Any, problem: Problem, repeats: int = 5) -> float:
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

    Seconds count from the matrix in memory, the features' own store included. `facts` has the size of the model file.
    """
    from crfqn import MulticlassCRF, TaxonomyCRF

    problem: Problem = read_stored(path)
    make: Maker = partial(MulticlassCRF, fit_intercept=False, n_threads=n_threads)
    if problem.taxonomy is not None:
        make = partial(TaxonomyCRF, taxonomy=problem.taxonomy, n_threads=n_threads)
    # On all items: it also touches the memory, whose first use is slow on a virtual machine. (The same holds for
    # saga, whose short fits come first.)
    make(l1=STRONGER * l1, tol=ROUGH).fit(problem.X_train, problem.y_train)
    model = make(l1=l1, tol=tol, max_seconds=max_seconds)
    run = timed_fit(model, problem, clock="wall")
    run.facts["file_bytes"] = file_size(model.save)
    return run


def fit_part(make: Maker, problem: Problem, l1: float, **limits: Any) -> float:
    """Train on a part of the items with a penalty that leaves few weights; returns the seconds."""
    part = problem.part(int(WARM_UP * len(problem.y_train)))
    begin = perf_counter()
    with quietly():
        make(**{"l1": STRONGER * WARM_UP * l1, "tol": ROUGH, **limits}).fit(part.X_train, part.y_train)
    return perf_counter() - begin


def first_fit(path: str, l1: float, n_threads: int | None) -> dict[str, float]:
    """Seconds by which the first `fit` of a process takes longer than the next ones.

    Two processes share an empty cache of machine code: the first compiles, the second loads.
    """
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, NUMBA_CACHE_DIR=folder):
        return {
            name: run_alone(_excess, path, l1, n_threads) for name in ("never_compiled", "compiled_before")
        }


def _excess(path: str, l1: float, n_threads: int | None) -> float:
    from crfqn import ChainCRF

    problem = read_stored(path)
    first, *later = (fit_part(partial(ChainCRF, n_threads=n_threads), problem, l1) for _ in range(4))
    return first - float(np.median(later))


def import_seconds(statement: str, repeats: int = 5) -> float:
    """The median time of an import statement in fresh interpreters, their own start not included."""
    program = f"from time import perf_counter as now; begin = now(); {statement}; print(now() - begin)"
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats)]
    return float(np.median([float(run.stdout) for run in runs]))
