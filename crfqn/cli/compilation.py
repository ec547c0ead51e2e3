"""`crfqn compile`: train every estimator on some made-up items, so that its machine code is on disk when it is needed.

In one process, one estimator after the other: most of the code is shared between them.
"""

import warnings
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.core.event import install_recorder
from sklearn.exceptions import ConvergenceWarning

import crfqn
from crfqn.cli.output import say, to_json
from crfqn.errors import InputError
from crfqn.messages import describe

N_ITEMS, N_COLUMNS = 300, 200
N_CHAINS = 1500  # of some 9,000 positions: fewer are trained without samples of the items
LABELS = "abcd"
MANY_LABELS = "abcdefghijklmnopqrstuvwxyz"
PATHS = "a/b", "a/c", "d/e", "d/f"


def compile_all(names: Sequence[str], *, as_json: bool, is_quiet: bool) -> None:
    """Train the named estimators, or all; print how many functions were compiled, and the processor seconds."""
    for name in names:
        if name not in FIRST_FITS:
            raise InputError(f"expected names of {', '.join(FIRST_FITS)}; got {describe(name)}")
    rows = []
    for name in names or FIRST_FITS:
        if not is_quiet:
            say(f"{name} ...")
        begin = process_time()
        with install_recorder("numba:compile") as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # there is nothing to learn from noise
            FIRST_FITS[name](np.random.default_rng(0))
        n_compiled = sum(event.is_end for _, event in recorder.buffer)
        rows.append({"name": name, "n_compiled": n_compiled, "seconds": process_time() - begin})
    if as_json:
        print(to_json(rows))
        return
    width, seconds = max(len(row["name"]) for row in rows), sum(row["seconds"] for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['n_compiled']:3} functions  {row['seconds']:5.1f} s")
    print(
        f"compiled and trained in {seconds:.1f} s of processor time; what was compiled before is not compiled again"
    )


def _chains(rng: np.random.Generator, labels: str) -> list[list[str]]:
    return [[str(rng.choice([*labels])) for _ in range(rng.integers(1, 12))] for _ in range(N_CHAINS)]


def _words(rng: np.random.Generator) -> None:
    Y = _chains(rng, LABELS)
    _fit_chains([[{f"word={label}{rng.integers(N_COLUMNS)}": 1.0, "bias": 1.0} for label in y] for y in Y], Y)


def _images(rng: np.random.Generator) -> None:
    Y = _chains(rng, MANY_LABELS)
    _fit_chains([np.array([[label == each for each in MANY_LABELS] for label in y], float) for y in Y], Y)


def _fit_chains(X: list[Any], Y: list[list[str]]) -> None:
    model = crfqn.ChainCRF().fit(X, Y)
    model.predict(X)
    model.predict_marginals(X)


def _rows_of(kind: str, labels: Sequence[str] = LABELS) -> Callable[[np.random.Generator], None]:
    def first_fit(rng: np.random.Generator) -> None:
        X = rng.random((N_ITEMS, N_COLUMNS)) * (rng.random((N_ITEMS, N_COLUMNS)) < 0.1)
        y: Any = rng.choice(labels, N_ITEMS)
        if kind == "MultilabelRanker":
            y = [sorted({label, str(rng.choice(labels))}) for label in y]
        for rows in (sp.csr_array(X), X):
            getattr(crfqn, kind)().fit(rows, y).predict(rows)

    return first_fit


FIRST_FITS: dict[str, Callable[[np.random.Generator], None]] = {
    "ChainCRF": _words,
    "ChainCRF-many-labels": _images,
    "MulticlassCRF": _rows_of("MulticlassCRF", [*LABELS]),
    "TaxonomyCRF": _rows_of("TaxonomyCRF", PATHS),
} | {
    kind: _rows_of(kind, [*LABELS])
    for kind in (
        "MulticlassClassifier",
        "MultilabelRanker",
        "MulticlassSVC",
        "CalibratedLeastSquares",
        "GeneralizedLeastSquares",
        "StagewiseRegression",
    )
}
