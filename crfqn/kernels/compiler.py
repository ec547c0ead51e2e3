"""Numba's compiler, with what costs time and gives kernels nothing left out: a quarter of the time of a first fit.

Two things: Python's garbage collector, which walks over all objects of the compiler again and again and finds next to
nothing; and passes for what kernels don't contain (`NOT_IN_KERNELS`), each of which analyses the function anew.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.compiler import Compiler

NOT_IN_KERNELS = {
    "WithLifting",  # `with` blocks
    "InlineClosureLikes",  # functions within the function, comprehensions
    "MakeFunctionToJitFunction",
    "InlineInlinables",  # functions that numba, not LLVM, is to inline
    "InlineOverloads",
    "FindLiterallyCalls",  # numba.literally and literal_unroll
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "RewriteDynamicRaises",  # exceptions
    "DumpParforDiagnostics",  # parallel loops
}


class KernelCompiler(Compiler):
    """Numba's compiler of functions that hold loops and calls only."""

    def compile_extra(self, function: Any) -> Any:
        """Compile the function, and what it calls, without collections of garbage."""
        with without_collections():
            return super().compile_extra(function)

    def define_pipelines(self) -> Any:
        """Return numba's passes without those for what kernels don't contain."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes[:] = [each for each in pipeline.passes if each[0].__name__ not in NOT_IN_KERNELS]
        return pipelines


@contextmanager
def without_collections() -> Iterator[None]:
    """Have Python collect no garbage; one thread at a time is within, as numba holds its lock."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
