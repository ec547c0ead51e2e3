"""Checkpoints: a run resumed from any of its states ends as it would have, to the bit; what does not fit is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from problems import make_problem, make_tree_problem

from crfqn.estimators.checkpoint import Checkpoint
from crfqn.objectives.blocks import BlockedObjective
from crfqn.penalties import ElasticNet
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import Constants, ProxQN, Stage, TopViolators, WarmStart
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stopping import Estimated

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(autouse=True)
def unsynchronised(monkeypatch):
    """Files that a power cut would lose: nothing here is about the disk."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


CHAIN = make_problem(1)
FLAT = make_tree_problem("flat", 3, n_items=60, n_features=8)
OBJECTIVES = {
    "chain": CHAIN.objective,
    "flat": FLAT.objective,
    "blocks": lambda: BlockedObjective.of_blocks(CHAIN.objective(), 7),
    "blocks without room": lambda: BlockedObjective.of_blocks(CHAIN.objective(), 7, most_kept=1),
}
SAMPLES = WarmStart((Stage(3, 2.0), Stage(2, 1.0)), fewest_positions=3, fewest_by_weight=0.0)
# As small as the problems are: sets that leave coordinates out, epochs of few steps, metrics that are renewed.
PROX_QN = ProxQN(
    entry=TopViolators(most=3), few_weights=0, warm_start=SAMPLES, constants=Constants(online_epochs=0)
)
L1, L2 = ElasticNet(0.4, 0.1), ElasticNet(0.0, 0.5)
RUNS = {
    "prox-qn": (PROX_QN, L1),
    "prox-qn, free": (PROX_QN, ElasticNet(0.4, 0.1, unpenalised=np.array([0, 5]))),
    "prox-qn, default": (ProxQN(), L1),
    "prox-qn, paper": (ProxQN.paper(), L1),
    "l-bfgs": (LBFGS(), L2),
    "owl-qn": (OWLQN(), L1),
    "fista": (FISTA(), L1),
    "fista, function": (FISTA(restart="function"), L1),
    "prox-gd": (ProxGD(), L1),
    "spa-rsa": (SpaRSA(), L1),
}
SETTINGS = {"tol": Estimated(1e-5), "max_iter": 14, "to_rounding": True}


class Looks:
    """A callback with a checkpoint; contents : what it has been before each report."""

    def __init__(self, folder, every, most=10**6, held_out=None):
        self.checkpoint, self.most, self.held_out, self.contents = (
            Checkpoint(folder, every),
            most,
            held_out,
            {},
        )

    def __call__(self, record):
        if self.checkpoint.exists:
            self.contents.setdefault(Path(self.checkpoint.path).read_bytes(), record)
        return len(self.contents) >= self.most


def run(objective, solver, penalty, looks, **settings):
    return minimize(objective, penalty, solver, callback=looks, **(SETTINGS | settings))


def facts(result):
    """All of a result but its times, as bytes."""
    names = [field.name for field in fields(result) if field.name not in ("trace", "seconds", "held_out")]
    rows = [repr(replace(row, seconds=0.0)) for row in result.trace.rows]
    return {name: repr(getattr(result, name)) for name in names} | {
        "rows": rows,
        "weights": result.weights.tobytes(),
        "coords": result.coords.tobytes(),
    }


@pytest.mark.parametrize("where", OBJECTIVES)
@pytest.mark.parametrize("method", RUNS)
def test_a_run_goes_on_from_each_of_its_states_to_the_bit(tmp_path, where, method):
    problem = (OBJECTIVES[where], *RUNS[method])
    whole, looks = resumed(tmp_path / "whole", *problem)
    assert len(looks.contents) >= 4
    for content in looks.contents:
        assert facts(resumed(tmp_path / "other", *problem, content=content, every=10**6)[0]) == facts(whole)
    assert [path.name for path in tmp_path.glob("*/*")] == 2 * ["checkpoint.crfqn"]


def resumed(folder, make, solver, penalty, content=None, every=1, **settings):
    """The result of a run, from the content of a checkpoint on, and the looks at its own."""
    folder.mkdir(exist_ok=True)
    if content is not None:
        (folder / "checkpoint.crfqn").write_bytes(content)
    looks = Looks(folder, every)
    return run(make(), solver, penalty, looks, **settings), looks
