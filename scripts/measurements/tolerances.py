"""How exact a training has to be: what looser tolerances than 1e-3 cost in accuracy, and what they save.

Each draw trains on some of a set's items, to every tolerance with all other settings as they are by default, and scores
the models on up to as many others. Differences are those to the score at 1e-3 on the same draw, in points, their mean
with its standard error; seconds are the processor's, as shares of those at 1e-3. Under a penalty that is named the
strengths are multiples of the default: 1 of l2, what "auto" stands for of l1 and of rows.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
from harness.default_sets import ALL_SETS, MULTILABEL, SETS, TunedSet
from harness.measuring import say
from harness.options import some_of
from harness.problems import take
from harness.report import Table
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassCRF, TaxonomyCRF
from crfqn.estimators.automatic import AUTO

TOLERANCES = (0.1, 0.03, 0.01, 3e-3, 1e-3)  # the last is what the others are compared with
DEFAULT = "default"
PENALTIES = (DEFAULT, "l1", "l2", "rows")


def penalised(source: TunedSet, penalty: str, strength: float, X: Any, y: Any) -> dict[str, Any]:
    """The parameters of a penalty at a multiple of its default strength for these items."""
    is_flat = source.estimator is MulticlassCRF
    if penalty == DEFAULT:
        return {}
    if penalty == "l2":
        return {"l2": strength} | ({"penalty": "l2"} if is_flat else {"l1": 0.0})
    name = "group_l1" if penalty == "rows" else "l1"
    kind: dict[str, Any] = {"penalty": "l1/l2" if penalty == "rows" else "l1"} if is_flat else {}
    if penalty == "rows" and source.estimator is TaxonomyCRF:
        kind |= {"l1": 0.0}
    automatic = source.model(**kind, **{name: AUTO}).prepare(X, y).strengths
    return kind | {name: strength * automatic[name]}


def measure(
    source: TunedSet, n_items: int, draws: int, penalty: str = DEFAULT, strength: float = 1.0
) -> np.ndarray:
    """Score, seconds and ConvergenceWarnings of each draw and tolerance, (draws, tolerances, 3)."""
    items, found = source.items, np.zeros((draws, len(TOLERANCES), 3))
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(source.n_items)
        n_train = min(n_items, int(0.8 * source.n_items))
        train, test = np.sort(order[:n_train]), np.sort(order[n_train : 2 * n_train])
        X, y = take(items.X_train, train), take(items.y_train, train)
        settings = penalised(source, penalty, strength, X, y)
        for i, tol in enumerate(TOLERANCES):
            model = source.model(tol=tol, n_threads=1, **settings)
            began = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(X, y)
            seconds = time.process_time() - began
            score = source.score(model, take(items.X_train, test), take(items.y_train, test))
            found[draw, i] = score, seconds, sum(issubclass(w.category, ConvergenceWarning) for w in caught)
    return found


def row_of(name: str, source: TunedSet, found: np.ndarray, penalty: str = DEFAULT) -> dict[str, str]:
    """The cells of a set."""
    score, seconds, warned = (found[:, :, i] for i in range(3))
    cells = {"set": name, "estimator": source.estimator.__name__, "penalty": penalty}
    cells |= {"at 1e-3": f"{score[:, -1].mean():.2f}"}
    for i, tol in enumerate(TOLERANCES[:-1]):
        lost = score[:, i] - score[:, -1]
        error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.nan
        saved = f"{seconds[:, i].sum() / seconds[:, -1].sum():.2f}"
        cells[f"{tol:g}: difference, time"] = f"{lost.mean():+.2f} ± {error:.2f}, {saved}"
    return cells | {"seconds": f"{seconds[:, -1].mean():.2f}", "warnings": f"{warned.sum():.0f}"}


def main(
    data: Annotated[list[str] | None, some_of([*ALL_SETS])] = None,
    items: Annotated[int, typer.Option(min=10, help="To train on, at most.")] = 1000,
    draws: Annotated[int, typer.Option(min=1, help="Of items, a set.")] = 10,
    penalty: Annotated[list[str] | None, some_of(PENALTIES)] = None,
    strength: Annotated[
        list[float] | None, typer.Option(help="Times the default, of named penalties.")
    ] = None,
) -> None:
    """Print the table, a set a row."""
    rows = []
    for name in data or [*SETS, *MULTILABEL]:
        source = ALL_SETS[name]()
        for kind, factor in product(penalty or [DEFAULT], strength or [1.0]):
            words = kind if kind == DEFAULT else f"{kind} x {factor:g}"
            rows.append(row_of(name, source, measure(source, items, draws, kind, factor), words))
            say(" | ".join(rows[-1].values()))
    head = [*rows[0]]
    print(Table("Accuracy by tolerance", head, [[*row.values()] for row in rows]).markdown())
