"""Numba kernels: arrays, scalars and NamedTuples of them in, arrays out; no exceptions, no prints.

Three decorators say who calls a function. Each takes two options, and this is the one place for the compiler's flags.

    kernel      Python and other kernels; its machine code is kept on disk: compilation is part of the user's time
    subkernel   kernels only: a call from Python would crash
    inner       kernels only, copied into each caller: for loops within loops, where a call costs 30 ns

    sums     ANY_ORDER, the default: sums may be re-associated, and so vectorised; NaN and infinity keep their meaning.
             FUSED: multiply-adds may be fused, nothing is re-associated. IN_ORDER: neither; also for sums of gathered
             numbers, which re-association turns into vector gathers, four times slower than loads
    counts   whether references to arrays are counted. False, as always of `inner`, is for functions called a hundred
             thousand times a second, since every slice is a reference; such a function makes no array, and returns
             one only to functions that do not count either

`nogil` lets the thread pool run one kernel on several parts at once.
"""

from typing import Any

import numba

from crfqn.kernels.numba_internals import KernelCache, KernelCompiler, LinkedCompiler, warn_not_kept

ANY_ORDER: frozenset[str] = frozenset({"reassoc", "contract", "arcp", "nsz"})
FUSED: frozenset[str] = frozenset({"contract"})
IN_ORDER: frozenset[str] = frozenset()
FLAGS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: Any = None, *, sums: frozenset[str] = ANY_ORDER, counts: bool = True) -> Any:
    """Compile for Python and for kernels, cached on disk where a folder for it can be written."""
    if function is None:
        return lambda function: kernel(function, sums=sums, counts=counts)
    flags = {"pipeline_class": KernelCompiler, "_nrt": counts, "fastmath": set(sums), **FLAGS}
    dispatcher = numba.njit(**flags)(function)
    if numba.config.DISABLE_JIT:
        return dispatcher
    try:
        dispatcher._cache = KernelCache(function)  # as `cache=True` does with numba's own
    except RuntimeError as error:  # numba found no folder for the cache
        warn_not_kept(error)
    return dispatcher


def subkernel(
    function: Any = None, *, sums: frozenset[str] = ANY_ORDER, counts: bool = True, is_inner: bool = False
) -> Any:
    """Compile for kernels only, as part of their code."""
    if function is None:
        return lambda function: subkernel(function, sums=sums, counts=counts, is_inner=is_inner)
    # _nrt is given in any case: a caller's would be taken over.
    flags = {
        "pipeline_class": LinkedCompiler,
        "_nrt": counts,
        "fastmath": set(sums),
        "forceinline": is_inner,
        **FLAGS,
    }
    return numba.njit(no_cpython_wrapper=True, **flags)(function)


def inner(function: Any = None, *, sums: frozenset[str] = ANY_ORDER) -> Any:
    """Copy into the kernels that call it."""
    return subkernel(function, sums=sums, counts=False, is_inner=True)
