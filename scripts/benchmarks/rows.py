"""Row-sparse multiclass models: crfqn on one and two cores, lightning's CDClassifier and cyanure beside it.

The multiclass squared hinge (equation 2 of Blondel et al. 2013) and the multinomial logistic loss (12) with L1/L2 rows,
means over the items, no intercept. Every library has a process of its own; in crfqn's, fits on one core, on two and on
the other one take turns, and between them it is measured what the cores have to give (`cores.py`). lightning needs
older libraries than crfqn, and so an interpreter of its own; cyanure runs here.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from bcd_study.judge import Judge
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, save_npz

from benchmarks import flat_data
from benchmarks.alone import peak_memory, run_alone, run_within, say
from benchmarks.cores import REAL, capacity, on_core, some_cores
from benchmarks.items import read_stored, stored
from benchmarks.problem import Run
from benchmarks.report import Figure, Report, Table, shown
from crfqn.errors import InputError
from crfqn.threads import Pool

Vector = NDArray[np.float64]
LEVEL = 1e-3  # relative distance from the optimum
MORE_ON_TWO = 1.6  # times as much is asked on two cores
STRONGER = 5.0  # times the strength, for the warm-up
WARM_UP_SECONDS = 60.0  # enough to compile
GROWTH = 1.25  # of cyanure's epochs from one fit to the next
JUDGED = {"squared-hinge": "multiclass squared hinge", "logistic": "multiclass logistic"}
LIGHTNINGS = {"squared-hinge": "squared_hinge", "logistic": "log"}
PROBLEMS = {"newsgroups": flat_data.newsgroups, "mnist": flat_data.mnist}
SPLITS = {"newsgroups": "8def1dca4e7ea7db", "mnist": "8a0b04fe44083ef8"}


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


def measure(
    names: Sequence[str], losses: Sequence[str], repeats: int, limit: float, lightning: Path | None
) -> Report:
    """Compare on each problem; `limit`: seconds of a single fit, `lightning`: an interpreter that has it."""
    report = Report("rows", "Row-sparse multiclass", ["crfqn", "cyanure", "scikit-learn", "numba", "numpy"])
    rows = []
    for name in names:
        say(f"{name}: preparing")
        problem = PROBLEMS[name]()
        if not problem.fingerprint.startswith(SPLITS[name]):
            raise InputError(f"{name}: the items come in another order than the reference's")
        with stored(problem) as path:
            for task in TASKS:
                if (task.problem, task.loss) in ((name, loss) for loss in losses):
                    comparison = compare(task, path, Judge(problem), repeats, limit, lightning)
                    rows.append(comparison.cells())
                    report.figures += comparison.figures()
                    report.numbers[task.title] = comparison.numbers()
    crfqn = ["one core, s", "two cores, s", "gain", "on real cores"]
    head = ["", *crfqn, "peer", "its s", "objective", "rows", "test accuracy"]
    report.tables.append(Table(f"Seconds to {shown(LEVEL)} above the optimum", head, rows, NOTES))
    return report


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
    verdict: Any

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
            peer if self.peer is None else f"{self.peer:.2f}",
            f"{self.verdict.objective:.6f}",
            f"{self.verdict.n_rows:,}",
            f"{self.verdict.accuracy:.4f}",
        ]

    def figures(self) -> list[Figure]:
        return self._against_peer() + self._of_two_cores()

    def _against_peer(self) -> list[Figure]:
        if not self.has_peer:
            return []
        least = self.limit if self.peer is None else self.peer
        times, more = least / np.median(self.one), "" if self.peer else "> "
        what = f"{self.task.title}: {self.task.peer}'s seconds over crfqn's, one core"
        return [
            Figure(
                what, f"{self.task.asked:g} times", f"{more}{times:.1f} times", bool(times >= self.task.asked)
            )
        ]

    def _of_two_cores(self) -> list[Figure]:
        if self.task.peer != "lightning" or not self.real_gains.size:
            return []
        gain = float(np.median(self.real_gains))
        what = f"{self.task.title}: seconds on one core over those on two, where these were two"
        return [Figure(what, f"{MORE_ON_TWO:g} times", f"{gain:.2f} times", gain >= MORE_ON_TWO)]

    def numbers(self) -> dict[str, Any]:
        crfqn = {"one core": self.one, "two cores": self.two, "capacity of two cores": self.capacity}
        return crfqn | {self.task.peer: self.peer}


def compare(
    task: Task, path: str, judge: Judge, repeats: int, limit: float, lightning: Path | None
) -> Comparison:
    """Train with both libraries."""
    say(task.title)
    turns = run_alone(take_turns, path, task, repeats, limit)
    one, two = ([float(run.seconds[-1]) for run in own] for own in (turns.one, turns.two))
    farthest = max(float(run.values[-1]) for run in turns.one + turns.two)
    verdict = judge.verdict(turns.one[0].weights, JUDGED[task.loss], task.strength)
    if max(farthest, verdict.objective) > task.optimum * (1.0 + 1.01 * LEVEL):
        raise InputError(
            f"{task.title}: not in {limit:g} s, but {max(farthest, verdict.objective)} (--limit)"
        )
    if task.peer == "lightning":
        has_peer = lightning is not None
        peer = lightning_seconds(lightning, path, task, judge, limit) if lightning else None
    else:
        has_peer = has_cyanure()
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


def warm_up(problem: Any, task: Task, n_threads: int, seconds: float) -> None:
    """Have everything compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is stopped early
        model = make(problem, task, n_threads, STRONGER, max_seconds=seconds)
        model.fit(problem.X_train, problem.y_train)


def train(problem: Any, task: Task, n_threads: int, limit: float) -> Run:
    """Train until the objective is near enough; the weights are (coordinates label * F + feature, values)."""
    rows = []

    def note(progress: Any) -> bool:
        value = progress.value / problem.y_train.size
        if progress.sample_fraction == 1.0:
            rows.append((perf_counter() - begin, value))
        return progress.sample_fraction == 1.0 and value <= task.optimum * (1.0 + LEVEL)

    model = make(problem, task, n_threads, tol=1e-9, max_seconds=limit, callback=note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is stopped early
        begin = perf_counter()
        model.fit(problem.X_train, problem.y_train)
    table = coo_array(model.coef_)
    coords = table.row.astype(np.int64) * table.shape[1] + table.col
    return Run(
        name="crfqn",
        iterations=np.arange(len(rows)),
        seconds=np.array([second for second, _ in rows]),
        values=np.array([value for _, value in rows]),
        setup_seconds=0.0,
        passes=float(model.result_.passes),
        weights=(coords, table.data),
        n_nonzero=model.result_.n_nonzero,
        peak_bytes=peak_memory(),
    )


def lightning_seconds(interpreter: Path, path: str, task: Task, judge: Judge, limit: float) -> float | None:
    """Seconds to the level, by the judge's values after every epoch."""
    problem = read_stored(path)
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
        weights = epochs["coords"][first:last], epochs["values"][first:last]
        distance = judge.verdict(weights, JUDGED[task.loss], task.strength).objective / task.optimum - 1.0
        if distance <= LEVEL:
            say(f"  lightning: {seconds:.2f} s")
            return float(seconds)
    say(f"  lightning: {distance:.1e} above the optimum after {limit:g} s")
    return None


def has_cyanure() -> bool:
    try:
        import cyanure  # noqa: F401
    except ImportError:
        return False
    return True


def cyanure_seconds(path: str, task: Task, limit: float) -> float | None:
    """Seconds of the first fit that is near enough, of fits of more and more epochs."""
    from cyanure.estimators import Classifier

    problem = read_stored(path)
    judge, X = Judge(problem), problem.X_train
    settings = {"loss": "multiclass-logistic", "penalty": "l1l2", "lambda_1": task.strength, "tol": 1e-9}
    settings |= {"fit_intercept": False, "verbose": False, "n_threads": 1}
    Classifier(**settings, max_iter=2).fit(X[:500], judge.train[:500])
    epochs, seconds = 4.0, 0.0
    while seconds <= limit:
        n_epochs = int(epochs)
        model = Classifier(**settings, max_iter=n_epochs, duality_gap_interval=n_epochs)
        begin = perf_counter()
        model.fit(X, judge.train)
        seconds, epochs = perf_counter() - begin, GROWTH * epochs + 1
        table = model.coef_ if model.coef_.shape[0] == judge.labels.size else model.coef_.T
        coords = np.flatnonzero(table)
        found = judge.verdict((coords, np.ravel(table)[coords]), JUDGED[task.loss], task.strength)
        say(f"  cyanure: {n_epochs} epochs, {seconds:.2f} s, {found.objective / task.optimum - 1:.1e} above")
        if found.objective <= task.optimum * (1.0 + LEVEL):
            return seconds
    return None
