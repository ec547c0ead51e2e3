"""From a name to files: measure, draw, write, and add to the page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.alone import say
from studies import publishing

from crfqn.plot.canvas import check_matplotlib
from prox_qn_study import drawing, report, superlinear
from prox_qn_study.figures import FIGURES, TABLES
from prox_qn_study.folder import Folder
from prox_qn_study.study import Study

QUICK_PROBLEMS = 2  # of Theorem 1


class Publisher(publishing.Publisher):
    """Makes figures and tables in a folder.

    Parameters
    ----------
    path : the folder, made if it is not there
    is_quick : small parts of the data
    seconds : limit of a single run
    """

    script = "reproduce_prox_qn.py"
    order = (*(f"figure-{name}" for name in FIGURES), *(f"table-{name}" for name in TABLES), "superlinear")

    def __init__(self, path: Path, is_quick: bool, seconds: float, n_threads: int | None) -> None:
        check_matplotlib()
        folder = Folder(path)
        super().__init__(folder, Study(folder, seconds, is_quick, n_threads))

    def figure(self, name: str) -> None:
        """Measure and draw figure `name`."""
        figure = FIGURES[name].quick() if self.is_quick else FIGURES[name]
        say(f"Figure {name}")
        measured = self.study.measure(figure)

        def write(stage: Path) -> str:
            drawing.draw(figure, measured, stage / f"figure-{name}.png")
            report.write_curves(measured, stage / f"figure-{name}.csv")
            return report.describe(figure, measured, self.folder.optima)

        self.publish(f"figure-{name}", f"Figure {name}: {figure.heading}", f"--figure {name}", write)

    def table(self, name: str) -> None:
        """Measure table `name`: the references alone."""
        cases = [case.quick() if self.is_quick else case for case in TABLES[name]]
        say(f"Table {name}")
        for case in cases:
            self.study.run(case, [])
        title, optima = report.optimum_title(name, cases[0]), self.folder.optima
        self.publish(f"table-{name}", title, f"--table {name}", lambda _: report.optimum_table(cases, optima))

    def superlinear(self) -> None:
        """Theorem 1."""
        say("Superlinear convergence")
        seeds = list(superlinear.SEEDS)[: QUICK_PROBLEMS if self.is_quick else None]
        runs = [superlinear.measure(seed) for seed in seeds]

        def write(stage: Path) -> str:
            drawing.draw_convergence(runs, stage / "superlinear.png")
            report.write_convergence(runs, stage / "superlinear.csv")
            return report.describe_convergence(runs)

        self.publish("superlinear", "Theorem 1: superlinear convergence", "--superlinear", write)
