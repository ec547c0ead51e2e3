"""Table 1 and figures 1 to 4: measured, drawn and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.alone import say
from benchmarks.report import Table
from studies.folder import PAGE, Folder, Section
from studies.report import facts, page_of, subsection, write_rows

from crfqn.plot.canvas import check_matplotlib
from fbpd_study import sources
from fbpd_study.runs import LOSSES, Fit, best, constrained, fit
from fbpd_study.sources import Items

PENALTIES = ("l2", "l1", "l1/l2", "l1/linf")
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BUDGETS = (0.03, 0.1, 0.3)  # of Algorithm 2: eta = alpha L, and a loss of L is that of zero weights
FEW, NEWS = (3, 5, 10), (5, 10, 50)  # training items of a class
ROUGH = 1e-3  # figure 4's rule
ORDER = ("table-1", "figure-1", "figure-2", "figure-3", "figure-4")
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


class StudyFolder(Folder):
    """Where results go."""

    title = "Sparse multiclass SVM: the paper's study"
    introduction = INTRODUCTION


@dataclass(eq=False)
class Publisher:
    """Makes the table and figures in a folder.

    Parameters
    ----------
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
        self.folder = StudyFolder(self.path)

    @property
    def alphas(self) -> Sequence[float]:
        """The grid."""
        if self.chosen_alphas:
            return self.chosen_alphas
        return ALPHAS[1:5:2] if self.is_quick else ALPHAS

    def images(self) -> tuple[str, Items]:
        """MNIST, or built-in digits."""
        return ("digits", sources.digits()) if self.is_quick else ("mnist", sources.mnist(self.scatters))

    def table_1(self) -> None:
        """Errors and weights of the best alpha, four penalties by four losses."""
        name = "digits" if self.is_quick else "leukemia"
        items = sources.digits().subset(3, 0) if self.is_quick else sources.leukemia(self.leukemia)
        fits: dict[tuple[str, str], list[Fit]] = {}
        for penalty in PENALTIES:
            for method in LOSSES:
                say(f"{name}, {penalty}, {method}")
                fits[penalty, method] = [fit(items, penalty, method, alpha) for alpha in self.alphas]

        def write(stage: Path) -> str:
            rows = [row(name, penalty, 0, 0, each) for (penalty, _), found in fits.items() for each in found]
            write_rows(stage / "table-1.csv", HEAD, rows)
            lines = [[penalty, *(cell(best(fits[penalty, m])) for m in LOSSES)] for penalty in PENALTIES]
            note = "Errors, weights by class, and the alpha that has led to them."
            return page_of("", [subsection(Table(name, ["g(x)", *LOSSES], lines, [note]))], [])

        self.publish("table-1", f"Table 1: {name}", "--table 1", write)

    def figure_1(self) -> None:
        """Errors and zeros against alpha, L1/Linf, few training images."""
        name, items = self.images()
        self.errors("1", name, items, "l1/linf", FEW)

    def figure_2(self) -> None:
        """The same on News20 under L1/L2."""
        name, items = ("digits", sources.digits()) if self.is_quick else ("news20", sources.news20())
        self.errors("2", name, items, "l1/l2", FEW if self.is_quick else NEWS)

    def errors(self, number: str, name: str, items: Items, penalty: str, sizes: Sequence[int]) -> None:
        """Run all losses over the grid on subsets."""
        rows = [
            row(name, penalty, size, seed, fit(part, penalty, method, alpha))
            for size, seed, part in self.subsets(items, sizes)
            for method in LOSSES
            for alpha in self.alphas
        ]
        self.lines(number, f"errors and zeros, {penalty}, {name}", rows, ("errors", "zeros"))

    def figure_3(self) -> None:
        """Seconds against alpha, Algorithms 1 and 2 and the smooth losses."""
        name, items = self.images()
        rows = []
        for size, seed, part in self.subsets(items, FEW):
            rows += [
                row(name, "l1/linf", size, seed, fit(part, "l1/linf", m, a))
                for m in LOSSES
                for a in self.alphas
            ]
            rows += [row(name, "l1/linf", size, seed, constrained(part, "l1/linf", a)) for a in BUDGETS]
        self.lines("3", f"seconds, l1/linf, {name}", rows, ("seconds",))

    def figure_4(self) -> None:
        """Seconds under a quadratic penalty as the training set grows."""
        name, items = self.images()
        sizes = FEW if self.is_quick else (*FEW, 50, 100)
        rows = []
        for size, seed, part in self.subsets(items, sizes):
            rows += [row(name, "l2", size, seed, fit(part, "l2", "hinge", a, ROUGH)) for a in self.alphas]
            rows += [row(name, "l2", size, seed, constrained(part, "l2", a, ROUGH)) for a in BUDGETS]
        self.lines("4", f"seconds, l2, {name}", rows, ("seconds",))

    def subsets(self, items: Items, sizes: Sequence[int]) -> Iterator[tuple[int, int, Items]]:
        """Training subsets of all sizes."""
        for size in sizes:
            for seed in range(self.n_subsets):
                say(f"{size} items a class, subset {seed}")
                yield size, seed, items.subset(size, seed)

    def lines(self, number: str, title: str, rows: list[tuple[Any, ...]], shown: Sequence[str]) -> None:
        """Write and draw means over the subsets against alpha."""

        def write(stage: Path) -> str:
            write_rows(stage / f"figure-{number}.csv", HEAD, rows)
            draw(rows, shown, stage / f"figure-{number}.png")
            tables = [
                subsection(means_table(rows, size, what))
                for size in dict.fromkeys(row[2] for row in rows)
                for what in shown
            ]
            return page_of(f"![Figure {number}](figure-{number}.png)", tables, [])

        self.publish(f"figure-{number}", f"Figure {number}: {title}", f"--figure {number}", write)

    def publish(self, name: str, title: str, choice: str, write: Callable[[Path], str]) -> None:
        """Make the files of a figure or table, all or none, and its section of the page."""
        alphas = [f"--alpha {alpha:g}" for alpha in self.chosen_alphas]
        words = [choice, *alphas, *["--quick"] * self.is_quick, *["--scattering"] * self.scatters]
        command = f"python scripts/reproduce_fbpd.py {' '.join(words)} --subsets {self.n_subsets}"
        with self.folder.all_or_nothing() as stage:
            self.folder.add(name, Section(ORDER.index(name), title, command, facts(), write(stage)), stage)
        say(f"  {self.path / PAGE}: {title}")


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


def draw(rows: Sequence[tuple[Any, ...]], shown: Sequence[str], file: Path) -> None:
    """A row of panels a size, a column a quantity, a line a method."""
    from matplotlib.figure import Figure

    sizes = list(dict.fromkeys(each[2] for each in rows))
    figure = Figure(figsize=(5.5 * len(shown), 3.6 * len(sizes)), layout="constrained")
    for line, size in zip(figure.subplots(len(sizes), len(shown), squeeze=False), sizes, strict=True):
        for axes, what in zip(line, shown, strict=True):
            found = means(rows, size, what)
            for method in dict.fromkeys(m for m, _ in found):
                points = sorted((a, value) for (m, a), value in found.items() if m == method)
                axes.plot(*zip(*points, strict=True), marker="o", label=method)
            axes.set(title=f"{size} items a class", xlabel="alpha", ylabel=what, xscale="log")
            axes.legend()
    figure.savefig(file)
