"""crfqn and other libraries on one problem: seconds to objectives, by turns, and the models as they are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.judging import Judged
from harness.problems import Run
from harness.report import Table, median, number

WALL = {"wall clock": "seconds"}
CLOCKS = {**WALL, "processor time": "processor_seconds"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs on one problem.

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
        same = [each for each in self.judged[1:] if each.run.name not in self.others]
        return same[0] if same else None

    def seconds(self, judged: Judged, target: str, clock: str = "seconds") -> list[float]:
        """Of each run of a library to a target; [] where one did not reach it."""
        runs = self.turns.get(judged.run.name, [judged.run])
        rows = [run.row_at(self.targets[target], 0.0) for run in runs]
        if all(row is not None for row in rows):
            pairs = zip(runs, rows, strict=True)
            return [
                float((run.seconds if clock == "seconds" else run.facts[clock])[row]) for run, row in pairs
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
        """A library a row: median seconds to each target, and the model; what no library has is left out."""

        def to(target: str) -> Callable[[Judged], str]:
            return lambda judged: median(self.seconds(judged, target))

        def fact(name: str, form: str, unit: float = 1.0) -> Callable[[Judged], str]:
            return lambda judged: number(
                judged.run.facts[name] / unit if name in judged.run.facts else None, form, ""
            )

        columns: dict[str, Callable[[Judged], str]] = {
            "": self.name,
            "set-up, s": lambda judged: f"{judged.run.setup_seconds:.2f}" if judged.run.setup_seconds else "",
            **{f"s to {target}": to(target) for target in self.targets},
            "whole fit, s": lambda judged: median(
                [run.seconds[-1] for run in self.turns.get(judged.run.name, [judged.run])]
            ),
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
        for what, clock in self.clocks.items() if self.peer else ():
            ratios = [number(self.speed_up(target, clock), ".1f", "") for target in self.targets]
            rows.append(_filled([f"{self.peer.run.name} over crfqn, {what}", "", *ratios], len(columns)))  # type: ignore[union-attr]
        rows += [_filled([name], len(columns)) for name in self.unfinished]
        kept = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
        head = [*columns]
        return Table(title, [head[i] for i in kept], [[row[i] for i in kept] for row in rows], notes)

    def name(self, judged: Judged) -> str:
        """The library, and how far it went."""
        run = judged.run
        return (
            f"{run.name}, one-vs-rest"
            if run.name in self.others
            else f"{run.name}, {run.iterations[-1]} iterations"
        )


def _filled(cells: list[str], n_columns: int) -> list[str]:
    return cells + [""] * (n_columns - len(cells))
