"""One BLAS thread while a model trains.

The pool's threads share out the matrix products already; and a product split by BLAS adds up in another order, so
that results would depend on the machine's cores. The limit belongs to the process: trainings that overlap share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import threadpool_limits

_lock = Lock()
_holders: list[threadpool_limits] = []
_count = 0


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the overlapping holders leaves."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            _holders.append(threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _count -= 1
            if _count == 0:
                _holders.pop().restore_original_limits()
