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
from functools import partial
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Section
from harness.data import banking, newsgroups
from harness.measuring import fit_seconds, quietly, say
from harness.options import Output, Repeats, some_of
from harness.problems import Problem
from harness.report import Record, Table, median, shown
from sklearn.base import clone
from sklearn.svm import SVC, LinearSVC

from benchmarks.crfqn_fits import Clock
from crfqn import ChainCRF, MulticlassClassifier, MulticlassSVC, Sequences

LEVELS = (4e-4, 2e-6, 1e-9)  # of the dual optimum
TOLERANCES = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
NEAREST = 1e-10  # certified, or as near as the limit of passes allows
MOST = 5000
N_LETTERS = 10_000
ROUGH = 1e-2  # certified gap of the kernel machine
MEGABYTES = 450  # of kernel rows: all of them
OURS, LIBLINEAR = "crfqn", "liblinear"
LINEAR = {"newsgroups": newsgroups, "banking77": banking}
N_VALIDATION = 616  # words
N_PIXELS, BIAS = 128, -1  # columns of the recipe's pixels and pairs of pixels
GRIDS = {"hinge": (1.0, 3.0, 10.0, 30.0, 100.0), "logistic": (0.3, 1.0, 3.0, 10.0, 30.0)}
Points = list[tuple[float, float]]  # seconds after which a dual objective, to be maximised, was reached


def measure_flat(name: str, C: float, turns: int) -> Record:
    """Both solvers on the same rows, without an intercept, by turns: curves of the dual objective."""
    if name == "letters":
        return measure_kernel(C, turns)
    problem = LINEAR[name]()
    X, y = problem.X_train, np.unique(problem.y_train, return_inverse=True)[1]
    solvers = {OURS: (ours, [NEAREST]), LIBLINEAR: (liblinear, TOLERANCES)}
    for fit, _ in solvers.values():
        fit(X[:200], y[:200], C, TOLERANCES[:1])
    curves: dict[str, list[Points]] = {library: [] for library in solvers}
    for turn, (library, (fit, tolerances)) in product(range(turns), solvers.items()):
        say(f"  {library}, turn {turn + 1}")
        curves[library].append(fit(X, y, C, tolerances))
    return {"data": problem.fingerprint, "about": problem.describe(), "curves": curves}


def linear_section(record: Record) -> tuple[Table, list[Ratio]]:
    """Seconds to levels of the dual optimum, which is the better of both ends."""
    curves, rows, ratios = record["curves"], [], []
    optimum = max(value for runs in curves.values() for points in runs for _, value in points)
    for level in LEVELS:
        least = optimum * (1.0 - level)
        mine, peer = (
            np.median([min((s for s, value in points if value >= least), default=np.inf) for points in curves[name]])
            for name in (OURS, LIBLINEAR)
        )  # fmt: skip
        # A solver that has not come there by its smallest tolerance has taken longer than that.
        never = "more than " * (not np.isfinite(peer))
        longest = float(np.median([max(s for s, _ in points) for points in curves[LIBLINEAR]]))
        ratio = min(peer, longest) / mine
        rows.append([shown(level), f"{mine:.2f}", f"{peer:.2f}", f"{never}{ratio:.2f}"])
        what = f"hinge, {record['problem']}, to {shown(level)} of the dual optimum"
        ratios.append(Ratio(what, ratio, f"{mine:.2f} s", f"liblinear: {never}{min(peer, longest):.2f} s"))
    note = f"Dual optimum {-record['C'] * optimum:,.6f}, as the better of both ends found it."
    title = f"Multiclass hinge, {record['about']}, C = {record['C']:g}: processor seconds"
    return Table(title, ["to", OURS, LIBLINEAR, "ratio"], rows, [note]), ratios


def ours(X: Any, y: Any, C: float, tolerances: Sequence[float]) -> Points:
    """Dual decomposition, its bound after every pass; certificates are in the seconds."""
    clock = Clock()
    model = MulticlassClassifier(
        loss="hinge", penalty="l2", l2=1.0 / C, fit_intercept=False, tol=tolerances[-1], max_iter=MOST,
        n_threads=1, callback=clock,
    )  # fmt: skip
    with quietly():
        model.fit(X, y)
    best = np.fmin.accumulate([row.value for _, _, row in clock.rows])  # the weights that a row's gap is of
    bounds = [value * (1.0 - row.gap) for value, (_, _, row) in zip(best, clock.rows, strict=True)]
    return [
        (row[1], float(bound)) for row, bound in zip(clock.rows, bounds, strict=True) if np.isfinite(bound)
    ]


def liblinear(X: Any, y: Any, C: float, tolerances: Sequence[float]) -> Points:
    """Seconds to tolerances of its own, and the dual objective there, over C as ours."""
    settings = {"multi_class": "crammer_singer", "fit_intercept": False, "max_iter": 100_000}
    points = []
    for tol in tolerances:
        model = LinearSVC(C=C, tol=tol, verbose=1, random_state=0, **settings)
        with written() as output:
            seconds = fit_seconds(model, X, y)
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


def measure_kernel(C: float, turns: int) -> Record:
    """One machine for all classes beside one a pair."""
    problem = Problem.of_recipe("ocr")
    X, X_test = (pixels(part).matrix.toarray() for part in (problem.X_train, problem.X_test))
    y, y_test = (np.concatenate(part) for part in (problem.y_train, problem.y_test))
    chosen = np.random.default_rng(0).permutation(len(y))[:N_LETTERS]
    makers = {
        "MulticlassSVC": partial(MulticlassSVC, C=C, tol=ROUGH, cache_size=MEGABYTES),
        "SVC (scikit-learn)": partial(SVC, C=C, cache_size=MEGABYTES),
    }
    for make in makers.values():
        make().fit(X[chosen[:300]], y[chosen[:300]])
    machines: dict[str, list[Record]] = {name: [] for name in makers}
    for turn, (name, make) in product(range(turns), makers.items()):
        say(f"  {name}, turn {turn + 1}")
        model = make()
        seconds, trained = fit_seconds(model, X[chosen], y[chosen]), time.process_time()
        accuracy = float(model.score(X_test, y_test))
        costs = {"train": seconds, "predict": time.process_time() - trained}
        machines[name].append(costs | {"n_support": len(model.support_), "accuracy": accuracy})
    return {"data": problem.fingerprint, "machines": machines}


def section(records: list[Record]) -> Section:
    tables: list[Table] = []
    ratios: list[Ratio] = []
    for record in records:
        if "curves" in record:
            table, found = linear_section(record)
            tables, ratios = [*tables, table], ratios + found
            continue
        rows = [
            [name, *(median([run[what] for run in runs], ".1f") for what in ("train", "predict")),
             str(runs[0]["n_support"]), f"{runs[0]['accuracy']:.4f}"]
            for name, runs in record["machines"].items()
        ]  # fmt: skip
        head = ["", "seconds to train", "to predict", "support vectors", "test accuracy"]
        tables.append(Table(f"{N_LETTERS:,} letters, RBF, C = {record['C']:g}", head, rows))
    return Section(tables, ratios)


HINGE = Comparison(
    "hinge", "The multiclass hinge, against liblinear and SVC",
    "Dual decomposition beside liblinear's solver for the hinge of Crammer and Singer, by the dual objective; "
    "`MulticlassSVC`, to a certified gap of 1 %, beside scikit-learn's `SVC` on handwritten letters (128 pixels, "
    "RBF kernel, "
    'gamma "scale"). The same C does not mean the same there. Processor seconds of one thread, by turns.',
    ["crfqn", "scikit-learn"], section, ["", "--problem letters --C 3"],
)  # fmt: skip


def hinge(
    problem: Annotated[list[str] | None, some_of([*LINEAR, "letters"])] = None,
    strength: Annotated[float, typer.Option("--C", min=0, help="Strength of the loss.")] = 1.0,
    repeats: Repeats = 3,
    output: Output = None,
) -> None:
    """The multiclass hinge: liblinear's solver on words, scikit-learn's SVC on pixels of letters."""
    settings = {"C": strength, "repeats": repeats}
    cases = [{"problem": name, **settings} for name in problem or [*LINEAR, "letters"]]
    HINGE.measure(measure_flat, cases, output)


def pixels(X: Sequences) -> Sequences:
    """The pixels and the constant alone."""
    return Sequences(X.matrix[:, np.append(np.arange(N_PIXELS), X.matrix.shape[1] + BIAS)], X.offsets)


# ---- chains


def measure_chain(loss: str, l2: float, tol: float) -> Record:
    """One model: seconds of the processor, passes over the words, shares of letters right."""
    problem = Problem.of_recipe("ocr")
    X, X_test, y = pixels(problem.X_train), pixels(problem.X_test), problem.y_train
    n_train = len(y) - N_VALIDATION
    model = ChainCRF(l1=0, l2=l2, loss=loss, tol=tol, stop="certificate", n_threads=1, max_iter=2000)
    with quietly():
        clone(model).set_params(tol=0.5).fit(X[:200], y[:200])  # compiles
    seconds, result = fit_seconds(model, X[:n_train], y[:n_train]), model.result_
    validation, test = model.score(X[n_train:], y[n_train:]), model.score(X_test, problem.y_test)
    costs = {"data": problem.fingerprint, "seconds": seconds, "passes": result.passes, "gap": result.gap}
    return costs | {"validation": validation, "test": test}


def chain_section(records: list[Record]) -> Section:
    columns: dict[str, Callable[[Record], str]] = {
        "loss": lambda each: each["loss"],
        "l2": lambda each: f"{each['l2']:g}",
        "processor s": lambda each: f"{each['seconds']:.1f}",
        "passes": lambda each: f"{each['passes']:.0f}",
        "gap": lambda each: f"{each['gap']:.4f}",
        "validation letters right": lambda each: f"{each['validation']:.4f}",
        "test letters right": lambda each: f"{each['test']:.4f}",
    }
    return Section([Table.from_rows("Strengths", columns, records)])


MAX_MARGIN = Comparison(
    "max-margin", "Max-margin chains, beside the likelihood",
    "The handwritten words by their 128 pixels and a constant (26 labels), L2 alone, to a proved duality gap of 1 "
    "%; 616 words of the training part to choose `l2`. Processor seconds of one thread.",
    ["crfqn", "numba", "numpy"], chain_section,
)  # fmt: skip


def max_margin(
    tol: Annotated[float, typer.Option(min=0, help="The relative duality gap to prove.")] = 1e-2,
    output: Output = None,
) -> None:
    """Handwritten words by their pixels: the structured hinge beside the likelihood, both with L2."""
    cases = [{"loss": loss, "l2": l2, "tol": tol} for loss, grid in GRIDS.items() for l2 in grid]
    MAX_MARGIN.measure(measure_chain, cases, output)
