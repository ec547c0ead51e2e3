"""The folder of results: whole files or none, what is known of the optima, and one page over all that is there.

`page.md` says what each command has found; a command replaces its own sections and leaves the others.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crfqn.errors import InputError

PAGE, SECTIONS, OPTIMA = "page.md", "sections.json", "optima.json"


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
    """A figure or table on the page: `order` sorts, `command` has made it on `machine`."""

    order: int
    title: str
    command: str
    machine: str
    text: str


class Folder:
    """Where results go; `title` and `introduction` open the page."""

    title = "A study"
    introduction = ""

    def __init__(self, path: Path) -> None:
        self.path = path
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

    @contextmanager
    def all_or_nothing(self) -> Iterator[Path]:
        """A folder for new files; they come into this one when the block ends well, else none does."""
        stage = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=self.path))
        try:
            yield stage
            for file in sorted(stage.iterdir()):
                os.replace(file, self.path / file.name)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def remember(self, key: str, optimum: Optimum) -> None:
        """Keep what is known of an optimum."""
        self.optima[key] = optimum
        with self.all_or_nothing() as stage:
            write_json(stage / OPTIMA, {name: asdict(entry) for name, entry in self.optima.items()})

    def add(self, name: str, section: Section, stage: Path) -> None:
        """Write the page anew, with a section, into `stage`."""
        sections = self._read(SECTIONS) | {name: asdict(section)}
        write_json(stage / SECTIONS, sections)
        page = [f"# {self.title}", self.introduction]
        for entry in sorted((Section(**each) for each in sections.values()), key=lambda each: each.order):
            page += [f"## {entry.title}", f"    {entry.command}", entry.text, entry.machine]
        (stage / PAGE).write_text("\n\n".join(page) + "\n", encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
