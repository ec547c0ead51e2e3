"""F1 of spans in labels of CoNLL-2000's size, beside seqeval, whose default and strict modes are the same measures.

The labels are made up, so that the row needs no data: 2,012 sentences, as many as its test part has, of 1 to 46 words,
11 types, a tenth of the predicted labels wrong. Processor seconds, medians of runs by turns.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import numpy as np
from harness.measuring import processor_times, quietly
from harness.options import Output
from harness.report import Promise, Report, Table, finish

N_ITEMS, LONGEST, TYPES, WRONG, REPEATS, ASKED = 2012, 46, 11, 0.1, 3, 20


def random_labels() -> tuple[list[list[str]], list[list[str]]]:
    """Return given and predicted labels of IOB2."""
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


def spans(output: Output = None) -> None:
    """F1 of spans in labels of CoNLL-2000's size: crfqn against seqeval."""
    from crfqn.metrics import span_f1_score

    with quietly():
        from seqeval.metrics import f1_score
        from seqeval.scheme import IOB2

    true, predicted = random_labels()
    report = Report("spans", f"Span F1 of {sum(map(len, true)):,} labels", ["crfqn", "seqeval", "numpy"])
    modes: dict[str, dict[str, Any]] = {"default": {}, "strict": {"mode": "strict", "scheme": IOB2}}
    rows = []
    for mode, settings in modes.items():
        own = partial(span_f1_score, true, predicted, scheme="IOB2", strict=mode == "strict")
        peer = partial(f1_score, true, predicted, **settings)
        value = own()
        assert abs(value - peer()) < 1e-12  # both compute the same
        turns = [[processor_times(run, 1, warm_ups=0)[0] for run in (own, peer)] for _ in range(REPEATS)]
        ours, theirs = map(median, zip(*turns, strict=True))
        ratio = f"{theirs / ours:.0f}"
        rows.append([mode, f"{value:.4f}", f"{ours:.4f}", f"{theirs:.3f}", ratio])
        is_met = theirs >= ASKED * ours
        report.promises.append(Promise(f"seqeval's seconds, {mode}", f">= {ASKED}", ratio, is_met))
        report.numbers[mode] = {"f1": value, "crfqn": ours, "seqeval": theirs}
    head = ["mode", "F1", "crfqn, s", "seqeval, s", "times"]
    report.tables.append(Table("Processor seconds", head, rows))
    finish(report, output)
