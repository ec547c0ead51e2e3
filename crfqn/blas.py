"""One BLAS thread while a model trains.

The pool's threads share out the matrix products already; and a product split by BLAS adds up in another order, so
that results would depend on the machine's cores. The limit belongs to the process: trainings that overlap share it.
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
_holders: list[Any] = []
_count = 0
if hasattr(os, "register_at_fork"):  # a child would wait for ever for a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the overlapping holders leaves."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            _holders.append(_controller(len(sys.modules)).limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _count -= 1
            if _count == 0:
                _holders.pop().restore_original_limits()


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the loaded BLAS libraries, looked for (3 ms) when modules have come since; one that comes without a module
    is not seen before the next one."""
    return ThreadpoolController()
