"""From what was measured to files and a section of the page; all files of a figure or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.alone import say

from crfqn.plot.canvas import check_matplotlib
from studies.folder import PAGE, Folder, Section
from studies.report import facts
from studies.study import Study


class Publisher:
    """Makes figures and tables in a folder.

    Parameters
    ----------
    folder : where they go
    study : what measures them

    A subclass names its `script` and the `order` of the sections.
    """

    script: ClassVar[str]
    order: ClassVar[Sequence[str]]

    def __init__(self, folder: Folder, study: Study) -> None:
        check_matplotlib()
        self.folder, self.study = folder, study

    @property
    def is_quick(self) -> bool:
        return self.study.is_quick

    def limits(self) -> str:
        """Options of the command that say how long and on how many threads single runs go on."""
        threads = "" if self.study.n_threads is None else f" --threads {self.study.n_threads}"
        return f" --max-seconds {self.study.seconds:g}{threads}"

    def publish(self, name: str, title: str, choice: str, write: Callable[[Path], str]) -> None:
        """`write` makes files in the folder it gets and returns the section's text."""
        quick = " --quick" if self.is_quick else ""
        command = f"python scripts/{self.script} {choice}{quick}{self.limits()}"
        with self.folder.all_or_nothing() as stage:
            text = write(stage)
            section = Section(self.order.index(name), title, command, facts(), text)
            self.folder.add(name, section, stage)
        say(f"  {self.folder.path / PAGE}: {title}")
