"""SpaRSA: the paper's algorithm with dense vectors, iterate by iterate, and the optima of all flat losses.

That it meets chains and taxonomies too is in `test_solvers.py`. Ceilings on steps are about one and a half times what
was measured.
"""

from __future__ import annotations

import numpy as np
import pytest
from margin_problems import NAMES, make_problem, objective_of
from margin_references import optimum, penalty_value, row_prox

from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.line_search import unit_length
from crfqn.solvers.minimize import minimize
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stopping import Run

F, K = 6, 4
PENALTIES = {  # (l1, l2, group), norm
    "L1/L2": ((0.0, 0.0, 2.0), "l2"),
    "L1/Linf": ((0.0, 0.0, 3.0), "linf"),
    "sparse group": ((0.5, 0.1, 1.0), "l2"),
    "elastic net": ((0.5, 1.0, 0.0), "l2"),
}
SOLVERS = {"any": SpaRSA(), "monotone": SpaRSA(monotone=True)}
every_loss = pytest.mark.parametrize("name", NAMES)
every_penalty = pytest.mark.parametrize("kind", PENALTIES)
every_solver = pytest.mark.parametrize("which", SOLVERS)


def penalty_of(kind):
    (l1, l2, group), norm = PENALTIES[kind]
    return GroupLasso(group, l1, l2, norm, n_features=F, n_states=K) if group else ElasticNet(l1=l1, l2=l2)


def table_of(point):
    dense = np.zeros(F * K)
    dense[point.coords] = point.weights
    return dense.reshape(K, F).T


def papers_iterates(problem, strengths, norm, alpha, n_steps, memory=5, sigma=0.01, factor=2.0):
    """Wright, Nowak and Figueiredo's algorithm, its vectors dense: W after each step."""

    def value_at(w):
        return problem.evaluate(w)[0] + penalty_value(w, strengths, norm)

    w, found = np.zeros((F, K)), []
    values = [value_at(w)]
    for _ in range(n_steps):
        g = problem.evaluate(w)[1]
        while True:
            new = row_prox(w - g / alpha, 1.0 / alpha, strengths, norm)
            asked = 0.5 * sigma * alpha * np.sum((new - w) ** 2)
            if value_at(new) <= max(values[-memory - 1 :]) - asked:
                break
            alpha *= factor
        s, r = new - w, problem.evaluate(new)[1] - g
        w, alpha = new, np.sum(s * r) / np.sum(s * s)
        values.append(value_at(w))
        found.append(w)
    return found


@every_loss
@every_penalty
@every_solver
def test_iterates_are_the_papers(name, kind, which):
    problem, penalty, solver = make_problem(name, seed=2), penalty_of(kind), SOLVERS[which]
    objective = objective_of(problem)
    start = objective.at(np.empty(0, np.int64), np.empty(0))
    here = screen_point(penalty, start)
    alpha = 1.0 / unit_length(penalty.violation(here.coords, here.w, here.g))
    memory = 0 if solver.monotone else 5
    expected = papers_iterates(problem, *PENALTIES[kind], alpha, 6, memory)
    states = solver.steps(objective, penalty, start)
    next(states)
    for w in expected:
        np.testing.assert_allclose(table_of(next(states).point), w, rtol=1e-6, atol=1e-9)


@every_loss
@every_penalty
@every_solver
def test_reaches_the_optimum(name, kind, which):
    problem = make_problem(name)
    value, w = optimum(problem, *PENALTIES[kind])
    # The gap is of the order of the violation, the objective of its square: below 1e-8 rounding hides the decrease.
    result = minimize(objective_of(problem), penalty_of(kind), SOLVERS[which], Run(tol=1e-7, max_iter=1000))
    assert result.status is Status.CONVERGED
    assert value * (1 - 1e-7) <= result.value <= value * (1 + 1.1e-7)
    assert np.array_equal(table_of(result).any(axis=1), w.any(axis=1))
    assert result.n_iter <= 200
    rises = np.diff(result.trace.value)
    if which == "monotone":
        assert rises.max() <= 1e-14 * value
    # No step goes above the largest of the last six values.
    recent = [max(result.trace.value[max(0, i - 5) : i + 1]) for i in range(result.n_iter)]
    assert np.all(result.trace.value[1:] <= np.array(recent) * (1 + 1e-14))


def test_no_memory_is_monotone():
    problem, penalty = make_problem("multiclass"), penalty_of("L1/L2")
    runs = [
        minimize(objective_of(problem), penalty, solver, Run(tol=1e-6))
        for solver in (SpaRSA(memory=0), SpaRSA(monotone=True))
    ]
    np.testing.assert_array_equal(runs[0].trace.value, runs[1].trace.value)


def test_steps_may_rise_without_monotone():
    problem, penalty = make_problem("multiclass", n_items=60), GroupLasso(0.01, n_features=F, n_states=K)
    result = minimize(objective_of(problem), penalty, SpaRSA(), Run(tol=1e-7))
    assert np.diff(result.trace.value).max() > 0


def test_the_step_keeps_within_its_bounds():
    """With one curvature allowed, which is above all that the loss has, it is proximal gradient descent."""
    problem, (strengths, norm) = make_problem("multiclass"), PENALTIES["L1/L2"]
    bound = 2.0 * K * np.linalg.norm(np.sqrt(problem.weights)[:, None] * problem.x, 2) ** 2
    solver = SpaRSA(least_curvature=bound, most_curvature=bound)
    states = solver.steps(
        objective := objective_of(problem), penalty_of("L1/L2"), objective.at(np.empty(0, int), np.empty(0))
    )
    next(states)
    w = np.zeros((F, K))
    for _ in range(5):
        w = row_prox(w - problem.evaluate(w)[1] / bound, 1.0 / bound, strengths, norm)
        np.testing.assert_allclose(table_of(next(states).point), w, rtol=1e-8, atol=1e-12)
