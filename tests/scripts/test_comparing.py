"""Comparisons on one problem: seconds to objectives by turns, known iterations, and what a table leaves out."""

from __future__ import annotations

import numpy as np
from harness.comparing import CLOCKS, Comparison
from harness.judging import Judged, Verdict
from harness.problems import Run


def judged(name, seconds, values, **facts):
    run = Run(
        name, np.arange(1, len(values) + 1), np.array(seconds), np.array(values), None, 3, 10**6, facts=facts
    )
    return Judged(run, Verdict(min(values), 0.5))


OURS = judged("crfqn", [1.0, 2.0], [11.0, 10.0], processor_seconds=np.array([2.0, 3.0]), gap=1e-3)
PEER = judged("saga", [4.0, 8.0], [11.0, 10.0], processor_seconds=np.array([4.0, 9.0]))
OTHER = judged("liblinear", [1.0], [np.nan])
TARGETS = {"1e-1": 11.0, "the end": 10.0}


def test_ratios_are_medians_of_turns_by_both_clocks():
    slower = judged("saga", [4.0, 16.0], [11.0, 10.0], processor_seconds=np.array([4.0, 9.0]))
    turns = {"crfqn": [OURS.run, OURS.run], "saga": [PEER.run, slower.run]}
    found = Comparison([OURS, PEER, OTHER], TARGETS, turns, others=["liblinear"], clocks=CLOCKS)
    assert found.peer is PEER
    assert found.seconds(PEER, "the end") == [8.0, 16.0]
    assert found.speed_up("the end") == 6.0
    assert found.speed_up("1e-1", "processor_seconds") == 2.0
    table = found.table("title", [])
    assert [row[0] for row in table.rows] == [
        "crfqn, 2 iterations", "saga, 2 iterations", "liblinear, one-vs-rest",
        "saga over crfqn, wall clock", "saga over crfqn, processor time",
    ]  # fmt: skip
    assert "certified gap" in table.head
    assert "file, kB" not in table.head  # no library has one
    assert table.rows[2][table.head.index("objective")] == "(another)"


def test_iterations_that_are_known_stand_for_those_that_were_not_made():
    few = judged("CRFsuite", [5.0], [12.0], log_seconds=[5.0])
    found = Comparison([OURS, few], TARGETS, iterations={"the end": 4})
    assert found.seconds(few, "the end") == [20.0]
    assert found.speed_up("the end") == 10.0
    assert found.speed_up("1e-1") is None


def test_crfqn_alone_has_no_ratios():
    found = Comparison([OURS], TARGETS, unfinished=["skglm: not ready after 5 s"])
    assert found.peer is None
    assert found.speed_up("the end") is None
    assert [row[0] for row in found.table("title", []).rows] == [
        "crfqn, 2 iterations",
        "skglm: not ready after 5 s",
    ]
