"""Training with groups: Prox-QN, screening, estimators."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from group_problems import NORMS, norms
from problems import TreeProblem, dense_weights, ends_within, make_problem, make_tree_problem, point_at
from sklearn.exceptions import ConvergenceWarning

from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF, load
from crfqn.errors import InputError
from crfqn.objectives.objective import in_blocks
from crfqn.penalties import GroupLasso
from crfqn.result import Status
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Requirements
from crfqn.solvers.prox_qn import Diagonal, ProxQN, TopViolators
from crfqn.solvers.stopping import Run

pytestmark = pytest.mark.usefixtures("compiled")
CHAIN, REAL = make_problem(4, n_items=12, n_features=12, longest=3), make_problem(3, is_binary=False)
TREE = make_tree_problem("forest", 4, n_features=8, has_weights=True)
TREE.x[:, 0] = 1.0  # a constant: what has no penalty as "free intercept" is one
FLAT = make_tree_problem("flat", 3, n_items=60, n_features=12)
PROBLEMS = {"chain": CHAIN, "real": REAL, "forest": TREE, "flat": FLAT}
MANY_STATES = TreeProblem(
    np.random.default_rng(8).normal(size=(50, 25)),
    np.full(150, -1, np.int32),
    np.ones(150, bool),
    np.arange(50, dtype=np.int32) * 3,
    np.ones(50),
)
PENALTIES: dict[str, dict[str, Any]] = {
    "rows": {"group_l1": 0.9},
    "sparse rows": {"group_l1": 0.5, "l1": 0.3},
    "with l2": {"group_l1": 0.6, "l2": 0.2},
    "free intercept": {"group_l1": 0.8},
}
AS_IF_LARGE = ProxQN(few_weights=0)
SOLVERS = {
    "default": AS_IF_LARGE,
    "diagonal": ProxQN(metric=Diagonal()),
    "few may enter": ProxQN(entry=TopViolators(3)),
    "paper": ProxQN.paper(),
}


def n_features(problem):
    return problem.matrix.shape[1] if hasattr(problem, "matrix") else problem.x.shape[1]


def penalty_of(name, kind, norm):
    problem = PROBLEMS[name]
    columns, n_states = n_features(problem), problem.n_states
    unpenalised = np.arange(n_states) * columns if kind == "free intercept" else np.empty(0, np.int64)
    penalty = GroupLasso(
        **PENALTIES[kind], norm=norm, unpenalised=unpenalised, n_features=columns, n_states=n_states
    )
    return penalty.scaled(6.0 if name == "flat" else 1.0)


@cache
def optimum(name, kind, norm):
    """The smallest value and its weights, by FISTA with restarts on the enumerated problem."""
    problem, penalty = PROBLEMS[name], penalty_of(name, kind, norm)
    coords, curvature, t = np.arange(problem.n_coords), 1.0, 1.0
    w = v = np.zeros(problem.n_coords)
    value = np.inf
    for _ in range(4000):
        loss, g = problem.evaluate(v)
        while True:
            new = penalty.prox(coords, v - g / curvature, 1 / curvature)
            new_loss, step = problem.evaluate(new)[0], new - v
            if new_loss <= loss + g @ step + 0.5 * curvature * step @ step + 1e-13 * abs(loss):
                break
            curvature *= 1.5
        new_value = new_loss + penalty.value(coords, new)
        if t > 1 and new_value > value:
            t, v, value = 1.0, w, np.inf
            continue
        if np.abs(new - w).max() <= 1e-9 and t > 1:
            break
        before, t = t, 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        v, w, value = new + (before - 1) / t * (new - w), new, new_value
    return problem.evaluate(w)[0] + penalty.value(coords, w), w


def run(name, kind, norm, solver=None, **limits):
    with ends_within():
        return minimize(
            PROBLEMS[name].objective(), penalty_of(name, kind, norm), solver or AS_IF_LARGE,
            Run(**{"tol": 1e-6, "max_iter": 800, **limits}),
        )  # fmt: skip


def rows_of(problem, w):
    """(states, features) of the node weights."""
    return w[: problem.n_states * n_features(problem)].reshape(problem.n_states, -1)


class TestProxQN:
    @norms
    @pytest.mark.parametrize("kind", PENALTIES)
    @pytest.mark.parametrize("name", PROBLEMS)
    def test_reaches_the_optimum(self, name, kind, norm):
        reference, expected = optimum(name, kind, norm)
        result = run(name, kind, norm)
        # An unpenalised weight of either sign is bounded loosely: rounding may hide the last of its gradient.
        ends = (Status.CONVERGED, Status.STALLED) if kind == "free intercept" else (Status.CONVERGED,)
        assert result.status in ends
        assert result.value == pytest.approx(reference, rel=1e-6 if kind == "with l2" else 2e-7)
        assert result.n_iter <= 80
        w = dense_weights(PROBLEMS[name], result.coords, result.weights)
        np.testing.assert_array_equal(
            rows_of(PROBLEMS[name], w).any(axis=0), rows_of(PROBLEMS[name], expected).any(axis=0)
        )
        trace = result.trace
        assert np.diff(trace.value).max(initial=0.0) <= 1e-13 * result.value
        # The certificate is true at every step, and closes.
        assert result.gap <= 1e-6
        true_gap = (np.minimum.accumulate(trace.value) - min(reference, result.value)) / trace.value
        is_known = ~np.isnan(trace.gap)
        assert (trace.gap[is_known] >= true_gap[is_known] - 1e-12).all()

    @pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "default"])
    @pytest.mark.parametrize(
        ("name", "kind", "norm"),
        [("chain", "rows", "l2"), ("forest", "sparse rows", "l2"), ("real", "rows", "linf")],
    )
    def test_other_settings(self, name, kind, norm, solver):
        result = run(name, kind, norm, SOLVERS[solver])
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(optimum(name, kind, norm)[0], rel=2e-7)

    @norms
    def test_rows_vanish_as_a_whole(self, norm):
        result = run("flat", "rows", norm)
        used = rows_of(FLAT, dense_weights(FLAT, result.coords, result.weights)) != 0
        assert 0 < used.any(axis=0).sum() < n_features(FLAT)
        assert used[:, used.any(axis=0)].mean() > 0.9

    @norms
    @pytest.mark.parametrize("name", ["chain", "forest"])
    def test_at_its_largest_all_weights_are_zero(self, name, norm):
        problem = PROBLEMS[name]
        g = problem.evaluate(np.zeros(problem.n_coords))[1]
        local = penalty_of(name, "rows", norm).at(np.arange(g.size))
        largest = local.dual_norms(g).max()
        for factor, n_least in [(1 + 1e-9, 0), (0.95, 1)]:
            penalty = replace(penalty_of(name, "rows", norm), group_l1=factor * largest)
            result = minimize(problem.objective(), penalty, ProxQN(), Run(tol=1e-6))
            assert result.status is Status.CONVERGED
            assert min(result.n_nonzero, 1) == n_least
            assert (result.n_iter == 0) == (n_least == 0)

    @norms
    def test_bit_identical_for_any_number_of_threads(self, norm):
        results = [
            minimize(
                PROBLEMS["flat"].objective(n_threads=n),
                penalty_of("flat", "sparse rows", norm),
                ProxQN(),
                Run(tol=1e-5),
            )
            for n in (1, 2, 7)
        ]
        for other in results[1:]:
            assert other.weights.tobytes() == results[0].weights.tobytes()
            assert other.trace.value.tobytes() == results[0].trace.value.tobytes()

    def test_whole_rows_enter(self):
        """No more rows than it takes to fill the bound; and the state knows what was left out."""
        first = run("flat", "rows", "l2", ProxQN(entry=TopViolators(5)), max_iter=1).trace.rows[0]
        assert first.n_active == 8  # two rows of 4 states
        whole = run("flat", "rows", "l2", max_iter=1).trace.rows[0]
        assert whole.n_active % 4 == 0
        assert whole.n_active > 8
        assert first.violation == whole.violation

    def test_a_solver_for_single_weights_refuses(self):
        class Separable:
            def requires(self, objective, penalty):
                return Requirements(penalty=("is_separable",))

        with pytest.raises(
            InputError, match=r"Separable needs a penalty of single weights, .* got GroupLasso"
        ):
            minimize(FLAT.objective(), penalty_of("flat", "rows", "l2"), Separable())


class TestScreening:
    @norms
    @pytest.mark.parametrize("l1", [0.0, 0.4])
    @pytest.mark.parametrize("name", [*PROBLEMS, "three tiles of states"])
    def test_finds_the_rows_above_the_bound_and_those_with_weights(self, name, norm, l1):
        problem, random = PROBLEMS.get(name, MANY_STATES), np.random.default_rng(9)
        sizes = {"n_features": n_features(problem), "n_states": problem.n_states}
        share = min(0.1, 0.5 / problem.n_states)  # some rows stay zero
        w = np.where(random.random(problem.n_coords) < share, random.normal(size=problem.n_coords), 0.0)
        g, everywhere = problem.evaluate(w)[1], np.arange(problem.n_coords)
        for quantile in (0.2, 0.7):
            penalty = GroupLasso(1.0, l1, 0.0, norm, **sizes)
            dual_norm = penalty.at(everywhere).dual_norm(w, g)
            penalty = replace(
                penalty, group_l1=float(np.quantile(dual_norm[np.isfinite(dual_norm)], quantile)) + 1e-6
            )
            expected = np.flatnonzero(dual_norm > penalty.group_l1)
            for objective in (problem.objective(), in_blocks(problem.objective().whole, 10)):
                found = penalty.screen(point_at(objective, w))
                np.testing.assert_array_equal(found.coords, expected)
                np.testing.assert_allclose(found.gradient, g[expected], atol=1e-9)

    @norms
    @pytest.mark.parametrize("kind", ["rows", "sparse rows", "with l2"])
    def test_no_weights_prove_more_than_the_optimum(self, kind, norm):
        value, best = optimum("chain", kind, norm)
        penalty, random = penalty_of("chain", kind, norm), np.random.default_rng(10)
        objective, bounds = CHAIN.objective(), []
        for scale in (0.0, 0.01, 0.1, 1.0, 5.0):
            point = point_at(objective, best + scale * random.normal(size=best.size))
            bounds.append(best_bound(point, penalty, penalty.screen(point)).dual_value)
        assert np.isfinite(bounds).all()
        assert max(bounds) <= value * (1 + 1e-9)
        assert bounds[0] == pytest.approx(value, rel=1e-5)


class TestEstimators:
    random = np.random.default_rng(11)
    X = random.normal(size=(90, 10))
    Y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.3 * random.normal(size=(90, 3)), axis=1)]

    @pytest.mark.parametrize("kind", [MulticlassCRF, TaxonomyCRF])
    def test_features_are_used_by_all_classes_or_none(self, kind, tmp_path):
        chosen = {"l1": 0.0} if kind is TaxonomyCRF else {"penalty": "l1/l2"}
        model = kind(group_l1=8.0, fit_intercept=True, **chosen).fit(self.X, self.Y)
        used = model.coef_.toarray() != 0
        assert used[:, :3].all()
        assert not used.all()
        np.testing.assert_array_equal(used.any(axis=0), used.all(axis=0))
        assert model.intercept_.any()
        model.save(tmp_path / "model.crfqn")
        again = load(tmp_path / "model.crfqn")
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.predict(self.X), model.predict(self.X))

    def test_the_largest_size_makes_equal_sizes(self):
        model = MulticlassCRF(penalty="l1/linf", group_l1=12.0, tol=1e-6).fit(self.X, self.Y)
        sizes = np.abs(model.coef_.toarray()[:, 0])
        assert np.sum(sizes >= sizes.max() * (1 - 1e-9)) >= 2

    @pytest.mark.parametrize("has_support", [False, True])
    def test_chains(self, has_support):
        problem = make_problem(12, n_items=20, n_features=8)
        model = ChainCRF(
            l1=0.0,
            group_l1=4.0,
            all_possible_states=not has_support,
            all_possible_transitions=not has_support,
        ).fit(problem.sequences, problem.labels)
        used = model.coef_.toarray() != 0
        pairs = np.array([problem.matrix[problem.targets == k].any(axis=0) for k in range(problem.n_states)])
        possible = pairs if has_support else np.ones_like(pairs)
        assert possible.all() != has_support
        np.testing.assert_array_equal(used, possible & used.any(axis=0))
        assert 0 < used.any(axis=0).sum() < 8
        assert 0 <= model.result_.gap <= 1e-3

    def test_group_l1_of_0_is_the_elastic_net(self):
        models = [TaxonomyCRF(l1=2.0, group_l1=0.0, group_norm=norm).fit(self.X, self.Y) for norm in NORMS]
        assert models[0].coef_.data.tobytes() == models[1].coef_.data.tobytes()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"group_l1": -1}, r"^group_l1: expected 'auto' or a finite number >= 0, got -1$"),
            ({"group_l1": "much"}, r"^group_l1: expected 'auto' or a finite number >= 0, got 'much'$"),
            ({"group_norm": "l1"}, r"^group_norm: expected one of \['l2', 'linf'\], got 'l1'$"),
            ({"group_norm": None}, r"^group_norm: expected one of \['l2', 'linf'\], got None$"),
        ],
    )
    def test_bad_parameters(self, settings, message):
        with pytest.raises(InputError, match=message):
            TaxonomyCRF(**settings).fit(self.X, self.Y)

    def test_limits_are_reported_as_ever(self):
        with pytest.warns(ConvergenceWarning):
            MulticlassCRF(penalty="l1/l2", group_l1=0.1, max_iter=1).fit(self.X, self.Y)
