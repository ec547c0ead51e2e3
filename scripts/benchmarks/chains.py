"""Handwritten words (OCR) and chunking (CoNLL-2000): crfqn against CRFsuite on one objective.

Each run has a process of its own, by turns; both keep the features in memory before the clock starts, and crfqn's
compiled code is warm. OCR: all pairs of features and labels have weights. The reference optima are an independent
solver's (largest KKT violation 1e-4). They hold for one split only: RandomState(0).permutation(6877) of the words in
the table's order, 6216 train. CRFsuite takes hours there, so that its seconds are those of a few iterations times the
iterations that it is known to need.

CoNLL-2000: weights only for what occurs together in the training part. Two penalties: L1 (CRFsuite's c1 = 1) and L2
(its c2 = 1, which is our l2 = 2: it adds c2 times the squared norm).
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from harness.comparing import Comparison, Section, by_turns, libraries_table, library, ratios_to
from harness.judging import best_labels, judge_run
from harness.measuring import say
from harness.options import Full, Output, OwnLimit, Penalties, Repeats, Threads, some_of
from harness.problems import Problem, stored
from harness.report import Record, number, shown

from benchmarks import crfqn_fits, crfsuite

LIBRARIES = ["crfqn", "python-crfsuite", "numba", "numpy"]
SPLIT = "0138e387c7658e24"  # of the training labels in their order, first digits of the fingerprint
OPTIMA = {50.0: 54_880.567, 100.0: 76_129.228, 500.0: 128_706.324}
PEER_ITERATIONS = {50.0: {1e-3: 135}, 100.0: {1e-3: 101, 1e-4: 215}}  # until so near to the optimum
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)  # relative distances from the optimum
MOST_ITERATIONS = 400  # of CRFsuite, where nobody knows how many it needs
THEIR_END = "CRFsuite's end"
SETTINGS = {  # tol: small enough that crfqn passes where CRFsuite ends
    "l1": {"l1": 1.0, "l2": 0.0, "solver": "prox-qn", "tol": 1e-3},
    "l2": {"l1": 0.0, "l2": 2.0, "solver": "l-bfgs", "tol": 1e-5},
}


def compare(
    problem: Problem, settings: Record, all_pairs: bool, n_threads: int | None, turns: int,
    n_iterations: int | None, **rules: Any,
) -> dict[str, tuple[Any, list[Any]]]:  # fmt: skip
    """Train with both by turns; return by library the judged first run, and all runs. 0 iterations: crfqn alone."""
    l1, l2 = settings["l1"], settings.get("l2", 0.0)
    with stored(problem) as path:
        tasks = {"crfqn": partial(crfqn_fits.train_chains, path, n_threads, **settings)}
        if n_iterations == 0 or not find_spec("pycrfsuite"):
            say("only crfqn runs; for CRFsuite:  pip install '.[benchmark]'")
        else:
            penalty = {"c1": l1, "c2": l2 / 2}
            tasks["CRFsuite"] = partial(crfsuite.train, path, penalty, all_pairs, n_iterations, **rules)
        runs = by_turns(tasks, turns)
    return {name: (judge_run(problem, each[0], l1, l2), each) for name, each in runs.items()}


def measure_ocr(l1: float, threads: int | None, repeats: int, n_iterations: int | None) -> Record:
    """Both libraries at a penalty: seconds to the levels; n_iterations : of CRFsuite, None: to 1e-4."""
    problem = Problem.of_recipe("ocr")
    optimum = OPTIMA.get(l1) if problem.fingerprint.startswith(SPLIT) else None
    needed = PEER_ITERATIONS.get(l1, {}) if optimum else {}
    if n_iterations is None:
        n_iterations = max(needed.values(), default=MOST_ITERATIONS - 5) + 5
    settings = {"l1": l1, "tol": 1e-4 if optimum else 1e-6}
    to_the_limit = {"epsilon": 0.0, "delta": 0.0}  # no stop by gradient or decrease
    judged = compare(problem, settings, True, threads, repeats, n_iterations, **to_the_limit)
    optimum = optimum or judged["crfqn"][0].verdict.objective
    targets = {shown(level): optimum * (1.0 + level) for level in LEVELS}
    libraries = [library(first, runs, targets) for first, runs in judged.values()]
    for record, (_, runs) in zip(libraries[1:], [*judged.values()][1:], strict=True):
        for level, n in needed.items():
            if None in record["seconds_to"][shown(level)]:
                record["seconds_to"][shown(level)] = [n * float(np.median(run.facts["each"])) for run in runs]
    about = problem.describe_chains("words", "letters")
    return {"data": problem.fingerprint, "about": about, "optimum": optimum, "libraries": libraries}


def ocr_section(records: list[Record]) -> Section:
    tables, ratios = [], []
    for record in records:
        notes = [f"{record['about']}. Reference optimum {record['optimum']:,.3f}."]
        title = f"l1 = {record['l1']:g}"
        tables.append(libraries_table(title, record["libraries"], notes))
        if len(record["libraries"]) > 1:
            commands = {"1e-3": "ocr --repeats 1"} if record["l1"] == 100.0 else {}
            ours, peer = record["libraries"]
            few = record["iterations"]
            how = f" (CRFsuite's reckoned from {few} iterations)" if few else ""
            ratios += ratios_to(f"handwritten letters, {title}{how}", ours, peer, commands)
    return Section(tables, ratios)


OCR = Comparison(
    "ocr", "Handwritten words, against CRFsuite",
    "Handwritten words (26 labels, 8,257 features, all pairs of features and labels) with crfqn and with CRFsuite "
    "on the same features and split; processor seconds from features in memory, by turns, medians. A judge that "
    "belongs to neither recomputes the objectives. CRFsuite makes 10 iterations, whose seconds are multiplied with "
    "the iterations that a full run is known to need; `--full` lets it go to 1e-4.",
    LIBRARIES, ocr_section, ["--l1 50 --l1 100 --l1 500"],
)  # fmt: skip


def ocr(
    l1: Penalties = None,
    threads: Threads = 1,
    repeats: Repeats = 3,
    crfsuite_iterations: Annotated[
        int, typer.Option(min=0, help="Iterations of CRFsuite, for its seconds an iteration; 0: none.")
    ] = 10,
    full: Full = False,
    output: Output = None,
) -> None:
    """Handwritten words (26 labels, 8257 features): crfqn against CRFsuite; --full: CRFsuite to 1e-4, for hours."""
    settings = {"threads": threads, "repeats": repeats, "iterations": None if full else crfsuite_iterations}
    OCR.measure(measure_ocr, [{"l1": strength, **settings} for strength in l1 or [100.0]], output)


def measure_chunks(
    name: str, threads: int | None, repeats: int, n_iterations: int | None, limit: float
) -> Record:
    """Both libraries under a penalty: seconds to where CRFsuite ends."""
    from seqeval.metrics import f1_score  # as conlleval has it: a chunk is right if its ends and its type are

    problem, observed = Problem.of_recipe("conll2000"), {"all_possible_states": False}
    settings = SETTINGS[name] | observed | {"all_possible_transitions": False, "max_seconds": limit}
    judged = compare(problem, settings, False, threads, repeats, n_iterations)
    targets = {}
    if "CRFsuite" in judged:
        # As reported or as recomputed, whichever is larger: rounding does not make an end one that is not reached.
        peer = judged["CRFsuite"][0]
        targets[THEIR_END] = max(float(peer.run.values[-1]), peer.verdict.objective)
    libraries = []
    for first, runs in judged.values():
        f1 = float(f1_score(problem.y_test, best_labels(problem, first.run.weights, first.run.edges)))
        libraries.append(library(first, runs, targets, f1=f1))
    about = problem.describe_chains("sentences", "words")
    return {"data": problem.fingerprint, "about": about, "libraries": libraries}


def chunks_section(records: list[Record]) -> Section:
    tables, ratios = [], []
    for record in records:
        ours, *peers = record["libraries"]
        title = {"l1": "L1, c1 = 1", "l2": "L2, c2 = 1"}[record["penalty"]]
        iterations = number(record["iterations"], "d", "all that it takes")
        notes = [f"{record['about']}. CRFsuite's iterations: {iterations}."]
        tables.append(libraries_table(title, [ours, *peers], notes))
        for peer in peers:
            ratios += ratios_to(f"CoNLL-2000, {title}, F1 {ours['f1']:.4f} and {peer['f1']:.4f}", ours, peer)
    return Section(tables, ratios)


CONLL2000 = Comparison(
    "conll2000", "Chunking, against CRFsuite",
    "CoNLL-2000's chunks (211,727 words, 22 labels) against CRFsuite, both with weights for what occurs in the "
    "training part only, so that they minimise the same function; F1 by conlleval's definition. CRFsuite makes its "
    "usual 100 iterations; `--full` lets it go on to its own end.",
    LIBRARIES, chunks_section, ["", "--full"],
)  # fmt: skip


def conll2000(
    penalty: Annotated[list[str] | None, some_of([*SETTINGS])] = None,
    threads: Threads = 1,
    repeats: Repeats = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[int, typer.Option(min=0, help="Of CRFsuite; 0: none.")] = 100,
    full: Full = False,
    output: Output = None,
) -> None:
    """Chunking (22 labels, 335,674 features), L1 and L2: crfqn against CRFsuite; --full: all iterations it takes."""
    settings = {"threads": threads, "repeats": repeats, "iterations": None if full else crfsuite_iterations}
    cases = [{"penalty": name, **settings, "limit": limit} for name in penalty or SETTINGS]
    CONLL2000.measure(measure_chunks, cases, output)
