"""Numba kernels: arrays, scalars and NamedTuples of them in, arrays out; no exceptions, no prints.

One place for the compiler's flags. `fastmath` lets sums be re-associated (vectorised) but keeps NaN and infinity
meaningful. `nogil` lets the thread pool run one kernel on several parts at once. The machine code is kept on disk
(`numba_internals.py`), because compilation is part of the user's time.
"""

from collections.abc import Iterable
from typing import Any

import numba

from crfqn.kernels.numba_internals import (
    NO_ENTRIES,
    KernelCache,
    KernelCompiler,
    LinkedCompiler,
    warn_not_kept,
)

FAST_MATH = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: Any, fastmath: Iterable[str], counts: bool = True) -> Any:
    """Compile as a GIL-free kernel, cached on disk where a folder for it can be written.

    counts : whether references to arrays are counted, which a kernel needs that makes or returns one
    """
    result = numba.njit(
        pipeline_class=KernelCompiler, no_cfunc_wrapper=True, _nrt=counts, **_flags(fastmath)
    )(function)
    if numba.config.DISABLE_JIT:
        return result
    try:
        result._cache = KernelCache(function)  # as `cache=True` does with numba's own
    except RuntimeError as error:  # numba found no place for the cache
        warn_not_kept(error)
    return result


def kernel(function: Any) -> Any:
    """Compile as a kernel whose sums may be re-associated."""
    return compiled(function, FAST_MATH)


def bare_kernel(function: Any) -> Any:
    """Compile as a kernel without reference counts, for functions called a hundred thousand times a second: every slice
    of an array is a reference to it, so that the kernel may make no array and return none."""
    return compiled(function, FAST_MATH, counts=False)


def subkernel(function: Any) -> Any:
    """Compile as a kernel that only kernels call, and keep with their code: a call from Python would crash."""
    return linked(function, FAST_MATH, _nrt=True)  # which would be taken over from a caller without


def bare_subkernel(function: Any) -> Any:
    """Compile as a `bare_kernel` that only kernels call; see `subkernel`."""
    return linked(function, FAST_MATH, _nrt=False)


def strict_kernel(function: Any) -> Any:
    """Compile as a kernel whose sums keep their order, for gathers: a sum that may be re-associated is compiled into
    vector gathers, four times slower than loads."""
    return compiled(function, ())


def strict_subkernel(function: Any) -> Any:
    """Compile as a `strict_kernel` that only kernels call; see `subkernel`."""
    return linked(function, (), _nrt=True)


def exact_subkernel(function: Any) -> Any:
    """Compile as a `subkernel` with fused multiply-adds but nothing re-associated."""
    return linked(function, {"contract"}, _nrt=True)


def inner(function: Any) -> Any:
    """Compile into the callers, as a bare kernel: for loops within loops, where a call costs 30 ns."""
    return inlined(function, FAST_MATH)


def strict_inner(function: Any) -> Any:
    """Compile into the callers operations that keep their order there: what is subtracted first is lost last."""
    return inlined(function, ())


def exact_inner(function: Any) -> Any:
    """Compile into the callers, with fused multiply-adds but nothing re-associated."""
    return inlined(function, {"contract"})


def inlined(function: Any, fastmath: Iterable[str]) -> Any:
    """Compile into the callers, without counting references to arrays."""
    return linked(function, fastmath, _nrt=False, forceinline=True)


def linked(function: Any, fastmath: Iterable[str], **flags: bool) -> Any:
    """Compile for the callers only (`numba_internals.py`)."""
    return numba.njit(pipeline_class=LinkedCompiler, **NO_ENTRIES, **flags, **_flags(fastmath))(function)


def _flags(fastmath: Iterable[str]) -> dict[str, Any]:
    return {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
