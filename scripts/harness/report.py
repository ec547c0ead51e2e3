"""What studies measure and how it is reported: records, tables, promises, comparisons; as Markdown and JSON lines.

A record is a dict; the records of a study have the same keys. Every line of a report's JSON says as well which commit
measured it, on which processor, with how many threads and which versions of the libraries, and on which data.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from harness.judging import Judged
from harness.problems import Run

Record = dict[str, Any]
MODEL = ("weights", "edges", "predicted")  # too large for a report
WALL = {"wall clock": "seconds"}
CLOCKS = {**WALL, "processor time": "processor_seconds"}


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
    def of(
        cls,
        title: str,
        columns: Mapping[str, Callable[[Any], str]],
        entries: Iterable[Any],
        notes: Sequence[str] = (),
    ) -> Table:
        """A table with a row for each entry, whose cells the columns make of it."""
        rows = [[cell(entry) for cell in columns.values()] for entry in entries]
        return cls(title, [*columns], rows, notes)

    def markdown(self, depth: int = 2) -> str:
        """The table below a heading of this depth."""
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([f"{'#' * depth} {self.title}", "", *text, *notes])


def pivot(
    title: str, records: Sequence[Record], down: str, across: str, cell: Callable[[Any], str],
    notes: Sequence[str] = (),
) -> Table:  # fmt: skip
    """Values of `down` by rows and of `across` by columns, a record a cell; empty where there is none."""
    cells = {(each[down], each[across]): cell(each) for each in records}
    names = distinct(records, across)
    rows = [
        [
            f"{place:g}" if isinstance(place, float | int) else place,
            *(cells.get((place, n), "") for n in names),
        ]
        for place in distinct(records, down)
    ]
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


@dataclass(frozen=True)
class Promise:
    """What was promised, how much was asked, how much it is, and whether that is enough (None: not measured)."""

    what: str
    asked: str
    measured: str
    is_met: bool | None


def times(
    what: str, asked: float, ratio: float | None, form: str = ".1f", missing: str = "not measured"
) -> Promise:
    """The promise that a ratio is at least `asked`."""
    measured = missing if ratio is None else f"{ratio:{form}} times"
    return Promise(what, f"{asked:g} times", measured, None if ratio is None else bool(ratio >= asked))


def below(what: str, asked: str, measured: str, value: float, limit: float) -> Promise:
    """The promise that a value is below `limit`, which `asked` writes out."""
    return Promise(what, f"< {asked}", measured, bool(value < limit))


@dataclass
class Report:
    """Promises (with notes) and tables of a study.

    numbers : the raw measurements by name; data : the fingerprint of each data set by its name
    facts : where it was measured; by default here and now
    """

    name: str
    title: str
    libraries: Sequence[str]
    promises: list[Promise] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.facts = self.facts or provenance(self.libraries)

    def markdown(self) -> str:
        met = {True: "yes", False: "NO", None: "-"}
        cells = [[each.what, each.asked, each.measured, met[each.is_met]] for each in self.promises]
        tables = [*self.tables, Table("Figures", ["what", "asked", "measured", "ok?"], cells, self.notes)]
        machine = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return "\n\n".join([f"# {self.title}", machine, *(table.markdown() for table in tables)]) + "\n"

    def records(self) -> list[Record]:
        """A record for each row of a table, promise, note and raw measurement, with all that tells where it is from."""
        source = {"study": self.name, "title": self.title, "data": self.data, "facts": self.facts}
        entries: list[Record] = []
        for table in self.tables:
            entries += [{"table": table.title, "head": table.head, "row": row} for row in table.rows]
            entries += [{"table": table.title, "head": table.head, "notes": table.notes}]
        entries += [{"promise": each} for each in self.promises] + [{"note": note} for note in self.notes]
        entries += [{"number": name, "value": value} for name, value in self.numbers.items()]
        return [plain(source | entry) for entry in entries]

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Report:
        """The report that has written the records."""
        first = records[0]
        report = cls(first["study"], first["title"], (), data=first["data"], facts=first["facts"])
        for (title,), lines in grouped((each for each in records if "table" in each), ["table"]).items():
            rows = [each["row"] for each in lines if "row" in each]
            report.tables.append(Table(title, lines[-1]["head"], rows, lines[-1]["notes"]))
        report.promises = [Promise(**each["promise"]) for each in records if "promise" in each]
        report.notes = [each["note"] for each in records if "note" in each]
        report.numbers = {each["number"]: each["value"] for each in records if "number" in each}
        return report

    def write(self, folder: Path) -> list[Path]:
        """Write <name>.md and <name>.jsonl; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        page, lines = folder / f"{self.name}.md", folder / f"{self.name}.jsonl"
        page.write_text(self.markdown(), encoding="utf-8")
        lines.write_text("".join(json.dumps(each) + "\n" for each in self.records()), encoding="utf-8")
        return [page, lines]


def read_reports(folder: Path) -> list[Report]:
    """The reports whose records a folder has, by name."""
    return [
        Report.of_records([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
        for file in sorted(folder.glob("*.jsonl"))
    ]


def finish(report: Report, output: Path | None) -> None:
    """Print the tables, and write them and the records if a folder is given."""
    print(report.markdown())
    if output is not None:
        for path in report.write(output):
            print(f"written: {path}")


def machine(libraries: Sequence[str]) -> dict[str, str]:
    """Processor, cores, and versions of Python and of libraries."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.processor() or platform.machine())
    facts = {"processor": processor, "cores": str(os.cpu_count()), "Python": platform.python_version()}
    for library in libraries:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            facts[library] = "not installed"
    return facts


def commit() -> str:
    """The commit of the scripts, with a plus where files have changed since; empty outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of crfqn and of other libraries on one problem.

    judged : the middle run of each library, crfqn's first, then its peer's if it ran
    targets : objectives that are timed, by what they are
    turns : by library the runs, where there are several
    iterations : that the peer is known to need to some of the targets, where it did not go so far here
    others : libraries that minimise something else, and `unfinished`: that took too long
    clocks : of the ratios
    """

    judged: Sequence[Judged]
    targets: Mapping[str, float]
    turns: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    iterations: Mapping[str, int] = field(default_factory=dict)
    others: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    clocks: Mapping[str, str] = field(default_factory=lambda: WALL)

    @property
    def crfqn(self) -> Judged:
        return self.judged[0]

    @property
    def peer(self) -> Judged | None:
        """The library that minimises the same."""
        return next((each for each in self.judged[1:] if each.run.name not in self.others), None)

    def runs(self, judged: Judged) -> Sequence[Run]:
        return self.turns.get(judged.run.name, [judged.run])

    def seconds(self, judged: Judged, target: str, clock: str = "seconds") -> list[float]:
        """The seconds of each run of a library to a target; [] where one did not reach it."""
        ends = [(run, run.row_at(self.targets[target], 0.0)) for run in self.runs(judged)]
        if all(row is not None for _, row in ends):
            return [
                float((run.seconds if clock == "seconds" else run.facts[clock])[row]) for run, row in ends
            ]
        if judged is self.peer and target in self.iterations:
            return [self.iterations[target] * float(np.median(judged.run.facts["log_seconds"]))]
        return []

    def speed_up(self, target: str, clock: str = "seconds") -> float | None:
        """The peer's seconds to a target over crfqn's: the median of the turns."""
        ours = self.seconds(self.crfqn, target, clock)
        theirs = self.seconds(self.peer, target, clock) if self.peer else []
        return float(np.median(np.divide(theirs, ours))) if ours and len(ours) == len(theirs) else None

    def table(self, title: str, notes: Sequence[str], **more: Callable[[Judged], str]) -> Table:
        """A library a row: median seconds to each target, and the model; columns that no library has are left out."""

        def name(judged: Judged) -> str:
            run = judged.run
            end = "one-vs-rest" if run.name in self.others else f"{run.iterations[-1]} iterations"
            return f"{run.name}, {end}"

        def to(target: str) -> Callable[[Judged], str]:
            return lambda judged: median(self.seconds(judged, target))

        def fact(name: str, form: str, unit: float = 1.0) -> Callable[[Judged], str]:
            return lambda judged: (
                format(judged.run.facts[name] / unit, form) if name in judged.run.facts else ""
            )

        columns: dict[str, Callable[[Judged], str]] = {
            "": name,
            "set-up, s": lambda judged: f"{judged.run.setup_seconds:.2f}" if judged.run.setup_seconds else "",
            **{f"s to {target}": to(target) for target in self.targets},
            "whole fit, s": lambda judged: median([run.seconds[-1] for run in self.runs(judged)]),
            "passes": lambda judged: f"{judged.run.passes:.1f}" if np.isfinite(judged.run.passes) else "",
            "objective": lambda judged: (
                "(another)" if judged.run.name in self.others else f"{judged.verdict.objective:,.3f}"
            ),
            "as reported to": lambda judged: (
                f"{abs(judged.run.values[-1] / judged.verdict.objective - 1):.0e}"
            ),
            "certified gap": fact("gap", ".1e"),
            "non-zeros": lambda judged: f"{judged.run.n_nonzero:,}",
            "test accuracy": lambda judged: f"{judged.verdict.accuracy:.4f}",
            **more,
            "file, kB": fact("file_bytes", ",.0f", 1e3),
            "labelled a second, one thread": fact("tokens_per_second", ",.0f"),
            "all threads": fact("tokens_per_second_all", ",.0f"),
            "peak memory, MB": lambda judged: f"{judged.run.peak_bytes / 1e6:.0f}",
        }
        rows = [[cell(each) for cell in columns.values()] for each in self.judged]
        if self.peer:
            for what, clock in self.clocks.items():
                ratios = [number(self.speed_up(target, clock), ".1f", "") for target in self.targets]
                rows.append([f"{self.peer.run.name} over crfqn, {what}", "", *ratios])
        rows += [[name] for name in self.unfinished]
        rows = [row + [""] * (len(columns) - len(row)) for row in rows]
        filled = [(head, *cells) for head, *cells in zip(columns, *rows, strict=True) if any(cells)]
        head, *rows = map(list, zip(*filled, strict=True))
        return Table(title, head, rows, notes)

    def promises(self, at: str, known: Known | None, accuracy_of: str) -> list[Promise]:
        """Whether it is the optimum and the model that belongs to it, and how many times sooner than the peer."""
        run, verdict = self.crfqn
        gap, accuracy = run.facts["gap"], verdict.accuracy
        certified = below(at + "certified relative gap", "1e-3", f"{gap:.1e}", gap, 1e-3)
        if known is None:
            return [certified]
        excess = verdict.objective / known.optimum - 1
        objective, hoped = f"{verdict.objective:,.3f} ({excess:+.1e})", f"{known.optimum:,.3f} within 1e-5"
        is_sparse = abs(run.n_nonzero / known.n_nonzero - 1) <= 0.03
        is_good = abs(accuracy - known.accuracy) <= 0.005
        promises = [
            Promise(at + "objective", hoped, objective, abs(excess) < 1e-5),
            certified,
            Promise(at + "non-zeros", f"{known.n_nonzero:,} within 3 %", f"{run.n_nonzero:,}", is_sparse),
            Promise(at + accuracy_of, f"{known.accuracy:.4f} within .005", f"{accuracy:.4f}", is_good),
        ]
        peer = self.peer.run.name if self.peer else "the peer"
        for level, asked in known.speed_ups.items():
            ratio = self.speed_up(shown(level))
            form = ".0f" if ratio is not None and ratio >= 20 else ".1f"
            promises.append(times(f"{at}{peer}'s seconds to {shown(level)} over crfqn's", asked, ratio, form))
        return promises
