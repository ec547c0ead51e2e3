"""Training under rules, and on partly known labels, against enumerations and optima of scipy's."""

from itertools import pairwise

import numpy as np
import pytest
from problems import dense_weights, point_at
from references import (
    DenseProblem,
    RuledProblem,
    finite_differences,
    log_sum_exp,
    random_problem,
    random_rules,
    ruled,
)

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood, PartialLikelihood
from crfqn.objectives.losses.score_loss import StructuralHinge
from crfqn.objectives.marginals import Marginals
from crfqn.objectives.objective import build_objective
from crfqn.papers.zhong2014.feature_bcd import FeatureBCD
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stochastic.state import SGDState
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

N_STATES = 3


def draw(seed):
    """A problem whose labels keep its rules."""
    random = np.random.default_rng(seed)
    rules = random_rules(random, N_STATES)
    plain = random_problem(seed, N_STATES, item_weights=(1.0, 0.5, 2.0, 1.0, 1.0, 3.0))
    targets = plain.targets.copy()
    for a, b in pairwise(plain.offsets):
        item = ruled(np.zeros((N_STATES, b - a)), np.zeros((N_STATES, N_STATES)), rules)
        targets[a:b] = item.labellings[random.choice(np.flatnonzero(item.scores > -np.inf))]
    return RuledProblem(plain.x, plain.offsets, targets, plain.item_weights, N_STATES, rules)


@pytest.fixture(scope="module")
def problem():
    return draw(5)


def objective_of(problem, loss=Likelihood, targets=None):
    store = FeatureStore.from_matrix(problem.x, problem.offsets)
    rules = TransitionRules(*problem.rules) if isinstance(problem, RuledProblem) else None
    chain = Chain(store.offsets, N_STATES, rules=rules)
    targets = problem.targets if targets is None else targets
    return build_objective(SparseMap(store, Pool(1)), loss(chain, targets), problem.item_weights)


def test_loss_gradient_and_dual_against_enumeration(problem):
    w = np.random.default_rng(1).normal(size=problem.n_coords)
    point = point_at(objective_of(problem), w)
    np.testing.assert_allclose(point.value, problem.loss(w), rtol=1e-12)
    np.testing.assert_allclose(point.gradient(np.arange(w.size)), problem.gradient(w), atol=1e-12)
    for scale in (1.0, 0.3):
        np.testing.assert_allclose(point.dual_value(scale), problem.dual_loss(w, scale), rtol=1e-10)


@pytest.mark.parametrize(
    "solver", [ProxQN(), ProxQN.paper(), OWLQN(), FISTA(), ProxGD(), SpaRSA(), FeatureBCD()], ids=str
)
def test_optimum_under_rules_and_its_certificate(problem, solver):
    l1 = 0.1 * problem.l1_max
    result = minimize(objective_of(problem), ElasticNet(l1, 0.05), solver, Run(tol=1e-6, max_iter=3000))
    best, _ = problem.optimum(l1, 0.05)
    assert result.status is Status.CONVERGED
    assert best * (1 - 1e-9) <= result.value <= best / (1 - 1e-6)
    assert result.value * (1 - result.gap) <= best * (1 + 1e-9)
    w = dense_weights(problem, result.coords, result.weights)
    forbidden = ~problem.rules[0].ravel()
    assert not w[problem.n_node_coords :][forbidden].any()


def test_smooth_and_stochastic_methods(problem):
    best, _ = problem.optimum(0.0, 0.5)
    found = minimize(objective_of(problem), ElasticNet(0.0, 0.5), LBFGS(), Run(tol=1e-6))
    np.testing.assert_allclose(found.value, best, rtol=1e-6)
    l1 = 0.1 * problem.l1_max
    best, _ = problem.optimum(l1, 0.05)
    found = minimize(objective_of(problem), ElasticNet(l1, 0.05), SGDL1(), Run(tol=1e-3, max_iter=400))
    assert best * (1 - 1e-9) <= found.value <= 1.06 * best


def test_max_margin_and_perceptrons_keep_the_rules(problem):
    """The kernel's dual bound meets the primal value, which is that of the enumeration."""
    objective = objective_of(problem, StructuralHinge)
    result = minimize(objective, ElasticNet(0.0, 1.0), BlockFrankWolfe(), Run(tol=1e-2, max_iter=3000))
    assert result.status is Status.CONVERGED
    w = dense_weights(problem, result.coords, result.weights)
    losses = []
    for item, y in zip(problem.items(w), problem.labels(), strict=True):
        wrong = (item.labellings != y).sum(axis=1)
        losses.append((item.scores + wrong).max() - item.scores[item.index(y)])
    np.testing.assert_allclose(result.value, problem.item_weights @ losses + 0.5 * w @ w, rtol=1e-9)
    for solver in (AveragedPerceptron(), PassiveAggressive()):
        found = minimize(objective_of(problem), ElasticNet(0.0, 0.0), solver, Run(max_iter=5))
        w = dense_weights(problem, found.coords, found.weights)
        assert not w[problem.n_node_coords :][~problem.rules[0].ravel()].any()


def partial(problem, seed=3):
    """Booleans (K, N): about half of the positions known, others of two labels or of any, the true ones among them."""
    random = np.random.default_rng(seed)
    allowed = np.eye(N_STATES, dtype=bool)[:, problem.targets]
    for t in np.flatnonzero(random.random(problem.targets.size) < 0.5):
        allowed[:, t] |= random.random(N_STATES) < 0.5
    return allowed


def partial_loss(problem, allowed, w):
    total = 0.0
    edges = w[problem.n_node_coords :].reshape(N_STATES, N_STATES)
    scores = w[: problem.n_node_coords].reshape(N_STATES, -1) @ problem.x.T
    everything = (np.ones((N_STATES, N_STATES), bool), np.ones(N_STATES, bool), np.ones(N_STATES, bool))
    for c, (a, b) in zip(problem.item_weights, pairwise(problem.offsets), strict=True):
        item = ruled(scores[:, a:b], edges, getattr(problem, "rules", everything))
        fits = allowed[:, a:b][item.labellings, np.arange(b - a)].all(axis=1)
        total += c * (item.log_partition - log_sum_exp(item.scores[fits]))
    return total


@pytest.mark.parametrize("kind", [RuledProblem, DenseProblem])
def test_partial_loss_and_gradient(problem, kind):
    if kind is DenseProblem:
        problem = random_problem(7, N_STATES)
    allowed = partial(problem)
    w = np.random.default_rng(2).normal(size=problem.n_coords)
    objective = objective_of(problem, PartialLikelihood, allowed)
    point = point_at(objective, w)
    np.testing.assert_allclose(point.value, partial_loss(problem, allowed, w), rtol=1e-12)
    expected = finite_differences(lambda v: partial_loss(problem, allowed, v), w)
    np.testing.assert_allclose(point.gradient(np.arange(w.size)), expected, atol=1e-8)
    assert point.dual_value(1.0) == -np.inf
    known = np.eye(N_STATES, dtype=bool)[:, problem.targets]
    full = point_at(objective_of(problem, PartialLikelihood, known), w)
    np.testing.assert_allclose(full.value, point_at(objective_of(problem), w).value, rtol=1e-12)


@pytest.mark.parametrize("solver", [ProxQN(), OWLQN(), SpaRSA(), ProxGD(), FISTA()], ids=str)
def test_partial_training_is_stationary_and_says_so(problem, solver):
    allowed, penalty = partial(problem), ElasticNet(0.1, 0.05)
    objective = objective_of(problem, PartialLikelihood, allowed)
    result = minimize(objective, penalty, solver, Run(tol=1e-3, max_iter=3000))
    assert result.status is Status.STATIONARY
    assert np.isnan(result.gap)
    assert result.n_proved_zeros is None
    w = dense_weights(problem, result.coords, result.weights)
    gradient = finite_differences(lambda v: partial_loss(problem, allowed, v), w) + 0.05 * w
    violation = np.where(w != 0, np.abs(gradient + 0.1 * np.sign(w)), np.maximum(np.abs(gradient) - 0.1, 0))
    assert violation.max() <= 1.1e-3 * 0.1


def test_a_certificate_is_not_claimed_where_nothing_is_violated(problem):
    """All weights zero under a strong penalty: no violation at all, and still no proof."""
    objective = objective_of(problem, PartialLikelihood, partial(problem))
    result = minimize(objective, ElasticNet(1e3, 0.0), OWLQN(), Run(tol=1e-3))
    assert result.coords.size == 0
    assert result.status is Status.STATIONARY


def test_marginals_of_the_partial_model_are_those_of_known_labels_and_small_elsewhere(problem):
    """p of a known label as ever; where several are allowed, what is expected beyond those, at most 1 together."""
    allowed = partial(problem)
    w = np.random.default_rng(2).normal(size=problem.n_coords)
    found = Marginals(point_at(objective_of(problem, PartialLikelihood, allowed), w).whole)
    every = np.arange(N_STATES), np.arange(problem.targets.size)
    p, is_known = found.at(*every), allowed.sum(axis=0) == 1
    residual = found.point.evaluation.residual * found.part.inverse_weights
    expected = np.where(is_known, residual + allowed, np.maximum(residual, 0.0))
    np.testing.assert_allclose(p, expected, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=0)[is_known], 1.0)
    assert p.min() >= -1e-12
    assert p.sum(axis=0).max() <= 1.0 + 1e-12


def test_learning_item_by_item_descends_the_partial_loss(problem):
    """A step on one item is its gradient times the rate; many of them come near the optimum."""
    objective = objective_of(problem, PartialLikelihood, partial(problem))
    w = np.random.default_rng(3).normal(size=problem.n_coords)
    coords = np.arange(w.size)
    state = SGDState(objective, (coords, w), ElasticNet(0.0))
    items = np.flatnonzero(problem.item_weights > 0)
    state.learn(np.array([1]), 1e-3)
    gradient = point_at(objective.with_parts(lambda part: part.take(items[1:2])), w).gradient(coords)
    moved = dense_weights(problem, *state.weights()) - w
    np.testing.assert_allclose(moved, -1e-3 * gradient, atol=1e-12)


def test_small_steps_end_a_partial_run_as_stationary_not_as_converged(problem):
    objective = objective_of(problem, PartialLikelihood, partial(problem))
    result = minimize(objective, ElasticNet(0.1, 0.05), ProxQN(), Run(tol=0.03, stop="estimate"))
    assert result.status is Status.STATIONARY
    assert np.isnan(result.estimated_gap)


@pytest.mark.parametrize("solver", [FeatureBCD(), AveragedPerceptron(), PassiveAggressive()], ids=str)
def test_methods_that_learn_from_single_labels_refuse_partial_labels(problem, solver):
    objective = objective_of(problem, PartialLikelihood, partial(problem))
    with pytest.raises(UnsupportedObjectiveError, match="PartialLikelihood"):
        minimize(objective, ElasticNet(0.0, 0.5), solver)


def test_an_item_without_allowed_labelling_is_named(problem):
    allowed = partial(problem)
    allowed[:, problem.offsets[2]] = False
    with pytest.raises(InputError, match="item 2: no labelling is allowed"):
        objective_of(problem, PartialLikelihood, allowed)


def test_groups_on_partial_labels(problem):
    objective = objective_of(problem, PartialLikelihood, partial(problem))
    penalty = GroupLasso(0.1, 0.0, 0.05, "l2", n_features=problem.x.shape[1], n_states=N_STATES)
    assert minimize(objective, penalty, SpaRSA(), Run(max_iter=3000)).status is Status.STATIONARY
