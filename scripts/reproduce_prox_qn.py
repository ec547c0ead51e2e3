#!/usr/bin/env python
"""The figures and tables of Zhong, Yen, Dhillon and Ravikumar (NIPS 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_prox_qn.py --quick              # all of it on small parts, of built-in data if need be
    python scripts/reproduce_prox_qn.py --figure 3           # one figure, on all of the data
    python scripts/reproduce_prox_qn.py --table 1
    python scripts/reproduce_prox_qn.py --superlinear        # Theorem 1

Writes PNG and CSV files, and a page over all that is in the folder. `ocr` and `lshtc1` are the paper's data (section 6)
as the recipes of these names prepare them; `digits` and `stdlib` are built in, and stand in for them in small runs on
machines that have no files of theirs. Theorem 1 is measured in `harness/superlinear.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness import curve_report, superlinear
from harness.curve_report import agreement, curve_table, optimum_note, publish_curves
from harness.curves import Curve, CurveFigure, CurvePanel, Measured, Study, Weights
from harness.drawing import Method
from harness.judging import Verdict, accuracy, best_labels, judge, predictions, weights_of
from harness.measuring import say
from harness.pages import SEVERAL, Folder, Optimum, Page, explaining
from harness.problems import Problem
from harness.report import Table
from harness.superlinear import METHOD, WithoutShrinking

from crfqn import ChainCRF, TaxonomyCRF
from crfqn.datasets import dataset
from crfqn.errors import DataUnavailableError
from crfqn.plot.canvas import check_matplotlib
from crfqn.result import Result
from crfqn.solvers.coordinate.feature_bcd import FeatureBCD
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.sgd import SGDL1

SECONDS, QUICK_SECONDS, QUICK_PROBLEMS = 300.0, 1.0, 2
BUILT_IN = "Of the study, `--quick` and `--figure digits` need no files."
WARM_UP, STRONGER, WARM_UP_STEPS = 0.2, 5.0, 10
WARM_UP_SECONDS = 60.0  # compiling must come to its end
TOUCH_SECONDS = 3.0  # memory that a process has for the first time costs more than a pass over it
INTRODUCTION = """\
The figures and tables of K. Zhong, I. Yen, I. Dhillon and P. Ravikumar, *Proximal quasi-Newton for computationally
intensive l1-regularized M-estimators*, NIPS 2014, measured again. Every method minimises the same objective and uses
the same compiled inference; each run has a process of its own (with `--quick` all share one), which starts with a short
training that compiles. Seconds count from the first evaluation, the set-up of the data left out; that evaluation
is pass 1. The reference optimum F* is the best value that any run has seen; how far above the true one it can be is
certified. A run ends 1e-7 above F*, or by its limit of seconds. Of a sample that a method may start from, seconds and
passes count, but there is no point to draw. With `--quick` a small part of the items takes part, and l1 goes with the
root of their number; such runs show that all works, not how fast anything is."""
STAND_IN = "{0} is not on this machine: {1}, built in, take its place here. `crfqn data get {2}` fetches it."
SGD = "SGD, the paper's rate: eta0 = {eta0:g}, as the paper has it for its own features; SGD: calibrated on a sample."
BCD = "BCD has no fair count of passes, as the paper says: these are positions that its inference visits, over all."


@dataclass(frozen=True)
class Data:
    """A recipe's data.

    registered : the name of the data in the registry
    eta0 : the paper's first learning rate of SGD
    quick : share of the items in a small run
    stand_in : what a small run takes where the files of the data are not on this machine, and by what an l1 is
        multiplied there; None: nothing
    """

    recipe: str
    registered: str
    title: str
    eta0: float | None
    quick: float
    stand_in: tuple[Data, float] | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is built in or its files are on this machine."""
        entry = dataset(self.registered)
        return entry.is_embedded or bool(entry.locate())


DIGITS = Data("digits", "digits", "Digits", None, 0.1)
STDLIB = Data("stdlib", "stdlib", "Docstrings", None, 0.25)
OCR = Data("ocr", "ocr", "OCR", 2e-4, 0.05, stand_in=(DIGITS, 0.1))
LSHTC1 = Data("lshtc1", "lshtc1-task2", "LSHTC1", 10.0, 0.1, stand_in=(STDLIB, 1.0))
NOTES = {
    OCR: "OCR: a random split as the paper's, 6216 words for training and 661 for the test, but not the same one: "
    "the paper's is not published.",
    LSHTC1: "LSHTC1: Task 2 of the dry-run data. The paper has Task 1, whose training part is not at hand: the same "
    "number of items, 4463, with 51,033 features. So its values, table 2's too, are of another problem.",
}
PAPER: Mapping[str, Mapping[float, tuple[int, float]]] = {
    "ocr": {50.0: (2542, 0.834928), 100.0: (1544, 0.736643), 500.0: (223, 0.407895)},
    "lshtc1": {0.5: (28483, 0.262648), 1.0: (4301, 0.249731), 2.0: (1505, 0.185684)},
}  # tables 1 and 2: non-zeros at the optimum, test accuracy


def paper_rate(data: Data) -> Any:
    """SGD at the rate that the paper gives, None where it gives none."""
    return None if data.eta0 is None else SGDL1(eta0=data.eta0)


METHODS: Mapping[str, Method] = {
    METHOD: Method(make=lambda data: ProxQN(), colour="#d55e00", marker="o"),
    "Prox-QN as published": Method(make=lambda data: ProxQN.paper(), colour="#0072b2", marker="s"),
    "OWL-QN": Method(make=lambda data: OWLQN(), colour="#009e73", marker="^"),
    "SGD": Method(make=lambda data: SGDL1(), colour="#e69f00", marker="v"),
    "SGD, the paper's rate": Method(make=paper_rate, colour="#e69f00", marker="v", is_dashed=True),
    "BCD": Method(make=lambda data: FeatureBCD(), colour="#000000", marker="D"),
    "Prox-GD": Method(make=lambda data: ProxGD(), colour="#cc79a7", marker="P"),
    "FISTA": Method(make=lambda data: FISTA(), colour="#56b4e9", marker="X"),
    "Prox-QN, no shrinking, 1 sweep": Method(
        make=lambda data: WithoutShrinking(ProxQN.paper(), 1), colour="#0072b2", marker="s", is_dashed=True
    ),
    "Prox-QN, no shrinking, 10 sweeps": Method(
        make=lambda data: WithoutShrinking(ProxQN.paper(), 10), colour="#0072b2", marker="s"
    ),
}


@dataclass(frozen=True)
class Case:
    """A data set at a penalty.

    l1 : for all training items
    share : of the training items that take part
    stands_for : the data in whose place these are; None: they are what was asked for
    """

    data: Data
    l1: float
    share: float = 1.0
    stands_for: Data | None = field(default=None, compare=False)
    reference = METHOD

    def __str__(self) -> str:
        part = "" if self.share == 1.0 else f" ({100 * self.share:g} % of the items)"
        return f"{self.data.title}, l1 = {self.strength:.3g}{part}"

    @property
    def strength(self) -> float:
        """The penalty for the items that take part: the noise of a gradient grows with the root of their number."""
        return float(np.sqrt(self.share)) * self.l1

    @property
    def source(self) -> tuple[Data, float]:
        """What the items depend on: the penalty is not among it."""
        return self.data, self.share

    def quick(self) -> Case:
        """A small part of it; of the built-in data that stands in for it where its files are not here."""
        if self.data.stand_in is None or self.data.is_here:
            return replace(self, share=self.data.quick)
        data, factor = self.data.stand_in
        return Case(data, factor * self.l1, data.quick, stands_for=self.data)

    def load(self) -> Problem:
        """The items, as the recipe cuts and maps them; where they are not here, say what can be measured without."""
        try:
            problem = Problem.of_recipe(self.data.recipe)
        except DataUnavailableError as error:
            raise DataUnavailableError(f"{error}\n{BUILT_IN}") from error
        return problem if self.share == 1.0 else some_items(problem, round(self.share * len(problem.y_train)))

    def solver(self, name: str) -> Any:
        return METHODS[name].make(self.data)

    def task(self, problem: Problem, n_threads: int | None) -> Task:
        return Task(problem, self.strength, n_threads)


def some_items(problem: Problem, n_items: int) -> Problem:
    """A part of the training items.

    Sequences come in random order: the first ones. Documents come in the order of their labels: some of all labels, and
    without the words that do not occur in them, whose weights are zero.
    """
    if problem.is_chain:
        return problem.part(n_items)
    n_documents = len(problem.y_train)
    rows = np.arange(n_items) * n_documents // n_items
    return replace(problem, X_train=problem.X_train[rows], y_train=problem.y_train[rows]).without_unused()


@dataclass(eq=False)
class Task:
    """The likelihood of a problem under l1, as the estimators train it."""

    problem: Problem
    l1: float
    n_threads: int | None
    scale, n_features, counts_samples = 1.0, 0, True

    def fit(self, solver: Any, **limits: Any) -> Result:
        problem, settings = self.problem, {"l1": self.l1, "solver": solver, "n_threads": self.n_threads}
        taxonomy = {} if problem.is_chain else {"taxonomy": problem.taxonomy}
        model: Any = (ChainCRF if problem.is_chain else TaxonomyCRF)(**taxonomy, **settings, **limits)  # type: ignore[arg-type]
        return model.fit(problem.X_train, problem.y_train).result_

    def warm_up(self, solver: Any, is_first: bool) -> None:
        """A few steps on a part of the items, with few weights; and two on all, which touch the memory."""
        if is_first:
            part = self.problem.part(max(20, int(WARM_UP * len(self.problem.y_train))))
            task = Task(part, STRONGER * WARM_UP * self.l1, self.n_threads)
            task.fit(solver, max_iter=WARM_UP_STEPS, max_seconds=WARM_UP_SECONDS, tol=1e-2)
        Task(self.problem, STRONGER * self.l1, self.n_threads).fit(
            solver, max_iter=2, max_seconds=TOUCH_SECONDS
        )

    def model(self, weights: Weights) -> tuple[Any, Any]:
        """Weights and edges (of a taxonomy: None)."""
        n_states = len(self.problem.classes) if self.problem.is_chain else self.problem.taxonomy.n_nodes
        table, edges = weights_of(*weights, n_states, self.problem.matrix.shape[1])
        return table, edges if self.problem.is_chain else None

    def glance(self, weights: Weights) -> tuple[float, int]:
        table, edges = self.model(weights)
        is_chain, n_nonzero = self.problem.is_chain, np.count_nonzero(weights[1])
        best = best_labels(self.problem, table, edges) if is_chain else predictions(self.problem, table)
        return accuracy(self.problem, best), int(n_nonzero)

    def verdict(self, weights: Weights) -> Verdict:
        return judge(self.problem, *self.model(weights), l1=self.l1)


ALL = ("Prox-QN", "Prox-QN as published", "OWL-QN", "SGD", "SGD, the paper's rate", "BCD", "Prox-GD", "FISTA")
WITHOUT_SHRINKING = (
    "Prox-QN", "Prox-QN, no shrinking, 10 sweeps", "Prox-QN, no shrinking, 1 sweep",
    "OWL-QN", "SGD", "SGD, the paper's rate", "Prox-GD", "FISTA",
)  # fmt: skip


def convergence(number: str, title: str, case: Case, letters: str = "ab") -> CurveFigure:
    """Distance and non-zeros, against seconds and against passes."""
    names = {"relative_difference": "relative objective difference", "n_nonzero": "non-zero weights"}
    panels = [
        CurvePanel(f"({letter}) {names[y]}" if x == "seconds" else f"{names[y]}, by passes", case, y, x)
        for x in ("seconds", "passes")
        for letter, y in zip(letters, names, strict=True)
    ]
    return CurveFigure(number, title, ALL, panels, is_comparison=True)


FIGURES: Mapping[str, CurveFigure] = {
    figure.number: figure
    for figure in (
        convergence("1", "Sequence labelling", Case(OCR, 100.0), "bc"),
        convergence("2", "Hierarchical classification", Case(LSHTC1, 1.0), "bc"),
        convergence("3", "Sequence labelling", Case(OCR, 500.0)),
        convergence("4", "Sequence labelling", Case(OCR, 50.0)),
        convergence("5", "Hierarchical classification", Case(LSHTC1, 2.0)),
        convergence("6", "Hierarchical classification", Case(LSHTC1, 0.5)),
        CurveFigure(
            "7",
            "Test accuracy against training time",
            ALL,
            [
                CurvePanel("(a) {case}", Case(OCR, 100.0), "accuracy", "seconds"),
                CurvePanel("(b) {case}", Case(LSHTC1, 1.0), "accuracy", "seconds"),
            ],
            is_comparison=True,
        ),
        CurveFigure(
            "8",
            "Without shrinking, against passes",
            WITHOUT_SHRINKING,
            [CurvePanel("{case}", Case(OCR, 100.0), "relative_difference", "passes")],
        ),
        convergence("digits", "Sequence labelling, built-in data", Case(DIGITS, 3.0)),
    )
}
TABLES: Mapping[str, Sequence[Case]] = {
    "1": [Case(OCR, l1) for l1 in (50.0, 100.0, 500.0)],
    "2": [Case(LSHTC1, l1) for l1 in (0.5, 1.0, 2.0)],
}

OF_THE_PAPER = [name for name in FIGURES if name != "digits"]
PAGE = Page(
    "The paper's study",
    INTRODUCTION,
    "reproduce_prox_qn.py",
    (*(f"figure-{name}" for name in FIGURES), *(f"table-{name}" for name in TABLES), "superlinear"),
)


class Publisher:
    """Makes figures and tables in a folder.

    path : the folder, made if it is not there
    is_quick : small parts of the data
    seconds : limit of a single run
    """

    def __init__(self, path: Path, is_quick: bool, seconds: float, n_threads: int | None) -> None:
        check_matplotlib()
        threads = "" if n_threads is None else f" --threads {n_threads}"
        self.folder = Folder(path, PAGE, f"{' --quick' * is_quick} --max-seconds {seconds:g}{threads}")
        self.study = Study(self.folder, seconds, is_quick, n_threads)

    def figure(self, name: str) -> None:
        """Measure and draw figure `name`."""
        figure = FIGURES[name].quick() if self.study.is_quick else FIGURES[name]
        say(f"Figure {name}")
        measured = self.study.measure(figure)

        tables, notes = tables_of(figure, measured, self.folder.optima)
        publish_curves(self.folder, figure, measured, METHODS, METHOD, tables, notes)

    def table(self, name: str) -> None:
        """Measure table `name`: the references alone."""
        cases = [case.quick() if self.study.is_quick else case for case in TABLES[name]]
        say(f"Table {name}")
        for case in cases:
            self.study.run(case, [])
        beside = " beside the paper's" if cases[0].stands_for is None else ""
        title = f"Table {name}: the optimum{beside}, {cases[0].data.title}"
        self.folder.publish(f"table-{name}", title, [optimum_table(cases, self.folder.optima)])

    def superlinear(self) -> None:
        """Theorem 1."""
        say("Superlinear convergence")
        n = QUICK_PROBLEMS if self.study.is_quick else None
        runs = [superlinear.measure(seed) for seed in list(superlinear.SEEDS)[:n]]

        self.folder.publish(
            "superlinear",
            "Theorem 1: superlinear convergence",
            [superlinear.convergence_table(runs)],
            rows=superlinear.convergence_rows(runs),
            picture=lambda file: superlinear.draw_convergence(runs, METHODS, file),
        )


def tables_of(
    figure: CurveFigure, measured: Measured, optima: Mapping[str, Optimum]
) -> tuple[list[Table], list[str]]:
    """A table a problem, and notes."""
    tables = []
    for case, (optimum, found) in measured.items():
        first = [first_note(optimum, found)] if figure.is_comparison else []
        notes = [optimum_note(optima[str(case)]), *first, agreement(found)]
        tables.append(curve_table(case, optimum, found, notes))
    notes = notes_on(figure.cases)
    notes += [SGD.format(eta0=case.data.eta0) for case in figure.cases if case.data.eta0 is not None]
    notes += [BCD] if any("BCD" in (c.solver for c in found) for _, found in measured.values()) else []
    return tables, notes


def first_note(optimum: float, found: Sequence[Curve]) -> str:
    """Whether Prox-QN was first to each level, and who came next."""
    return curve_report.first_note(optimum, found, METHOD, lambda name: name.startswith(METHOD))


def notes_on(cases: Sequence[Case]) -> list[str]:
    """How the data differ from the paper's, each data set once."""
    notes = [
        NOTES.get(case.data, "")
        if case.stands_for is None
        else STAND_IN.format(case.stands_for.title, case.data.title.lower(), case.stands_for.registered)
        for case in cases
    ]
    return list(dict.fromkeys(note for note in notes if note))


def optimum_table(cases: Sequence[Case], optima: Mapping[str, Optimum]) -> Table:
    """The models at the optimum, beside the paper's (its tables 1 and 2) where the data are its."""
    is_of_paper = cases[0].stands_for is None
    rows = []
    for case in cases:
        known = optima[str(case)]
        row = [f"{case.strength:.3g}", f"{known.n_nonzero:,}", f"{known.accuracy:.4f}"]
        row += [f"{known.value:,.3f}", f"{known.gap:.0e}"]
        if is_of_paper:
            n_nonzero, accuracy = PAPER[case.data.recipe][case.l1]
            row += [f"{n_nonzero:,}", f"{accuracy:.4f}"]
        rows.append(row)
    head = ["l1", "non-zeros", "test accuracy", "objective", "certified gap"]
    head += ["the paper's non-zeros", "the paper's accuracy"] if is_of_paper else []
    notes = notes_on(cases)
    if is_of_paper and cases[0].share < 1.0:
        notes.append(
            f"A part of the data, {100 * cases[0].share:g} % of the items: the paper's values are of all."
        )
    return Table(cases[0].data.title, head, rows, notes)


FigureName = StrEnum("FigureName", [*FIGURES])  # type: ignore[misc]
TableName = StrEnum("TableName", [*TABLES])  # type: ignore[misc]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    figure: Annotated[
        list[FigureName] | None, typer.Option(help="May be given several times; `digits` needs no data.")
    ] = None,
    table: Annotated[list[TableName] | None, typer.Option(help=SEVERAL)] = None,
    with_theorem: Annotated[bool, typer.Option("--superlinear", help="Theorem 1 on small problems.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small parts of the data or of built-in data, short runs.")
    ] = False,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help=f"Of a single run; default: {SECONDS:g}, with --quick {QUICK_SECONDS:g}."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("prox-qn-study"),
) -> None:
    """Measure the paper's figures and tables again; without a choice all of them."""
    figures, tables = [*map(str, figure or ())], [*map(str, table or ())]
    if not (figures or tables or with_theorem):
        figures, tables, with_theorem = OF_THE_PAPER, list(TABLES), True
    with explaining():
        publisher = Publisher(output, quick, max_seconds or (QUICK_SECONDS if quick else SECONDS), threads)
        for name in figures:
            publisher.figure(name)
        for name in tables:
            publisher.table(name)
        if with_theorem:
            publisher.superlinear()


if __name__ == "__main__":
    app()
