"""The progress display: few lines in a log, a live line on a terminal, nothing on stdout."""

import io
import math
from dataclasses import dataclass

import numba
import pytest
from rich.console import Console

from crfqn.progress import ProgressDisplay, format_record, heading, telling_of_compilation


@dataclass(frozen=True)
class StandIn:
    iteration: int = 3
    value: float = 54880.5674
    gap: float = 0.00123
    violation: float = 0.5
    n_active: int = 12345
    n_nonzero: int = 2415
    seconds: float = 1.0
    passes: float = 7.5
    is_screening: bool = False
    sample_fraction: float = 1.0
    n_wrong: int | None = None
    estimated_gap: float = 0.00045
    held_out_score: float = math.nan
    n_bytes: int = 0


def log_console():
    return Console(file=io.StringIO(), width=80)


def terminal_console(width=120):
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False
    )


def run(console, seconds):
    with ProgressDisplay(console) as display:
        for iteration, second in enumerate(seconds):
            display(StandIn(iteration=iteration, seconds=second))
    return console.file.getvalue()


def test_a_line_has_every_field():
    line = format_record(StandIn())
    numbers = ["3", "54,880.567", "1.2e-03", "4.5e-04", "5.00e-01", "12,345", "2,415", "7.5", "1.00"]
    assert line.split() == numbers
    assert len(line) == len(heading()) < 80


def test_a_sample_shows_its_fraction_and_an_estimate():
    fields = format_record(StandIn(sample_fraction=1 / 16, value=4750.0)).split()
    assert fields[:2] == ["1/16", "~76,000"]


def test_unknown_gap_is_a_dash():
    assert format_record(StandIn(gap=math.nan)).split()[2] == "-"


def test_a_log_has_whole_lines_in_a_narrow_console():
    text = run(log_console(), [0.0])
    assert text.splitlines() == [heading(), format_record(StandIn(iteration=0, seconds=0.0))]


@pytest.mark.parametrize(("duration", "most"), [(0.4, 3), (10, 16), (1000, 40), (36000, 640)])
def test_the_rate_is_sensible(duration, most):
    lines = run(log_console(), [duration * step / 20000 for step in range(20001)]).splitlines()
    assert 2 <= len(lines) <= most + 1
    assert lines[1].split()[0] == "0"
    assert lines[-1].split()[0] == "20000"


def test_the_last_record_is_shown_once():
    assert len(run(log_console(), [0.0, 0.1, 0.2]).splitlines()) == 3
    assert len(run(log_console(), [0.0, 5.0]).splitlines()) == 3


def test_no_records_no_output():
    assert run(log_console(), []) == ""


def test_terminal_shows_a_live_line():
    text = run(terminal_console(), [0.0, 0.2, 0.4, 5.0])
    assert "\x1b[?25l" in text  # the cursor is hidden ...
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # ... and comes back
    assert format_record(StandIn(iteration=1, seconds=0.2)) in text


def test_narrow_terminal_cuts_lines():
    text = run(terminal_console(width=30), [0.0])
    assert heading()[:27] in text
    assert heading() not in text


def test_the_terminal_comes_back_after_an_error():
    console = terminal_console()

    def interrupted():
        with ProgressDisplay(console) as display:
            display(StandIn())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert console.file.getvalue().rindex("\x1b[?25h") > 0


def test_close_twice():
    console = log_console()
    display = ProgressDisplay(console)
    display(StandIn())
    display.close()
    display.close()
    assert len(console.file.getvalue().splitlines()) == 2


def test_default_goes_to_stderr(capsys):
    with ProgressDisplay() as display:
        display(StandIn())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "54,880.567" in captured.err


def test_epochs_without_a_value_show_their_mistakes():
    line = format_record(StandIn(value=math.nan, gap=math.nan, n_wrong=1234))
    assert "1,234 wrong" in line
    assert "54,880.567" in format_record(StandIn(n_wrong=1234))


def test_the_score_of_validation_items_has_a_column():
    line = format_record(StandIn(held_out_score=0.91237), is_watched=True)
    assert len(line) == len(heading(is_watched=True)) < 80
    assert line[: heading(is_watched=True).index("validation") + 10].endswith("0.9124")
    assert format_record(StandIn(), is_watched=True).split()[4] == "-"


@pytest.mark.parametrize("is_watched", [False, True])
def test_what_crosses_the_wire_has_a_column(is_watched):
    line, head = format_record(StandIn(n_bytes=1_234_567), is_watched, True), heading(is_watched, True)
    assert len(line) == len(head) < 80
    assert line[: head.index("MB/step") + 7].endswith(" 1.235")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_compilation_is_told_on_a_terminal_once(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    kernels = [numba.njit(lambda x: x + 1) for _ in range(2)]
    with telling_of_compilation():
        assert [add(2) for add in kernels] == [3, 3]
    assert capsys.readouterr().err == is_terminal * "compiling, once on this machine ...\n"
