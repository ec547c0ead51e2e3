"""Compilation of functions that only other kernels call: as code to be linked into these, not to be run by itself.

Numba compiles each function that a kernel calls as if Python called it too: it writes machine code for it, and a
wrapper that unpacks Python's arguments. A third of the time of a first fit went there. The code within the callers is
the same without.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary

from crfqn.kernels.compiler import KernelCompiler

NO_ENTRIES = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _NoEnvironment:
    """What a function without machine code has in the place of the compiler's engine: nothing to set up there."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Leave out the address of an object that only entries from Python read."""


class LinkedLibrary(JITCodeLibrary):
    """Optimised code of a function, for the callers to link; no machine code is made of it."""

    @property
    def codegen(self) -> Any:
        """The code generator, without an engine."""
        return _NoEnvironment(self._codegen)

    def _optimize_final_module(self) -> None:
        """Leave the optimisation to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no function to call."""
        self._ensure_finalized()
        return 0


class LinkedCompiler(KernelCompiler):
    """The compiler of kernels, which leaves the code to the callers."""

    def define_pipelines(self) -> Any:
        """Return the passes, to be run with a `LinkedLibrary`."""
        name = self.state.func_id.func_qualname
        self.state["library"] = LinkedLibrary(self.state.targetctx.codegen(), name)
        return super().define_pipelines()
