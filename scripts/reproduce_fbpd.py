#!/usr/bin/env python
"""The table and the figures of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_fbpd.py --quick                            # all of it on scikit-learn's digits
    python scripts/reproduce_fbpd.py --table 1 --leukemia FOLDER        # 38 and 34 patients, blocks of 5 genes
    python scripts/reproduce_fbpd.py --figure 1 --figure 3 --subsets 5  # MNIST; --scattering needs '.[scattering]'

Writes PNG and CSV files, and a page over all that is in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from time import process_time
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from harness import data
from harness.drawing import Panel, draw
from harness.measuring import quietly, say
from harness.pages import SEVERAL, Folder, Page, explaining
from harness.problems import Problem
from harness.report import Table
from numpy.typing import NDArray

from crfqn import MulticlassClassifier
from crfqn.errors import InputError
from crfqn.plot.canvas import check_matplotlib
from crfqn.solvers.dual.fbpd import FBPD, ConstrainedFBPD

LOSSES = {
    "hinge": "hinge",
    "square": "squared-hinge",
    "logit": "logistic",
    "one-vs-all": "multitask-squared-hinge",
}
CHANGE = 1e-5  # of the weights in a step: the paper's rule
NEAR = 1e-3  # certified: ends a run as well
MOST = 2000  # iterations, of 10 steps each for the hinge
PENALTIES = ("l2", "l1", "l1/l2", "l1/linf")
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BUDGETS = (0.03, 0.1, 0.3)  # of Algorithm 2: eta = alpha L, and a loss of L is that of zero weights
FEW, NEWS = (3, 5, 10), (5, 10, 50)  # training items of a class
ROUGH = 1e-3  # figure 4's rule
SCALES, WAVELETS = 2, 2  # 2^J = 4, two layers
HEAD = (
    "data", "penalty", "per_class", "seed", "method", "alpha", "errors", "of", "kept", "zeros", "seconds", "status",
    "gap",
)  # fmt: skip
INTRODUCTION = """\
The table and the figures of G. Chierchia, N. Pustelnik, J.-C. Pesquet and B. Pesquet-Popescu, *A proximal approach
for sparse multiclass SVM*, 2015, measured again. lambda = 1 / alpha, eta = alpha L. "Hinge" is Algorithm 1 by the
paper's rule, a relative change of 1e-5 in a step (1e-3 in figure 4), or to a certified gap of 1e-3, to which the
other losses are solved. "Logit" has no margin inside, other than equation 20. Expression levels are cut at 100 and
16,000, and their logarithms have mean 0 and variance 1 within each patient (Dudoit, Fridlyand and Speed 2002), less
each gene's mean over the training patients; the paper does not say how. The best alpha is that with the fewest errors
on the test part, as in the paper: no estimate of how well a model will do."""
PAGE = Page(
    "Sparse multiclass SVM: the paper's study",
    INTRODUCTION,
    "reproduce_fbpd.py",
    ("table-1", "figure-1", "figure-2", "figure-3", "figure-4"),
)


class Figure(NamedTuple):
    """A figure: a quantity or two against alpha on random training sets of several sizes.

    data : of the paper; sizes : training items of a class; change : of the stopping rule
    methods : by name, of Algorithm 1; `is_constrained`: and Algorithm 2
    """

    data: str
    penalty: str
    sizes: Sequence[int]
    shown: Sequence[str]
    methods: Sequence[str] = tuple(LOSSES)
    is_constrained: bool = False
    change: float = CHANGE

    @property
    def title(self) -> str:
        """What it shows."""
        return " and ".join(self.shown)


FIGURES = {
    "1": Figure("mnist", "l1/linf", FEW, ("errors", "zeros")),
    "2": Figure("news20", "l1/l2", NEWS, ("errors", "zeros")),
    "3": Figure("mnist", "l1/linf", FEW, ("seconds",), is_constrained=True),
    "4": Figure("mnist", "l2", (*FEW, 50, 100), ("seconds",), ("hinge",), True, ROUGH),
}


@dataclass(frozen=True)
class Fit:
    """A model: its test errors, weights that are not zero by class, how it was found."""

    method: str
    alpha: float
    errors: int
    n_test: int
    kept: tuple[int, ...]
    n_weights: int
    seconds: float
    status: str
    gap: float

    @property
    def zeros(self) -> float:
        """The share of weights that are zero, %."""
        return 100.0 * (1.0 - sum(self.kept) / self.n_weights)


def fit(items: Problem, penalty: str, method: str, alpha: float, change: float = CHANGE) -> Fit:
    """Train at lambda = 1 / alpha: our loss is not scaled, and the penalty's strength is alpha."""
    strength = {"l1": "l1", "l2": "l2"}.get(penalty, "group_l1")
    own: dict[str, Any] = {"solver": FBPD(change=change)} if method == "hinge" else {}
    groups = items.groups if strength == "group_l1" else None
    model = MulticlassClassifier(
        loss=LOSSES[method],
        penalty=penalty,
        feature_groups=groups,
        max_iter=MOST,
        tol=NEAR,
        n_threads=1,
        **{strength: alpha},
        **own,
    )
    return measured(model, items, method, alpha)


def constrained(items: Problem, penalty: str, alpha: float, change: float = CHANGE) -> Fit:
    """Train by Algorithm 2 at eta = alpha L."""
    model = MulticlassClassifier(
        loss="hinge",
        penalty=penalty,
        feature_groups=items.groups if penalty in ("l1/l2", "l1/linf") else None,
        constraint=alpha * len(items.y_train),
        solver=ConstrainedFBPD(change=change),
        tol=0.0,
        max_iter=MOST,
        n_threads=1,
    )
    return measured(model, items, "Algorithm 2", alpha)


def measured(model: Any, items: Problem, method: str, alpha: float) -> Fit:
    """Fit and count."""
    with quietly():
        begin = process_time()
        model.fit(items.X_train, items.y_train)
    seconds = process_time() - begin
    kept = tuple(int(n) for n in np.diff(model.coef_.indptr))
    errors = int(np.sum(model.predict(items.X_test) != items.y_test))
    found = model.result_
    return Fit(
        method, alpha, errors, len(items.y_test), kept, model.coef_.shape[0] * model.coef_.shape[1], seconds,
        found.status.name.lower(), found.gap,
    )  # fmt: skip


def best(fits: Sequence[Fit]) -> Fit:
    """The fewest errors, and of these the fewest weights."""
    return min(fits, key=lambda each: (each.errors, sum(each.kept)))


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
    found = np.concatenate(
        [
            transform(part.reshape(-1, 28, 28).astype(np.float32))
            for part in np.array_split(x, max(len(x) // 500, 1))
        ]
    )
    n_paths = found.shape[1]
    places = np.tile(np.arange(found[0, 0].size), n_paths)
    return found.reshape(len(x), -1), places


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
class Publisher:
    """Makes the table and figures in a folder.

    path : the folder, made if it is not there
    n_subsets : random training sets of every size (the paper: 25, 10 of News20)
    leukemia : the folder of its files; by default `leukemia` below CRFQN_DATA
    scatters : whether MNIST is transformed by scattering
    chosen_alphas : in the place of the grid
    """

    path: Path
    is_quick: bool
    n_subsets: int
    leukemia: Path | None
    scatters: bool
    chosen_alphas: Sequence[float] = ()

    def __post_init__(self) -> None:
        check_matplotlib()
        self.alphas = self.chosen_alphas or (ALPHAS[1:5:2] if self.is_quick else ALPHAS)
        words = [*(f"--alpha {alpha:g}" for alpha in self.chosen_alphas), *["--quick"] * self.is_quick]
        words += [*["--scattering"] * self.scatters, f"--subsets {self.n_subsets}"]
        self.folder = Folder(self.path, PAGE, " " + " ".join(words))

    def items(self, name: str) -> tuple[str, Problem]:
        """The data of a name, digits in their place if it must be quick."""
        if self.is_quick:
            return "digits", digits()
        return name, mnist(self.scatters) if name == "mnist" else news20()

    def table_1(self) -> None:
        """Errors and weights of the best alpha, four penalties by four losses."""
        name = "digits" if self.is_quick else "leukemia"
        items = digits().subset(3, 0) if self.is_quick else data.leukemia(self.leukemia)
        fits: dict[tuple[str, str], list[Fit]] = {}
        for penalty in PENALTIES:
            for method in LOSSES:
                say(f"{name}, {penalty}, {method}")
                fits[penalty, method] = [fit(items, penalty, method, alpha) for alpha in self.alphas]

        rows = [row(name, penalty, 0, 0, each) for (penalty, _), found in fits.items() for each in found]
        lines = [[penalty, *(cell(best(fits[penalty, m])) for m in LOSSES)] for penalty in PENALTIES]
        note = "Errors, weights by class, and the alpha that has led to them."
        table = Table(name, ["g(x)", *LOSSES], lines, [note])
        self.folder.publish("table-1", f"Table 1: {name}", [table], rows=(HEAD, rows))

    def figure(self, number: str) -> None:
        """Run the methods over the grid on subsets; write and draw means over the subsets against alpha."""
        figure = FIGURES[number]
        name, items = self.items(figure.data)
        sizes = FEW if self.is_quick else figure.sizes
        rows: list[tuple[Any, ...]] = []
        for size, seed, part in self.subsets(items, sizes):
            fits = [
                fit(part, figure.penalty, method, alpha, figure.change)
                for method in figure.methods
                for alpha in self.alphas
            ]
            if figure.is_constrained:
                fits += [constrained(part, figure.penalty, alpha, figure.change) for alpha in BUDGETS]
            rows += [row(name, figure.penalty, size, seed, each) for each in fits]
        shown = [(size, what) for size in sizes for what in figure.shown]

        panels = [panel_of(rows, size, what) for size, what in shown]
        self.folder.publish(
            f"figure-{number}",
            f"Figure {number}: {figure.title}, {figure.penalty}, {name}",
            [means_table(rows, size, what) for size, what in shown],
            rows=(HEAD, rows),
            picture=lambda file: draw(panels, file, columns=len(figure.shown)),
        )

    def subsets(self, items: Problem, sizes: Sequence[int]) -> Iterator[tuple[int, int, Problem]]:
        """Training subsets of all sizes."""
        for size in sizes:
            for seed in range(self.n_subsets):
                say(f"{size} items a class, subset {seed}")
                yield size, seed, items.subset(size, seed)


def row(name: str, penalty: str, size: int, seed: int, found: Fit) -> tuple[Any, ...]:
    """A line of the CSV file."""
    kept = " + ".join(map(str, found.kept))
    return (
        name, penalty, size, seed, found.method, found.alpha, found.errors, found.n_test, kept, found.zeros,
        found.seconds, found.status, found.gap,
    )  # fmt: skip


def cell(found: Fit) -> str:
    """Errors, weights by class, alpha."""
    return f"{found.errors}/{found.n_test}, {' + '.join(map(str, found.kept))}, {found.alpha:g}"


def means(rows: Sequence[tuple[Any, ...]], size: int, what: str) -> dict[tuple[str, float], float]:
    """Means over the subsets of a size by method and alpha; errors as a share, %."""
    place = HEAD.index(what)
    values: dict[tuple[str, float], list[float]] = {}
    for each in rows:
        if each[2] == size:
            scale = 100.0 / each[7] if what == "errors" else 1.0
            values.setdefault((each[4], each[5]), []).append(scale * each[place])
    return {key: float(np.mean(found)) for key, found in values.items()}


def means_table(rows: Sequence[tuple[Any, ...]], size: int, what: str) -> Table:
    """Methods by columns, alphas by rows."""
    found = means(rows, size, what)
    methods, alphas = list(dict.fromkeys(m for m, _ in found)), sorted({a for _, a in found})
    lines = [
        [f"{alpha:g}", *(f"{found[m, alpha]:.2f}" if (m, alpha) in found else "" for m in methods)]
        for alpha in alphas
    ]
    return Table(
        f"{what}{', %' if what != 'seconds' else ''}, {size} items a class", ["alpha", *methods], lines
    )


def panel_of(rows: Sequence[tuple[Any, ...]], size: int, what: str) -> Panel:
    """A quantity against alpha, a line a method."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for (method, alpha), value in sorted(means(rows, size, what).items(), key=lambda each: each[0][1]):
        lines.setdefault(method, []).append((alpha, value))
    points = {method: np.array(line).T for method, line in lines.items()}
    return Panel(f"{size} items a class", points, "alpha", what, "x")  # type: ignore[arg-type]


FigureName = StrEnum("FigureName", [*FIGURES])  # type: ignore[misc]
TableName = StrEnum("TableName", ["1"])
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    figure: Annotated[list[FigureName] | None, typer.Option(help=SEVERAL)] = None,
    table: Annotated[list[TableName] | None, typer.Option(help=SEVERAL)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Built-in digits in the place of all data.")] = False,
    subsets: Annotated[
        int | None, typer.Option(min=1, help="Training sets of a size; default: 10, with --quick 1.")
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
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("fbpd-study"),
) -> None:
    """Measure the paper's table and figures again; without a choice all of them."""
    figures, tables = [*map(str, figure or ())], [*map(str, table or ())]
    if not (figures or tables):
        figures, tables = [*FIGURES], ["1"]
    with explaining():
        publisher = Publisher(
            output, quick, subsets or (1 if quick else 10), leukemia, scattering, alpha or ()
        )
        if tables:
            publisher.table_1()
        for name in figures:
            publisher.figure(name)


if __name__ == "__main__":
    app()
