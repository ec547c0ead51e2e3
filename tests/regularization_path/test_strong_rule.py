"""The strong rule: what it leaves out, what it finds again where it fails, what it costs."""

import numpy as np
import pytest
from path_problems import PROBLEM, X, Y, quiet

from crfqn import ChainCRF
from crfqn.penalties import ElasticNet
from crfqn.regularization_path import Grid
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.solvers.strong_rule import StrongRule, strong_threshold


class TestStrongRule:
    def test_threshold(self):
        assert strong_threshold(0.9, 1.0) == pytest.approx(0.8)
        assert strong_threshold(0.6, 1.0) == 0.0  # so long a step would let in too many

    @pytest.mark.parametrize("l1", [1.0, 2.0])
    def test_weights_that_break_it_are_found(self, l1):
        """Started at zero as if that were the optimum of nearly the same l1, it leaves out most of the weights."""
        objective, penalty = PROBLEM.objective(), ElasticNet(l1)
        start = objective.at(np.empty(0, np.int64), np.empty(0))
        candidates = np.abs(start.gradient(np.arange(PROBLEM.n_coords))) > l1 * (1 - 1e-6)
        _, w = PROBLEM.optimum(l1, 0.0)
        assert ((np.abs(w) > 1e-3) & ~candidates).any()
        rule = StrongRule(ProxQN(), l1 * (1 + 1e-6), 0.0, 1e-9)
        result = minimize(objective, penalty, rule, Run(tol=1e-9))
        plain = minimize(PROBLEM.objective(), penalty, ProxQN(), Run(tol=1e-9))
        assert rule.n_screening_violations >= ((np.abs(w) > 1e-3) & ~candidates).sum()
        assert rule.n_checks >= 2
        assert result.value == pytest.approx(plain.value, rel=1e-9)
        assert result.gap == pytest.approx(plain.gap, abs=1e-7)
        np.testing.assert_array_equal(result.coords, plain.coords)

    def test_full_gradient_scans_are_the_start_and_the_checks(self):
        objective = PROBLEM.objective()
        rule = StrongRule(ProxQN(), 1.05 * PROBLEM.l1_max, 0.0, 1e-4)
        result = minimize(objective, ElasticNet(0.9 * PROBLEM.l1_max), rule, Run(tol=1e-4))
        assert result.status is Status.CONVERGED
        assert result.trace.is_screening.sum() == 1 + rule.n_checks
        assert result.n_iter == (~result.trace.is_screening).sum()
        assert result.trace.is_screening[-1]
        assert objective.n_passes == result.passes
        assert rule.point.coords is result.coords

    def test_it_ends_where_rounding_does(self):
        rule = StrongRule(ProxQN(), 2.2, 0.0, 0.0)
        result = minimize(PROBLEM.objective(), ElasticNet(2.0), rule, Run(tol=0.0))
        assert result.status is Status.STALLED
        assert result.gap < 1e-6

    def test_limits(self):
        rule = StrongRule(ProxQN(), 2.2, 0.0, 0.0)
        result = minimize(PROBLEM.objective(), ElasticNet(2.0), rule, Run(tol=0.0, max_iter=2))
        assert result.status is Status.MAX_ITER
        assert result.n_iter == 2

    @pytest.mark.parametrize("solver", ["owl-qn", "fista"])
    def test_with_other_solvers(self, solver):
        path = quiet(
            ChainCRF(solver=solver, tol=1e-6, max_iter=3000), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6)
        )
        plain = quiet(ChainCRF(tol=1e-6), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6))
        np.testing.assert_allclose(path.value, plain.value, rtol=1e-6)

    def test_rows_take_no_strong_rule(self):
        path = quiet(ChainCRF(group_l1=0.5, tol=1e-6), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6))
        alone = ChainCRF(l1=path.l1[-1], group_l1=0.5, tol=1e-6).fit(X, Y)
        assert path.n_nonzero[0] == 0
        assert path.value[-1] == pytest.approx(alone.result_.value, rel=1e-5)
