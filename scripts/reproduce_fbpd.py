#!/usr/bin/env python
"""The table and the figures of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_fbpd.py --quick                            # all of it on scikit-learn's digits
    python scripts/reproduce_fbpd.py --table 1 --leukemia FOLDER        # 38 and 34 patients, blocks of 5 genes
    python scripts/reproduce_fbpd.py --figure 1 --figure 3 --subsets 5  # MNIST; --scattering needs '.[scattering]'

Writes SVG and CSV files, and a page over all that is in the folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from harness import data
from harness.drawing import Panel
from harness.measuring import fit_seconds, say
from harness.options import SEVERAL, Into, Quick, command, some_of
from harness.pages import Page, Publisher, explaining
from harness.problems import Problem
from harness.report import Record, grouped, lines_of, matching, means, pivot
from numpy.linalg import norm
from numpy.typing import NDArray
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from crfqn import MulticlassClassifier
from crfqn.errors import InputError
from crfqn.papers.chierchia2015.constrained import ConstrainedFBPD
from crfqn.papers.chierchia2015.regularised import FBPD
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.result import Status
from crfqn.solvers.protocols import Requirements, State, requirements

LOSSES = {"hinge": "hinge", "square": "squared-hinge", "logit": "logistic"}
LOSSES["one-vs-all"] = "multitask-squared-hinge"
CONSTRAINED = "Algorithm 2"
LIBLINEAR = "Crammer-Singer, liblinear"
CHANGE = 1e-5  # of the weights in a step: the paper's rule
NEAR = 1e-3  # certified: ends a run as well
MOST, QUICK_MOST = 2000, 15  # iterations, of 10 steps each for the hinge
PENALTIES = ("l2", "l1", "l1/l2", "l1/linf")
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BUDGETS = (0.03, 0.1, 0.3)  # of Algorithm 2: eta = alpha L, and a loss of L is that of zero weights
FEW, NEWS = (3, 5, 10), (5, 10, 50)  # training items of a class
ROUGH = 1e-3  # figure 4's rule
MARGIN = 1.0  # mu of equation 20, "the usual convention"
SCALES, WAVELETS = 2, 2  # 2^J = 4, two layers
INTRODUCTION = """\
The table and the figures of G. Chierchia, N. Pustelnik, J.-C. Pesquet and B. Pesquet-Popescu, *A proximal approach
for sparse multiclass SVM*, 2015, measured again. lambda = 1 / alpha, eta = alpha L. "Hinge" is Algorithm 1 by the
paper's rule, a relative change of 1e-5 in a step (1e-3 in figure 4), or to a certified gap of 1e-3, to which the
other losses are solved; in figure 3 the squared hinge is FISTA's and the logistic loss, equation 20 with mu = 1,
forward-backward's, by the paper's rule too. The time of liblinear's Crammer-Singer, dual descent from another library,
stands in figure 4 for that of SVM-struct, which is not to be had as a package. Expression levels are cut at 100 and
16,000, and their logarithms have mean 0 and variance 1 within each patient (Dudoit, Fridlyand and Speed 2002), less
each gene's mean over the training patients; the paper does not say how. The best alpha is that with the fewest errors
on the test part, as in the paper: no estimate of how well a model will do."""
SECTIONS = ("table-1", "figure-1", "figure-2", "figure-3", "figure-4")
PAGE = Page("Sparse multiclass SVM: the paper's study", INTRODUCTION, "reproduce_fbpd.py", SECTIONS)


class Figure(NamedTuple):
    """A figure: a quantity or two against alpha on random training sets of several sizes.

    data : of the paper; sizes : training items of a class; change : of the stopping rule
    methods : by name, of Algorithm 1; `is_constrained`: and Algorithm 2
    are_papers : smooth losses by the paper's first-order methods, which are followed to their ends besides
    """

    data: str
    penalty: str
    sizes: Sequence[int]
    shown: Sequence[str]
    methods: Sequence[str] = tuple(LOSSES)
    is_constrained: bool = False
    change: float = CHANGE
    are_papers: bool = False
    n_subsets: int = 10


FIGURES = {
    "1": Figure("mnist", "l1/linf", FEW, ("errors", "zeros"), n_subsets=25),
    "2": Figure("news20", "l1/l2", NEWS, ("errors", "zeros")),
    "3": Figure("mnist", "l1/linf", FEW, ("seconds",), is_constrained=True, are_papers=True),
    "4": Figure("mnist", "l2", (*FEW, 50, 100, 500), ("seconds",), ("hinge", LIBLINEAR), True, ROUGH),
}


@dataclass
class ByChange:
    """A solver that ends by the paper's rule, a relative change of the weights in a step.

    path : the seconds and weights of its steps, these thinned out as they grow in number
    """

    solver: Any
    change: float
    path: list[tuple[float, NDArray[np.float64]]] = field(default_factory=list)

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        return requirements(self.solver, objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[State]:
        """Yield those of the solver, up to the one that changes little."""
        begin, due, before = process_time(), 0.0, np.zeros(objective.n_states * objective.n_features)
        for state in self.solver.steps(objective, penalty, start):
            weights, seconds = np.zeros_like(before), process_time() - begin
            weights[state.point.coords] = state.point.weights
            is_still = 0.0 < norm(weights - before) <= self.change * norm(weights)
            end = Status.RULE_MET if is_still else state.end
            if end is not None or seconds >= due:
                self.path.append((seconds, weights))
                due = 1.05 * seconds
            before = weights
            yield replace(state, end=end)

    def distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds, and relative distances to the last weights."""
        seconds, weights = [*zip(*self.path, strict=True)]
        last = weights[-1]
        return np.array(seconds[:-1]), np.array([norm(each - last) / norm(last) for each in weights[:-1]])


def solver_of(method: str, change: float, are_papers: bool) -> Any:
    """The solver of a method; "auto": to a certified gap."""
    if method in ("hinge", CONSTRAINED):
        return FBPD(change=change) if method == "hinge" else ConstrainedFBPD(change=change)
    first_order = {"square": FISTA(restart=None), "logit": ProxGD()}
    return ByChange(first_order[method], change) if are_papers and method in first_order else "auto"


def fit(items: Problem, penalty: str, method: str, alpha: float, solver: Any, max_iter: int = MOST) -> Record:
    """Train at lambda = 1 / alpha (our loss is not scaled, and the penalty's strength is alpha), or Algorithm 2 at
    eta = alpha L; a record of test errors, weights that are not zero by class, how it was found."""
    strength = {"l1": "l1", "l2": "l2"}.get(penalty, "group_l1")
    settings: dict[str, Any] = {"loss": LOSSES.get(method, "hinge"), strength: alpha, "tol": NEAR}
    if method == "logit":
        settings |= {"margin": MARGIN}
    if method == CONSTRAINED:
        settings = {"loss": "hinge", "loss_bound": alpha * len(items.y_train), "tol": 0.0}
    if isinstance(solver, ByChange):
        settings |= {"tol": 0.0}
    groups = items.groups if strength == "group_l1" else None
    model = MulticlassClassifier(
        penalty=penalty, feature_groups=groups, solver=solver, max_iter=max_iter, n_threads=1, **settings
    )
    seconds = fit_seconds(model, items.X_train, items.y_train)
    kept, found = np.diff(model.coef_.indptr), model.result_
    return {
        "method": method, "alpha": alpha, "errors": int(np.sum(model.predict(items.X_test) != items.y_test)),
        "of": len(items.y_test), "kept": " + ".join(map(str, kept.tolist())),
        "zeros": 100.0 * (1.0 - int(kept.sum()) / math.prod(model.coef_.shape)), "seconds": seconds,
        "status": found.status.name.lower(), "gap": found.gap,
    }  # fmt: skip


@cache
def mnist(scatters: bool) -> Problem:
    """Grey values from 0 to 1 of 60,000 and 10,000 digits, or their scattering transform in blocks by place."""
    images = data.split_of("mnist")
    if not scatters:
        return images
    # What training subsets may draw from, and all test images, are transformed once.
    y = images.y_train
    few = np.concatenate([np.flatnonzero(y == label)[:200] for label in np.unique(y)])
    train, groups = scattering(images.X_train[few].toarray())
    test, _ = scattering(images.X_test.toarray())
    return Problem(train, y[few], test, images.y_test, groups=groups)


def scattering(x: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Coefficients of Bruna and Mallat (2013), and the place, one of 7 x 7 or more, that each belongs to."""
    try:
        from kymatio.numpy import Scattering2D
    except ImportError:
        raise InputError(
            "scattering needs kymatio, which is not installed here: pip install 'crfqn[scattering]'"
        ) from None
    transform = Scattering2D(J=SCALES, shape=(28, 28), max_order=WAVELETS)
    images = x.reshape(-1, 28, 28).astype(np.float32)
    parts = np.array_split(images, max(len(x) // 500, 1))
    coefficients = np.concatenate([transform(part) for part in parts])  # (images, paths, 7 or more, as many)
    places = np.tile(np.arange(coefficients[0, 0].size), coefficients.shape[1])
    return coefficients.reshape(len(x), -1), places


@cache
def news20() -> Problem:
    """Term frequencies times inverse document frequencies of 20 newsgroups, the by-date split; rows are groups."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return data.vectorised(data.split_of("newsgroups"), TfidfVectorizer(min_df=3))


@cache
def digits() -> Problem:
    """scikit-learn's 8 x 8 digits, blocks of 8 pixels, every third for testing."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    is_test = np.arange(y.size) % 3 == 0
    return Problem(x[~is_test] / 16.0, y[~is_test], x[is_test] / 16.0, y[is_test], groups=8)


@dataclass(eq=False)
class Paper(Publisher):
    """The paper's table and figures.

    n_subsets : random training sets of every size; None: as many as the paper's, one if it must be quick
    leukemia : the folder of its files; by default `leukemia` below CRFQN_DATA
    scatters : whether MNIST is transformed by scattering
    chosen_alphas : in the place of the grid
    """

    path: Path
    is_quick: bool
    n_subsets: int | None
    leukemia: Path | None
    scatters: bool
    chosen_alphas: Sequence[float] = ()
    page = PAGE

    def __post_init__(self) -> None:
        self.most = QUICK_MOST if self.is_quick else MOST
        self.alphas = self.chosen_alphas or (ALPHAS[1:5:2] if self.is_quick else ALPHAS)
        options: Record = {"quick": self.is_quick, "scattering": self.scatters, "subsets": self.n_subsets}
        self.open(self.path, alpha=self.chosen_alphas, **options)

    def items(self, name: str) -> tuple[str, Problem]:
        """The data of a name, digits in their place if it must be quick."""
        if self.is_quick:
            return "digits", digits()
        return name, mnist(self.scatters) if name == "mnist" else news20()

    def table(self, number: str) -> None:
        """Table 1: errors and weights of the best alpha (the fewest errors), four penalties by four losses."""
        name = "digits" if self.is_quick else "leukemia"
        items = digits().subset(3, 0) if self.is_quick else data.leukemia(self.leukemia)
        records: list[Record] = []
        for penalty, method in product(PENALTIES, LOSSES):
            say(f"{name}, {penalty}, {method}")
            case = {"data": name, "penalty": penalty, "per_class": 0, "seed": 0}
            solver = solver_of(method, CHANGE, are_papers=False)
            for alpha in self.alphas:
                run = f"{penalty}, {method}, {alpha:g}"
                found = self.folder.once(run, fit, items, penalty, method, alpha, solver, self.most)
                records.append(case | found)
        groups = grouped(records, ["penalty", "method"]).values()
        best = [min(group, key=lambda each: (each["errors"], -each["zeros"])) for group in groups]
        note = "Errors, weights by class, and the alpha that has led to them."
        cell = "{errors}/{of}, {kept}, {alpha:g}".format_map
        cells = pivot(name, best, "penalty", "method", cell, [note])
        table = replace(cells, head=["g(x)", *cells.head[1:]])
        self.folder.publish("table-1", name, [table], records=records)

    def figure(self, number: str) -> None:
        """Run the methods over the grid on subsets; write and draw means over the subsets against alpha."""
        figure = FIGURES[number]
        name, items = self.items(figure.data)
        sizes = FEW if self.is_quick else figure.sizes
        runs = [*product(figure.methods, self.alphas)]
        runs += product([CONSTRAINED], BUDGETS) if figure.is_constrained else []
        records: list[Record] = []
        n_subsets = self.n_subsets or (1 if self.is_quick else figure.n_subsets)
        for size, seed in product(sizes, range(n_subsets)):
            say(f"{size} items a class, subset {seed}")
            case = {"data": name, "penalty": figure.penalty, "per_class": size, "seed": seed}
            part = items.subset(size, seed)
            for method, alpha in runs:
                solver = solver_of(method, figure.change, figure.are_papers)
                train = timed_liblinear if method == LIBLINEAR else fit
                run = f"figure {number}, {size}, subset {seed}, {method}, {alpha:g}"
                found = self.folder.once(run, train, part, figure.penalty, method, alpha, solver, self.most)
                records.append(case | found)
        panels, tables = [], []
        for size, what in product(sizes, figure.shown):
            points, title = means_of(matching(records, per_class=size), what), f"{size} items a class"
            label = what if what == "seconds" else f"{what}, %"
            panels.append(Panel(title, lines_of(points, "method", "alpha", what), "alpha", label, "x"))
            heading = f"{label}, {title}"
            tables.append(pivot(heading, points, "alpha", "method", lambda each: f"{each[what]:.2f}"))  # noqa: B023
            if figure.are_papers:
                panels.append(self.distances(figure, items, matching(records, per_class=size), title))
        title = f"{' and '.join(figure.shown)}, {figure.penalty}, {name}"
        columns = len(figure.shown) + figure.are_papers
        self.folder.publish(
            f"figure-{number}", title, tables, records=records, panels=panels, columns=columns
        )

    def distances(self, figure: Figure, items: Problem, records: Sequence[Record], title: str) -> Panel:
        """Follow each method from zero to its last weights on the first subset, at the alpha with the fewest errors."""
        part, lines = items.subset(records[0]["per_class"], 0), {}
        for method in ("hinge", CONSTRAINED, "square", "logit"):
            best = min(means_of(matching(records, method=method), "errors"), key=lambda each: each["errors"])
            solver = solver_of(method, figure.change, are_papers=True)
            followed = solver if isinstance(solver, ByChange) else ByChange(solver, 0.0)
            fit(part, figure.penalty, method, best["alpha"], followed, self.most)
            lines[f"{method}"] = followed.distances()
        return Panel(f"{title}: distance to the last", lines, "seconds", "relative distance", "xy")


def timed_liblinear(
    items: Problem, penalty: str, method: str, alpha: float, solver: Any, max_iter: int = MOST
) -> Record:
    """The same of scikit-learn's LinearSVC, C = 1 / alpha, to the same tolerance of its own."""
    model = LinearSVC(multi_class="crammer_singer", C=1.0 / alpha, tol=ROUGH, max_iter=max_iter)
    seconds = fit_seconds(model, items.X_train, items.y_train)
    errors = int(np.sum(model.predict(items.X_test) != items.y_test))
    return {
        "method": method, "alpha": alpha, "errors": errors, "of": len(items.y_test), "kept": "", "zeros": 0.0,
        "seconds": seconds, "status": "", "gap": math.nan,
    }  # fmt: skip


def means_of(records: Sequence[Record], what: str) -> list[Record]:
    """Means over the subsets by method and alpha; errors as a share, %."""
    if what == "errors":
        records = [{**each, what: 100.0 * each[what] / each["of"]} for each in records]
    return sorted(means(records, ["method", "alpha"], [what]), key=lambda each: each["alpha"])


app = command()


@app.command()
def reproduce(
    figure: Annotated[list[str] | None, some_of(PAGE.names("figure"), SEVERAL)] = None,
    table: Annotated[list[str] | None, some_of(PAGE.names("table"), SEVERAL)] = None,
    quick: Quick = False,
    subsets: Annotated[
        int | None, typer.Option(min=1, help="Training sets of a size; default: the paper's, with --quick 1.")
    ] = None,
    alpha: Annotated[
        list[float] | None, typer.Option(min=0, help="In the place of the grid, .1 to 30; several times.")
    ] = None,
    leukemia: Annotated[
        Path | None, typer.Option(help="The folder of data_set_ALL_AML_train.tsv and ..._independent.tsv.")
    ] = None,
    scattering: Annotated[
        bool, typer.Option("--scattering", help="Transform MNIST as the paper does, by kymatio.")
    ] = False,
    output: Into = Path("fbpd-study"),
) -> None:
    """Measure the paper's table and figures again; without a choice all of them."""
    with explaining(), threadpool_limits(1):
        Paper(output, quick, subsets, leukemia, scattering, alpha or ()).make(figure, table)


if __name__ == "__main__":
    app()
