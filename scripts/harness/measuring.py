"""Measurements in a process of their own, with a peak of memory that belongs to one library; clocks; progress lines.

`run_alone(measure, ...)` is `measure(...)`, computed in a new interpreter.
"""

import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def run_alone(
    task: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer:
    """Call `task`, a function of a module, in a fresh interpreter and return what it returns or raises."""
    return _answer(None, task, arguments, options)


def run_within(
    limit: float, task: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer | None:
    """As `run_alone`, but for so many seconds at the most: then the process ends, and the answer is None."""
    return _answer(limit, task, arguments, options)


def _answer(limit: float | None, task: Callable[..., Any], arguments: Any, options: Any) -> Any:
    context = get_context("spawn")
    answer, its_end = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(its_end, task, arguments, options))
    process.start()
    its_end.close()
    try:
        if not answer.poll(limit):
            return None
        found, error = answer.recv()
    except EOFError:
        raise RuntimeError(f"{task.__module__}.{task.__name__} ended without an answer, see above") from None
    finally:
        process.kill()
        process.join()
    if error is not None:
        raise error
    return found


def _send(connection: Connection, task: Callable[..., object], arguments: Any, options: Any) -> None:
    answer: tuple[object, BaseException | None]
    try:
        answer = task(*arguments, **options), None
    except BaseException as error:  # an interruption as well: whoever waits shall hear of it
        error.add_note(traceback.format_exc())
        answer = None, error
    connection.send(answer)


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


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: what a limit leaves undone is said by the figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def say(message: str) -> None:
    """Progress for the person who waits: stderr."""
    print(message, file=sys.stderr, flush=True)
