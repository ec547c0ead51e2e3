"""How commands end: exit codes, Ctrl-C and SIGTERM, one sentence instead of a traceback for the user's mistakes.

`CRFQN_DEBUG=1` shows the traceback as well. That a reader of the output goes away early (`| head`) is no error.
While a command trains, the first signal asks the training to stop, through its callback, which keeps the best model so
far; the second one stops it at once. Outside the training a signal is an ordinary KeyboardInterrupt.
"""

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import wraps
from typing import Any

from crfqn.cli.output import command_files, say
from crfqn.data_options import DATA_OPTIONS, SOURCE
from crfqn.errors import CrfqnError, CrfqnWarning, DataUnavailableError, UnknownFeaturesWarning
from crfqn.time_limit import end_computations

KEY = re.compile(
    r'\[(features|structure|data|objective|solver)\](?: (?!lacks|needs|has|with)(\w+))?(?: = "?([^":;\s]+)"?)?'
)
FEW_PACKAGES = (
    "(for `crfqn.Tagger` numpy, safetensors and lazy-loader are enough, for `crfqn predict` these and typer)"
)
OPTION_OF = {row.key: name for name, row in DATA_OPTIONS.items()} | {"name": "solver"}  # by keys


class ExitCode(IntEnum):
    """Exit codes and their meanings; `crfqn --help` shows this table."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "all went well"
    UNEXPECTED = 1, "an unexpected error; CRFQN_DEBUG=1 shows where"
    WRONG_INPUT = 2, "wrong usage, input, recipe or model file"
    NO_DATA = 3, "the data is not on this machine, or fails its check"
    NOT_CONVERGED = 4, "training stopped before it converged; the model is saved"
    INTERRUPTED = 130, "interrupted (Ctrl-C); the best model so far, if there is one, is saved"
    TERMINATED = 143, "the same, by SIGTERM"


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does, with a code of its own."""


def code_of(interrupt: KeyboardInterrupt) -> ExitCode:
    """Return the exit code of an interrupt."""
    return ExitCode.TERMINATED if isinstance(interrupt, Terminated) else ExitCode.INTERRUPTED


def comes_of_sigterm(error: BaseException | None) -> bool:
    """Return whether an exception was raised while SIGTERM was being answered."""
    while error is not None and not isinstance(error, Terminated):
        error = error.__context__
    return error is not None


# Signals answered by an exception, which an import or a finalizer may have swallowed.
received: list[int] = []


def raise_signal(number: int, frame: object = None) -> None:
    """Answer SIGINT or SIGTERM by an exception, from the first moment of a command on."""
    received.append(number)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def check_signals() -> None:
    """Raise the exception of a signal again if an import or a finalizer has swallowed it."""
    if received:
        raise_signal(received[0])


def on_the_way_out() -> None:
    """Let the next signal end the process at once: an interrupt is being answered already."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: os._exit(128 + number))


class Interrupts:
    """Context manager that takes over SIGINT and SIGTERM. `is_requested` is whether a signal came while training or
    saving, and `code` the exit code of a command that it interrupted."""

    def __init__(self) -> None:
        self.is_requested, self.code = False, ExitCode.INTERRUPTED
        self._has_trained = False
        self._phase = ""
        self._previous: dict[int, Any] = {}

    def stops(self, record: object) -> bool:
        """Return whether a training has to stop: the callback of all that a command runs."""
        self._has_trained = True
        return self.is_requested

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Open the phase "training" or "saving". In a training the first signal is noted, and ends a step that takes
        long; before its first step there is nothing to keep, and it raises. While saving all signals are noted."""
        if phase == "training":
            check_signals()
        self._phase = phase
        try:
            yield
        finally:
            self._phase = ""

    def __enter__(self) -> "Interrupts":
        check_signals()
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if isinstance(error, KeyboardInterrupt):  # nobody has swallowed it
            received.clear()

    def _handle(self, number: int, frame: object) -> None:
        if self._phase != "saving" and (self._phase != "training" or self.is_requested):
            raise_signal(number)
        if self._phase == "training" and not end_computations() and not self._has_trained:
            raise_signal(number)  # the data are still being prepared
        self.is_requested = True
        self.code = ExitCode.TERMINATED if number == signal.SIGTERM else ExitCode.INTERRUPTED
        if self._phase == "training":
            say("\nStopping; the best model so far, if any, will be saved. Again: at once.")


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Make a command of `function`: its return value, or the error that it raises, becomes the exit code."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command_files.begin()
            with shown_warnings():
                code = function(*arguments, **options) or ExitCode.OK
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            code = ExitCode.OK
        except CrfqnError as error:  # before OSError, as a missing model file is both
            code = report(error)
        except OSError as error:
            say(f"crfqn: cannot write: {error.strerror or error}")
            code = ExitCode.WRONG_INPUT
        except KeyboardInterrupt as interrupt:
            on_the_way_out()
            say("Interrupted; nothing was saved.")
            code = code_of(interrupt)
        except Exception as error:
            code = report(error)
        raise SystemExit(int(code))

    return run


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print warnings as messages, each once and without lines of source code; items without known features are counted
    and told at the end."""
    n_unknown, said = 0, set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **how: Any) -> None:
        nonlocal n_unknown
        if isinstance(message, UnknownFeaturesWarning) and message.n_items:
            n_unknown += message.n_items
        elif str(message) not in said:
            said.add(str(message))
            say(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", CrfqnWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
    if n_unknown:
        say(f"Warning: {n_unknown:,} items have no feature that the model knows")


def report(error: Exception) -> ExitCode:
    if os.environ.get("CRFQN_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, CrfqnError):
        say(f"crfqn: {by_options(str(error))}")
        return ExitCode.NO_DATA if isinstance(error, DataUnavailableError) else ExitCode.WRONG_INPUT
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] != "crfqn":
        say(f"crfqn: the module {error.name!r} is not installed: pip install crfqn {FEW_PACKAGES}")
        return ExitCode.WRONG_INPUT
    say(f"crfqn: unexpected error: {type(error).__name__}: {error}")
    say("Please report it with the traceback, which CRFQN_DEBUG=1 in the environment shows.")
    return ExitCode.UNEXPECTED


def by_options(message: str) -> str:
    """Return a message about a recipe that options made, which names its keys, with the names of the options."""

    def option(match: re.Match[str]) -> str:
        section, name, value = match.groups()
        name = section if name in (None, "kind") else OPTION_OF.get(name, name)
        return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")

    def refused(match: re.Match[str]) -> str:
        name = OPTION_OF.get(match[1], match[1]).replace("_", "-")
        return f"does not take --{name} {match[2].strip()}"

    start, is_of_options, text = message.partition(f"{SOURCE}: ")
    if not is_of_options or "\n" in start:
        return message
    text = re.sub(r"has an unknown key: (\w+) = ([^;(]+)(.*)", refused, KEY.sub(option, text))
    return re.sub(r'"([\w.-]+)"', r"\1", text) if text.startswith("--") else text


def end_process(code: int) -> None:
    """End at once, without Python's own end, in which a second signal would kill the process with another code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # closed, or none
            stream.flush()
    os._exit(code)
