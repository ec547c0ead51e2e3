"""Every training ends in time: all solvers of the tables, on data that leave their inner loops little to hold on to.

Ties, copies that contradict each other, zeros, one item, one position, constant columns, sizes far apart. The tolerance
is 0 and the number of iterations is unbounded, so that the limit of time, a signal or rounding ends a run. Limits are
those of a watchdog: a training that hangs hangs for ever.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from problems import ends_within

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
)
from crfqn.choices import FLAT, STRUCTURED
from crfqn.errors import CrfqnError, InputError
from crfqn.papers.agarwal2014.gls import Factor
from crfqn.solvers.dual.decomposition import SUB_SOLVERS, DualDecomposition

SECONDS = 0.02
HANGS = 30.0  # seconds beyond the limit

FLAT_DATA = {
    "contradictory copies": ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], ["a", "b", "a", "b"]),
    "ties": ([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], ["a", "b", "c"]),
    "zeros": (np.zeros((4, 2)), ["a", "b", "c", "a"]),
    "one item": ([[1.0, 2.0]], ["a"]),
    "copies": ([[1.0, 2.0, 3.0]] * 6, ["a", "a", "a", "b", "b", "c"]),
    "equal and constant columns": ([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 2.0, 2.0]], ["a", "b", "a"]),
    "sizes far apart": ([[1e8, 1e-8], [-1e8, 1e-8], [1e8, 0.0], [0.0, 1.0]], ["a", "b", "b", "a"]),
}
CHAIN_DATA = {
    "equal steps": ([[["a"], ["b"]], [["b"], ["b"]]], [["P", "P"], ["P", "Q"]]),
    "contradictory copies": ([[["a"], ["b"]]] * 4, [["P", "Q"], ["Q", "P"], ["P", "P"], ["Q", "Q"]]),
    "zeros": ([[[], []], [[], [], []]], [["P", "Q"], ["Q", "Q", "P"]]),
    "one item": ([[["a"], ["b"], ["a"]]], [["P", "Q", "P"]]),
    "one position": ([[["a"]], [["a"]], [["b"]]], [["P"], ["Q"], ["Q"]]),
    "sizes far apart": ([[{"a": 1e6}, {"b": 1e-6}], [{"a": 1.0, "b": 1.0}]], [["P", "Q"], ["Q"]]),
}
STRENGTHS = {
    "l1": {"l1": 0.01, "l2": 0.0}, "l2": {"l1": 0.0, "l2": 0.01}, "both": {"l1": 0.01, "l2": 0.01},
    "groups": {"l1": 0.0, "l2": 0.01, "group_l1": 0.01},
}  # fmt: skip
PENALTIES = {
    "l1": {"l1": 0.01}, "l2": {"l2": 0.01}, "elastic-net": {"l1": 0.01, "l2": 0.01}, "l1/l2": {"group_l1": 0.01},
    "l1/linf": {"group_l1": 0.01}, "sparse-group": {"l1": 0.01, "group_l1": 0.01},
}  # fmt: skip


def settings_of(kind):
    """Yield the settings of an estimator without its solver: losses and penalties."""
    if kind in (ChainCRF, TaxonomyCRF):
        for loss, strengths in itertools.product(STRUCTURED, STRENGTHS.values()):
            yield {"loss": loss, **strengths}
    elif kind is MulticlassClassifier:
        for loss, (penalty, strengths) in itertools.product(FLAT, PENALTIES.items()):
            yield {"loss": loss, "penalty": penalty, **strengths}
        yield {"loss": "hinge", "penalty": "l1", "l1": 1.0, "loss_bound": 0.5}
    elif kind is MultilabelRanker:
        for penalty, strengths in PENALTIES.items():
            yield {"penalty": penalty, **strengths}
    elif kind is MulticlassCRF:
        yield from STRENGTHS.values()
    elif kind is MulticlassSVC:
        for sub_solver in SUB_SOLVERS:
            yield {"C": 100.0, "solver": DualDecomposition(sub_solver=sub_solver)}
    else:
        yield {"l2": 0.01}


KINDS = (
    ChainCRF, TaxonomyCRF, MulticlassCRF, MulticlassClassifier, MultilabelRanker, GeneralizedLeastSquares,
    CalibratedLeastSquares, StagewiseRegression, MulticlassSVC,
)  # fmt: skip
SOLVERS = {"": []} | {solver: [] for kind in KINDS for solver in getattr(kind, "SOLVERS", ())}  # by name
for kind in KINDS:
    for solver in getattr(kind, "SOLVERS", ()) or [""]:
        SOLVERS[solver].append(kind)


def fit(kind, data, **settings):
    """Train, without a word; return whether the problem is one that the solver can train."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind(**settings).fit(*data)
    except CrfqnError:
        return False
    return True


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_ends_in_time(solver):
    """Of every estimator that has it, under all losses and penalties that it knows; a first training compiles."""
    n_trained = 0
    for kind in SOLVERS[solver]:
        data = [*(CHAIN_DATA if kind is ChainCRF else FLAT_DATA).values()]
        if kind is MultilabelRanker:
            data = [(X, [[label] for label in y]) for X, y in data]
        limits = {"max_iter": 10**9, "max_seconds": SECONDS, "tol": 0.0}
        if kind is MulticlassSVC:  # has no limit of time
            limits = {"max_iter": 1000, "tol": 0.0}
        for settings in settings_of(kind):
            settings |= {"solver": solver} if solver else {}
            fit(kind, data[0], **settings, max_iter=2)
            for each in data:
                with ends_within(SECONDS + HANGS):
                    n_trained += fit(kind, each, **settings, **limits)
    assert n_trained > 0


def test_steps_among_planes_end():
    """Every visit of the same planes won 6e-35 nats, for ever: the passes never came to an end."""
    with ends_within(HANGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ChainCRF(loss="hinge", l1=0, l2=0.01).fit(*CHAIN_DATA["equal steps"])
    assert model.result_.value == pytest.approx(
        2.0025, rel=1e-3
    )  # of 4, which both items lose without weights


def test_no_shift_is_sought_for_ever():
    """Where sums of products have overflowed, no diagonal makes their matrix definite."""
    with ends_within(HANGS), pytest.raises(InputError, match="have overflowed: scale the features"):
        Factor.from_matrix(np.array([[1.0, 1e10], [1e10, 1.0]]))


INTERRUPTED = """
import os, signal, threading, time, warnings
import numpy as np
from crfqn import ChainCRF, MulticlassClassifier

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for processes in the background
random = np.random.default_rng(0)
words = random.integers(0, 500, (400, 20))
X = [[[f"w{word}", f"s{word % 7}"] for word in item] for item in words.tolist()]
y = [[f"l{(word + word // 3) % 5}" for word in item] for item in words.tolist()]
dense, labels = random.normal(size=(2000, 30)), random.integers(0, 4, 2000)
kinds = [ChainCRF(solver=name, l1=0.1) for name in ("prox-qn", "owl-qn", "fista", "sgd", "averaged-perceptron")]
kinds += [ChainCRF(loss="hinge", l1=0, l2=0.1), ChainCRF(solver="l-bfgs", l1=0, l2=0.1)]
kinds += [MulticlassClassifier(penalty="l1/l2", group_l1=1.0, solver=name) for name in ("bcd", "fobos", "spa-rsa")]
kinds += [MulticlassClassifier(loss="hinge", penalty="l2", l2=0.1, solver=name) for name in ("dual", "fbpd")]
for model in kinds:
    data = (X, y) if isinstance(model, ChainCRF) else (dense, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=2).fit(*data)
        sent, timers = [], []

        def send():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        def send_soon(progress):
            if not timers:
                timers.append(threading.Timer(0.1, send))
                timers[0].start()

        model.set_params(max_iter=10**9, tol=0.0, callback=send_soon)
        try:
            model.fit(*data)
        except KeyboardInterrupt:
            print(f"{time.perf_counter() - sent[0]:.3f}", model.result_.status.name, model.solver, flush=True)
        else:
            for timer in timers:
                timer.cancel()
                timer.join()
            print("0.000", model.result_.status.name, model.solver, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_is_answered():
    """Within a second on a machine that is idle; here it is a watchdog."""
    run = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines()]
    assert len(rows) == 12
    assert max(float(seconds) for seconds, *_ in rows) < HANGS
    assert (
        sum(status == "INTERRUPTED" for _, status, _ in rows) >= 6
    )  # others may reach their rounding before
