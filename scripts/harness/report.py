"""Records of what was measured, and tables of them in Markdown; and where it was measured.

A record is a dict; the records of a study have the same keys.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
MODEL = ("weights", "edges", "predicted")  # too large for a report


def matching(records: Iterable[Record], **values: Any) -> list[Record]:
    """The records with these values."""
    return [each for each in records if all(each[key] == value for key, value in values.items())]


def distinct(records: Iterable[Record], key: str) -> list[Any]:
    """The values of a key, each once, in the order in which they come."""
    return list(dict.fromkeys(each[key] for each in records))


def grouped(records: Iterable[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """The records of each combination of values."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for each in records:
        groups.setdefault(tuple(each[key] for key in keys), []).append(each)
    return groups


def means(records: Iterable[Record], keys: Sequence[str], numbers: Sequence[str]) -> list[Record]:
    """A record for each combination of values, with the means of the numbers."""
    return [
        dict(zip(keys, values, strict=True))
        | {name: float(np.mean([each[name] for each in group])) for name in numbers}
        for values, group in grouped(records, keys).items()
    ]


def lines_of(records: Sequence[Record], name: str, x: str, y: str) -> dict[str, tuple[Any, Any]]:
    """Lines of a panel: y against x for each value of `name`."""
    return {
        value: (np.array([each[x] for each in group]), np.array([each[y] for each in group]))
        for (value,), group in grouped(records, [name]).items()
    }


@dataclass(frozen=True)
class Table:
    """A title, a head, rows of text, and notes underneath."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    @classmethod
    def from_rows(
        cls,
        title: str,
        columns: Mapping[str, Callable[[Any], str]],
        entries: Iterable[Any],
        notes: Sequence[str] = (),
    ) -> Table:
        """A table with a row for each entry, whose cells the columns make of it."""
        rows = [[cell(entry) for cell in columns.values()] for entry in entries]
        return cls(title, [*columns], rows, notes)

    def text(self) -> str:
        """The table alone, in columns of equal width."""
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(text)

    def markdown(self, depth: int = 2) -> str:
        """The table below a heading of this depth, and its notes."""
        notes = ["\n".join(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join([f"{'#' * depth} {self.title}", self.text(), *notes])

    def without_empty_columns(self) -> Table:
        columns = [column for column in zip(self.head, *self.rows, strict=True) if any(column[1:])]
        head, *rows = map(list, zip(*columns, strict=True)) if columns else [list(self.head)]
        return Table(self.title, head, rows, self.notes)


def pivot(
    title: str, records: Sequence[Record], down: str, across: str, cell: Callable[[Any], str],
    notes: Sequence[str] = (),
) -> Table:  # fmt: skip
    """Values of `down` by rows and of `across` by columns, a record a cell; empty where there is none."""
    cells = {(each[down], each[across]): cell(each) for each in records}
    names = distinct(records, across)
    rows = []
    for place in distinct(records, down):
        head = f"{place:g}" if isinstance(place, float | int) else place
        rows.append([head, *(cells.get((place, name), "") for name in names)])
    return Table(title, [down, *map(str, names)], rows, notes)


def shown(level: float) -> str:
    """1e-3 rather than 1e-03."""
    return f"{level:.0e}".replace("e-0", "e-")


def number(value: float | None, form: str = ".2f", missing: str = "-") -> str:
    """The number in this form, or that there is none."""
    return missing if value is None else f"{value:{form}}"


def median(values: Sequence[float], form: str = ".2f") -> str:
    """The median in this form; "-" of no values."""
    return f"{np.median(values):{form}}" if len(values) else "-"


def machine(libraries: Sequence[str]) -> dict[str, str]:
    """Processor, cores, and versions of Python and of libraries."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.processor() or platform.machine())
    n_cores = os.cpu_count() if not hasattr(os, "sched_getaffinity") else len(os.sched_getaffinity(0))
    cores = f"{n_cores} of {os.cpu_count()}"  # that this process may use
    facts = {"processor": processor, "cores": cores, "Python": platform.python_version()}
    for library in libraries:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            facts[library] = "not installed"
    return facts


def commit() -> str:
    """The commit, with a plus where code or data have changed since; empty outside of a checkout."""
    git = ["git", "-C", str(Path(__file__).parents[2])]
    settings: dict[str, Any] = {"capture_output": True, "text": True}
    number = subprocess.run([*git, "rev-parse", "HEAD"], **settings).stdout.strip()
    # Not the results and pages that are made of it.
    code = ["crfqn", "scripts", "models", "data", "pyproject.toml"]
    changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no", "--", *code], **settings)
    return number + "+" * bool(changed.stdout)


def provenance(libraries: Sequence[str]) -> dict[str, str]:
    """The machine, how many threads a process may have, and the commit."""
    n_threads = os.environ.get("NUMBA_NUM_THREADS") or str(len(os.sched_getaffinity(0)))
    return machine(libraries) | {"threads": n_threads, "commit": commit()}


def plain(value: Any) -> Any:
    """Records, NumPy's numbers and arrays as JSON has them, without models and functions; null where not finite."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if is_dataclass(value):
        return plain(vars(value))
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        entries = {name: each for name, each in value.items() if name not in MODEL and not callable(each)}
        return {str(name): plain(each) for name, each in entries.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
