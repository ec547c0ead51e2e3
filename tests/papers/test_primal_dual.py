"""FBPD: optima of an interior-point method, the printed algorithms step by step, bounds that hold, what it refuses."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from conic import (
    COLUMNS,
    GROUPS,
    INTERCEPTS,
    F,
    K,
    N,
    algorithm_1,
    algorithm_2,
    conic_optimum,
    data,
    norms_of,
    printed,
)  # fmt: skip

from crfqn.arrays import NO_COORDS, NO_VALUES
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.losses.hinges import MulticlassHinge, MulticlassSquaredHinge
from crfqn.objectives.objective import build_objective
from crfqn.papers.chierchia2015.bounded_loss import BoundedObjective, LossBudget
from crfqn.papers.chierchia2015.constrained import ConstrainedFBPD
from crfqn.papers.chierchia2015.norms import FeatureBlocks
from crfqn.papers.chierchia2015.regularised import FBPD
from crfqn.papers.chierchia2015.splitting_state import HingeSplitting
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool

pytestmark = pytest.mark.usefixtures("compiled")
KINDS = [("l1", ""), ("l2", ""), ("rows", "l2"), ("rows", "linf"), ("blocks", "l2"), ("blocks", "linf")]
kinds = pytest.mark.parametrize(("kind", "norm"), KINDS)
STRENGTH, BOUND, TOL = 1.5, 6.0, 1e-5


def objective(loss=MulticlassHinge, offset=None):
    x, y, weights = data()
    return build_objective(
        DenseMap.from_matrix(x, np.arange(N + 1), True, Pool(1)), loss(y, K), weights, None, offset
    )


def bounded(bound=BOUND):
    return BoundedObjective(objective(), LossBudget(bound))


def penalty(kind, norm="l2", strength=STRENGTH):
    sizes = {"n_features": COLUMNS, "n_states": K}
    if kind == "l1":
        return ElasticNet(strength, 0.0, INTERCEPTS)
    if kind == "l2":
        return ElasticNet(0.0, strength, INTERCEPTS)
    if kind == "rows":
        return GroupLasso(strength, norm=norm, unpenalised=INTERCEPTS, **sizes)
    return FeatureBlocks(strength, norm=norm, unpenalised=INTERCEPTS, feature_groups=GROUPS, **sizes)


def first(problem):
    return problem.at(NO_COORDS, NO_VALUES)


def dense(point):
    out = np.zeros(K * COLUMNS)
    out[point.coords] = point.weights
    return out


@kinds
def test_the_regularised_optimum(kind, norm):
    found = minimize(objective(), penalty(kind, norm), FBPD(), Run(tol=TOL, max_iter=3000))
    optimum = conic_optimum(kind, norm, STRENGTH)
    assert found.status is Status.CONVERGED
    assert -1e-8 <= found.value / optimum - 1.0 <= TOL
    assert found.gap <= TOL


@kinds
def test_the_constrained_optimum(kind, norm):
    found = minimize(bounded(), penalty(kind, norm, 1.0), ConstrainedFBPD(), Run(tol=TOL, max_iter=3000))
    optimum = conic_optimum(kind, norm, 1.0, BOUND)
    assert found.status is Status.WITHIN_BOUND
    assert abs(found.value / optimum - 1.0) <= 2 * TOL
    assert found.excess <= TOL
    loss = objective().at(found.coords, found.weights).value
    assert loss == pytest.approx(BOUND * (1.0 + found.excess), rel=1e-9) or loss < BOUND


@pytest.mark.parametrize("kind", ["l1", "blocks"])
def test_every_bound_holds_on_the_way(kind):
    optimum = conic_optimum(kind, "l2", STRENGTH)
    for state in islice(FBPD().steps(objective(), penalty(kind), first(objective())), 60):
        assert state.dual_value <= optimum * (1 + 1e-9) <= state.value * (1 + 1e-8)
    least = conic_optimum(kind, "l2", 1.0, BOUND)
    states = islice(ConstrainedFBPD().steps(bounded(), penalty(kind, strength=1.0), first(bounded())), 60)
    assert all(min(state.dual_value, state.value) <= least * (1 + 1e-8) for state in states)


def test_the_steps_of_algorithm_1():
    norm = np.linalg.norm(printed().t, 2)
    solver = FBPD("differences", omega=2.0, n_steps=1, restarts=False)
    states = solver.steps(objective(), penalty("l1"), first(objective()))
    found = [dense(state.point) for state in islice(states, 13)]
    ours = objective().state(HingeSplitting).norm("differences")
    for n in (1, 5, 12):
        x, _ = algorithm_1(STRENGTH, 1.0 / (2.0 * ours), 2.0 / ours, n)
        np.testing.assert_allclose(found[n], x, atol=1e-12)
    assert norm <= ours <= 1.02 * norm


def test_the_steps_of_algorithm_2():
    ours = objective().state(HingeSplitting).norm("differences")
    assert ours > 1.0
    solver = ConstrainedFBPD(omega=2.0, n_steps=1, restarts=False)
    states = solver.steps(bounded(), penalty("l1", strength=1.0), first(bounded()))
    found = [dense(state.point) for state in islice(states, 13)]
    for n in (1, 5, 12):
        x, _ = algorithm_2(BOUND, 1.0 / (2.0 * ours), 2.0 / ours, n)
        np.testing.assert_allclose(found[n], x, atol=1e-12)


def test_the_norm_of_the_scores_is_that_of_the_features():
    x, _, _ = data()
    ours = objective().state(HingeSplitting).norm("scores")
    norm = np.linalg.norm(np.column_stack([x, np.ones(N)]), 2)
    assert norm <= ours <= 1.02 * norm


def test_the_papers_rule_ends_a_run_without_a_proof():
    found = minimize(objective(), penalty("rows"), FBPD(change=1e-2), Run(tol=0.0))
    assert found.status is Status.RULE_MET
    assert not found.status.is_success
    assert found.gap > 0


def test_a_bound_that_zero_keeps_leaves_zero():
    _, _, weights = data()
    loose = float(weights.sum()) + 1.0
    found = minimize(bounded(loose), penalty("l1", strength=1.0), ConstrainedFBPD())
    assert (found.status, found.value, found.n_nonzero) == (Status.WITHIN_BOUND, 0.0, 0)


def test_a_run_that_is_cut_short_proves_nothing():
    found = minimize(bounded(), penalty("l1", strength=1.0), ConstrainedFBPD(), Run(max_iter=2))
    assert found.status is Status.MAX_ITER
    assert found.excess > 1e-3
    assert np.isnan(found.gap)


def test_an_offset_is_part_of_the_scores():
    offset = np.random.default_rng(0).normal(size=(K, N))
    first_part = minimize(objective(offset=offset), penalty("rows"), FBPD(), Run(tol=1e-4, max_iter=3000))
    value = objective(offset=offset).at(first_part.coords, first_part.weights).value
    value += penalty("rows").value(first_part.coords, first_part.weights)
    assert first_part.status is Status.CONVERGED
    assert first_part.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_blocks_of_features_are_kept_or_dropped_whole(norm):
    found = minimize(objective(), penalty("blocks", norm, 4.0), FBPD(), Run(tol=1e-4, max_iter=3000))
    w = np.zeros(K * COLUMNS)
    w[found.coords] = found.weights
    table = w.reshape(K, COLUMNS)[:, :F]
    sizes = norms_of("blocks", table, np.count_nonzero)
    assert 0 in sizes
    assert any(sizes)
    value = 4.0 * sum(norms_of("blocks", table, lambda v: np.linalg.norm(v, np.inf if norm == "linf" else 2)))
    assert penalty("blocks", norm, 4.0).value(found.coords, found.weights) == pytest.approx(value)


def test_other_solvers_take_blocks_of_features():
    problem = objective(MulticlassSquaredHinge)
    runs = [
        minimize(problem, penalty("blocks"), solver, Run(tol=1e-7, max_iter=3000))
        for solver in (ProxQN(), FISTA())
    ]
    assert all(run.status is Status.CONVERGED for run in runs)
    assert runs[0].value == pytest.approx(runs[1].value, rel=1e-6)
    with pytest.raises(InputError, match="penalty of single weights or of rows"):
        minimize(problem, penalty("blocks"), RowDescent())


@pytest.mark.parametrize(
    ("problem", "solver", "message"),
    [
        (lambda: objective(MulticlassSquaredHinge), FBPD(), "needs the multiclass hinge"),
        (bounded, FBPD(), "needs the constrained FBPD"),
        (objective, ConstrainedFBPD(), "BoundedSplitting is kept for a bound on the loss"),
        (bounded, FISTA(), "has no gradient"),
        (bounded, ProxQN(), "needs the constrained FBPD"),
    ],
)
def test_what_does_not_fit_is_refused(problem, solver, message):
    with pytest.raises(UnsupportedObjectiveError, match=message):
        minimize(problem(), penalty("l1"), solver)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FBPD("neither"), "norm: expected one of"),
        (lambda: FBPD(omega=0.0), "omega: expected"),
        (lambda: FBPD(change=-1.0), "change: expected"),
        (lambda: ConstrainedFBPD(n_steps=0), "n_steps: expected an integer >= 1"),
        (lambda: LossBudget(0.0), "bound: expected a finite number > 0, got 0.0"),
        (lambda: LossBudget(np.nan), "bound: expected a finite number > 0"),
        (lambda: FeatureBlocks(1.0, n_features=3, n_states=2, feature_groups=np.zeros(2, int)), "3 integers"),
        (
            lambda: FeatureBlocks(1.0, n_features=2, n_states=2, feature_groups=np.array([0, -1])),
            "2 integers",
        ),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
