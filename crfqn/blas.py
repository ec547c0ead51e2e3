"""One BLAS thread while a model trains.

The pool's threads share out the matrix products already; and a product split by BLAS adds up in another order, so
that results would depend on the machine's cores. Most libraries have one limit for the process, which trainings that
overlap share; those built on OpenMP have one for each thread. While it holds, threadpoolctl (from 3.8 on) ignores what
other threads set: a limit of theirs that ends within a training does not end.
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
_before: list[tuple[Any, int]] = []  # the libraries that overlapping holders limit, and their threads before
_count = 0
if hasattr(os, "register_at_fork"):  # a child would wait for ever for a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the overlapping holders leaves, in whatever threads they run."""
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
    """Limit the calling thread to one BLAS thread for good, where it has a limit of its own."""
    with _lock:
        _limit(of_thread=True)


def _limit(of_thread: bool) -> list[tuple[Any, int]]:
    """Limit the libraries with a limit for each thread, or those with one for all, to one thread; returns what they had
    before."""
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
    """Return the loaded BLAS libraries, looked for (3 ms) when modules have come since; one that comes without a module
    is not seen before the next one."""
    return ThreadpoolController()
