#!/usr/bin/env python
"""The figures and table II of Blondel, Fujino and Ueda (ICPR 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_simplex_svm.py --quick              # all of it on made-up texts, without a download
    python scripts/reproduce_simplex_svm.py --table 2            # accuracy and time after 1, 3, 5 passes, 10 splits
    python scripts/reproduce_simplex_svm.py --figure 1 --data news20

Writes SVG and CSV files, and a page over all that is in the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from harness import judging
from harness.data import DATA, Source
from harness.drawing import Panel
from harness.measuring import say
from harness.options import SEVERAL, Into, Quick, command, some_of
from harness.pages import Page, Publisher, explaining
from harness.problems import Problem
from harness.report import Record, Table, grouped, lines_of, matching, pivot

from crfqn.data.features import FeatureStore
from crfqn.errors import DataUnavailableError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassHinge
from crfqn.objectives.objective import Objective, build_objective
from crfqn.penalties import ElasticNet
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool

NAMES = ("news20-counts", "sector", "rcv1", "amazon7")
QUICK_NAME = "sector"
STRENGTHS = {"amazon7": 0.01}  # C is 1 for all others
PASSES = (1, 3, 5)
TAUS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
TITLES = {"sort": "Sort", "pivot": "Pivot", "bisection": "Bisection"}
TITLES |= {"smo": "SMO", "frank-wolfe": "Frank-Wolfe"}
TAU = 1e-3
NEAR = 1e-6  # certified, of the optimum that curves are drawn against
INTRODUCTION = """\
The figures and table II of M. Blondel, A. Fujino and N. Ueda, *Large-scale multiclass support vector machine training
via Euclidean projection onto the simplex*, ICPR 2014, measured again: dual decomposition (Algorithm 1), items shuffled
once and visited in that order, no shrinking, no intercept, C = 1 (.01 on Amazon7), 4/5 of the items for training,
stratified. Seconds are those of the processor, on one core; the clock stands still while a pass is evaluated. Loose
bisection leaves the feasible set: dual objectives are those of the variables projected back."""
SECTIONS = ("figure-1", "figure-2", "figure-3", "figure-4", "table-2")
PAGE = Page(
    "Projections onto the simplex: the paper's study", INTRODUCTION, "reproduce_simplex_svm.py", SECTIONS
)


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


def hinge(problem: Problem) -> Objective:
    """The hinge over the training items, without an intercept, as in the paper."""
    x = problem.X_train
    store = FeatureStore.from_matrix(x, np.arange(x.shape[0] + 1), allow_empty=True)
    labels = np.searchsorted(problem.classes, problem.y_train).astype(np.int32)
    return build_objective(SparseMap(store, Pool(1)), MulticlassHinge(labels, len(problem.classes)))


def of_classes(problem: Problem, n_classes: int, n_items: int, seed: int) -> Problem:
    """Training items of some classes only, as many whatever the number of classes."""
    chosen = np.random.default_rng(seed).permutation(problem.classes)[:n_classes]
    rows = np.flatnonzero(np.isin(problem.y_train, chosen))
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:n_items])
    return Problem(problem.X_train[rows], problem.y_train[rows], problem.X_test[:1], problem.y_test[:1])


def run(name: str, problem: Problem, C: float, method: Method, n_passes: int, seed: int = 0) -> list[Record]:
    """Follow Algorithm 1, a record a pass; the clock stands still while a pass is evaluated.

    The dual objective is to be minimised; `support` is the share of dual variables that are not zero.
    """
    blocks: Any = hinge(problem).state(DualItems, ElasticNet(0.0, 1.0 / C), method.name, method.tau)
    order = np.random.default_rng(seed).permutation(blocks.items)
    seconds = 0.0
    records: list[Record] = []
    for n in range(1, n_passes + 1):
        begin = process_time()
        blocks.sweep(order)
        seconds += process_time() - begin
        # A copy: where bisection is loose, the variables are made feasible before they are valued.
        value = -C * blocks.copied().certify(order).dual_value
        weights = blocks.point().sparse_weights.table  # (F, K)
        accuracy = judging.accuracy(problem, judging.predictions(problem, weights.T))
        known = {"data": name, "method": method.title, "passes": n, "seconds": seconds}
        support = np.count_nonzero(blocks.alpha) / blocks.alpha.size
        records.append(known | {"dual_objective": value, "accuracy": accuracy, "support": support})
    return records


@dataclass(eq=False)
class Paper(Publisher):
    """The paper's figures and table.

    names : of data sets; none: those of the paper that are here, or with `is_quick` made-up texts
    n_splits : of table II; n_passes : of figures 1, 3 and 4
    """

    path: Path
    names: Sequence[str]
    is_quick: bool
    n_splits: int
    n_passes: int
    loaded: dict[tuple[str, int], Problem] = field(default_factory=dict)
    page = PAGE

    def __post_init__(self) -> None:
        more = f" --splits {self.n_splits}"
        self.open(self.path, more, data=self.names, quick=self.is_quick, passes=self.n_passes)
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
                run(name, few, 1.0, method, 1)
        return self.loaded[name, split]

    def figure(self, number: str) -> None:
        """Figure 1: accuracy and dual objective against time, five methods; 3: the same for bisection's tolerances."""
        if number not in CURVES:
            return self.classes() if number == "2" else self.strengths()
        title, methods = CURVES[number]
        records: list[Record] = []
        panels, tables = [], []
        for name in self.chosen:
            items, C = self.items(name), STRENGTHS.get(name, 1.0)
            penalty, solver = ElasticNet(0.0, 1.0 / C), DualDecomposition(random_state=0)
            result = minimize(hinge(items), penalty, solver, Run(tol=NEAR, max_iter=5000))
            best = -C * result.value * (1.0 - result.gap)  # the bound that a long run proves
            of_data = [each for method in methods for each in run(name, items, C, method, self.n_passes)]
            of_data = [each | {"distance": (each["dual_objective"] - best) / abs(best)} for each in of_data]
            shown = DATA[name].shown
            for what, label in (("accuracy", "test accuracy"), ("distance", "relative difference")):
                lines = lines_of(of_data, "method", "seconds", what)
                panels.append(Panel(shown, lines, "seconds", label, "y" * (what == "distance")))
            columns: dict[str, Callable[[Record], str]] = {
                "": lambda end: end["method"],
                "seconds": lambda end: f"{end['seconds']:.2f}",
                "passes": lambda end: str(end["passes"]),
                "relative difference": lambda end: f"{end['distance']:.1e}",
                "accuracy": lambda end: f"{end['accuracy']:.4f}",
                "dual variables not 0": lambda end: f"{100 * end['support']:.1f} %",
            }
            ends = matching(of_data, passes=self.n_passes)
            tables.append(Table.from_rows(shown, columns, ends, [f"f(alpha*) = {best:,.6g}."]))
            records += of_data
        self.folder.publish(f"figure-{number}", title, tables, records=records, panels=panels)

    def classes(self) -> None:
        """Figure 2: seconds of all passes against the number of classes."""
        records: list[Record] = []
        for name in self.chosen:
            items = self.items(name)
            sizes = np.sort(np.unique(items.y_train, return_counts=True)[1])
            n_items, most = int(sizes[:5].sum()), len(items.classes)
            for n_classes in np.unique(np.linspace(min(5, most), most, 6).astype(int)).tolist():
                part = of_classes(items, n_classes, n_items, 0)
                for method in FIVE:
                    seconds = run(name, part, STRENGTHS.get(name, 1.0), method, self.n_passes)[-1]["seconds"]
                    known = {"data": name, "method": method.title, "classes": n_classes}
                    records.append(known | {"seconds": seconds})
        axes = "number of classes", f"seconds of {self.n_passes} passes"
        note = "As many items for every number of classes."
        self.against("2", "time against the number of classes", records, axes, ".3f", [note])

    def strengths(self) -> None:
        """Figure 4: accuracy against C."""
        records: list[Record] = []
        for name in self.chosen:
            items = self.items(name)
            for C in np.geomspace(1e-2, 1e2, 5).tolist():
                for method in TOLERANCES:
                    last = run(name, items, C, method, min(self.n_passes, PASSES[-1]))[-1]
                    known = {"data": name, "method": method.title, "C": C}
                    records.append(known | {"accuracy": last["accuracy"]})
        self.against("4", "accuracy against C", records, ("C", "test accuracy"), ".4f")

    def against(
        self, number: str, title: str, records: Sequence[Record], labels: tuple[str, str], form: str,
        notes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """The last number of the records against the one before, a panel and a table a data set, a line a method."""
        x, y = [*records[0]][-2:]
        panels, tables = [], []
        for (name,), own in grouped(records, ["data"]).items():
            lines = lines_of(own, "method", x, y)
            panels.append(Panel(DATA[name].shown, lines, *labels, "x" * (number == "4")))
            tables.append(pivot(DATA[name].shown, own, x, "method", lambda each: format(each[y], form)))
        self.folder.publish(
            f"figure-{number}", title, tables, notes, records=records, panels=panels, columns=1
        )

    def few_passes(self, name: str, split: int, method: Method) -> list[Record]:
        C = STRENGTHS.get(name, 1.0)
        return run(name, self.items(name, split), C, method, PASSES[-1], split)

    def table(self, number: str) -> None:
        """Table II: accuracy and time after few passes, over random splits."""
        runs: list[Record] = []
        for name in self.chosen:
            for split in range(self.n_splits):
                for method in FIVE:
                    title = f"{name}, split {split}, {method.name}"
                    runs += self.folder.once(title, self.few_passes, name, split, method)
        records = []
        for (name, method, n), group in grouped(runs, ["data", "method", "passes"]).items():
            if n in PASSES:
                record = {"data": name, "method": method, "passes": n}
                for what in ("accuracy", "seconds"):
                    values = [each[what] for each in group]
                    record |= {what: np.mean(values), f"{what}_std": np.std(values)}
                records.append(record)
        tables = [few_passes_table(DATA[name].shown, matching(records, data=name)) for name in self.chosen]
        title = f"1, 3 and 5 passes, means over {self.n_splits} splits"
        self.folder.publish("table-2", title, tables, records=records, extra=f" --splits {self.n_splits}")


def few_passes_table(title: str, records: Sequence[Record]) -> Table:
    """Table II for one data set: for each number of passes a row of accuracies and one of seconds."""
    accuracy = pivot(
        title, records, "passes", "method",
        lambda each: f"{100 * each['accuracy']:.2f} ± {100 * each['accuracy_std']:.2f}",
    )  # fmt: skip
    seconds = pivot(
        title, records, "passes", "method", lambda each: f"{each['seconds']:.3f} ± {each['seconds_std']:.3f}"
    )
    rows = [
        [f"{row[0]}, {what}", *row[1:]]
        for pair in zip(accuracy.rows, seconds.rows, strict=True)
        for what, row in zip(("accuracy", "seconds"), pair, strict=True)
    ]
    return Table(title, accuracy.head, rows)


app = command()


@app.command()
def reproduce(
    figure: Annotated[list[str] | None, some_of(PAGE.names("figure"), SEVERAL)] = None,
    table: Annotated[list[str] | None, some_of(PAGE.names("table"), SEVERAL)] = None,
    data: Annotated[
        list[str] | None, some_of(NAMES, f"{SEVERAL} Default: those here; quick: Sector.")
    ] = None,
    quick: Quick = False,
    passes: Annotated[int | None, typer.Option(min=1, help="Of figures; default: 30, quick: 5.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Of table 2; default: 10, quick: 2.")] = None,
    output: Into = Path("simplex-study"),
) -> None:
    """Measure the paper's figures and table II again; without a choice all of them."""
    n_splits, n_passes = splits or (2 if quick else 10), passes or (5 if quick else 30)
    with explaining():
        Paper(output, data or (), quick, n_splits, n_passes).make(figure, table)


if __name__ == "__main__":
    app()
