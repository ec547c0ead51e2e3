"""Kernels that only kernels call (`crfqn.kernels.numba_internals`), made callable from Python for tests."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba


@cache
def from_python(function: Any) -> Callable[..., Any]:
    """Return a compiled function that passes its arguments on to a linked kernel."""

    @numba.njit
    def call(*args):
        return function(*args)

    return call
