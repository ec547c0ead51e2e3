"""Block coordinate descent by raw feature: the loss that follows single blocks, and where the sweeps lead.

The incremental loss is held against points evaluated from scratch; optima against Prox-QN, itself tested against
enumeration.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from linked import from_python
from problems import curvature_at, dense_weights, make_likelihood, make_problem, make_tree_problem

from crfqn import ChainCRF
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.objective import Objective, in_blocks
from crfqn.objectives.point import Point
from crfqn.papers.zhong2014.feature_bcd import BlockState, FeatureBCD
from crfqn.papers.zhong2014.feature_bcd_kernels import SweepRule, newton_direction, search_length
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

pytestmark = pytest.mark.usefixtures("compiled")

PROBLEMS = {
    "chain": make_problem(4, n_items=15, n_features=25, longest=9),
    "real": make_problem(3, n_items=20, longest=12, is_binary=False),
    "weighted": replace(make_problem(6), weights=np.array([0.5, 3, 1, 2, 0.1, 1, 1, 7, 0, 2, 0.3, 1])),
    "length 1": make_problem(5, n_items=30, longest=1),
    "ten labels": make_problem(8, n_items=20, n_features=12, n_states=10, longest=6),
    "forest": make_tree_problem("forest", 1),
    "inner labels": make_tree_problem("labels at inner nodes", 2, n_items=60, is_binary=True),
    "flat": make_tree_problem("flat", 3, n_items=60, n_features=12),
    "weighted forest": make_tree_problem("forest", 4, n_features=8, has_weights=True),
}
RULE = SweepRule(0.01, 0.5, 1e-10, 0.0, 0.0, noise=1e-12)


def blocks_at(point: Point) -> BlockState:
    """The loss from a point on."""
    return point.objective.state(BlockState, point)


def start_of(objective: Objective, scale: float, seed: int = 0) -> BlockState:
    """The loss at random weights, half of them zeros."""
    random = np.random.default_rng(seed)
    w = scale * random.normal(size=objective.n_coords) * (random.random(objective.n_coords) < 0.5)
    coords = np.flatnonzero(w)
    return blocks_at(objective.at(coords, w[coords]))


def check_against_scratch(loss: BlockState, tol: float) -> None:
    """Losses, gradients, curvatures and weights equal those of a point evaluated from scratch; `tol` is relative."""
    point = loss.point()
    size = max(1.0, float(np.abs(point.whole.evaluation.log_partition).max()))
    np.testing.assert_allclose(loss.item_losses, point.item_losses, rtol=0, atol=tol * size)
    assert loss.value == pytest.approx(point.value, abs=tol * size * loss.objective.n_items)
    for block in loss.blocks:
        coords = loss.coords(np.array([block]))
        g, h = loss.derivatives(block)
        np.testing.assert_allclose(g, point.gradient(coords), atol=tol * size)
        if block < loss.n_features:
            np.testing.assert_allclose(h, curvature_at(point).diagonal(coords), atol=tol * size)


@pytest.mark.parametrize("scale", [1.0, 300.0, 1e5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_many_moves_leave_what_an_evaluation_from_scratch_finds(name, scale):
    """Moves of all sizes, tried once or twice, accepted or not; extreme scores take the way over logarithms."""
    objective, random = PROBLEMS[name].objective(), np.random.default_rng(1)
    loss = start_of(objective, scale)
    forms = set()
    w = dense_weights(PROBLEMS[name], *loss.weights)
    for _ in range(120):
        block = int(random.choice(loss.blocks))
        coords, before = loss.coords(np.array([block])), loss.value
        if random.random() < 0.5:
            loss.derivatives(block)
        delta = scale * random.normal(size=coords.size) * (random.random(coords.size) < 0.7)
        if random.random() < 0.3:
            delta = -loss.weights_of(block)  # back to zero
        loss.try_move(block, delta)
        step = random.choice([1.0, 0.5, 0.01])
        change = loss.try_move(block, delta, step)
        if random.random() < 0.4:
            loss.reject()
            assert loss.value == pytest.approx(before, rel=1e-13)
        else:
            loss.accept()
            w[coords] += step * delta
            assert loss.value == pytest.approx(before + change, rel=1e-12, abs=1e-12 * loss.rounding)
        if loss.chain is not None:
            forms |= set(loss.chain.marks[2])
    np.testing.assert_allclose(dense_weights(PROBLEMS[name], *loss.weights), w, atol=1e-12 * scale)
    assert (loss.weights[1] != 0).all()
    assert (np.diff(loss.weights[0]) > 0).all()
    check_against_scratch(loss, 1e-10)
    if loss.chain is not None and name != "length 1":
        assert forms == {1.0: {0}, 300.0: {0, 1}, 1e5: {0, 1}}[scale] or (scale > 1 and 1 in forms)


def test_curvature_of_edges_is_the_variance_within_each_position():
    """By differences of nothing: sum_t P_t (1 - P_t) from the enumeration of each pair of neighbours."""
    problem = replace(make_problem(6, longest=4), weights=np.linspace(0.5, 2, 12))
    objective = problem.objective()
    loss = start_of(objective, 1.0)
    w = dense_weights(problem, *loss.weights)
    expected = np.zeros((problem.n_states, problem.n_states))
    for (phi, _, weight), labels in zip(problem.counts, problem.labels, strict=True):
        score = phi @ w
        p = np.exp(score - score.max())
        p /= p.sum()
        paths = np.array(list(itertools.product(range(problem.n_states), repeat=len(labels))))
        for t in range(1, len(labels)):
            pair = np.zeros_like(expected)
            np.add.at(pair, (paths[:, t - 1], paths[:, t]), p)
            expected += weight * pair * (1 - pair)
    np.testing.assert_allclose(loss.derivatives(problem.n_features)[1], expected.ravel(), rtol=1e-10)
    wide = start_of(objective, 1e4)
    assert wide.chain.marks[2].any()
    assert (wide.derivatives(problem.n_features)[1] >= 0).all()


class TestInferenceCounted:
    """Two items of 4 and 3 positions; feature 0 at positions 1 and 2 of the first, 1 at the end of the second."""

    @pytest.fixture
    def objective(self):
        matrix = np.zeros((7, 2))
        matrix[[1, 2], 0] = 1.0
        matrix[6, 1] = 1.0
        store = FeatureStore.from_matrix(matrix, np.array([0, 4, 7]))
        targets = np.array([0, 1, 0, 1, 1, 0, 1], np.int32)
        return make_likelihood(store, Chain(store.offsets, 2), targets, n_threads=1)

    @staticmethod
    def messages(objective, action):
        """The messages that an action computes: half a pass over a position each."""
        before = objective.n_passes
        action()
        return (objective.n_passes - before) * 2 * objective.n_positions

    def test_of_a_chain(self, objective):
        point = objective.at(np.empty(0, np.int64), np.empty(0))
        assert point.value > 0
        assert objective.n_passes == 1
        loss, delta = blocks_at(point), np.array([0.3, -0.2])
        counted = [
            lambda: loss.derivatives(0),  # forward 0, 1, 2; backward 2, 1 (the last one is always known)
            lambda: loss.derivatives(0),  # nothing more
            lambda: loss.try_move(0, delta),  # forward 1, 2
            lambda: loss.try_move(0, delta, 0.5),  # again
            lambda: loss.accept(),
            lambda: loss.derivatives(0),  # forward messages are those of the move; backward 1
            lambda: loss.derivatives(1),  # the other item: forward 4, 5, 6
            lambda: loss.try_move(1, delta),  # forward 6
            lambda: loss.reject(),  # forward 6
            lambda: loss.derivatives(2),  # edges: forward 3, backward 0; backward 5, 4
            lambda: loss.try_move(2, np.ones(4)),  # forward everywhere
            lambda: loss.accept(),
            lambda: loss.derivatives(0),  # backward 2, 1
        ]
        expected = [5, 0, 2, 2, 0, 1, 3, 1, 1, 4, 7, 0, 2]
        assert [round(self.messages(objective, action), 9) for action in counted] == expected

    def test_of_a_taxonomy(self):
        problem = make_tree_problem("forest", 1)
        objective = problem.objective()
        point = objective.at(np.empty(0, np.int64), np.empty(0))
        assert point.value > 0
        before = objective.n_passes
        loss = blocks_at(point)
        assert objective.n_passes == before + 1
        n_holding = np.count_nonzero(problem.x[:, 2])
        delta = np.ones(problem.n_states)
        for action, expected in [
            (lambda: loss.derivatives(2), 0),
            (lambda: loss.try_move(2, delta), n_holding),
            (lambda: loss.accept(), n_holding),
        ]:
            assert self.messages(objective, action) == pytest.approx(expected)

    def test_a_run_counts_scans_and_sweeps(self, objective):
        result = minimize(objective, ElasticNet(0.1), FeatureBCD(order="cyclic"), Run(tol=0.0, max_iter=1))
        # A pass for the first look; in the sweep at most: look, try and accept of both features and of the edges.
        assert 1 < result.passes <= 1 + (5 + 2 + 1 + 3 + 1 + 4 + 7) / 14


@cache
def reference(name: str, l1: float, l2: float) -> float:
    return minimize(PROBLEMS[name].objective(), ElasticNet(l1, l2), ProxQN(), Run(tol=1e-8)).value


@pytest.mark.parametrize(
    ("name", "strengths", "settings"),
    [
        *itertools.product(PROBLEMS, [(0.4, 0.0), (0.5, 0.5)], [{}]),
        *itertools.product(["chain", "forest"], [(1.0, 0.0), (0.0, 0.5)], [{}]),
        *itertools.product(
            ["chain", "weighted forest"],
            [(0.4, 0.0)],
            [{"shrinking": False}, {"shrink_margin": 0.1}, {"order": "cyclic"}, {"max_sweeps": 1}],
        ),
    ],
    ids=str,
)
def test_reaches_the_optimum_of_prox_qn(name, strengths, settings):
    problem, tol = PROBLEMS[name], 1e-5 if strengths[1] == 0 else 1e-7  # without l2 it is of first order
    result = minimize(
        problem.objective(), ElasticNet(*strengths), FeatureBCD(**settings), Run(tol=tol, max_iter=600)
    )
    assert result.status is Status.CONVERGED
    assert result.gap <= tol
    point = problem.objective().at(result.coords, result.weights)
    value = point.value + ElasticNet(*strengths).value(point.coords, point.weights)
    assert result.value == pytest.approx(value, rel=1e-12)
    assert result.value == pytest.approx(reference(name, *strengths), rel=1e-6)
    assert np.diff(result.trace.value).max(initial=0.0) <= 1e-13 * result.value


def test_shrinking_spares_inference_and_changes_nothing_else():
    problem = make_problem(9, n_items=40, n_features=60, longest=5)
    results = [
        minimize(problem.objective(), ElasticNet(3.0), FeatureBCD(shrinking=on), Run(tol=1e-6, max_iter=600))
        for on in (True, False)
    ]
    assert all(result.status is Status.CONVERGED for result in results)
    assert results[0].value == pytest.approx(results[1].value, rel=1e-9)
    swept = [result.trace.n_active[~result.trace.is_screening] for result in results]
    assert (swept[1] == problem.n_coords).all()
    assert swept[0].min() < 0.5 * problem.n_coords
    assert results[0].passes / results[0].n_iter < 0.8 * results[1].passes / results[1].n_iter


@pytest.mark.parametrize("penalty", [(0.5, 0.0, "l2"), (0.3, 0.2, "l2"), (0.4, 0.0, "linf")], ids=str)
@pytest.mark.parametrize("name", ["chain", "forest"])
def test_rows_of_a_group_penalty_vanish_as_a_whole(name, penalty):
    problem = PROBLEMS[name]
    group_l1, l1, norm = penalty
    n_features = problem.n_coords // problem.n_states - (problem.n_states if name == "chain" else 0)
    group = GroupLasso(group_l1, l1, 0.1, norm, n_features=n_features, n_states=problem.n_states)
    result = minimize(problem.objective(), group, FeatureBCD(), Run(tol=1e-5, max_iter=600))
    expected = minimize(problem.objective(), group, ProxQN(), Run(tol=1e-7, max_iter=600))
    assert (result.status, expected.status) == (Status.CONVERGED, Status.CONVERGED)
    assert result.value == pytest.approx(expected.value, rel=1e-5)


def test_a_compiled_sweep_is_the_block_updates_one_by_one():
    """With two labels all curvatures of a feature are alike, and a common step is the step of each."""
    problem = make_problem(2, n_items=25, n_features=10, n_states=2, longest=5)
    penalty, solver = ElasticNet(0.4, 0.3, unpenalised=np.array([3, 13])), FeatureBCD()
    rule = SweepRule(solver.armijo, solver.backtrack, solver.floor, 0.05, 0.01, noise=1e-13)
    compiled, single = (start_of(problem.objective(), 1.0) for _ in range(2))
    for _ in range(4):
        blocks = compiled.blocks[:-1]
        sweep = solver.sweep(penalty, compiled, blocks, rule)
        updates = [solver.update(penalty, single, int(block), rule) for block in blocks]
        assert sweep.n_moved == sum(update.n_moved for update in updates) > 5
        np.testing.assert_allclose(sweep.violations, [update.violations[0] for update in updates], atol=1e-9)
        assert sweep.is_kept.tolist() == [update.is_kept[0] for update in updates]
        w, v = (dense_weights(problem, *loss.weights) for loss in (compiled, single))
        np.testing.assert_allclose(w, v, atol=1e-9)


@pytest.mark.parametrize("order", ["random", "cyclic"])
@pytest.mark.parametrize("name", ["real", "forest"])
def test_every_accepted_step_decreases_the_objective(name, order):
    problem = PROBLEMS[name]
    loss = start_of(problem.objective(), 2.0)
    penalty, solver = ElasticNet(0.3, 0.1), FeatureBCD(order=order)
    for _ in range(5):
        for block in loss.blocks:
            batch = np.array([block])
            before = loss.value + penalty.value(*loss.weights)
            sweep = solver.sweep(penalty, loss, batch, solver.rule(loss, 0.0))
            after = loss.value + penalty.value(*loss.weights)
            assert after < before if sweep.n_moved else after == before
            assert sweep.n_failed == 0


class TestSearch:
    def test_a_search_that_fails_restores_what_was_before(self):
        for name in ("chain", "forest"):
            loss = start_of(PROBLEMS[name].objective(), 1.0)
            value, size = loss.value, PROBLEMS[name].n_states
            w, d, zero = loss.weights_of(2), np.full(size, 900.0), np.zeros(size)
            before = w.copy()
            d[0] = -900.0
            change = from_python(search_length)(
                loss.chain, loss.tree, 2, w, d, -1e9, zero, zero, RULE._replace(armijo=0.9)
            )  # no slope is that steep
            assert change == 0.0
            np.testing.assert_array_equal(w, before)
            assert loss.value == pytest.approx(value, rel=1e-13)
            check_against_scratch(loss, 1e-10)

    def test_first_a_whole_step_then_halves(self):
        loss = start_of(PROBLEMS["forest"].objective(), 0.1)
        zero, (g, _) = np.zeros(10), loss.derivatives(0)
        d = -g / 1e-3
        value, w = loss.value, loss.weights_of(0)
        before = w.copy()
        change = from_python(search_length)(None, loss.tree, 0, w, d, float(g @ d), zero, zero, RULE)
        step = (w - before)[np.abs(d).argmax()] / d[np.abs(d).argmax()]
        assert 0 < step < 1
        assert np.log2(step) == pytest.approx(round(np.log2(step)), abs=1e-9)
        assert loss.value - value == pytest.approx(change, rel=1e-9)
        assert change <= 0.01 * step * (g @ d)

    def test_a_penalty_that_has_only_a_proximal_map_may_fail_too(self):
        problem = PROBLEMS["chain"]

        class Uphill(BlockState):
            def derivatives(self, block):
                g, h = super().derivatives(block)
                return -g, h

        group = GroupLasso(0.01, n_features=25, n_states=3)
        objective = problem.objective()
        loss = Uphill(objective, objective.at(np.empty(0, np.int64), np.empty(0)))
        value = loss.value
        update = FeatureBCD().update(group, loss, 1, RULE)
        assert (update.n_moved, update.n_failed) == (0, 1)
        assert loss.value == pytest.approx(value, rel=1e-14)


class TestFlooredCurvature:
    def test_the_direction(self):
        w, g, zero = np.zeros(2), np.array([1.5, 0.2]), np.zeros(2)
        h, l1, d = np.array([1e-13, 1e-13]), np.array([0.5, 0.5]), np.empty(2)
        slope = from_python(newton_direction)(w, g, h, l1, zero, 1e-10, d)
        assert d.tolist() == pytest.approx([-1e10, 0.0])
        assert slope == pytest.approx(-1e10)
        from_python(newton_direction)(w, g, np.array([2.0, 2.0]), l1, np.array([3.0, 3.0]), 1e-10, d)
        assert d.tolist() == pytest.approx([-1.0 / 5.0, 0.0])

    def test_positions_that_are_decided_the_wrong_way_are_won_back(self):
        problem = PROBLEMS["flat"]
        coords = np.arange(problem.n_coords)
        start = (coords, 60.0 * np.random.default_rng(5).normal(size=coords.size))
        assert curvature_at(problem.objective().at(*start)).diagonal(coords).min() < 1e-12
        result = minimize(
            problem.objective(), ElasticNet(0.4), FeatureBCD(), Run(start=start, tol=1e-5, max_iter=900)
        )
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(reference("flat", 0.4, 0.0), rel=1e-6)


class TestWhatMayHaveAWeight:
    def test_unpenalised_coordinates(self):
        problem = PROBLEMS["flat"]
        unpenalised = np.arange(4) * 12 + 5
        runs = [
            minimize(
                problem.objective(), ElasticNet(0.4, 0.0, unpenalised), solver, Run(tol=1e-5, max_iter=600)
            )
            for solver in (FeatureBCD(), ProxQN())
        ]
        assert runs[0].status is Status.CONVERGED
        assert runs[0].value == pytest.approx(runs[1].value, rel=1e-8)
        assert runs[0].violation < 1e-4

    @pytest.mark.parametrize(
        "possible", [{"all_possible_states": False}, {"all_possible_transitions": False}], ids=str
    )
    def test_a_support(self, possible):
        problem = PROBLEMS["ten labels"]
        models = [
            ChainCRF(0.5, solver=solver, tol=1e-5, max_iter=900, **possible).fit(
                problem.sequences, problem.labels
            )
            for solver in ("feature-bcd", "prox-qn")
        ]
        assert models[0].result_.value == pytest.approx(models[1].result_.value, rel=1e-5)
        found, allowed = (set(model.result_.coords) for model in models)
        assert len(found) > 10
        assert len(found ^ allowed) < 10
        whole = ChainCRF(0.5, solver="feature-bcd", tol=1e-5, max_iter=900).fit(
            problem.sequences, problem.labels
        )
        assert whole.result_.value < models[0].result_.value


@pytest.mark.parametrize("name", ["chain", "weighted forest"])
def test_bit_identical_when_repeated_and_other_orders_differ(name):
    problem = PROBLEMS[name]
    runs = [
        minimize(problem.objective(n_threads=n), ElasticNet(0.5), solver, Run(tol=1e-4))
        for n, solver in [(1, FeatureBCD()), (2, FeatureBCD()), (1, FeatureBCD(random_state=1))]
    ]
    assert runs[0].trace.value.tobytes() == runs[1].trace.value.tobytes()
    assert runs[0].weights.tobytes() == runs[1].weights.tobytes()
    assert runs[0].trace.value.tobytes() != runs[2].trace.value.tobytes()


def test_l1_max_gives_zero_weights_at_once():
    problem = PROBLEMS["chain"]
    result = minimize(problem.objective(), ElasticNet(1.0001 * problem.l1_max), FeatureBCD())
    assert (result.status, result.n_nonzero, result.n_iter, result.passes) == (Status.CONVERGED, 0, 0, 1)


def test_the_end_of_what_rounding_shows():
    result = minimize(
        PROBLEMS["real"].objective(), ElasticNet(0.4), FeatureBCD(), Run(tol=0.0, max_iter=3000)
    )
    assert result.status is Status.STALLED
    assert result.gap < 1e-6


def test_objectives_in_blocks_of_items_are_refused():
    objective = in_blocks(PROBLEMS["chain"].objective().whole, 20)
    with pytest.raises(
        InputError, match="FeatureBCD cannot train this: BlockState is kept for items in one part"
    ):
        minimize(objective, ElasticNet(1.0), FeatureBCD())


def test_bad_settings_are_refused():
    for settings, message in {
        (("order", "sorted"),): r"order: expected one of \('random', 'cyclic'\), got 'sorted'",
        (("shrinking", 1),): "shrinking: expected True or False, got 1",
        (("random_state", -1),): "random_state: expected an integer >= 0, got -1",
        (("max_sweeps", 0),): "max_sweeps: expected an integer >= 1, got 0",
        (("max_sweeps", True),): "max_sweeps: expected an integer >= 1, got True",
        (("armijo", 1.0),): "armijo: expected a number between 0 and 1, got 1.0",
        (("cooling", 0.0),): "cooling: expected a number between 0 and 1, got 0.0",
        (("backtrack", 1.5),): "backtrack: expected a number between 0 and 1, got 1.5",
        (("shrink_margin", 1.0),): "shrink_margin: expected None or a number from 0 to below 1, got 1.0",
        (("floor", 0.0),): "floor: expected a finite number > 0, got 0.0",
    }.items():
        with pytest.raises(InputError, match=f"^{message}$"):
            FeatureBCD(**dict(settings))


def test_a_move_has_to_be_tried_before_it_is_accepted():
    loss = start_of(PROBLEMS["chain"].objective(), 1.0)
    with pytest.raises(InputError, match="expected a move to be tried before it is accepted or rejected"):
        loss.accept()
