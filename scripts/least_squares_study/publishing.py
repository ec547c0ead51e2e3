"""From a name to files: measure, draw, write, and add to the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from benchmarks.alone import say
from benchmarks.report import Table
from studies import publishing
from studies.drawing import GRID, Look, blank, save
from studies.folder import Folder as AnyFolder
from studies.report import page_of, subsection, write_rows

from crfqn.data.generators.projections import RandomFourier
from crfqn.plot.canvas import check_matplotlib
from least_squares_study import data, runs
from least_squares_study.convolution import Convolutions
from least_squares_study.runs import OURS, Curve, Run

FIGURES, TABLES = ("1", "2", "3", "4"), ("1", "2")
PAPER = {  # table 1, test error in per cent
    "raw pixels": {"linear": 14.1, "logistic": 7.8, "calibrated": 8.1},
    "4000 dims": {"linear": 1.83, "logistic": 1.48, "calibrated": 1.54},
    "8000 dims": {"linear": 1.48, "logistic": 1.33, "calibrated": 1.36},
}
PAPER_TEXT = "The paper on News20: VW 2.5 s, 12.4 %; LIBLINEAR 27 s, 13.8 %; stagewise 40 s, 11.7 %."
TARGET = 2.0  # per cent of test error that methods are timed to
COLOURS = ("C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7")
INTRODUCTION = f"""\
Tables and figures of A. Agarwal, S. Kakade, N. Karampatziakis, L. Song and G. Valiant, *Least squares revisited:
scalable approaches for multi-class prediction*, ICML 2014, measured again. Seconds are those of the processor, on one
thread. The paper leaves open how random features of MNIST are made; here they are cos(x . omega + b) of the first
{data.COMPONENTS} principal components of the grey values (0 to 1), for the kernel exp(-||x - x'||^2 / s) with
s = {data.SCALE:g}. l2 = {runs.RIDGE:g} n for n items (a stage: {runs.STAGE_RIDGE:g} n)."""


class Folder(AnyFolder):
    """Where results go."""

    title = "Least squares revisited: the paper's study"
    introduction = INTRODUCTION


@dataclass(frozen=True)
class Settings:
    """What a study is asked for."""

    is_quick: bool
    dims: tuple[int, ...]
    n_stages: int


class Publisher(publishing.Publisher):
    """Makes figures and tables in a folder."""

    script = "reproduce_least_squares.py"
    order = (*(f"table-{name}" for name in TABLES), *(f"figure-{name}" for name in FIGURES))

    def __init__(self, path: Path, settings: Settings) -> None:
        check_matplotlib()
        self.settings = settings
        super().__init__(Folder(path), cast(Any, settings))
        self._images: data.Images | None = None

    def limits(self) -> str:
        """No options: every run goes to its end, on one thread."""
        return ""

    @property
    def images(self) -> data.Images:
        """MNIST, or digits."""
        if self._images is None:
            self._images = data.mnist(self.is_quick)
        return self._images

    def table_1(self) -> None:
        """Linear, logistic and calibrated on raw pixels and random features."""
        rows, found = [], []
        for n in (None, *self.settings.dims):
            name = "raw pixels" if n is None else f"{n} dims"
            say(f"Table 1, {name}")
            parts = runs.image_features(self.images, n)
            for kind in OURS:
                run = runs.train(kind, runs.our_model(kind, len(parts.y_train)), parts)
                found.append((name, run))
                paper = PAPER.get(name, {}).get(kind) if not self.is_quick else None
                shares = ", ".join(f"{what} {share:.0%}" for what, share in run.shares.items())
                shown = "-" if paper is None else f"{paper:g}"
                rows.append([name, kind, f"{run.error:.2f}", shown, f"{run.seconds:.1f}", shares])
        head = ["features", "method", "test error, %", "paper", "seconds", "of these in matrix products for"]
        table = Table(f"Test errors, {self.images.title}", head, rows)

        def write(stage: Path) -> str:
            cells = ((name, run.name, run.error, run.seconds) for name, run in found)
            write_rows(stage / "table-1.csv", ["features", "method", "error", "seconds"], cells)
            return subsection(table)

        self.publish("table-1", "Table 1: linear, logistic, calibrated", "--table 1", write)

    def table_2(self) -> None:
        """Stages of the most frequent words against solvers for text."""
        from sklearn.linear_model import SGDClassifier
        from sklearn.svm import LinearSVC

        title, parts = data.texts(self.is_quick)
        say(f"Table 2, {title}")
        found = [
            runs.train("liblinear (LinearSVC)", LinearSVC(), parts),
            runs.train("online (SGDClassifier)", SGDClassifier(alpha=1e-5, random_state=0), parts),
        ]
        n_stages, size = (3, 100) if self.is_quick else (40, 1000)
        curve = runs.stages(
            "stagewise", parts, "frequency", "linear", size, n_stages, 1.0 / len(parts.y_train)
        )
        found.append(Run("stagewise", float(curve.seconds[-1]), float(curve.errors[-1])))
        rows = [[run.name, f"{run.seconds:.1f}", f"{run.error:.2f}"] for run in found]
        table = Table(title, ["method", "seconds", "test error, %"], rows, [PAPER_TEXT])
        self.publish("table-2", "Table 2: text", "--table 2", lambda _: subsection(table))

    def figure_1(self) -> None:
        """Error against time for updates and sizes of batches."""
        say("Figure 1")
        sizes = (64,) if self.is_quick else (512, 1024)
        images, curves = self.images, []
        for size in sizes:
            for kind in OURS:
                generator = RandomFourier(images.scale)
                name = f"{kind}, {size}"
                n_stages = 3 if self.is_quick else self.settings.n_stages
                curves.append(
                    runs.stages(name, images.components, generator, kind, size, n_stages, runs.STAGE_RIDGE)
                )
        self._publish_curves("figure-1", f"Figure 1: stages, {images.title}", "--figure 1", curves)

    def figure_3(self) -> None:
        """Convolutions with random and with K-means masks, one model and averages of several."""
        title, parts = data.cifar(self.is_quick)
        say(f"Figure 3, {title}")
        size, n_stages = (64, 2) if self.is_quick else (1600, 12)
        curves = [
            runs.stages(name, parts, Convolutions(is_clustered), "calibrated", size, n_stages, 1e-3)
            for name, is_clustered in (("random masks", False), ("K-means masks", True))
        ]
        self._publish_curves("figure-3", f"Figure 3: convolutions, {title}", "--figure 3", curves)

    def _publish_curves(self, name: str, title: str, choice: str, curves: list[Curve]) -> None:
        def write(stage: Path) -> str:
            draw(stage / f"{name}.png", title, {c.name: (c.seconds, c.errors) for c in curves}, ERROR_AXES)
            rows = (
                (c.name, *row) for c in curves for row in zip(c.seconds, c.n_features, c.errors, strict=True)
            )
            write_rows(stage / f"{name}.csv", ["method", "seconds", "features", "error"], rows)
            return page_of(f"![{title}]({name}.png)", [subsection(curve_table(curves))], [])

        self.publish(name, title, choice, write)

    def figure_2(self) -> None:
        """The three methods against scikit-learn's and LIBLINEAR's solvers on the same random features."""
        images, found = self.images, []
        for n in self.settings.dims:
            say(f"Figure 2, {n} features")
            parts = images.features(n)
            others = runs.other_models(len(parts.y_train))
            for kind in OURS:
                found.append((n, runs.train(kind, runs.our_model(kind, len(parts.y_train)), parts)))
            for name, make in others.items():
                found.append((n, runs.train(name, make(), parts)))
        rows = [[str(n), run.name, f"{run.seconds:.1f}", f"{run.error:.2f}"] for n, run in found]
        table = Table(
            images.title, ["features", "method", "seconds", "test error, %"], rows, [first_note(found)]
        )

        def write(stage: Path) -> str:
            names = list(dict.fromkeys(run.name for _, run in found))
            lines = {
                name: tuple(np.array([getattr(run, what) for _, run in found if run.name == name])
                            for what in ("seconds", "error"))
                for name in names
            }  # fmt: skip
            draw(stage / "figure-2.png", f"Solvers on the same features, {images.title}", lines, ERROR_AXES)
            cells = ((n, run.name, run.seconds, run.error) for n, run in found)
            write_rows(stage / "figure-2.csv", ["features", "method", "seconds", "error"], cells)
            return page_of("![Figure 2](figure-2.png)", [subsection(table)], [])

        choice = " ".join(["--figure 2", *(f"--dims {n}" for n in self.settings.dims)])
        self.publish("figure-2", "Figure 2: against other solvers", choice, write)

    def figure_4(self) -> None:
        """The spectra of text and of random features of images."""
        say("Figure 4")
        title, parts = data.texts(self.is_quick)
        n, n_features = (100, 200) if self.is_quick else (1000, 3000)
        spectra = {
            title: runs.spectrum(parts.X_train, n),
            self.images.title: runs.spectrum(self.images.features(n_features).X_train, n),
        }
        rows = [
            [name, str(values.size), f"{values[1] / max(values[-1], 1e-300):,.1f}"]
            for name, values in spectra.items()
        ]
        note = "The paper: 19.8 for News20, about 72,000 for MNIST with 3,000 random features."
        table = Table("Second singular value over the last", ["", "values", "ratio"], rows, [note])

        def write(stage: Path) -> str:
            lines = {
                name: (np.arange(1, v.size + 1), 100 * np.cumsum(v) / v.sum()) for name, v in spectra.items()
            }
            axes = ("singular values", "share of their sum, %")
            draw(stage / "figure-4.png", "Share of the first singular values", lines, axes)
            return page_of("![Figure 4](figure-4.png)", [subsection(table)], [])

        self.publish("figure-4", "Figure 4: spectra", "--figure 4", write)


ERROR_AXES = ("processor seconds", "test error, %")


def draw(file: Path, heading: str, lines: Any, labels: tuple[str, str]) -> None:
    """One diagram with a logarithmic axis to the right."""
    picture, (axes,) = blank(1)
    drawn = {}
    for (name, (x, y)), colour in zip(lines.items(), COLOURS * len(lines), strict=False):
        look = Look(colour=colour, marker="o")
        drawn[name] = axes.plot(x, y, color=look.colour, marker=look.marker, markersize=3)[0]
    axes.set_xscale("log")
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.grid(which="major", color=GRID)
    save(picture, drawn, heading, file)


def curve_table(curves: list[Curve]) -> Table:
    """Where each curve ended, and when it came to TARGET."""
    rows = []
    for curve in curves:
        there = np.flatnonzero(curve.errors <= TARGET)
        reached = f"{curve.seconds[there[0]]:.1f}" if there.size else "-"
        best = f"{curve.errors.min():.2f}"
        rows.append([curve.name, str(curve.n_features[-1]), f"{curve.seconds[-1]:.1f}", best, reached])
    return Table(
        "Stages", ["", "features", "seconds", "best test error, %", f"seconds to {TARGET:g} %"], rows
    )


def first_note(found: list[tuple[int, Run]]) -> str:
    """The least seconds with which each method got to TARGET."""
    words = []
    for name in dict.fromkeys(run.name for _, run in found):
        times = [run.seconds for _, run in found if run.name == name and run.error <= TARGET]
        words.append(f"{name} {min(times):.1f} s" if times else f"{name} never")
    return f"To {TARGET:g} %: {', '.join(words)}."
