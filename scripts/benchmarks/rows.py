"""Row-sparse multiclass models: crfqn on one and two cores, lightning's CDClassifier and cyanure beside it.

The multiclass squared hinge (equation 2 of Blondel et al. 2013) and the multinomial logistic loss (12) with L1/L2 rows,
means over the items, no intercept. Every library has a process of its own; in crfqn's, fits on one core, on two and on
the other one take turns, and between them it is measured what the cores have to give, whatever runs on them: those of a
virtual machine may be two halves of one core for seconds, so that two threads get no more done than one, or differ in
speed. lightning needs older libraries than crfqn, and so an interpreter of its own; cyanure runs here.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import typer
from harness import data
from harness.comparing import Comparison, Ratio, Results, Section
from harness.judging import Verdict, judge, weights_of
from harness.measuring import quietly, run_alone, run_within, say
from harness.options import Output, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Record, Table, median, number, shown
from scipy.sparse import csr_array, save_npz
from threadpoolctl import threadpool_limits

from benchmarks.crfqn_fits import timed_fit
from crfqn.errors import InputError
from crfqn.threads import Pool

LEVEL = 1e-3  # relative distance from the optimum
STRONGER = 5.0  # times the strength, for the warm-up
WARM_UP_SECONDS = 60.0  # enough to compile
GROWTH = 1.25  # of cyanure's epochs from one fit to the next
LIGHTNINGS = {"squared-hinge": "squared_hinge", "logistic": "log"}
PEERS = {"squared-hinge": "lightning", "logistic": "cyanure"}
PROBLEMS = {"newsgroups": data.newsgroups, "mnist": data.mnist}
SPLITS = {"newsgroups": "8def1dca4e7ea7db", "mnist": "8a0b04fe44083ef8"}
SIZE, PRODUCTS, TRIES = (
    160,
    60,
    4,
)  # of matrices that stay in a core's own cache; of a measurement; the best counts
REAL = 1.5  # times one core's work: two cores, not halves of one


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
    "A fit on two cores is compared with the mean of one on each, before and after, by the wall clock: those of a "
    "virtual machine may differ in speed.",
    "On real cores: the gains of those fits, so many of all, around which two threads always got at least "
    f"{REAL} times as many matrix products done as one. A virtual machine's cores may be halves of one for seconds.",
    "Objective, rows and accuracy are those of the model at this point, recomputed from its weights.",
    "lightning: CDClassifier(penalty='l1/l2', multiclass=True), the paper's author's, its weights judged after every "
    "epoch. cyanure: its default solver, a fit for each of a growing number of epochs; the seconds are those of the "
    "first that is near enough. Both have one thread. 'not in': the limit for a single fit.",
]


def measure(task: Task, repeats: int, limit: float, lightning: Path | None) -> Record:
    """Train with both libraries: processor seconds to the level by run; None: not reached within the limit.

    Of the record: `one` and `walls` have two entries for each of `two`, one on each core; `gains` and `capacity`, for
    each of `two`, the least that the cores had to give around it, in those of one.
    """
    problem = PROBLEMS[task.problem]()
    if not problem.fingerprint.startswith(SPLITS[task.problem]):
        raise InputError(f"{task.problem}: the items come in another order than the reference's")
    with stored(problem) as path:
        on_one, on_two, capacities = run_alone(take_turns, path, task, repeats, limit)
        verdict = task.verdict(problem, on_one[0].weights)
        last = max(float(run.values[-1]) for run in on_one + on_two) / problem.y_train.size
        if max(last, verdict.objective) > task.optimum * (1.0 + 1.01 * LEVEL):
            raise InputError(f"{task}: not in {limit:g} s, but {last} (--limit)")
        peer, name = None, PEERS[task.loss]
        has_peer = lightning is not None if name == "lightning" else find_spec("cyanure") is not None
        if name == "lightning" and lightning:
            peer = lightning_seconds(lightning, path, task, limit)
        elif name == "cyanure" and has_peer:
            peer = run_within(20 * limit, cyanure_seconds, path, task, limit)
    walls, two = ([float(run.facts["wall_seconds"][-1]) for run in runs] for runs in (on_one, on_two))
    gains = np.reshape(walls, (-1, 2)).mean(axis=1) / two
    return {
        "data": problem.fingerprint, "one": [float(run.seconds[-1]) for run in on_one], "walls": walls, "two": two,
        "gains": gains, "capacity": capacities, "peer": peer, "has_peer": has_peer, "objective": verdict.objective,
        "rows": verdict.n_rows, "accuracy": verdict.accuracy,
    }  # fmt: skip


def section(records: list[Record]) -> Section:
    rows, ratios = [], []
    for each in records:
        title = f"{each['problem']}, {each['loss']}, lambda = {shown(each['strength'])}"
        real = np.array(each["gains"])[np.array(each["capacity"]) >= REAL]
        missing = f"not in {each['limit']:g}" if each["has_peer"] else "not measured"
        on_real = f"{np.median(real):.2f} ({real.size} of {len(each['two'])})" if real.size else "none"
        cells = [
            median(each["one"]),
            median(each["two"]),
            median(each["gains"]),
            on_real,
            PEERS[each["loss"]],
        ]
        cells += [number(each["peer"], ".2f", missing), f"{each['objective']:.6f}", f"{each['rows']:,}"]
        rows.append([title, *cells, f"{each['accuracy']:.4f}"])
        if each["peer"]:
            ratio, seconds = each["peer"] / float(np.median(each["one"])), f"{median(each['one'])} s"
            ratios.append(Ratio(title, ratio, seconds, f"{PEERS[each['loss']]}: {each['peer']:.2f} s"))
    head = [
        "",
        "one core, processor s",
        "two cores, s",
        "gain",
        "on real cores",
        "peer",
        "its s",
        "objective",
        "rows",
    ]
    title = f"Seconds to {shown(LEVEL)} above the optimum"
    return Section([Table(title, [*head, "test accuracy"], rows, NOTES)], ratios)


ROWS = Comparison(
    "rows", "Row-sparse models, against lightning and cyanure",
    "`MulticlassClassifier(loss=..., group_l1=lambda * items, fit_intercept=False)`, seconds from the call of fit "
    "with the matrix in memory, after warm-up fits in the same process; medians. lightning takes an interpreter of "
    "its own (`pip "
    'install "setuptools<74" wheel "cython<3" "numpy<2" "scipy<1.14" "scikit-learn<1.5"`, then `pip install '
    "--no-build-isolation sklearn-contrib-lightning`).",
    ["crfqn", "cyanure", "scikit-learn", "numba", "numpy"], section, ["--lightning ../lightning/bin/python"],
)  # fmt: skip


def rows(
    problem: Annotated[list[str] | None, some_of([*PROBLEMS])] = None,
    loss: Annotated[list[str] | None, some_of([*PEERS])] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn on one core and on two.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit.")] = 60.0,
    lightning: Annotated[
        Path | None,
        typer.Option(help="An interpreter (python) that has sklearn-contrib-lightning.", exists=True),
    ] = None,
    output: Output = None,
) -> None:
    """Multiclass models with L1/L2 rows: crfqn on one and two cores against lightning and cyanure."""
    results = Results(ROWS, output)
    for task in TASKS:
        if task.problem in (problem or PROBLEMS) and task.loss in (loss or PEERS):
            case = {"problem": task.problem, "loss": task.loss, "strength": task.strength, "repeats": repeats}
            case |= {"limit": limit, "has_lightning": lightning is not None}
            results.case(case, partial(measure, task, repeats, limit, lightning))
    results.finish()


def take_turns(path: str, task: Task, repeats: int, limit: float) -> tuple[list[Run], list[Run], list[float]]:
    """Fits by turns after a warm-up: on one core, on two, on the other one; and what both had to give meanwhile."""
    from crfqn import MulticlassClassifier

    problem: Problem = read_stored(path)
    strength = task.strength * problem.y_train.size
    make = partial(MulticlassClassifier, loss=task.loss, fit_intercept=False)
    one, two, capacities = list[Run](), list[Run](), list[float]()
    for n_threads in (1, 2):
        with quietly():  # that it is stopped early
            rough = {"group_l1": STRONGER * strength, "max_seconds": WARM_UP_SECONDS}
            make(n_threads=n_threads, **rough).fit(problem.X_train, problem.y_train)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    target = task.optimum * (1.0 + LEVEL) * problem.y_train.size
    with Pool(2) as pool:
        for _ in range(repeats):
            around = [capacity(pool)]
            for core, n_threads, runs in ((cores[0], 1, one), (None, 2, two), (cores[:2][-1], 1, one)):
                with on_core(core):
                    model = make(n_threads=n_threads, group_l1=strength, tol=1e-9, max_seconds=limit)
                    runs.append(timed_fit(model, problem, target))
                around.append(capacity(pool))
            capacities.append(min(around))
            say(f"  capacity {min(around):.2f}")
    return one, two, capacities


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """This thread, and those that it makes, stay on a core; None: anywhere."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def capacity(pool: Pool) -> float:
    """How many times as many matrix products two threads get done as one: 2 on two cores alike, 1 on halves of one."""
    matrix = np.random.default_rng(0).random((SIZE, SIZE))

    def work(_: int) -> None:
        for _ in range(PRODUCTS):
            matrix @ matrix

    def least_seconds(run: Callable[[], object]) -> float:
        seconds = []
        for _ in range(TRIES):
            begin = perf_counter()
            run()
            seconds.append(perf_counter() - begin)
        return min(seconds)

    with threadpool_limits(1):
        return 2.0 * least_seconds(lambda: work(0)) / least_seconds(lambda: pool.each(2, work))


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
        begin = process_time()
        model.fit(X, codes)
        seconds, epochs = process_time() - begin, GROWTH * epochs + 1
        table = model.coef_ if model.coef_.shape[0] == len(problem.classes) else model.coef_.T
        objective = task.verdict(problem, table).objective
        say(f"  cyanure: {n_epochs} epochs, {seconds:.2f} s, {objective / task.optimum - 1:.1e} above")
        if objective <= task.optimum * (1.0 + LEVEL):
            return seconds
    return None
