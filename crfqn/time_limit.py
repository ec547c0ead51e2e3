"""Limits of time that long computations check themselves: passes over the data, sweeps, searches.

The loop around a solver checks its limits after each step (`solvers/minimize.py`). A step over much data may take
longer than the limit, so code that calls compiled code repeatedly calls `check_time` in between. A limit belongs to the
thread that has opened it: only this thread checks it, not the tasks of a pool.
"""

from __future__ import annotations

import math
import threading
import time
from types import TracebackType

GRACE_SECONDS = 0.4  # seconds beyond a limit: a step that ends within them is not lost

_of_thread = threading.local()  # .limits : those that are open, from the outermost on


class TimeIsUp(BaseException):
    """Raised by `check_time`; the code that opened the limit keeps the result so far. It is no `Exception`, as
    KeyboardInterrupt is none: no other code may catch it."""


class TimeLimit:
    """Context manager that limits the computation of this thread to so many seconds from now on, None for no limit.

    is_answered : whether the code that opens it catches TimeIsUp; computations within open limits of their own
    grace : seconds beyond the limit after which `check_time` raises TimeIsUp
    """

    def __init__(self, seconds: float | None, is_answered: bool = True, grace: float = GRACE_SECONDS) -> None:
        self.is_answered, self.grace = is_answered, grace
        self.end = math.inf if seconds is None else time.perf_counter() + seconds
        self.was_met = False  # whether a check has noticed its end

    def is_over(self) -> bool:
        """Return whether the time is up now."""
        self.was_met = self.was_met or time.perf_counter() >= self.end
        return self.was_met

    def __enter__(self) -> TimeLimit:
        _of_thread.limits = [*open_limits(), self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _of_thread.limits = open_limits()[:-1]


def open_limits() -> list[TimeLimit]:
    """Return the limits that are open in this thread."""
    limits: list[TimeLimit] = getattr(_of_thread, "limits", [])
    return limits


def check_time() -> None:
    """Raise TimeIsUp if a limit of this thread was over `grace` seconds ago; once for a limit, as its owner still has
    to keep the result so far."""
    limits = open_limits()
    for limit in limits if limits and limits[-1].is_answered else ():
        if limit.end < math.inf and not limit.was_met and time.perf_counter() >= limit.end + limit.grace:
            limit.was_met = True
            raise TimeIsUp


def end_computations() -> bool:
    """End the computations of this thread now, for a signal handler; return whether there are any."""
    limits = [limit for limit in open_limits() if limit.is_answered]
    for limit in limits:
        limit.end = min(limit.end, time.perf_counter())
    return bool(limits)
