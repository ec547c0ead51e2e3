"""`crfqn compile`: trains every estimator on random items, so that its machine code is on disk before it is needed.

All trainings run in one process, one after the other, because estimators share much of the code. What a training
compiles, and for how long, is listed with `--functions`.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import scipy.sparse as sp
from numba.core.event import Event, Listener, install_listener
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from crfqn.cli.output import say, to_json
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.registry import find

N_ITEMS, N_COLUMNS = 300, 200  # of the random rows: small, as only the compiled code matters
N_CHAINS = 1500  # sequences, about 9,000 positions: enough for training to start with samples of the items
N_FEW_CHAINS = 12  # sequences of the smallest first fit, whose code every training of a chain needs
FEW_LABELS = "abcd"
MANY_LABELS = "abcdefghijklmnopqrstuvwxyz"
LABEL_PATHS = "a/b", "a/c", "d/e", "d/f"


class CompiledFunctions(Listener):
    """The functions that numba compiles, and the processor seconds of each, those of the functions it calls aside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # by file and name; a function may have several signatures
        self.n_compiled = 0
        self._begins: list[float] = []  # of the functions that are being compiled, the outermost first

    def on_start(self, event: Event) -> None:
        """Note the time."""
        self._begins.append(process_time())

    def on_end(self, event: Event) -> None:
        """Add the seconds of the function, and exclude them from those of its caller."""
        function, elapsed = event.data["dispatcher"].py_func, process_time() - self._begins.pop()
        self._begins = [begin + elapsed for begin in self._begins]
        name = f"{function.__module__.removeprefix('crfqn.')}.{function.__name__}"
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
        self.n_compiled += 1

    def by_seconds(self) -> dict[str, float]:
        """Return the seconds by function, the largest first."""
        return dict(sorted(self.seconds.items(), key=lambda item: -item[1]))


def compile_all(
    names: Sequence[str] | None, folder: Path | None, *, with_functions: bool, as_json: bool, is_quiet: bool
) -> None:
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
    fits: list[tuple[str, CompiledFunctions, float]] = []  # with the processor seconds of the training
    for name in names or FIRST_FITS:
        if not is_quiet:
            say(f"{name} ...")
        begin, functions = process_time(), CompiledFunctions()
        with install_listener("numba:compile", functions), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # random labels may not converge
            FIRST_FITS[name](np.random.default_rng(0))
        fits.append((name, functions, process_time() - begin))
    if as_json:
        print(
            to_json(
                [
                    {"name": name, "n_compiled": functions.n_compiled, "seconds": seconds}
                    | ({"functions": functions.by_seconds()} if with_functions else {})
                    for name, functions, seconds in fits
                ]
            )
        )
    if as_json or is_quiet:
        return
    width, total = max(len(name) for name, _, _ in fits), sum(seconds for _, _, seconds in fits)
    for name, functions, seconds in fits:
        print(f"{name:<{width}}  {functions.n_compiled:3} functions  {seconds:5.1f} s")
        for function, own_seconds in functions.by_seconds().items() if with_functions else ():
            print(f"  {own_seconds:5.2f} s  {function}")
    print(
        f"compiled and trained in {total:.1f} s of processor time; what was compiled before is not compiled again"
    )


def _chains(rng: np.random.Generator, *, are_words: bool, n_items: int = N_CHAINS) -> None:
    """Train a chain on words with 4 labels, or on images with 26."""
    labels = FEW_LABELS if are_words else MANY_LABELS
    Y = [[str(rng.choice([*labels])) for _ in range(rng.integers(1, 12))] for _ in range(n_items)]
    if are_words:
        X: list[list[dict[str, float]]] | list[NDArray[np.float64]] = [
            [{f"word={label}{rng.integers(N_COLUMNS)}": 1.0, "bias": 1.0} for label in y] for y in Y
        ]
    else:
        X = [np.array([[label == each for each in labels] for label in y], float) for y in Y]
    model = find("ChainCRF")(n_threads=1).fit(X, Y)  # one thread: this process compiles all
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
    "ChainCRF-few-items": partial(_chains, are_words=True, n_items=N_FEW_CHAINS),
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
