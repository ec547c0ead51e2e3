"""Figures 1 to 4 and table II: measured, drawn and written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bcd_study.cases import DATA, Source
from benchmarks.alone import say
from benchmarks.report import Table
from studies.folder import PAGE, Folder, Section
from studies.report import facts, page_of, subsection, write_rows

from crfqn.errors import DataUnavailableError
from crfqn.plot.canvas import check_matplotlib
from simplex_study.runs import METHODS, Items, Method, PassCurve, compile_kernels, optimum, run

NAMES = ("news20", "sector", "rcv1", "amazon7")
QUICK_NAME = "sector"
STRENGTHS = {"amazon7": 0.01}  # C is 1 for all others
PASSES = (1, 3, 5)
TAUS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
INTRODUCTION = """\
The figures and table II of M. Blondel, A. Fujino and N. Ueda, *Large-scale multiclass support vector machine training
via Euclidean projection onto the simplex*, ICPR 2014, measured again: dual decomposition (Algorithm 1), items shuffled
once and visited in that order, no shrinking, no intercept, C = 1 (.01 on Amazon7), 4/5 of the items for training,
stratified. Seconds are those of the processor, on one core; the clock stands still while a pass is evaluated. Loose
bisection leaves the feasible set: dual objectives are those of the variables projected back."""


class StudyFolder(Folder):
    """Where results go."""

    title = "Projections onto the simplex: the paper's study"
    introduction = INTRODUCTION


@dataclass(eq=False)
class Publisher:
    """Makes figures and the table in a folder.

    Parameters
    ----------
    path : the folder, made if it is not there
    names : of data sets; none: those of the paper that are here, or with `is_quick` made-up texts
    n_splits : of table II; n_passes : of figures 1, 3 and 4
    """

    path: Path
    names: Sequence[str]
    is_quick: bool
    n_splits: int
    n_passes: int
    loaded: dict[tuple[str, int], Items] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_matplotlib()
        self.folder = StudyFolder(self.path)
        here = [name for name in NAMES if DATA[name].is_here]
        self.chosen = list(self.names or ([QUICK_NAME] if self.is_quick else here))
        if not self.chosen:
            raise DataUnavailableError("none of the paper's data sets is here: crfqn data get newsgroups")

    def items(self, name: str, split: int = 0) -> Items:
        """The items of a split; those of the latest one are kept."""
        if (name, split) not in self.loaded:
            say(f"{DATA[name].title}, split {split}: preparing")
            self.loaded = {(name, split): Items.of(Source(DATA[name], split, self.is_quick).load())}
            compile_kernels(self.loaded[name, split], [Method(each) for each in METHODS])
        return self.loaded[name, split]

    def figure_1(self) -> None:
        """Accuracy and dual objective against time, the five methods."""
        self.curves(
            "1", "Convergence of five ways to solve the sub-problem", [Method(name) for name in METHODS]
        )

    def figure_3(self) -> None:
        """The same for exact methods and bisection with tolerances."""
        methods = [Method("sort"), Method("pivot"), *(Method("bisection", tau) for tau in TAUS)]
        self.curves("3", "Exact methods and bisection", methods)

    def curves(self, number: str, title: str, methods: Sequence[Method]) -> None:
        """Run methods on all data sets."""
        found = {}
        for name in self.chosen:
            items, C = self.items(name), STRENGTHS.get(name, 1.0)
            found[name] = optimum(items, C, 0), [run(items, C, each, self.n_passes, 0) for each in methods]

        def write(stage: Path) -> str:
            rows = [
                (name, curve.method.title, n + 1, curve.seconds[n], curve.objective[n], curve.accuracy[n])
                for name, (_, curves) in found.items()
                for curve in curves
                for n in range(curve.seconds.size)
            ]
            head = ("data", "method", "passes", "seconds", "dual_objective", "accuracy")
            write_rows(stage / f"figure-{number}.csv", head, rows)
            draw_curves(found, stage / f"figure-{number}.png")
            blocks = [subsection(curve_table(name, best, curves)) for name, (best, curves) in found.items()]
            return page_of(f"![Figure {number}](figure-{number}.png)", blocks, [])

        self.publish(f"figure-{number}", f"Figure {number}: {title}", f"--figure {number}", write)

    def figure_2(self) -> None:
        """Seconds of a pass against the number of classes."""
        rows: list[tuple[Any, ...]] = []
        for name in self.chosen:
            items = self.items(name)
            sizes = np.sort(np.unique(items.problem.y_train, return_counts=True)[1])
            n_items, least = int(sizes[:5].sum()), min(5, items.classes.size)
            for n_classes in np.unique(np.linspace(least, items.classes.size, 6).astype(int)).tolist():
                part = items.of_classes(n_classes, n_items, 0)
                for method in map(Method, METHODS):
                    seconds = run(part, STRENGTHS.get(name, 1.0), method, self.n_passes, 0).seconds[-1]
                    rows.append((name, method.title, n_classes, seconds))

        def write(stage: Path) -> str:
            write_rows(stage / "figure-2.csv", ("data", "method", "classes", "seconds"), rows)
            draw_lines(
                rows, ("number of classes", f"seconds of {self.n_passes} passes"), stage / "figure-2.png"
            )
            tables = [subsection(cross_table(name, rows, "classes", "{:.3f}")) for name in self.chosen]
            return page_of(
                "![Figure 2](figure-2.png)", tables, ["As many items for every number of classes."]
            )

        self.publish("figure-2", "Figure 2: time against the number of classes", "--figure 2", write)

    def figure_4(self) -> None:
        """Accuracy against C."""
        methods = [Method("sort"), Method("pivot"), *(Method("bisection", tau) for tau in TAUS)]
        rows: list[tuple[Any, ...]] = []
        for name in self.chosen:
            items = self.items(name)
            for C in np.geomspace(1e-2, 1e2, 5).tolist():
                for method in methods:
                    accuracy = run(items, C, method, min(self.n_passes, PASSES[-1]), 0).accuracy[-1]
                    rows.append((name, method.title, C, accuracy))

        def write(stage: Path) -> str:
            write_rows(stage / "figure-4.csv", ("data", "method", "C", "accuracy"), rows)
            draw_lines(rows, ("C", "test accuracy"), stage / "figure-4.png", is_logarithmic=True)
            tables = [subsection(cross_table(name, rows, "C", "{:.4f}")) for name in self.chosen]
            return page_of("![Figure 4](figure-4.png)", tables, [])

        self.publish("figure-4", "Figure 4: accuracy against C", "--figure 4", write)

    def table_2(self) -> None:
        """Accuracy and time after few passes, over random splits."""
        found: dict[tuple[str, str], list[PassCurve]] = {}
        for name in self.chosen:
            for split in range(self.n_splits):
                for method in map(Method, METHODS):
                    curve = run(self.items(name, split), STRENGTHS.get(name, 1.0), method, PASSES[-1], split)
                    found.setdefault((name, method.title), []).append(curve)

        def write(stage: Path) -> str:
            rows = few_passes(found)
            head = ("data", "method", "passes", "accuracy", "accuracy_std", "seconds", "seconds_std")
            write_rows(stage / "table-2.csv", head, rows)
            return page_of("", [subsection(few_passes_table(name, rows)) for name in self.chosen], [])

        title = f"Table II: 1, 3 and 5 passes, means over {self.n_splits} splits"
        self.publish("table-2", title, f"--table 2 --splits {self.n_splits}", write)

    def publish(self, name: str, title: str, choice: str, write: Callable[[Path], str]) -> None:
        """Make the files of a figure or table, all or none, and its section of the page."""
        words = [choice, *(f"--data {each}" for each in self.names), *(["--quick"] if self.is_quick else [])]
        command = f"python scripts/reproduce_simplex_svm.py {' '.join(words)} --passes {self.n_passes}"
        order = ["figure-1", "figure-2", "figure-3", "figure-4", "table-2"].index(name)
        with self.folder.all_or_nothing() as stage:
            self.folder.add(name, Section(order, title, command, facts(), write(stage)), stage)
        say(f"  {self.path / PAGE}: {title}")


def curve_table(name: str, best: float, curves: Sequence[PassCurve]) -> Table:
    """Where each method is after the last pass."""
    head = ["", "seconds", "passes", "relative difference", "accuracy", "dual variables not 0"]
    rows = [
        [
            curve.method.title,
            f"{curve.seconds[-1]:.2f}",
            str(curve.seconds.size),
            f"{(curve.objective[-1] - best) / abs(best):.1e}",
            f"{curve.accuracy[-1]:.4f}",
            f"{100 * curve.support:.1f} %",
        ]
        for curve in curves
    ]
    return Table(DATA[name].shown, head, rows, [f"f(alpha*) = {best:,.6g}."])


def cross_table(name: str, rows: Sequence[tuple[Any, ...]], what: str, form: str) -> Table:
    """Methods by columns, another number by rows."""
    own = [row for row in rows if row[0] == name]
    methods, places = list(dict.fromkeys(row[1] for row in own)), sorted({row[2] for row in own})
    known = {(row[1], row[2]): row[3] for row in own}
    lines = [[f"{place:g}", *(form.format(known[method, place]) for method in methods)] for place in places]
    return Table(DATA[name].shown, [what, *methods], lines)


def few_passes(found: dict[tuple[str, str], list[PassCurve]]) -> list[tuple[Any, ...]]:
    """Means and standard deviations after each number of passes."""
    rows: list[tuple[Any, ...]] = []
    for (name, method), curves in found.items():
        for n_passes in PASSES:
            accuracy = np.array([curve.accuracy[n_passes - 1] for curve in curves])
            seconds = np.array([curve.seconds[n_passes - 1] for curve in curves])
            rows.append(
                (name, method, n_passes, accuracy.mean(), accuracy.std(), seconds.mean(), seconds.std())
            )
    return rows


def few_passes_table(name: str, rows: Sequence[tuple[Any, ...]]) -> Table:
    """Table II for one data set."""
    own = [row for row in rows if row[0] == name]
    methods = list(dict.fromkeys(row[1] for row in own))
    lines = []
    for n_passes in PASSES:
        at = {row[1]: row for row in own if row[2] == n_passes}
        lines.append(
            [f"{n_passes}, accuracy", *(f"{100 * at[m][3]:.2f} ± {100 * at[m][4]:.2f}" for m in methods)]
        )
        lines.append([f"{n_passes}, seconds", *(f"{at[m][5]:.3f} ± {at[m][6]:.3f}" for m in methods)])
    return Table(DATA[name].shown, ["passes", *methods], lines)


def draw_curves(found: dict[str, tuple[float, list[PassCurve]]], file: Path) -> None:
    """Accuracy to the left, dual objective to the right, a row a data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4 * len(found)), layout="constrained")
    table = figure.subplots(len(found), 2, squeeze=False)
    for axes, (name, (best, curves)) in zip(table, found.items(), strict=True):
        for curve in curves:
            axes[0].plot(curve.seconds, curve.accuracy, label=curve.method.title)
            axes[1].plot(curve.seconds, (curve.objective - best) / abs(best), label=curve.method.title)
        axes[0].set(title=DATA[name].shown, xlabel="seconds", ylabel="test accuracy")
        axes[1].set(title=DATA[name].shown, xlabel="seconds", ylabel="relative difference", yscale="log")
        axes[1].legend()
    figure.savefig(file)


def draw_lines(
    rows: Sequence[tuple[Any, ...]], labels: tuple[str, str], file: Path, is_logarithmic: bool = False
) -> None:
    """A panel a data set, a line a method."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(6, 4 * len(names)), layout="constrained")
    for axes, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        for method in dict.fromkeys(row[1] for row in rows):
            points = [(row[2], row[3]) for row in rows if row[0] == name and row[1] == method]
            axes.plot(*zip(*points, strict=True), label=method)
        axes.set(title=DATA[name].shown, xlabel=labels[0], ylabel=labels[1])
        axes.set_xscale("log" if is_logarithmic else "linear")
        axes.legend()
    figure.savefig(file)
