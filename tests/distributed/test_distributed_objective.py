"""Shards on workers: every number is that of the same shards in one process, to the bit, whoever holds them."""

from __future__ import annotations

import gc
import os
import signal
import time
from functools import partial
from threading import Timer

import numpy as np
import pytest
from sharded_problems import CUTS, HINGE, KINDS, MANY_CUTS, N_ITEMS, blocked, parts_of, whole_of

from crfqn import ChainCRF
from crfqn.arrays import SparseWeights
from crfqn.distributed import distributed_objective, workers
from crfqn.distributed.shard import applied, changed
from crfqn.distributed.workers import WorkersLostError
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.estimators.checkpoint import Checkpoint
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stopping import Run

SMALL = {"tol": 1e-4, "max_iter": 60, "max_seconds": 120}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def weights_of(objective, seed=1):
    random = np.random.default_rng(seed)
    coords = np.flatnonzero(random.random(objective.n_coords) < 0.6)
    return coords, random.normal(size=coords.size)


def same_result(found, expected):
    assert (found.status, found.n_iter, found.passes) == (expected.status, expected.n_iter, expected.passes)
    assert found.value == expected.value
    assert np.array_equal(found.gap, expected.gap, equal_nan=True)
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_every_number_is_that_of_blocks(threads, kind):
    shared, here = distributed_objective(threads, parts_of(kind)), blocked(kind)
    for name in (
        "n_coords",
        "n_items",
        "n_positions",
        "n_features",
        "total_weight",
        "operations",
        "is_convex",
    ):
        assert getattr(shared, name) == getattr(here, name)
    for name in ("has_curvature", "is_smooth", "has_gram", "has_marginals", "has_dual", "mean_occurrence"):
        assert getattr(shared, name) == getattr(here, name)
    assert shared.hessian_bound() == here.hessian_bound()
    coords = np.arange(here.n_coords)
    start = weights_of(here)
    for step in (None, 0.5, 0.25):
        points = [each.at(*start) for each in (shared, here)]
        if step is not None:
            points = [point.along(*weights_of(here, 2)).at(step) for point in points]
        found, expected = points
        assert found.value == expected.value
        assert found.dual_value(0.7) == expected.dual_value(0.7)
        np.testing.assert_array_equal(found.gradient(coords[::2]), expected.gradient(coords[::2]))
        np.testing.assert_array_equal(found.screen(0.3).coords, expected.screen(0.3).coords)
        np.testing.assert_array_equal(
            found.screen_rows(0.3, 0.1, 2).coords, expected.screen_rows(0.3, 0.1, 2).coords
        )
        np.testing.assert_array_equal(found.curvature(coords), expected.curvature(coords))
        np.testing.assert_array_equal(
            found.objective.feature_scale(coords), expected.objective.feature_scale(coords)
        )
        models = [point.hessian_model(coords, 100, 1000) for point in points]
        np.testing.assert_array_equal(*models)
    assert shared.n_passes == here.n_passes


@pytest.mark.parametrize("kind", ["chain", HINGE])
def test_many_shards_add_up_as_many_blocks(threads, kind):
    shared, here = distributed_objective(threads, parts_of(kind, MANY_CUTS)), blocked(kind, MANY_CUTS)
    assert len(shared.parts) == len(MANY_CUTS) - 1 > 8
    here.likely_coords = np.arange(1)
    found, expected = (each.at(*weights_of(here)) for each in (shared, here))
    assert found.value == expected.value
    assert found.dual_value(0.7) == expected.dual_value(0.7)
    assert found.dual_value(0.7) == pytest.approx(whole_of(kind).at(*weights_of(here)).dual_value(0.7))
    for coords in (np.arange(1), np.arange(here.n_coords)):
        np.testing.assert_array_equal(found.gradient(coords), expected.gradient(coords))
    assert shared.fingerprints() == here.fingerprints()


@pytest.mark.parametrize(("stride", "again"), [(3, 2), (70, 1)])
def test_samples_are_of_all_items(threads, stride, again):
    shared, here = distributed_objective(threads, parts_of("chain")), blocked("chain")
    found, expected = (each.sample(stride).sample(again) for each in (shared, here))
    assert (found.n_items, found.n_positions) == (expected.n_items, expected.n_positions)
    assert found.n_items == len(range(stride // 2, N_ITEMS, stride)) // again
    assert found.at(*weights_of(here)).value == expected.at(*weights_of(here)).value


@pytest.mark.parametrize("solver", [ProxQN(), FISTA(), LBFGS()], ids=lambda s: type(s).__name__)
def test_a_run_goes_on_from_a_checkpoint(threads, tmp_path, solver):
    penalty = ElasticNet(0.0 if isinstance(solver, LBFGS) else 1.0, 0.1)

    def run(**settings):
        shared = distributed_objective(threads, parts_of("chain"))
        return minimize(shared, penalty, solver, Run(**SMALL | settings))

    checkpoint = Checkpoint(tmp_path, 1)
    cut = run(callback=lambda state: state.iteration >= 4, checkpoint=checkpoint)
    assert cut.status is Status.CALLBACK
    again, whole = run(checkpoint=checkpoint), run()
    assert again.status is whole.status
    assert again.value == pytest.approx(whole.value, rel=1e-4)
    assert again.trace.value[: len(cut.trace)].tolist() == cut.trace.value.tolist()
    assert whole.n_iter > 5
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.crfqn"]


def test_a_point_sends_the_weights_that_change(threads):
    shared = distributed_objective(threads, parts_of("chain"))
    start, before = shared.at(*weights_of(shared)), shared.executor.workers.tally.sent
    assert start.value > 0
    of_all = shared.executor.workers.tally.sent - before
    for step in (1.0, 0.5):
        before = shared.executor.workers.tally.sent
        assert start.along(start.coords[:3], np.ones(3)).at(step).value > 0
        assert shared.executor.workers.tally.sent - before < 150 * len(shared.parts) < of_all


@pytest.mark.parametrize(
    "solver", [ProxQN(), OWLQN(), FISTA(), SpaRSA(), ProxGD()], ids=lambda s: type(s).__name__
)
def test_solvers_take_the_same_steps(threads, kind, solver):
    shared, here = distributed_objective(threads, parts_of(kind)), blocked(kind)
    penalty = ElasticNet(1.0, 0.1)
    found, expected = (minimize(each, penalty, solver, Run(**SMALL)) for each in (shared, here))
    same_result(found, expected)
    assert found.n_iter > 2


def test_lbfgs_takes_the_same_steps(threads, kind):
    shared, here = distributed_objective(threads, parts_of(kind)), blocked(kind)
    found, expected = (minimize(each, ElasticNet(0.0, 0.5), LBFGS(), Run(**SMALL)) for each in (shared, here))
    same_result(found, expected)


def test_the_warm_start_uses_samples_of_every_shard(threads):
    cuts = (0, 9000, 12000)
    shared, here = distributed_objective(threads, parts_of("chain", cuts)), blocked("chain", cuts)
    states, n_bytes = [], []

    def note(state):
        states.append(state.sample_fraction)
        n_bytes.append(state.n_bytes)

    found = minimize(shared, ElasticNet(10.0), ProxQN(), Run(callback=note, **SMALL))
    assert min(n_bytes) > 0
    same_result(found, minimize(here, ElasticNet(10.0), ProxQN(), Run(**SMALL)))
    assert min(states) < 0.1
    gc.collect()
    assert shared.at(*weights_of(shared)).value > 0  # takes the news of what was dropped along
    assert not any(kept(shared, holder, "samples") for holder in shared.executor.workers.holders)


def test_passes_are_those_in_memory(threads):
    """One piece differs by rounding, and by which positions a metric samples: here it has all of them."""
    found, expected = (
        minimize(each, ElasticNet(1.0), FISTA(), Run(**SMALL))
        for each in (distributed_objective(threads, parts_of("chain")), whole_of("chain"))
    )
    assert (round(found.passes, 9), found.n_iter) == (expected.passes, expected.n_iter)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)


def kept(shared, holder, name):
    """The keys of what a shard keeps, seen past the protocol."""

    def look(dask_worker):
        return list(getattr(dask_worker.state.actors[holder.future.key], name))

    return shared.executor.workers.client.run(look, workers=[holder.address])[holder.address]


def test_dropped_points_leave_the_workers(threads):
    shared = distributed_objective(threads, parts_of("chain"))
    for seed in range(5):
        point = shared.at(*weights_of(shared, seed))
        assert point.along(*weights_of(shared, 9)).at(0.5).value > 0
    gc.collect()
    assert point.value > 0
    for holder in shared.executor.workers.holders:
        assert list(kept(shared, holder, "points")) == [point.held]


@pytest.mark.parametrize("solver", [RowDescent(), SGDL1()], ids=lambda s: type(s).__name__)
def test_methods_over_single_items_are_refused_by_name(threads, solver):
    shared = distributed_objective(threads, parts_of("chain" if isinstance(solver, SGDL1) else "flat"))
    with pytest.raises(
        UnsupportedObjectiveError, match=r"\w+ is kept item by item, and the items are on workers"
    ):
        minimize(shared, ElasticNet(1.0), solver, Run(**SMALL))


def test_changes_of_weights_are_exact():
    random = np.random.default_rng(0)
    before = SparseWeights(np.empty(0, np.int64), np.empty(0))
    for size in (5, 0, 20, 20, 3):
        coords = np.sort(random.choice(30, size, replace=False))
        after = SparseWeights(coords, random.choice([0.0, 1.0, 2.5], size))
        found = applied(before, changed(before, after))
        np.testing.assert_array_equal(found.coords, after.coords)
        np.testing.assert_array_equal(found.weights, after.weights)
        before = after


def test_what_is_no_client_is_refused():
    with pytest.raises(InputError, match="or the address of a scheduler, got NoneType"):
        distributed_objective(None, parts_of("chain"))


def test_an_error_of_a_shard_is_raised_here(threads):
    shared = distributed_objective(threads, [*parts_of("chain"), broken_file])
    with pytest.raises(InputError, match="no such file"):
        assert shared.part_statistics


def test_what_is_no_part_is_refused(threads):
    shared = distributed_objective(threads, [*parts_of("chain"), partial(whole_of, "chain")])
    with pytest.raises(InputError, match=r"returns a Part of the items, got Objective from .*whole_of"):
        assert shared.n_items


def broken_file():
    raise InputError("shard.conll: no such file")


def kill_worker(client, address):
    pids = client.run(os.getpid)
    os.kill(pids[address], signal.SIGKILL)


@pytest.mark.parametrize("kind", ["chain", "flat"])
def test_a_killed_worker_changes_no_bit(processes, kind):
    shared = distributed_objective(processes, parts_of(kind), 600.0)
    here, killed = blocked(kind), []

    def kill_one(state):
        if state.iteration in (2, 4) and len(killed) < state.iteration / 2:
            killed.append(shared.executor.workers.holders[state.iteration // 2].address)
            kill_worker(processes, killed[-1])
        return False

    found = minimize(shared, ElasticNet(0.5), ProxQN(), Run(callback=kill_one, **SMALL))
    same_result(found, minimize(here, ElasticNet(0.5), ProxQN(), Run(**SMALL)))
    assert len(killed) == 2
    assert shared.executor.workers.tally.n_lost >= 2


def end_workers(cluster, client):
    cluster.scale(0)
    while client.nthreads():
        time.sleep(0.01)


@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_without_a_worker_there_is_an_error(wait):
    from distributed import Client
    from sharded_problems import connected

    with connected(n_workers=2, processes=False) as cluster, Client(cluster) as client:
        shared = distributed_objective(client, parts_of("chain"), wait)
        assert shared.n_items == CUTS[-1]
        end_workers(cluster, client)
        expected = rf"no worker is left \(2 lost\), and none has come within {wait:g} seconds\. Start workers"
        begun = time.monotonic()
        with pytest.raises(
            WorkersLostError, match=rf"{expected}, `dask worker inproc:.*--worker-timeout SECONDS"
        ):
            assert shared.at(*weights_of(shared)).value
        assert time.monotonic() - begun >= wait


def test_a_worker_that_comes_during_the_wait_changes_no_bit():
    from distributed import Client
    from sharded_problems import connected

    with connected(n_workers=1, processes=False) as cluster, Client(cluster) as client:
        shared, lost = distributed_objective(client, parts_of("chain"), 300.0), []

        def replace_late(state):
            if state.iteration == 2 and not lost:
                lost.append(list(client.nthreads()))
                end_workers(cluster, client)
                Timer(0.5, cluster.scale, [2]).start()
            return False

        found = minimize(shared, ElasticNet(0.5), ProxQN(), Run(callback=replace_late, **SMALL))
        assert not set(*lost) & set(client.nthreads())
    same_result(found, minimize(blocked("chain"), ElasticNet(0.5), ProxQN(), Run(**SMALL)))
    assert shared.executor.workers.tally.n_lost >= 1


@pytest.mark.parametrize("closed", ["client", "cluster"])
def test_a_client_that_is_closed_meanwhile_is_told(closed):
    from distributed import Client
    from sharded_problems import connected

    with connected(n_workers=1, processes=False) as cluster, Client(cluster) as client:
        shared = distributed_objective(client, parts_of("chain"))

        def close_one(state):
            if state.iteration == 1:
                {"client": client, "cluster": cluster}[closed].close()
            return False

        with pytest.raises(
            WorkersLostError, match=r"client.*closed during the training: connect a new client"
        ):
            minimize(shared, ElasticNet(0.1), ProxQN(), Run(callback=close_one, **SMALL))
        with pytest.raises(WorkersLostError, match=r"closed during the training.*call fit again"):
            assert shared.at(*weights_of(shared)).value
    assert client.status == "closed"


def end_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_shard_that_ends_its_workers_is_named(monkeypatch):
    """Dask gives up after `allowed-failures` more workers where shards are read for their names; later we do."""
    from distributed import Client
    from sharded_problems import connected

    monkeypatch.setattr(workers, "MAX_LOSSES", 0)
    with connected(n_workers=2, processes=True) as cluster, Client(cluster) as client:
        cluster.scheduler.allowed_failures = 0
        expected = r"shard 0: 1 workers in a row were lost with it.* smaller shards need less"
        with pytest.raises(WorkersLostError, match=expected):
            ChainCRF(dask_client=client).fit([end_this_process])
        with pytest.raises(WorkersLostError, match=expected):
            assert distributed_objective(client, [end_this_process]).part_statistics


def test_the_number_of_workers_changes_no_bit(threads):
    from distributed import Client
    from sharded_problems import connected

    results = [
        minimize(distributed_objective(threads, parts_of("chain")), ElasticNet(1.0), ProxQN(), Run(**SMALL))
    ]
    with connected(n_workers=1, processes=False) as cluster, Client(cluster) as client:
        alone = distributed_objective(client, parts_of("chain"))
        results.append(minimize(alone, ElasticNet(1.0), ProxQN(), Run(**SMALL)))
    same_result(*results)
    assert results[0].status is Status.CONVERGED
