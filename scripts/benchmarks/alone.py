"""Measurements in a process of their own: fresh caches, and a peak of memory that belongs to one library.

For every benchmark: `run_alone(measure, ...)` is `measure(...)`, computed in a new interpreter.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def run_alone(
    task: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer:
    """Call `task`, a function of a module, in a fresh interpreter and return what it returns or raises."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(task, *arguments, **options).result()


def run_within(
    limit: float, task: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer | None:
    """As `run_alone`, but for so many seconds at the most: then the process ends, and the answer is None."""
    context = get_context("spawn")
    answer, its_end = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(its_end, task, arguments, options))
    process.start()
    its_end.close()
    try:
        return answer.recv() if answer.poll(limit) else None
    except EOFError:
        raise RuntimeError(f"{task.__module__}.{task.__name__} failed, see above") from None
    finally:
        process.kill()
        process.join()


def _send(connection: Connection, task: Callable[..., object], arguments: Any, options: Any) -> None:
    connection.send(task(*arguments, **options))


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Processes started inside see these environment variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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


def say(message: str) -> None:
    """Progress for the person who waits: stderr."""
    print(message, file=sys.stderr, flush=True)
