"""One BLAS thread while a model trains.

The pool's threads share the matrix products already, and a product split by BLAS is summed in another order, so that
results would depend on the number of cores. Most libraries have one limit for the process, shared by concurrent
trainings; those built on OpenMP have one for each thread. While the limit is set, threadpoolctl (from 3.8 on) ignores
other threads: if a limit of theirs ends within a training, it is not lifted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

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
