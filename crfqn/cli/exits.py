"""How commands end: exit codes, Ctrl-C and SIGTERM, and one sentence instead of a traceback for users' mistakes.

`CRFQN_DEBUG=1` shows the traceback as well. A closed pipe (`| head`) is no error. While a command trains, the first
signal makes the training's callback stop it, with the best model so far; the second signal ends the command without
saving. Outside of training a signal is an ordinary KeyboardInterrupt.
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
from types import FrameType

from crfqn.cli.output import command_files, say
from crfqn.data_options import COMMAND_LINE, DATA_OPTIONS
from crfqn.errors import CrfqnError, CrfqnWarning, DataUnavailableError, UnknownFeaturesWarning
from crfqn.time_limit import end_computations

RECIPE_KEY = re.compile(
    r'\[(features|structure|data|objective|solver)\](?: (?!lacks|needs|has|with)(\w+))?(?: = "?([^":;\s]+)"?)?'
)
FEW_PACKAGES = (
    "(for `crfqn.Tagger` numpy, safetensors and lazy-loader are enough, for `crfqn predict` these and typer)"
)
# Names of options by key of recipes.
OPTION_OF = {row.key: name for name, row in DATA_OPTIONS.items()} | {"name": "solver"}


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
    """Raised for SIGTERM, which ends a command as Ctrl-C does but with another exit code."""


def exit_code(interrupt: KeyboardInterrupt) -> ExitCode:
    """Return the exit code of an interrupt."""
    return ExitCode.TERMINATED if isinstance(interrupt, Terminated) else ExitCode.INTERRUPTED


def is_caused_by_sigterm(error: BaseException | None) -> bool:
    """Return whether an exception is Terminated, or was raised while Terminated was handled."""
    while error is not None and not isinstance(error, Terminated):
        error = error.__context__
    return error is not None


# Signals that have raised an exception; code in an import or a finalizer may have caught the exception.
received: list[int] = []


def raise_signal(number: int, frame: object = None) -> None:
    """Handle SIGINT or SIGTERM: note the signal and raise an exception."""
    received.append(number)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def check_signals() -> None:
    """Raise the exception of a signal again if other code has caught it."""
    if received:
        raise_signal(received[0])


def exit_at_next_signal() -> None:
    """Let the next signal end the process immediately, because the command is ending already."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: os._exit(128 + number))


class Interrupts:
    """Context manager that handles SIGINT and SIGTERM.

    is_requested : whether a signal came during training or saving
    code : the exit code of the interrupted command
    """

    def __init__(self) -> None:
        self.is_requested, self.code = False, ExitCode.INTERRUPTED
        self._has_trained = False
        self._phase = ""
        self._previous: dict[
            int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None
        ] = {}

    def stops(self, record: object) -> bool:
        """Return whether to stop training; the callback of all trainings of a command."""
        self._has_trained = True
        return self.is_requested

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Enter the phase "training" or "saving".

        In training, the first signal is noted and ends a step that takes long; before the first step, when there is no
        model to keep, it raises. While saving, all signals are only noted.
        """
        if phase == "training":
            check_signals()
        self._phase = phase
        try:
            yield
        finally:
            self._phase = ""

    def __enter__(self) -> "Interrupts":
        check_signals()
        if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if isinstance(error, KeyboardInterrupt):  # it was not caught inside
            received.clear()

    def _handle(self, number: int, frame: object) -> None:
        if self._phase != "saving" and (self._phase != "training" or self.is_requested):
            raise_signal(number)
        if self._phase == "training" and not end_computations() and not self._has_trained:
            raise_signal(number)  # the data are being prepared
        self.is_requested = True
        self.code = ExitCode.TERMINATED if number == signal.SIGTERM else ExitCode.INTERRUPTED
        if self._phase == "training":
            say("\nStopping; the best model so far, if any, will be saved. Again: stop without saving.")


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Make a command of `function`, whose return value, or the error that it raises, determines the exit code."""

    @wraps(function)
    def run(*arguments: object, **options: object) -> None:
        try:
            command_files.begin()
            with shown_warnings():
                code = function(*arguments, **options) or ExitCode.OK
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            code = ExitCode.OK
        except CrfqnError as error:  # before OSError: ModelFileMissingError is both
            code = report_error(error)
        except OSError as error:
            say(f"crfqn: cannot write: {error.strerror or error}")
            code = ExitCode.WRONG_INPUT
        except KeyboardInterrupt as interrupt:
            exit_at_next_signal()
            say("Interrupted; nothing was saved.")
            code = exit_code(interrupt)
        except Exception as error:
            code = report_error(error)
        raise SystemExit(int(code))

    return run


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print warnings as messages, each once and without lines of source code; at the end, print the number of items
    without known features."""
    n_unknown, said = 0, set()

    def show(message: Warning | str, category: type[Warning], *place: object, **options: object) -> None:
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


def report_error(error: Exception) -> ExitCode:
    """Print an error in one sentence and return its exit code."""
    if os.environ.get("CRFQN_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, CrfqnError):
        say(f"crfqn: {with_option_names(str(error))}")
        return ExitCode.NO_DATA if isinstance(error, DataUnavailableError) else ExitCode.WRONG_INPUT
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] != "crfqn":
        say(f"crfqn: the module {error.name!r} is not installed: pip install crfqn {FEW_PACKAGES}")
        return ExitCode.WRONG_INPUT
    say(f"crfqn: unexpected error: {type(error).__name__}: {error}")
    say("Please report it with the traceback, which CRFQN_DEBUG=1 in the environment shows.")
    return ExitCode.UNEXPECTED


def with_option_names(message: str) -> str:
    """Return a message about a recipe made from options, with the names of options instead of the recipe's keys."""

    def option(match: re.Match[str]) -> str:
        section, name, value = match.groups()
        name = section if name in (None, "kind") else OPTION_OF.get(name, name)
        return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")

    def refused(match: re.Match[str]) -> str:
        name = OPTION_OF.get(match[1], match[1]).replace("_", "-")
        return f"does not take --{name} {match[2].strip()}"

    start, is_of_options, text = message.partition(f"{COMMAND_LINE}: ")
    if not is_of_options or "\n" in start:
        return message
    text = re.sub(r"has an unknown key: (\w+) = ([^;(]+)(.*)", refused, RECIPE_KEY.sub(option, text))
    return re.sub(r'"([\w.-]+)"', r"\1", text) if text.startswith("--") else text


def end_process(code: int) -> None:
    """End the process without Python's finalization, during which a second signal would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # closed, or None
            stream.flush()
    os._exit(code)
