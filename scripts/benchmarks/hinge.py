"""The multiclass hinge: dual decomposition beside liblinear's solver, and the kernel machine beside scikit-learn's.

Processor seconds of one thread, after a warm-up in the same process. liblinear tells the dual objective that it has
come to on its standard output; a run of each tolerance is one point of its curve.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import SVC, LinearSVC

from benchmarks.alone import say
from benchmarks.flat_data import newsgroups
from benchmarks.items import ItemProblem, narrow
from benchmarks.max_margin import pixels
from benchmarks.problem import Problem
from benchmarks.report import Figure, Report, Table, shown
from crfqn import MulticlassClassifier, MulticlassSVC
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.protocols import Objective, Penalty, Point, State

LEVELS = (4e-4, 2e-6, 1e-9)  # of the dual optimum
TOLERANCES = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
FASTER = 2.0
NEAREST = 1e-10  # certified, or as near as the limit of passes allows
MOST = 5000
N_LETTERS, POINTS = 10_000, 0.003
ROUGH = 1e-2  # certified gap of the kernel machine
MEGABYTES = 450  # of kernel rows: all of them
OURS, LIBLINEAR = "crfqn", "liblinear"


@dataclass(frozen=True)
class Curve:
    """Seconds after which a dual objective, to be maximised, was reached."""

    seconds: Sequence[float]
    values: Sequence[float]

    def seconds_to(self, optimum: float, level: float) -> float:
        """The first seconds at which the objective was within `level`; infinite: never."""
        found = [s for s, v in zip(self.seconds, self.values, strict=True) if v >= optimum * (1.0 - level)]
        return min(found, default=np.inf)


def banking() -> ItemProblem:
    """BANKING77: customers' questions, 77 intents, term frequencies times inverse document frequencies."""
    from crfqn.datasets import dataset

    questions: Any = dataset("banking77").load()
    n, labels = questions.n_train, np.array(questions.labels)
    words = TfidfVectorizer().fit(questions.inputs[:n])
    train, test = (narrow(words.transform(part)) for part in (questions.inputs[:n], questions.inputs[n:]))
    return ItemProblem(train, labels[:n], test, labels[n:])


LINEAR = {"newsgroups": newsgroups, "banking77": banking}


def measure_linear(name: str, C: float) -> Report:
    """Both solvers on the same rows, without an intercept."""
    problem = LINEAR[name]()
    X, y = problem.X_train, np.unique(problem.y_train, return_inverse=True)[1]
    for fit in (ours, liblinear):
        fit(X[:200], y[:200], C, 0.1)
    say(f"{name}, C = {C:g}: {OURS}")
    curves = {OURS: ours(X, y, C, NEAREST)}
    say(f"{name}, C = {C:g}: {LIBLINEAR}")
    found = [liblinear(X, y, C, tol) for tol in TOLERANCES]
    curves[LIBLINEAR] = Curve(*zip(*found, strict=True))
    optimum = max(max(curve.values) for curve in curves.values())
    report = Report(
        f"hinge-{name}", f"Multiclass hinge, {problem.describe()}, C = {C:g}", ["crfqn", "scikit-learn"]
    )
    rows = []
    for level in LEVELS:
        seconds = [curves[each].seconds_to(optimum, level) for each in (OURS, LIBLINEAR)]
        ratio = seconds[1] / seconds[0]
        rows.append([shown(level), *(f"{each:.2f}" for each in seconds), f"{ratio:.2f}"])
        report.figures.append(
            Figure(
                f"to {shown(level)} of the dual optimum", f"{FASTER:g} times sooner", f"{ratio:.2f}", ratio >= FASTER
            )
        )  # fmt: skip
    note = f"Dual optimum {-C * optimum:,.6f}, as the better of both ends found it."
    report.tables.append(Table("Processor seconds", ["to", OURS, LIBLINEAR, "ratio"], rows, [note]))
    report.numbers = {each: {"seconds": c.seconds, "values": c.values} for each, c in curves.items()}
    return report


@dataclass(frozen=True)
class Noted(DualDecomposition):
    """Dual decomposition that notes the dual objective of every pass; progress records lack it."""

    note: Callable[[float], None] = print

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield the states."""
        for state in super().steps(objective, penalty, start):
            self.note(state.dual_value)
            yield state


def ours(X: Any, y: Any, C: float, tol: float) -> Curve:
    """Dual decomposition, its bound after every pass; certificates are in the seconds."""
    seconds, values, started = [], [], time.process_time()

    def note(dual_value: float) -> None:
        seconds.append(time.process_time() - started)
        values.append(dual_value)

    model = MulticlassClassifier(
        loss="hinge", penalty="l2", l2=1.0 / C, fit_intercept=False, tol=tol, max_iter=MOST, n_threads=1,
        solver=Noted(note=note),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return Curve(seconds, values)


def liblinear(X: Any, y: Any, C: float, tol: float) -> tuple[float, float]:
    """Seconds to a tolerance of its own, and the dual objective there, over C as ours."""
    model = LinearSVC(
        multi_class="crammer_singer",
        C=C,
        fit_intercept=False,
        tol=tol,
        max_iter=100_000,
        random_state=0,
        verbose=1,
    )
    with written() as output, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        started = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - started
    return seconds, -float(re.findall(r"Objective value = (\S+)", output[0])[-1]) / C


@contextmanager
def written() -> Iterator[list[str]]:
    """What compiled code writes to standard output within the context, as its only entry at the end."""
    output: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield output
        finally:
            flush_c()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            output.append(file.read().decode())


def flush_c() -> None:
    """Write out what the C library still holds back."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def measure_kernel(C: float) -> Report:
    """Letters by their pixels, an RBF kernel of the same gamma: one machine for all classes beside one a pair."""
    problem = Problem.of_recipe("ocr")
    X, X_test = (pixels(part).matrix.toarray() for part in (problem.X_train, problem.X_test))
    y, y_test = (
        np.array([label for item in part for label in item]) for part in (problem.y_train, problem.y_test)
    )
    chosen = np.random.default_rng(0).permutation(len(y))[:N_LETTERS]
    train, test = (X[chosen], y[chosen]), (X_test, y_test)
    rows, scores, seconds = [], [], []
    for name, model in (
        ("MulticlassSVC", MulticlassSVC(C=C, tol=ROUGH, cache_size=MEGABYTES)),
        ("SVC (scikit-learn)", SVC(C=C, cache_size=MEGABYTES)),
    ):
        model.fit(train[0][:300], train[1][:300])
        say(name)
        started = time.process_time()
        model.fit(*train)
        seconds.append(time.process_time() - started)
        started = time.process_time()
        scores.append(float(model.score(*test)))
        took = time.process_time() - started
        rows.append(
            [name, f"{seconds[-1]:.1f}", f"{took:.1f}", str(len(model.support_)), f"{scores[-1]:.4f}"]
        )
    report = Report("hinge-kernel", f"{N_LETTERS:,} letters, RBF, C = {C:g}", ["crfqn", "scikit-learn"])
    head = ["", "seconds to train", "to predict", "support vectors", "test accuracy"]
    report.tables.append(Table(f"Letters, {len(y_test):,} for the test", head, rows))
    report.figures.append(
        Figure("accuracy", f"SVC's, {scores[1]:.4f}, within .3 points", f"{scores[0]:.4f}",
               abs(scores[0] - scores[1]) <= POINTS)
    )  # fmt: skip
    report.numbers = {"accuracy": scores, "seconds": seconds}
    return report
