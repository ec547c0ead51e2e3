"""Measurements in a process of their own, with a peak of memory that belongs to one library; clocks; progress lines.

`run_alone(measure, ...)` is `measure(...)`, computed in a new interpreter.
"""

import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import median
from time import process_time, process_time_ns
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
POLL_SECONDS = 0.5  # between two looks at the seconds of a process


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
    """As `run_alone`, but for so many processor seconds at the most, those of started processes included: then all of
    these end, and the answer is None (Linux; elsewhere there is no limit).
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        answer = pool.submit(task, *arguments, **options)
        while (
            limit is not None and Path("/proc/self/stat").exists() and not wait([answer], POLL_SECONDS).done
        ):
            parents = [process.pid for process in active_children() if process.pid]
            running = {*parents}.union(*map(processes_below, parents))
            if sum(map(processor_seconds, running)) > limit:
                for pid in running:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return None
        return answer.result()


def processor_seconds(pid: int) -> float:
    """What a process has taken, with those of its children that have ended; 0 of one that has gone (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def seconds_of_children() -> float:
    """Processor seconds of this process's children that have ended, and of theirs."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """The largest resident size that this process has had, in bytes.

    Linux carries `ru_maxrss` over from the parent at exec; the kernel's VmHWM is this process's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def processes_below(pid: int | None = None) -> set[int]:
    """The processes that this one has started, and those that they have (Linux)."""
    processes: set[int] = set()
    with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended meanwhile
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


def fit_seconds(model: Any, *data: Any) -> float:
    """Fit a model to the data, without warnings, and return processor seconds."""
    with quietly():
        begin = process_time()
        model.fit(*data)
        return process_time() - begin


def microseconds(task: Callable[[Any], object], items: Iterable[Any]) -> float:
    """The median processor time of a call with one item, in microseconds: of all items, or of those of a second."""
    times: list[int] = []
    for item in items:
        begin = process_time_ns()
        task(item)
        times.append(process_time_ns() - begin)
        if sum(times) > 1e9:
            break
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
