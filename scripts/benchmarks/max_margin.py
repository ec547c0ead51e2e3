"""Handwritten words, pixels as features: the max-margin Markov network beside the likelihood, both with L2.

Each is trained to a proved duality gap at each strength of a small grid on all training words but the last 616; the
strength is that with the most letters right in these. Processor seconds of one thread, a fit after a warm-up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.alone import say
from benchmarks.problem import Problem
from benchmarks.report import Figure, Report, Table
from crfqn import ChainCRF, Sequences

N_VALIDATION = 616  # words
N_PIXELS, BIAS = 128, -1  # columns of the recipe's pixels and pairs of pixels
GRIDS = {"hinge": (1.0, 3.0, 10.0, 30.0, 100.0), "logistic": (0.3, 1.0, 3.0, 10.0, 30.0)}
POINT = 0.01  # of the letters


@dataclass(frozen=True)
class Fit:
    """One training: seconds of the processor, passes over the words, shares of letters right."""

    loss: str
    l2: float
    seconds: float
    passes: float
    gap: float
    validation: float
    test: float

    def cells(self) -> list[str]:
        return [
            self.loss, f"{self.l2:g}", f"{self.seconds:.1f}", f"{self.passes:.0f}", f"{self.gap:.4f}",
            f"{self.validation:.4f}", f"{self.test:.4f}",
        ]  # fmt: skip


def measure(tol: float) -> Report:
    """Train both losses over their grids."""
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
    head = ["loss", "l2", "processor s", "passes", "gap", "validation letters right", "test letters right"]
    report.tables.append(Table("Strengths", head, [one.cells() for one in fits]))
    report.figures = figures(fits)
    report.numbers = {"fits": [asdict(one) for one in fits]}
    return report


def pixels(X: Sequences) -> Sequences:
    """The pixels and the constant alone."""
    return Sequences(X.matrix[:, np.append(np.arange(N_PIXELS), X.matrix.shape[1] + BIAS)], X.offsets)


def fit(loss: str, l2: float, tol: float, train: tuple, judges: tuple) -> Fit:
    """Train one model."""
    model = ChainCRF(l1=0, l2=l2, loss=loss, tol=tol, stop="certificate", n_threads=1, max_iter=2000)
    started = time.process_time()
    result = model.fit(*train).result_
    seconds = time.process_time() - started
    validation, test = (model.score(*judge) for judge in judges)
    return Fit(loss, l2, seconds, result.passes, result.gap, validation, test)


def figures(fits: Sequence[Fit]) -> list[Figure]:
    """Letters right at the strengths that validation chose, and the price of the likelihood's accuracy."""
    best = {loss: max((f for f in fits if f.loss == loss), key=lambda f: f.validation) for loss in GRIDS}
    hinge, likelihood = best["hinge"], best["logistic"]
    as_good = [f for f in fits if f.loss == "hinge" and f.validation >= likelihood.validation]
    quick = min(as_good, key=lambda f: f.seconds, default=None)
    price = (
        "never" if quick is None else f"{quick.seconds:.1f} s, {quick.passes:.0f} passes (l2 = {quick.l2:g})"
    )
    return [
        Figure(
            "letters right, hinge and likelihood", "at most 1 point less", f"{hinge.test:.4f}, {likelihood.test:.4f}",
            hinge.test >= likelihood.test - POINT,
        ),
        Figure(
            "the gap, hinge with the likelihood's validation letters",
            f"likelihood: {likelihood.seconds:.1f} s, {likelihood.passes:.0f} passes (l2 = {likelihood.l2:g})",
            price, None,
        ),
    ]  # fmt: skip
