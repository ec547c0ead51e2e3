"""Numba kernels: arrays and scalars in, arrays out; no classes, no exceptions, no prints.

One place for the compiler's flags (`exponential.py` alone has its own, and says why). `fastmath` lets sums be
re-associated (vectorised) but keeps NaN and infinity meaningful. `nogil` lets the thread pool run one kernel on
several parts at once; `cache` keeps the machine code on disk, because compilation is part of the user's time.
"""

from typing import Any

import numba

FAST_MATH = {"reassoc", "contract", "arcp", "nsz"}


def kernel(function: Any) -> Any:
    """Compile `function` as a cached, GIL-free numba kernel."""
    return numba.njit(cache=True, nogil=True, fastmath=FAST_MATH, error_model="numpy")(function)


def strict_kernel(function: Any) -> Any:
    """A kernel whose sums keep their order.

    For gathers: a sum that may be re-associated is compiled into vector gathers, four times slower than loads.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def inner(function: Any) -> Any:
    """A kernel that is compiled into its callers: for the loops within loops, where a call costs 30 ns."""
    return numba.njit(nogil=True, fastmath=FAST_MATH, error_model="numpy", forceinline=True)(function)
