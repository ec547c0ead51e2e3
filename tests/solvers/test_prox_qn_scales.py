"""Prox-QN at the ends of the scale: strengths, degenerate features, units, a failed search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from problems import dense_weights, make_likelihood, make_problem
from prox_qn_problems import PROBLEMS, SOLVERS, optimum, run

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point, Ray
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import (
    Backtracking,
    ByShareOfBound,
    CostAwareSweeps,
    Diagonal,
    Identity,
    LevenbergMarquardtSearch,
    ProxQN,
    TokenWise,
    TopViolators,
)  # fmt: skip
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

pytestmark = pytest.mark.usefixtures("compiled")


class TestEndsOfTheScale:
    @pytest.mark.parametrize("factor", [1.0, 1.5, 1e6])
    @pytest.mark.parametrize("solver", ["default", "paper", "warm-up"])
    def test_l1_max_gives_zero_weights_at_once(self, factor, solver):
        problem = PROBLEMS["two labels"]
        result = run(problem, factor * (1 + 1e-12) * problem.l1_max, solver=SOLVERS[solver])
        assert (result.status, result.gap, result.n_nonzero) == (Status.CONVERGED, 0.0, 0)
        assert result.n_iter == 0
        assert len(result.trace) == 1
        # At zero weights every labelling is as likely as any other: no tolerance beyond rounding is needed.
        assert result.value == pytest.approx(problem.offsets[-1] * np.log(problem.n_states), rel=1e-14)

    def test_just_below_l1_max_some_weight_moves(self):
        problem = PROBLEMS["two labels"]
        result = run(problem, 0.97 * problem.l1_max)
        assert 1 <= result.n_nonzero <= 6
        assert result.status is Status.CONVERGED

    def test_one_label_costs_nothing(self):
        problem = replace(
            make_problem(0, n_states=1), targets=np.zeros_like(make_problem(0, n_states=1).targets)
        )
        result = run(problem, 0.1)
        assert (result.status, result.value, result.gap, result.n_nonzero) == (Status.CONVERGED, 0.0, 0.0, 0)

    @pytest.mark.parametrize("solver", ["default", "paper", "warm-up"])
    def test_without_l1_all_weights_that_can_help_are_used(self, solver):
        result = run(PROBLEMS["wide"], 0.0, 1.0, SOLVERS[solver], max_iter=3000 if solver == "paper" else 300)
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(optimum("wide", 0.0, 1.0), rel=1e-6)
        assert result.n_nonzero == PROBLEMS["wide"].n_coords

    def test_without_any_penalty_it_goes_down_until_a_limit(self):
        # Nothing bounds the weights here, and no certificate exists: the limit has to end the run.
        result = run(PROBLEMS["wide"], 0.0, 0.0, max_iter=30)
        assert result.status in (Status.MAX_ITER, Status.CONVERGED)
        assert result.value < 0.05 * result.trace.value[0]
        assert np.isnan(result.trace.gap).all()


class TestDegenerateFeatures:
    def test_duplicated_features_share_a_weight(self):
        problem = PROBLEMS["binary"]
        twice = problem.with_matrix(np.hstack([problem.matrix, problem.matrix]))
        for solver in ("default", "diagonal", "identity", "paper"):
            result = run(twice, 1.0, solver=SOLVERS[solver])
            assert result.status is Status.CONVERGED
            assert result.value == pytest.approx(optimum("binary", 1.0, 0.0), rel=1e-8)

    def test_duplicated_features_with_l2_get_equal_weights(self):
        problem = PROBLEMS["binary"]
        twice = problem.with_matrix(np.hstack([problem.matrix, problem.matrix]))
        result = run(twice, 0.2, 0.5, tol=1e-9)
        n_nodes = 2 * problem.n_states * problem.n_features
        w = dense_weights(twice, result.coords, result.weights)[:n_nodes].reshape(problem.n_states, 2, -1)
        np.testing.assert_allclose(w[:, 0], w[:, 1], atol=1e-4)

    @pytest.mark.parametrize("strengths", [(0.5, 0.0), (0.0, 0.5)], ids=str)
    def test_a_feature_that_never_fires_gets_no_weight(self, strengths):
        problem = PROBLEMS["binary"]
        matrix = np.insert(problem.matrix, 2, 0.0, axis=1)
        result = run(problem.with_matrix(matrix), *strengths, tol=1e-6)
        assert result.value == pytest.approx(optimum("binary", *strengths), rel=1e-6)
        n_features = matrix.shape[1]
        is_node = result.coords < problem.n_states * n_features
        assert 2 not in result.coords[is_node] % n_features

    def test_a_constant_feature_alone(self):
        problem = PROBLEMS["binary"].with_matrix(np.ones((PROBLEMS["binary"].matrix.shape[0], 1)))
        reference, _ = problem.optimum(0.3, 0.0)
        assert run(problem, 0.3).value == pytest.approx(reference, rel=1e-8)

    def test_items_of_length_1_are_a_multinomial_regression(self):
        problem = PROBLEMS["length 1"]
        result = run(problem, 0.5)
        n_nodes = problem.n_states * problem.n_features
        assert (result.coords < n_nodes).all()
        w = dense_weights(problem, result.coords, result.weights)[:n_nodes].reshape(problem.n_states, -1)
        scores = problem.matrix @ w.T
        log_z = np.log(np.exp(scores).sum(axis=1))
        loss = (log_z - scores[np.arange(problem.n_items), problem.targets]).sum()
        assert result.value == pytest.approx(loss + 0.5 * np.abs(w).sum(), rel=1e-12)

    def test_bad_settings_are_refused(self):
        wrong = [
            (ProxQN, "memory", 0),
            (ProxQN, "few_weights", -1),
            (ProxQN, "cooling", 0.0),
            (TokenWise, "refresh", 0),
            (TokenWise, "n_positions", 0),
            (TokenWise, "max_dense", -1),
            (TokenWise, "growing_share", 0.0),
            (Diagonal, "refresh", 0),
            (CostAwareSweeps, "most", 0),
            (TopViolators, "most", 0),
            (TopViolators, "excluded_fraction", -0.1),
            (ByShareOfBound, "slack", -0.1),
            (LevenbergMarquardtSearch, "armijo", 1.0),
            (Backtracking, "beta", 1.5),
        ]
        for kind, name, value in wrong:
            with pytest.raises(InputError, match=f"^{name}: expected a number .*, got {value}$"):
                kind(**{name: value})

    def test_one_item(self):
        problem = make_problem(8, n_items=1, longest=4)
        problem = replace(problem, targets=np.arange(problem.targets.size, dtype=np.int32) % 3)
        reference, _ = problem.optimum(0.2, 0.0)
        assert run(problem, 0.2).value == pytest.approx(reference, rel=1e-8)


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
def test_units_of_the_features_do_not_matter(scale):
    """X and l1 times s is the same problem in other units: as many passes, the same value."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(400, 30)) * (random.random((400, 30)) < 0.3)
    targets = (rows @ random.normal(size=(30, 4))).argmax(axis=1).astype(np.int32)
    store = FeatureStore.from_matrix(scale * rows, np.arange(401))
    objective = make_likelihood(store, Chain(store.offsets, 4), targets)
    edges = np.arange(30 * 4, 30 * 4 + 16)  # of no use to items of length 1
    result = minimize(objective, ElasticNet(2.0 * scale), ProxQN(), Run(tol=1e-5))
    assert result.status is Status.CONVERGED
    assert not np.isin(result.coords, edges).any()
    assert result.passes <= 40
    assert result.value == pytest.approx(units_value(), rel=1e-6)


@cache
def units_value() -> float:
    random = np.random.default_rng(3)
    rows = random.normal(size=(400, 30)) * (random.random((400, 30)) < 0.3)
    targets = (rows @ random.normal(size=(30, 4))).argmax(axis=1).astype(np.int32)
    store = FeatureStore.from_matrix(rows, np.arange(401))
    objective = make_likelihood(store, Chain(store.offsets, 4), targets)
    return minimize(objective, ElasticNet(2.0), ProxQN(metric=Identity()), Run(tol=1e-7)).value


def test_a_failed_search_says_so():
    """An objective that grows whatever is done (its gradient lies): no step is good enough."""

    class Uphill(Point):
        def gradient(self, coords):
            return -super().gradient(coords)

        def along(self, coords, direction):
            return UphillRay(super().along(coords, direction))

    @dataclass
    class UphillRay:
        ray: Ray

        def at(self, step):
            return uphill(self.ray.at(step))

    def uphill(point):
        return Uphill(point.objective, point.coords, point.weights, point.whole.scores, point.whole.edges)

    class UphillObjective(Objective):
        def at(self, coords, weights):
            return uphill(super().at(coords, weights))

    problem = PROBLEMS["binary"]
    whole = problem.objective()
    objective = UphillObjective(whole.executor)
    start = minimize(whole, ElasticNet(1.1), ProxQN())
    result = minimize(
        objective, ElasticNet(1.0), ProxQN(), Run(start=(start.coords, start.weights), tol=1e-12)
    )
    assert result.status is Status.LINE_SEARCH_FAILED
    assert result.value <= start.value
