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
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from harness import data
from harness.judging import Verdict, judge, weights_of
from harness.measuring import quietly, run_alone, run_within, say
from harness.options import Output, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Promise, Report, Table, finish, number, shown, times
from numpy.typing import NDArray
from scipy.sparse import csr_array, save_npz
from threadpoolctl import threadpool_limits

from benchmarks.crfqn_fits import timed_fit
from crfqn.errors import InputError
from crfqn.threads import Pool

Vector = NDArray[np.float64]
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


def judged(problem: Problem, task: Task, weights: Any) -> Verdict:
    """The judge's verdict; the objective is a mean over the items."""
    n = problem.y_train.size
    found = judge(problem, weights, loss=task.loss, group_l1=n * task.strength)
    return Verdict(found.objective / n, found.accuracy, n_rows=found.n_rows)


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
    cells = []
    for name in problem or PROBLEMS:
        say(f"{name}: preparing")
        items = PROBLEMS[name]()
        if not items.fingerprint.startswith(SPLITS[name]):
            raise InputError(f"{name}: the items come in another order than the reference's")
        with stored(items) as path:
            for task in TASKS:
                if task.problem == name and task.loss in (loss or LOSSES):
                    comparison = compare(task, path, items, repeats, limit, lightning)
                    cells.append(comparison.cells())
                    report.promises += comparison.promises()
                    report.numbers[task.title] = comparison
    crfqn = ["one core, s", "two cores, s", "gain", "on real cores"]
    head = ["", *crfqn, "peer", "its s", "objective", "rows", "test accuracy"]
    report.tables.append(Table(f"Seconds to {shown(LEVEL)} above the optimum", head, cells, NOTES))
    finish(report, output)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Seconds to the level of one task, by run; None: not reached within the limit.

    one : two for each of `two`, one on each core
    capacity : for each of `two`, the least that the cores had to give around it, in those of one
    """

    task: Task
    one: list[float]
    two: list[float]
    capacity: list[float]
    peer: float | None
    has_peer: bool
    limit: float
    verdict: Verdict

    @property
    def gains(self) -> Vector:
        return np.reshape(self.one, (-1, 2)).mean(axis=1) / self.two

    @property
    def real_gains(self) -> Vector:
        """Of the runs that had two cores."""
        return self.gains[np.array(self.capacity) >= REAL]

    def cells(self) -> list[str]:
        peer, found = "not measured" if not self.has_peer else f"not in {self.limit:g}", self.real_gains
        return [
            self.task.title,
            f"{np.median(self.one):.2f}",
            f"{np.median(self.two):.2f}",
            f"{np.median(self.gains):.2f}",
            f"{np.median(found):.2f} ({found.size} of {len(self.two)})" if found.size else "none",
            self.task.peer,
            number(self.peer, ".2f", peer),
            f"{self.verdict.objective:.6f}",
            f"{self.verdict.n_rows:,}",
            f"{self.verdict.accuracy:.4f}",
        ]

    def promises(self) -> list[Promise]:
        """Against the peer, and on two cores where these were two."""
        found, title, asked = [], self.task.title, self.task.asked
        if self.has_peer:
            ratio = float((self.limit if self.peer is None else self.peer) / np.median(self.one))
            what = f"{title}: {self.task.peer}'s seconds over crfqn's, one core"
            measured = f"{'' if self.peer else '> '}{ratio:.1f} times"
            found.append(Promise(what, f"{asked:g} times", measured, ratio >= asked))
        if self.task.peer == "lightning" and self.real_gains.size:
            what = f"{title}: seconds on one core over those on two, where these were two"
            found.append(times(what, MORE_ON_TWO, float(np.median(self.real_gains)), ".2f"))
        return found


def compare(
    task: Task, path: str, problem: Problem, repeats: int, limit: float, lightning: Path | None
) -> Comparison:
    """Train with both libraries."""
    say(task.title)
    turns = run_alone(take_turns, path, task, repeats, limit)
    one, two = ([float(run.seconds[-1]) for run in own] for own in (turns.one, turns.two))
    verdict = judged(problem, task, turns.one[0].weights)
    last = max(float(run.values[-1]) for run in turns.one + turns.two) / problem.y_train.size
    farthest = max(last, verdict.objective)
    if farthest > task.optimum * (1.0 + 1.01 * LEVEL):
        raise InputError(f"{task.title}: not in {limit:g} s, but {farthest} (--limit)")
    if task.peer == "lightning":
        has_peer = lightning is not None
        peer = lightning_seconds(lightning, path, task, limit) if lightning else None
    else:
        has_peer = find_spec("cyanure") is not None
        peer = run_within(20 * limit, cyanure_seconds, path, task, limit) if has_peer else None
    return Comparison(task, one, two, turns.capacity, peer, has_peer, limit, verdict)


class Turns(NamedTuple):
    """Fits by turns: on one core, on two, on the other one; and what both had to give meanwhile, in those of one."""

    one: list[Run]
    two: list[Run]
    capacity: list[float]


def take_turns(
    path: str, task: Task, repeats: int, limit: float, warm_up_seconds: float = WARM_UP_SECONDS
) -> Turns:
    """Train again and again, after warming up."""
    problem, turns = read_stored(path), Turns([], [], [])
    for n_threads in (1, 2):
        warm_up(problem, task, n_threads, warm_up_seconds)
    first, second = some_cores()
    with Pool(2) as pool:
        for _ in range(repeats):
            capacities = [capacity(pool)]
            for core, n_threads in ((first, 1), (None, 2), (second, 1)):
                with on_core(core):
                    run = train(problem, task, n_threads, limit)
                (turns.one if n_threads == 1 else turns.two).append(run)
                capacities.append(capacity(pool))
            turns.capacity.append(min(capacities))
            before, two, after = (
                float(run.seconds[-1]) for run in (turns.one[-2], turns.two[-1], turns.one[-1])
            )
            say(
                f"  crfqn: {before:.2f} and {after:.2f} s, two threads {two:.2f}; capacity {min(capacities):.2f}"
            )
    return turns


def make(problem: Any, task: Task, n_threads: int, times: float = 1.0, **more: Any) -> Any:
    """The estimator, with a multiple of the task's lambda."""
    from crfqn import MulticlassClassifier

    group_l1 = times * task.strength * problem.y_train.size
    return MulticlassClassifier(
        loss=task.loss, group_l1=group_l1, fit_intercept=False, n_threads=n_threads, **more
    )


def warm_up(problem: Problem, task: Task, n_threads: int, seconds: float) -> None:
    """Have everything compiled."""
    with quietly():  # that it is stopped early
        model = make(problem, task, n_threads, STRONGER, max_seconds=seconds)
        model.fit(problem.X_train, problem.y_train)


def train(problem: Problem, task: Task, n_threads: int, limit: float) -> Run:
    """Train until the objective is near enough; values are sums over the items."""
    target = task.optimum * (1.0 + LEVEL) * problem.y_train.size
    model = make(problem, task, n_threads, tol=1e-9, max_seconds=limit)
    return timed_fit(model, problem, "wall", target)


def some_cores() -> tuple[int | None, int | None]:
    """The first two that this process may use, the same one twice where there is one; None where nobody says."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[min(1, len(cores) - 1)]


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

    with threadpool_limits(1):
        alone = min(_seconds(lambda: work(0)) for _ in range(TRIES))
        together = min(_seconds(lambda: pool.each(2, work)) for _ in range(TRIES))
    return 2.0 * alone / together


def _seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


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
        found = epochs["coords"][first:last], epochs["values"][first:last]
        weights, _ = weights_of(*found, len(problem.classes), problem.X_train.shape[1])
        distance = judged(problem, task, weights).objective / task.optimum - 1.0
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
        distance = judged(problem, task, table).objective / task.optimum - 1.0
        say(f"  cyanure: {n_epochs} epochs, {seconds:.2f} s, {distance:.1e} above")
        if distance <= LEVEL:
            return seconds
    return None
