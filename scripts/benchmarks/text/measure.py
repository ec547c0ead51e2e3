"""`benchmark.py text`: which comparisons there are, made in turns, one process a run and one core for all."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib

from benchmarks import crfsuite
from benchmarks.alone import environment, run_alone, say
from benchmarks.items import stored
from benchmarks.judge import Judged, judge
from benchmarks.problem import Run
from benchmarks.report import Report
from benchmarks.text import estimators, flat, training
from benchmarks.text.problems import Texts
from benchmarks.text.training import Penalty

PARTS = ("training", "certificate", "estimators", "online", "memory", "flat")
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LARGEST = "btc"  # whose memory is asked
LONG = 10.0  # seconds of a fit that is not repeated


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
    uses: dict[str, dict[str, estimators.Use]] = field(default_factory=dict)
    memory: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    flats: list[flat.Flat] = field(default_factory=list)


def measure(selection: Selection) -> Report:
    """Make the comparisons, and a report of them."""
    from benchmarks.text.report import report

    has_peers = crfsuite.is_installed() and estimators.is_installed()
    if not has_peers:
        say("CRFsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
    measured = Measured()
    with environment(ONE_CORE):
        for name in selection.sets:
            texts = Texts.load(name)
            say(f"{name}: {texts.describe()}")
            of_set(selection, texts, measured, has_peers)
        if "flat" in selection.parts:
            measured.flats = [flat.compare(name, selection.repeats) for name in selection.flat_sets]
    return report(measured)


def of_set(selection: Selection, texts: Texts, measured: Measured, has_peers: bool) -> None:
    """All that is asked of one set."""
    parts = selection.parts
    if {"training", "certificate", "memory"} & set(parts):
        problem = texts.problem()
        with stored(problem) as path:
            for penalty in selection.penalties if {"training", "certificate"} & set(parts) else ():
                measured.trainings.append(_training(selection, texts, problem, path, penalty, has_peers))
            if "memory" in parts and (texts.name == LARGEST or list(parts) == ["memory"]):
                libraries = ("crfqn", "CRFsuite") if has_peers else ("crfqn",)
                measured.memory[texts.name] = {
                    library: run_alone(estimators.fit_memory, path, library) for library in libraries
                }
    kinds = [""] * ("estimators" in parts) + [" ap", " pa"] * ("online" in parts)
    if kinds:
        measured.uses[texts.name] = _uses(texts, kinds, has_peers, selection.repeats)


def _training(
    selection: Selection, texts: Texts, problem: Any, path: str, penalty: Penalty, has_peers: bool
) -> Training:
    say(f"{texts.name}, {penalty.name}")
    ours: list[tuple[Run, Run | None]] = []
    theirs: list[Run] = []
    limit, pairs = selection.limit, texts.all_pairs
    for _ in range(selection.repeats if "training" in selection.parts else 0):
        target = -float("inf")
        if has_peers:
            as_theirs = {"c1": penalty.c1, "c2": penalty.c2}
            n_iterations = selection.crfsuite_iterations
            theirs.append(run_alone(crfsuite.train_pairs, path, as_theirs, pairs, n_iterations))
            target = float(theirs[0].values.min())
        ours.append(run_alone(training.train, path, penalty, pairs, target, limit))
        if max(run.seconds[-1] for run in (*theirs, ours[-1][0])) > LONG:
            break
    reference = None
    if "certificate" in selection.parts:
        proof = {"stop": "certificate", "tol": 1e-6, "max_iter": 20_000}
        reference, _ = run_alone(training.train, path, penalty, pairs, -float("inf"), limit, **proof)
    judged = {}
    for name, run in (("crfqn", ours[0][0] if ours else None), ("CRFsuite", theirs[0] if theirs else None)):
        if run is not None:
            verdict = judge(problem, penalty.c1, run.weights, run.edges, 2 * penalty.c2)
            judged[name] = Judged(run, verdict)
    return Training(texts.name, texts.describe(), penalty, pairs, ours, theirs, judged, reference)


def _uses(texts: Texts, kinds: Sequence[str], has_peers: bool, repeats: int) -> dict[str, estimators.Use]:
    libraries = ("CRFsuite", "crfqn") if has_peers else ("crfqn",)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "texts.joblib")
        joblib.dump(texts, path)
        return {
            library + kind: run_alone(
                estimators.use, path, library + kind, 1 if texts.n_tokens > 50_000 else repeats
            )
            for kind in kinds
            for library in libraries
        }
