"""One sentence at a time by `crfqn.Tagger`, beside python-crfsuite with the same weights from the same dicts, and what
a process costs: import and opening, the first sentence, resident memory.

The data are made up: words by Zipf's law, labels by a chain that words tell in part, 14 features a word. Times are
processor time; every sentence is labelled once, after others, so that no cache has seen it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Section
from harness.data import zipf
from harness.measuring import microseconds, quietly
from harness.options import Output
from harness.report import Record, Table, median

LABELS, LENGTHS = (7, 13, 30, 50), (5, 15, 40)
N_WORDS, N_SENTENCES, MEASURED = 3000, 120, 100
TURNS, STARTS = 3, 7
WITH_COSTS = (13, 50)  # labels of the models whose processes are measured
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # idle ones of BLAS wait by spinning
PROCESS = """
import os, resource, sys, time
import numpy
begin = time.process_time()
{open}
opened = time.process_time()
found = tag(eval(sys.stdin.read()))
first = time.process_time()
pages = int(open("/proc/self/statm").read().split()[1])
print(opened - begin, first - opened, pages * resource.getpagesize())
"""
PROCESSES = {
    "crfqn.Tagger": "from crfqn import Tagger; tag = Tagger({own!r}).tag",
    "python-crfsuite": "import pycrfsuite; t = pycrfsuite.Tagger(); t.open({theirs!r}); tag = t.tag",
    "crfqn.load": "import crfqn; m = crfqn.load({own!r}); tag = lambda item: m.predict([item])[0]",
}


def sentences(n_labels: int, n: int, seed: int, lengths: Any = range(5, 26)) -> tuple[list, list]:
    """Return items as dicts, and their labels."""
    random = np.random.default_rng(seed)
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    spelling = np.random.default_rng(0)
    words = ["".join(spelling.choice(letters, 2 + k % 7)) + str(k) * (k % 11 == 0) for k in range(N_WORDS)]
    kinds = spelling.integers(n_labels, size=N_WORDS)
    X, y = [], []
    for _ in range(n):
        drawn = random.choice(N_WORDS, random.choice([*lengths]), p=zipf(N_WORDS, 2.7))
        labels = [int(kinds[k]) for k in drawn]
        for t in range(1, len(labels)):
            if random.random() < 0.3:
                labels[t] = (labels[t - 1] + 1) % n_labels
        item = [words[k].title() if kinds[k] % 3 == 0 else words[k] for k in drawn]
        X.append([features(item, t) for t in range(len(item))])
        y.append([f"L{label}" for label in labels])
    return X, y


def features(item: list[str], t: int) -> dict[str, Any]:
    """Return what is usual for names: forms of a word and of its neighbours."""
    word = item[t]
    before, behind = item[t - 1] if t else "<s>", item[t + 1] if t + 1 < len(item) else "</s>"
    return {
        "bias": 1.0, "word": word, "lower": word.lower(), "suffix3": word[-3:], "suffix2": word[-2:],
        "prefix3": word[:3], "prefix2": word[:2], "title": word.istitle(), "digit": word[-1].isdigit(),
        "length": str(min(len(word), 6)), "-1": before.lower(), "-1title": before.istitle(),
        "+1": behind.lower(), "+1title": behind.istitle(),
    }  # fmt: skip


def process_costs(name: str, own: str, theirs: str, item: Any) -> list[float]:
    """Return seconds to import (beyond numpy) and open, seconds of the first sentence, and resident bytes."""
    script = PROCESS.format(open=PROCESSES[name].format(own=own, theirs=theirs))
    runs = []
    for _ in range(STARTS):
        settings: dict[str, Any] = {"env": os.environ | ONE_THREAD, "capture_output": True, "text": True}
        done = subprocess.run([sys.executable, "-c", script], input=repr(item), check=True, **settings)
        runs.append([float(number) for number in done.stdout.split()])
    return [min(column) for column in zip(*runs, strict=True)]


def measure(n_labels: int) -> Record:
    """Microseconds of a sentence by its length, of both, and what a process of each costs."""
    import pycrfsuite

    from crfqn import ChainCRF, Tagger, interchange

    X, y = sentences(n_labels, N_SENTENCES, 1)
    with tempfile.TemporaryDirectory() as folder, quietly():
        own, theirs = (str(Path(folder) / f"model.{suffix}") for suffix in ("crfqn", "crfsuite"))
        model = ChainCRF(n_threads=1).fit(X, y)
        model.save(own)
        interchange.write(model, theirs)
        ours, peer = Tagger(own), pycrfsuite.Tagger()
        peer.open(theirs)
        times: dict[str, list[list[float]]] = {}
        for length in LENGTHS:
            items = sentences(n_labels, 2 * MEASURED, 2, [length])[0]
            assert all(ours.tag(item) == peer.tag(item) for item in items[:MEASURED])
            turns = [[microseconds(t.tag, items[MEASURED:]) for t in (ours, peer)] for _ in range(TURNS)]
            times[str(length)] = [*map(list, zip(*turns, strict=True))]
        costs = {name: process_costs(name, own, theirs, X[0]) for name in PROCESSES if n_labels in WITH_COSTS}
    return {"times": times, "costs": costs, "n_weights": model.coef_.nnz + model.transition_coef_.nnz}


def section(records: list[Record]) -> Section:
    rows, costs, ratios = [], [], []
    for record in records:
        for length, (ours, peer) in record["times"].items():
            ratio = float(np.median(np.divide(peer, ours)))
            cells = [median(ours, ".0f"), median(peer, ".0f"), f"{ratio:.2f}"]
            rows.append([str(record["labels"]), length, *cells])
            if (record["labels"], length) == (13, "15"):
                words = f"{cells[0]} us", f"python-crfsuite: {cells[1]} us"
                ratios.append(Ratio("one sentence, 13 labels, 15 words", ratio, *words))
        for name, (seconds, first, resident) in record["costs"].items():
            cells = [f"{1e3 * seconds:.0f}", f"{1e3 * first:.1f}", f"{resident / 1e6:.0f}"]
            costs.append([name, str(record["labels"]), f"{record['n_weights']:,}", *cells])
    head = ["labels", "words", "crfqn.Tagger, us", "python-crfsuite, us", "ratio"]
    tables = [Table("Processor time of a sentence", head, rows)]
    head = ["", "labels", "weights", "import and open, ms beyond numpy", "first sentence, ms", "resident, MB"]
    return Section([*tables, *([Table("A process", head, costs)] if costs else [])], ratios)


TAGGING = Comparison(
    "tagging", "One sentence at a time, against python-crfsuite",
    "`crfqn.Tagger` beside python-crfsuite with the same weights from the same dicts of 14 features a word; made-up "
    "data, medians by turns, every sentence labelled after others.",
    ["crfqn", "python-crfsuite", "numpy"], section,
)  # fmt: skip


def tagging(
    labels: Annotated[list[int] | None, typer.Option(help="Numbers of labels; default: all.")] = None,
    output: Output = None,
) -> None:
    """One sentence at a time, and what a process costs: crfqn.Tagger against python-crfsuite."""
    TAGGING.measure(measure, [{"labels": n_labels} for n_labels in labels or LABELS], output)
