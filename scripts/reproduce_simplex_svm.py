#!/usr/bin/env python
"""The figures and table II of Blondel, Fujino and Ueda (ICPR 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_simplex_svm.py --quick              # all of it on made-up texts, without a download
    python scripts/reproduce_simplex_svm.py --table 2            # accuracy and time after 1, 3, 5 passes, 10 splits
    python scripts/reproduce_simplex_svm.py --figure 1 --data news20

Writes PNG and CSV files, and a page over all that is in the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from harness import judging
from harness.data import DATA, Source
from harness.drawing import Panel, draw
from harness.measuring import say
from harness.pages import SEVERAL, Folder, Page, explaining
from harness.problems import Problem
from harness.report import Table

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.errors import DataUnavailableError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassHinge
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.plot.canvas import check_matplotlib
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.items import DualItems
from crfqn.solvers.minimize import minimize
from crfqn.threads import Pool

FIGURES, TABLES = ("1", "2", "3", "4"), ("2",)
NAMES = ("news20", "sector", "rcv1", "amazon7")
QUICK_NAME = "sector"
STRENGTHS = {"amazon7": 0.01}  # C is 1 for all others
PASSES = (1, 3, 5)
TAUS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
TITLES = {
    "sort": "Sort",
    "pivot": "Pivot",
    "bisection": "Bisection",
    "smo": "SMO",
    "frank-wolfe": "Frank-Wolfe",
}
TAU = 1e-3
NEAR = 1e-6  # certified, of the optimum that curves are drawn against
INTRODUCTION = """\
The figures and table II of M. Blondel, A. Fujino and N. Ueda, *Large-scale multiclass support vector machine training
via Euclidean projection onto the simplex*, ICPR 2014, measured again: dual decomposition (Algorithm 1), items shuffled
once and visited in that order, no shrinking, no intercept, C = 1 (.01 on Amazon7), 4/5 of the items for training,
stratified. Seconds are those of the processor, on one core; the clock stands still while a pass is evaluated. Loose
bisection leaves the feasible set: dual objectives are those of the variables projected back."""
PAGE = Page(
    "Projections onto the simplex: the paper's study",
    INTRODUCTION,
    "reproduce_simplex_svm.py",
    (*(f"figure-{name}" for name in FIGURES), "table-2"),
)
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Method:
    """A way to solve sub-problems; `tau` is that of the bisection."""

    name: str
    tau: float = TAU

    @property
    def title(self) -> str:
        """Its name in figures."""
        return TITLES[self.name] + (f" (tau = {self.tau:g})" if self.tau != TAU else "")


FIVE = [Method(name) for name in TITLES]
TOLERANCES = [Method("sort"), Method("pivot"), *(Method("bisection", tau) for tau in TAUS)]
CURVES = {
    "1": ("Convergence of five ways to solve the sub-problem", FIVE),
    "3": ("Exact methods and bisection", TOLERANCES),
}


@dataclass(frozen=True, eq=False)
class PassCurve:
    """A run, an entry a pass: processor seconds, the dual objective (to be minimised), test accuracy.

    `support`: the share of dual variables that are not zero, at the end.
    """

    method: Method
    seconds: Vector
    objective: Vector
    accuracy: Vector
    support: float


def hinge(problem: Problem) -> Objective:
    """The hinge over the training items, without an intercept, as in the paper."""
    x = problem.X_train
    store = FeatureStore.from_matrix(x, np.arange(x.shape[0] + 1), allow_empty=True)
    labels = np.searchsorted(problem.classes, problem.y_train).astype(np.int32)
    return Objective(SparseMap(store, Pool(1)), MulticlassHinge(labels, len(problem.classes)))


def of_classes(problem: Problem, n_classes: int, n_items: int, seed: int) -> Problem:
    """Training items of some classes only, as many whatever the number of classes."""
    chosen = np.random.default_rng(seed).permutation(problem.classes)[:n_classes]
    rows = np.flatnonzero(np.isin(problem.y_train, chosen))
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:n_items])
    return Problem(problem.X_train[rows], problem.y_train[rows], problem.X_test[:1], problem.y_test[:1])


def run(problem: Problem, C: float, method: Method, n_passes: int, seed: int) -> PassCurve:
    """Follow Algorithm 1; the clock stands still while a pass is evaluated."""
    objective = hinge(problem)
    blocks: Any = objective.state(DualItems, ElasticNet(0.0, 1.0 / C), method.name, method.tau)
    order = np.random.default_rng(seed).permutation(blocks.items)
    seconds, values, accuracies = [], [], []
    for _ in range(n_passes):
        begin = process_time()
        blocks.sweep(order)
        seconds.append(process_time() - begin)
        # A copy: where bisection is loose, the variables are made feasible before they are valued.
        values.append(-C * blocks.copied().certify(order).dual_value)
        weights = blocks.point().sparse_weights.table  # (F, K)
        accuracies.append(judging.accuracy(problem, judging.predictions(problem, weights.T)))
    support = np.count_nonzero(blocks.alpha) / blocks.alpha.size
    return PassCurve(method, np.cumsum(seconds), np.array(values), np.array(accuracies), float(support))


def optimum(problem: Problem, C: float, seed: int) -> float:
    """The dual objective of the paper at its optimum, as the bound that a long run proves."""
    penalty, solver = ElasticNet(0.0, 1.0 / C), DualDecomposition(random_state=seed)
    result = minimize(hinge(problem), penalty, solver, tol=NEAR, max_iter=5000)
    return -C * result.value * (1.0 - result.gap)


@dataclass(eq=False)
class Publisher:
    """Makes figures and the table in a folder.

    path : the folder, made if it is not there
    names : of data sets; none: those of the paper that are here, or with `is_quick` made-up texts
    n_splits : of table II; n_passes : of figures 1, 3 and 4
    """

    path: Path
    names: Sequence[str]
    is_quick: bool
    n_splits: int
    n_passes: int
    loaded: dict[tuple[str, int], Problem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_matplotlib()
        words = [
            *(f"--data {each}" for each in self.names),
            *["--quick"] * self.is_quick,
            f"--passes {self.n_passes}",
        ]
        self.folder = Folder(self.path, PAGE, " " + " ".join(words))
        here = [name for name in NAMES if DATA[name].is_here]
        self.chosen = list(self.names or ([QUICK_NAME] if self.is_quick else here))
        if not self.chosen:
            raise DataUnavailableError("none of the paper's data sets is here: crfqn data get newsgroups")

    def items(self, name: str, split: int = 0) -> Problem:
        """The items of a split; those of the latest one are kept."""
        if (name, split) not in self.loaded:
            say(f"{DATA[name].title}, split {split}: preparing")
            problem = Source(DATA[name], split, self.is_quick).load()
            self.loaded = {(name, split): problem}
            few = of_classes(problem, 2, 20, 0)
            for method in FIVE:  # so that no time measured is the compiler's
                run(few, 1.0, method, 1, 0)
        return self.loaded[name, split]

    def figure(self, number: str) -> None:
        """Figure 1: accuracy and dual objective against time, five methods; 3: the same for bisection's tolerances."""
        if number not in CURVES:
            return self.figure_2() if number == "2" else self.figure_4()
        title, methods = CURVES[number]
        found: dict[str, tuple[float, list[PassCurve]]] = {}
        for name in self.chosen:
            items, C = self.items(name), STRENGTHS.get(name, 1.0)
            found[name] = optimum(items, C, 0), [run(items, C, each, self.n_passes, 0) for each in methods]

        rows = [
            (name, curve.method.title, n + 1, curve.seconds[n], curve.objective[n], curve.accuracy[n])
            for name, (_, curves) in found.items()
            for curve in curves
            for n in range(curve.seconds.size)
        ]
        head = ("data", "method", "passes", "seconds", "dual_objective", "accuracy")
        self.folder.publish(
            f"figure-{number}",
            f"Figure {number}: {title}",
            [curve_table(name, best, curves) for name, (best, curves) in found.items()],
            rows=(head, rows),
            picture=lambda file: draw_curves(found, file),
        )

    def figure_2(self) -> None:
        """Seconds of a pass against the number of classes."""
        rows: list[Row] = []
        for name in self.chosen:
            items = self.items(name)
            sizes = np.sort(np.unique(items.y_train, return_counts=True)[1])
            n_items, most = int(sizes[:5].sum()), len(items.classes)
            for n_classes in np.unique(np.linspace(min(5, most), most, 6).astype(int)).tolist():
                part = of_classes(items, n_classes, n_items, 0)
                for method in FIVE:
                    seconds = run(part, STRENGTHS.get(name, 1.0), method, self.n_passes, 0).seconds[-1]
                    rows.append((name, method.title, n_classes, seconds))
        labels = "number of classes", f"seconds of {self.n_passes} passes"
        notes = ["As many items for every number of classes."]
        self.lines(
            "2", "time against the number of classes", ("classes", "seconds"), labels, "{:.3f}", rows, notes
        )

    def figure_4(self) -> None:
        """Accuracy against C."""
        rows: list[Row] = []
        for name in self.chosen:
            items = self.items(name)
            for C in np.geomspace(1e-2, 1e2, 5).tolist():
                for method in TOLERANCES:
                    found = run(items, C, method, min(self.n_passes, PASSES[-1]), 0).accuracy[-1]
                    rows.append((name, method.title, C, found))
        self.lines("4", "accuracy against C", ("C", "accuracy"), ("C", "test accuracy"), "{:.4f}", rows)

    def lines(
        self, number: str, title: str, columns: tuple[str, str], labels: tuple[str, str], form: str,
        rows: Sequence[Row], notes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Write and draw a number against another, a panel a data set, a line a method."""
        panels = []
        for name in self.chosen:
            methods = dict.fromkeys(row[1] for row in rows if row[0] == name)
            points = {m: np.array([row[2:] for row in rows if row[:2] == (name, m)]).T for m in methods}
            panels.append(Panel(DATA[name].shown, points, *labels, "x" * (number == "4")))  # type: ignore[arg-type]
        self.folder.publish(
            f"figure-{number}",
            f"Figure {number}: {title}",
            [cross_table(name, rows, columns[0], form) for name in self.chosen],
            notes,
            (("data", "method", *columns), rows),
            lambda file: draw(panels, file, columns=1),
        )

    def table_2(self) -> None:
        """Accuracy and time after few passes, over random splits."""
        found: dict[tuple[str, str], list[PassCurve]] = {}
        for name in self.chosen:
            for split in range(self.n_splits):
                for method in FIVE:
                    curve = run(self.items(name, split), STRENGTHS.get(name, 1.0), method, PASSES[-1], split)
                    found.setdefault((name, method.title), []).append(curve)

        rows = few_passes(found)
        head = ("data", "method", "passes", "accuracy", "accuracy_std", "seconds", "seconds_std")
        tables = [few_passes_table(name, rows) for name in self.chosen]
        title = f"Table II: 1, 3 and 5 passes, means over {self.n_splits} splits"
        self.folder.publish("table-2", title, tables, rows=(head, rows), extra=f" --splits {self.n_splits}")


def curve_table(name: str, best: float, curves: Sequence[PassCurve]) -> Table:
    """Where each method is after the last pass."""
    columns: dict[str, Callable[[PassCurve], str]] = {
        "": lambda curve: curve.method.title,
        "seconds": lambda curve: f"{curve.seconds[-1]:.2f}",
        "passes": lambda curve: str(curve.seconds.size),
        "relative difference": lambda curve: f"{(curve.objective[-1] - best) / abs(best):.1e}",
        "accuracy": lambda curve: f"{curve.accuracy[-1]:.4f}",
        "dual variables not 0": lambda curve: f"{100 * curve.support:.1f} %",
    }
    return Table.of(DATA[name].shown, columns, curves, [f"f(alpha*) = {best:,.6g}."])


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
    panels = []
    for name, (best, curves) in found.items():
        title = DATA[name].shown
        accuracy = {each.method.title: (each.seconds, each.accuracy) for each in curves}
        distance = {each.method.title: (each.seconds, (each.objective - best) / abs(best)) for each in curves}
        panels.append(Panel(title, accuracy, "seconds", "test accuracy"))
        panels.append(Panel(title, distance, "seconds", "relative difference", "y"))
    draw(panels, file)


FigureName = StrEnum("FigureName", [*FIGURES])  # type: ignore[misc]
TableName = StrEnum("TableName", [*TABLES])  # type: ignore[misc]
DataName = StrEnum("DataName", [*NAMES])  # type: ignore[misc]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    figure: Annotated[list[FigureName] | None, typer.Option(help=SEVERAL)] = None,
    table: Annotated[list[TableName] | None, typer.Option(help=SEVERAL)] = None,
    data: Annotated[
        list[DataName] | None,
        typer.Option(
            help="May be given several times; default: those that are here, with --quick texts like Sector's."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small parts of the data, few passes.")] = False,
    passes: Annotated[
        int | None, typer.Option(min=1, help="Of figures 1 to 4; default: 30, with --quick 5.")
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Of table 2; default: 10, with --quick 2.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("simplex-study"),
) -> None:
    """Measure the paper's figures and table II again; without a choice all of them."""
    figures, tables = [*map(str, figure or ())], [*map(str, table or ())]
    if not (figures or tables):
        figures, tables = [*FIGURES], [*TABLES]
    with explaining():
        publisher = Publisher(
            output,
            [*map(str, data or ())],
            quick,
            splits or (2 if quick else 10),
            passes or (5 if quick else 30),
        )
        for name in figures:
            publisher.figure(name)
        if tables:
            publisher.table_2()


if __name__ == "__main__":
    app()
