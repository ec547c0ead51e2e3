"""Generalised least squares: theorem 1, closed forms, other solvers' optima, and links of any kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from problems import make_problem, make_tree_problem

from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.losses.potentials import LINKS, LogSumExp, Potential, SoftPlus, SquaredNorm, named_link
from crfqn.objectives.objective import build_objective, in_blocks
from crfqn.papers.agarwal2014.gls import GLS, Factor, Link
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stopping import Run

N, F, K = 120, 6, 3


def data(seed=0, condition=1.0, noise=1.0):
    """Features whose second moments have that condition number, and noisy labels of the same linear model."""
    random = np.random.default_rng(seed)
    q = np.linalg.qr(random.normal(size=(N, F)))[0] * np.sqrt(N)
    mix = np.linalg.qr(random.normal(size=(F, F)))[0]
    x = (q * np.geomspace(1.0, condition**-0.5, F)) @ mix
    scores = 0.5 * q @ random.normal(size=(F, K)) + noise * random.gumbel(size=(N, K))
    return x, scores.argmax(axis=1)


def targets(labels):
    return np.eye(K)[labels].T.copy()


def objective(x, labels, potential=None, has_constant=False, **kinds):
    potential = potential or LogSumExp()
    return build_objective(
        DenseMap(x, np.arange(len(x) + 1), has_constant), Link(potential, targets(labels)), **kinds
    )


def iterations_to(problem, level, solver, optimum):
    """Steps until the value is that near to the optimum."""
    found = minimize(problem, ElasticNet(), solver, Run(tol=0.0, max_iter=300, counts_proved_zeros=False))
    return int(np.argmax(found.trace.value <= optimum * (1 + level)))


class TestTheorem1:
    @pytest.mark.parametrize("accelerated", [False, True])
    def test_iterations_do_not_grow_with_the_condition_number(self, accelerated):
        solver, counts = GLS(accelerated), []
        for condition in (1.0, 1e4, 1e8):
            x, labels = data(condition=condition)
            problem = objective(x, labels)
            optimum = minimize(problem, ElasticNet(), GLS(), Run(tol=0.0, max_iter=300)).value
            counts.append(iterations_to(problem, 1e-6, solver, optimum))
        assert 3 < max(counts) < 100
        assert max(counts) - min(counts) <= 1
        # Gradient descent, for which the metric is the identity, needs more by orders of magnitude.
        step = 2.0 / np.linalg.eigvalsh(x.T @ x).max()
        w, after = np.zeros((K, F)), 20 * max(counts)
        for _ in range(after):
            residual = LogSumExp().gradient(w @ x.T) - targets(labels)
            w -= step * residual @ x
        assert float(problem.at(np.arange(K * F), w.ravel()).value) > optimum * (1 + 1e-3)

    @pytest.mark.parametrize("accelerated", [False, True])
    def test_units_make_no_difference(self, accelerated):
        x, labels = data(condition=1e4)
        units = 10.0 ** np.arange(-3, 3)
        found = [
            minimize(objective(x * by, labels), ElasticNet(), GLS(accelerated), Run(tol=0.0, max_iter=12))
            for by in (1.0, 10.0, units)
        ]
        for other in found[1:]:
            np.testing.assert_allclose(other.trace.value, found[0].trace.value, rtol=1e-9)

    def test_the_bound_in_the_norm_of_the_metric(self):
        """2 ||W*||^2 / (t + 4) with L = 1, W* taken in the norm of M; it falls in every step."""
        x, labels = data(condition=1e6)
        problem = objective(x, labels, LogSumExp(lipschitz=1.0))
        best = minimize(problem, ElasticNet(), GLS(), Run(tol=0.0, max_iter=300))
        w = np.zeros(K * F)
        w[best.coords] = best.weights
        size = float(np.einsum("kf,fg,kg->", w.reshape(K, F), x.T @ x, w.reshape(K, F)))
        values = minimize(
            problem, ElasticNet(), GLS(accelerated=False), Run(tol=0.0, max_iter=40)
        ).trace.value
        assert (np.diff(values) < 0).all()
        excess = values[1:] - best.value
        assert (excess <= 2 * size / (np.arange(1, excess.size + 1) + 4)).all()


@pytest.mark.parametrize("has_constant", [False, True])
@pytest.mark.parametrize("accelerated", [False, True])
def test_least_squares_in_one_step(has_constant, accelerated):
    x, labels = data(condition=1e3)
    problem = objective(x, labels, SquaredNorm(), has_constant)
    unpenalised = np.arange(1, K + 1) * (F + 1) - 1 if has_constant else np.empty(0, np.int64)
    found = minimize(problem, ElasticNet(0.0, 2.0, unpenalised), GLS(accelerated), Run(tol=1e-9))
    assert found.status is Status.CONVERGED
    assert found.n_iter == 1
    full = np.hstack([x, np.ones((N, int(has_constant)))])
    ridge = np.diag(np.append(np.full(F, 2.0), np.zeros(int(has_constant))))
    expected = np.linalg.solve(full.T @ full + ridge, full.T @ targets(labels).T).T
    np.testing.assert_allclose(found.weights.reshape(K, -1), expected, atol=1e-9)
    residual = targets(labels).T - full @ expected.T
    assert found.value == pytest.approx(0.5 * (residual**2).sum() + (expected[:, :F] ** 2).sum())


@pytest.mark.parametrize("has_constant", [False, True])
@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
def test_the_optimum_of_l_bfgs(name, has_constant):
    x, labels = data(3)
    weights = np.random.default_rng(1).random(N)
    problem = objective(x, labels, LINKS[name], has_constant, weights=weights)
    unpenalised = np.arange(1, K + 1) * (F + 1) - 1 if has_constant else np.empty(0, np.int64)
    penalty = ElasticNet(0.0, 0.3, unpenalised)
    ours, theirs = (
        minimize(problem, penalty, solver, Run(tol=1e-8, max_iter=400))
        for solver in (GLS(), LBFGS(warm_up=False))
    )
    assert ours.status is theirs.status is Status.CONVERGED
    assert ours.value == pytest.approx(theirs.value, rel=1e-7)
    assert ours.gap <= 1e-8


def test_acceleration_saves_steps():
    x, labels = data(5, noise=0.1)
    problem, penalty = objective(x, labels), ElasticNet(0.0, 0.1)
    plain, fast = (
        minimize(problem, penalty, GLS(kind), Run(tol=1e-6, max_iter=2000)).n_iter for kind in (False, True)
    )
    assert fast < 0.5 * plain


def test_likelihoods_blocks_offsets_and_starts():
    problem = make_tree_problem("flat", 3, n_items=60, n_features=8).objective()
    penalty = ElasticNet(0.0, 0.5)
    found = minimize(problem, penalty, GLS(), Run(tol=1e-7, max_iter=300))
    expected = minimize(problem, penalty, LBFGS(warm_up=False), Run(tol=1e-7, max_iter=300))
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    blocks = in_blocks(problem.whole, 20)
    np.testing.assert_allclose(blocks.gram(), problem.gram(), atol=1e-12)
    again = minimize(blocks, penalty, GLS(), Run(start=(found.coords, found.weights), tol=1e-6))
    assert (again.status, again.n_iter) == (Status.CONVERGED, 0)
    x, labels = data()
    fixed = np.random.default_rng(2).normal(size=(K, N))
    around = minimize(
        objective(x, labels, offset=fixed), ElasticNet(0.0, 1.0), GLS(), Run(tol=1e-8, max_iter=200)
    )
    assert around.status is Status.CONVERGED


def test_features_without_full_rank():
    x, labels = data()
    twice = np.hstack([x, x[:, :2], np.zeros((N, 1))])
    found = minimize(objective(twice, labels), ElasticNet(), GLS(), Run(tol=1e-6, max_iter=100))
    assert found.status is Status.STATIONARY
    assert found.value == pytest.approx(
        minimize(objective(x, labels), ElasticNet(), GLS(), Run(tol=1e-6, max_iter=100)).value, rel=1e-6
    )


@dataclass(frozen=True)
class Huber(Potential):
    """A link of somebody's own: scores cut off at -1 and 1."""

    def value(self, scores):
        size = np.abs(scores)
        return np.where(size <= 1, 0.5 * size**2, size - 0.5).sum(axis=0)

    def gradient(self, scores):
        return np.clip(scores, -1.0, 1.0)


def test_a_link_of_ones_own():
    x, labels = data()
    problem = objective(x, labels, Huber(), has_constant=True)
    penalty = ElasticNet(0.0, 1.0, np.arange(1, K + 1) * (F + 1) - 1)
    found = minimize(problem, penalty, GLS(), Run(tol=1e-6, max_iter=300))
    assert found.status is Status.STATIONARY  # without a conjugate nothing can be proved
    assert np.isnan(found.gap)
    coords = np.arange(K * (F + 1))
    w = np.zeros(coords.size)
    w[found.coords] = found.weights
    for step in (1e-4, -1e-4):
        for j in coords:
            moved = w.copy()
            moved[j] += step
            assert problem.at(coords, moved).value + penalty.value(coords, moved) >= found.value - 1e-9


@pytest.mark.parametrize("potential", [*LINKS.values(), Huber()], ids=lambda p: type(p).__name__)
class TestPotentials:
    def test_gradient_and_second_derivatives(self, potential):
        scores = np.random.default_rng(0).normal(size=(K, 5))
        for k in range(K):
            step = np.zeros((K, 1))
            step[k] = 1e-6
            slope = (potential.value(scores + step) - potential.value(scores - step)) / 2e-6
            np.testing.assert_allclose(potential.gradient(scores)[k], slope, atol=1e-8)
            if not isinstance(potential, Huber):
                bend = (potential.gradient(scores + step) - potential.gradient(scores - step)) / 2e-6
                for j in range(K):
                    np.testing.assert_allclose(potential.second(j, k, scores), bend[j], atol=1e-8)

    def test_lipschitz_constant(self, potential):
        random = np.random.default_rng(1)
        u, v = random.normal(size=(2, K, 4000)) * random.choice([0.1, 3.0], size=4000)
        change = np.linalg.norm(potential.gradient(u) - potential.gradient(v), axis=0)
        assert (change <= potential.lipschitz * np.linalg.norm(u - v, axis=0) * (1 + 1e-9)).all()

    def test_fenchel_young(self, potential):
        scores = np.random.default_rng(2).normal(size=(K, 5))
        q = potential.gradient(scores)
        if (conjugate := potential.conjugate(q)) is not None:
            np.testing.assert_allclose(
                potential.value(scores) + conjugate, (q * scores).sum(axis=0), atol=1e-12
            )


def test_the_factor_of_a_matrix_without_full_rank():
    x = np.random.default_rng(0).normal(size=(4, 7))
    factor = Factor.from_matrix(x.T @ x)
    b = x.T @ np.ones(4)
    np.testing.assert_allclose(x @ factor.solve(b[None])[0], np.ones(4), atol=1e-3)
    assert Factor.from_matrix(np.eye(3)).shift < 1e-14


class TestRefusals:
    def test_l1(self):
        with pytest.raises(InputError, match=r"without L1 and groups, .* of strength 2"):
            minimize(objective(*data()), ElasticNet(2.0), GLS())

    def test_chains(self):
        with pytest.raises(
            UnsupportedObjectiveError, match=r"GLS cannot train this: a Gram matrix needs .* no edges"
        ):
            minimize(make_problem(1).objective(), ElasticNet(0.0, 1.0), GLS())

    @pytest.mark.parametrize("link", ["logit", None, 3])
    def test_links(self, link):
        with pytest.raises(InputError, match=r"link: expected one of \['identity', 'softmax', 'sigmoid'\]"):
            named_link(link)

    def test_constants(self):
        with pytest.raises(InputError, match=r"lipschitz: expected a finite number > 0, got 0"):
            SoftPlus(lipschitz=0)
        with pytest.raises(
            InputError, match=r"expected finite targets, states x positions, got shape \(2, 1\)"
        ):
            Link(SquaredNorm(), np.array([[1.0], [np.nan]]))
