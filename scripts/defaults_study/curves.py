"""Scores of a set against the strength: one model after the other from strong to weak, each started at the last.

Models train on four fifths of the training items (of sets with few items five times, each fifth left out once), and are
scored on the rest (validation) and on the test items. The default end, by an estimate, ends each fit.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from benchmarks.alone import say

from crfqn.estimators.strengths.automatic import SHARES
from crfqn.regularization_path.solving import prepare_path
from defaults_study.sources import Source

STEP = 4.0  # between two strengths
FIRST = {"l1": 1 / 16, "group_l1": 1 / 4, "l2": 4.0}  # of the largest: above, next to nothing is learnt
LAST = 4e-3  # of the noise of gradients
N_FOLDS, FEW_ITEMS = 5, 500
FURTHER = 2  # strengths that are LOST points below the best end a curve
LOST = 2.0


@dataclass(frozen=True)
class Row:
    """A strength, and what models of it get: percent right, weights, processor seconds.

    l2 : besides l1, as a share of it; 0 where another strength varies
    """

    strength: float
    l2: float
    validation: float
    test: float
    n_nonzero: float
    seconds: float


@dataclass(frozen=True)
class Curve:
    """The rows of a set, strong to weak.

    Attributes
    ----------
    penalty : the strengths: "l1", "l1, l2 = 2 l1", "group_l1" or "l2"
    largest, noise, scale : of the four fifths that are trained on: the largest useful strength, the noise of gradients
        (its square for l2), and the root of the mean square of the values that are not zero
    """

    name: str
    estimator: str
    measure: str
    penalty: str
    n_items: int
    n_labels: int
    largest: float
    noise: float
    scale: float
    rows: list[Row] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, content: dict[str, Any]) -> Curve:
        """From `as_dict`."""
        return cls(**(content | {"rows": [Row(**row) for row in content["rows"]]}))

    def column(self, name: str) -> np.ndarray:
        """One number of each row."""
        return np.array([getattr(row, name) for row in self.rows])

    @property
    def tuned(self) -> Row:
        """The best on validation items; of equal ones the strongest."""
        return self.rows[int(np.argmax(self.column("validation")))]

    def test_at(self, strength: float) -> float:
        """The test score at a strength, linear between the logarithms of those measured, constant beyond."""
        measured = np.log(self.column("strength"))[::-1]
        return float(np.interp(np.log(strength), measured, self.column("test")[::-1]))

    def lost_at(self, strength: float) -> float:
        """The points of the test score that a strength loses on the tuned one."""
        return self.tuned.test - self.test_at(strength)


def take(items: Any, chosen: np.ndarray) -> Any:
    """Some items, of a matrix, sequences or a list."""
    return [items[i] for i in chosen] if isinstance(items, list) else items[chosen]


def folds(n_items: int, n_few: int = FEW_ITEMS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Items to train on and to validate with: five parts of few items, one of many."""
    order = np.random.default_rng(0).permutation(n_items)
    parts = [np.sort(order[i::N_FOLDS]) for i in range(N_FOLDS if n_items <= n_few else 1)]
    return [(np.setdiff1d(order, part), part) for part in parts]


def square_scale(X: Any) -> float:
    """The root of the mean square of the values that are not zero."""
    matrix = getattr(X, "matrix", X)
    values = getattr(matrix, "data", None) if hasattr(matrix, "indptr") else np.asarray(matrix).ravel()
    values = np.asarray(values, np.float64)
    return float(np.sqrt(np.mean(values[values != 0] ** 2)))


def start(name: str, source: Source, l2_share: float) -> Curve:
    """A curve without rows: what the rules know of a set."""
    train, _ = folds(source.n_items)[0]
    X, y = take(source.X_train, train), take(source.y_train, train)
    varied = source.varied if source.varied != "l2" else "l1"
    with prepare_path(source.model(), X, y, path_parameter=varied) as prepared:
        noise, largest = prepared.automatic / SHARES[varied], prepared.l1_max
    if source.varied == "l2":  # a feature's curvature at zero weights: beyond, next to nothing is learnt
        noise = largest = noise**2
    penalty = f"l1, l2 = {l2_share:g} l1" if l2_share else source.varied
    return Curve(
        name, source.estimator.__name__, source.measure, penalty, source.n_items, source.n_labels, largest,
        noise, square_scale(X),
    )  # fmt: skip


def measure(name: str, source: Source, seconds: float, l2_share: float = 0.0) -> Curve:
    """The curve of a set, with l2 as a share of l1, for so many processor seconds at most."""
    curve = start(name, source, l2_share)
    say(
        f"{name}: {source.n_items} items, largest {curve.penalty} {curve.largest:.4g}, noise {curve.noise:.4g}"
    )
    cuts = folds(source.n_items)
    models = [source.model(warm_start=True) for _ in cuts]
    first = FIRST[source.varied] * curve.largest
    begin, strength, best, n_worse = time.process_time(), first, -np.inf, 0
    while n_worse < FURTHER and strength >= LAST * curve.noise and time.process_time() - begin < seconds:
        row = fit(source, models, cuts, strength, l2_share * strength)
        curve.rows.append(row)
        say(
            f"  {source.varied} {strength:.4g}: validation {row.validation:.2f}, test {row.test:.2f}, "
            f"{row.seconds:.1f} s"
        )
        best = max(best, row.validation)
        n_worse = n_worse + 1 if row.validation < best - LOST else 0
        strength /= STEP
    return curve


def fit(source: Source, models: list[Any], cuts: list[Any], strength: float, l2: float) -> Row:
    """The models of a strength, one a cut."""
    begin, found = time.process_time(), []
    for model, (train, held_out) in zip(models, cuts, strict=True):
        model.set_params(**source.strengths(strength, l2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a fit's limit leaves undone, scores tell
            model.fit(take(source.X_train, train), take(source.y_train, train))
        items = take(source.X_train, held_out), take(source.y_train, held_out)
        found.append(
            (
                source.score(model, *items),
                source.score(model, source.X_test, source.y_test),
                model.result_.n_nonzero,
            )
        )
    validation, test, n_nonzero = np.mean(found, axis=0).tolist()
    return Row(strength, l2, validation, test, n_nonzero, time.process_time() - begin)
