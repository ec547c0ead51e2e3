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
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from harness import data
from harness.judging import Verdict, judge, weights_of
from harness.measuring import quietly, run_alone, run_within, say
from harness.options import Output, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Promise, Record, Report, Table, finish, number, shown, times
from scipy.sparse import csr_array, save_npz
from threadpoolctl import threadpool_limits

from benchmarks.crfqn_fits import timed_fit
from crfqn.errors import InputError
from crfqn.threads import Pool

LEVEL = 1e-3  # relative distance from the optimum
MORE_ON_TWO = 1.6  # times as much is asked on two cores
STRONGER = 5.0  # times the strength, for the warm-up
WARM_UP_SECONDS = 60.0  # enough to compile
GROWTH = 1.25  # of cyanure's epochs from one fit to the next
LOSSES = ("squared-hinge", "logistic")
LIGHTNINGS = {"squared-hinge": "squared_hinge", "logistic": "log"}
PROBLEMS = {"newsgroups": data.newsgroups, "mnist": data.mnist}
SPLITS = {"newsgroups": "8def1dca4e7ea7db", "mnist": "8a0b04fe44083ef8"}
SIZE = 160  # of matrices that stay in a core's own cache
PRODUCTS = 60  # of a measurement: 5 ms
TRIES = 4  # of which the best counts
REAL = 1.5  # times one core's work: two cores, not halves of one


@dataclass(frozen=True)
class Task:
    """A loss on a problem, its lambda, the reference optimum (an independent solver's), and what was asked."""

    problem: str
    loss: str
    strength: float
    optimum: float
    peer: str
    asked: float  # times sooner than the peer

    @property
    def title(self) -> str:
        return f"{self.problem}, {self.loss}, lambda = {shown(self.strength)}"

    def verdict(self, problem: Problem, weights: Any) -> Verdict:
        """The judge's verdict; the objective is a mean over the items."""
        n = problem.y_train.size
        verdict = judge(problem, weights, loss=self.loss, group_l1=n * self.strength)
        return Verdict(verdict.objective / n, verdict.accuracy, n_rows=verdict.n_rows)

    def distance(self, problem: Problem, weights: Any) -> float:
        return self.verdict(problem, weights).objective / self.optimum - 1.0


TASKS = [
    Task("newsgroups", "squared-hinge", 1e-3, 3.13948989, "lightning", 3.0),
    Task("newsgroups", "squared-hinge", 1e-4, 0.66177476, "lightning", 3.0),
    Task("mnist", "squared-hinge", 1e-3, 0.55213061, "lightning", 3.0),
    Task("newsgroups", "logistic", 1e-3, 2.56503846, "cyanure", 1.0),
    Task("newsgroups", "logistic", 1e-4, 1.25156812, "cyanure", 1.0),
    Task("mnist", "logistic", 1e-3, 0.47495686, "cyanure", 1.0),
]
NOTES = [
    "crfqn: `MulticlassClassifier(loss=..., group_l1=lambda * items, fit_intercept=False)`. Seconds count from the "
    "call of fit with the matrix in memory, after warm-up fits in the same process; medians. A fit on two cores is "
    "compared with the mean of one on each, before and after: those of a virtual machine may differ in speed.",
    "On real cores: the gains of those fits, so many of all, around which two threads always got at least "
    f"{REAL} times as many matrix products done as one. A virtual machine's cores may be halves of one for seconds.",
    "Objective, rows and accuracy are those of the model at this point, recomputed from its weights.",
    "lightning: CDClassifier(penalty='l1/l2', multiclass=True), the paper's author's, its weights judged after every "
    "epoch. cyanure: its default solver, a fit for each of a growing number of epochs; the seconds are those of the "
    "first that is near enough. Both have one thread. 'not in': the limit for a single fit.",
]


def rows(
    problem: Annotated[list[str] | None, some_of([*PROBLEMS])] = None,
    loss: Annotated[list[str] | None, some_of(LOSSES)] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn on one core and on two.")] = 9,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit.")] = 60.0,
    lightning: Annotated[
        Path | None,
        typer.Option(help="An interpreter (python) that has sklearn-contrib-lightning.", exists=True),
    ] = None,
    output: Output = None,
) -> None:
    """Multiclass models with L1/L2 rows: crfqn on one and two cores against lightning and cyanure."""
    report = Report("rows", "Row-sparse multiclass", ["crfqn", "cyanure", "scikit-learn", "numba", "numpy"])
    for name in problem or PROBLEMS:
        say(f"{name}: preparing")
        items = PROBLEMS[name]()
        if not items.fingerprint.startswith(SPLITS[name]):
            raise InputError(f"{name}: the items come in another order than the reference's")
        report.data[name] = items.fingerprint
        with stored(items) as path:
            for task in TASKS:
                if task.problem == name and task.loss in (loss or LOSSES):
                    record = compare(task, path, items, repeats, limit, lightning)
                    report.promises += promises(task, record, limit)
                    report.numbers[task.title] = record
    columns: dict[str, Callable[[tuple[str, Record]], str]] = {
        "": lambda entry: entry[0],
        "one core, s": lambda entry: f"{np.median(entry[1]['one']):.2f}",
        "two cores, s": lambda entry: f"{np.median(entry[1]['two']):.2f}",
        "gain": lambda entry: f"{np.median(entry[1]['gains']):.2f}",
        "on real cores": lambda entry: (
            f"{np.median(real):.2f} ({real.size} of {len(entry[1]['two'])})"
            if (real := entry[1]["real_gains"]).size
            else "none"
        ),
        "peer": lambda entry: entry[1]["task"].peer,
        "its s": lambda entry: number(
            entry[1]["peer"], ".2f", f"not in {limit:g}" if entry[1]["has_peer"] else "not measured"
        ),
        "objective": lambda entry: f"{entry[1]['verdict'].objective:.6f}",
        "rows": lambda entry: f"{entry[1]['verdict'].n_rows:,}",
        "test accuracy": lambda entry: f"{entry[1]['verdict'].accuracy:.4f}",
    }
    title = f"Seconds to {shown(LEVEL)} above the optimum"
    report.tables.append(Table.of(title, columns, report.numbers.items(), NOTES))
    finish(report, output)


def promises(task: Task, record: Record, limit: float) -> list[Promise]:
    """Against the peer, and on two cores where these were two."""
    promised, title, asked = [], task.title, task.asked
    if record["has_peer"]:
        ratio = float((record["peer"] or limit) / np.median(record["one"]))
        what = f"{title}: {task.peer}'s seconds over crfqn's, one core"
        measured = f"{'' if record['peer'] else '> '}{ratio:.1f} times"
        promised.append(Promise(what, f"{asked:g} times", measured, ratio >= asked))
    if task.peer == "lightning" and record["real_gains"].size:
        what = f"{title}: seconds on one core over those on two, where these were two"
        promised.append(times(what, MORE_ON_TWO, float(np.median(record["real_gains"])), ".2f"))
    return promised


def compare(
    task: Task, path: str, problem: Problem, repeats: int, limit: float, lightning: Path | None
) -> Record:
    """Train with both libraries: seconds to the level by run; None: not reached within the limit.

    Of the record: `one` has two entries for each of `two`, one on each core; `capacity`, for each of `two`, the least
    that the cores had to give around it, in those of one; `real_gains` are of the runs that had two cores.
    """
    say(task.title)
    runs_on_one, runs_on_two, capacities = run_alone(take_turns, path, task, repeats, limit)
    one, two = ([float(run.seconds[-1]) for run in runs] for runs in (runs_on_one, runs_on_two))
    verdict = task.verdict(problem, runs_on_one[0].weights)
    last = max(float(run.values[-1]) for run in runs_on_one + runs_on_two) / problem.y_train.size
    farthest = max(last, verdict.objective)
    if farthest > task.optimum * (1.0 + 1.01 * LEVEL):
        raise InputError(f"{task.title}: not in {limit:g} s, but {farthest} (--limit)")
    if task.peer == "lightning":
        has_peer = lightning is not None
        peer = lightning_seconds(lightning, path, task, limit) if lightning else None
    else:
        has_peer = find_spec("cyanure") is not None
        peer = run_within(20 * limit, cyanure_seconds, path, task, limit) if has_peer else None
    gains = np.reshape(one, (-1, 2)).mean(axis=1) / two
    record: Record = {"task": task, "one": one, "two": two, "capacity": capacities, "gains": gains}
    record |= {"real_gains": gains[np.array(capacities) >= REAL], "peer": peer, "has_peer": has_peer}
    return record | {"verdict": verdict}


def take_turns(
    path: str, task: Task, repeats: int, limit: float, warm_up_seconds: float = WARM_UP_SECONDS
) -> tuple[list[Run], list[Run], list[float]]:
    """Fits by turns after a warm-up: on one core, on two, on the other one; and what both had to give meanwhile."""
    problem: Problem = read_stored(path)
    one: list[Run] = []
    two: list[Run] = []
    capacities: list[float] = []
    for n_threads in (1, 2):
        with quietly():  # that it is stopped early
            model = make(problem, task, n_threads, STRONGER, max_seconds=warm_up_seconds)
            model.fit(problem.X_train, problem.y_train)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    with Pool(2) as pool:
        for _ in range(repeats):
            around = [capacity(pool)]
            for core, n_threads, runs in ((cores[0], 1, one), (None, 2, two), (cores[:2][-1], 1, one)):
                with on_core(core):
                    runs.append(train(problem, task, n_threads, limit))
                around.append(capacity(pool))
            capacities.append(min(around))
            before, both, after = (float(run.seconds[-1]) for run in (one[-2], two[-1], one[-1]))
            say(
                f"  crfqn: {before:.2f} and {after:.2f} s, two threads {both:.2f}; capacity {min(around):.2f}"
            )
    return one, two, capacities


def make(problem: Any, task: Task, n_threads: int, times: float = 1.0, **limits: Any) -> Any:
    """The estimator, with a multiple of the task's lambda."""
    from crfqn import MulticlassClassifier

    settings = {"group_l1": times * task.strength * problem.y_train.size, "fit_intercept": False}
    return MulticlassClassifier(loss=task.loss, n_threads=n_threads, **settings, **limits)


def train(problem: Problem, task: Task, n_threads: int, limit: float) -> Run:
    """Train until the objective is near enough; values are sums over the items."""
    target = task.optimum * (1.0 + LEVEL) * problem.y_train.size
    return timed_fit(make(problem, task, n_threads, tol=1e-9, max_seconds=limit), problem, "wall", target)


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
        distance = task.distance(problem, weights)
        if distance <= LEVEL:
            say(f"  lightning: {seconds:.2f} s")
            return float(seconds)
    say(f"  lightning: {distance:.1e} above the optimum after {limit:g} s")
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
        begin = perf_counter()
        model.fit(X, codes)
        seconds, epochs = perf_counter() - begin, GROWTH * epochs + 1
        table = model.coef_ if model.coef_.shape[0] == len(problem.classes) else model.coef_.T
        distance = task.distance(problem, table)
        say(f"  cyanure: {n_epochs} epochs, {seconds:.2f} s, {distance:.1e} above")
        if distance <= LEVEL:
            return seconds
    return None
