"""crfqn itself: training runs on the clock, after a warm-up."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
from harness.measuring import file_size, peak_memory, processor_times, quietly, say
from harness.problems import Problem, Run, read_stored

WARM_UP = 0.2  # of the training items: enough positions that a warm-up stage runs, and with it every kernel
STRONGER = 5.0  # times the penalty, for few weights: a warm-up of a second or two
ROUGH = 1e-2  # tol of the warm-up
WARM_UP_STEPS = 30  # at the most, where the certificate comes late


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


def timed_fit(model: Any, problem: Problem, target: float = -np.inf, limit: float = np.inf) -> Run:
    """Fit, and return the run: processor seconds since the call of fit.

    target : an objective that ends the fit; limit : processor seconds that do

    `facts` has a number for each row of the run of wall seconds, certified gaps and passes; and for the whole fit
    seconds of the processor (`total`), gaps, status and warnings.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clock = Clock(target, limit)
        model.set_params(callback=clock).fit(problem.X_train, problem.y_train)
        wall, total = perf_counter() - clock.begin[0], process_time() - clock.begin[1]
    peak, result = peak_memory(), model.result_
    say(f"  crfqn: {total:.2f} s, {result.value:,.2f}, {result.status.name}, gap {result.gap:.1e}")
    # A limit may end a fit on its sample, before the callback sees a row.
    known = clock.rows or [(wall, total, row) for row in result.trace.rows]
    walls, processor, rows = zip(*known, strict=True)
    return Run(
        name="crfqn",
        iterations=np.array([row.iteration for row in rows]),
        seconds=np.array(processor),
        values=np.minimum.accumulate([row.value for row in rows]),
        weights=model.coef_,
        n_nonzero=result.n_nonzero,
        peak_bytes=peak,
        passes=float(result.passes),
        edges=model.transition_coef_.toarray() if problem.is_chain else np.zeros((0, 0)),
        facts={
            "wall_seconds": np.array(walls),
            "gaps": np.array([row.gap for row in rows]),
            "row_passes": np.array([row.passes for row in rows]),
            "total": total,
            "status": result.status.name,
            "estimated_gap": result.estimated_gap,
            "gap": result.gap,
            "warnings": [str(warning.message).split("\n")[0] for warning in caught],
        },
    )


def train_chains(path: str, n_threads: int | None, **settings: Any) -> Run:
    """Train on a stored problem after a warm-up on a part of it.

    `facts` has the size of the model file, and the tokens a second when it labels the test items on one thread.
    """
    from crfqn import ChainCRF

    problem: Problem = read_stored(path)
    part = problem.part(int(WARM_UP * len(problem.y_train)))
    rough = settings | {"l1": STRONGER * WARM_UP * settings["l1"], "tol": ROUGH, "max_iter": WARM_UP_STEPS}
    with quietly():
        ChainCRF(n_threads=n_threads, **rough).fit(part.X_train, part.y_train)
    model = ChainCRF(n_threads=n_threads, **settings)
    run = timed_fit(model, problem)
    model.set_params(n_threads=1)
    seconds = processor_times(lambda: model.predict(problem.X_test), 5)
    speed = problem.X_test.n_positions / float(np.median(seconds))
    run.facts.update(file_bytes=file_size(model.save), tokens_per_second=speed)
    return run


def train_items(
    path: str, l1: float, tol: float, n_threads: int | None, max_seconds: float | None = None
) -> Run:
    """Train once on a stored problem, flat or over its taxonomy, without intercepts.

    Seconds count from the matrix in memory, the features' own store included. `facts` has the size of the model file.
    """
    from crfqn import MulticlassCRF, TaxonomyCRF

    problem: Problem = read_stored(path)
    make: Any = partial(MulticlassCRF, fit_intercept=False, n_threads=n_threads)
    if problem.taxonomy is not None:
        make = partial(TaxonomyCRF, taxonomy=problem.taxonomy, n_threads=n_threads)
    # On all items: it also touches the memory, whose first use is slow on a virtual machine. (The same holds for
    # saga, whose short fits come first.)
    make(l1=STRONGER * l1, tol=ROUGH).fit(problem.X_train, problem.y_train)
    model = make(l1=l1, tol=tol, max_seconds=max_seconds)
    run = timed_fit(model, problem)
    run.facts["file_bytes"] = file_size(model.save)
    return run
