"""The benchmark of row-sparse models on made-up texts: what it says belongs to the weights that it has."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

from bcd_study.cases import DATA, Source
from bcd_study.judge import Judge
from benchmarks import rows
from benchmarks.items import stored

from crfqn.errors import InputError


@pytest.fixture(scope="module")
def problem():
    return Source(DATA["sector"], is_quick=True).load()


@pytest.mark.parametrize("loss", rows.JUDGED)
def test_a_run_ends_near_the_optimum(problem, loss, monkeypatch):
    monkeypatch.setattr(rows, "WARM_UP_SECONDS", 0.1)
    task = rows.Task("made-up", loss, 1e-2, 0.0, "lightning", 3.0)
    with stored(problem) as path:
        best = rows.train(path, replace(task, optimum=1e-9), 1, 2.0).values.min()
        run = rows.train(path, replace(task, optimum=best), 1, 20.0)
    verdict = Judge(problem).verdict(run.weights, rows.JUDGED[loss], task.strength)
    assert verdict.objective == pytest.approx(run.values[-1], rel=1e-9)
    assert best <= run.values[-1] <= best * (1.0 + rows.LEVEL)
    assert np.all(run.values[:-1] > best * (1.0 + rows.LEVEL))
    assert np.all(np.diff(run.seconds) > 0)


def test_figures_of_a_comparison(problem):
    verdict = Judge(problem).verdict((np.empty(0, np.int64), np.empty(0)), rows.JUDGED["logistic"], 1e-2)
    task = rows.Task("made-up", "squared-hinge", 1e-3, 1.0, "lightning", 3.0)
    slow = rows.Comparison(task, [2.0, 1.0, 4.0], [1.0, 1.0, 1.0], 7.0, True, 60.0, verdict)
    assert slow.gain == 2.0
    assert slow.cells()[1:6] == ["2.00", "1.00", "2.00", "lightning", "7.00"]
    assert [(figure.measured, figure.is_met) for figure in slow.figures()] == [
        ("3.5 times", True),
        ("7.0 times", True),
    ]
    unfinished = replace(slow, peer=None)
    assert unfinished.cells()[5] == "not in 60"
    assert unfinished.figures()[0].measured == "> 30.0 times"
    assert replace(unfinished, has_peer=False).cells()[5] == "not measured"
    assert replace(unfinished, has_peer=False).figures() == []


def test_another_split_is_refused(problem, monkeypatch):
    monkeypatch.setitem(rows.PROBLEMS, "mnist", lambda: problem)
    with pytest.raises(InputError, match="mnist: the items come in another order"):
        rows.measure(["mnist"], ["logistic"], 1, 1.0, None)
