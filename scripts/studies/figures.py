"""A figure of a paper: which methods, on which problems, drawn as what against what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


class Panel(NamedTuple):
    """One diagram: `y` and `x` are columns of the CSV file; `title` may name the `{case}`."""

    title: str
    case: Any
    y: str
    x: str


@dataclass(frozen=True)
class Figure:
    """A figure: its number, what it shows, the methods, the panels in two columns.

    `is_comparison`: whether it asks who is first, of all methods.
    """

    number: str
    title: str
    solvers: Sequence[str]
    panels: Sequence[Panel]
    is_comparison: bool = False

    @property
    def cases(self) -> list[Any]:
        """The problems, each once."""
        return list(dict.fromkeys(panel.case for panel in self.panels))

    @property
    def heading(self) -> str:
        """The title, and the problem unless the panels tell."""
        return f"{self.title}: {self.cases[0]}" if "{case}" not in self.panels[0].title else self.title

    def quick(self) -> Figure:
        """The same on small parts of the data."""
        return replace(self, panels=[panel._replace(case=panel.case.quick()) for panel in self.panels])
