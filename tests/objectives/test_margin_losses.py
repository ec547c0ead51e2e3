"""The losses of flat objectives: definitions, derivatives, dual values, Lipschitz constants, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from margin_problems import (
    HINGES,
    NAMES,
    flat_objective,
    loss_of,
    make_problem,
    objective_of,
    point_at,
    weights_like,
)
from margin_references import MarginProblem, optimum
from problems import curvature_at, make_likelihood

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.objectives.losses.score_loss import NO_EDGES
from crfqn.objectives.objective import has_state
from crfqn.papers.zhong2014.feature_bcd import BlockState
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import GroupLasso
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.stochastic.state import SGDState
from crfqn.solvers.stopping import Run
from crfqn.structures.taxonomy import flat
from crfqn.threads import Pool

every_loss = pytest.mark.parametrize("name", NAMES)


@every_loss
def test_value_and_gradient_by_definition(name):
    problem = make_problem(name)
    objective = objective_of(problem)
    for scale in (0.0, 0.3, 3.0):
        w = weights_like(problem, scale=scale)
        point, (value, gradient) = point_at(problem, w, objective), problem.evaluate(w)
        assert point.value == pytest.approx(value, rel=1e-12)
        found = point.gradient(np.arange(w.size)).reshape(w.shape[::-1]).T
        np.testing.assert_allclose(found, gradient, rtol=1e-10, atol=1e-10)


@every_loss
def test_gradient_by_differences(name):
    problem = make_problem(name)
    objective, w = objective_of(problem), weights_like(make_problem(name))
    gradient = point_at(problem, w, objective).gradient(np.arange(w.size)).reshape(w.shape[::-1]).T
    direction = weights_like(problem, 3)
    step = 1e-6
    rise = point_at(problem, w + step * direction, objective).value
    fall = point_at(problem, w - step * direction, objective).value
    assert np.sum(gradient * direction) == pytest.approx((rise - fall) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", HINGES)
def test_second_derivatives_by_definition(name):
    problem = make_problem(name)
    loss, scores = loss_of(problem), (problem.x @ weights_like(problem)).T.copy()
    exact = problem.score_hessians(scores.T)
    evaluation = loss.evaluate(scores, NO_EDGES, problem.weights, Pool(1))
    diagonal = loss.curvature(scores, evaluation, problem.weights)
    for r in range(problem.n_states):
        np.testing.assert_allclose(diagonal[r], problem.weights * exact[:, r, r], atol=1e-12)
        for s in range(r):
            np.testing.assert_allclose(loss.mixed(r, s, scores), exact[:, r, s], atol=1e-12)


@every_loss
def test_the_model_is_the_generalised_hessian(name):
    problem = make_problem(name, n_items=40)
    w = weights_like(problem)
    order = np.arange(w.size).reshape(w.shape).T.ravel()  # of the coordinates k F + f in W's order
    exact = problem.hessian(w)[np.ix_(order, order)]
    point, coords = point_at(problem, w), np.arange(w.size)
    model = curvature_at(point).matrix(coords, 1000, 1000)
    model = model if isinstance(model, np.ndarray) else model.toarray()
    np.testing.assert_allclose(model, exact, atol=2e-5 * exact.max())
    np.testing.assert_allclose(curvature_at(point).diagonal(coords), np.diag(exact), rtol=1e-10, atol=1e-10)
    some = np.array([0, 3, 7, 20])
    np.testing.assert_allclose(
        curvature_at(point).diagonal(some), np.diag(exact)[some], rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("name", HINGES)
def test_a_model_of_some_positions_keeps_the_diagonal(name):
    problem = make_problem(name, n_items=40)
    w = weights_like(problem)
    point, coords = point_at(problem, w), np.arange(w.size)
    model = curvature_at(point).matrix(coords, 15, 1000)
    np.testing.assert_allclose(np.diag(model), curvature_at(point).diagonal(coords), rtol=1e-6)
    assert np.linalg.eigvalsh(model.astype(float)).min() > -1e-4 * np.diag(model).max()
    assert curvature_at(point).matrix(coords, 15, w.size - 1) is None


def test_ranking_of_single_labels_is_the_multiclass_loss():
    problem = make_problem("multiclass")
    ranking = MarginProblem("ranking", problem.x, problem.sets, problem.weights)
    w = weights_like(problem)
    one, other = point_at(problem, w), point_at(ranking, w)
    assert one.value == pytest.approx(other.value, rel=1e-13)
    np.testing.assert_allclose(one.whole.evaluation.residual, other.whole.evaluation.residual, atol=1e-12)


def test_two_classes_are_a_binary_squared_hinge_of_the_difference():
    problem = make_problem("multiclass", n_states=2)
    w = weights_like(problem)
    sign = np.where(problem.labels == 0, 1.0, -1.0)
    margin = sign * (problem.x @ (w[:, 0] - w[:, 1]))
    expected = problem.weights @ np.maximum(1.0 - margin, 0.0) ** 2
    assert point_at(problem, w).value == pytest.approx(expected, rel=1e-12)


def test_at_zero_every_pair_costs_one():
    for name, n_pairs in (("multiclass", 3), ("multitask", 4)):
        problem = make_problem(name)
        point = point_at(problem, np.zeros((6, 4)))
        assert point.value == n_pairs * problem.weights.sum()


def test_the_logistic_loss_is_the_flat_crf():
    problem = make_problem("logistic")
    ours = objective_of(problem)
    crf = make_likelihood(ours.whole.map.store, flat(4, 25), problem.labels, problem.weights, n_threads=1)
    w = weights_like(problem).T.ravel()
    coords = np.arange(w.size)
    one, other = ours.at(coords, w), crf.at(coords, w)
    assert one.value == pytest.approx(other.value, rel=1e-14)
    np.testing.assert_array_equal(one.gradient(coords), other.gradient(coords))
    np.testing.assert_allclose(
        curvature_at(one).diagonal(coords), curvature_at(other).diagonal(coords), rtol=1e-12
    )
    assert one.dual_value(0.7) == pytest.approx(other.dual_value(0.7), rel=1e-12)
    hinge = objective_of(make_problem("multiclass"))
    assert ours.has_marginals  # what belongs to likelihoods
    assert not hinge.has_marginals
    for kind in (BlockState, SGDState):
        assert has_state(ours, kind)
        assert not has_state(hinge, kind)


@pytest.mark.parametrize("name", HINGES)
@pytest.mark.parametrize("scale", [1.0, 0.5, 1e-3])
def test_dual_value_by_pairs(name, scale):
    """sum alpha - alpha^2 / 4 at the best alpha = 2 t max(1 - margin, 0), t <= scale."""
    problem = make_problem(name)
    w = weights_like(problem, scale=2.0)
    slack = problem.pairs(problem.x @ w)
    if name == "multitask":
        slack = np.maximum(1.0 - (2 * problem.sets - 1) * (problem.x @ w), 0.0)[:, :, None]
    c = problem.weights[:, None, None]
    values = [np.sum(c * (a - a**2 / 4)) for a in (2 * t * slack for t in np.linspace(0.0, scale, 2001))]
    found = point_at(problem, w).dual_value(scale)
    assert max(values) - 1e-12 <= found <= max(values) + 1e-5 * abs(max(values))


@every_loss
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_no_point_proves_more_than_the_optimum(name, norm):
    problem = make_problem(name, seed=4)
    strengths = (0.3, 0.0, 1.5)
    value, best = optimum(problem, strengths, norm)
    penalty = GroupLasso(1.5, 0.3, 0.0, norm, n_features=6, n_states=4)
    objective, random = objective_of(problem), np.random.default_rng(5)
    bounds = []
    for i in range(30):
        w = best * (i % 3 > 0) + random.normal(size=best.shape) * (0.0, 1e-4, 0.01, 1.0, 3.0)[i % 5]
        bounds.append(screen_point(penalty, point_at(problem, w, objective)).dual_value)
    assert max(bounds) <= value * (1 + 1e-9)
    assert max(bounds) == pytest.approx(value, rel=1e-3)  # no gap near the optimum


def constants_of(problem):
    objective = objective_of(problem)
    return objective.whole.loss.constants(objective.whole.map, objective.whole.weights)


@every_loss
def test_constants_bound_the_rows_of_the_hessian(name):
    problem = make_problem(name)
    constants = constants_of(problem)
    largest = np.zeros(6)
    for seed in range(15):
        w = weights_like(problem, seed, scale=(0.0, 0.1, 1.0, 10.0)[seed % 4])
        rows = [np.linalg.eigvalsh(problem.row_hessian(w, f)).max() for f in range(6)]
        largest = np.maximum(largest, rows)
    assert np.all(largest <= constants * (1 + 1e-12))
    assert np.all(largest >= 0.45 * constants)  # at W = 0 all pairs are violated: the bound says something


def test_constants_of_the_multiclass_loss_are_sharp_and_below_the_papers():
    problem = make_problem("multiclass", n_items=200)
    squares = problem.weights @ problem.x**2
    found = constants_of(problem)
    assert np.all(found < 0.5 * 4 * 3 * squares)  # 4 (m - 1) sum x^2, appendix A
    one_class = MarginProblem(
        "multiclass", problem.x, np.eye(4, dtype=int)[np.zeros(200, int)], problem.weights
    )
    exact = [np.linalg.eigvalsh(one_class.row_hessian(np.zeros((6, 4)), f)).max() for f in range(6)]
    np.testing.assert_allclose(constants_of(one_class), exact, rtol=1e-12)


@every_loss
def test_no_curvature_is_above_the_bound(name):
    """The global constant: 1 % above the loss's bound times ||X||_2^2 where no value is negative."""
    for is_positive in (True, False):
        problem = make_problem(name)
        x = np.abs(problem.x) if is_positive else problem.x
        problem = MarginProblem(name, x, problem.sets, problem.weights)
        bound = objective_of(problem).hessian_bound()
        for seed in range(6):
            w = weights_like(problem, seed, scale=(0.0, 0.1, 1.0)[seed % 3])
            assert np.linalg.eigvalsh(problem.hessian(w)).max() <= bound
        c = problem.weights * loss_of(problem).score_bounds
        exact = np.linalg.norm(np.sqrt(c)[:, None] * x, 2) ** 2
        assert exact <= bound <= (1.01 if is_positive else 3.0) * exact
    papers = 4 * 3 * problem.weights @ (problem.x**2).sum(axis=1)
    assert name != "multiclass" or bound < 0.5 * papers


@every_loss
def test_fista_with_the_constant_step(name):
    problem, penalty = make_problem(name), GroupLasso(2.0, n_features=6, n_states=4)
    value = optimum(problem, (0.0, 0.0, 2.0), "l2")[0]
    passes = []
    for lipschitz in ("bound", None):
        result = minimize(
            objective_of(problem), penalty, FISTA(lipschitz=lipschitz), Run(tol=1e-6, max_iter=900)
        )
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(value, rel=2e-6)
        passes.append(result.passes)
    assert passes[0] <= 460
    if name != "multitask":  # the bound is far above what a run meets
        assert passes[1] < passes[0]


@every_loss
def test_a_part_of_the_items(name):
    problem = make_problem(name)
    items = np.array([0, 1, 3, 8, 20])
    part = MarginProblem(name, problem.x[items], problem.sets[items], problem.weights[items])
    w = weights_like(problem)
    found = point_at(problem, w, objective_of(problem).with_parts(lambda part: part.take(items)))
    assert found.value == pytest.approx(part.evaluate(w)[0], rel=1e-12)
    assert objective_of(problem).sample(5).n_items == 5


@every_loss
def test_rays(name):
    problem = make_problem(name)
    w, d = weights_like(problem), weights_like(problem, 2)
    w[1] = 0.0
    start, flat_d = point_at(problem, w), d.T.ravel()
    ray = start.along(np.arange(d.size), flat_d)
    for step in (1.0, 0.25):
        assert ray.at(step).value == pytest.approx(problem.evaluate(w + step * d)[0], rel=1e-12)


LABELS = np.array([0, 1, 2], np.int32)
BAD = [
    (lambda: MulticlassSquaredHinge(LABELS, 2), r"labels within 0 ... 1, got 0 ... 2"),
    (lambda: MultitaskSquaredHinge(LABELS, 0), r"n_states: expected an integer >= 1, got 0"),
    (
        lambda: MultinomialLogistic.of_labels(LABELS / 2, 3),
        r"1-D array of integers, got shape \(3,\) and dtype float64",
    ),
    (lambda: MultilabelRanking(np.array([0, 2]), np.array([1, 1]), 3), r"position 0 has label 1 twice"),
    (lambda: MultilabelRanking(np.array([0, 1]), np.array([3]), 3), r"labels within 0 ... 2, got 3 ... 3"),
    (lambda: MultilabelRanking(np.array([0, 2]), np.array([1]), 3), r"starts from 0 to 1"),
    (
        lambda: flat_objective(
            FeatureStore.from_matrix(np.ones((3, 1)), [0, 3]), MulticlassSquaredHinge(LABELS, 3)
        ),
        r"a loss over 1 items and 3 positions, as the features have, got 3 items and 3 positions",
    ),
    (
        lambda: flat_objective(
            FeatureStore.from_matrix(np.ones((2, 1)), [0, 1, 2]), MulticlassSquaredHinge(LABELS, 3)
        ),
        r"a loss over 2 items and 2 positions, as the features have, got 3 items and 3 positions",
    ),
    (
        lambda: objective_of(make_problem("multiclass")).check_state(SGDState),
        r"the loss is MulticlassSquaredHinge",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
