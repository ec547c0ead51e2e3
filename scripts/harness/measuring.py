"""Measurements in a process of their own, with a peak of memory that belongs to one library; clocks; progress lines.

`run_alone(measure, ...)` is `measure(...)`, computed in a new interpreter.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import median
from time import process_time, process_time_ns
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def run_alone(
    task: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer:
    """Call `task`, a function of a module, in a fresh interpreter and return what it returns or raises."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(task, *arguments, **options).result()


def run_within(
    limit: float | None,
    task: Callable[Arguments, Answer],
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> Answer | None:
    """As `run_alone`, but for so many seconds at the most: then the process ends, and the answer is None."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(task, *arguments, **options).result(limit)
        except TimeoutError:
            for process in active_children():
                process.kill()
            return None


def peak_memory() -> int:
    """The largest resident size that this process has had, in bytes.

    Linux carries `ru_maxrss` over from the parent at exec; the kernel's VmHWM is this process's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def resident_memory(pids: Iterable[int] = ()) -> int:
    """The resident size of some processes together, by default of this one, in bytes (Linux)."""
    files = [Path(f"/proc/{pid}/statm") for pid in pids] or [Path("/proc/self/statm")]
    return sum(int(file.read_text().split()[1]) for file in files) * os.sysconf("SC_PAGE_SIZE")


def processes_below(pid: int | None = None) -> set[int]:
    """The processes that this one has started, and those that they have (Linux)."""
    processes: set[int] = set()
    for task in Path(f"/proc/{pid or os.getpid()}/task").iterdir():
        children = {int(child) for child in (task / "children").read_text().split()}
        processes |= children.union(*map(processes_below, children))
    return processes


def file_size(write: Callable[[Path], object]) -> int:
    """The bytes of the file that `write` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write(path)
        return path.stat().st_size


def processor_times(task: Callable[[], object], repeats: int, warm_ups: int = 1) -> list[float]:
    """Processor seconds of each of some calls, after those that do not count."""
    times = []
    for _ in range(warm_ups + repeats):
        begin = process_time()
        task()
        times.append(process_time() - begin)
    return times[warm_ups:]


def microseconds(task: Callable[[Any], object], items: Iterable[Any]) -> float:
    """The median processor time of a call with one item, in microseconds."""
    times = []
    for item in items:
        begin = process_time_ns()
        task(item)
        times.append(process_time_ns() - begin)
    return median(times) / 1e3


def on_one_core() -> None:
    """Let this process, and what it starts, run on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: what a limit leaves undone is said by the figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def say(message: str) -> None:
    """Progress for the person who waits: stderr."""
    print(message, file=sys.stderr, flush=True)
