"""Flat classes with L2 alone: crfqn against scikit-learn's LogisticRegression(lbfgs), to within 1e-4 of the optimum.

The same objective: C = 1 / l2, no intercept. scikit-learn reports nothing on its way, so that its seconds are those of
a fit of as many iterations as it needs to get there, which a run beforehand counts by a callback of scipy's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import flat_data
from benchmarks.alone import run_alone, say
from benchmarks.item_judge import objective, predictions
from benchmarks.items import ItemProblem, read_stored, stored
from benchmarks.text.training import Clock

LEVEL, L2 = 1e-4, 1.0
MOST = 20_000  # iterations of either


def banking() -> ItemProblem:
    """BANKING77 with words weighted by tf-idf, as its recipe has it."""
    return ItemProblem.of_recipe("banking77")


def digits() -> ItemProblem:
    """scikit-learn's 1,797 scans of digits, 64 grey values from 0 to 1."""
    from scipy.sparse import csr_array
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return flat_data.stratified(csr_array(X / 16.0), y.astype(str), seed=0)


SETS: dict[str, Callable[[], ItemProblem]] = {
    "digits": digits,
    "banking77": banking,
    "newsgroups": flat_data.newsgroups,
    "mnist": flat_data.mnist,
}


@dataclass(frozen=True)
class Flat:
    """Seconds to the level by turns, of both; until each stops by its own rule; test accuracies; the optimum."""

    name: str
    describe: str
    ours: list[float]
    theirs: list[float]
    until_stop: dict[str, float]
    accuracy: dict[str, float]
    optimum: float

    @property
    def ratio(self) -> float:
        """scikit-learn's seconds over crfqn's: the median of the pairs."""
        return float(np.median(np.divide(self.theirs, self.ours)))


def compare(name: str, repeats: int) -> Flat:
    """Train with both, in turns."""
    problem = SETS[name]()
    say(f"{name}: {problem.describe()}")
    with stored(problem) as path:
        optimum, n_iterations = run_alone(reference, path)
        turns = [
            (run_alone(ours, path, optimum), run_alone(theirs, path, n_iterations)) for _ in range(repeats)
        ]
    mine, others = zip(*turns, strict=True)
    return Flat(
        name,
        problem.describe(),
        [run["seconds"] for run in mine],
        [run["seconds"] for run in others],
        {"crfqn": mine[0]["until_stop"], "scikit-learn": others[0]["until_stop"]},
        {"crfqn": mine[0]["accuracy"], "scikit-learn": others[0]["accuracy"]},
        optimum,
    )


def reference(path: str) -> tuple[float, int]:
    """The optimum, by the judge, and the fewest iterations of scikit-learn that come within the level of it."""
    problem = read_stored(path)
    model = _crfqn(tol=LEVEL / 1000, max_iter=MOST).fit(problem.X_train, problem.y_train)
    optimum = judged(problem, model.coef_)
    return optimum, iterations_to(problem, optimum * (1.0 + LEVEL))


def iterations_to(problem: ItemProblem, target: float) -> int:
    """The iterations after which scikit-learn's weights come to the target, by the judge."""
    import scipy.optimize

    n_iterations, n_features = 0, problem.X_train.shape[1]
    minimize = scipy.optimize.minimize

    def look(intermediate_result: Any) -> None:
        nonlocal n_iterations
        n_iterations += 1
        is_near = intermediate_result.fun * problem.y_train.size <= target * (1.0 + LEVEL)  # it has a mean
        if is_near and judged(problem, intermediate_result.x.reshape(n_features, -1).T) <= target:
            raise StopIteration

    with patch.object(scipy.optimize, "minimize", lambda *a, **b: minimize(*a, **{**b, "callback": look})):
        _scikit_learn(max_iter=MOST, tol=0.0).fit(problem.X_train, problem.y_train)
    return n_iterations


def judged(problem: ItemProblem, weights: Any) -> float:
    """The objective of weights (classes, features)."""
    squares = weights.multiply(weights).sum() if hasattr(weights, "multiply") else (weights**2).sum()
    return objective(problem, 0.0, weights) + L2 / 2 * float(squares)


def ours(path: str, optimum: float) -> dict[str, float]:
    """crfqn's seconds to the level and until it stops."""
    problem = read_stored(path)
    few = problem.part(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _crfqn().fit(few.X_train, few.y_train)
        _crfqn(max_iter=2).fit(problem.X_train, problem.y_train)
    clock = Clock(target=optimum * (1.0 + LEVEL))
    clock.began = process_time()
    _crfqn(tol=LEVEL / 100, max_iter=MOST, callback=clock).fit(problem.X_train, problem.y_train)
    began = process_time()
    model = _crfqn().fit(problem.X_train, problem.y_train)
    until_stop = process_time() - began
    right = np.mean(model.predict(problem.X_test) == problem.y_test)
    return {"seconds": clock.rows[-1][0], "until_stop": until_stop, "accuracy": float(right)}


def theirs(path: str, n_iterations: int) -> dict[str, float]:
    """scikit-learn's seconds for so many iterations, and with its default limits."""
    problem = read_stored(path)
    few = problem.part(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _scikit_learn().fit(few.X_train, few.y_train)
        seconds = []
        for settings in ({"max_iter": n_iterations, "tol": 0.0}, {}):
            began = process_time()
            model = _scikit_learn(**settings).fit(problem.X_train, problem.y_train)
            seconds.append(process_time() - began)
    right = np.mean(predictions(problem, model.coef_) == problem.y_test)
    return {"seconds": seconds[0], "until_stop": seconds[1], "accuracy": float(right)}


def _crfqn(**settings: Any) -> Any:
    from crfqn import MulticlassCRF

    return partial(MulticlassCRF, l1=0.0, l2=L2, fit_intercept=False, n_threads=1)(**settings)


def _scikit_learn(**settings: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(solver="lbfgs", C=1.0 / L2, fit_intercept=False, **settings)
