"""Row-sparse multiclass models: crfqn beside lightning's CDClassifier and cyanure.

The multiclass squared hinge (equation 2 of Blondel et al. 2013) and the multinomial logistic loss (12) with L1/L2 rows,
means over the items, no intercept, one thread. Every library has a process of its own. lightning needs older libraries
than crfqn, and so an interpreter of its own; cyanure runs here.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness import data
from harness.comparing import Comparison, Ratio, Results, Section
from harness.judging import Verdict, judge, weights_of
from harness.measuring import fit_seconds, quietly, run_alone, run_within, say
from harness.options import Output, Repeats, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Record, Table, median, number, shown
from scipy.sparse import csr_array, save_npz

from benchmarks.crfqn_fits import timed_fit
from crfqn.errors import InputError

LEVEL = 1e-3  # relative distance from the optimum
STRONGER = 5.0  # times the strength, for the warm-up
WARM_UP_SECONDS = 60.0  # enough to compile
GROWTH = 1.25  # of cyanure's epochs from one fit to the next
LIGHTNINGS = {"squared-hinge": "squared_hinge", "logistic": "log"}
PEERS = {"squared-hinge": "lightning", "logistic": "cyanure"}
PROBLEMS = {"newsgroups": data.newsgroups, "mnist": data.mnist}
SPLITS = {"newsgroups": "8def1dca4e7ea7db", "mnist": "8a0b04fe44083ef8"}


@dataclass(frozen=True)
class Task:
    """A loss on a problem, its lambda, and the reference optimum (an independent solver's)."""

    problem: str
    loss: str
    strength: float
    optimum: float

    def verdict(self, problem: Problem, weights: Any) -> Verdict:
        """The judge's verdict; the objective is a mean over the items."""
        n = problem.y_train.size
        verdict = judge(problem, weights, loss=self.loss, group_l1=n * self.strength)
        return Verdict(verdict.objective / n, verdict.accuracy, n_rows=verdict.n_rows)


TASKS = [
    Task("newsgroups", "squared-hinge", 1e-3, 3.13948989),
    Task("newsgroups", "squared-hinge", 1e-4, 0.66177476),
    Task("mnist", "squared-hinge", 1e-3, 0.55213061),
    Task("newsgroups", "logistic", 1e-3, 2.56503846),
    Task("newsgroups", "logistic", 1e-4, 1.25156812),
    Task("mnist", "logistic", 1e-3, 0.47495686),
]
NOTES = [
    "Objective, rows and accuracy are those of crfqn's model at this point, recomputed from its weights.",
    "lightning: CDClassifier(penalty='l1/l2', multiclass=True), the paper's author's, its weights judged after every "
    "epoch. cyanure: its default solver, a fit for each of a growing number of epochs; the seconds are those of the "
    "first that is near enough.",
]


def measure(task: Task, repeats: int, limit: float, lightning: Path | None) -> Record:
    """Train with both libraries: processor seconds to the level; of the peer None: not reached within the limit."""
    problem = PROBLEMS[task.problem]()
    if not problem.fingerprint.startswith(SPLITS[task.problem]):
        raise InputError(f"{task.problem}: the items come in another order than the reference's")
    with stored(problem) as path:
        runs = run_alone(fits, path, task, repeats, limit)
        verdict = task.verdict(problem, runs[0].weights)
        last = max(float(run.values[-1]) for run in runs) / problem.y_train.size
        if max(last, verdict.objective) > task.optimum * (1.0 + 1.01 * LEVEL):
            raise InputError(f"{task}: not in {limit:g} s, but {last} (--limit)")
        peer, name = None, PEERS[task.loss]
        has_peer = lightning is not None if name == "lightning" else find_spec("cyanure") is not None
        if name == "lightning" and lightning:
            peer = lightning_seconds(lightning, path, task, limit)
        elif name == "cyanure" and has_peer:
            peer = run_within(8 * limit, cyanure_seconds, path, task, limit)
    return {
        "data": problem.fingerprint, "one": [float(run.seconds[-1]) for run in runs], "peer": peer,
        "has_peer": has_peer, "objective": verdict.objective, "rows": verdict.n_rows, "accuracy": verdict.accuracy,
    }  # fmt: skip


def section(records: list[Record]) -> Section:
    rows, ratios = [], []
    for each in records:
        title = f"{each['problem']}, {each['loss']}, lambda = {shown(each['strength'])}"
        missing = f"> {each['limit']:g}" if each["has_peer"] else "not measured"
        cells = [median(each["one"]), PEERS[each["loss"]], number(each["peer"], ".2f", missing)]
        model = f"{each['objective']:.6f}", f"{each['rows']:,}", f"{each['accuracy']:.4f}"
        rows.append([title, *cells, *model])
        if each["peer"]:
            ratio, seconds = each["peer"] / float(np.median(each["one"])), f"{median(each['one'])} s"
            ratios.append(Ratio(title, ratio, seconds, f"{PEERS[each['loss']]}: {each['peer']:.2f} s"))
    head = ["", "crfqn, s", "peer", "its s", "objective", "rows", "test accuracy"]
    return Section([Table(f"Seconds to {shown(LEVEL)} above the optimum", head, rows, NOTES)], ratios)


ROWS = Comparison(
    "rows", "Row-sparse models, against lightning and cyanure",
    "`MulticlassClassifier(loss=..., group_l1=lambda * items, fit_intercept=False)`, processor seconds of one core "
    "from the call of fit with the matrix in memory, after a warm-up in the same process; medians. lightning takes an "
    "interpreter of its own (`pip "
    'install "setuptools<74" wheel "cython<3" "numpy<2" "scipy<1.14" "scikit-learn<1.5"`, then `pip install '
    "--no-build-isolation sklearn-contrib-lightning`).",
    ["crfqn", "cyanure", "scikit-learn", "numba", "numpy"], section, ["--lightning ../lightning/bin/python"],
)  # fmt: skip


def rows(
    problem: Annotated[list[str] | None, some_of([*PROBLEMS])] = None,
    loss: Annotated[list[str] | None, some_of([*PEERS])] = None,
    repeats: Repeats = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit.")] = 60.0,
    lightning: Annotated[
        Path | None,
        typer.Option(help="An interpreter (python) that has sklearn-contrib-lightning.", exists=True),
    ] = None,
    output: Output = None,
) -> None:
    """Multiclass models with L1/L2 rows: crfqn against lightning and cyanure."""
    results = Results(ROWS, output)
    for task in TASKS:
        if task.problem in (problem or PROBLEMS) and task.loss in (loss or PEERS):
            case = {"problem": task.problem, "loss": task.loss, "strength": task.strength, "repeats": repeats}
            case |= {"limit": limit, "has_lightning": lightning is not None}
            results.case(case, partial(measure, task, repeats, limit, lightning))
    results.finish()


def fits(path: str, task: Task, repeats: int, limit: float) -> list[Run]:
    """crfqn's fits to the level on one thread, after a warm-up."""
    from crfqn import MulticlassClassifier

    problem: Problem = read_stored(path)
    n = problem.y_train.size
    make = partial(MulticlassClassifier, loss=task.loss, fit_intercept=False, n_threads=1)
    with quietly():  # that it is stopped early
        rough = {"group_l1": STRONGER * task.strength * n, "max_seconds": WARM_UP_SECONDS}
        make(**rough).fit(problem.X_train, problem.y_train)
    settings = {"group_l1": task.strength * n, "tol": 1e-9, "max_seconds": limit}
    target = task.optimum * (1.0 + LEVEL) * n
    return [timed_fit(make(**settings), problem, target) for _ in range(repeats)]


def lightning_seconds(interpreter: Path, path: str, task: Task, limit: float) -> float | None:
    """Seconds to the level, by the judge's values after every epoch."""
    problem: Problem = read_stored(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_npz(folder / "X.npz", csr_array(problem.X_train))
        np.save(folder / "y.npy", np.unique(problem.y_train, return_inverse=True)[1])
        script = Path(__file__).with_name("lightning_fit.py")
        arguments = [LIGHTNINGS[task.loss], str(task.strength), str(limit)]
        subprocess.run([interpreter, script, folder, *arguments], check=True)
        epochs = dict(np.load(folder / "epochs.npz"))
    ends = np.cumsum(epochs["lengths"])
    for seconds, first, last in zip(epochs["seconds"], [0, *ends[:-1]], ends, strict=True):
        coords, values = epochs["coords"][first:last], epochs["values"][first:last]
        weights, _ = weights_of(coords, values, len(problem.classes), problem.X_train.shape[1])
        if task.verdict(problem, weights).objective <= task.optimum * (1.0 + LEVEL):
            return float(seconds)
    return None


def cyanure_seconds(path: str, task: Task, limit: float) -> float | None:
    """Seconds of the first fit that is near enough, of fits of more and more epochs."""
    from cyanure.estimators import Classifier

    problem: Problem = read_stored(path)
    X, codes = problem.X_train, np.unique(problem.y_train, return_inverse=True)[1]
    settings = {"loss": "multiclass-logistic", "penalty": "l1l2", "lambda_1": task.strength, "tol": 1e-9}
    settings |= {"fit_intercept": False, "verbose": False, "n_threads": 1}
    Classifier(**settings, max_iter=2).fit(X[:500], codes[:500])
    epochs, seconds = 4.0, 0.0
    while seconds <= limit:
        n_epochs = int(epochs)
        model = Classifier(**settings, max_iter=n_epochs, duality_gap_interval=n_epochs)
        seconds, epochs = fit_seconds(model, X, codes), GROWTH * epochs + 1
        table = model.coef_ if model.coef_.shape[0] == len(problem.classes) else model.coef_.T
        objective = task.verdict(problem, table).objective
        say(f"  cyanure: {n_epochs} epochs, {seconds:.2f} s, {objective / task.optimum - 1:.1e} above")
        if objective <= task.optimum * (1.0 + LEVEL):
            return seconds
    return None
