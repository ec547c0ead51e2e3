"""A pool of threads that share a fixed number of parts of the work, and the limit of BLAS to one thread.

The parts do not depend on the number of threads, and no two parts write to the same place (or they write rows that
are then summed in order): results are bit-identical for any number of threads. Kernels release the GIL. A thread that
has finished a part takes the next one, which balances unequal parts.

BLAS has one thread during a training: a product that BLAS splits is summed in another order, so that results would
depend on the number of cores. Most BLAS libraries have one limit for the process, which overlapping trainings share;
those that are built on OpenMP have one for each thread. During a limit threadpoolctl (from 3.8 on) ignores settings of
other threads: a limit of another thread that ends within a training is not restored.
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
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from crfqn.errors import InputError, check_count
from crfqn.time_limit import check_time

if TYPE_CHECKING:
    from threadpoolctl import LibController

CHUNK_SIZE = 1024  # items of a task of `map_chunks`
MIN_POOL_OPERATIONS = 100_000  # minimum work for several threads: 100 us, about their overhead for a call
SLICE_OPERATIONS = 5e7  # work of one call of compiled code between two checks of the time limit: about 0.1 s
N_PARTS = 32  # independent of the number of threads, so that sums are, too; enough to balance 16 threads


def cut_into_parts(ends: NDArray[np.integer], n_parts: int = N_PARTS) -> NDArray[np.int64]:
    """Cut n things into parts of about equal weight, which may be empty; return the boundaries, int64 (n_parts + 1,).

    ends : int (n + 1,), the cumulated weights from 0 on, such as the offsets of items or the indptr of columns
    """
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


def in_time(operations: NDArray[np.number], minimum: float = SLICE_OPERATIONS) -> Iterator[slice]:
    """Yield consecutive slices of n things, of about max(minimum, SLICE_OPERATIONS) operations each, and check
    the time limit before each; operations : (n,), the cost of each thing."""
    ends, size = np.cumsum(operations, dtype=np.float64), max(minimum, SLICE_OPERATIONS)
    if ends.size and ends[-1] > size:
        cuts = np.unique(np.searchsorted(ends, np.arange(size, ends[-1], size), side="right"))
        bounds = [0, *cuts[cuts > 0].tolist(), ends.size]
    else:
        bounds = [0, ends.size]
    for first, last in pairwise(bounds):
        check_time()
        yield slice(first, last)


@cache  # reading the quota from files takes longer than labelling an item
def available_cores() -> int:
    """Return the number of cores that the affinity of this process and the quota of its container allow."""
    from joblib import cpu_count

    return cpu_count()


def has_idle_core() -> bool:
    """Return whether there are two cores or more, and the load of the last minute, with this process, leaves one."""
    n_cores = available_cores()
    return n_cores > 1 and (not hasattr(os, "getloadavg") or round(os.getloadavg()[0]) < n_cores)


def check_n_threads(n_threads: int | None) -> int:
    """Return the number of threads, all cores for None; InputError unless it is None or a positive integer."""
    check_count("n_threads", n_threads, or_none=True)
    return available_cores() if n_threads is None else int(n_threads)


class Pool:
    """Pool of threads that run `task(part)` for every part: `with Pool(n) as pool: pool.each(n_parts, task)`.

    The first call with enough work starts the threads. A task that calls its own pool runs all parts itself, since the
    other threads may depend on its end.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = check_n_threads(n_threads)
        self._local, self._ranks, self._lock = threading.local(), count(1), threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False

    def __reduce__(self) -> tuple[type[Pool], tuple[int]]:
        """Pickle a pool as a new one with the same number of threads."""
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
        """Call task(0) ... task(n_parts - 1), in any order. The first exception stops the other tasks, and is raised.

        The time limit of the calling thread is checked before each task.

        n_operations : the total work, in operations of about a nanosecond; the calling thread does small work alone
        """
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
                        part = draw()  # atomic, so that every part goes to one thread
                    except IndexError:  # no part is left
                        return
                    check_time()
                    task(part)
            except BaseException:
                parts.clear()  # results of other tasks would not be used
                raise
            finally:
                self._local.is_inside = False

        # From both ends, so that a thread's cache has much of its data from the previous pass.
        others = [executor.submit(share, parts.pop) for _ in range(1, min(self.n_threads, n_parts))]
        try:
            share(parts.popleft)
        finally:
            for other in others:
                other.exception()  # blocks until its end: no task may outlive this call, even after an interrupt
        for other in others:
            other.result()

    def map_ranges(
        self, cuts: NDArray[np.int64], task: Callable[[int, int], object], n_operations: float = np.inf
    ) -> None:
        """Call task(first, last) for the ranges between `cuts`, as `each`; little work is one call for all of them.
        The ranges must be independent of each other."""
        if n_operations < MIN_POOL_OPERATIONS:
            check_time()
            task(cuts[0], cuts[-1])
            return
        self.each(len(cuts) - 1, lambda part: task(cuts[part], cuts[part + 1]), n_operations)

    def map_chunks(self, n: int, task: Callable[[int, int], object]) -> None:
        """Call task(first, last) for the chunks first ... last - 1 of CHUNK_SIZE numbers of 0 ... n - 1."""
        self.each(-(-n // CHUNK_SIZE), lambda part: task(part * CHUNK_SIZE, min((part + 1) * CHUNK_SIZE, n)))

    def close(self) -> None:
        """Stop the threads for good."""
        with self._lock:
            self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown()

    def _started(self) -> ThreadPoolExecutor:
        """Return the executor; the first call creates it."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("a pool cannot start threads after shutdown")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.n_threads - 1, initializer=self._begin_thread)
            return self._executor

    def _begin_thread(self) -> None:
        """Set the rank and the BLAS limit of a new thread."""
        self._local.rank = next(self._ranks)
        limit_blas_of_thread()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_lock = Lock()
_before: list[tuple[LibController, int]] = []  # limited libraries, and their former numbers of threads
_count = 0  # number of concurrent limits
# A child process would deadlock on the lock of a thread that it does not have.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last concurrent context of all threads ends."""
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
    """Limit the calling thread to one BLAS thread for good, if the library has a limit for each thread."""
    with _lock:
        _limit(of_thread=True)


def _limit(of_thread: bool) -> list[tuple[LibController, int]]:
    """Limit the libraries that have a limit for each thread, or those that have one for the process, to one thread;
    return the former limits."""
    libraries = [
        library
        for library in _controller(len(sys.modules)).lib_controllers
        if library.user_api == "blas" and (getattr(library, "threading_layer", "") == "openmp") == of_thread
    ]
    before = [(library, library.num_threads) for library in libraries]
    _set([(library, 1) for library in libraries])
    return before


def _set(limits: list[tuple[LibController, int]]) -> None:
    """Set numbers of threads after taking over their control: threadpoolctl (from 3.8 on) lets only the first thread
    of a process that sets a number do so, and ignores other threads without a warning."""
    for library, n_threads in limits:
        _release(library)
        library.set_num_threads(n_threads)


def _release(library: LibController) -> None:
    """Let the next thread that sets the limit of a library do so."""
    if hasattr(library, "clear_controlling_thread") and library.threading_layer != "openmp":
        library.clear_controlling_thread(force=True)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the loaded BLAS libraries. They are searched again, in 3 ms, if modules have been imported since; one that
    was loaded otherwise is found after the next import."""
    return ThreadpoolController()
