"""Compilation of a chain's first kernels in a second process, which shortens the wait for a machine's first training.

Numba compiles one function at a time. If no machine code of a chain is on disk, a second process compiles the kernels
of a training in the opposite order and stores them, and this process loads those it reaches later. The second process
ends after its list, or before its next kernel if this process has ended.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

from numba import types

from crfqn.kernels import Compiled, sparse
from crfqn.kernels.coordinate_descent import Limits, QuadraticModelArrays, Subproblem, descend
from crfqn.kernels.curvature import (
    TransitionCounts,
    add_edge_columns,
    add_edge_products,
    count_transitions,
    edge_curvatures,
    gather_features,
    list_transitions,
    square_ranges,
)
from crfqn.kernels.item_lanes import forward_backward_lanes
from crfqn.kernels.numba_internals import KernelCache
from crfqn.kernels.taxonomy import add_marginal_variance

# Types of arguments: numbers, and arrays in C order.
INT64, FLOAT64 = types.int64, types.float64
INTS, INTS32, FLAGS = types.int64[::1], types.int32[::1], types.boolean[::1]
FLOATS, FLOATS32 = types.float64[::1], types.float32[::1]
ROWS, ROWS32 = types.float64[:, ::1], types.float32[:, ::1]
PARTS, FEATURES, LISTS = (INT64, INT64), (INTS, INTS32, FLOATS), (INTS, INTS32, INTS, FLOATS, FLOATS)
EDGES = types.NamedTuple(LISTS, TransitionCounts)
MODEL = types.NamedTuple((ROWS32, INTS32, INTS32, FLOATS32, FLOATS, ROWS, ROWS), QuadraticModelArrays)
LIMITS = types.NamedTuple((INT64, FLOAT64), Limits)
SUBPROBLEM = types.NamedTuple((MODEL, FLOATS, FLOATS, FLOATS, LIMITS), Subproblem)

# The kernels that a training of a chain with few items calls, in the order of their first calls.
CHAIN_KERNELS: tuple[tuple[Compiled, tuple[types.Type, ...]], ...] = (
    (sparse.column_sums, (INT64, *PARTS, *FEATURES, FLOATS, FLOATS)),
    (sparse.add_columns, (*PARTS, INTS, INTS, FLOATS, *FEATURES, ROWS)),
    (
        forward_backward_lanes,
        (INTS, INTS, ROWS, ROWS, INTS32, FLOATS, *[ROWS] * 5, types.int64[:, ::1], types.float64[:, :, ::1]),
    ),
    (sparse.transpose_positions, (*PARTS, ROWS, FLOAT64, ROWS, FLOATS)),
    (sparse.feature_gradients, (INTS, INTS, *PARTS, *FEATURES, ROWS, ROWS)),
    (sparse.find_places, (INTS, INTS, INTS, FLAGS)),
    (sparse.square_sums, (*PARTS, INTS, INTS, INTS, INTS32, FLOATS, ROWS, FLOATS, FLOATS, FLOATS)),
    (edge_curvatures, (*PARTS, INTS, INTS32, ROWS, FLOATS, ROWS, ROWS)),
    (sparse.coordinate_gradients, (*PARTS, INTS, INTS, *FEATURES, ROWS, FLOATS)),
    (add_marginal_variance, (*PARTS, INTS, ROWS, FLOATS, FLOATS)),
    (gather_features, (*PARTS, INTS, INTS32, *FEATURES, ROWS32)),
    (count_transitions, (INTS, INTS, ROWS, ROWS, INTS, INTS, INTS, INTS)),
    (list_transitions, (INTS, INTS, ROWS, ROWS, INTS, INTS, INTS, INTS, INTS32, FLOATS)),
    (add_edge_columns, (*LISTS, INTS, ROWS, FLOATS, INTS, ROWS32, FLOATS, FLOATS, ROWS32)),
    (add_edge_products, (EDGES, EDGES, INTS, INTS, ROWS, ROWS, FLOATS, INTS, INTS, ROWS)),
    (descend, (SUBPROBLEM, FLOATS, FLOATS, FLOATS, FLOATS32, FLOATS, FLOATS)),
    (sparse.merge, (INTS, INTS, INTS)),
    (square_ranges, (*PARTS, *FEATURES, INTS, FLOATS, FLOATS)),
)


def compile_chain_kernels() -> None:
    """Compile `CHAIN_KERNELS` from the last to the first, until standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process
    has_ended = threading.Event()

    def watch() -> None:
        os.read(0, 1)
        has_ended.set()

    threading.Thread(target=watch, daemon=True).start()
    for kernel, signature in reversed(CHAIN_KERNELS):
        if has_ended.is_set():
            return
        kernel.compile(signature)


def needs_second_process() -> bool:
    """Return whether chains have no machine code and it can be stored, and this process is the first one of a Python
    program, neither a worker nor a program that contains Python."""
    if (
        multiprocessing.current_process().name != "MainProcess"
        or getattr(sys, "frozen", False)
        or not Path(sys.executable or "").name.startswith("python")
        or getattr(forward_backward_lanes, "overloads", True)  # code in memory, or without numba none
    ):
        return False
    try:
        return KernelCache(forward_backward_lanes.py_func).can_be_filled()
    except RuntimeError:  # no folder for the cache
        return False


@cache  # one process is enough
def start_second_process() -> None:
    """Start the compilation of a chain's kernels in a second process if there is a need."""
    if not needs_second_process():
        return
    folders = [*map(str, sys.path)]
    code = f"import sys; sys.path[:] = {folders!r}; from {__name__} import *; compile_chain_kernels()"
    read_end, write_end = os.pipe()  # the write end is closed at the end of this process, whatever ends it
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # on Windows
        )
    except OSError:  # no second process: this one compiles all
        os.close(write_end)
    else:

        def reap() -> None:
            process.wait()
            os.close(write_end)

        threading.Thread(target=reap, daemon=True).start()
    finally:
        os.close(read_end)
