"""The command of a study, and the folder of its results: whole files or none, and one page over all there is.

`page.md` says what each command has found; a command replaces its own sections and leaves the others. Called again, it
does not measure the sections that the folder has of the same commit and options, and of the section in which it was
stopped none of the runs that had ended.
"""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from crfqn.errors import CrfqnError, DataError, InputError
from crfqn.plot.canvas import check_matplotlib
from harness.drawing import Panel, draw
from harness.measuring import say
from harness.options import as_options
from harness.report import Record, Table, commit, machine, write_json

PAGE, SECTIONS, OPTIMA = "page.md", "sections.json", "optima.json"
LIBRARIES = ("crfqn", "numba", "numpy", "scipy", "scikit-learn", "matplotlib")
BAD_INPUT, NO_DATA, INTERRUPTED = 2, 3, 130


@contextmanager
def explaining() -> Iterator[None]:
    """Say why in a line instead of a trace-back, and leave with the code that belongs to it."""
    try:
        yield
    except CrfqnError as error:
        print(error, file=sys.stderr)
        raise SystemExit(NO_DATA if isinstance(error, DataError) else BAD_INPUT) from None
    except KeyboardInterrupt:
        print("interrupted: what was finished before is in the folder", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


@dataclass(frozen=True)
class Optimum:
    """The best value seen of a problem, and the model that has it.

    `lower_bound` is proved; `fingerprint` is that of the training items: another cut of the data is another problem.
    """

    fingerprint: str
    value: float
    lower_bound: float
    found_by: str
    n_nonzero: int
    accuracy: float

    @property
    def gap(self) -> float:
        """How far the value can be above the true optimum, relative."""
        return max(self.value - self.lower_bound, 0.0) / self.value


def better(first: Optimum, second: Optimum) -> Optimum:
    """The lower value, with the better of the bounds."""
    best = second if second.value < first.value else first
    return replace(best, lower_bound=max(first.lower_bound, second.lower_bound))


@dataclass(frozen=True)
class Section:
    """A figure or table on the page: `order` sorts, `command` has made it on `machine`; `key`: commit and options."""

    order: int
    title: str
    command: str
    machine: str
    text: str
    key: str = ""


@dataclass(frozen=True)
class Page:
    """How a study's page begins, and which command makes its sections, in their order."""

    title: str = "A study"
    introduction: str = ""
    script: str = ""
    order: Sequence[str] = ()

    def names(self, kind: str) -> list[str]:
        """The numbers of the figures or of the tables."""
        return [name.partition("-")[2] for name in self.order if name.startswith(kind)]


class Folder:
    """Where a study's results go, made if it is not there; `options` of the command are told on the page.

    more : other options on which sections depend
    """

    def __init__(self, path: Path, page: Page, options: str = "", more: str = "") -> None:
        self.path, self.page, self.options = path, page, options
        version = commit()
        self.key = f"{version}{options}{more}" if version and not version.endswith("+") else ""
        self.runs = path / f"runs-{shortened(self.key)}"  # of sections that have not come to their end
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path}: expected a folder to write into: {error.strerror}") from None
        self.optima = {key: Optimum(**entry) for key, entry in self._read(OPTIMA).items()}

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise InputError(f"{path}: expected JSON that this program has written; move it away")
        return content

    def has(self, name: str) -> bool:
        """Whether a section was made by this commit with these options."""
        return bool(self.key) and self._read(SECTIONS).get(name, {}).get("key") == self.key

    def once(self, name: str, run: Callable[..., Any], *arguments: Any) -> Any:
        """Return run(*arguments), or what a run of this name returned before, of this commit and options."""
        file = self.runs / f"{shortened(name)}.pickle"
        if self.key and file.exists():
            say(f"  {name}: {self.runs} has it")
            return pickle.loads(file.read_bytes())
        answer = run(*arguments)
        if self.key:
            self.runs.mkdir(exist_ok=True)
            with self.all_or_nothing(self.runs) as stage:
                (stage / file.name).write_bytes(pickle.dumps(answer))
        return answer

    @contextmanager
    def all_or_nothing(self, folder: Path | None = None) -> Iterator[Path]:
        """A folder for new files; they come into this one, or another, when the block ends well, else none does."""
        stage = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=self.path))
        try:
            yield stage
            for file in sorted(stage.iterdir()):
                os.replace(file, (folder or self.path) / file.name)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def remember(self, key: str, optimum: Optimum) -> None:
        """Keep what is known of an optimum."""
        self.optima[key] = optimum
        with self.all_or_nothing() as stage:
            write_json(stage / OPTIMA, {name: asdict(entry) for name, entry in self.optima.items()})

    def publish(
        self, name: str, title: str, tables: Sequence[Table], notes: Sequence[str] = (), *,
        records: Sequence[Record] = (), panels: Sequence[Panel] = (),
        extra: str = "", **drawing: Any,
    ) -> None:  # fmt: skip
        """Make the files of a figure or table, all or none, and its section of the page.

        name : "figure-2", which option `--figure 2` of the command makes
        records : of its CSV file; panels : of its SVG file
        extra : options of the command besides
        """
        command = f"python scripts/{self.page.script} --{name.replace('-', ' ')}{extra}{self.options}"
        label = name.capitalize().replace("-", " ")
        with self.all_or_nothing() as stage:
            text = []
            if panels:
                draw(panels, stage / f"{name}.svg", **drawing)
                text.append(f"![{label}]({name}.svg)")
            if records:
                write_records(stage / f"{name}.csv", records)
            text += [table.markdown(3) for table in tables] + ["\n".join(f"- {note}" for note in notes)]
            order, whole = self.page.order.index(name), "\n\n".join(text).rstrip()
            title = f"{label}: {title}" if "-" in name else title
            self.add(name, Section(order, title, command, facts(), whole, self.key), stage)
        say(f"  {self.path / PAGE}: {title}")

    def add(self, name: str, section: Section, stage: Path) -> None:
        """Write the page anew, with a section, into `stage`."""
        sections = self._read(SECTIONS) | {name: asdict(section)}
        write_json(stage / SECTIONS, sections)
        page = [f"# {self.page.title}", self.page.introduction]
        for entry in sorted((Section(**each) for each in sections.values()), key=lambda each: each.order):
            page += [f"## {entry.title}", f"    {entry.command}", entry.text, entry.machine]
        (stage / PAGE).write_text("\n\n".join(page) + "\n", encoding="utf-8")


class Publisher:
    """Makes the figures and tables of a study: its methods `figure` and `table` take the number."""

    page: ClassVar[Page]

    def open(self, path: Path, more: str = "", **options: Any) -> None:
        """Make the folder; options as the page tells them."""
        check_matplotlib()
        self.folder = Folder(path, self.page, as_options(**options), more)

    def make(
        self, figures: Sequence[str] | None, tables: Sequence[str] | None, *more: str, left_out: str = ""
    ) -> None:
        """What was chosen, in the order of the page; without a choice all but one."""
        chosen = {
            *(f"figure-{each}" for each in figures or ()),
            *(f"table-{each}" for each in tables or ()),
            *more,
        }
        for name in self.page.order:
            if name in chosen or not (chosen or name == left_out):
                say(name.capitalize().replace("-", " "))
                if self.folder.has(name):
                    say(f"  {self.folder.path / PAGE} has it")
                    continue
                kind, *number = name.split("-", 1)
                getattr(self, kind)(*number)
        shutil.rmtree(self.folder.runs, ignore_errors=True)


def shortened(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def facts() -> str:
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in machine(LIBRARIES).items()) + "."


def write_records(file: Path, records: Sequence[Record]) -> None:
    """A CSV file; what is not known is left empty."""

    def cell(value: Any) -> Any:
        if isinstance(value, np.generic) and isfinite(value):
            return value.item()
        return "" if value != value else value

    with file.open("w", newline="", encoding="utf-8") as lines:
        out = csv.writer(lines)
        out.writerow(records[0])
        out.writerows([*map(cell, each.values())] for each in records)
