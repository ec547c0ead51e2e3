"""Display of a training's progress, line by line: the callback of `minimize` for `verbose=1` and the command line.

On a terminal a live line below the permanent lines shows the latest state; elsewhere (a log file, a batch job) there
are only permanent lines. Their rate decreases in the course of a run, so that a second and an hour both give a page.
Everything is written to stderr: stdout is for results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crfqn.messages import MESSAGES, tell
from crfqn.result import Progress

if TYPE_CHECKING:
    from rich.console import Console

FIRST_INTERVAL = 0.5  # seconds between lines that stay, at first
INTERVAL_GROWTH = 1.25  # and then each at this multiple of the time of the line before ...
LONGEST_INTERVAL = 60.0  # ... but at least one per minute
REFRESH_INTERVAL = 0.1  # seconds between repaints of the live line


def _number(value: float, pattern: str) -> str:
    return "-" if value != value else format(value, pattern)  # nan: not known yet


def _iteration(record: Progress) -> str:
    """Return the iteration, or the fraction of the items during the warm-up on a sample."""
    return f"{record.iteration:d}" if record.sample_fraction == 1 else f"1/{1 / record.sample_fraction:.0f}"


def _objective(record: Progress) -> str:
    """Return the objective, scaled up and marked as an estimate on a sample, or an epoch's number of mistakes."""
    if record.n_wrong is not None and record.value != record.value:
        return f"{record.n_wrong:,d} wrong"
    return (
        _number(record.value, ",.3f")
        if record.sample_fraction == 1
        else f"~{record.value / record.sample_fraction:,.0f}"
    )


# together 79 wide: they fit a terminal of 80
TRACE_COLUMNS: tuple[tuple[str, int, Callable[[Progress], str]], ...] = (
    ("iter", 5, _iteration),
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
# with a score of validation items, which takes the places of two
WATCHED_COLUMNS = (*TRACE_COLUMNS[:4], VALIDATION_COLUMN, *TRACE_COLUMNS[6:])
BYTES_COLUMN = ("MB/step", 9, lambda record: f"{record.n_bytes / 1e6:,.3f}")


def display_columns(is_watched: bool, is_sent: bool) -> list[Any]:
    """Return the columns of a display; `is_sent`: with the bytes sent in the place of the active weights."""
    columns = WATCHED_COLUMNS if is_watched else TRACE_COLUMNS
    replaced = "non-zero" if is_watched else "active"
    return [BYTES_COLUMN if is_sent and column[0] == replaced else column for column in columns]


def heading(is_watched: bool = False, is_sent: bool = False) -> str:
    """Return the names of the columns as one line."""
    return " ".join(name.rjust(width) for name, width, _ in display_columns(is_watched, is_sent))


HEADING, WATCHED_HEADING = heading(), heading(is_watched=True)


def format_record(record: Progress, is_watched: bool = False, is_sent: bool = False) -> str:
    """Return the record as one line under `HEADING`; a dash is a number not known yet (nan). is_watched :
    whether a score of validation items has a column under `WATCHED_HEADING`; is_sent : as of `display_columns`."""
    columns = display_columns(is_watched, is_sent)
    return " ".join(show(record).rjust(width) for _, width, show in columns)


class ProgressDisplay:
    """Context manager that shows the records that `minimize` passes to its callback on a console, by default on stderr.

    The time between lines is measured by the records' own `seconds`, so a run shows the same lines whatever the display
    costs. On leaving, the last record is shown if it was not yet.
    is_watched, is_sent : whether validation scores, and the bytes sent over the network, have a column.
    """

    def __init__(
        self, console: Console | None = None, is_watched: bool = False, is_sent: bool = False
    ) -> None:
        if console is None:
            from rich.console import Console

            console = Console(file=MESSAGES)  # type: ignore[arg-type]
        self.console, self.kinds = console, (is_watched, is_sent)
        self._live: Any = None
        self._latest: Progress | None = None
        self._latest_stays = False
        self._next_line = 0.0
        self._next_refresh = 0.0
        self._has_heading = False

    def __call__(self, record: Progress) -> None:
        """Show a progress record: in the live line, or in a line that stays."""
        self._latest, self._latest_stays = record, False
        if record.seconds >= self._next_line:
            self._print_latest()
            now = record.seconds
            self._next_line = now + min(max(FIRST_INTERVAL, now * (INTERVAL_GROWTH - 1)), LONGEST_INTERVAL)
        if self._live is not None and record.seconds >= self._next_refresh:
            self._live.update(self._text(format_record(record, *self.kinds)), refresh=True)
            self._next_refresh = record.seconds + REFRESH_INTERVAL

    def __enter__(self) -> ProgressDisplay:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            from rich.live import Live

            # transient: the live line disappears at the end, the lines that stay remain
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
        """Show the last record if it was not yet and give the terminal back; more calls do nothing."""
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

    def _print(self, text: Any) -> None:
        # soft_wrap: a line in a log remains one line, whatever width rich assumes there
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    def _text(self, line: str, style: str = "") -> Any:
        from rich.text import Text

        return Text(line, style=style, no_wrap=True, overflow="crop")


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Print a line on a terminal, once, when a kernel is compiled within: the first training on a machine compiles for
    seconds before it can show anything."""
    if not MESSAGES.isatty():
        yield  # in a log file the line would depend on earlier trainings
        return
    from numba.core.event import Listener, install_listener

    class Teller(Listener):  # type: ignore[misc]
        """Prints at the first compilation."""

        has_told = False

        def on_start(self, event: Any) -> None:
            """Print the line, the first time."""
            if not self.has_told:
                self.has_told = True
                tell("compiling, once on this machine ...")

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    with install_listener("numba:compile", Teller()):
        yield
