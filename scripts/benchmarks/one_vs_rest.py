"""L1 logistic regression one class against the rest: liblinear, and skglm's working sets.

K binary problems are another objective than the multinomial one, with one more degree of freedom, so that only
accuracy, non-zeros and time can be compared. C = 1 / l1 (liblinear), alpha = l1 / items (skglm, whose loss is a mean).
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.alone import peak_memory, say
from benchmarks.items import read_stored
from benchmarks.problem import Run

LIBLINEAR, SKGLM = "liblinear", "skglm"
TOLERANCE = 1e-4  # each library's own measure and default


def libraries() -> list[str]:
    """Those that are installed."""
    return [LIBLINEAR, SKGLM] if find_spec("skglm") else [LIBLINEAR]


def train(path: str, l1: float, library: str) -> Run:
    """One fit of all classes, after a warm-up on a part of the items."""
    problem = read_stored(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numba's about speed, of scikit-learn's about liblinear's limit
        part = problem.part(1000)
        _model(library, l1, 1000).fit(part.X_train, part.y_train)
        begin = perf_counter()
        model = _model(library, l1, len(problem.y_train)).fit(problem.X_train, problem.y_train)
        seconds = perf_counter() - begin
    peak = peak_memory()
    say(f"  {library}, one against the rest: {seconds:.1f} s")
    weights = np.vstack([binary.coef_ for binary in model.estimators_])
    return Run(
        name=library,
        iterations=np.array([1]),
        seconds=np.array([seconds]),
        values=np.array([np.nan]),  # of another objective
        setup_seconds=0.0,
        passes=np.nan,
        weights=weights,
        n_nonzero=int(np.count_nonzero(weights)),
        peak_bytes=peak,
    )


def _model(library: str, l1: float, n_items: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    if library == LIBLINEAR:
        binary = LogisticRegression(
            solver="liblinear", l1_ratio=1.0, C=1.0 / l1, fit_intercept=False, tol=TOLERANCE, random_state=0
        )
    else:
        from skglm import SparseLogisticRegression

        binary = SparseLogisticRegression(alpha=l1 / n_items, tol=TOLERANCE, fit_intercept=False)
    return OneVsRestClassifier(binary)
