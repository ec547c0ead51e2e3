"""`crfqn compile`: trains every estimator on random items, so that its machine code is on disk before it is needed.

All trainings run in one process, one after the other, because estimators share much of the code.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import scipy.sparse as sp
from numba.core.event import install_recorder
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from crfqn.cli.output import say, to_json
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.registry import find

N_ITEMS, N_COLUMNS = 300, 200  # of the random rows: small, as only the compiled code matters
N_CHAINS = 1500  # sequences, about 9,000 positions: enough for training to start with samples of the items
FEW_LABELS = "abcd"
MANY_LABELS = "abcdefghijklmnopqrstuvwxyz"
LABEL_PATHS = "a/b", "a/c", "d/e", "d/f"


def compile_all(names: Sequence[str] | None, folder: Path | None, *, as_json: bool, is_quiet: bool) -> None:
    """Train the named estimators, or all; print the number of compiled functions and the processor seconds of each."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--to: cannot make the folder {folder}: {error.strerror or error}") from error
        os.environ["CRFQN_CODE"] = str(folder)  # read when kernels are imported
    for name in names or ():
        if name not in FIRST_FITS:
            raise InputError(f"expected names of {', '.join(FIRST_FITS)}; got {describe(name)}")
    rows = []
    for name in names or FIRST_FITS:
        if not is_quiet:
            say(f"{name} ...")
        begin = process_time()
        with install_recorder("numba:compile") as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # random labels may not converge
            FIRST_FITS[name](np.random.default_rng(0))
        n_compiled = sum(event.is_end for _, event in recorder.buffer)
        rows.append({"name": name, "n_compiled": n_compiled, "seconds": process_time() - begin})
    if as_json:
        print(to_json(rows))
    if as_json or is_quiet:
        return
    width, seconds = max(len(row["name"]) for row in rows), sum(row["seconds"] for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['n_compiled']:3} functions  {row['seconds']:5.1f} s")
    print(
        f"compiled and trained in {seconds:.1f} s of processor time; what was compiled before is not compiled again"
    )


def _chains(rng: np.random.Generator, *, are_words: bool) -> None:
    """Train a chain on words with 4 labels, or on images with 26."""
    labels = FEW_LABELS if are_words else MANY_LABELS
    Y = [[str(rng.choice([*labels])) for _ in range(rng.integers(1, 12))] for _ in range(N_CHAINS)]
    if are_words:
        X: list[list[dict[str, float]]] | list[NDArray[np.float64]] = [
            [{f"word={label}{rng.integers(N_COLUMNS)}": 1.0, "bias": 1.0} for label in y] for y in Y
        ]
    else:
        X = [np.array([[label == each for each in labels] for label in y], float) for y in Y]
    model = find("ChainCRF")().fit(X, Y)
    model.predict(X)
    model.predict_marginals(X)


def _rows(rng: np.random.Generator, *, kind: str, labels: Sequence[str] = FEW_LABELS) -> None:
    """Train an estimator of single items on sparse and on dense rows."""
    X = rng.random((N_ITEMS, N_COLUMNS)) * (rng.random((N_ITEMS, N_COLUMNS)) < 0.1)
    y: list[str] | list[list[str]] = rng.choice([*labels], N_ITEMS).tolist()
    if kind == "MultilabelRanker":
        y = [sorted({str(label), str(rng.choice([*labels]))}) for label in y]
    for rows in (sp.csr_array(X), X):
        find(kind)().fit(rows, y).predict(rows)


FIRST_FITS: dict[str, Callable[[np.random.Generator], None]] = {
    "ChainCRF": partial(_chains, are_words=True),
    "ChainCRF-many-labels": partial(_chains, are_words=False),
    "MulticlassCRF": partial(_rows, kind="MulticlassCRF"),
    "TaxonomyCRF": partial(_rows, kind="TaxonomyCRF", labels=LABEL_PATHS),
}
ITEM_ESTIMATORS = (
    *("MulticlassClassifier", "MultilabelRanker", "MulticlassSVC"),
    *("CalibratedLeastSquares", "GeneralizedLeastSquares", "StagewiseRegression"),
)
FIRST_FITS |= {kind: partial(_rows, kind=kind) for kind in ITEM_ESTIMATORS}
