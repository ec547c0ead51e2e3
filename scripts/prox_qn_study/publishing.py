"""From a name to files: measure, draw, write, and add to the page; all files of a figure or none."""

from __future__ import annotations

from pathlib import Path

from benchmarks.alone import say

from prox_qn_study import drawing, report, superlinear
from prox_qn_study.figures import FIGURES, TABLES
from prox_qn_study.folder import PAGE, Folder, Section
from prox_qn_study.study import Study

ORDER = [*(f"figure-{name}" for name in FIGURES), *(f"table-{name}" for name in TABLES), "superlinear"]
QUICK_PROBLEMS = 2  # of Theorem 1


class Publisher:
    """Makes figures and tables in a folder.

    Parameters
    ----------
    path : the folder, made if it is not there
    is_quick : small parts of the data
    seconds : limit of a single run
    """

    def __init__(self, path: Path, is_quick: bool, seconds: float, n_threads: int | None) -> None:
        drawing.check_plotting()
        self.folder, self.is_quick = Folder(path), is_quick
        self.study = Study(self.folder, seconds, is_quick, n_threads)

    def figure(self, name: str) -> None:
        """Measure and draw figure `name`."""
        figure = FIGURES[name].quick() if self.is_quick else FIGURES[name]
        say(f"Figure {name}")
        measured = self.study.measure(figure)
        stem = f"figure-{name}"
        with self.folder.all_or_nothing() as stage:
            drawing.draw(figure, measured, stage / f"{stem}.png")
            report.write_curves(measured, stage / f"{stem}.csv")
            text = report.describe(figure, measured, self.folder.optima)
            self.add(stem, f"Figure {name}: {figure.heading}", f"--figure {name}", text, stage)

    def table(self, name: str) -> None:
        """Measure table `name`: the references alone."""
        cases = [case.quick() if self.is_quick else case for case in TABLES[name]]
        say(f"Table {name}")
        for case in cases:
            self.study.run(case, [])
        with self.folder.all_or_nothing() as stage:
            text = report.optimum_table(cases, self.folder.optima)
            title = f"Table {name}: the optimum beside the paper's, {cases[0].data.title}"
            self.add(f"table-{name}", title, f"--table {name}", text, stage)

    def superlinear(self) -> None:
        """Theorem 1."""
        say("Superlinear convergence")
        seeds = list(superlinear.SEEDS)[: QUICK_PROBLEMS if self.is_quick else None]
        runs = [superlinear.measure(seed) for seed in seeds]
        with self.folder.all_or_nothing() as stage:
            drawing.draw_convergence(runs, stage / "superlinear.png")
            report.write_convergence(runs, stage / "superlinear.csv")
            text = report.describe_convergence(runs)
            self.add("superlinear", "Theorem 1: superlinear convergence", "--superlinear", text, stage)

    def add(self, name: str, title: str, choice: str, text: str, stage: Path) -> None:
        """A section of the page."""
        quick = " --quick" if self.is_quick else ""
        threads = "" if self.study.n_threads is None else f" --threads {self.study.n_threads}"
        command = f"python scripts/reproduce_prox_qn.py {choice}{quick} --max-seconds {self.study.seconds:g}{threads}"
        section = Section(ORDER.index(name), title, command, report.facts(), text)
        self.folder.add(name, section, stage)
        say(f"  {self.folder.path / PAGE}: {title}")
