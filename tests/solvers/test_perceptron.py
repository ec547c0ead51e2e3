"""Averaged perceptron, passive-aggressive learning and AROW: step by step as the papers say, on every structure.

The reference enumerates the labellings of each item and keeps the weights after each of them, to take their mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from problems import (
    Problem,
    TreeProblem,
    dense_weights,
    labellings,
    make_likelihood,
    make_problem,
    make_tree_problem,
)
from sklearn.datasets import load_digits

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, TaxonomyCRF
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.objective import in_blocks
from crfqn.objectives.support import observed_support
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stochastic.perceptron import AROW, AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.state import PerceptronState
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

PROBLEMS: dict[str, Problem | TreeProblem] = {
    "chains": make_problem(1),
    "real chains": make_problem(3, is_binary=False),
    "weighted chains": replace(make_problem(6), weights=np.array([0.5, 3, 0, 2, 0.1, 1, 0, 2, 1, 2, 0.3, 1])),
    "nine labels": make_problem(2, n_items=8, n_states=9, longest=3, is_binary=False),
    "forest": make_tree_problem("forest", 1),
    "inner labels": make_tree_problem("labels at inner nodes", 2, is_binary=True),
    "flat": make_tree_problem("flat", 3, n_features=12),
    "weighted forest": make_tree_problem("forest", 4, n_features=8, has_weights=True),
}
SOLVERS = [
    AveragedPerceptron(3, random_state=7),
    PassiveAggressive(3, random_state=7),
    PassiveAggressive(3, random_state=7, C=0.05),
]


def reference(problem, solver, start=None, allowed=None, order=None):
    """The mean of the weights after each item of each epoch, and the mistakes of the last epoch."""
    w = np.zeros(problem.n_coords) if start is None else start.copy()
    total, n_seen = np.zeros_like(w), 0
    variances = np.full_like(w, solver.variance)
    counted = [i for i in range(problem.n_items) if labellings(problem, i)[2] > 0]
    random, n_wrong = np.random.default_rng(solver.random_state), 0
    for _ in range(solver.n_epochs):
        n_wrong = 0
        for j in random.permutation(len(counted)) if order is None else order:
            phi, observed, weight, wrong = labellings(problem, counted[j])
            found = int(np.argmax(phi @ w))
            change = (phi[observed] - phi[found]) * (1.0 if allowed is None else allowed)
            square = change @ change
            if isinstance(solver, AROW):
                loss = (phi[found] - phi[observed]) @ w + wrong[found]
                w = w + weight * loss / (solver.gamma + change**2 @ variances) * variances * change
                variances = 1 / (1 / variances + change**2 / solver.gamma)
                total, n_seen, n_wrong = w, 1, n_wrong + int(wrong[found])
                continue
            if isinstance(solver, PassiveAggressive):
                loss = (phi[found] - phi[observed]) @ w + np.sqrt(wrong[found])
                step = min(solver.C, loss / square) if square > 0 else 0.0
            else:
                step = 1.0
            w = w + weight * step * change
            total, n_seen, n_wrong = total + w, n_seen + 1, n_wrong + int(wrong[found])
        if n_wrong == 0:
            break
    return total / n_seen, n_wrong


NO_START = np.empty(0, np.int64), np.empty(0)


def last_state(objective, solver, start=NO_START):
    return list(solver.steps(objective, ElasticNet(1.0), objective.at(*start)))[-1]


def check(problem, solver, objective=None, **others):
    state = last_state(objective or problem.objective(), solver)
    mean, n_wrong = reference(problem, solver, **others)
    found = dense_weights(problem, state.point.coords, state.point.weights)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-12 * max(1.0, np.abs(mean).max()))
    assert state.n_wrong == n_wrong
    assert np.abs(mean).max() > 0.01
    return found


class TestIterates:
    @pytest.mark.parametrize("name", PROBLEMS)
    @pytest.mark.parametrize("solver", SOLVERS, ids=str)
    def test_are_the_mean_of_the_weights_after_every_item(self, name, solver):
        check(PROBLEMS[name], solver)

    @pytest.mark.parametrize("name", PROBLEMS)
    @pytest.mark.parametrize("settings", [{}, {"gamma": 0.3, "variance": 4.0}], ids=str)
    def test_of_arow_are_the_last_weights(self, name, settings):
        check(PROBLEMS[name], AROW(3, random_state=7, **settings))

    @pytest.mark.parametrize("solver", SOLVERS, ids=str)
    def test_begin_at_the_start(self, solver):
        problem = PROBLEMS["real chains"]
        start = np.array([0, 5, 20, problem.n_coords - 1]), np.array([1.0, -0.5, 2.0, 0.7])
        state = last_state(problem.objective(), solver, start)
        mean, _ = reference(problem, solver, dense_weights(problem, *start))
        np.testing.assert_allclose(
            dense_weights(problem, state.point.coords, state.point.weights), mean, atol=1e-12
        )

    @pytest.mark.parametrize("solver", [*SOLVERS, AROW(3)], ids=str)
    def test_on_a_support_only_its_weights_move(self, solver):
        problem = PROBLEMS["real chains"]
        store = problem.objective().whole.map.store
        support = observed_support(store, problem.targets, problem.n_states, False, False)
        chain = Chain(problem.offsets, problem.n_states)
        objective = make_likelihood(store, chain, problem.targets, n_threads=1, support=support)
        allowed = np.isin(np.arange(problem.n_coords), support.coords())
        found = check(problem, solver, objective, allowed=allowed)
        assert not allowed.all()
        assert not found[~allowed].any()

    def test_blocks_of_items_take_turns(self):
        problem = PROBLEMS["real chains"]
        objective = in_blocks(problem.objective().whole, 10)
        sizes = [part.n_items for part in objective.parts]
        order = np.random.default_rng(1).permutation(problem.n_items)
        block_of = np.repeat(np.arange(len(sizes)), sizes)
        in_turns = [
            i for turn in dict.fromkeys(block_of[order].tolist()) for i in order if block_of[i] == turn
        ]
        online = objective.state(PerceptronState, NO_START)
        online.correct(order, 0.0)
        mean, _ = reference(problem, AveragedPerceptron(1), order=in_turns)
        found = online.point().sparse_weights
        np.testing.assert_allclose(dense_weights(problem, *found), mean, atol=1e-12)
        assert len(sizes) > 2


class TestResult:
    def test_claims_no_optimum(self):
        problem, penalty = PROBLEMS["real chains"], ElasticNet(0.3, 0.1)
        shown = []
        result = minimize(problem.objective(), penalty, AveragedPerceptron(4), Run(callback=shown.append))
        assert result.status is Status.LEARNED
        assert not result.status.is_success
        assert np.isnan(result.gap)
        assert result.n_iter == 4
        assert [record.iteration for record in shown] == [1, 2, 3, 4]
        assert all(record.n_wrong > 0 for record in shown)
        assert np.isnan([record.value for record in shown]).tolist() == [True, True, True, False]
        w = dense_weights(problem, result.coords, result.weights)
        assert result.value == pytest.approx(problem.value(w, 0.3, 0.1), rel=1e-12)
        assert result.passes == 5  # four epochs and a value

    def test_ends_when_there_are_no_mistakes(self):
        problem = replace(make_tree_problem("flat", 3, n_features=12), targets=np.zeros(0, np.int32))
        separable = replace(
            problem,
            x=np.repeat(np.eye(12), 2, axis=0),
            targets=np.repeat(np.arange(12, dtype=np.int32) % 3, 2),
            item_weights=np.ones(24),
        )
        result = minimize(separable.objective(), ElasticNet(1.0), AveragedPerceptron(50))
        assert result.status is Status.LEARNED
        assert result.n_iter < 10
        assert result.trace.rows[-1].n_wrong == 0

    def test_stopped_half_way_it_keeps_the_mean_so_far(self):
        problem = PROBLEMS["real chains"]
        result = minimize(
            problem.objective(),
            ElasticNet(1.0),
            AveragedPerceptron(9),
            Run(callback=lambda p: p.iteration == 2),
        )
        mean, _ = reference(problem, AveragedPerceptron(2))
        assert result.status is Status.CALLBACK
        np.testing.assert_allclose(dense_weights(problem, result.coords, result.weights), mean, atol=1e-12)

    def test_all_weights_0(self):
        problem = make_problem(1)
        problem = replace(problem, weights=np.zeros(problem.n_items))
        with pytest.raises(InputError, match="at least one item with a weight above 0"):
            minimize(problem.objective(), ElasticNet(1.0), AveragedPerceptron())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("solver", ["averaged-perceptron", "passive-aggressive"])
class TestEstimators:
    def test_digits(self, solver):
        X, y = load_digits(return_X_y=True)
        settings = {
            "solver": solver,
            "random_state": 0,
            "penalize_intercept": True,
        }  # so that nothing is centred
        model = MulticlassCRF(**settings).fit(X[:1000], y[:1000])
        again = MulticlassCRF(**settings, n_threads=1).fit(sp.csr_array(X[:1000]), y[:1000])
        assert model.score(X[1000:], y[1000:]) > 0.88
        np.testing.assert_array_equal(model.coef_.toarray(), again.coef_.toarray())

    def test_chains_and_taxonomies(self, solver):
        words = [[{"w": "the"}, {"w": "dog"}, {"w": "barks"}], [{"w": "a"}, {"w": "cat"}, {"w": "sleeps"}]]
        model = ChainCRF(solver=solver).fit(words, [["D", "N", "V"], ["D", "N", "V"]])
        assert [list(labels) for labels in model.predict(words)] == [["D", "N", "V"], ["D", "N", "V"]]
        X, y = load_digits(return_X_y=True)
        paths = np.array([f"{'low' if label < 5 else 'high'}/{label}" for label in y])
        tree = TaxonomyCRF(solver=solver).fit(X[:1000], paths[:1000])
        assert tree.score(X[1000:], paths[1000:]) > 0.88

    def test_margin_losses_are_refused(self, solver):
        X, y = load_digits(return_X_y=True)
        with pytest.raises(UnsupportedObjectiveError, match="needs a likelihood"):
            MulticlassClassifier(loss="squared-hinge", penalty="l2", solver=solver).fit(X[:50], y[:50])
