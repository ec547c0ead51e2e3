"""What two cores give at the moment, whatever runs on them.

Those of a virtual machine may be two halves of one core for seconds, or share one with another machine: then two
threads cannot get twice as much done, and a measured gain says nothing of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from crfqn.threads import Pool

SIZE = 160  # of matrices that stay in a core's own cache
PRODUCTS = 60  # of a measurement: 5 ms
TRIES = 4  # of which the best counts
FULL = 1.9  # two cores of their own


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
