"""Flat multinomial logistic regression: crfqn against scikit-learn's saga under L1, its lbfgs under L2.

The same objectives: C = 1 / l1 or 1 / l2, no intercept. Every run is a process of its own that gets the matrix in
memory; crfqn's and its peer's take turns. The reference optima are an independent solver's, of one split only.

saga is the only solver of LogisticRegression that has both L1 and the multinomial loss. Neither it nor lbfgs reports
anything on its way, so that their seconds to a level are those of a fit of as many epochs or iterations as they need to
get there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
from harness import data
from harness.comparing import Comparison, Ratio, Section, by_turns, libraries_table, library, ratios_to
from harness.judging import accuracy, item_loss, judge, judge_run, predictions
from harness.measuring import fit_seconds, peak_memory, quietly, run_alone, say
from harness.options import Full, Limit, Output, Repeats, Threads, some_of
from harness.problems import Problem, Run, read_stored, stored
from harness.report import Record, Table, median, shown

from benchmarks import crfqn_fits

LEVELS = (1e-2, 1e-3, 1e-4)  # relative distances from the optimum
TOL = 1e-5  # the certified gap to train to
RESOLUTION = 0.03  # of the number of epochs: the smallest that reach a level are found up to this share
L2, NEAR = 1.0, 1e-4  # of the comparison with lbfgs: the strength, and the distance from the optimum
MOST = 20_000  # iterations of either
# Title, items, l1; the fingerprint of a split, the optimum of that and saga's epochs to the levels.
TASKS: Mapping[str, tuple[str, Callable[[], Problem], float, str, float, Sequence[int]]] = {
    "newsgroups": ("20 Newsgroups", data.newsgroups, 1.0, "8def1dca4e7ea7db", 19_319.863, (8, 21, 58)),
    "mnist": ("MNIST", data.mnist, 100.0, "8a0b04fe44083ef8", 42_284.450, (3, 7, 16)),
    "rcv1-like": ("Made-up text like RCV1", data.rcv1_like, 30.0, "-", np.nan, ()),
}


def measure(name: str, threads: int | None, turns: int, limit: float) -> Record:
    """Train with both by turns, and judge; limit : seconds of a fit of saga's to look for epochs, 0: without saga."""
    _, make, l1, split, known, epochs = TASKS[name]
    problem = make()
    is_known = problem.fingerprint.startswith(split)
    with stored(problem) as path:
        if not is_known:
            say("The items come in another order than the reference's: no optimum is known for this split.")
            known = float(run_alone(crfqn_fits.train_items, path, l1, TOL / 10, threads).values.min())
            epochs = run_alone(epochs_to, path, l1, known, limit) if limit else ()
        tasks = {"crfqn": partial(crfqn_fits.train_items, path, l1, TOL, threads)}
        if epochs and limit:
            tasks["saga"] = partial(saga, path, l1, epochs)
        runs = by_turns(tasks, turns)
    targets = {shown(level): known * (1.0 + level) for level in LEVELS}
    libraries = [library(judge_run(problem, each[0], l1), each, targets) for each in runs.values()]
    record = {"data": problem.fingerprint, "l1": l1, "about": problem.describe(), "optimum": known}
    return record | {"libraries": libraries}


def section(records: list[Record]) -> Section:
    tables, ratios = [], []
    for record in records:
        title = TASKS[record["problem"]][0]
        notes = [f"{record['about']}, l1 = {record['l1']:g}; reference optimum {record['optimum']:,.3f}."]
        tables.append(libraries_table(title, record["libraries"], notes))
        if len(record["libraries"]) > 1:
            ours, peer = record["libraries"]
            ratios += ratios_to(title, ours, peer)
    return Section(tables, ratios)


FLAT = Comparison(
    "flat", "Flat classes with L1, against scikit-learn's saga",
    "`MulticlassCRF` against `LogisticRegression(solver='saga', l1_ratio=1)`, the same objective without an "
    "intercept; processor seconds from the matrix in memory, by turns, medians, after a warm-up. saga makes a fit "
    "for each level, of as many epochs as it needs; its seconds are those of that fit alone, and its model is the "
    "last fit's.",
    ["crfqn", "scikit-learn", "numba", "numpy"], section, ["--problem newsgroups --problem mnist"],
)  # fmt: skip


def flat(
    problem: Annotated[list[str] | None, some_of([*TASKS])] = None,
    threads: Threads = 1,
    repeats: Repeats = 3,
    limit: Limit = 120.0,
    full: Full = False,
    output: Output = None,
) -> None:
    """Multinomial logistic regression with L1: crfqn against scikit-learn's saga; --full: made-up texts, too."""
    settings = {"threads": threads, "repeats": repeats, "limit": limit}
    names = problem or [*TASKS][: None if full else 2]
    FLAT.measure(measure, [{"problem": name, **settings} for name in names], output)


def saga(path: str, l1: float, epochs: Sequence[int]) -> Run:
    """Fits of so many epochs each, ascending; the model is the last one's. Values are the judge's."""
    problem: Problem = read_stored(path)
    _saga(problem.part(1000), l1, 1)  # loads what is to be loaded
    seconds, values = [], []
    for n_epochs in epochs:
        model, each = _saga(problem, l1, n_epochs)
        seconds.append(each)
        peak = peak_memory()
        values.append(item_loss(problem, model.coef_) + l1 * float(np.abs(model.coef_).sum()))
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
    )


def epochs_to(path: str, l1: float, optimum: float, limit: float) -> list[int]:
    """The epochs of the first fit within each level of the optimum; a level that takes more than `limit` seconds
    is left out.

    Numbers of epochs are doubled until they are enough; then the last interval is searched by bisection on a
    logarithmic scale, up to RESOLUTION.
    """
    distances: dict[int, float] = {}  # from the optimum, relative, by epochs
    seconds_an_epoch, n_epochs_to = 0.0, {}

    def fit(n_epochs: int) -> bool:
        """Fit with so many epochs, unless that would take too long."""
        nonlocal seconds_an_epoch
        if n_epochs not in distances:
            if n_epochs * seconds_an_epoch > limit:
                return False
            run = saga(path, l1, [n_epochs])
            distances[n_epochs] = float(run.values[0]) / optimum - 1
            seconds_an_epoch = float(run.seconds[0]) / n_epochs
        return True

    for level in LEVELS:
        n_epochs = max(distances, default=1)
        while fit(n_epochs) and distances[n_epochs] > level:
            n_epochs *= 2
        while n_epochs in distances:
            high = min(n for n, distance in distances.items() if distance <= level)
            low = max((n for n in distances if n < high), default=0)
            if high - low <= max(1, RESOLUTION * high) or not fit(max(low + 1, round(np.sqrt(low * high)))):
                n_epochs_to[level] = high
                break
    return [*n_epochs_to.values()]


def _saga(problem: Problem, l1: float, n_epochs: int) -> tuple[Any, float]:
    own = {"solver": "saga", "l1_ratio": 1.0, "tol": 0.0, "max_iter": n_epochs, "random_state": 0}
    return _logistic(problem, C=1.0 / l1, **own)


def _logistic(problem: Problem, **settings: Any) -> tuple[Any, float]:
    """scikit-learn's, without an intercept, fitted, and processor seconds."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(fit_intercept=False, **settings)
    return model, fit_seconds(model, problem.X_train, problem.y_train)


# ---- L2


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


def measure_l2(name: str, turns: int) -> Record:
    """Train with crfqn and lbfgs under L2 by turns: seconds to NEAR, and until each stops by its own rule."""
    problem = WITH_L2[name]()
    with stored(problem) as path:
        optimum, n_iterations = run_alone(reference, path)
        tasks = {"crfqn": partial(ours, path, optimum), "lbfgs": partial(lbfgs, path, n_iterations)}
        runs = by_turns(tasks, turns)
    return {"data": problem.fingerprint, "about": problem.describe(), "optimum": optimum, "runs": runs}


def reference(path: str) -> tuple[float, int]:
    """The optimum, by the judge, and the fewest iterations of scikit-learn that come within NEAR of it, by the judge
    and a callback of scipy's."""
    import scipy.optimize

    problem: Problem = read_stored(path)
    model = _crfqn(tol=NEAR / 1000, max_iter=MOST).fit(problem.X_train, problem.y_train)
    optimum = judge(problem, model.coef_, l2=L2).objective
    n_iterations, target, minimize = 0, optimum * (1.0 + NEAR), scipy.optimize.minimize

    def look(intermediate_result: Any) -> None:
        nonlocal n_iterations
        n_iterations += 1
        is_near = intermediate_result.fun * problem.y_train.size <= target * (1.0 + NEAR)  # it has a mean
        weights = intermediate_result.x.reshape(problem.X_train.shape[1], -1).T
        if is_near and item_loss(problem, weights) + L2 / 2 * float((weights**2).sum()) <= target:
            raise StopIteration

    with patch.object(scipy.optimize, "minimize", lambda *a, **b: minimize(*a, **{**b, "callback": look})):
        _logistic(problem, C=1.0 / L2, max_iter=MOST, tol=0.0)
    return optimum, n_iterations


def ours(path: str, optimum: float) -> dict[str, float]:
    """crfqn's seconds to NEAR and until it stops."""
    problem: Problem = read_stored(path)
    few = problem.part(300)
    with quietly():
        _crfqn().fit(few.X_train, few.y_train)
        _crfqn(max_iter=2).fit(problem.X_train, problem.y_train)
    model = _crfqn(tol=NEAR / 100, max_iter=MOST)
    run, model = crfqn_fits.timed_fit(model, problem, optimum * (1.0 + NEAR)), _crfqn()
    until_stop = fit_seconds(model, problem.X_train, problem.y_train)
    right = accuracy(problem, model.predict(problem.X_test))
    return {"seconds": float(run.seconds[-1]), "until_stop": until_stop, "accuracy": right}


def lbfgs(path: str, n_iterations: int) -> dict[str, float]:
    """scikit-learn's seconds for so many iterations, and with its default limits."""
    problem: Problem = read_stored(path)
    _logistic(problem.part(300), C=1.0 / L2)
    seconds = []
    for settings in ({"max_iter": n_iterations, "tol": 0.0}, {}):
        model, each = _logistic(problem, C=1.0 / L2, **settings)
        seconds.append(each)
    right = accuracy(problem, predictions(problem, model.coef_))
    return {"seconds": seconds[0], "until_stop": seconds[1], "accuracy": right}


def _crfqn(**settings: Any) -> Any:
    from crfqn import MulticlassCRF

    return MulticlassCRF(l1=0.0, l2=L2, fit_intercept=False, n_threads=1, **settings)


def l2_section(records: list[Record]) -> Section:
    def seconds(record: Record, name: str, what: str = "seconds") -> list[float]:
        return [run[what] for run in record["runs"][name]]

    def both(name: str) -> Callable[[Record], str]:
        return lambda each: f"{median(seconds(each, name))} / {median(seconds(each, name, 'until_stop'))}"

    ratios = []
    for each in records:
        value = float(np.median(np.divide(seconds(each, "lbfgs"), seconds(each, "crfqn"))))
        words = [f"{median(seconds(each, name))} s" for name in ("crfqn", "lbfgs")]
        ratios.append(Ratio(f"{each['flat_data']}, L2, seconds to {shown(NEAR)}", value, *words))
    columns: dict[str, Callable[[Record], str]] = {
        "data": lambda each: each["flat_data"],
        "items": lambda each: each["about"],
        "crfqn to 1e-4 / until it stops, s": both("crfqn"),
        "LogisticRegression(lbfgs): the same, s": both("lbfgs"),
        "test accuracy when they stop: crfqn, scikit-learn": lambda each: ", ".join(
            f"{runs[0]['accuracy']:.4f}" for runs in each["runs"].values()
        ),
    }
    note = f"L2 alone, l2 = 1 (C = 1), no intercept; to within {shown(NEAR)} of the optimum, medians of the turns."
    return Section([Table.from_rows("Flat classes, L2", columns, records, [note])], ratios)
