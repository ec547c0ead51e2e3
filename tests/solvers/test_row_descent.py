"""Block coordinate descent over rows: the paper's algorithms written out, independent optima, stopping and shrinking.

Ceilings on sweeps are about one and a half times what was measured.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from linked import from_python
from margin_problems import (
    NAMES,
    PENALTIES,
    SINGLE,
    F,
    K,
    flat_objective,
    large,
    make_problem,
    objective_of,
    penalty_of,
    point_at,
    weights_like,
)
from margin_references import MarginProblem, optimum, penalty_value, row_prox
from problems import make_problem as make_chain

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.kernels.row_norm import RowStrengths, clip_in_metric, shrink_in_metric
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.coordinate.row_state import AndersonHistory, LineSearch, RowBlocks
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run


def rows_at(point):
    """The rows of a point, for row descent."""
    return point.objective.state(RowBlocks, point)


PAPER = RowDescent(min_curvature_ratio=1.0, free_share=0.0, shrink=False, memory=0, shuffle=False)
every_loss = pytest.mark.parametrize("name", NAMES)


@cache
def reference(name, kind):
    return optimum(make_problem(name), *PENALTIES[kind])


def run(name, kind, solver, **settings):
    return minimize(
        objective_of(make_problem(name)),
        penalty_of(kind),
        solver,
        Run(**{"tol": 1e-6, "max_iter": 1000, **settings}),
    )


def table_of(result_or_point):
    dense = np.zeros(F * K)
    dense[result_or_point.coords] = result_or_point.weights
    return dense.reshape(K, F).T


def margin_row(problem, w, feature):
    """Algorithm 3 in the paper's loops, for the sum: G and h of one row, over violating pairs only."""
    scores, g, h = problem.x @ w, np.zeros(K), np.zeros(K)
    for r in range(K):
        for i in np.flatnonzero(problem.x[:, feature]):
            y, x, c = problem.labels[i], problem.x[i, feature], problem.weights[i]
            a = 1.0 - (scores[i, y] - scores[i, r])
            if y != r and a > 0:
                g[y] -= 2 * c * a * x
                g[r] += 2 * c * a * x
                h[y] += 2 * c * x**2
                h[r] += 2 * c * x**2
    return g, h


def papers_sweep(problem, w, strengths, norm, order, constants=None):
    """Algorithms 1 and 2, all margins from scratch each time; W is changed in place."""
    for j in order:
        if problem.loss == "multiclass":
            g, h = margin_row(problem, w, j)
        else:
            g, h = problem.evaluate(w)[1][j], np.diag(problem.row_hessian(w, j))
        curvature = max(h.max(), 1e-12) if constants is None else constants[j]
        step = row_prox((w[j] - g / curvature)[None], 1.0 / curvature, strengths, norm)[0] - w[j]
        before = problem.evaluate(w)[0] + penalty_value(w, strengths, norm)
        moved = w.copy()
        moved[j] += step
        slope = g @ step + penalty_value(moved, strengths, norm) - penalty_value(w, strengths, norm)
        alpha = 1.0
        while constants is None and np.any(step):
            moved[j] = w[j] + alpha * step
            after = problem.evaluate(moved)[0] + penalty_value(moved, strengths, norm)
            if after - before <= 0.01 * alpha * slope:
                break
            alpha *= 0.5
        w[j] = moved[j]


@every_loss
@pytest.mark.parametrize("kind", ["L1/L2", "L1/Linf", "sparse group", "elastic net"])
@pytest.mark.parametrize("step", ["line search", "constant", "paper constant"])
def test_sweeps_are_the_papers(name, kind, step):
    problem, objective = make_problem(name, seed=2), objective_of(make_problem(name, seed=2))
    w = weights_like(problem, scale=0.2)
    w[3] = 0.0
    blocks = rows_at(point_at(problem, w, objective))
    blocks.has_papers_constants = step == "paper constant"
    has_search = step == "line search"
    if blocks.has_papers_constants and problem.loss == "multiclass":
        expected = 4 * (K - 1) * (problem.weights @ problem.x**2)
        np.testing.assert_allclose(blocks.constants, expected)  # appendix A
    for order in [np.arange(F)] * 3 if has_search else [np.arange(F), np.array([5, 0, 0, 3, 2, 5])]:
        papers_sweep(problem, w, *PENALTIES[kind], order, None if has_search else blocks.constants)
        blocks.sweep(order, penalty_of(kind), LineSearch() if has_search else None)
        np.testing.assert_allclose(table_of(blocks.point()), w, rtol=1e-8, atol=1e-10)


@every_loss
def test_margins_stay_true(name):
    problem = make_problem(name)
    objective = objective_of(problem)
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    for sweep in range(50):
        blocks.sweep(np.arange(F), penalty_of("L1/L2", 0.1), None if sweep % 2 == 0 else LineSearch())
    again = rows_at(blocks.point())
    np.testing.assert_allclose(blocks.state.margins, again.state.margins, atol=1e-10)
    np.testing.assert_allclose(blocks.state.probabilities, again.state.probabilities, atol=1e-10)
    np.testing.assert_array_equal(blocks.state.relevance, again.state.relevance)
    assert blocks.value(penalty_of("L2")) == pytest.approx(again.value(penalty_of("L2")), rel=1e-12)


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("n_free", [0, 2])
def test_the_rows_know_their_penalty(kind, n_free):
    problem = make_problem(NAMES[0])
    unpenalised = (np.arange(n_free)[:, None] * 3 + F * np.arange(K)).reshape(-1)
    penalty = replace(penalty_of(kind), unpenalised=np.sort(unpenalised))
    w = weights_like(problem)
    w[2] = 0.0
    point = point_at(problem, w, objective_of(problem))
    expected = penalty.value(point.coords, point.weights)
    assert rows_at(point).value(penalty) == pytest.approx(point.value + expected, rel=1e-13)


@every_loss
def test_what_a_sweep_reports(name):
    """Equation 9 with its erratum, and the excess of zero rows, at the first row visited."""
    problem, objective = make_problem(name, seed=3), objective_of(make_problem(name, seed=3))
    for scale in (0.3, 100.0):
        penalty, w = penalty_of("L1/L2", scale), weights_like(problem)
        w[2] = 0.0
        gradient = problem.evaluate(w)[1]
        for j in (1, 2):
            violations, excess = rows_at(point_at(problem, w, objective)).sweep(np.array([j]), penalty)
            slope = gradient[j] + (penalty.group_l1 * w[j] / np.linalg.norm(w[j]) if j != 2 else 0.0)
            kkt_excess = np.linalg.norm(gradient[2]) - penalty.group_l1
            expected = np.linalg.norm(slope) if j != 2 else max(kkt_excess, 0.0)
            assert violations[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert excess[0] == (np.inf if j != 2 else pytest.approx(kkt_excess, rel=1e-9))


@every_loss
@pytest.mark.parametrize("kind", PENALTIES)
def test_reaches_the_optimum(name, kind):
    value, w = reference(name, kind)
    for solver, most in ((RowDescent(), 150), (PAPER, 400), (RowDescent(step="constant"), 600)):
        if kind == "L1" and solver != RowDescent():
            continue  # one step length a row suits L1 badly: thousands of sweeps without extrapolation
        tol = 1e-5 if kind == "L2" else 1e-6
        result = run(name, kind, solver, tol=tol)
        assert result.status is Status.CONVERGED
        assert result.value <= value * (1 + 1.1 * tol)
        assert result.value >= value * (1 - 1e-7)
        assert result.n_iter <= most
        assert np.all(np.diff(result.trace.value) <= 1e-12 * result.trace.value[0])  # monotone
    assert np.array_equal(table_of(run(name, kind, RowDescent(), tol=1e-9)).any(axis=1), w.any(axis=1))


@every_loss
@pytest.mark.parametrize("kind", ["L1/L2", "elastic net"])
def test_prox_qn_finds_the_same(name, kind):
    result = run(name, kind, ProxQN(), max_iter=60)
    assert result.status is Status.CONVERGED
    assert result.value == pytest.approx(reference(name, kind)[0], rel=2e-6)


def wide(n_features=200, n_items=50, seed=1):
    """More features than items, neighbours alike: most rows are zero, and descent is slow."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_items, n_features)).cumsum(axis=1) / 10
    labels = random.integers(0, K, n_items).astype(np.int32)
    store = FeatureStore.from_matrix(x, np.arange(n_items + 1))
    objective = flat_objective(store, MulticlassSquaredHinge(labels, K), n_threads=1)
    return objective, GroupLasso(10.0, n_features=n_features, n_states=K)


@pytest.mark.parametrize("step", ["line search", "constant", "paper constant"])
def test_shrinking_visits_fewer_rows_on_the_way_to_the_same_end(step):
    objective, penalty = wide()
    settings = {"tol": 1e-4 if step == "line search" else 1e-2, "max_iter": 1000}
    whole = minimize(objective, penalty, RowDescent(step=step, shrink=False), Run(**settings))
    shrunk = minimize(objective, penalty, RowDescent(step=step), Run(**settings))
    assert whole.status is shrunk.status is Status.CONVERGED
    assert shrunk.value == pytest.approx(whole.value, rel=settings["tol"])
    is_sweep = ~shrunk.trace.is_screening
    assert shrunk.trace.n_active[is_sweep].sum() < 0.5 * 200 * is_sweep.sum()
    assert np.all(whole.trace.n_active[~whole.trace.is_screening] == 200)


def test_rows_that_are_no_longer_visited_are_let_go():
    objective, penalty = wide()
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    blocks.sweep(np.arange(200), penalty)
    assert blocks.stored_rows.size == 200
    kept = np.flatnonzero(table_at(blocks, 200).any(axis=1))
    before = table_at(blocks, 200)
    assert 3 < kept.size < 90
    order = np.array([kept[1], 0, kept[0]])
    assert 0 not in kept
    blocks.store(order)
    np.testing.assert_array_equal(blocks.stored_rows, np.union1d(kept, [0]))
    blocks.sweep(order, penalty)
    others = np.setdiff1d(np.arange(200), order)
    np.testing.assert_array_equal(table_at(blocks, 200)[others], before[others])
    assert np.any(table_at(blocks, 200)[order] != before[order])
    point = blocks.point()
    assert blocks.value(penalty) == pytest.approx(
        point.value + penalty.value(point.coords, point.weights), rel=1e-12
    )
    blocks.sweep(np.arange(200), penalty)  # which stores what it visits
    assert blocks.stored_rows.size == 200


def table_at(blocks, n_features):
    table = np.zeros((n_features, blocks.row_weights.shape[1]))
    table[blocks.stored_rows] = blocks.row_weights
    return table


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_rows_as_coordinates(share):
    problem, random = make_problem(NAMES[0]), np.random.default_rng(1)
    w = weights_like(problem) * (random.random((F, K)) < share)
    point = rows_at(point_at(problem, w, objective_of(problem))).point()
    np.testing.assert_array_equal(point.coords, np.flatnonzero(w.T))
    np.testing.assert_array_equal(point.weights, w.T[w.T != 0])


@every_loss
def test_a_history_of_points(name):
    """The combination whose steps of margins are smallest: s_r - s_y where there is one label, s_r of a ranking."""
    problem, objective = make_problem(name), objective_of(make_problem(name))
    tables = [weights_like(problem, seed) for seed in (1, 2, 3)]
    tables[1][2] = 0.0
    blocks = [rows_at(point_at(problem, w, objective)) for w in tables]
    for each in blocks:
        each.store(np.arange(F))
    history = AndersonHistory(blocks[0], 4)
    for _ in range(2):  # a history may be used again
        history.restart(blocks[0])
        for each in blocks[1:]:
            history.next_margins[:] = each.state.margins
            history.add(each)
    scores = [problem.x @ w for w in tables]
    if name != "ranking":
        at_labels = np.arange(scores[0].shape[0]), objective.whole.loss.labels
        scores = [s - s[at_labels][:, None] if name != "multitask" else s for s in scores]
    steps = np.diff(scores, axis=0)
    shares = np.linalg.solve(np.einsum("aik,bik,i->ab", steps, steps, problem.weights), np.ones(2))
    a, b = shares / shares.sum()
    penalty, w = penalty_of("L1/L2"), a * tables[1] + b * tables[2]
    mixed, before = history.extrapolated(blocks[2]), blocks[2].state.margins.copy()
    np.testing.assert_allclose(table_of(mixed.point()), w, rtol=1e-6, atol=1e-8)
    expected = problem.evaluate(w)[0] + penalty.value(*flat_weights(w))
    assert mixed.value(penalty) == pytest.approx(expected, rel=1e-7)
    assert mixed.point().value == pytest.approx(problem.evaluate(w)[0], rel=1e-7)
    mixed.sweep(np.arange(F), penalty)  # goes on from there
    assert mixed.value(penalty) < expected
    point = mixed.point()
    assert mixed.value(penalty) == pytest.approx(
        point.value + penalty.value(point.coords, point.weights), rel=1e-10
    )
    np.testing.assert_array_equal(blocks[2].state.margins, before)
    history.restart(blocks[0])
    history.next_margins[:] = blocks[0].state.margins
    history.add(blocks[0])
    assert history.extrapolated(blocks[0]) is None


def test_a_new_order_saves_sweeps():
    random = np.random.default_rng(1)
    x = random.normal(size=(1500, 6)) @ random.normal(size=(6, 60)) + 0.5 * random.normal(size=(1500, 60))
    labels = np.argmax(x @ random.normal(size=(60, K)) + random.normal(size=(1500, K)), axis=1).astype(
        np.int32
    )
    store, penalty = FeatureStore.from_matrix(x, np.arange(1501)), GroupLasso(30.0, n_features=60, n_states=K)
    objective = flat_objective(store, MulticlassSquaredHinge(labels, K))
    sizes = {"tol": 1e-5, "max_iter": 3000}
    cycles = minimize(objective, penalty, RowDescent(shuffle=False), Run(**sizes))
    shuffled = [minimize(objective, penalty, RowDescent(seed=seed), Run(**sizes)) for seed in (0, 0, 1)]
    assert [cycles.status, *(result.status for result in shuffled)] == [Status.CONVERGED] * 4
    assert max(result.n_iter for result in shuffled) < 0.8 * cycles.n_iter
    assert shuffled[0].value == shuffled[1].value != shuffled[2].value
    assert shuffled[2].value == pytest.approx(cycles.value, rel=2e-5)


def test_extrapolation_saves_sweeps():
    objective, penalty = wide()
    settings = {"tol": 1e-4, "max_iter": 2000}
    plain = minimize(objective, penalty, RowDescent(min_curvature_ratio=1.0, memory=0), Run(**settings))
    faster = minimize(objective, penalty, RowDescent(min_curvature_ratio=1.0), Run(**settings))
    assert plain.status is faster.status is Status.CONVERGED
    assert faster.n_iter < 0.6 * plain.n_iter


@pytest.mark.parametrize(
    "solver", [PAPER, RowDescent(shrink=True), RowDescent(step="constant", shrink=False)]
)
def test_the_papers_stopping_rule(solver):
    """Equation 10: the violations that a sweep over all rows meets fall below tau times those of the first."""
    objective, penalty = wide(n_features=60)
    tau, totals = 1e-2, []
    settings = RowDescent(**{**vars(solver), "tau": tau})
    result = minimize(objective, penalty, settings, Run(tol=0.0, max_iter=3000))
    assert result.status is Status.RULE_MET
    assert "stopping rule" in result.message
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    if solver is PAPER:  # the same sweeps by hand
        for _ in range(result.n_iter):
            totals.append(blocks.sweep(np.arange(60), penalty)[0].sum())
        ratios = np.array(totals) / totals[0]
        assert ratios[-1] < tau
        assert np.all(ratios[:-1] >= tau)
    stricter = RowDescent(**{**vars(solver), "tau": tau / 1000})
    assert minimize(objective, penalty, stricter, Run(tol=0.0, max_iter=9000)).n_iter > result.n_iter


def test_random_order_depends_on_the_seed_only():
    values = [
        run("multiclass", "L1/L2", RowDescent(step="constant", seed=s), max_iter=5).value for s in (1, 1, 2)
    ]
    assert values[0] == values[1] != values[2]


def test_a_warm_start_at_the_optimum_ends_at_once():
    best = run("multiclass", "L1/L2", RowDescent(), tol=1e-9)
    again = run("multiclass", "L1/L2", RowDescent(), tol=1e-6, start=(best.coords, best.weights))
    assert again.status is Status.CONVERGED
    assert again.n_iter == 0


def test_nothing_moves_under_a_strong_penalty():
    for solver in (RowDescent(), RowDescent(step="constant")):
        result = run("multiclass", "L1/L2", solver, tol=0.0, max_iter=5)
        strong = minimize(
            objective_of(make_problem("multiclass")),
            penalty_of("L1/L2", 1e4),
            solver,
            Run(tol=0.0, max_iter=5),
        )
        assert strong.coords.size == 0 < result.coords.size
        assert strong.status is Status.CONVERGED
        assert strong.gap == 0.0


def test_unpenalised_rows_are_an_intercept():
    problem = make_problem("multiclass")
    x = np.column_stack([problem.x[:, :-1], np.ones(25)])
    with_ones = MarginProblem("multiclass", x, problem.sets, problem.weights)
    unpenalised = (F - 1) + F * np.arange(K)
    penalty = GroupLasso(8.0, unpenalised=unpenalised, n_features=F, n_states=K)
    objective = objective_of(with_ones)
    result = minimize(objective, penalty, RowDescent(), Run(tol=1e-7, max_iter=500))
    assert result.status is Status.CONVERGED
    w = table_of(result)
    gradient = with_ones.evaluate(w)[1]
    np.testing.assert_allclose(gradient[-1], 0.0, atol=1e-5)
    assert np.all(np.linalg.norm(gradient[:-1], axis=1) <= 8.0 * (1 + 1e-6))
    part = GroupLasso(8.0, unpenalised=unpenalised[:2], n_features=F, n_states=K)
    with pytest.raises(
        InputError, match=r"all 4 weights of a feature to be free or none, got 2 of feature 5"
    ):
        minimize(objective, part, RowDescent())


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(
    "order", [np.arange(100), np.array([3, 0]), np.array([1, 2])], ids=["all", "large", "small"]
)
def test_a_sweep_knows_the_value(name, n_threads, order):
    _, labels, store, penalty = large(K)
    objective = flat_objective(store, SINGLE[name](labels, K), n_threads=n_threads)
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    blocks.sweep(order, penalty)
    point = blocks.point()
    value = point.value + penalty.value(point.coords, point.weights)
    assert blocks.value(penalty) == pytest.approx(value, rel=1e-12)
    blocks.sweep(order, penalty, None)
    point = blocks.point()
    assert blocks.value(penalty) == pytest.approx(
        point.value + penalty.value(point.coords, point.weights), rel=1e-12
    )


@pytest.mark.parametrize("n_states", [9, 20, 30, 45])
@pytest.mark.parametrize("is_binary", [False, True])
def test_registers_for_any_number_of_states(n_states, is_binary):
    """Blocks of 2, 3, 4 and 4 + 2 registers; features without values."""
    x, labels, store, penalty = large(n_states, is_binary=is_binary)
    x = (x != 0).astype(float) if is_binary else x
    problem = MarginProblem("multiclass", x, np.eye(n_states, dtype=int)[labels], np.ones(labels.size))
    objective = flat_objective(store, MulticlassSquaredHinge(labels, n_states), n_threads=2)
    w = 0.3 * np.random.default_rng(1).normal(size=(x.shape[1], n_states))
    blocks = rows_at(point_at(problem, w, objective))
    violations, _ = blocks.sweep(np.array([3]), penalty)
    gradient = problem.evaluate(w)[1][3]
    expected = np.linalg.norm(gradient + 30.0 * w[3] / np.linalg.norm(w[3]))
    assert violations[0] == pytest.approx(expected, rel=1e-10)
    point, value = blocks.point(), blocks.value(penalty)
    assert value == pytest.approx(point.value + penalty.value(point.coords, point.weights), rel=1e-12)
    assert value < problem.evaluate(w)[0] + penalty.value(*flat_weights(w))


def flat_weights(w):
    return np.arange(w.size), w.T.ravel()


def test_what_does_not_fit():
    with pytest.raises(
        InputError,
        match=r"RowDescent cannot train this: row descent needs a loss of margins; Likelihood has none",
    ):
        minimize(make_chain(0).objective(), ElasticNet(1.0), RowDescent())
    other = GroupLasso(1.0, n_features=F, n_states=K + 1)
    with pytest.raises(InputError, match=r"a penalty over 6 features and 4 states, got 6 and 5"):
        minimize(objective_of(make_problem("multiclass")), other, RowDescent())


@pytest.mark.parametrize(
    ("prox", "order"), [(shrink_in_metric, 2), (clip_in_metric, np.inf)], ids=["l2", "linf"]
)
@pytest.mark.parametrize("strengths", [(0.0, 0.3, 2.0), (0.5, 0.0, 1.0), (0.2, 0.1, 0.0), (0.0, 0.0, 50.0)])
def test_the_prox_in_a_diagonal_metric_is_a_minimum(strengths, prox, order):
    """No point near it, and none of a thousand others, is lower than what the kernel returns."""
    random, (l1, l2, group) = np.random.default_rng(0), strengths
    slopes, h = random.normal(scale=3.0, size=7), random.uniform(0.1, 9.0, size=7)
    found = slopes.copy()
    from_python(prox)(found, h.copy(), RowStrengths(l1, l2, group, order != 2))

    def value(u):
        own = (0.5 * h * u * u - slopes * u + l1 * np.abs(u) + 0.5 * l2 * u * u).sum(axis=-1)
        return own + group * np.linalg.norm(u, order, axis=-1)

    scales = np.geomspace(1e-6, 3.0, 1000)[:, None]
    others = found + scales * random.normal(size=(1000, 7))
    assert value(found) <= value(others).min() + 1e-12
    dual = 2 if order == 2 else 1
    assert (found == 0).all() == (np.linalg.norm(np.maximum(np.abs(slopes) - l1, 0), dual) <= group)


def rare_labels(n_items=600, n_features=40, n_labels=30, seed=0):
    """Labels from common to rare, features that are never negative, and an intercept without penalty."""
    random = np.random.default_rng(seed)
    labels = np.minimum(random.geometric(0.15, n_items) - 1, n_labels - 1).astype(np.int32)
    x = (
        random.random((n_items, n_features)) < 0.1 + 0.6 * random.random((n_labels, n_features))[labels]
    ) * 1.0
    x = np.hstack([x, np.ones((n_items, 1))])
    store = FeatureStore.from_matrix(x, np.arange(n_items + 1))
    objective = flat_objective(store, MulticlassSquaredHinge(labels, n_labels), n_threads=1)
    free = np.arange(n_labels) * (n_features + 1) + n_features
    return objective, GroupLasso(10.0, n_features=n_features + 1, n_states=n_labels, unpenalised=free)


def test_rare_labels_and_intercepts_take_fewer_sweeps():
    objective, penalty = rare_labels()
    settings = {"tol": 1e-4, "max_iter": 3000}
    papers = minimize(
        objective, penalty, RowDescent(min_curvature_ratio=1.0, free_share=0.0), Run(**settings)
    )
    ours = minimize(objective, penalty, RowDescent(), Run(**settings))
    assert papers.status is ours.status is Status.CONVERGED
    assert ours.value == pytest.approx(papers.value, rel=2e-4)
    assert ours.n_iter < 0.6 * papers.n_iter


def test_rare_labels_take_fewer_sweeps_under_their_largest_size():
    """Each state's own curvature counts there too: weights below the largest are free, and L_j is too much for most."""
    objective, penalty = rare_labels()
    penalty = replace(penalty, group_l1=20.0, norm="linf")
    one, own = (
        minimize(objective, penalty, solver, Run(tol=1e-2, max_iter=1000))
        for solver in (RowDescent(min_curvature_ratio=1.0), RowDescent())
    )
    assert one.status is own.status is Status.CONVERGED
    assert own.value == pytest.approx(one.value, rel=2e-2)
    assert own.n_iter < 0.6 * one.n_iter


def test_intercepts_are_visited_between_the_others():
    objective, penalty = rare_labels()
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    order = np.arange(41)
    assert blocks.interleaved(order, penalty, 0.0) is order
    found = blocks.interleaved(order, penalty, 0.25)
    lengths = np.diff(objective.whole.map.store.indptr)
    visits = int((found == 40).sum())
    assert visits == int(0.25 * lengths[:40].sum() / lengths[40]) > 1
    assert found[found != 40].tolist() == list(range(40))
    gaps = np.diff(np.flatnonzero(found == 40))
    assert gaps.max() - gaps.min() <= 1
    assert blocks.interleaved(order[:40], penalty, 0.25).tolist() == list(range(40))
