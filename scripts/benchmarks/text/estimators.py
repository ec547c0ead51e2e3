"""From dicts to a model and from dicts to labels, each library as its users call it, in a process of its own.

crfqn's `ChainCRF()` with nothing but its defaults beside `sklearn_crfsuite.CRF(c1=.1, c2=.1)`, and online methods of
20 epochs beside CRFsuite's. Seconds are the processor's, after a warm-up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import joblib
import numpy as np

from benchmarks.alone import peak_memory, say
from benchmarks.text.problems import Texts

N_EPOCHS = 20
LENGTH = 20  # words of the single sentence
N_CALLS = 200
OBSERVED = {"all_possible_states": False, "all_possible_transitions": False}


class Use(NamedTuple):
    """How long a fit takes and what it is worth; words labelled a second, seconds for one sentence; bytes."""

    seconds: float
    accuracy: float
    tokens_per_second: float
    one_sentence: float
    peak_bytes: int
    note: str


def is_installed() -> bool:
    """Whether sklearn-crfsuite is there."""
    return find_spec("sklearn_crfsuite") is not None


def make(kind: str) -> Any:
    """Make an untrained estimator: "crfqn", "CRFsuite", or either with " ap" or " pa" behind it."""
    library, _, online = kind.partition(" ")
    if library == "crfqn":
        from crfqn import ChainCRF

        solver = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}.get(online)
        return ChainCRF(n_threads=1, **({"solver": solver, **OBSERVED} if solver else {}))
    from sklearn_crfsuite import CRF

    return CRF(algorithm=online, max_iterations=N_EPOCHS) if online else CRF(c1=0.1, c2=0.1)


def use(path: str, kind: str, repeats: int) -> Use:
    """Fit on the dicts of stored texts, label those of the test part."""
    texts: Texts = joblib.load(path)
    X, X_test = texts.dicts
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few = max(len(X) // 10, 5)
        make(kind).fit(X[:few], texts.y_train[:few]).predict(X_test[:1])  # loads compiled code
        seconds = []
        caught.clear()
        for _ in range(repeats):
            model, began = make(kind), process_time()
            model.fit(X, texts.y_train)
            seconds.append(process_time() - began)
    predicted = model.predict(X_test)
    hits = [
        p == y for items in zip(predicted, texts.y_test, strict=True) for p, y in zip(*items, strict=True)
    ]
    one = next((item for item in X_test if len(item) == LENGTH), max(X_test, key=len))
    say(f"  {kind}: {np.median(seconds):.2f} s")
    return Use(
        float(np.median(seconds)),
        float(np.mean(hits)),
        len(hits) / least(lambda: model.predict(X_test), 3),
        least(lambda: [model.predict([one]) for _ in range(N_CALLS)], 5) / N_CALLS,
        peak_memory(),
        "; ".join(sorted({str(warning.message).split("\n")[0] for warning in caught})),
    )


def least(task: Callable[[], object], repeats: int) -> float:
    """The least seconds of the processor of some calls, after one that does not count."""
    task()
    seconds = []
    for _ in range(repeats):
        began = process_time()
        task()
        seconds.append(process_time() - began)
    return min(seconds)


def fit_memory(path: str, library: str) -> tuple[int, int]:
    """The bytes of a process that has imported the library, and its peak when it has trained on stored columns.

    CRFsuite gets an item at a time; both hold the stored matrix as well.
    """
    from benchmarks import crfsuite
    from benchmarks.items import read_stored
    from benchmarks.text.training import PENALTIES, maker

    if library == "crfqn":
        import crfqn.estimators.sequence.chain  # noqa: F401
    else:
        import pycrfsuite  # noqa: F401
    before = peak_memory()
    if library == "crfqn":
        problem = read_stored(path)
        maker(PENALTIES[0], False)().fit(problem.X_train, problem.y_train)
        return before, peak_memory()
    run = crfsuite.train_pairs(path, {"c1": 1.0, "c2": 0.0}, False, n_iterations=5)
    return before, run.peak_bytes
