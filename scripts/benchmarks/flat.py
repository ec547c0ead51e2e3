"""Flat multinomial logistic regression: crfqn against scikit-learn's saga under L1, its lbfgs under L2.

The same objectives: C = 1 / l1 or 1 / l2, no intercept. Every run is a process of its own that gets the matrix in
memory; crfqn's and its peer's take turns, so that a machine that slows down or is shared slows down both, and ratios
are those of neighbours. The reference optima and what belongs to them are an independent solver's, and hold for one
split only.

saga is the only solver of LogisticRegression that has both L1 and the multinomial loss. Neither it nor lbfgs reports
anything on its way, so that their seconds to a level are those of a fit of as many epochs or iterations as they need to
get there. liblinear and skglm train one class against the rest: K binary problems are another objective, with one more
degree of freedom, so that only accuracy, non-zeros and time can be compared. C = 1 / l1 (liblinear), alpha = l1 / items
(skglm, whose loss is a mean).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
from harness import data
from harness.judging import accuracy, item_loss, judge, judge_run, predictions
from harness.measuring import peak_memory, quietly, run_alone, run_within, say
from harness.options import Limit, Output, Repeats, Threads, some_of
from harness.problems import Problem, Run, middle_run, read_stored, stored
from harness.report import CLOCKS, Comparison, Known, Record, Report, Table, finish, median, shown

from benchmarks import crfqn_fits

LEVELS = (1e-2, 1e-3, 1e-4)  # relative distances from the optimum
RESOLUTION = 0.03  # of the number of epochs: the smallest that reach a level are found up to this share
LIBLINEAR, SKGLM = "liblinear", "skglm"
TOLERANCE = 1e-4  # each library's own measure and default
L2, NEAR = 1.0, 1e-4  # of the comparison with lbfgs: the strength, and the distance from the optimum
MOST = 20_000  # iterations of either


@dataclass(frozen=True)
class Task:
    """A problem, its penalty, and what is known for a split of that fingerprint."""

    title: str
    make: Callable[[], Problem]
    l1: float
    split: str = ""
    known: Known | None = None
    tol = 1e-5  # the certified gap to train to


TASKS = {
    "newsgroups": Task(
        "20 Newsgroups",
        data.newsgroups,
        l1=1.0,
        split="8def1dca4e7ea7db",
        known=Known(19_319.863, 1814, 0.7806, {1e-2: 8, 1e-3: 21, 1e-4: 58}, {1e-3: 10, 1e-4: 25}),
    ),
    "mnist": Task(
        "MNIST",
        data.mnist,
        l1=100.0,
        split="8a0b04fe44083ef8",
        known=Known(42_284.450, 757, 0.8854, {1e-2: 3, 1e-3: 7, 1e-4: 16}, {1e-3: 4, 1e-4: 8}),
    ),
    "rcv1-like": Task("Made-up text like RCV1", data.rcv1_like, l1=30.0),
}


NOTES = [
    "saga (one core) makes a fit for each level, of as many epochs (its iterations) as it needs; its seconds are those "
    "of that fit alone, and its model is the last fit's.",
    "liblinear and skglm train one class against the rest, another objective at the same l1: compare time, accuracy "
    "and non-zeros only. No other solver of scikit-learn has L1 and softmax; celer has one class against the rest, "
    "too.",
]


def flat(
    problem: Annotated[list[str] | None, some_of([*TASKS])] = None,
    threads: Threads = 2,
    repeats: Repeats = 3,
    limit: Limit = 120.0,
    output: Output = None,
) -> None:
    """Multinomial logistic regression with L1: crfqn against scikit-learn's saga; liblinear and skglm beside."""
    report = Report("flat", "Flat multiclass", ["crfqn", "scikit-learn", "skglm", "numba", "numpy"])
    for name in problem or TASKS:
        task = TASKS[name]
        say(f"{task.title}: preparing")
        items = task.make()
        if task.known and not items.fingerprint.startswith(task.split):
            say("The items come in another order than the reference's: no optimum is known for this split.")
            task = replace(task, known=None)
        comparison, optimum = compare(task, items, threads, repeats, limit)
        reference = "an independent solver's" if task.known else "crfqn's own, certified"
        note = (
            f"Reference optimum {optimum:,.3f} ({reference}). Seconds count from the matrix in memory; medians of "
            f"{repeats} runs, ratios are medians over pairs of neighbouring runs."
        )
        title = f"{task.title}: {items.describe()}, l1 = {task.l1:g}"
        report.tables.append(comparison.table(title, [note, *NOTES]))
        report.promises += comparison.promises(f"{task.title}: ", task.known, "test accuracy")
        report.numbers[name], report.data[name] = comparison, items.fingerprint
    finish(report, output)


def compare(
    task: Task, problem: Problem, n_threads: int | None, repeats: int, limit: float
) -> tuple[Comparison, float]:
    """Train with all libraries and judge; `limit`: seconds for a single fit of another library, 0: none of them."""
    ours: list[Run] = []
    theirs: list[Run] = []
    others: dict[str, Run | None] = {}
    with stored(problem) as path:
        say(f"l1 = {task.l1:g}: crfqn and saga in turns")
        for _ in range(repeats):
            ours.append(run_alone(crfqn_fits.train_items, path, task.l1, task.tol, n_threads))
            if len(ours) == 1:
                optimum = task.known.optimum if task.known else float(ours[0].values.min())
                epochs = task.known.peer_iterations if task.known else {}
                if limit and not task.known:
                    epochs = run_alone(epochs_to, path, task.l1, optimum, LEVELS, limit)
            if epochs and limit:
                theirs.append(run_alone(saga, path, task.l1, sorted(epochs.values())))
        libraries = [LIBLINEAR, SKGLM] if find_spec("skglm") else [LIBLINEAR]
        for library in libraries if limit else ():
            others[library] = run_within(limit, one_vs_rest, path, task.l1, library)
    models = [middle_run(runs) for runs in (ours, theirs) if runs] + [run for run in others.values() if run]
    late = [f"{name}, one-vs-rest: not ready after {limit:g} s" for name, run in others.items() if not run]
    comparison = Comparison(
        [judge_run(problem, run, task.l1) for run in models],
        {shown(level): optimum * (1.0 + level) for level in LEVELS},
        {"crfqn": ours, "saga": theirs},
        others=[*others],
        unfinished=late,
        clocks=CLOCKS,
    )
    return comparison, optimum


def saga(path: str, l1: float, epochs: Sequence[int]) -> Run:
    """Fits of so many epochs each, ascending; the model is the last one's. Values are the judge's."""
    problem: Problem = read_stored(path)
    _saga(problem.part(1000), l1, 1)  # loads what is to be loaded
    seconds, processor, values = [], [], []
    for n_epochs in epochs:
        begin, begin_processor = perf_counter(), process_time()
        model = _saga(problem, l1, n_epochs)
        seconds.append(perf_counter() - begin)
        processor.append(process_time() - begin_processor)
        peak = peak_memory()
        values.append(_objective(problem, model.coef_, l1))
        say(f"  saga: {n_epochs} epochs, {seconds[-1]:.1f} s, {values[-1]:,.1f}")
    return Run(
        name="saga",
        iterations=np.array(epochs),
        seconds=np.array(seconds),
        values=np.array(values),
        passes=float(epochs[-1]),
        weights=model.coef_,
        n_nonzero=int(np.count_nonzero(model.coef_)),
        peak_bytes=peak,
        facts={"processor_seconds": np.array(processor)},
    )


def _objective(problem: Problem, weights: Any, l1: float) -> float:
    return item_loss(problem, weights) + l1 * float(np.abs(weights).sum())


def epochs_to(
    path: str, l1: float, optimum: float, levels: Sequence[float], limit: float
) -> dict[float, int]:
    """The epochs of the first fit within each level of the optimum; a level that takes more than `limit` seconds
    is left out.

    Numbers of epochs are doubled until they are enough; then the last interval is searched by bisection on a
    logarithmic scale, up to RESOLUTION.
    """
    problem: Problem = read_stored(path)
    distances: dict[int, float] = {}  # from the optimum, relative, by epochs
    seconds_an_epoch, n_epochs_to = 0.0, {}

    def fit(n_epochs: int) -> bool:
        """Fit with so many epochs, unless that would take too long."""
        nonlocal seconds_an_epoch
        if n_epochs in distances:
            return True
        if n_epochs * seconds_an_epoch > limit:
            return False
        begin = perf_counter()
        model = _saga(problem, l1, n_epochs)
        seconds = perf_counter() - begin
        distances[n_epochs], seconds_an_epoch = (
            _objective(problem, model.coef_, l1) / optimum - 1,
            seconds / n_epochs,
        )
        say(f"  saga: {n_epochs} epochs, {seconds:.1f} s, {distances[n_epochs]:.1e} above the optimum")
        return True

    for level in sorted(levels, reverse=True):
        n_epochs = max(distances, default=1)
        while fit(n_epochs) and distances[n_epochs] > level:
            n_epochs *= 2
        while n_epochs in distances:
            high = min(n for n, distance in distances.items() if distance <= level)
            low = max((n for n in distances if n < high), default=0)
            if high - low <= max(1, RESOLUTION * high) or not fit(max(low + 1, round(np.sqrt(low * high)))):
                n_epochs_to[level] = high
                break
    return n_epochs_to


def _saga(problem: Problem, l1: float, n_epochs: int) -> Any:
    own = {"solver": "saga", "l1_ratio": 1.0, "tol": 0.0, "max_iter": n_epochs, "random_state": 0}
    return _logistic(problem, C=1.0 / l1, **own)


def _logistic(problem: Problem, **settings: Any) -> Any:
    """scikit-learn's, without an intercept, fitted."""
    from sklearn.linear_model import LogisticRegression

    with quietly():  # that it has not converged
        return LogisticRegression(fit_intercept=False, **settings).fit(problem.X_train, problem.y_train)


def one_vs_rest(path: str, l1: float, library: str) -> Run:
    """One fit of all classes, after a warm-up on a part of the items."""
    problem: Problem = read_stored(path)
    with quietly():  # of numba about speed, of scikit-learn about liblinear's limit
        part = problem.part(1000)
        _one_vs_rest(library, l1, 1000).fit(part.X_train, part.y_train)
        begin = perf_counter()
        model = _one_vs_rest(library, l1, len(problem.y_train)).fit(problem.X_train, problem.y_train)
        seconds = perf_counter() - begin
    peak = peak_memory()
    say(f"  {library}, one against the rest: {seconds:.1f} s")
    weights = np.vstack([binary.coef_ for binary in model.estimators_])
    return Run(
        name=library,
        iterations=np.array([1]),
        seconds=np.array([seconds]),
        values=np.array([np.nan]),  # of another objective
        weights=weights,
        n_nonzero=int(np.count_nonzero(weights)),
        peak_bytes=peak,
    )


def _one_vs_rest(library: str, l1: float, n_items: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    settings: dict[str, Any] = {"fit_intercept": False, "tol": TOLERANCE}
    if library == LIBLINEAR:
        own = {"solver": "liblinear", "l1_ratio": 1.0, "C": 1.0 / l1, "random_state": 0}
        return OneVsRestClassifier(LogisticRegression(**own, **settings))
    from skglm import SparseLogisticRegression

    return OneVsRestClassifier(SparseLogisticRegression(alpha=l1 / n_items, **settings))


def digits() -> Problem:
    """scikit-learn's 1,797 scans of digits, 64 grey values from 0 to 1."""
    from scipy.sparse import csr_array
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return data.stratified(csr_array(X / 16.0), y.astype(str), seed=0)


WITH_L2: dict[str, Callable[[], Problem]] = {
    "digits": digits,
    "banking77": partial(Problem.of_recipe, "banking77"),
    "newsgroups": data.newsgroups,
    "mnist": data.mnist,
}


def compare_dense(name: str, repeats: int) -> Record:
    """Train with crfqn and lbfgs under L2 in turns: seconds to NEAR, and until each stops by its own rule."""
    problem = WITH_L2[name]()
    say(f"{name}: {problem.describe()}")
    with stored(problem) as path:
        optimum, n_iterations = run_alone(reference, path)
        turns = [
            (run_alone(ours, path, optimum), run_alone(lbfgs, path, n_iterations)) for _ in range(repeats)
        ]
    seconds = np.array([[run["seconds"] for run in turn] for turn in turns])
    record: Record = {"name": name, "describe": problem.describe(), "optimum": optimum}
    record |= {"ours": seconds[:, 0].tolist(), "theirs": seconds[:, 1].tolist()}
    record["ratio"] = float(np.median(seconds[:, 1] / seconds[:, 0]))
    return record | {what: [run[what] for run in turns[0]] for what in ("until_stop", "accuracy")}


def reference(path: str) -> tuple[float, int]:
    """The optimum, by the judge, and the fewest iterations of scikit-learn that come within NEAR of it."""
    problem: Problem = read_stored(path)
    model = _crfqn(tol=NEAR / 1000, max_iter=MOST).fit(problem.X_train, problem.y_train)
    optimum = judge(problem, model.coef_, l2=L2).objective
    return optimum, iterations_to(problem, optimum * (1.0 + NEAR))


def iterations_to(problem: Problem, target: float) -> int:
    """The iterations after which scikit-learn's weights come to the target, by the judge and a callback of scipy's."""
    import scipy.optimize

    n_iterations, n_features = 0, problem.X_train.shape[1]
    minimize = scipy.optimize.minimize

    def look(intermediate_result: Any) -> None:
        nonlocal n_iterations
        n_iterations += 1
        is_near = intermediate_result.fun * problem.y_train.size <= target * (1.0 + NEAR)  # it has a mean
        weights = intermediate_result.x.reshape(n_features, -1).T
        if is_near and item_loss(problem, weights) + L2 / 2 * float((weights**2).sum()) <= target:
            raise StopIteration

    with patch.object(scipy.optimize, "minimize", lambda *a, **b: minimize(*a, **{**b, "callback": look})):
        _lbfgs(problem, max_iter=MOST, tol=0.0)
    return n_iterations


def ours(path: str, optimum: float) -> dict[str, float]:
    """crfqn's seconds to NEAR and until it stops."""
    problem: Problem = read_stored(path)
    few = problem.part(300)
    with quietly():
        _crfqn().fit(few.X_train, few.y_train)
        _crfqn(max_iter=2).fit(problem.X_train, problem.y_train)
    target, model = optimum * (1.0 + NEAR), _crfqn(tol=NEAR / 100, max_iter=MOST)
    run = crfqn_fits.timed_fit(model, problem, "processor", target)
    began = process_time()
    model = _crfqn().fit(problem.X_train, problem.y_train)
    until_stop = process_time() - began
    right = accuracy(problem, model.predict(problem.X_test))
    return {"seconds": float(run.seconds[-1]), "until_stop": until_stop, "accuracy": right}


def lbfgs(path: str, n_iterations: int) -> dict[str, float]:
    """scikit-learn's seconds for so many iterations, and with its default limits."""
    problem: Problem = read_stored(path)
    _lbfgs(problem.part(300))
    seconds = []
    for settings in ({"max_iter": n_iterations, "tol": 0.0}, {}):
        began = process_time()
        model = _lbfgs(problem, **settings)
        seconds.append(process_time() - began)
    right = accuracy(problem, predictions(problem, model.coef_))
    return {"seconds": seconds[0], "until_stop": seconds[1], "accuracy": right}


def _crfqn(**settings: Any) -> Any:
    from crfqn import MulticlassCRF

    return MulticlassCRF(l1=0.0, l2=L2, fit_intercept=False, n_threads=1, **settings)


def _lbfgs(problem: Problem, **settings: Any) -> Any:
    return _logistic(problem, solver="lbfgs", C=1.0 / L2, **settings)


def dense_table(found: Sequence[Record]) -> Table:
    columns: dict[str, Callable[[Record], str]] = {
        "data": lambda each: each["name"],
        "items": lambda each: each["describe"],
        "crfqn to 1e-4 / until it stops, s": lambda each: (
            f"{median(each['ours'])} / {each['until_stop'][0]:.2f}"
        ),
        "LogisticRegression(lbfgs): the same, s": lambda each: (
            f"{median(each['theirs'])} / {each['until_stop'][1]:.2f}"
        ),
        "ratio": lambda each: f"{each['ratio']:.1f}",
        "test accuracy when they stop: crfqn, scikit-learn": lambda each: ", ".join(
            f"{value:.4f}" for value in each["accuracy"]
        ),
    }
    note = f"L2 alone, l2 = 1 (C = 1), no intercept; to within {shown(NEAR)} of the optimum, medians of the turns."
    return Table.of("Flat classes, L2", columns, found, [note])
