"""Displays the progress of a training, line by line: the callback of `minimize` for `verbose=1` and the command line.

On a terminal a live line below the permanent lines shows the latest state; elsewhere (a log file, a batch job) there
are only permanent lines. The time between lines grows during a run, so that a run of a second and one of an hour both
print about a page. Everything is written to stderr, as stdout is for results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crfqn.messages import MESSAGES, tell
from crfqn.result import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

FIRST_INTERVAL = 0.5  # seconds between the first permanent lines
INTERVAL_GROWTH = 1.25  # later, the ratio of the times of successive permanent lines
MAX_INTERVAL = 60.0  # seconds between permanent lines
REFRESH_INTERVAL = 0.1  # seconds between repaints of the live line


def _number(value: float, pattern: str) -> str:
    return "-" if value != value else format(value, pattern)  # nan: not known yet


def _objective(record: Progress) -> str:
    """Return the objective, scaled up and marked as an estimate on a sample, or an epoch's number of mistakes."""
    if record.n_wrong is not None and record.value != record.value:
        return f"{record.n_wrong:,d} wrong"
    return (
        _number(record.value, ",.3f")
        if record.sample_fraction == 1
        else f"~{record.value / record.sample_fraction:,.0f}"
    )


# Name, width and text of each column; together 79 characters wide, for a terminal of 80.
TRACE_COLUMNS: tuple[tuple[str, int, Callable[[Progress], str]], ...] = (
    (  # the iteration, or the fraction of the items in the warm-up on a sample
        "iter",
        5,
        lambda record: (
            f"{record.iteration:d}" if record.sample_fraction == 1 else f"1/{1 / record.sample_fraction:.0f}"
        ),
    ),
    ("objective", 12, _objective),
    ("gap", 7, lambda record: _number(record.gap, ".1e")),
    ("est.gap", 7, lambda record: _number(record.estimated_gap, ".1e")),
    ("violation", 9, lambda record: _number(record.violation, ".2e")),
    ("active", 9, lambda record: f"{record.n_active:,d}"),
    ("non-zero", 8, lambda record: f"{record.n_nonzero:,d}"),
    ("passes", 7, lambda record: _number(record.passes, ",.1f")),
    ("seconds", 7, lambda record: _number(record.seconds, ",.2f")),
)
VALIDATION_COLUMN = ("validation", 10, lambda record: _number(record.held_out_score, ".4f"))
# With a column for the score of validation items instead of two others.
WATCHED_COLUMNS = (*TRACE_COLUMNS[:4], VALIDATION_COLUMN, *TRACE_COLUMNS[6:])
BYTES_COLUMN = ("MB/step", 9, lambda record: f"{record.n_bytes / 1e6:,.3f}")


def display_columns(is_watched: bool, is_sent: bool) -> list[Any]:
    """Return the columns of a display.

    is_watched : with the score of validation items
    is_sent : with the bytes sent by workers, instead of the active weights or, if `is_watched`, the non-zeros
    """
    columns = WATCHED_COLUMNS if is_watched else TRACE_COLUMNS
    replaced = "non-zero" if is_watched else "active"
    return [BYTES_COLUMN if is_sent and column[0] == replaced else column for column in columns]


def heading(is_watched: bool = False, is_sent: bool = False) -> str:
    """Return the names of the columns as one line."""
    return " ".join(name.rjust(width) for name, width, _ in display_columns(is_watched, is_sent))


def format_record(record: Progress, is_watched: bool = False, is_sent: bool = False) -> str:
    """Return the record as one line under `heading`, with a dash for a number that is not known yet (nan); parameters
    as in `display_columns`."""
    columns = display_columns(is_watched, is_sent)
    return " ".join(show(record).rjust(width) for _, width, show in columns)


class ProgressDisplay:
    """Context manager that shows the records which `minimize` passes to its callback, on a console, by default stderr.

    The time between lines is measured by `seconds` of the records, so the time of the display does not change the
    lines. On exit, the last record is shown if it has not been shown.

    is_watched, is_sent : whether validation scores, and the bytes sent over the network, have a column
    """

    def __init__(
        self, console: Console | None = None, is_watched: bool = False, is_sent: bool = False
    ) -> None:
        if console is None:
            from rich.console import Console

            console = Console(file=MESSAGES)  # type: ignore[arg-type]
        self.console, self.kinds = console, (is_watched, is_sent)
        self._live: Live | None = None
        self._latest: Progress | None = None
        self._latest_stays = False
        self._next_line = 0.0
        self._next_refresh = 0.0
        self._has_heading = False

    def __call__(self, record: Progress) -> None:
        """Show a progress record in the live line, or in a permanent line."""
        self._latest, self._latest_stays = record, False
        if record.seconds >= self._next_line:
            self._print_latest()
            now = record.seconds
            self._next_line = now + min(max(FIRST_INTERVAL, now * (INTERVAL_GROWTH - 1)), MAX_INTERVAL)
        if self._live is not None and record.seconds >= self._next_refresh:
            self._live.update(self._text(format_record(record, *self.kinds)), refresh=True)
            self._next_refresh = record.seconds + REFRESH_INTERVAL

    def __enter__(self) -> ProgressDisplay:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            from rich.live import Live

            # transient: the live line disappears at the end, permanent lines remain
            self._live = Live(
                self._text("starting ..."),
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Show the last record if it has not been shown, and restore the terminal; further calls do nothing."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
        if not self._latest_stays:
            self._print_latest()

    def _print_latest(self) -> None:
        if self._latest is None:
            return
        if not self._has_heading:
            self._has_heading = True
            self._print(self._text(heading(*self.kinds), "bold"))
        self._print(self._text(format_record(self._latest, *self.kinds)))
        self._latest_stays = True

    def _print(self, text: Text) -> None:
        # soft_wrap: rich must not wrap the lines of a log file
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    def _text(self, line: str, style: str = "") -> Text:
        from rich.text import Text

        return Text(line, style=style, no_wrap=True, overflow="crop")


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Print one line on a terminal if a kernel is compiled in this context: the first training on a machine compiles
    for seconds before it shows progress."""
    if not MESSAGES.isatty():
        yield  # in a log file the line would depend on earlier trainings
        return
    from numba.core.event import Listener, install_listener

    class Teller(Listener):  # type: ignore[misc]
        """Prints at the first compilation."""

        has_told = False

        def on_start(self, event: object) -> None:
            """Print the line, the first time."""
            if not self.has_told:
                self.has_told = True
                tell("compiling, once on this machine ...")

        def on_end(self, event: object) -> None:
            """Do nothing."""

    with install_listener("numba:compile", Teller()):
        yield
