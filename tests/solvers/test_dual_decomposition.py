"""Dual decomposition: the optimum of an independent solver, certificates that hold, and the sub-problems one by one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from linked import from_python
from sklearn.datasets import load_digits

import crfqn.objectives
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.estimators.multiclass import MulticlassClassifier
from crfqn.objectives.executors import LocalParts
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassHinge, MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.objective import build_objective
from crfqn.objectives.part import Part
from crfqn.papers.blondel2014 import gram_map
from crfqn.papers.blondel2014.gram_map import GramMap, KernelObjective
from crfqn.papers.blondel2014.sub_solver_kernels import SUB_SOLVER_CODES, SubSolver, solve_block
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.automatic.auto_solver import for_items
from crfqn.solvers.dual import decomposition
from crfqn.solvers.dual.decomposition import SUB_SOLVERS, DualDecomposition
from crfqn.solvers.dual.decomposition_kernels import solve_pairs
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.minimize import minimize
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool

assert crfqn.objectives  # registers the views
N, F, K, L2 = 40, 7, 4, 0.7
EXACT = ("pivot", "sort")


@cache
def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(N, F)) * (random.random((N, F)) < 0.6)
    y = random.integers(0, K, N).astype(np.int32)
    x[np.arange(N), y] += 1.0
    x[5] = 0.0  # an item without features
    weights = random.random(N) + 0.5
    weights[3] = 0.0
    return x, y, weights


def problem(kind="sparse", has_free_intercept=False, offset=None):
    x, y, weights = data()
    offsets = np.arange(N + 1)
    if kind == "dense":
        features = DenseMap.from_matrix(x, offsets, has_free_intercept, Pool(1))
    else:
        store = FeatureStore.from_matrix(scipy.sparse.csr_array(x), offsets, allow_empty=True)
        features = SparseMap(store.with_constant() if has_free_intercept else store, Pool(1))
    unpenalised = np.arange(1, K + 1) * (F + 1) - 1 if has_free_intercept else np.empty(0, np.int64)
    objective = build_objective(features, MulticlassHinge(y, K), weights, offset=offset)
    return objective, ElasticNet(0.0, L2, unpenalised)


@cache
def optimum(has_free_intercept=False, seed=None):
    """The value that SLSQP finds with slacks as variables: it knows no dual."""
    x, y, c = data()
    fixed = np.zeros((K, N)) if seed is None else offset_of(seed)
    x = np.hstack([x, np.ones((N, 1))]) if has_free_intercept else x
    n_features = x.shape[1]
    rows, margins = [], []
    for i in range(N):
        for m in set(range(K)) - {int(y[i])}:
            row = np.zeros((n_features, K))
            row[:, m], row[:, y[i]] = -x[i], x[i]
            slack = np.zeros(N)
            slack[i] = 1.0
            rows.append(np.concatenate([row.ravel(), slack]))
            margins.append(1.0 + fixed[m, i] - fixed[y[i], i])
    a, margins = np.array(rows), np.array(margins)
    l2 = np.zeros((n_features, K))
    l2[:F] = L2
    h, slope = np.concatenate([l2.ravel(), np.zeros(N)]), np.concatenate([np.zeros(l2.size), c])
    start = np.concatenate([np.zeros(l2.size), np.full(N, max(margins.max(), 0.0))])
    found = scipy.optimize.minimize(
        lambda z: 0.5 * z @ (h * z) + slope @ z,
        start,
        jac=lambda z: h * z + slope,
        constraints=[{"type": "ineq", "fun": lambda z: a @ z - margins, "jac": lambda z: a}],
        bounds=[(None, None)] * l2.size + [(0.0, None)] * N,
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-13},
    )
    assert found.success
    return float(found.fun)


def offset_of(seed):
    return np.random.default_rng(seed).normal(size=(K, N))


def value_at(objective, penalty, result):
    point = objective.at(result.coords, result.weights)
    return point.value + penalty.value(point.coords, point.weights)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("has_free_intercept", [False, True])
@pytest.mark.parametrize("sub_solver", EXACT)
def test_exact_methods_find_the_optimum(kind, has_free_intercept, sub_solver):
    objective, penalty = problem(kind, has_free_intercept)
    result = minimize(objective, penalty, DualDecomposition(sub_solver), Run(tol=1e-7, max_iter=5000))
    assert result.status is Status.CONVERGED
    expected = optimum(has_free_intercept)
    assert result.value == pytest.approx(expected, rel=2e-7)
    assert result.value == pytest.approx(value_at(objective, penalty, result), rel=1e-12)
    assert result.value * (1.0 - result.gap) <= expected * (1.0 + 1e-9)  # the bound is one


@pytest.mark.parametrize(("sub_solver", "tol"), [("bisection", 1e-6), ("smo", 1e-6), ("frank-wolfe", 2e-3)])
def test_approximate_methods_come_near(sub_solver, tol):
    objective, penalty = problem()
    solver = DualDecomposition(sub_solver, tau=1e-6)
    result = minimize(objective, penalty, solver, Run(tol=tol, max_iter=5000))
    assert result.status is Status.CONVERGED
    assert optimum() * (1 - 1e-9) <= result.value <= optimum() * (1.0 + tol) * (1 + 1e-9)


def test_scores_that_are_there_before_any_weight():
    objective, penalty = problem(offset=offset_of(7))
    result = minimize(objective, penalty, DualDecomposition(), Run(tol=1e-7, max_iter=5000))
    assert result.value == pytest.approx(optimum(seed=7), rel=2e-7)


@pytest.mark.parametrize("tau", [1e-1, 1e-3])
def test_loose_bisection_is_feasible_before_it_is_valued(tau):
    """The variables themselves are off their simplex; bounds must hold all the same."""
    objective, penalty = problem()
    blocks = objective.state(DualItems, penalty, "bisection", tau)
    for _ in range(5):
        blocks.sweep(blocks.items)
        off = np.abs(blocks.alpha.sum(axis=1)).max()
        assert off > 1e-9
        certified = blocks.copied().certify(blocks.items)
        assert certified.dual_value <= optimum() * (1 + 1e-9) <= certified.value * (1 + 2e-9)


@pytest.mark.parametrize("sub_solver", SUB_SOLVERS)
def test_every_pass_lowers_the_dual_and_keeps_it_feasible(sub_solver):
    objective, penalty = problem()
    blocks = objective.state(DualItems, penalty, sub_solver, 1e-12)
    _, y, weights = data()
    before = 0.0
    for _ in range(8):
        blocks.sweep(blocks.items)
        dual_value = blocks.copied().certify(blocks.items).dual_value
        assert dual_value > before
        before = dual_value
        bound = np.zeros((N, K))
        bound[np.arange(N), y] = weights / L2
        assert (blocks.alpha <= bound + 1e-9).all()
        np.testing.assert_allclose(blocks.alpha.sum(axis=1), 0.0, atol=1e-9)
        np.testing.assert_allclose(blocks.weights[:, :K], data()[0].T @ blocks.alpha, atol=1e-9)


@pytest.mark.parametrize("sub_solver", SUB_SOLVERS)
def test_a_sub_problem_is_solved_or_improved(sub_solver):
    """Equation 6 by its definition, against random feasible changes."""
    random, square, c = np.random.default_rng(1), 2.3, 1.4

    def value(b):
        delta = start - b
        return 0.5 * square * delta @ delta + g @ delta

    for _ in range(20):
        start, g = random.dirichlet(np.ones(6)) * c, random.normal(size=6)
        after, workspace = np.empty(6), np.empty(7)
        solver = SubSolver(SUB_SOLVER_CODES[sub_solver], 1e-13, np.ones(1, np.uint64))
        from_python(solve_block)(g, start, c, square, int(g.argmax()), 0, solver, after, workspace)
        assert after.sum() == pytest.approx(c)
        assert (after >= 0).all()
        assert value(after) < 0.0
        if sub_solver in (*EXACT, "bisection"):
            assert all(value(random.dirichlet(np.ones(6)) * c) >= value(after) - 1e-12 for _ in range(100))


@pytest.mark.parametrize(
    "setting", [{"shrink": False}, {"reshuffle": False}, {"cooling": 0.9}, {"max_passes": 1}]
)
def test_settings_change_the_way_and_not_the_end(setting):
    objective, penalty = problem()
    result = minimize(objective, penalty, DualDecomposition(**setting), Run(tol=1e-6, max_iter=5000))
    assert result.value == pytest.approx(optimum(), rel=2e-6)


def larger():
    """More variables than are solved to rounding at once."""
    random = np.random.default_rng(3)
    x, y = random.normal(size=(1200, 20)), random.integers(0, 3, 1200).astype(np.int32)
    x[np.arange(1200), y] += 3.0
    features = DenseMap.from_matrix(x, np.arange(1201), False, Pool(1))
    return build_objective(features, MulticlassHinge(y, 3)), ElasticNet(0.0, 50.0)


def test_shrinking_visits_fewer_items():
    objective, penalty = larger()
    seen = minimize(objective, penalty, DualDecomposition(), Run(tol=1e-6, max_iter=600))
    assert seen.status is Status.CONVERGED
    assert seen.trace.n_active[-1] < 1200
    objective, penalty = larger()
    whole = minimize(objective, penalty, DualDecomposition(shrink=False), Run(tol=1e-6, max_iter=600))
    assert whole.status is Status.CONVERGED
    assert seen.value == pytest.approx(whole.value, rel=1e-6)
    assert seen.passes < whole.passes


def test_a_run_that_is_stopped_has_a_value_and_a_bound():
    objective, penalty = larger()
    shown = []
    result = minimize(
        objective, penalty, DualDecomposition(), Run(tol=0.0, max_iter=2, callback=shown.append)
    )
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 2
    assert result.value == pytest.approx(value_at(objective, penalty, result), rel=1e-12)
    assert 0 < result.gap < 1
    assert result.violation > 0
    assert np.isnan(shown[0].value)  # nobody has asked for it yet


def test_the_loss_is_its_definition_and_has_no_curvature():
    _, y, weights = data()
    scores = np.random.default_rng(2).normal(size=(K, N)) * 2.0
    found = MulticlassHinge(y, K).evaluate(scores, np.empty(0), weights, Pool(1))
    expected = [
        max(0.0, *(1.0 + scores[m, i] - scores[y[i], i] for m in range(K) if m != y[i])) for i in range(N)
    ]
    np.testing.assert_allclose(found.item_losses, expected)
    # A subgradient: the loss is above its tangent everywhere.
    for seed in range(20):
        other = np.random.default_rng(seed).normal(size=(K, N)) * 2.0
        there = MulticlassHinge(y, K).evaluate(other, np.empty(0), weights, Pool(1))
        tangent = weights * found.item_losses + (found.residual * (other - scores)).sum(axis=0)
        assert (weights * there.item_losses >= tangent - 1e-12).all()
    assert not MulticlassHinge(y, K).has_curvature


def values_to(whole):
    return lambda others: lambda items: whole[np.ix_(items, others)]


class TestGram:
    """A kernel that is linear leads to the same problem."""

    def gram(self, **settings):
        x, y, weights = data()
        whole = x @ x.T
        made = GramMap(values_to(whole), np.diag(whole).copy(), pool=Pool(1), **settings)
        return KernelObjective(LocalParts([Part(made, MulticlassHinge(y, K), weights)], np.inf))

    @pytest.mark.parametrize("sub_solver", SUB_SOLVERS)
    @pytest.mark.parametrize("is_whole", [False, True])
    def test_sweeps_are_those_of_the_weights(self, sub_solver, is_whole):
        x = data()[0]
        objective = self.gram(whole=x @ x.T) if is_whole else self.gram()
        linear, penalty = problem()
        mine = objective.state(DualItems, penalty, sub_solver, 1e-9)
        theirs = linear.state(DualItems, penalty, sub_solver, 1e-9)
        order = np.random.default_rng(0).permutation(mine.items)
        mine.admit(order, np.zeros(order.size))
        for least in (0.0, 0.1, 0.2):
            mine.sweep(order, least)
            theirs.sweep(order, least)
        np.testing.assert_allclose(mine.alpha, theirs.alpha, atol=1e-9)
        value, dual_value, _ = mine.certify(order)
        assert (value, dual_value) == pytest.approx(theirs.certify(order)[:2], rel=1e-9)

    def test_the_most_violated_items_are_worked_on_and_the_others_hold(self, monkeypatch):
        monkeypatch.setattr(gram_map, "ROWS_PER_BLOCK", 8)
        objective, (linear, penalty) = self.gram(n_bytes=8 * 10 * 10), problem()
        mine = objective.state(DualItems, penalty, "sort", 0.0)
        theirs = linear.state(DualItems, penalty, "sort", 0.0)
        order = np.random.default_rng(0).permutation(mine.items)
        slacks = np.zeros(order.size)
        for _ in range(3):
            chosen = mine.admit(order, slacks)
            assert chosen.size == 10
            assert slacks[np.isin(order, chosen)].max() <= slacks[~np.isin(order, chosen)].min()
            for _ in range(2):
                mine.sweep(chosen)
                theirs.sweep(chosen)
            found, expected = mine.certify(order), theirs.certify(order)
            assert found[:2] == pytest.approx(expected[:2], rel=1e-9)
            slacks = found.seen.slacks
        np.testing.assert_allclose(mine.alpha, theirs.alpha, atol=1e-9)

    @pytest.mark.parametrize("shrink", [True, False])
    @pytest.mark.parametrize("by_gradient", [True, False])
    def test_settings_agree_where_not_all_items_fit(self, monkeypatch, shrink, by_gradient):
        monkeypatch.setattr(gram_map, "ROWS_PER_BLOCK", 8)
        monkeypatch.setattr(decomposition, "SMALL_PROBLEM_VARIABLES", 0)
        solver = DualDecomposition(shrink=shrink, by_gradient=by_gradient)
        penalty = problem()[1]
        result = minimize(
            self.gram(n_bytes=8 * 12 * 12),
            penalty,
            solver,
            Run(tol=1e-6, max_iter=5000, counts_proved_zeros=False),
        )
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(optimum(), rel=1e-5)

    def test_values_are_made_once_while_they_are_kept(self, monkeypatch):
        monkeypatch.setattr(gram_map, "ROWS_PER_BLOCK", 8)
        whole = data()[0] @ data()[0].T
        made = self.gram(n_bytes=8 * 20 * 20).whole.map
        for items in (np.arange(20), np.arange(5, 25), np.array([30, 6, 22]), np.arange(20)):
            before = made.n_made
            is_new = ~np.isin(items, made.held)
            square = made.hold(items)
            assert square.shape == (20, 20)
            assert sorted(made.held) == sorted(items)
            n = items.size
            np.testing.assert_allclose(square[:n, :n], whole[np.ix_(made.held, made.held)])
            assert made.n_made - before <= is_new.sum() * n
        expansion = np.random.default_rng(0).normal(size=(K, N))
        scores = np.zeros((K, N))
        states, items = np.divmod(np.arange(K * N), N)
        made.image(CoordinateParts(states, items, items[:0]), expansion.ravel(), scores)
        np.testing.assert_allclose(scores, expansion @ whole)
        np.testing.assert_allclose(
            made.adjoint(CoordinateParts(states, items, items[:0]), expansion), scores.ravel()
        )

    @pytest.mark.parametrize(("diagonal", "value"), [(-1.0, 1.0), (np.nan, 1.0), (1.0, np.inf)])
    def test_kernels_that_are_none(self, diagonal, value):
        def make():
            made = GramMap(values_to(np.full((3, 3), value)), np.full(3, diagonal))
            made.hold(np.arange(3))

        with pytest.raises(InputError, match="kernel: expected finite"):
            make()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"sub_solver": "best"}, "sub_solver: expected one of"),
        ({"tau": -1.0}, "tau"),
        ({"cooling": 1.0}, "cooling"),
        ({"max_passes": 0}, "max_passes"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_wrong_settings(setting, message):
    with pytest.raises(InputError, match=message):
        DualDecomposition(**setting)


def test_problems_that_have_no_such_dual():
    objective, _ = problem()
    for penalty in (ElasticNet(0.0, 0.0), ElasticNet(0.1, 1.0), GroupLasso(1.0, n_features=F, n_states=K)):
        with pytest.raises(InputError, match=r"l2 > 0|without L1 and groups"):
            minimize(objective, penalty, DualDecomposition())
    with pytest.raises(UnsupportedObjectiveError, match="without penalty"):
        minimize(objective, ElasticNet(0.0, 1.0, np.array([0])), DualDecomposition())
    multitask = build_objective(objective.whole.map, MultitaskSquaredHinge(data()[1], K))
    with pytest.raises(UnsupportedObjectiveError, match="MultitaskSquaredHinge"):
        minimize(multitask, ElasticNet(0.0, 1.0), DualDecomposition())
    with pytest.raises(InputError, match="sub_solver"):
        minimize(squared(objective), ElasticNet(0.0, 1.0), DualDecomposition("smo"))


def squared(objective):
    loss = MulticlassSquaredHinge(objective.whole.loss.labels, K)
    return build_objective(objective.whole.map, loss, objective.whole.weights, offset=objective.whole.offset)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("has_free_intercept", [False, True])
@pytest.mark.parametrize("sub_solver", EXACT)
@pytest.mark.parametrize("seed", [None, 1])
def test_squared_hinge_agrees_with_lbfgs(kind, has_free_intercept, sub_solver, seed):
    offset = None if seed is None else offset_of(seed)
    objective, penalty = problem(kind, has_free_intercept, offset)
    objective = squared(objective)
    found = minimize(objective, penalty, DualDecomposition(sub_solver), Run(tol=1e-9, max_iter=5000))
    expected = minimize(objective, penalty, LBFGS(), Run(tol=1e-9))
    assert found.status is expected.status is Status.CONVERGED
    assert found.value == pytest.approx(expected.value, rel=2e-9)
    assert found.value == pytest.approx(value_at(objective, penalty, found), rel=1e-12)


@pytest.mark.parametrize("sub_solver", EXACT)
def test_a_sub_problem_of_pairs_is_solved(sub_solver):
    """Coordinate descent on the sub-problem as it is defined finds the same."""
    random = np.random.default_rng(3)
    for square in (0.0, 1e-3, 1.0, 50.0):
        g, b, label, damping = random.normal(size=K), random.random(K), 2, 0.3
        after, random_state = np.empty(K), np.full(1, 1, np.uint64)
        from_python(solve_pairs)(
            g, b, label, square, damping, SUB_SOLVER_CODES[sub_solver], random_state, after, np.empty(K + 1)
        )
        others = np.delete(np.arange(K), label)
        x = b.copy()
        for _ in range(3000):
            for r in others:
                moved = (x - b)[others].sum() - (x - b)[r]  # of the other pairs
                slope = g[r] - g[label] - square * moved + 2.0 * square * b[r]
                x[r] = max(slope / (2.0 * square + damping), 0.0)
        np.testing.assert_allclose(after[others], x[others], rtol=1e-6, atol=1e-9)
        assert after[label] == pytest.approx(-after[others].sum())


def test_text_is_trained_by_dual_decomposition_and_dense_features_are_not():
    penalty = ElasticNet(0.0, L2)
    text = FeatureStore.from_matrix(
        scipy.sparse.random_array((N, 400), density=0.01, rng=0).tocsr(), np.arange(N + 1), allow_empty=True
    )
    labels = data()[1]
    flat = for_items()
    assert isinstance(
        flat.chosen(build_objective(SparseMap(text, Pool(1)), MulticlassSquaredHinge(labels, K)), penalty),
        DualDecomposition,
    )
    assert isinstance(
        flat.chosen(build_objective(SparseMap(text, Pool(1)), MultitaskSquaredHinge(labels, K)), penalty),
        LBFGS,
    )
    assert isinstance(flat.chosen(squared(problem("dense")[0]), penalty), LBFGS)


def test_conjugate_gradients_end_what_passes_alone_do_not() -> None:
    """1,400 digits to 1e-6 within the default limit: 448 passes, 2,360 without descents on faces."""
    x, y = load_digits(return_X_y=True)
    model = MulticlassClassifier(loss="hinge", penalty="l2", fit_intercept=False, tol=1e-6)
    model.fit(x[:1400] / 16.0, y[:1400])
    assert model.result_.status is Status.CONVERGED
    assert model.result_.gap <= 1e-6
    assert model.n_iter_ <= 800
