"""Timed trainings: test error against processor seconds, and where the seconds went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from benchmarks.alone import say
from numpy.typing import NDArray

from crfqn import CalibratedLeastSquares, GeneralizedLeastSquares, StagewiseRegression
from crfqn.objectives.linear.gram import GramSum
from crfqn.objectives.linear.tiled_map import TiledMap
from least_squares_study.data import Images, Parts

RIDGE = 1e-5  # l2 of an item: the library's is for a sum over the items
STAGE_RIDGE = 0.1  # the same of a stage
LOGISTIC_STEPS = 50
OURS = ("linear", "logistic", "calibrated")


@dataclass(frozen=True)
class Run:
    """A training: processor seconds without the making of features, test error in per cent, shares of the seconds."""

    name: str
    seconds: float
    error: float
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Curve:
    """Stages: processor seconds, features made and test error in per cent after each."""

    name: str
    seconds: NDArray[np.float64]
    n_features: NDArray[np.int64]
    errors: NDArray[np.float64]


def our_model(name: str, n_items: int) -> Any:
    """One of `OURS` on features in one piece."""
    l2 = RIDGE * n_items
    if name == "calibrated":
        return CalibratedLeastSquares(l2=l2, early_stopping=True, random_state=0, n_threads=1)
    if name == "linear":
        return GeneralizedLeastSquares(l2=l2, link="identity", n_threads=1)
    return GeneralizedLeastSquares(l2=l2, link="softmax", max_iter=LOGISTIC_STEPS, n_threads=1)


def other_models(n_items: int) -> dict[str, Callable[[], Any]]:
    """Solvers of other libraries on the same features, with their own stopping rules."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    c = 1.0 / (RIDGE * n_items)
    return {
        "LogisticRegression (lbfgs)": lambda: LogisticRegression(C=c, max_iter=1000),
        "liblinear, logistic": lambda: OneVsRestClassifier(LogisticRegression(C=c, solver="liblinear")),
        "liblinear, squared hinge, primal": lambda: LinearSVC(C=c, dual=False),
        "liblinear, hinge, dual": lambda: LinearSVC(C=c, loss="hinge", dual=True),
        "liblinear, Crammer and Singer": lambda: LinearSVC(C=c, multi_class="crammer_singer"),
    }


def train(name: str, model: Any, parts: Parts) -> Run:
    """Fit and score; warnings of those that stop by a limit are no news here."""
    import warnings

    with watched() as spent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = process_time()
        model.fit(parts.X_train, parts.y_train)
        seconds = process_time() - begin
    error = 100.0 * float(np.mean(model.predict(parts.X_test) != parts.y_test))
    run = Run(name, seconds, error, {what: spent[what] / max(seconds, 1e-9) for what in spent})
    say(f"  {name}: {seconds:.1f} s, {error:.2f} %")
    return run


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Count the processor seconds of Gram matrices (dsyrk, dgemm) and of products with weights (dgemm)."""
    spent: dict[str, float] = {}
    places = [
        (GramSum, "add", "Gram matrices"),
        (TiledMap, "image", "scores"),
        (TiledMap, "_sums", "gradients"),
    ]
    before = [getattr(owner, method) for owner, method, _ in places]

    def timed(call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def measure(*arguments: Any, **options: Any) -> Any:
            begin = process_time()
            try:
                return call(*arguments, **options)
            finally:
                spent[what] = spent.get(what, 0.0) + process_time() - begin

        return measure

    for (owner, method, what), call in zip(places, before, strict=True):
        setattr(owner, method, timed(call, what))
    try:
        yield spent
    finally:
        for (owner, method, _), call in zip(places, before, strict=True):
            setattr(owner, method, call)


def stages(
    name: str, parts: Parts, generator: Any, update: str, size: int, n_stages: int, ridge: float
) -> Curve:
    """Stagewise regression, scored on the test items after each stage; the seconds count features, and the scoring."""
    seconds: list[float] = []
    begin = process_time()
    model = StagewiseRegression(
        l2=ridge * len(parts.y_train), generator=generator, update=update, batch_size=size, max_iter=n_stages,
        inner_iter=LOGISTIC_STEPS, n_threads=1, callback=lambda _: seconds.append(process_time() - begin),
    )  # fmt: skip
    model.fit(parts.X_train, parts.y_train, validation=(parts.X_test, parts.y_test))
    errors = 100.0 * (1.0 - model.validation_score_)
    width = model.stages_.n_features // max(model.n_iter_, 1)
    say(f"  {name}: {seconds[-1]:.1f} s, {errors[-1]:.2f} %")
    return Curve(name, np.array(seconds)[1:], width * np.arange(1, errors.size), errors[1:])


def spectrum(matrix: Any, n: int) -> NDArray[np.float64]:
    """Return the first n singular values, descending; of wide sparse matrices by a randomised method."""
    if hasattr(matrix, "tocsr"):
        from sklearn.utils.extmath import randomized_svd

        n = min(n, min(matrix.shape) - 1)
        return randomized_svd(matrix, n, n_iter=3, random_state=0)[1]
    gram = matrix.T.astype(np.float64) @ matrix
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1][:n], 0.0))


def image_features(images: Images, n_features: int | None) -> Parts:
    """Raw pixels, or so many random features."""
    return images.raw if n_features is None else images.features(n_features)
