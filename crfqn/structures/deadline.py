"""A deadline for work of many steps: whoever waits for the result sets it, and the loops of inference check it.

Each thread, and each task of an event loop, has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

_deadline = ContextVar("deadline", default=inf)


class Overdue(Exception):
    """Work that was not done at its deadline."""


@contextmanager
def deadline(moment: float) -> Iterator[None]:
    """Set the deadline of what runs in the `with` block, in seconds of `time.monotonic`."""
    token = _deadline.set(moment)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_deadline() -> None:
    """Raise Overdue if the deadline has passed: some .2 us."""
    if (moment := _deadline.get()) < inf and monotonic() > moment:
        raise Overdue
