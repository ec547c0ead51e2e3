#!/usr/bin/env python
"""The figures and tables of Zhong, Yen, Dhillon and Ravikumar (NIPS 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_prox_qn.py --quick              # all of it on small parts, of built-in data if need be
    python scripts/reproduce_prox_qn.py --figure 3           # one figure, on all of the data
    python scripts/reproduce_prox_qn.py --table 1
    python scripts/reproduce_prox_qn.py --superlinear        # Theorem 1

Writes SVG and CSV files, and a page over all that is in the folder. `ocr` and `lshtc1` are the paper's data (section 6)
as the recipes of these names prepare them; `digits` and `stdlib` are built in, and stand in for them in small runs on
machines that have no files of theirs.

Shapes of Theorem 1: d weights, n steps; all vectors there are dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness import curves
from harness.curves import CurveFigure, CurvePanel, Measured, Recording, Study, Weights
from harness.drawing import Method, Panel
from harness.judging import Verdict, accuracy, best_labels, judge, predictions, weights_of
from harness.options import SEVERAL, Into, Quick, RunSeconds, command, run_seconds, some_of
from harness.pages import Optimum, Page, Publisher, explaining
from harness.problems import Problem
from harness.report import Table
from numpy.typing import NDArray

from crfqn import ChainCRF, TaxonomyCRF
from crfqn.data.features import FeatureStore
from crfqn.datasets import dataset
from crfqn.errors import DataUnavailableError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective, build_objective
from crfqn.papers.zhong2014.feature_bcd import FeatureBCD
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.penalties import ElasticNet
from crfqn.result import Result
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Requirements, Solver
from crfqn.solvers.prox_qn import AllCoordinates, ByShareOfBound, CostAwareSweeps, ProxQN
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

METHOD, PEER = "Prox-QN", "Prox-GD"  # of Theorem 1
QUICK_PROBLEMS = 2
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
NEVER = 2.0  # a margin that no gradient exceeds
ALMOST_NOTHING = 1e-14
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
LSHTC1 = Data("lshtc1", "lshtc1-task2", "LSHTC1", 10.0, 0.03, stand_in=(STDLIB, 1.0))
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


@dataclass(frozen=True)
class WithoutShrinking(Solver):
    """Prox-QN on all coordinates all the time, in one epoch: the method of the paper's theorems.

    `sweeps`: of the inner coordinate descent, for the paper's rule leaves one (floor(d / |A|) = 1).
    """

    solver: ProxQN
    sweeps: int

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        return self.solver.requires(objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        """The steps of the solver, told that every coordinate may move."""
        solver = replace(
            self.solver,
            shrinking=ByShareOfBound(slack=NEVER),
            entry=AllCoordinates(),
            cooling=ALMOST_NOTHING,
            sweeps=CostAwareSweeps(self.sweeps),
            warm_start=None,
        )
        return solver.steps(objective, penalty, start)


METHODS: Mapping[str, Method] = {
    METHOD: Method(make=lambda data: ProxQN(), colour="#d55e00", marker="o"),
    "Prox-QN as published": Method(make=lambda data: ProxQN.paper(), colour="#0072b2", marker="s"),
    "OWL-QN": Method(make=lambda data: OWLQN(), colour="#009e73", marker="^"),
    "SGD": Method(make=lambda data: SGDL1(), colour="#e69f00", marker="v"),
    "SGD, the paper's rate": Method(
        make=lambda data: data.eta0 and SGDL1(eta0=data.eta0), colour="#e69f00", marker="v", is_dashed=True
    ),
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

    def task(self, problem: Problem) -> Task:
        return Task(problem, self.strength)


def some_items(problem: Problem, n_items: int) -> Problem:
    """A part of the training items, and as large a part of the test items.

    Sequences come in random order: the first ones. Documents come in the order of their labels: some of all labels, and
    without the words that do not occur in them, whose weights are zero.
    """
    n_documents, n_test = len(problem.y_train), len(problem.y_test)
    tests = np.linspace(0, n_test - 1, max(1, n_items * n_test // n_documents)).astype(int)
    if problem.is_chain:
        last = tests.size
        problem = replace(problem, X_test=problem.X_test[:last], y_test=problem.y_test[:last])
        return problem.part(n_items)
    problem = replace(problem, X_test=problem.X_test[tests], y_test=problem.y_test[tests])
    rows = np.arange(n_items) * n_documents // n_items
    return replace(problem, X_train=problem.X_train[rows], y_train=problem.y_train[rows]).without_unused()


@dataclass(eq=False)
class Task:
    """The likelihood of a problem under l1, as the estimators train it, on one thread as the paper's methods."""

    problem: Problem
    l1: float
    scale, n_features, counts_samples = 1.0, 0, True

    def fit(self, solver: Any, **limits: Any) -> Result:
        problem, settings = self.problem, {"l1": self.l1, "solver": solver, "n_threads": 1}
        taxonomy = {} if problem.is_chain else {"taxonomy": problem.taxonomy}
        model: Any = (ChainCRF if problem.is_chain else TaxonomyCRF)(**taxonomy, **settings, **limits)  # type: ignore[arg-type]
        return model.fit(problem.X_train, problem.y_train).result_

    def warm_up(self, solver: Any, is_first: bool) -> None:
        """A few steps on a part of the items, with few weights; and two on all, which touch the memory."""
        if is_first:
            part = self.problem.part(max(20, int(WARM_UP * len(self.problem.y_train))))
            task = Task(part, STRONGER * WARM_UP * self.l1)
            task.fit(solver, max_iter=WARM_UP_STEPS, max_seconds=WARM_UP_SECONDS, tol=1e-2)
        Task(self.problem, STRONGER * self.l1).fit(solver, max_iter=2, max_seconds=TOUCH_SECONDS)

    def model(self, weights: Weights) -> tuple[Any, Any]:
        """Weights and edges (of a taxonomy: None)."""
        n_states = len(self.problem.classes) if self.problem.is_chain else self.problem.taxonomy.n_nodes
        table, edges = weights_of(*weights, n_states, self.problem.matrix.shape[1])
        return table, edges if self.problem.is_chain else None

    def worth(self, weights: Weights) -> tuple[float, int]:
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
            "7", "Test accuracy against training time", ALL,
            [CurvePanel("(a) {case}", Case(OCR, 100.0), "accuracy", "seconds"),
             CurvePanel("(b) {case}", Case(LSHTC1, 1.0), "accuracy", "seconds")], is_comparison=True,
        ),
        CurveFigure("8", "Without shrinking, against passes", WITHOUT_SHRINKING,
                    [CurvePanel("{case}", Case(OCR, 100.0), "relative_difference", "passes")]),
        convergence("digits", "Sequence labelling, built-in data", Case(DIGITS, 3.0)),
    )
}  # fmt: skip
TABLES: Mapping[str, Sequence[Case]] = {
    "1": [Case(OCR, l1) for l1 in (50.0, 100.0, 500.0)],
    "2": [Case(LSHTC1, l1) for l1 in (0.5, 1.0, 2.0)],
}

SECTIONS = (*(f"figure-{name}" for name in FIGURES), *(f"table-{name}" for name in TABLES), "superlinear")
PAGE = Page("The paper's study", INTRODUCTION, "reproduce_prox_qn.py", SECTIONS)


class Paper(Publisher):
    """The paper's figures and tables; `seconds`: limit of a single run."""

    page = PAGE

    def __init__(self, path: Path, is_quick: bool, seconds: float) -> None:
        self.open(path, quick=is_quick, max_seconds=seconds)
        self.study = Study(self.folder, seconds, is_quick)

    def figure(self, name: str) -> None:
        figure = FIGURES[name].quick() if self.study.is_quick else FIGURES[name]
        measured = self.study.measure(figure)
        tables, notes = tables_of(figure, measured, self.folder.optima)
        curves.publish_curves(self.folder, figure, measured, METHODS, METHOD, tables, notes)

    def table(self, name: str) -> None:
        """Measure table `name`: the references alone."""
        cases = [case.quick() if self.study.is_quick else case for case in TABLES[name]]
        for case in cases:
            self.study.run(case, [])
        beside = " beside the paper's" if cases[0].stands_for is None else ""
        title = f"the optimum{beside}, {cases[0].data.title}"
        self.folder.publish(f"table-{name}", title, [optimum_table(cases, self.folder.optima)])

    def superlinear(self) -> None:
        runs = [converge(seed) for seed in SEEDS[: QUICK_PROBLEMS if self.study.is_quick else None]]
        records = [
            {"problem": number, "solver": name, "step": step, "distance": distance, "ratio": ratio}
            for number, run in enumerate(runs)
            for name, distances in run.distances.items()
            for step, (distance, ratio) in enumerate(zip(distances, [np.nan, *run.ratios(name)], strict=True))
        ]
        self.folder.publish(
            "superlinear", "Theorem 1: superlinear convergence", [convergence_table(runs)],
            records=records, panels=convergence_panels(runs), styles=METHODS,
        )  # fmt: skip


def tables_of(
    figure: CurveFigure, measured: Measured, optima: Mapping[str, Optimum]
) -> tuple[list[Table], list[str]]:
    """A table a problem, and notes."""

    tables = []
    for case, (optimum, found) in measured.items():
        first = [curves.first_note(optimum, found, METHOD, (METHOD,))] if figure.is_comparison else []
        notes = [curves.optimum_note(optima[str(case)]), *first, curves.agreement(found)]
        tables.append(curves.curve_table(case, optimum, found, notes))
    notes = notes_on(figure.cases)
    notes += [SGD.format(eta0=case.data.eta0) for case in figure.cases if case.data.eta0 is not None]
    notes += [BCD] if any("BCD" in (c.solver for c in found) for _, found in measured.values()) else []
    return tables, notes


def notes_on(cases: Sequence[Case]) -> list[str]:
    """How the data differ from the paper's, each data set once."""
    notes = []
    for case in cases:
        name, stands_for = case.data.title.lower(), case.stands_for
        stand_in = stands_for and STAND_IN.format(stands_for.title, name, stands_for.registered)
        notes.append(stand_in or NOTES.get(case.data, ""))
    return list(dict.fromkeys(filter(None, notes)))


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
        share = 100 * cases[0].share
        notes.append(f"A part of the data, {share:g} % of the items: the paper's values are of all.")
    return Table(cases[0].data.title, head, rows, notes)


# Theorem 1 on a small problem: Prox-QN converges superlinearly although the Hessian is singular.
#
# Chains with redundant features: two columns are copies of others, and for each feature the weights of all labels may
# be shifted together. So the loss depends on z = proj_T(w) only, T the row space of the Hessian, the same at every w
# (constant nullspace strong convexity). No shrinking, the inner problem solved to the end, all secant pairs kept; then
# ||z_{t+1} - z*|| / ||z_t - z*|| must fall. For proximal gradient descent it stays where it is.
Vector = NDArray[np.float64]
N_ITEMS, LONGEST, N_FEATURES, N_COPIES, N_STATES = 200, 6, 6, 2, 3
SEEDS, L1 = range(5), 25.0
MOST_SWEEPS, MOST_STEPS = 20_000, 400
STEP = 1e-4  # of the differences that the Hessian is made of
NULL = 1e-6  # an eigenvalue below this share of the largest is zero
FLOOR = 1e-7  # of the first distance: nearer, rounding hides the decrease of the objective
POLISHING = 5  # Newton steps


@dataclass(frozen=True, eq=False)
class Geometry:
    """The optimum and the space that the loss depends on.

    optimum : (d,); basis : (d, rank), orthonormal columns, of the Hessian's row space
    angle : sine of the largest angle between that space at the optimum and at zero
    violation : of the optimality conditions at the optimum
    """

    optimum: Vector
    basis: Vector
    angle: float
    violation: float

    def distances(self, iterates: Vector) -> Vector:
        """||z_t - z*|| of each row, until it is down to what rounding leaves."""
        found = np.linalg.norm((iterates - self.optimum) @ self.basis, axis=1)
        near = np.flatnonzero(found < FLOOR * found[0])
        return found[: near[0]] if near.size else found


@dataclass(frozen=True, eq=False)
class Convergence:
    """What is shown: distances ||z_t - z*|| by method, and the geometry behind them."""

    geometry: Geometry
    n_nonzero: int
    distances: dict[str, Vector]

    def ratios(self, name: str) -> Vector:
        """||z_{t+1} - z*|| / ||z_t - z*||."""
        distances = self.distances[name]
        return distances[1:] / distances[:-1]

    def thirds(self, name: str) -> list[float]:
        """The geometric mean of the ratios in the first, second and last third of the steps."""
        parts = np.array_split(np.log(self.ratios(name)), 3)
        return [float(np.exp(part.mean())) for part in parts]


def converge(seed: int) -> Convergence:
    """Run both methods, and find the optimum and the row space."""
    objective, penalty = make_objective(seed), ElasticNet(L1)
    solver = replace(ProxQN.paper(), memory=MOST_STEPS)
    solvers = {METHOD: WithoutShrinking(solver, MOST_SWEEPS), PEER: ProxGD(growth=1.0)}
    iterates = {name: run(objective, penalty, solver) for name, solver in solvers.items()}
    geometry = look(objective, iterates[METHOD][-1])
    distances = {name: geometry.distances(rows) for name, rows in iterates.items()}
    return Convergence(geometry, int(np.count_nonzero(geometry.optimum)), distances)


def make_objective(seed: int) -> Objective:
    """Random chains whose labels depend on the features and on each other, with copies of the first columns."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, LONGEST + 1, N_ITEMS))])
    matrix = random.normal(size=(offsets[-1], N_FEATURES)) * (random.random((offsets[-1], N_FEATURES)) < 0.4)
    scores = matrix @ random.normal(size=(N_FEATURES, N_STATES)) + random.gumbel(size=(offsets[-1], N_STATES))
    edges = 1.5 * random.normal(size=(N_STATES, N_STATES))
    targets = scores.argmax(axis=1).astype(np.int32)
    for first, last in pairwise(offsets):
        for t in range(first + 1, last):
            targets[t] = np.argmax(scores[t] + edges[targets[t - 1]])
    store = FeatureStore.from_matrix(np.hstack([matrix, matrix[:, :N_COPIES]]), offsets)
    return build_objective(SparseMap(store), Likelihood(Chain(offsets, N_STATES), targets))


def run(objective: Objective, penalty: ElasticNet, solver: Any) -> Vector:
    """All iterates, (n, d), from zero until rounding hides any decrease."""
    recording = Recording(solver, keeps_all=True)
    minimize(objective, penalty, recording, Run(tol=0.0, max_iter=MOST_STEPS, counts_proved_zeros=False))
    rows = np.zeros((len(recording.looks), objective.n_coords))
    for row, (coords, weights) in zip(rows, recording.looks.values(), strict=True):
        row[coords] = weights
    return rows[np.append(True, np.any(rows[1:] != rows[:-1], axis=1))]  # a state may look twice at a point


def look(objective: Objective, near: Vector) -> Geometry:
    """The optimum near the last iterate, by Newton steps on its support, and the row spaces."""
    w, support = near.copy(), np.flatnonzero(near)
    for _ in range(POLISHING):
        slope = gradient(objective, w)[support] + L1 * np.sign(w[support])
        inner = hessian(objective, w)[np.ix_(support, support)]
        w[support] -= np.linalg.pinv(inner, rcond=NULL, hermitian=True) @ slope
    bases = []
    for at in (w, np.zeros_like(w)):
        values, vectors = np.linalg.eigh(hessian(objective, at))
        bases.append(vectors[:, values > NULL * values[-1]])  # orthonormal columns
    basis, at_zero = bases
    outside = basis - at_zero @ (at_zero.T @ basis)
    violation = ElasticNet(L1).violation(np.arange(w.size), w, gradient(objective, w))
    return Geometry(w, basis, float(np.linalg.norm(outside, 2)), float(violation.max()))


def gradient(objective: Objective, w: Vector) -> Vector:
    """Of the loss, at dense weights."""
    used = np.flatnonzero(w)
    return objective.at(used, w[used]).gradient(np.arange(w.size))


def hessian(objective: Objective, w: Vector) -> Vector:
    """Of the loss, (d, d), by differences of the gradient of fourth order."""
    rows = []
    for unit in np.eye(w.size):
        slopes = {n: gradient(objective, w + n * STEP * unit) for n in (-2, -1, 1, 2)}
        rows.append((8 * (slopes[1] - slopes[-1]) - (slopes[2] - slopes[-2])) / (12 * STEP))
    matrix = np.array(rows)
    return 0.5 * (matrix + matrix.T)


def convergence_panels(runs: Sequence[Convergence]) -> list[Panel]:
    """Distances and their ratios by step, geometric means over the problems as long as all of them go on."""
    distances, ratios = {}, {}
    for name in (METHOD, PEER):
        n_steps = min(run.distances[name].size for run in runs)
        mean = np.exp(np.mean([np.log(run.distances[name][:n_steps]) for run in runs], axis=0))
        distances[name] = np.arange(n_steps), mean
        ratios[name] = np.arange(1, n_steps), mean[1:] / mean[:-1]
    return [
        Panel("distance from the optimum, geometric mean", distances, "step t", "||z_t - z*||", "y"),
        Panel("ratio of successive distances", ratios, "step t", "||z_t - z*|| / ||z_(t-1) - z*||"),
    ]


def convergence_table(runs: Sequence[Convergence]) -> Table:
    """The numbers of Theorem 1, and how to read them."""
    rows = []
    for number, run in enumerate(runs):
        geometry = run.geometry
        d, rank = geometry.basis.shape
        row = [str(number), str(d), str(rank), f"{geometry.angle:.0e}", str(run.n_nonzero)]
        for name in (METHOD, PEER):
            row += [" ".join(f"{ratio:.2f}" for ratio in run.thirds(name)), str(run.ratios(name).size)]
        rows.append(row)
    head = ["problem", "weights", "rank of the Hessian", "sine of angle", "non-zeros"]
    for name in (METHOD, PEER):
        head += [f"{name}: ratios", "steps"]
    notes = [
        "Sine of angle: the largest one between the Hessian's row spaces at w = 0 and at the optimum. They are the "
        "same space, as constant nullspace strong convexity wants, and smaller than the space of weights.",
        "Ratios: ||z_{t+1} - z*|| / ||z_t - z*||, z the projection on that space, geometric means over the first, "
        "second and last third of the steps. Superlinear: they fall. Linear: they stay.",
        "The run ends where the distance is 1e-7 of the first; nearer, rounding hides the decrease of the objective.",
        "Prox-QN as published, without shrinking, the inner problem solved to the end, all secant pairs kept. Its "
        "B0 = gamma I is not confined to the row space, as the theorem's is; that does no harm here.",
    ]
    return Table("Ratios of successive distances", head, rows, notes)


app = command()


@app.command()
def reproduce(
    figure: Annotated[
        list[str] | None, some_of(PAGE.names("figure"), f"{SEVERAL} `digits` needs no data.")
    ] = None,
    table: Annotated[list[str] | None, some_of(PAGE.names("table"), SEVERAL)] = None,
    with_theorem: Annotated[bool, typer.Option("--superlinear", help="Theorem 1 on small problems.")] = False,
    quick: Quick = False,
    max_seconds: RunSeconds = None,
    output: Into = Path("prox-qn-study"),
) -> None:
    """Measure the paper's figures and tables again; without a choice all of them."""
    with explaining():
        paper = Paper(output, quick, run_seconds(max_seconds, quick))
        paper.make(figure, table, *["superlinear"] * with_theorem, left_out="figure-digits")


if __name__ == "__main__":
    app()
