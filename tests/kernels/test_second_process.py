"""Compilation of a chain's first kernels in a second process: what it compiles, when it starts and how it ends."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from crfqn import ChainCRF, threads
from crfqn.estimators import chain
from crfqn.kernels import second_process
from crfqn.kernels.item_lanes import forward_backward_lanes
from crfqn.kernels.numba_internals import KernelFiles

FIT = """
from crfqn import ChainCRF
words, labels = ["a", "b", "c"], ["A", "B", "C"]
X = [[{"word": words[(i + t) % 3], "place": str(t % 2)} for t in range(3)] for i in range(12)]
ChainCRF(n_threads=1).fit(X, [[labels[(i + t * t) % 3] for t in range(3)] for i in range(12)])
"""
BESIDE = """
import threading
from crfqn.kernels.numba_internals import KernelCache
from crfqn.kernels.second_process import CHAIN_KERNELS, start_second_process
before = threading.enumerate()
start_second_process()
(reaper,) = set(threading.enumerate()) - set(before)
start_second_process()  # once is enough
assert set(threading.enumerate()) == {*before, reaper}
reaper.join()
needed, load = [], KernelCache.load_overload
def load_and_note(cache, signature, target):
    code = load(cache, signature, target)
    needed.append((cache._py_func.__name__, str(signature), code is not None))
    return code
KernelCache.load_overload = load_and_note
exec(FIT)
table = [(kernel.py_func.__name__, str(signature), True) for kernel, signature in CHAIN_KERNELS]
assert needed == table, [pair for pair in zip(needed, table) if pair[0] != pair[1]]
"""
COUNT = """
from crfqn.kernels.second_process import CHAIN_KERNELS
print(sum(bool(kernel._cache._cache_file._load_index()) for kernel, _ in CHAIN_KERNELS))
"""


def run(code, folder, **options):
    """Run a script without a main guard, whose machine code is in an empty folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)} | {"CRFQN_CODE": ""}
    return subprocess.run(
        [sys.executable, "-c", f"FIT = {FIT!r}\n{code}"],
        env=environment, text=True, capture_output=True, check=True, **options,
    ).stdout.split()  # fmt: skip


def test_a_training_loads_what_the_second_process_has_compiled(tmp_path):
    """All kernels of a first training, in the order of the table, and no other: it compiles nothing itself."""
    run(BESIDE, tmp_path)


def test_the_second_process_ends_after_the_first(tmp_path):
    compiles = "from crfqn.kernels.second_process import compile_chain_kernels; compile_chain_kernels()"
    run(compiles, tmp_path, stdin=subprocess.DEVNULL)  # the end of the input is that of the first process
    (n,) = run(COUNT, tmp_path)
    assert int(n) < len(second_process.CHAIN_KERNELS)
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".nbi", ".nbc")
    ]


@pytest.fixture
def cold(monkeypatch, tmp_path):
    """Return the folder of a cache without machine code."""
    monkeypatch.setenv("CRFQN_CODE", str(tmp_path / "code"))
    kernel = SimpleNamespace(py_func=forward_backward_lanes.py_func, overloads={})
    monkeypatch.setattr(second_process, "forward_backward_lanes", kernel)
    return tmp_path


def test_no_machine_code_needs_a_second_process(cold):
    assert second_process.needs_second_process()


@pytest.mark.parametrize("executable", ["", None, "/opt/app/editor"])
def test_a_program_that_contains_python_starts_none(cold, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert not second_process.needs_second_process()


def test_a_frozen_program_starts_none(cold, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not second_process.needs_second_process()


def test_a_worker_starts_none(cold, monkeypatch):
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(name="LokyProcess-1"))
    assert not second_process.needs_second_process()


def test_a_folder_that_cannot_be_written_starts_none(cold, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append(path))
    assert not second_process.needs_second_process()
    assert asked == [cold]  # the first folder that exists


def test_without_a_folder_none_starts(cold, monkeypatch):
    def refuse(_):
        raise RuntimeError("cannot cache function")

    monkeypatch.setattr(second_process, "KernelCache", refuse)
    assert not second_process.needs_second_process()


def test_machine_code_in_memory_starts_none(cold):
    second_process.forward_backward_lanes.overloads = {"signature": "code"}
    assert not second_process.needs_second_process()


def test_without_compilation_none_starts(cold, monkeypatch):
    monkeypatch.setattr(second_process, "forward_backward_lanes", forward_backward_lanes.py_func)
    assert not second_process.needs_second_process()


def test_machine_code_on_disk_starts_none(cold, monkeypatch):
    monkeypatch.setattr(KernelFiles, "_load_index", lambda _: {"key": "code.1.nbc"})
    assert not second_process.needs_second_process()


def test_a_process_that_cannot_start_is_no_error(cold, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("no processes")

    n_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    monkeypatch.setattr(subprocess, "Popen", refuse)
    second_process.start_second_process.__wrapped__()
    assert not n_files or len(os.listdir("/proc/self/fd")) == n_files


@pytest.mark.parametrize(("n_threads", "has_core", "n_started"), [(1, True, 0), (2, False, 0), (2, True, 1)])
def test_a_training_starts_one_for_an_idle_core(monkeypatch, n_threads, has_core, n_started):
    started = []
    monkeypatch.setattr(chain, "has_idle_core", lambda: has_core)
    monkeypatch.setattr(chain, "start_second_process", lambda: started.append(1))
    ChainCRF(n_threads=n_threads).fit([[{"a": 1.0}], [{"b": 1.0}]], [["A"], ["B"]])
    assert len(started) == n_started


@pytest.mark.parametrize(
    ("n_cores", "load", "is_idle"),
    [(1, 0.0, False), (2, 0.1, True), (2, 1.2, True), (2, 1.8, False), (8, 6.0, True)],
)
def test_idle_cores(monkeypatch, n_cores, load, is_idle):
    monkeypatch.setattr(threads, "available_cores", lambda: n_cores)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0), raising=False)
    assert threads.has_idle_core() == is_idle
