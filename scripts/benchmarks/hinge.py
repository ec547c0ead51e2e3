"""Hinges: the multiclass one beside liblinear and scikit-learn's SVC, the structured one beside the likelihood.

Processor seconds of one thread, after a warm-up in the same process. Dual decomposition beside liblinear's solver: that
tells the dual objective that it has come to on its standard output; a run of each tolerance is one point of its curve.
The kernel machine beside scikit-learn's: letters by their pixels, an RBF kernel of the same gamma.

The max-margin Markov network beside the likelihood on handwritten words, pixels as features, both with L2: each is
trained to a proved duality gap at each strength of a small grid on all training words but the last 616; the strength is
that with the most letters right in these.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import typer
from harness.data import banking, newsgroups
from harness.measuring import quietly, say
from harness.options import Output, some_of
from harness.problems import Problem
from harness.report import Promise, Record, Report, Table, finish, matching, shown
from sklearn.svm import SVC, LinearSVC

from benchmarks.crfqn_fits import Clock
from crfqn import ChainCRF, MulticlassClassifier, MulticlassSVC, Sequences

LEVELS = (4e-4, 2e-6, 1e-9)  # of the dual optimum
TOLERANCES = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
FASTER = 2.0
NEAREST = 1e-10  # certified, or as near as the limit of passes allows
MOST = 5000
N_LETTERS, POINTS = 10_000, 0.003
ROUGH = 1e-2  # certified gap of the kernel machine
MEGABYTES = 450  # of kernel rows: all of them
OURS, LIBLINEAR = "crfqn", "liblinear"
LINEAR = {"newsgroups": newsgroups, "banking77": banking}
N_VALIDATION = 616  # words
N_PIXELS, BIAS = 128, -1  # columns of the recipe's pixels and pairs of pixels
GRIDS = {"hinge": (1.0, 3.0, 10.0, 30.0, 100.0), "logistic": (0.3, 1.0, 3.0, 10.0, 30.0)}
POINT = 0.01  # of the letters
Points = list[tuple[float, float]]  # seconds after which a dual objective, to be maximised, was reached


def hinge(
    problem: Annotated[list[str] | None, some_of([*LINEAR, "letters"])] = None,
    strength: Annotated[float, typer.Option("--C", min=0, help="Strength of the loss.")] = 1.0,
    output: Output = None,
) -> None:
    """The multiclass hinge: liblinear's solver on words, scikit-learn's SVC on pixels of letters."""
    for name in problem or [*LINEAR, "letters"]:
        finish(measure_kernel(strength) if name == "letters" else measure_linear(name, strength), output)


def measure_linear(name: str, C: float) -> Report:
    """Both solvers on the same rows, without an intercept."""
    problem = LINEAR[name]()
    X, y = problem.X_train, np.unique(problem.y_train, return_inverse=True)[1]
    for fit in (ours, liblinear):
        fit(X[:200], y[:200], C, TOLERANCES[:1])
    curves = {}
    for library, fit, tolerances in ((OURS, ours, [NEAREST]), (LIBLINEAR, liblinear, TOLERANCES)):
        say(f"{name}, C = {C:g}: {library}")
        curves[library] = fit(X, y, C, tolerances)
    optimum = max(value for curve in curves.values() for _, value in curve)
    title = f"Multiclass hinge, {problem.describe()}, C = {C:g}"
    report = Report(f"hinge-{name}", title, ["crfqn", "scikit-learn"], numbers=curves)
    report.data[name] = problem.fingerprint
    rows = []
    for level in LEVELS:
        least = optimum * (1.0 - level)
        seconds = [
            min((s for s, value in curve if value >= least), default=np.inf) for curve in curves.values()
        ]
        # A solver that has not come there by its smallest tolerance has taken longer than that.
        never = "more than " * (not np.isfinite(seconds[1]))
        ratio = min(seconds[1], max(s for s, _ in curves[LIBLINEAR])) / seconds[0]
        rows.append([shown(level), *(f"{each:.2f}" for each in seconds), f"{never}{ratio:.2f}"])
        what, asked = f"to {shown(level)} of the dual optimum", f"{FASTER:g} times sooner"
        report.promises.append(Promise(what, asked, f"{never}{ratio:.2f}", ratio >= FASTER))
    note = f"Dual optimum {-C * optimum:,.6f}, as the better of both ends found it."
    report.tables.append(Table("Processor seconds", ["to", OURS, LIBLINEAR, "ratio"], rows, [note]))
    return report


def ours(X: Any, y: Any, C: float, tolerances: Sequence[float]) -> Points:
    """Dual decomposition, its bound after every pass; certificates are in the seconds."""
    clock = Clock()
    model = MulticlassClassifier(
        loss="hinge", penalty="l2", l2=1.0 / C, fit_intercept=False, tol=tolerances[-1], max_iter=MOST,
        n_threads=1, callback=clock,
    )  # fmt: skip
    with quietly():
        model.fit(X, y)
    return [(seconds, row.value * (1.0 - row.gap)) for _, seconds, row in clock.rows if np.isfinite(row.gap)]


def liblinear(X: Any, y: Any, C: float, tolerances: Sequence[float]) -> Points:
    """Seconds to tolerances of its own, and the dual objective there, over C as ours."""
    settings = {"multi_class": "crammer_singer", "fit_intercept": False, "max_iter": 100_000}
    points = []
    for tol in tolerances:
        model = LinearSVC(C=C, tol=tol, verbose=1, random_state=0, **settings)
        with written() as output, quietly():
            started = time.process_time()
            model.fit(X, y)
            seconds = time.process_time() - started
        points.append((seconds, -float(re.findall(r"Objective value = (\S+)", output[0])[-1]) / C))
    return points


@contextmanager
def written() -> Iterator[list[str]]:
    """What compiled code writes to standard output within the context, as its only entry at the end."""
    output: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        standard_output = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield output
        finally:
            ctypes.CDLL(None).fflush(None)  # what the C library still holds back
            os.dup2(standard_output, 1)
            os.close(standard_output)
            file.seek(0)
            output.append(file.read().decode())


def measure_kernel(C: float) -> Report:
    """One machine for all classes beside one a pair."""
    problem = Problem.of_recipe("ocr")
    X, X_test = (pixels(part).matrix.toarray() for part in (problem.X_train, problem.X_test))
    y, y_test = (np.concatenate(part) for part in (problem.y_train, problem.y_test))
    chosen = np.random.default_rng(0).permutation(len(y))[:N_LETTERS]
    rows, scores, seconds = [], [], []
    for name, model in (
        ("MulticlassSVC", MulticlassSVC(C=C, tol=ROUGH, cache_size=MEGABYTES)),
        ("SVC (scikit-learn)", SVC(C=C, cache_size=MEGABYTES)),
    ):
        model.fit(X[chosen[:300]], y[chosen[:300]])
        say(name)
        started = time.process_time()
        model.fit(X[chosen], y[chosen])
        seconds.append(time.process_time() - started)
        started = time.process_time()
        scores.append(float(model.score(X_test, y_test)))
        took = time.process_time() - started
        n_support, score = str(len(model.support_)), f"{scores[-1]:.4f}"
        rows.append([name, f"{seconds[-1]:.1f}", f"{took:.1f}", n_support, score])
    report = Report("hinge-kernel", f"{N_LETTERS:,} letters, RBF, C = {C:g}", ["crfqn", "scikit-learn"])
    head = ["", "seconds to train", "to predict", "support vectors", "test accuracy"]
    report.tables.append(Table(f"Letters, {len(y_test):,} for the test", head, rows))
    asked, is_met = f"SVC's, {scores[1]:.4f}, within .3 points", abs(scores[0] - scores[1]) <= POINTS
    report.promises.append(Promise("accuracy", asked, f"{scores[0]:.4f}", is_met))
    report.numbers, report.data["ocr"] = {"accuracy": scores, "seconds": seconds}, problem.fingerprint
    return report


def max_margin(
    tol: Annotated[float, typer.Option(min=0, help="The relative duality gap to prove.")] = 1e-2,
    output: Output = None,
) -> None:
    """Handwritten words by their pixels: the structured hinge beside the likelihood, both with L2."""
    problem = Problem.of_recipe("ocr")
    X, X_test = pixels(problem.X_train), pixels(problem.X_test)
    n_train = len(problem.y_train) - N_VALIDATION
    train = X[:n_train], problem.y_train[:n_train]
    judges = (X[n_train:], problem.y_train[n_train:]), (X_test, problem.y_test)
    fits = []
    for loss, grid in GRIDS.items():
        fit(loss, grid[-1], 0.5, (train[0][:200], train[1][:200]), judges)  # compiles
        for l2 in grid:
            say(f"{loss}, l2 = {l2:g}")
            fits.append(fit(loss, l2, tol, train, judges))
    report = Report("max-margin", f"OCR by pixels, {n_train} words, gap {tol:g}", ["crfqn", "numba", "numpy"])
    columns: dict[str, Callable[[Record], str]] = {
        "loss": lambda each: each["loss"],
        "l2": lambda each: f"{each['l2']:g}",
        "processor s": lambda each: f"{each['seconds']:.1f}",
        "passes": lambda each: f"{each['passes']:.0f}",
        "gap": lambda each: f"{each['gap']:.4f}",
        "validation letters right": lambda each: f"{each['validation']:.4f}",
        "test letters right": lambda each: f"{each['test']:.4f}",
    }
    report.tables.append(Table.of("Strengths", columns, fits))
    report.promises = promises(fits)
    report.numbers, report.data["ocr"] = {"fits": fits}, problem.fingerprint
    finish(report, output)


def pixels(X: Sequences) -> Sequences:
    """The pixels and the constant alone."""
    return Sequences(X.matrix[:, np.append(np.arange(N_PIXELS), X.matrix.shape[1] + BIAS)], X.offsets)


def fit(loss: str, l2: float, tol: float, train: tuple, judges: tuple) -> Record:
    """Train one model: seconds of the processor, passes over the words, shares of letters right."""
    model = ChainCRF(l1=0, l2=l2, loss=loss, tol=tol, stop="certificate", n_threads=1, max_iter=2000)
    started = time.process_time()
    result = model.fit(*train).result_
    seconds = time.process_time() - started
    validation, test = (model.score(*judge) for judge in judges)
    known = {"loss": loss, "l2": l2, "seconds": seconds, "passes": result.passes, "gap": result.gap}
    return known | {"validation": validation, "test": test}


def promises(fits: Sequence[Record]) -> list[Promise]:
    """Letters right at the strengths that validation chose, and the price of the likelihood's accuracy."""
    hinge, likelihood = (
        max(matching(fits, loss=loss), key=lambda each: each["validation"]) for loss in ("hinge", "logistic")
    )
    least = likelihood["validation"]
    as_good = [each for each in matching(fits, loss="hinge") if each["validation"] >= least]
    quick = min(as_good, key=lambda each: each["seconds"], default=None)
    right, is_met = (
        f"{hinge['test']:.4f}, {likelihood['test']:.4f}",
        hinge["test"] >= likelihood["test"] - POINT,
    )
    what = "the gap, hinge with the likelihood's validation letters"
    price = f"likelihood: {_price(likelihood)}"
    return [
        Promise("letters right, hinge and likelihood", "at most 1 point less", right, is_met),
        Promise(what, price, "never" if quick is None else _price(quick), None),
    ]


def _price(fit: Record) -> str:
    return f"{fit['seconds']:.1f} s, {fit['passes']:.0f} passes (l2 = {fit['l2']:g})"
