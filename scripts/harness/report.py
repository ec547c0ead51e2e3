"""What a benchmark has to say: promises and whether they are kept, tables, notes; as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from harness.judging import Judged

MODEL = ("weights", "edges", "predicted")  # too large for a report


@dataclass(frozen=True)
class Promise:
    """What, how much was asked, how much it is, and is that enough (None: not measured)?"""

    what: str
    asked: str
    measured: str
    is_met: bool | None

    def cells(self) -> list[str]:
        return [self.what, self.asked, self.measured, {True: "yes", False: "NO", None: "-"}[self.is_met]]


def times(
    what: str, asked: float, ratio: float | None, form: str = ".1f", missing: str = "not measured"
) -> Promise:
    """That a ratio is at least `asked`."""
    measured = missing if ratio is None else f"{ratio:{form}} times"
    return Promise(what, f"{asked:g} times", measured, None if ratio is None else bool(ratio >= asked))


def below(what: str, asked: str, measured: str, value: float, limit: float) -> Promise:
    """That a value is below `limit`, which `asked` writes out."""
    return Promise(what, f"< {asked}", measured, bool(value < limit))


@dataclass(frozen=True)
class Table:
    """A title, a head, rows of text, and notes underneath."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Mapping[str, Callable[[Any], str]],
        entries: Iterable[Any],
        notes: Sequence[str] = (),
    ) -> Table:
        """An entry a row, whose cells the columns make of it."""
        return cls(
            title, [*columns], [[cell(entry) for cell in columns.values()] for entry in entries], notes
        )

    def markdown(self, depth: int = 2) -> str:
        """The table below a heading of this depth."""
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        text = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"{'#' * depth} {self.title}", "", *text, *([""] if notes else []), *notes])


def shown(level: float) -> str:
    """1e-3 rather than 1e-03."""
    return f"{level:.0e}".replace("e-0", "e-")


def number(value: float | None, form: str = ".2f", missing: str = "-") -> str:
    """The number in this form, or that there is none."""
    return missing if value is None else f"{value:{form}}"


def median(values: Sequence[float], form: str = ".2f") -> str:
    """Their median in this form; "-" of none."""
    return f"{np.median(values):{form}}" if len(values) else "-"


@dataclass
class Report:
    """Promises (with notes) and tables of a benchmark; `numbers`: the raw measurements, for the JSON file."""

    name: str
    title: str
    libraries: Sequence[str]
    promises: list[Promise] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in machine(self.libraries).items())
        cells = [promise.cells() for promise in self.promises]
        asked = Table("Figures", ["what", "asked", "measured", "ok?"], cells, self.notes)
        blocks = [f"# {self.title}", facts, *(table.markdown() for table in [*self.tables, asked])]
        return "\n\n".join(blocks) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write <name>.md and <name>.json; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        known = {"name": self.name, "machine": machine(self.libraries), "figures": self.promises}
        text, numbers = folder / f"{self.name}.md", folder / f"{self.name}.json"
        text.write_text(self.markdown(), encoding="utf-8")
        write_json(numbers, _plain(known | self.numbers))
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
    """Records, NumPy's numbers and arrays as JSON has them, without models and functions; what is not finite, which it
    has not, is null."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if is_dataclass(value):
        return _plain(vars(value))
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {
            str(name): _plain(each)
            for name, each in value.items()
            if name not in MODEL and not callable(each)
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Known:
    """What is known from elsewhere and asked at one penalty, for one split of the data.

    peer_iterations : relative distance from the optimum -> the peer's iterations until there
    speed_ups : relative distance -> asked ratio of the peer's seconds to crfqn's
    tail : asked ratio of crfqn's own seconds to 1e-6 and to 1e-3
    """

    optimum: float
    n_nonzero: int
    accuracy: float
    peer_iterations: dict[float, int]
    speed_ups: dict[float, float]
    tail: float | None = None


def model_promises(at: str, judged: Judged, known: Known | None, accuracy_of: str) -> list[Promise]:
    """Is it the optimum, and the model that belongs to it?"""
    (run, verdict), gap = judged, judged.run.facts["gap"]
    certified = below(at + "certified relative gap", "1e-3", f"{gap:.1e}", gap, 1e-3)
    if known is None:
        return [certified]
    excess, accuracy = verdict.objective / known.optimum - 1, verdict.accuracy
    objective, hoped = f"{verdict.objective:,.3f} ({excess:+.1e})", f"{known.optimum:,.3f} within 1e-5"
    is_sparse = abs(run.n_nonzero / known.n_nonzero - 1) <= 0.03
    is_good = abs(accuracy - known.accuracy) <= 0.005
    return [
        Promise(at + "objective", hoped, objective, abs(excess) < 1e-5),
        certified,
        Promise(at + "non-zeros", f"{known.n_nonzero:,} within 3 %", f"{run.n_nonzero:,}", is_sparse),
        Promise(at + accuracy_of, f"{known.accuracy:.4f} within .005", f"{accuracy:.4f}", is_good),
    ]


def speed_promises(
    at: str, known: Known | None, peer: str, speed_up: Callable[[str], float | None]
) -> list[Promise]:
    """How many times faster than the peer."""
    promises = []
    for level, asked in known.speed_ups.items() if known else ():
        ratio = speed_up(shown(level))
        form = ".0f" if ratio is not None and ratio >= 20 else ".1f"
        promises.append(times(f"{at}{peer}'s seconds to {shown(level)} over crfqn's", asked, ratio, form))
    return promises
