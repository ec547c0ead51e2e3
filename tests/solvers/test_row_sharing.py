"""Threads that share rows, and runs that share an objective: the results are those of one alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from margin_problems import SINGLE, K, flat_objective, large

from crfqn.data.features import FeatureStore
from crfqn.kernels.thread_group import NO_RANK, join, new_group
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.penalties import GroupLasso
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.coordinate.row_kernels import N_ROW_PARTS
from crfqn.solvers.coordinate.row_state import MIN_ENTRIES_FOR_THREADS, LineSearch, RowBlocks
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool


def rows_at(point):
    """The rows of a point, for row descent."""
    return point.objective.state(RowBlocks, point)


def blocks_at_zero(objective):
    return rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))


def loss_over(name, labels):
    return (
        MultilabelRanking(np.arange(labels.size + 1), labels, K)
        if name == "ranking"
        else SINGLE[name](labels, K)
    )


def bits(result):
    return result.value, result.coords.tobytes(), result.weights.tobytes(), result.trace.value.tobytes()


@pytest.mark.parametrize("step", ["line search", "constant"])
@pytest.mark.parametrize("name", [*SINGLE, "ranking"])
def test_threads_change_nothing(name, step):
    _, labels, store, penalty = large(K)
    assert store.nnz > MIN_ENTRIES_FOR_THREADS
    runs = []
    for n_threads in (1, 2, 3):
        objective = flat_objective(store, loss_over(name, labels), n_threads=n_threads)
        result = minimize(objective, penalty, RowDescent(step=step), Run(tol=0.0, max_iter=6))
        runs.append(bits(result))
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("step", ["line search", "constant"])
def test_a_run_leaves_nothing_behind(step):
    """Again on the same objective, and after a run that has met more rows, the rows come in the same order."""
    _, labels, store, _ = large(K)
    penalty = GroupLasso(60.0, n_features=100, n_states=K)
    objective = flat_objective(store, MulticlassSquaredHinge(labels, K), n_threads=2)
    weak, found = GroupLasso(10.0, n_features=100, n_states=K), []
    for strength in (penalty, penalty, weak, penalty):
        result = minimize(objective, strength, RowDescent(step=step), Run(tol=0.0, max_iter=25))
        found.append(bits(result))
    assert found[0] == found[1] == found[3] != found[2]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_two_runs_at_once_on_one_objective(n_threads):
    _, labels, store, penalty = large(K)
    objective = flat_objective(store, MulticlassSquaredHinge(labels, K), n_threads=n_threads)
    solvers = [RowDescent(seed=0), RowDescent(seed=5, sigma=0.5)]
    alone = [bits(minimize(objective, penalty, solver, Run(tol=0.0, max_iter=25))) for solver in solvers]
    assert alone[0] != alone[1]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            together = list(
                threads.map(
                    lambda solver: minimize(objective, penalty, solver, Run(tol=0.0, max_iter=25)), solvers
                )
            )
            assert [bits(result) for result in together] == alone


@pytest.mark.parametrize("name", [*SINGLE, "ranking"])
def test_steps_that_are_rejected_are_tried_again_by_all_threads(name):
    """A sigma near 1 rejects most first steps, as other weights than those of a small sigma tell."""
    _, labels, store, _ = large(K)
    penalty = GroupLasso(3.0, n_features=100, n_states=K)
    found = []
    for n_threads in (1, 2, 4):
        objective = flat_objective(store, loss_over(name, labels), n_threads=n_threads)
        plain, blocks = (blocks_at_zero(objective) for _ in range(2))
        plain.sweep(np.arange(100), penalty)
        blocks.sweep(np.arange(100), penalty, LineSearch(0.9))
        assert np.any(blocks.row_weights != plain.row_weights, axis=1).sum() > 40
        violations, _ = blocks.sweep(np.arange(100), penalty, LineSearch(0.9))
        found.append((blocks.row_weights.tobytes(), violations.tobytes(), blocks.value(penalty)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", SINGLE)
def test_rows_of_different_sizes(name):
    """Rows of which all members have something, and rows of which most have nothing, in turns."""
    random = np.random.default_rng(3)
    density = np.where(np.arange(24) % 2, 0.001, 0.8)
    x = random.normal(size=(3000, 24)) * (random.random((3000, 24)) < density)
    labels = random.integers(0, K, 3000).astype(np.int32)
    store, penalty = FeatureStore.from_matrix(x, np.arange(3001)), GroupLasso(0.5, n_features=24, n_states=K)
    sizes = np.diff(store.indptr)
    assert sizes.min() < N_ROW_PARTS < 1000 < sizes.max()
    found = []
    for n_threads in (1, 2, 3, 4):
        blocks = blocks_at_zero(flat_objective(store, SINGLE[name](labels, K), n_threads=n_threads))
        for _ in range(4):
            blocks.sweep(np.arange(24), penalty)
        assert blocks.row_weights[sizes < 10].any()
        found.append((blocks.row_weights.tobytes(), blocks.state.margins.tobytes(), blocks.value(penalty)))
    assert found[0] == found[1] == found[2] == found[3]


class TestTeam:
    def test_all_come(self):
        """Unless the machine is so busy that the first ones do not wait for the last: then again."""
        with Pool(3) as pool:
            for _ in range(200):
                group, found = new_group(3), []
                pool.each(3, lambda _, group=group, found=found: found.append(join(group, 3, NO_RANK)))
                size = max(n for _, n in found)
                assert sorted(found) == sorted([(0, 0)] * (3 - size) + [(i, size) for i in range(size)])
                if size == 3:
                    return
        raise AssertionError("never")

    def test_who_does_not_come_is_not_waited_for(self):
        group = new_group(3)
        assert join(group, 3, NO_RANK) == (0, 1)
        assert join(group, 3, NO_RANK) == (0, 0)  # too late

    def test_a_sweep_of_one_who_expected_two(self):
        """What an interrupt leaves: the pool's other thread finishes alone."""
        _, labels, store, penalty = large(K)
        objective = flat_objective(store, MulticlassSquaredHinge(labels, K), n_threads=1)
        start = objective.at(np.empty(0, np.int64), np.empty(0))
        alone, expecting = rows_at(start), rows_at(start)
        alone.sweep(np.arange(objective.whole.map.n_features), penalty)
        objective.pool = Lonely()
        expecting.sweep(np.arange(objective.whole.map.n_features), penalty)
        np.testing.assert_array_equal(alone.state.margins, expecting.state.margins)
        np.testing.assert_array_equal(alone.row_weights, expecting.row_weights)


class Lonely:
    """A pool of two threads, one of which never comes."""

    n_threads, rank = 2, 0

    def each(self, n_parts, task):
        task(0)
