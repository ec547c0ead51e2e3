"""Numba kernels: functions of arrays, scalars and NamedTuples of these that return arrays and raise nothing.

A decorator states where a function is called from. All flags of the compiler are set in this file.

    kernel      called by Python and by other kernels; its machine code is cached on disk
    subkernel   called by kernels only: a call from Python would crash
    inner       called by kernels only and copied into each caller, for inner loops: a call costs 30 ns

Each decorator has two options.

    sums     ANY_ORDER (default): sums may be re-associated and therefore vectorised; NaN and infinity stay exact.
             FUSED: multiply-adds may be fused, nothing is re-associated.
             IN_ORDER: neither. Sums of gathered numbers need it too: re-association turns the loads into vector
             gathers, which are four times slower
    counts   whether references to arrays are counted, which every slice costs. False is for functions that are called
             100,000 times a second; `inner` always has False. Such a function allocates no array, and returns one only
             to functions that do not count either

`nogil` lets the thread pool run a kernel on several parts in parallel.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numba

from crfqn.kernels.numba_internals import KernelCache, KernelCompiler, LinkedCompiler, warn_not_kept

ANY_ORDER: frozenset[str] = frozenset({"reassoc", "contract", "arcp", "nsz"})
FUSED: frozenset[str] = frozenset({"contract"})
IN_ORDER: frozenset[str] = frozenset()
COMPILER_FLAGS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

Compiled: TypeAlias = Callable[..., Any]  # a function that numba types at each call, or a decorator of one


def kernel(
    function: Compiled | None = None, *, sums: frozenset[str] = ANY_ORDER, counts: bool = True
) -> Compiled:
    """Compile a function for Python and for kernels; cache its machine code on disk if a folder can be written."""
    if function is None:
        return lambda function: kernel(function, sums=sums, counts=counts)
    flags = {"pipeline_class": KernelCompiler, "_nrt": counts, "fastmath": set(sums), **COMPILER_FLAGS}
    dispatcher = numba.njit(**flags)(function)
    if numba.config.DISABLE_JIT:
        return dispatcher
    try:
        dispatcher._cache = KernelCache(function)  # as `cache=True` does with numba's own
    except RuntimeError as error:  # numba found no folder for the cache
        warn_not_kept(error)
    return dispatcher


def subkernel(
    function: Compiled | None = None,
    *,
    sums: frozenset[str] = ANY_ORDER,
    counts: bool = True,
    is_inner: bool = False,
) -> Compiled:
    """Compile a function for kernels only, as part of their code."""
    if function is None:
        return lambda function: subkernel(function, sums=sums, counts=counts, is_inner=is_inner)
    # _nrt is always set: otherwise the function would inherit the caller's.
    flags = {
        "pipeline_class": LinkedCompiler,
        "_nrt": counts,
        "fastmath": set(sums),
        "forceinline": is_inner,
        **COMPILER_FLAGS,
    }
    return numba.njit(no_cpython_wrapper=True, **flags)(function)


inner = partial(subkernel, counts=False, is_inner=True)  # copied into the kernels that call it
