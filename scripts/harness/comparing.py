"""Comparisons: cases that are measured once and kept as JSON lines, and the sections of a page that are made of them.

A line has the case (its data and options), what was measured, the commit, the processor, threads, versions of the
libraries, and a fingerprint of the data. Called again, a comparison does not measure what its file has of this commit.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from crfqn.errors import CrfqnError, DataUnavailableError, InputError
from harness.drawing import Panel
from harness.judging import Judged
from harness.measuring import run_within, say, seconds_of_children
from harness.problems import Run
from harness.report import Record, Table, median, plain, provenance

LONG_TURN = 30.0  # processor seconds; a run that takes more is made once


@dataclass(frozen=True)
class Ratio:
    """How many times as much a peer takes as crfqn; command : makes it anew in minutes, for the README."""

    what: str
    value: float
    ours: str
    peer: str
    command: str = ""

    @property
    def figure(self) -> str:
        """The value in two digits, as 0.96, 2.4 or 150."""
        return np.format_float_positional(self.value, 2, fractional=False, trim="-")


@dataclass(frozen=True)
class Section:
    """What a comparison puts on the page; panels : of each picture, by its name."""

    tables: Sequence[Table]
    ratios: Sequence[Ratio] = ()
    notes: Sequence[str] = ()
    panels: Mapping[str, Sequence[Panel]] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A comparison: its name, what the page says of it, and the section that its records make.

    libraries : whose versions are noted
    commands : options of the commands on the page, "" for none
    """

    name: str
    title: str
    about: str
    libraries: Sequence[str]
    section: Callable[[list[Record]], Section]
    commands: Sequence[str] = ("",)

    def measure(self, task: Callable[..., Record], cases: Iterable[Record], folder: Path | None) -> None:
        """Call the task with the values of each case, unless the folder has it, and print the section."""
        results = Results(self, folder)
        for case in cases:
            results.case(case, partial(task, *case.values()))
        results.finish()

    def markdown(self, lines: Sequence[Record], links: Mapping[str, str] | None = None) -> str:
        """Return the section of the page; links : the line of each picture, by its name."""
        section = self.section([line["case"] | line["measured"] for line in lines])
        commands = [
            f"    python scripts/benchmark.py {self.name} {words}".rstrip() for words in self.commands
        ]
        parts = [f"## {self.title}", "\n".join(commands), self.about]
        if section.ratios:
            rows = [[each.figure, each.what, each.ours, each.peer] for each in section.ratios]
            parts.append(Table("", ["ratio", "", "crfqn", "peer"], rows).text())
        parts += [links[name] for name in section.panels if links and name in links]
        parts += [table.markdown(3) for table in section.tables]
        parts += ["\n".join(f"- {note}" for note in section.notes)] if section.notes else []
        for facts in {json.dumps(line["facts"]): line["facts"] for line in lines}.values():
            parts.append(
                "Measured with " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "."
            )
        return "\n\n".join(parts) + "\n"


class Results:
    """The lines of a comparison, kept in a file of a folder where one is given."""

    def __init__(self, comparison: Comparison, folder: Path | None) -> None:
        self.comparison, self.lines, self.failed = comparison, list[Record](), list[str]()
        self.file = None if folder is None else folder / f"{comparison.name}.jsonl"
        self.facts, self.known = provenance(comparison.libraries), dict[str, Record]()
        version = self.facts["commit"]
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if version and not version.endswith("+"):  # of files that have changed since nothing is known
                lines = [line for line in read_lines(self.file) if line["facts"]["commit"] == version]
                self.known = {key_of(line): line for line in lines}

    def case(self, case: Record, measure: Callable[[], Record]) -> Record | None:
        """Return a case with what was measured, now or before; None: its data or a library are not on this machine,
        or it failed, which `finish` reports.

        What `measure` returns under "data" is the fingerprint of the data.
        """
        line = plain({"comparison": self.comparison.name, "case": case})
        words = ", ".join(map(str, case.values()))
        if key_of(line) in self.known:
            say(f"{self.comparison.name}: {self.file} has {words}")
            line = self.known[key_of(line)]
        else:
            say(f"{self.comparison.name}: {words}")
            try:
                measured = measure()
            except (DataUnavailableError, ImportError) as error:
                say(f"left out: {error}")
                return None
            except Exception:  # a library's; the other cases are measured all the same
                say(traceback.format_exc())
                self.failed.append(words)
                return None
            line |= plain({"data": measured.pop("data", ""), "facts": self.facts, "measured": measured})
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line) + "\n")
        self.lines.append(line)
        return line["case"] | line["measured"]

    def finish(self) -> None:
        """Print the section that the cases make."""
        if self.lines:
            print(self.comparison.markdown(self.lines))
        elif not self.failed:
            raise InputError(f"{self.comparison.name}: nothing was measured")
        if self.failed:
            raise CrfqnError(f"{self.comparison.name}: not measured: {'; '.join(self.failed)}")


def key_of(line: Record) -> str:
    return json.dumps(line["case"], sort_keys=True)


def read_lines(file: Path) -> list[Record]:
    """The lines of a file, the latest of each case; none where there is no file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    records = {}
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            records[key_of(line)] = line
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{file}, line {number}: expected a case in JSON, got {text[:60]!r}") from error
    return [*records.values()]


def by_turns(
    tasks: Mapping[str, Callable[[], Any]], turns: int, limit: float | None = None
) -> dict[str, list[Any]]:
    """Return what the tasks return, each in a process of its own, one after the other, so many turns.

    A task that is not ready within the limit of processor seconds has an empty list; it and one that takes more than
    LONG_TURN get no other turn.
    """
    answers: dict[str, list[Any]] = {name: [] for name in tasks}
    again = set(tasks)
    for turn, (name, task) in product(range(turns), tasks.items()):
        if name in again:
            begin = seconds_of_children()
            answer = run_within(limit, task)
            seconds = seconds_of_children() - begin
            say(
                f"  {name}, turn {turn + 1} of {turns}: "
                + ("not ready" if answer is None else f"{seconds:.1f} s")
            )
            answers[name] += [] if answer is None else [answer]
            if answer is None or seconds > LONG_TURN:
                again.discard(name)
    return answers


# ---- libraries on one problem


def library(judged: Judged, runs: Sequence[Run], targets: Mapping[str, float], **more: Any) -> Record:
    """Return a record of a library: processor seconds of its runs to objectives, and what the judge says of a model."""
    run, verdict = judged
    to = {name: [run.seconds_to(value) for run in runs] for name, value in targets.items()}
    record = {
        "name": run.name, "seconds_to": to, "seconds": [float(run.seconds[-1]) for run in runs],
        "iterations": int(run.iterations[-1]), "passes": run.passes, "objective": verdict.objective,
        "reported": float(run.values[-1]), "gap": run.facts.get("gap"), "n_nonzero": run.n_nonzero,
        "accuracy": verdict.accuracy, "bytes": run.facts.get("file_bytes"),
        "rate": run.facts.get("tokens_per_second"), "peak_bytes": run.peak_bytes,
    }  # fmt: skip
    return record | more


def seconds_to(record: Record, target: str) -> list[float]:
    """The seconds of a library's runs to a target; none where one did not reach it."""
    seconds = record["seconds_to"].get(target, [])
    return [] if None in seconds else seconds


def ratios_to(
    what: str, ours: Record, peer: Record, commands: Mapping[str, str] | None = None
) -> list[Ratio]:
    """The median of the turns' ratios for each target that both reached; commands : of the README, by target."""
    ratios: list[Ratio] = []
    for target in ours["seconds_to"]:
        seconds = [seconds_to(each, target) for each in (ours, peer)]
        if all(seconds):
            value = float(np.median(np.divide(seconds[1], seconds[0])))
            mine, other = (f"{median(each)} s" for each in seconds)
            words = f"{what}, seconds to {target}", value, mine, f"{peer['name']}: {other}"
            ratios.append(Ratio(*words, command=(commands or {}).get(target, "")))
    return ratios


def libraries_table(title: str, records: Iterable[Record], notes: Sequence[str] = ()) -> Table:
    """A library a row: median seconds to each target, and the model; columns that no library has are left out."""
    rows = [*records]
    targets = dict.fromkeys(target for record in rows for target in record["seconds_to"])

    def cell(name: str, form: str, unit: float = 1.0) -> Callable[[Record], str]:
        return lambda record: "" if record.get(name) is None else format(record[name] / unit, form)

    columns: dict[str, Callable[[Record], str]] = {"": lambda record: record["name"]}
    for target in targets:
        columns[f"s to {target}"] = lambda record, target=target: median(seconds_to(record, target))  # type: ignore[misc]
    columns |= {
        "whole fit, s": lambda record: median(record["seconds"]),
        "iterations": cell("iterations", ".0f"), "passes": cell("passes", ".1f"),
        "objective": cell("objective", ",.3f"), "certified gap": cell("gap", ".1e"),
        "non-zeros": cell("n_nonzero", ",.0f"),
        "test accuracy": cell("accuracy", ".4f"), "F1": cell("f1", ".4f"),
        "file, kB": cell("bytes", ",.0f", 1e3), "words labelled a second": cell("rate", ",.0f"),
        "peak memory, MB": cell("peak_bytes", ",.0f", 1e6),
    }  # fmt: skip
    return Table.from_rows(title, columns, rows, notes).without_empty_columns()
