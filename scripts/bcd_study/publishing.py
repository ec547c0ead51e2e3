"""From a name to files: measure, draw, write, and add to the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.alone import say
from studies import publishing
from studies.report import write_curves, write_rows

from bcd_study import drawing, report
from bcd_study.cases import DATA, OF_THE_PAPER, Data, Source
from bcd_study.figures import FIGURES
from bcd_study.folder import CONSTANTS, Folder
from bcd_study.grid import Solution
from bcd_study.methods import COMPARED, SOLVERS, TIMED
from bcd_study.study import QUICK_STEP, Study
from crfqn.errors import DataUnavailableError
from crfqn.plot.canvas import check_matplotlib

QUICK_NAMES = ("sector",)


class Publisher(publishing.Publisher):
    """Makes figures and tables in a folder.

    Parameters
    ----------
    path : the folder, made if it is not there
    names : of data sets; none: all of the paper's that can be had on this machine, one if it must be quick
    is_quick : small parts of the data
    seconds : limit of a single run
    n_splits : of figure 5 and table 2
    solvers : of figures 2 to 4
    step : through the lambdas of figure 5 and table 2, if it must be quick
    """

    script = "reproduce_bcd.py"
    order = (*(f"figure-{name}" for name in (*FIGURES, "5")), "table-2")
    study: Study

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        is_quick: bool,
        seconds: float,
        n_splits: int,
        n_threads: int | None,
        solvers: Sequence[str] = tuple(SOLVERS),
        step: int = QUICK_STEP,
    ) -> None:
        check_matplotlib()
        self.names, self.n_splits, self.solvers = names, n_splits, solvers
        self.data = chosen(names or (QUICK_NAMES if is_quick else ()))
        folder = Folder(path)
        super().__init__(folder, Study(folder, seconds, is_quick, n_threads, step=step))
        say(CONSTANTS)

    def figure(self, name: str) -> None:
        """Measure and draw figure `name`."""
        if name == "5":
            self.grid()
            return
        figure = FIGURES[name](self.data, self.solvers)
        figure = figure.quick() if self.is_quick else figure
        say(f"Figure {name}")
        measured = self.study.measure(figure)

        def write(stage: Path) -> str:
            drawing.draw(figure, measured, stage / f"figure-{name}.png")
            write_curves(measured, stage / f"figure-{name}.csv")
            return report.describe(figure, measured, self.folder.optima)

        self.publish(
            f"figure-{name}", f"Figure {name}: {figure.heading}", self.choice(f"--figure {name}"), write
        )

    def grid(self) -> None:
        """Figure 5."""
        say("Figure 5")
        solved = self.solve(COMPARED)

        def write(stage: Path) -> str:
            drawing.draw_grid(solved, stage / "figure-5.png")
            write_solutions(solved, stage / "figure-5.csv")
            return report.describe_grid(solved)

        title = "Figure 5: sparsity and test accuracy of the objectives"
        self.publish("figure-5", title, self.choice("--figure 5", self.n_splits), write)

    def table(self, name: str) -> None:
        """Table 2; it shares runs with figure 5."""
        say(f"Table {name}")
        solved = self.solve(TIMED)

        def write(stage: Path) -> str:
            write_solutions(solved, stage / f"table-{name}.csv")
            return report.describe_times(solved)

        title = f"Table {name}: training times of the objectives over the grid of lambdas"
        self.publish(f"table-{name}", title, self.choice(f"--table {name}", self.n_splits), write)

    def solve(self, names: Sequence[str]) -> dict[Source, list[Solution]]:
        """Objectives on all data, by its first split."""
        return {
            Source(data, is_quick=self.is_quick): self.study.solve(data, names, self.n_splits)
            for data in self.data
        }

    def choice(self, what: str, n_splits: int | None = None) -> str:
        """The command's choice of figure and data."""
        words = [what, *(f"--data {name}" for name in self.names)]
        return " ".join(words + ([] if n_splits is None else [f"--splits {n_splits}"]))


def chosen(names: Sequence[str]) -> list[Data]:
    """The data sets of these names; without names those of the paper that are here or have a stand-in.

    Raises
    ------
    DataUnavailableError
        One that is asked for by name is not here, and nothing stands in for it.
    """
    from crfqn.datasets import dataset

    for name in names:
        if not DATA[name].is_possible:
            raise DataUnavailableError(dataset(DATA[name].registered).how_to_find())
    missing = [name for name in OF_THE_PAPER if not names and not DATA[name].is_possible]
    if missing:
        say(f"Left out, for they are not on this machine: {', '.join(DATA[name].title for name in missing)}")
    return [DATA[name] for name in (names or OF_THE_PAPER) if name not in missing]


def write_solutions(solved: dict[Source, list[Solution]], file: Path) -> None:
    """A line a run."""
    rows = [(source.title, *each) for source, solutions in solved.items() for each in solutions]
    write_rows(file, ["data", *Solution._fields], rows)
