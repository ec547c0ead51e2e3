"""A thread pool over a fixed number of parts.

The parts never depend on the number of threads, and every part writes to places of its own (or to a row
of its own, summed in order afterwards): so results are bit-identical for any number of threads. Kernels
release the GIL; a worker takes the next part when it is done with one, so unequal parts balance.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError

STRETCH = 1024  # things that a thread takes at a time where all are alike
N_PARTS = 32  # fixed, so that sums do not depend on the number of threads; enough to balance 16 threads


def cut_into_parts(ends: NDArray[np.integer], n_parts: int = N_PARTS) -> NDArray[np.int64]:
    """Cut a run of things into parts of about equal weight, (n_parts + 1,) boundaries; parts may be empty.

    `ends` (n + 1,) starts at 0 and adds up their weights: the offsets of items, the indptr of columns.
    """
    if n_parts < 1:
        raise InputError(f"n_parts must be at least 1, got {n_parts}")
    goals = int(ends[-1]) * np.arange(n_parts + 1) // n_parts
    after = np.searchsorted(ends, goals)
    before = np.maximum(after - 1, 0)
    is_nearer_before = goals - ends[before] < ends[after] - goals
    cuts = np.where(is_nearer_before, before, after).astype(np.int64)
    cuts[0], cuts[-1] = 0, ends.size - 1
    return cuts


def available_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_n_threads(n_threads: int | None) -> int:
    """The number of threads to use: all cores for None, otherwise a positive integer."""
    if n_threads is None:
        return available_cores()
    if isinstance(n_threads, bool) or not isinstance(n_threads, Integral) or n_threads < 1:
        raise InputError(f"n_threads: expected None or an integer >= 1, got {n_threads!r}")
    return int(n_threads)


class Pool:
    """Runs `task(part)` for every part; `with Pool(n) as pool: pool.each(n_parts, task)`."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = check_n_threads(n_threads)
        self._local, ranks = threading.local(), count(1)
        self._executor = None
        if self.n_threads > 1:
            self._executor = ThreadPoolExecutor(
                self.n_threads - 1, initializer=lambda: setattr(self._local, "rank", next(ranks))
            )

    @property
    def rank(self) -> int:
        """A number of the thread that asks: 0 outside of the pool, 1 ... n_threads - 1 within."""
        return int(getattr(self._local, "rank", 0))

    def each(self, n_parts: int, task: Callable[[int], object]) -> None:
        """Call task(0) ... task(n_parts - 1), in no promised order; the first exception is raised."""
        if self._executor is None:
            for part in range(n_parts):
                task(part)
            return

        parts = deque(range(n_parts))

        def share(draw: Callable[[], int]) -> None:
            while parts:
                try:
                    part = draw()  # which is atomic: every part goes to one thread
                except IndexError:  # another one was faster
                    return
                task(part)

        # From both ends: so a thread finds in its cache much of what it left there in a pass before.
        others = [self._executor.submit(share, parts.pop) for _ in range(1, min(self.n_threads, n_parts))]
        try:
            share(parts.popleft)
        finally:
            for other in others:
                other.exception()  # waits: no task may outlive this call, not even after an interrupt
        for other in others:
            other.result()

    def each_stretch(self, n: int, task: Callable[[int, int], object]) -> None:
        """Call task(first, last) for stretches of n things."""
        self.each(-(-n // STRETCH), lambda part: task(part * STRETCH, min((part + 1) * STRETCH, n)))

    def close(self) -> None:
        """Stop the threads; the pool cannot be used afterwards."""
        if self._executor is not None:
            self._executor.shutdown()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
