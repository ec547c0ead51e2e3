"""Parser of the log of a training, as CRFsuite's command line and `Trainer` write it.

A line is given to `feed`, which returns the name of the event that the line completes; `last_log` is the event's text.
The stages of a log: feature generation, the optimizer's parameters, iterations, storing the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from crfqn.compat.tagger import LabelScore

PROGRESS_MARKS = {".", *map(str, range(11))}  # of feature generation, one for each 2 %
PERCENT_PER_MARK = 2  # CRFsuite writes 51 marks from 0 to 100 %
EVENTS_BEFORE_LINE = ("prepared", "optimization_end")  # their text ends before the line that completes them
ITERATION_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
SECONDS_PATTERN = re.compile(r"Seconds required: (\d+\.\d+)")
FIGURE_PATTERNS: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("loss", r"Loss: (-?\d+\.\d+)", float),
    ("feature_norm", r"Feature norm: (\d+\.\d+)", float),
    ("error_norm", r"Error norm: (\d+\.\d+)", float),
    ("active_features", r"Active features: (\d+)", int),
    ("linesearch_trials", r"Line search trials: (\d+)", int),
    ("linesearch_step", r"Line search step: (\d+\.\d+)", float),
    ("time", r"Seconds required for this iteration: (\d+\.\d+)", float),
)
MEANS_PATTERN = re.compile(r"Macro-average precision, recall, F1: \((\S+), (\S+), (\S+)\)")
SHARE_PATTERN = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
SCORE_PATTERN = re.compile(r"\s{4}(.+): \((\d+), (\d+), (\d+)\) \((\S+), (\S+), (\S+)\)")
NO_RATE = "******"  # of a label without any true position


class TrainLogParser:
    """Parser of a training log.

    Attributes
    ----------
    state : the stage of the log, None before the first line
    featgen_num_features, featgen_seconds, training_seconds, storing_seconds : int and float, None until they are read
    featgen_percent : int
    iterations : list of dict, with `num`, `scores` by label and the figures of the iteration's lines
    last_iteration : dict, the last of them; None without any
    log : list of str, all lines
    events : list of (name, first line, line after the last)
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -PERCENT_PER_MARK
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    @property
    def last_log(self) -> str:
        """The text of the last event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])

    def feed(self, line: str) -> str | None:
        """Read a line, with its end; return the event that it completes: "start", "featgen_progress", "featgen_end",
        "prepared", "prepare_error", "iteration", "optimization_end", "end" or None."""
        event = self._read(line)
        self.log.append(line)
        if event is not None:
            start = self.events[-1][2] if self.events else 0
            self.events.append((event, start, len(self.log) - (event in EVENTS_BEFORE_LINE)))
        return event

    def _read(self, line: str) -> str | None:
        """Read a line in the present stage; return the event that it completes."""
        if self.state in (None, "STARTING"):
            event = "start" if self.state is None else None
            self.state = "FEATGEN" if line.startswith("Feature generation") else "STARTING"
            return event
        if self.state == "FEATGEN":
            return self._read_generation(line)
        if self.state == "ITERATION":
            return self._read_iteration(line)
        if self.state == "STORING":
            seconds = SECONDS_PATTERN.match(line)
            self.storing_seconds = float(seconds[1]) if seconds else self.storing_seconds
            return "end" if line == "\n" else None
        head = ITERATION_HEAD.match(line)
        if head:
            event = "prepared" if self.state == "AFTER_FEATGEN" else None
            self.state, self.last_iteration = "ITERATION", {"num": int(head[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            return event
        if self.state == "AFTER_FEATGEN" and "terminated" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error" if "error" in line else "prepared"
        seconds = re.match(r"Total seconds required for training: (\d+\.\d+)", line)
        self.training_seconds = float(seconds[1]) if seconds else self.training_seconds
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _read_generation(self, line: str) -> str | None:
        if line in PROGRESS_MARKS:
            self.featgen_percent += PERCENT_PER_MARK
            return "featgen_progress"
        number, seconds = re.match(r"Number of features: (\d+)", line), SECONDS_PATTERN.match(line)
        if number:
            self.featgen_num_features = int(number[1])
        if not seconds:
            return None
        self.featgen_seconds, self.state = float(seconds[1]), "AFTER_FEATGEN"
        return "featgen_end"

    def _read_iteration(self, line: str) -> str | None:
        if line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        figures: dict[str, Any] = self.iterations[-1]
        for key, pattern, kind in FIGURE_PATTERNS:
            if match := re.match(pattern, line):
                figures[key] = kind(match[1])
        if match := MEANS_PATTERN.match(line):
            names = ("avg_precision", "avg_recall", "avg_f1")
            figures.update(zip(names, map(float, match.groups()), strict=True))
        elif match := SHARE_PATTERN.match(line):
            name, share = f"{match[1].lower()}_accuracy", Fraction(int(match[2]), int(match[3]))
            figures |= {name: share, f"{name}_float": float(share)}
        elif match := SCORE_PATTERN.match(line):
            label, *columns = match.groups()
            rates = [None if text == NO_RATE else float(text) for text in columns[3:]]
            figures["scores"][label] = LabelScore(*map(int, columns[:3]), *rates)
        return None
