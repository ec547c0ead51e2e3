"""What a benchmark has to say: figures that were asked for, tables, notes; as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """A promise: what, how much was asked, how much it is, and is that enough (None: not measured)?"""

    what: str
    asked: str
    measured: str
    is_met: bool | None

    def cells(self) -> list[str]:
        return [self.what, self.asked, self.measured, {True: "yes", False: "NO", None: "-"}[self.is_met]]


@dataclass(frozen=True)
class Table:
    """A title, a head, rows of text, and notes underneath."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        text = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"## {self.title}", "", *text, *([""] if notes else []), *notes])


def shown(level: float) -> str:
    """1e-3 rather than 1e-03."""
    return f"{level:.0e}".replace("e-0", "e-")


@dataclass
class Report:
    """Figures (with notes) and tables of a benchmark; `numbers`: the raw measurements, for the JSON file."""

    name: str
    title: str
    libraries: Sequence[str]
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in machine(self.libraries).items())
        cells = [figure.cells() for figure in self.figures]
        asked = Table("Figures", ["what", "asked", "measured", "ok?"], cells, self.notes)
        blocks = [f"# {self.title}", facts, *(table.markdown() for table in [*self.tables, asked])]
        return "\n\n".join(blocks) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write <name>.md and <name>.json; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "name": self.name,
            "machine": machine(self.libraries),
            "figures": [asdict(figure) for figure in self.figures],
            **self.numbers,
        }
        text, numbers = folder / f"{self.name}.md", folder / f"{self.name}.json"
        text.write_text(self.markdown(), encoding="utf-8")
        numbers.write_text(json.dumps(_plain(content), indent=2) + "\n", encoding="utf-8")
        return [text, numbers]


def finish(report: Report, output: Path | None) -> None:
    """Print the tables, and keep them if a folder is given."""
    print(report.markdown())
    if output is not None:
        for path in report.write(output):
            print(f"written: {path}")


def machine(libraries: Sequence[str]) -> dict[str, str]:
    """Processor, cores, and versions of Python and of libraries."""
    facts = {"processor": _processor(), "cores": str(os.cpu_count()), "Python": platform.python_version()}
    for library in libraries:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            facts[library] = "not installed"
    return facts


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON has them; what is not finite, which it has not, is null."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
