"""The duality gap: the dual value against enumeration, and below the optimum whatever the weights."""

import numpy as np
import pytest
from problems import SHAPES, make_tree_problem, objective_of, point_at
from references import elastic_net_conjugate, random_problem

from crfqn.penalties import ElasticNet
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.screened_point import screen_point

WEIGHTS = (1.0, 0.0, 2.5, 0.3, 1.0, 4.0)
LENGTHS = (1, 3, 2, 3, 1, 3)


def problem_of(kind="chain", has_weights=False, seed=0):
    if kind in ("chain", "three states"):
        n_states = 2 if kind == "chain" else 3
        return random_problem(seed, n_states, 3, LENGTHS, item_weights=WEIGHTS if has_weights else None)
    return make_tree_problem(kind, seed, n_items=12, n_features=3, has_weights=has_weights)


KINDS = pytest.mark.parametrize("kind", ["chain", *SHAPES])
IS_WEIGHTED = pytest.mark.parametrize("has_weights", [False, True], ids=["unweighted", "weighted"])


def bound_at(point, penalty):
    return best_bound(point, penalty, point.screen(penalty.l1)).dual_value


def lower_bound(problem, w, penalty):
    return bound_at(point_at(objective_of(problem), w), penalty)


@pytest.mark.parametrize("kind", ["chain", "three states", *SHAPES])
@IS_WEIGHTED
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0, 30.0])
def test_dual_value_is_the_entropy_of_the_mixtures(kind, has_weights, scale):
    problem = problem_of(kind, has_weights, 1)
    w = scale * np.random.default_rng(2).normal(size=problem.n_coords)
    point = point_at(objective_of(problem), w)
    for s in (1.0, 0.999, 0.5, 0.1, 1e-6):
        assert point.dual_value(s) == pytest.approx(problem.dual_loss(w, s), rel=1e-9, abs=1e-10)


@KINDS
@IS_WEIGHTED
@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (2.0, 0.0), (0.5, 0.2), (0.0, 1.0), (1.0, 1e-3)])
def test_no_weights_prove_more_than_the_optimum(kind, has_weights, l1, l2):
    problem = problem_of(kind, has_weights)
    penalty = ElasticNet(l1, l2)
    value, best = problem.optimum(l1, l2)
    objective = objective_of(problem)
    random = np.random.default_rng(3)
    bounds = []
    for i in range(60 if kind == "chain" else 24):
        w = random.normal(size=best.size) * (0.01, 0.1, 1.0, 5.0)[i % 4]
        w = w if i % 3 else best + 0.1 * w
        bounds.append(bound_at(point_at(objective, w), penalty))
        assert bounds[-1] <= value * (1 + 1e-9)
        assert bounds[-1] <= problem.value(w, l1, l2)
    assert np.isfinite(bounds).all()
    assert max(bounds) > 0.5 * value  # and the bounds say something


@KINDS
@IS_WEIGHTED
@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (0.5, 0.2), (0.0, 1.0)])
def test_no_gap_at_the_optimum(kind, has_weights, l1, l2):
    problem = problem_of(kind, has_weights)
    value, w = problem.optimum(l1, l2)
    w[np.abs(w) < 1e-9] = 0.0
    assert lower_bound(problem, w, ElasticNet(l1, l2)) == pytest.approx(value, rel=2e-5)


def test_no_gap_at_zero_where_zero_is_optimal():
    problem = problem_of()
    zero = np.zeros(problem.n_coords)
    largest = np.abs(problem.gradient(zero)).max()
    value = problem.loss(zero)
    for l1 in (largest * (1 + 1e-12), 2 * largest):
        assert lower_bound(problem, zero, ElasticNet(l1)) == pytest.approx(value, rel=1e-12)
    assert lower_bound(problem, zero, ElasticNet(0.9 * largest)) < 0.999 * value


@KINDS
@IS_WEIGHTED
@pytest.mark.parametrize(("l1", "l2"), [(0.7, 0.0), (0.7, 0.3), (0.0, 0.3)])
def test_the_bound_by_enumeration(kind, has_weights, l1, l2):
    """D(s) = entropy of the mixtures - conjugate of the penalty, the best of the scales that were tried."""
    problem = problem_of(kind, has_weights, 4)
    w = np.random.default_rng(5).normal(size=problem.n_coords)
    g = problem.gradient(w)
    feasible = min(1.0, l1 / np.abs(g).max())
    found = lower_bound(problem, w, ElasticNet(l1, l2))
    scales = np.linspace(1e-3, 1.0, 300) if l2 > 0 else np.array([feasible * (1 - 1e-14)])
    bounds = [problem.dual_loss(w, s) - elastic_net_conjugate(s * g, l1, l2) for s in scales]
    if l2 == 0:
        assert found == pytest.approx(bounds[0], rel=1e-9)
    else:
        one = problem.dual_loss(w, 1.0) - elastic_net_conjugate(g, l1, l2)
        assert one - 1e-9 <= found <= max(bounds) + 1e-3


@KINDS
def test_certain_models_have_a_finite_dual_value(kind):
    """P(y_i | x_i) = exp(-5000) is 0 in floating point."""
    problem = problem_of(kind)
    w = 5000.0 * np.random.default_rng(6).normal(size=problem.n_coords)
    for s in (1.0, 0.5):
        assert point_at(objective_of(problem), w).dual_value(s) == pytest.approx(
            problem.dual_loss(w, s), abs=1e-6
        )
    assert lower_bound(problem, w, ElasticNet(1.0)) <= problem.optimum(1.0, 0.0)[0]


FREE = np.array([1, 6])


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_no_certificate_with_an_unpenalised_coordinate_that_is_not_stationary(l2):
    problem = problem_of()
    penalty = ElasticNet(0.5, l2, FREE)
    w = np.random.default_rng(7).normal(size=problem.n_coords)
    point = point_at(objective_of(problem), w)
    assert np.abs(point.gradient(FREE)).min() > 1e-3
    assert best_bound(point, penalty, point.screen(0.0)).dual_value == -np.inf


@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize("strength", [0.5, 5.0, 50.0])
def test_an_epoch_proves_no_more_than_the_optimum_with_unpenalised_coordinates(strength, l2):
    """The screening leaves out free coordinates whose gradient is below l1: they must count all the same."""
    problem = problem_of()
    penalty = ElasticNet(strength, l2, FREE)
    value = problem.optimum(strength, l2, FREE)[0]
    point = point_at(objective_of(problem), np.zeros(problem.n_coords))
    assert np.abs(point.gradient(FREE)).min() > 0.1
    dual_value = screen_point(penalty, point).dual_value
    assert dual_value <= value * (1 + 1e-9)


def test_an_unpenalised_coordinate_that_is_stationary_keeps_the_certificate():
    """A feature that no position has: its gradient is exactly 0."""
    problem = problem_of()
    problem.x[:, 1] = 0.0
    penalty = ElasticNet(1.0, 0.0, np.array([1]))
    w = np.random.default_rng(8).normal(size=problem.n_coords)
    point = point_at(objective_of(problem), w)
    assert point.gradient(np.array([1]))[0] == 0.0
    found = best_bound(point, penalty, point.screen(0.0)).dual_value
    assert np.isfinite(found)
    assert found == pytest.approx(lower_bound(problem, w, ElasticNet(1.0)), rel=1e-14)
