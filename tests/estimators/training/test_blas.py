"""The limit of BLAS threads while a model trains: in any thread, in several at once, in a process that forks."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MultilabelRanker,
    TaxonomyCRF,
)
from crfqn import threads as limits
from crfqn.threads import Pool, single_threaded_blas

FORKS = """
import os, threading
from crfqn.threads import single_threaded_blas

def train():
    while True:
        with single_threaded_blas():
            pass

threading.Thread(target=train, daemon=True).start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        with single_threaded_blas():
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_trains():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], timeout=60).returncode == 0


def items(n_items, n_features, n_classes):
    random = np.random.default_rng(0)
    x = random.standard_normal((n_items, n_features))
    scores = x @ random.standard_normal((n_features, n_classes)) + random.gumbel(size=(n_items, n_classes))
    return x, scores


def weights(model):
    """The bits of a model."""
    parts = [getattr(model, name, np.empty(0)) for name in ("coef_", "intercept_", "transition_coef_")]
    return b"".join(
        np.asarray(part.toarray() if hasattr(part, "toarray") else part).tobytes() for part in parts
    )


# Of sizes at which OpenBLAS's threads change the bits of what each training asks of LAPACK.
X, SCORES = items(300, 40, 6)
LABELS = SCORES.argmax(axis=1)
WIDE, WIDE_SCORES = items(600, 200, 12)
TRAININGS = {
    "MulticlassCRF": lambda: MulticlassCRF(l1=0.3).fit(X, LABELS),
    "ChainCRF": lambda: ChainCRF(l1=3.0).fit(np.split(X, 30), np.split(LABELS, 30)),
    "TaxonomyCRF": lambda: TaxonomyCRF(l1=3.0).fit(
        X, [(("a", "b")[k // 3], str(k)) for k in LABELS.tolist()]
    ),
    "MulticlassClassifier": lambda: MulticlassClassifier().fit(X, LABELS),
    "MultilabelRanker": lambda: MultilabelRanker().fit(WIDE[:, :60], WIDE_SCORES > 0.0),
    "CalibratedLeastSquares": lambda: CalibratedLeastSquares().fit(WIDE, WIDE_SCORES.argmax(axis=1)),
    "GeneralizedLeastSquares": lambda: GeneralizedLeastSquares().fit(WIDE, WIDE_SCORES.argmax(axis=1)),
}


def in_a_thread(task):
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(task).result()


@pytest.mark.parametrize("name", TRAININGS)
def test_a_model_has_the_same_bits_in_any_thread(name):
    """Whatever BLAS would do by itself, alone and with others at the same time; BLAS is as it was afterwards."""

    def train():
        return weights(TRAININGS[name]())

    models = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            before = blas_threads()
            models += [train(), in_a_thread(train)]
            with ThreadPoolExecutor(3) as executor:
                models += executor.map(lambda _: train(), range(3))
            assert blas_threads() == before

    def limited():
        with threadpool_limits(2, user_api="blas"):
            return train(), blas_threads()

    model, after = in_a_thread(limited)
    assert {*models, model} == {models[0]}
    assert after == [2] * len(after)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_holders_overlap_in_several_threads():
    """The first to come need not be the last to leave, and the program's own limits hold again afterwards."""
    with threadpool_limits(2, user_api="blas"):
        is_inside, may_leave = threading.Event(), threading.Event()

        def hold():
            with single_threaded_blas():
                is_inside.set()
                may_leave.wait(20)
            return blas_threads()

        with ThreadPoolExecutor(1) as executor:
            other = executor.submit(hold)
            is_inside.wait(20)
            with single_threaded_blas(), single_threaded_blas():
                may_leave.set()
                after_first = other.result()
                within = blas_threads()
    with threadpool_limits(2, user_api="blas"):
        after = blas_threads()
    n = len(after)
    assert (after_first, within, after) == (n * [1], n * [1], n * [2])


IS_CONTROLLED = any(
    hasattr(library, "clear_controlling_thread") for library in ThreadpoolController().lib_controllers
)


@pytest.mark.skipif(not IS_CONTROLLED, reason="before 3.8 threadpoolctl obeys every thread")
def test_other_threads_cannot_raise_the_limit_meanwhile():
    def raise_limit():
        with threadpool_limits(2, user_api="blas"):
            return blas_threads()

    def hold():
        with single_threaded_blas():
            return in_a_thread(raise_limit)

    with threadpool_limits(2, user_api="blas"):
        within = in_a_thread(hold)
    assert within == [1] * len(within)


class PerThread:
    """A BLAS whose every thread has a limit of its own, as OpenBLAS on OpenMP has it."""

    user_api, threading_layer = "blas", "openmp"

    def __init__(self):
        self.local = threading.local()

    @property
    def num_threads(self):
        return getattr(self.local, "n_threads", 4)

    def set_num_threads(self, n_threads):
        self.local.n_threads = n_threads


def test_limits_of_single_threads(monkeypatch):
    """Every thread that trains is limited, and every thread that helps; others are left alone."""
    library = PerThread()
    controller = type("Controller", (), {"lib_controllers": [library]})
    monkeypatch.setattr(limits, "_controller", lambda n_modules: controller)

    def held():
        with single_threaded_blas():
            return library.num_threads

    with single_threaded_blas(), Pool(2) as pool:
        meeting, seen = threading.Barrier(2, timeout=20), []

        def look(_):
            meeting.wait()  # each thread does one
            seen.append(library.num_threads)

        pool.each(2, look)
        assert in_a_thread(lambda: library.num_threads) == 4
        assert in_a_thread(lambda: (held(), library.num_threads)) == (1, 4)
        assert library.num_threads == 1
    assert (seen, library.num_threads) == ([1, 1], 4)
