"""The benchmark of row-sparse models on made-up texts: what it says belongs to the weights that it has."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import rows
from benchmarks.rows import capacity, on_core, some_cores
from harness.data import DATA, Source
from harness.problems import stored

from crfqn.errors import InputError
from crfqn.threads import Pool


@pytest.fixture(scope="module")
def problem():
    return Source(DATA["sector"], is_quick=True).load()


@pytest.mark.parametrize("loss", rows.LOSSES)
def test_a_run_ends_near_the_optimum(problem, loss):
    task = rows.Task("made-up", loss, 1e-2, 0.0, "lightning", 3.0)
    n_items = problem.y_train.size
    best = rows.train(problem, replace(task, optimum=1e-9), 1, 2.0).values.min() / n_items
    run = rows.train(problem, replace(task, optimum=best), 1, 20.0)
    verdict, values = rows.judged(problem, task, run.weights), run.values / n_items
    assert verdict.objective == pytest.approx(values[-1], rel=1e-9)
    assert best <= values[-1] <= best * (1.0 + rows.LEVEL)
    assert np.all(values[:-1] > best * (1.0 + rows.LEVEL))
    assert np.all(np.diff(run.seconds) > 0)


def test_cores_take_turns(problem, monkeypatch):
    given = iter([1.9, 1.2, 2.0, 1.3, 1.95, 1.96, 1.97, 1.98])
    monkeypatch.setattr(rows, "capacity", lambda pool: next(given))
    task = rows.Task("made-up", "squared-hinge", 1e-2, 1e9, "lightning", 3.0)
    with stored(problem) as path:
        turns = rows.take_turns(path, task, 2, 2.0, warm_up_seconds=0.1)
    assert turns.capacity == [1.2, 1.95]
    assert (len(turns.one), len(turns.two)) == (4, 2)


@pytest.mark.skipif(some_cores()[0] is None, reason="this system does not say which cores there are")
def test_a_thread_stays_on_its_core():
    before = os.sched_getaffinity(0)
    for core in some_cores():
        with on_core(core):
            assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before
    with on_core(None):
        assert os.sched_getaffinity(0) == before


def test_capacity_is_a_number_of_cores():
    with Pool(2) as pool:
        assert 0.4 < capacity(pool) < 4.0


def test_figures_of_a_comparison(problem):
    task, seconds = rows.Task("made-up", "squared-hinge", 1e-3, 1.0, "lightning", 3.0), [1.0, 1.0, 1.0]
    verdict = rows.judged(problem, task, np.zeros((len(problem.classes), problem.X_train.shape[1])))
    one = [1.0, 3.0, 0.5, 1.5, 4.0, 4.0]
    slow = rows.Comparison(task, one, seconds, [1.95, 1.0, 1.5], 7.0, True, 60.0, verdict)
    assert slow.gains.tolist() == [2.0, 1.0, 4.0]
    assert slow.real_gains.tolist() == [2.0, 4.0]
    assert slow.cells()[1:7] == ["2.25", "1.00", "2.00", "3.00 (2 of 3)", "lightning", "7.00"]
    assert [(figure.measured, figure.is_met) for figure in slow.promises()] == [
        ("3.1 times", True),
        ("3.00 times", True),
    ]
    halved = replace(slow, capacity=[1.1, 1.0, 1.2])
    assert halved.cells()[4] == "none"
    assert len(halved.promises()) == 1
    assert not replace(slow, one=[1.5] * 6).promises()[1].is_met
    unfinished = replace(slow, peer=None)
    assert unfinished.cells()[6] == "not in 60"
    assert unfinished.promises()[0].measured == "> 26.7 times"
    unmeasured = replace(unfinished, has_peer=False)
    assert unmeasured.cells()[6] == "not measured"
    assert [figure.measured for figure in unmeasured.promises()] == ["3.00 times"]


def test_another_split_is_refused(problem, monkeypatch):
    monkeypatch.setitem(rows.PROBLEMS, "mnist", lambda: problem)
    with pytest.raises(InputError, match="mnist: the items come in another order"):
        rows.rows(["mnist"], ["logistic"], 1, 1.0)
