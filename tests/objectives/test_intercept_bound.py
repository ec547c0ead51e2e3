"""Bounds on unpenalised weights at an optimum, against optima that scipy finds, and what they are charged for."""

from dataclasses import replace

import numpy as np
import pytest
from margin_problems import NAMES, objective_of
from margin_problems import make_problem as make_margin_problem
from problems import SHAPES, make_problem, make_tree_problem
from problems import objective_of as tree_objective
from references import Penalised

from crfqn.objectives.losses.potentials import LINKS
from crfqn.objectives.objective import build_objective, in_blocks
from crfqn.papers.agarwal2014.gls import Link
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.certificate import best_bound, unpenalised_slack
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.solvers.unpenalised import solve_unpenalised

STRENGTHS = [(0.5, 0.0), (0.0, 0.4)]


class Margins(Penalised):
    """A loss of margins whose last feature is constant, over weights k F + f."""

    def __init__(self, name, seed, constant=1.0, n_items=25):
        made = make_margin_problem(name, seed, n_items)
        self.made = replace(made, x=np.column_stack([made.x, np.full(n_items, constant)]))
        n_features = self.made.x.shape[1]
        self.n_coords = n_features * made.n_states
        self.intercepts = n_features - 1 + n_features * np.arange(made.n_states)

    def loss(self, w):
        return self.evaluate(w)[0]

    def evaluate(self, w):
        value, g = self.made.evaluate(w.reshape(self.made.n_states, -1).T)
        return value, g.T.ravel()

    def objective(self):
        return objective_of(self.made)


def check_charge(problem, objective, penalty, optimum, seed=0):
    """No bound less its charge is above the optimum: near it, far from it, before and after intercepts are solved."""
    best, w = optimum
    random = np.random.default_rng(seed)
    n_charged = 0
    for scale in [1e-9, 1e-4, 0.1, 1.0]:
        at = np.where(random.random(w.size) < 0.7, w, 0.0) + scale * random.normal(size=w.size)
        coords = np.flatnonzero(at)
        point = objective.at(coords, at[coords])
        for there in (point, solve_unpenalised(point, penalty.unpenalised)):
            charge = unpenalised_slack(there, penalty)
            screening = penalty.screen(there)
            g = np.where(np.isin(screening.coords, penalty.unpenalised), 0.0, screening.gradient)
            for s in penalty.dual_scales(screening.coords, g):
                bound = there.dual_value(s) - penalty.conjugate(screening.coords, s * g) - charge
                assert bound <= best * (1 + 1e-7) + 1e-9
            assert best_bound(there, penalty, screening).dual_value <= best * (1 + 1e-7) + 1e-9
            n_charged += 0 < charge < np.inf
    return n_charged


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("constant", [1.0, 0.2, -3.0])
def test_intercepts_of_margin_losses(name, l1, l2, constant):
    n_charged = 0
    for seed in range(2):
        problem = Margins(name, seed, constant)
        penalty, objective = ElasticNet(l1, l2, problem.intercepts), problem.objective()
        best, w = problem.optimum(l1, l2, problem.intercepts)
        b = w[problem.intercepts]
        bound = objective.intercept_bound(problem.intercepts, best * (1 + 1e-9), penalty.norm_bounds(best))
        if constant > 0:
            assert np.isfinite(bound)
        assert (np.abs(b).max() if name == "multitask" else np.ptp(b)) <= bound * (1 + 1e-6) + 1e-6
        n_charged += check_charge(problem, objective, penalty, (best, w), seed)
    assert n_charged or constant < 0


@pytest.mark.parametrize("constant", [1.0, 0.2, -3.0])
def test_intercepts_of_the_softmax_link(constant):
    """As under the likelihood that it is; targets between labels prove nothing."""
    problem = Margins("logistic", 3, constant)
    likelihood, penalty = problem.objective(), ElasticNet(0.0, 0.4, problem.intercepts)
    targets = np.eye(problem.made.n_states)[:, problem.made.labels]
    objective, mixed = (
        build_objective(likelihood.whole.map, Link(LINKS["softmax"], table), likelihood.whole.weights)
        for table in (targets, 0.9 * targets + 0.1 / len(targets))
    )
    best, w = problem.optimum(0.0, 0.4, problem.intercepts)
    arguments = problem.intercepts, best, penalty.norm_bounds(best)
    bound = objective.intercept_bound(*arguments)
    assert bound == likelihood.intercept_bound(*arguments)
    assert check_charge(problem, objective, penalty, (best, w)) or constant < 0
    assert mixed.intercept_bound(*arguments) == np.inf


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("name", NAMES)
def test_norms_under_groups(name, norm):
    problem = Margins(name, 5)
    penalty = GroupLasso(1.0, norm=norm, unpenalised=problem.intercepts, n_features=7, n_states=4)
    w = 0.1 * np.random.default_rng(1).normal(size=problem.n_coords)
    w[problem.intercepts] = 0.0
    for group_l1, l1, l2 in [(1.0, 0.0, 0.0), (0.0, 0.7, 0.0), (1.0, 0.2, 0.3)]:
        penalty = replace(penalty, group_l1=group_l1, l1=l1, l2=l2)
        coords = np.arange(problem.n_coords)
        l1_norm, l2_norm = penalty.norm_bounds(penalty.value(coords, w))
        assert np.abs(w).sum() <= l1_norm * (1 + 1e-12)
        assert np.linalg.norm(w) <= l2_norm * (1 + 1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_intercepts_of_taxonomies(shape):
    for seed in range(3):
        problem = make_tree_problem(shape, seed, has_weights=True)
        problem = replace(problem, x=np.column_stack([problem.x, np.ones(problem.n_items)]))
        problem.item_weights[: problem.forest.labels.size] = 0.1  # every label counts, some hardly
        n_features = problem.x.shape[1]
        intercepts = n_features - 1 + n_features * np.arange(problem.n_states)
        penalty, objective = ElasticNet(0.4, 0.1, intercepts), tree_objective(problem)
        best, w = problem.optimum(0.4, 0.1, intercepts)
        bound = objective.intercept_bound(intercepts, best, penalty.norm_bounds(best))
        scores = problem.forest.label_scores(w[intercepts][:, None])
        assert np.ptp(scores) <= bound < np.inf
        assert check_charge(problem, objective, penalty, (best, w), seed)


@pytest.mark.parametrize("unpenalised", [[5, 13, 21], [0], [24, 27, 32], [5, 13, 21, 25]])
def test_chains(unpenalised):
    """A whole row is bounded; single weights, edges, and a row with an edge are not."""
    problem = make_problem(0, n_items=30, n_features=8, longest=3)
    is_row = unpenalised == [5, 13, 21]
    coords = np.array(unpenalised)
    for l1, l2 in STRENGTHS:
        penalty, objective = ElasticNet(l1, l2, coords), problem.objective()
        found = problem.optimum(l1, l2, coords)
        bound = objective.intercept_bound(coords, found[0], penalty.norm_bounds(found[0]))
        assert np.isfinite(bound) == is_row
        assert not is_row or np.ptp(found[1][coords]) <= bound
        check_charge(problem, objective, penalty, found)


def test_blocks_bound_as_one():
    problem = Margins("logistic", 4)
    whole = problem.objective()
    norms = ElasticNet(0.5).norm_bounds(10.0)
    blocked = in_blocks(whole.whole, 6)
    bound = [o.intercept_bound(problem.intercepts, 10.0, norms) for o in (whole, blocked)]
    assert len(blocked.parts) > 2
    assert 0 < bound[1] <= bound[0] * (1 + 1e-9)  # a block's own features bound its scores


def test_nothing_bounds_a_label_without_items():
    """Its likelihood has no optimum, and no status says that one was proved; a hinge's intercept need not go far."""
    problem = Margins("logistic", 2)
    problem.made.weights[problem.made.labels == 1] = 0.0
    penalty = ElasticNet(0.5, 0.0, problem.intercepts)
    result = minimize(problem.objective(), penalty, ProxQN(), Run(tol=1e-3, max_iter=100))
    assert result.status is not Status.CONVERGED
    assert np.isnan(result.gap)
    hinge = Margins("multiclass", 2)
    hinge.made.weights[hinge.made.labels == 1] = 0.0
    best, w = hinge.optimum(0.5, 0.0, hinge.intercepts)
    penalty = ElasticNet(0.5, 0.0, hinge.intercepts)
    check_charge(hinge, hinge.objective(), penalty, (best, w))
    assert minimize(hinge.objective(), penalty, ProxQN(), Run(tol=1e-3)).status is Status.CONVERGED


def test_nothing_bounds_without_a_penalty():
    problem = Margins("logistic", 2)
    bound = problem.objective().intercept_bound(problem.intercepts, 1.0, (np.inf, np.inf))
    assert bound == np.inf
