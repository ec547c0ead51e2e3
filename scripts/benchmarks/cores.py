"""What two cores give at the moment, whatever runs on them.

Those of a virtual machine may be two halves of one core for seconds: then two threads get no more done than one, and a
measured gain says nothing of the program. Or they differ in speed, one sharing its core with another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from crfqn.threads import Pool

SIZE = 160  # of matrices that stay in a core's own cache
PRODUCTS = 60  # of a measurement: 5 ms
TRIES = 4  # of which the best counts
REAL = 1.5  # times one core's work: two cores, not halves of one


def some_cores() -> tuple[int | None, int | None]:
    """The first two that this process may use, the same one twice where there is one; None where nobody says."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[min(1, len(cores) - 1)]


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """This thread, and those that it makes, stay on a core; None: anywhere."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def capacity(pool: Pool) -> float:
    """How many times as many matrix products two threads get done as one: 2 on two cores alike, 1 on halves of one."""
    matrix = np.random.default_rng(0).random((SIZE, SIZE))

    def work(_: int) -> None:
        for _ in range(PRODUCTS):
            matrix @ matrix

    with threadpool_limits(1):
        alone = min(_seconds(lambda: work(0)) for _ in range(TRIES))
        together = min(_seconds(lambda: pool.each(2, work)) for _ in range(TRIES))
    return 2.0 * alone / together


def _seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin
