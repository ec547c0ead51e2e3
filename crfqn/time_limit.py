"""Time limits that long computations check: passes over the data, sweeps, searches.

The loop around a solver checks the limits after each step (`solvers/minimize.py`). A step over much data may take
longer than the limit, so code that calls compiled code repeatedly calls `check_time` in between. A limit belongs to
the thread that opened it; tasks of a pool do not check it.
"""

from __future__ import annotations

import math
import threading
import time
from types import TracebackType

GRACE_SECONDS = 0.4  # after a limit; a step that ends within them is not lost

_of_thread = threading.local()  # .limits : the open limits, the outermost first


class TimeIsUp(BaseException):
    """Raised by `check_time`; the code that opened the limit keeps the result so far.

    It is not an `Exception`, like KeyboardInterrupt, so that no other code catches it.
    """


class TimeLimit:
    """Context manager that limits the computation of this thread to a number of seconds from now, None for no limit.

    is_answered : whether the code that opens the limit catches TimeIsUp; if not, inner limits end the computation
    grace : seconds after the limit at which `check_time` raises TimeIsUp
    """

    def __init__(self, seconds: float | None, is_answered: bool = True, grace: float = GRACE_SECONDS) -> None:
        self.is_answered, self.grace = is_answered, grace
        self.end = math.inf if seconds is None else time.perf_counter() + seconds
        self.was_met = False  # whether a check has found that the time is up

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
    """Raise TimeIsUp if a limit of this thread was reached `grace` seconds ago; only once for each limit, as its owner
    then stores the result."""
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
