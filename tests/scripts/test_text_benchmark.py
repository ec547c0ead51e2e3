"""The benchmark of texts on a made-up set: what it says belongs to the weights that it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import crfsuite, swap, text
from benchmarks.text import Measured, Training
from harness.judging import judge
from harness.problems import Run, stored
from harness.texts import made_up

PENALTY = text.PENALTIES[1]


@pytest.fixture(scope="module")
def problem():
    return made_up().problem()


@pytest.fixture(scope="module")
def ours(problem):
    """A default fit, and one that went on to a target below its end."""
    with stored(problem) as path:
        return text.train(path, PENALTY, False, 20.887, 20.0)


def test_a_run_says_what_its_weights_are_worth(problem, ours):
    first, _ = ours
    verdict = judge(problem, first.weights, first.edges, l1=PENALTY.c1, l2=2 * PENALTY.c2)
    assert verdict.objective == pytest.approx(first.facts["value"], rel=1e-9)
    assert first.values[-1] == pytest.approx(verdict.objective, rel=1e-9)
    assert np.all(np.diff(first.seconds) >= 0)
    assert first.facts["status"] in ("ESTIMATED", "CONVERGED")


@pytest.mark.skipif(not crfsuite.is_installed(), reason="needs python-crfsuite")
def test_both_minimise_the_same(problem, ours):
    with stored(problem) as path:
        run = crfsuite.train(path, {"c1": PENALTY.c1, "c2": PENALTY.c2}, False, clock="processor_seconds")
    verdict = judge(problem, run.weights, run.edges, l1=PENALTY.c1, l2=2 * PENALTY.c2)
    assert verdict.objective == pytest.approx(run.values[-1], rel=1e-6)
    assert verdict.objective == pytest.approx(ours[0].facts["value"], rel=2e-3)


def test_one_import_changed():
    pytest.importorskip("sklearn_crfsuite")
    with stored(swap.load(swap.MADE_UP)) as path:
        fits = swap.by_turns(path, 50, is_chunked=False, repeats=1)
    (own,), (peer,) = fits["crfqn"], fits["CRFsuite"]
    assert own.f1 == peer.f1 == 1.0
    assert own.losses[-1] == pytest.approx(peer.losses[-1], rel=0.05)
    assert own.seconds > 0 < peer.seconds


def made_up_run(name, seconds, values, **facts):
    known = {"total": seconds[-1], "status": "ESTIMATED", "estimated_gap": 1e-4, "gap": 2e-3, "warnings": []}
    return Run(
        name=name,
        iterations=np.arange(len(seconds)),
        seconds=np.array(seconds),
        values=np.array(values),
        setup_seconds=0.0,
        passes=1.0,
        weights=None,
        n_nonzero=1,
        peak_bytes=1,
        facts=known | facts,
    )


def test_seconds_and_ratios():
    peer = made_up_run("CRFsuite", [1.0, 4.0, 9.0, 12.0], [200.0, 100.9, 100.05, 100.0], total=13.0)
    stopped = made_up_run("crfqn", [0.5, 1.0], [150.0, 100.05], estimated=[1e-2, 1e-4], gaps=[0.1, 0.05])
    on = made_up_run("crfqn", [0.6, 1.5, 2.0], [150.0, 100.05, 99.9])
    of = Training("company", "", PENALTY, False, [(stopped, on)], [peer], {})
    assert [text.speed_up(of, level) for level in text.LEVELS] == [4.0, 9.0, 6.5]
    assert of.optimum == 99.9
    never = replace(of, ours=[(stopped, None)])
    assert text.speed_up(never, 0.0) == 0.0
    assert text.seconds_above_end(never, 0.0) == ([np.inf], [13.0])
    asked = {figure.what: figure.is_met for figure in text.training_promises([of])}
    assert asked["l1, to 1e-3 above CRFsuite's end: worst"]
    assert asked["l1, to CRFsuite's end: worst"]  # three times are enough on the small sets
    assert not asked["l1, to CRFsuite's end: median"]
    proof = made_up_run(
        "crfqn", [1.0, 2.0], [100.0, 99.9], estimated=np.array([0.3, 0.2]), gaps=np.array([0.1, 0.2])
    )
    (row,) = text.certificate_table([replace(of, reference=proof)]).rows
    assert row[2:] == ["1.0e-01, 2.0e-01", "1.0e-01, 2.0e-01", "1.0e-01, 2.0e-01", "0.0e+00, 2.0e-03", "2.0"]


def test_figures_of_uses():
    slow, quick = (text.Use(s, a, t, 1e-4, 1, "") for s, a, t in ((4.0, 0.9, 100.0), (1.0, 0.897, 300.0)))
    page = text.report(Measured(uses={"company": {"CRFsuite": slow, "crfqn": quick}})).markdown()
    assert "4.00 (company)" in page
    assert "| 0.30 (company)" in page  # more points lost than may be
    assert "3.00 (company)" in page
