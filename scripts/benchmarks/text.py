"""Text as people bring it: names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn.

Comparisons are made in turns, one process a run and one core for all; seconds are the processor's, after a warm-up.

Training: both minimise -log P + c1 |w|_1 + c2 |w|^2 (crfqn's l2 is 2 c2) over the same pairs of features and labels.
CRFsuite's features are in its own structures when the clock starts, crfqn's in a sparse matrix: what each makes of them
(indices by label, stores by column) counts.

From dicts to a model and from dicts to labels, each library as its users call it: crfqn's `ChainCRF()` with nothing but
its defaults beside `sklearn_crfsuite.CRF(c1=.1, c2=.1)`, and online methods of 20 epochs beside CRFsuite's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from harness.judging import Judged, judge_run
from harness.measuring import peak_memory, processor_times, quietly, run_alone, say
from harness.problems import Problem, Run, read_stored, stored
from harness.texts import Texts

from benchmarks import crfsuite, flat
from benchmarks.crfqn_fits import timed_fit

PARTS = ("training", "certificate", "estimators", "online", "memory", "flat")
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LARGEST = "btc"  # whose memory is asked
LONG = 10.0  # seconds of a fit that is not repeated
ROUGH_STEPS = 8  # of the warm-up on a part
FINE = 1e-7  # tol of a run to another's end
FEW = 60  # items of the warm-up
N_EPOCHS = 20
LENGTH = 20  # words of the single sentence
N_CALLS = 200
OBSERVED = {"all_possible_states": False, "all_possible_transitions": False}


@dataclass(frozen=True)
class Penalty:
    """As CRFsuite names it."""

    c1: float
    c2: float

    @property
    def name(self) -> str:
        if self.c1 == self.c2:
            return f"c1=c2={self.c1:g}"
        return f"c1={self.c1:g}" if self.c1 else f"c2={self.c2:g}"

    @property
    def strengths(self) -> dict[str, float]:
        """As crfqn has them."""
        return {"l1": self.c1, "l2": 2 * self.c2}


PENALTIES = (Penalty(1, 0), Penalty(0.1, 0.1), Penalty(0, 0.1), Penalty(0, 1))


@dataclass(frozen=True, eq=False)
class Training:
    """Runs of one set at one penalty, by turns; `finished` are crfqn's that went on to CRFsuite's end, or None.

    `reference` is the run to a certificate, where it was made; it and all others give the least objective known.
    """

    name: str
    describe: str
    penalty: Penalty
    all_pairs: bool
    ours: list[tuple[Run, Run | None]]
    theirs: list[Run]
    judged: dict[str, Judged]
    reference: Run | None = None

    @property
    def optimum(self) -> float:
        runs = [run for pair in self.ours for run in pair if run]
        return min(
            run.values.min() for run in (*runs, *self.theirs, *([self.reference] if self.reference else []))
        )


@dataclass(frozen=True)
class Selection:
    """What to measure."""

    sets: Sequence[str]
    penalties: Sequence[Penalty]
    parts: Sequence[str]
    flat_sets: Sequence[str]
    repeats: int = 3
    limit: float = 120.0
    crfsuite_iterations: int | None = None


@dataclass(eq=False)
class Measured:
    """What there is to report."""

    trainings: list[Training] = field(default_factory=list)
    uses: dict[str, dict[str, Use]] = field(default_factory=dict)
    memory: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    flats: list[flat.DenseComparison] = field(default_factory=list)


def measure(selection: Selection) -> Measured:
    """Make the comparisons."""
    has_peers = crfsuite.is_installed() and find_spec("sklearn_crfsuite") is not None
    if not has_peers:
        say("CRFsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    measured = Measured()
    with patch.dict(os.environ, ONE_CORE):
        for name in selection.sets:
            texts = Texts.load(name)
            say(f"{name}: {texts.describe()}")
            of_set(selection, texts, measured, has_peers)
        if "flat" in selection.parts:
            measured.flats = [flat.compare_dense(name, selection.repeats) for name in selection.flat_sets]
    return measured


def of_set(selection: Selection, texts: Texts, measured: Measured, has_peers: bool) -> None:
    """All that is asked of one set."""
    parts = selection.parts
    if {"training", "certificate", "memory"} & set(parts):
        problem = texts.problem()
        with stored(problem) as path:
            for penalty in selection.penalties if {"training", "certificate"} & set(parts) else ():
                measured.trainings.append(compare(selection, texts, problem, path, penalty, has_peers))
            if "memory" in parts and (texts.name == LARGEST or list(parts) == ["memory"]):
                libraries = ("crfqn", "CRFsuite") if has_peers else ("crfqn",)
                measured.memory[texts.name] = {
                    library: run_alone(fit_memory, path, library) for library in libraries
                }
    kinds = [""] * ("estimators" in parts) + [" ap", " pa"] * ("online" in parts)
    if kinds:
        repeats = 1 if texts.n_tokens > 50_000 else selection.repeats
        libraries = ("CRFsuite", "crfqn") if has_peers else ("crfqn",)
        names = [library + kind for kind in kinds for library in libraries]
        with stored(texts) as path:
            measured.uses[texts.name] = {name: run_alone(use, path, name, repeats) for name in names}


def compare(
    selection: Selection, texts: Texts, problem: Problem, path: str, penalty: Penalty, has_peers: bool
) -> Training:
    """Train with both, in turns."""
    say(f"{texts.name}, {penalty.name}")
    ours: list[tuple[Run, Run | None]] = []
    theirs: list[Run] = []
    limit, pairs = selection.limit, texts.all_pairs
    as_theirs, n_iterations = {"c1": penalty.c1, "c2": penalty.c2}, selection.crfsuite_iterations
    for _ in range(selection.repeats if "training" in selection.parts else 0):
        target = -float("inf")
        if has_peers:
            theirs.append(
                run_alone(crfsuite.train, path, as_theirs, pairs, n_iterations, clock="processor_seconds")
            )
            target = float(theirs[0].values.min())
        ours.append(run_alone(train, path, penalty, pairs, target, limit))
        if max(run.seconds[-1] for run in (*theirs, ours[-1][0])) > LONG:
            break
    reference = None
    if "certificate" in selection.parts:
        proof: dict[str, Any] = {"stop": "certificate", "tol": 1e-6, "max_iter": 20_000}
        reference, _ = run_alone(train, path, penalty, pairs, -float("inf"), limit, **proof)
    firsts = {"crfqn": [run for run, _ in ours[:1]], "CRFsuite": theirs[:1]}
    judged = {
        name: judge_run(problem, run, penalty.c1, 2 * penalty.c2)
        for name, runs in firsts.items()
        for run in runs
    }
    return Training(texts.name, texts.describe(), penalty, pairs, ours, theirs, judged, reference)


def train(
    path: str, penalty: Penalty, all_pairs: bool, target: float, limit: float, **settings: Any
) -> tuple[Run, Run | None]:
    """crfqn as it is by default until it stops, and, if it has not got so far, once more until `target`."""
    problem: Problem = read_stored(path)
    make = maker(penalty, all_pairs)
    with quietly():  # the compiled code is loaded: some steps on a few items, and one on all
        part = problem.part(max(min(len(problem.y_train) // 3, FEW), 1))
        make(**{**settings, "max_iter": ROUGH_STEPS}).fit(part.X_train, part.y_train)
        make(**{**settings, "max_iter": 1}).fit(problem.X_train, problem.y_train)
    first = timed_fit(make(**settings), problem, "processor", limit=limit)
    if first.values.min() <= target or not np.isfinite(target):
        return first, None
    finer = make(**{**settings, "tol": FINE, "max_iter": 5000})
    return first, timed_fit(finer, problem, "processor", target, limit)


def maker(penalty: Penalty, all_pairs: bool) -> Any:
    """Makes estimators with this penalty over these pairs, on one thread."""
    from crfqn import ChainCRF

    pairs = {"all_possible_states": all_pairs, "all_possible_transitions": all_pairs}
    return partial(ChainCRF, **penalty.strengths, **pairs, n_threads=1)


class Use(NamedTuple):
    """How long a fit takes and what it is worth; words labelled a second, seconds for one sentence; bytes."""

    seconds: float
    accuracy: float
    tokens_per_second: float
    one_sentence: float
    peak_bytes: int
    note: str


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
    texts: Texts = read_stored(path)
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
    found = np.concatenate(model.predict(X_test)) == np.concatenate(texts.y_test)
    one = next((item for item in X_test if len(item) == LENGTH), max(X_test, key=len))
    say(f"  {kind}: {np.median(seconds):.2f} s")
    return Use(
        float(np.median(seconds)),
        float(np.mean(found)),
        found.size / min(processor_times(lambda: model.predict(X_test), 3)),
        min(processor_times(lambda: [model.predict([one]) for _ in range(N_CALLS)], 5)) / N_CALLS,
        peak_memory(),
        "; ".join(sorted({str(warning.message).split("\n")[0] for warning in caught})),
    )


def fit_memory(path: str, library: str) -> tuple[int, int]:
    """The bytes of a process that has imported the library, and its peak when it has trained on stored columns.

    CRFsuite gets an item at a time; both hold the stored matrix as well.
    """
    if library == "crfqn":
        import crfqn.estimators.chain  # noqa: F401
    else:
        import pycrfsuite  # noqa: F401
    before = peak_memory()
    if library == "crfqn":
        problem: Problem = read_stored(path)
        maker(PENALTIES[0], False)().fit(problem.X_train, problem.y_train)
        return before, peak_memory()
    return before, crfsuite.train(path, {"c1": 1.0, "c2": 0.0}, False, n_iterations=5).peak_bytes
