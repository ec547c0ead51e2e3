"""F1 of spans in labels of CoNLL-2000's size, beside seqeval, whose default and strict modes are the same measures.

The labels are made up, so that the row needs no data: 2,012 sentences, as many as its test part has, of 1 to 46 words,
11 types, a tenth of the predicted labels wrong. Processor seconds, medians of runs by turns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from harness.comparing import Comparison, Ratio, Section
from harness.measuring import processor_times, quietly
from harness.options import Output
from harness.report import Record, Table, median

N_ITEMS, LONGEST, TYPES, WRONG, REPEATS = 2012, 46, 11, 0.1, 3
MODES = ("default", "strict")


def random_labels() -> tuple[list[list[str]], list[list[str]]]:
    """True and predicted labels of IOB2."""
    random = np.random.default_rng(0)
    true, predicted = [], []
    for n in random.integers(1, LONGEST + 1, size=N_ITEMS):
        item: list[str] = []
        while len(item) < n:
            kind, length = random.integers(TYPES), random.integers(1, 4)
            item += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)] if random.random() < 0.8 else ["O"]
        true.append(item[:n])
        is_wrong = random.random(n) < WRONG
        predicted.append(["O" if bad else label for label, bad in zip(item, is_wrong, strict=False)])
    return true, predicted


def measure(mode: str) -> Record:
    from crfqn.metrics import span_f1_score

    with quietly():
        from seqeval.metrics import f1_score
        from seqeval.scheme import IOB2

    true, predicted = random_labels()
    settings: dict[str, Any] = {"mode": "strict", "scheme": IOB2} if mode == "strict" else {}
    ours = partial(span_f1_score, true, predicted, scheme="IOB2", strict=mode == "strict")
    peer = partial(f1_score, true, predicted, **settings)
    value = ours()
    assert abs(value - peer()) < 1e-12  # both compute the same
    turns = [[processor_times(task, 1, warm_ups=0)[0] for task in (ours, peer)] for _ in range(REPEATS)]
    seconds = [*map(list, zip(*turns, strict=True))]
    return {"n_labels": sum(map(len, true)), "f1": value, "crfqn": seconds[0], "seqeval": seconds[1]}


def section(records: list[Record]) -> Section:
    rows, ratios = [], []
    for each in records:
        cells = [median(each[name], ".4f") for name in ("crfqn", "seqeval")]
        ratio = float(np.median(np.divide(each["seqeval"], each["crfqn"])))
        rows.append([each["mode"], f"{each['f1']:.4f}", *cells, f"{ratio:.0f}"])
        ratios.append(Ratio(f"span F1, {each['mode']}", ratio, f"{cells[0]} s", f"seqeval: {cells[1]} s"))
    head = ["mode", "F1", "crfqn, s", "seqeval, s", "ratio"]
    return Section([Table(f"Span F1 of {records[0]['n_labels']:,} labels", head, rows)], ratios)


SPANS = Comparison(
    "spans", "F1 of spans, against seqeval", "Made-up labels of CoNLL-2000's size; processor seconds, medians.",
    ["crfqn", "seqeval", "numpy"], section,
)  # fmt: skip


def spans(output: Output = None) -> None:
    """F1 of spans in labels of CoNLL-2000's size: crfqn against seqeval."""
    SPANS.measure(measure, [{"mode": mode} for mode in MODES], output)
