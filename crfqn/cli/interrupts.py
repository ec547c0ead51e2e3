"""Ctrl-C and SIGTERM while a command trains: the iteration is finished, and the best model so far is kept.

The first signal asks the training to stop, through its callback; the second one stops it at once. Outside the
training a signal is an ordinary KeyboardInterrupt.
"""

import signal
import threading
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from crfqn.cli.exits import ExitCode, check_signals, raise_signal, received, say


class Interrupts:
    """Context manager that takes over SIGINT and SIGTERM.

    Attributes
    ----------
    number : int or None
        The signal that came while training.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._is_training = False
        self._is_saving = False
        self._previous: dict[int, Any] = {}

    @property
    def is_requested(self) -> bool:
        """Whether a signal came while training."""
        return self.number is not None

    @property
    def code(self) -> ExitCode:
        """The exit code of an interrupted command."""
        return ExitCode.TERMINATED if self.number == signal.SIGTERM else ExitCode.INTERRUPTED

    @contextmanager
    def training(self) -> Any:
        """Return a context manager for the training, in which the first signal is only noted."""
        check_signals()
        self._is_training = True
        try:
            yield
        finally:
            self._is_training = False

    @contextmanager
    def saving(self) -> Any:
        """Return a context manager for the short time of saving, in which signals have no effect but to be noted."""
        self._is_saving = True
        try:
            yield
        finally:
            self._is_saving = False

    def __enter__(self) -> "Interrupts":
        check_signals()
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if isinstance(error, KeyboardInterrupt):  # nobody has swallowed it
            received.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_saving:
            self.number = number
        elif self._is_training and not self.is_requested:
            self.number = number
            say(
                "\nStopping after this iteration; the best model so far, if any, will be saved. Again: at once."
            )
        else:
            raise_signal(number)
