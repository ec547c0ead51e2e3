"""A pool of threads that share a fixed number of parts of the work, and the limit of their number.

The parts do not depend on the number of threads, and no two parts write to the same place (or they write rows that
are then summed in order): so results are bit-identical for any number of threads. Kernels release the GIL; a worker
that has finished a part takes the next one, so unequal parts balance.

BLAS has one thread while a model trains: a product that BLAS splits adds up in another order, so that results would
depend on the machine's cores. Most libraries have one limit for the process, which trainings that overlap share; those
built on OpenMP have one for each thread. While it holds, threadpoolctl (from 3.8 on) ignores what other threads set: a
limit of theirs that ends within a training does not end.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import count, pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from crfqn.errors import InputError, check_count
from crfqn.time_limit import check_time

CHUNK_SIZE = 1024  # items that a thread takes at a time if all have the same cost
MIN_POOL_OPERATIONS = 100_000  # some 100 us: about the overhead of the threads for a call
SLICE_OPERATIONS = 5e7  # of a call of compiled code: about a tenth of a second
N_PARTS = 32  # fixed, so that sums do not depend on the number of threads; enough to balance 16 threads


def cut_into_parts(ends: NDArray[np.integer], n_parts: int = N_PARTS) -> NDArray[np.int64]:
    """Cut n things into parts of about equal weight, perhaps empty; returns the boundaries, int64 (n_parts + 1,); ends
    : int (n + 1,), the cumulated weights from 0 on, such as the offsets of items or the indptr of columns."""
    if n_parts < 1:
        raise InputError(f"n_parts must be at least 1, got {n_parts}")
    if n_parts == 1:
        return np.array([0, ends.size - 1])
    goals = int(ends[-1]) * np.arange(n_parts + 1) // n_parts
    after = np.searchsorted(ends, goals)
    before = np.maximum(after - 1, 0)
    is_nearer_before = goals - ends[before] < ends[after] - goals
    cuts = np.where(is_nearer_before, before, after).astype(np.int64)
    cuts[0], cuts[-1] = 0, ends.size - 1
    return cuts


def in_time(operations: NDArray[np.number], fewest: float = SLICE_OPERATIONS) -> Iterator[slice]:
    """Yield consecutive slices of n things, of about max(fewest, SLICE_OPERATIONS) operations, and check the limits of
    time before each; operations : (n,), the cost of each thing."""
    ends, most = np.cumsum(operations, dtype=np.float64), max(fewest, SLICE_OPERATIONS)
    if ends.size and ends[-1] > most:
        cuts = np.unique(np.searchsorted(ends, np.arange(most, ends[-1], most), side="right"))
        bounds = [0, *cuts[cuts > 0].tolist(), ends.size]
    else:
        bounds = [0, ends.size]
    for first, last in pairwise(bounds):
        check_time()
        yield slice(first, last)


@cache  # the quota is in files, which take longer to read than an item to label
def available_cores() -> int:
    """Return the number of cores that this process may use: by its affinity and by its container's quota."""
    from joblib import cpu_count

    return cpu_count()


def check_n_threads(n_threads: int | None) -> int:
    """Return the number of threads to use: all cores for None; InputError unless it is a positive integer."""
    check_count("n_threads", n_threads, or_none=True)
    return available_cores() if n_threads is None else int(n_threads)


class Pool:
    """Pool of threads that run `task(part)` for every part: `with Pool(n) as pool: pool.each(n_parts, task)`.

    Threads are started by the first call that has work for them. A task that calls its own pool does all of that work
    itself: the other threads may be waiting for it.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = check_n_threads(n_threads)
        self._local, self._ranks, self._lock = threading.local(), count(1), threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False

    def __reduce__(self) -> tuple[type[Pool], tuple[int]]:
        """Return a pool with as many threads, not shared."""
        return Pool, (self.n_threads,)

    @property
    def rank(self) -> int:
        """Number of the calling thread: 0 outside of the pool, 1 ... n_threads - 1 within."""
        return int(getattr(self._local, "rank", 0))

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread is running a task of this pool."""
        return bool(getattr(self._local, "is_inside", False))

    def each(self, n_parts: int, task: Callable[[int], object], n_operations: float = np.inf) -> None:
        """Call task(0) ... task(n_parts - 1), in any order; the first exception ends it, and is raised;
        n_operations : the total work, of about a nanosecond each: little work is done by the calling thread alone.

        The calling thread checks its limit of time before each task."""
        check_time()
        if n_operations < MIN_POOL_OPERATIONS:
            for part in range(n_parts):
                task(part)
            return
        if self.n_threads == 1 or n_parts <= 1 or self.is_inside:
            for part in range(n_parts):
                check_time()
                task(part)
            return

        executor, parts = self._started(), deque(range(n_parts))

        def share(draw: Callable[[], int]) -> None:
            self._local.is_inside = True
            try:
                while True:
                    try:
                        part = draw()  # which is atomic: every part goes to one thread
                    except IndexError:  # no part is left
                        return
                    check_time()
                    task(part)
            except BaseException:
                parts.clear()  # the others need not begin tasks whose results are not used
                raise
            finally:
                self._local.is_inside = False

        # From both ends: so a thread's cache has much of its data from the previous pass.
        others = [executor.submit(share, parts.pop) for _ in range(1, min(self.n_threads, n_parts))]
        try:
            share(parts.popleft)
        finally:
            for other in others:
                other.exception()  # waits: no task may outlive this call, not even after an interrupt
        for other in others:
            other.result()

    def map_chunks(self, n: int, task: Callable[[int, int], object]) -> None:
        """Call task(first, last) for chunks of CHUNK_SIZE that make up 0 ... n - 1."""
        self.each(-(-n // CHUNK_SIZE), lambda part: task(part * CHUNK_SIZE, min((part + 1) * CHUNK_SIZE, n)))

    def close(self) -> None:
        """Stop the threads; the pool cannot start them again."""
        with self._lock:
            self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown()

    def _started(self) -> ThreadPoolExecutor:
        """Return the executor, which the first call makes."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("a pool cannot start threads after shutdown")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.n_threads - 1, initializer=self._begin_thread)
            return self._executor

    def _begin_thread(self) -> None:
        """Prepare one of the threads."""
        self._local.rank = next(self._ranks)
        limit_blas_of_thread()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_lock = Lock()
_before: list[
    tuple[Any, int]
] = []  # libraries limited by concurrent holders, and their former numbers of threads
_count = 0
if hasattr(os, "register_at_fork"):  # a child process would deadlock on a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the concurrent holders, of any thread, leaves."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            _before.extend(_limit(of_thread=False))
        before = _limit(of_thread=True)
    try:
        yield
    finally:
        with _lock:
            _set(before)
            _count -= 1
            if _count == 0:
                _set(_before)
                for library, _ in _before:
                    _release(library)
                _before.clear()


def limit_blas_of_thread() -> None:
    """Limit the calling thread to one BLAS thread permanently, if the library has a limit for each thread."""
    with _lock:
        _limit(of_thread=True)


def _limit(of_thread: bool) -> list[tuple[Any, int]]:
    """Limit the libraries with a limit for each thread, or those with one for all, to one thread; return the former
    limits."""
    libraries = [
        library
        for library in _controller(len(sys.modules)).lib_controllers
        if library.user_api == "blas" and (getattr(library, "threading_layer", "") == "openmp") == of_thread
    ]
    before = [(library, library.num_threads) for library in libraries]
    _set([(library, 1) for library in libraries])
    return before


def _set(limits: list[tuple[Any, int]]) -> None:
    """Set numbers of threads, and take over their control: from 3.8 on threadpoolctl lets the first thread of a process
    that sets them do so, and ignores all others in silence."""
    for library, n_threads in limits:
        _release(library)
        library.set_num_threads(n_threads)


def _release(library: Any) -> None:
    """Leave the control of a library's limit to the next thread that sets it."""
    if hasattr(library, "clear_controlling_thread") and library.threading_layer != "openmp":
        library.clear_controlling_thread(force=True)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the loaded BLAS libraries, searched again (3 ms) if modules have been imported since; a library that was
    loaded otherwise is found at the next import."""
    return ThreadpoolController()
