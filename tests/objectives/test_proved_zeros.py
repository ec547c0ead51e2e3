"""Proved zeros: spreads by enumeration of all labellings, and that what is proved zero is zero at the optimum."""

from dataclasses import replace

import numpy as np
import pytest
from problems import SHAPES, make_likelihood, make_problem, make_tree_problem, objective_of, point_at

import crfqn
from crfqn.arrays import NO_COORDS
from crfqn.data.features import FeatureStore
from crfqn.objectives.objective import in_blocks
from crfqn.objectives.support import observed_support
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.certificate import PROOF_ROUNDING, best_bound, count_proved_zeros
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

KINDS = ["chain", "binary chain", "weighted chain", "three states", *SHAPES]


def problem_of(kind, seed=0):
    if kind in SHAPES:
        return make_tree_problem(kind, seed, n_items=12, n_features=3, has_weights=seed % 2 == 1)
    problem = make_problem(
        seed,
        n_items=8,
        n_features=4,
        n_states=3 if kind == "three states" else 2,
        is_binary=kind == "binary chain",
    )
    if kind == "weighted chain":
        weights = np.random.default_rng(seed).choice([0.0, 0.3, 1.0, 2.5], problem.n_items)
        weights[0] = 1.0
        return replace(problem, weights=weights)
    return problem


def loss_of(problem):
    return objective_of(problem) if hasattr(problem, "parents") else problem.objective()


def brute_spreads(problem):
    """sqrt(sum_i weight_i r_ij^2) from the counts of all labellings of every item, (d,)."""
    if hasattr(problem, "parents"):
        paths = problem.forest.is_on_path
        counts = [
            (np.einsum("yk,f->ykf", paths, x).reshape(len(paths), -1), c)
            for x, c in zip(problem.x, problem.item_weights, strict=True)
        ]
    else:
        counts = [(phi, c) for phi, _, c in problem.counts]
    squares = [c * (phi.max(axis=0) - phi.min(axis=0)) ** 2 for phi, c in counts]
    return np.sqrt(np.sum(squares, axis=0))


def range_of(objective, coords):
    return objective.ranges.at(objective.split(coords))


def count_within(point, *limits):
    return point.count_within(*limits, NO_COORDS)


def in_parts(problem):
    return in_blocks(loss_of(problem).whole, 5)


class TestSpreads:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_by_enumeration(self, kind, seed):
        problem = problem_of(kind, seed)
        expected = brute_spreads(problem)
        if (
            kind == "chain of nodes"
        ):  # its top lies on every path, so that nothing moves there; not looked for
            assert (expected[:3] == 0).all()
            expected[:3] = expected[3:6]
        coords = np.arange(problem.n_coords)
        for objective in (loss_of(problem), in_parts(problem)):
            np.testing.assert_allclose(range_of(objective, coords), expected, rtol=1e-12)
        np.testing.assert_allclose(range_of(objective, coords[1::3]), expected[1::3], rtol=1e-12)

    def test_longer_items(self):
        """Transitions to the same label T - 1 times, to another T // 2 times."""
        problem = replace(make_problem(0, n_items=1, n_states=2, longest=1), n_states=2)
        for length in range(1, 8):
            longer = replace(
                problem,
                matrix=np.ones((length, 1)),
                offsets=np.array([0, length]),
                targets=np.zeros(length, np.int32),
            )
            np.testing.assert_allclose(
                range_of(longer.objective(), np.arange(6)), brute_spreads(longer), rtol=1e-12
            )

    def test_one_label_leaves_no_choice_of_transitions(self):
        assert Chain(np.array([0, 3]), 1).edge_ranges(np.ones(1)) == 0

    def test_threads_do_not_matter(self):
        problem = make_problem(3, n_items=60, n_features=70, is_binary=False)
        one, two = (problem.objective(n_threads=n).ranges.features for n in (1, 2))
        assert one.tobytes() == two.tobytes()


class TestCounting:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("radius", [0.0, 0.1, 0.4, 3.0])
    @pytest.mark.parametrize("scale", [1.0, 0.3])
    def test_against_the_whole_gradient(self, kind, radius, scale):
        problem = problem_of(kind, 1)
        objective = loss_of(problem)
        coords = np.arange(problem.n_coords)
        point = point_at(objective, np.random.default_rng(2).normal(size=problem.n_coords))
        g, feature_ranges = np.abs(point.gradient(coords)), range_of(objective, coords)
        parts = point_at(in_parts(problem), point.weights)
        for bound in (0.05, 0.5, 1.0, 2.0, 50.0):
            is_within = scale * g + radius * feature_ranges < bound
            assert count_within(point, bound, scale, radius) == is_within.sum()
            is_near = radius * feature_ranges <= bound / 2
            assert count_within(parts, bound, scale, radius) == (is_within & is_near).sum()

    def test_many_states_and_features(self):
        """Tiles of states and blocks of features, most of which are not looked at."""
        random = np.random.default_rng(0)
        matrix = (random.random((60, 700)) < 0.02) * random.normal(size=(60, 700))
        store = FeatureStore.from_matrix(matrix, np.arange(0, 61, 3))
        objective = make_likelihood(
            store, Chain(store.offsets, 70), random.integers(0, 70, 60).astype(np.int32)
        )
        point = objective.at(np.arange(0, 49000, 7), random.normal(size=7000))
        coords = np.arange(objective.n_coords)
        g, feature_ranges = np.abs(point.gradient(coords)), range_of(objective, coords)
        counts = [
            (count_within(point, bound, 0.9, 0.2), (0.9 * g + 0.2 * feature_ranges < bound).sum())
            for bound in (0.02, 0.1, 0.5, 2.0)
        ]
        assert all(found == expected for found, expected in counts)
        assert 0 < counts[0][0] < counts[-1][0] < coords.size

    @pytest.mark.parametrize("states", [True, False])
    @pytest.mark.parametrize("transitions", [True, False])
    def test_on_a_support(self, states, transitions):
        problem = problem_of("three states", 4)
        whole = problem.objective()
        support = observed_support(whole.whole.map.store, problem.targets, 3, states, transitions)
        objective = make_likelihood(
            whole.whole.map.store, whole.whole.loss.structure, problem.targets, support=support
        )
        coords, point = support.coords(), objective.at(np.array([0]), np.array([0.5]))
        reach = np.abs(point.gradient(coords)) + 0.1 * range_of(objective, coords)
        for bound in (0.5, 1.0, 2.0):
            assert count_within(point, bound, 1.0, 0.1) == (reach < bound).sum()
        parts = in_blocks(objective.whole, 5).at(np.array([0]), np.array([0.5]))
        near = 0.1 * range_of(objective, coords) <= 1.0
        assert count_within(parts, 2.0, 1.0, 0.1) == ((reach < 2.0) & near).sum()


class TestProofs:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("share", "l2"), [(0.5, 0.0), (0.2, 0.0), (0.3, 0.5)])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_what_is_proved_is_zero_at_the_optimum(self, kind, share, l2, seed):
        problem = problem_of(kind, seed)
        objective, penalty = loss_of(problem), ElasticNet(share * problem.l1_max, l2)
        best, optimum = problem.optimum(penalty.l1, l2)
        random, feature_ranges = np.random.default_rng(seed), brute_spreads(problem)
        n_proved = []
        for noise in (0.0, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
            w = optimum + noise * random.normal(size=optimum.size) * (random.random(optimum.size) < 0.5)
            w[np.abs(w) < 1e-9] = 0.0
            point = point_at(objective, w)
            value = problem.value(w, penalty.l1, l2)
            dual_value, scale = best_bound(point, penalty, penalty.screen(point))
            assert dual_value <= best * (1 + 1e-9)
            gap = max(value - dual_value, 0.0) + PROOF_ROUNDING * value
            reach = scale * np.abs(problem.evaluate(w)[1]) + 0.5 * feature_ranges * np.sqrt(2 * gap)
            is_proved = reach < penalty.l1 * (1 - PROOF_ROUNDING)
            assert np.abs(optimum[is_proved]).max(initial=0.0) <= 1e-10
            found = count_proved_zeros(objective, penalty, point, value)
            assert found <= (is_proved & (w == 0)).sum()
            if kind != "chain of nodes":  # whose top has a spread here
                assert found == (is_proved & (w == 0)).sum()
            n_proved.append(found)
        assert n_proved[0] > 0
        assert n_proved[-1] < (optimum == 0).sum()

    def test_a_better_value_known_proves_more(self):
        problem = problem_of("three states", 0)
        penalty = ElasticNet(0.5 * problem.l1_max)
        best, optimum = problem.optimum(penalty.l1, 0.0)
        optimum[np.abs(optimum) < 1e-9] = 0.0
        point = point_at(problem.objective(), 0.98 * optimum)
        value = problem.value(0.98 * optimum, penalty.l1, 0.0)
        counts = [
            count_proved_zeros(point.objective, penalty, point, known) for known in (10 * value, value, best)
        ]
        assert counts[0] < counts[2]
        assert counts == sorted(counts)

    def test_rows_prove_nothing_yet(self):
        problem = problem_of("flat")
        penalty = GroupLasso(1.0, n_features=3, n_states=4)
        point = point_at(loss_of(problem), np.zeros(problem.n_coords))
        assert count_proved_zeros(point.objective, penalty, point, point.value) is None


class TestResults:
    def test_all_strict_zeros_in_the_end(self):
        problem = make_problem(1, n_items=20)
        objective, penalty = problem.objective(), ElasticNet(1.5)
        counts = [
            minimize(objective, penalty, ProxQN(), Run(tol=tol)).n_proved_zeros for tol in (1.0, 1e-3, 1e-12)
        ]
        result = minimize(objective, penalty, ProxQN(), Run(tol=1e-12))
        assert counts == sorted(counts)
        assert counts[0] < counts[-1] == problem.n_coords - result.n_nonzero

    def test_it_costs_no_inference(self):
        problem = make_problem(1, n_items=20)
        objective = problem.objective()
        result = minimize(objective, ElasticNet(1.5), ProxQN(), Run(tol=1e-9))
        assert result.trace.rows[-1].is_screening
        assert result.n_proved_zeros > 0
        assert objective.n_passes == result.passes

    @pytest.mark.parametrize("limits", [{"max_iter": 1, "tol": 0.0}, {"callback": lambda row: True}])
    def test_none_of_a_run_that_was_stopped(self, limits):
        result = minimize(
            make_problem(0).objective(), ElasticNet(0.5), ProxQN(), Run(**{"tol": 1e-9} | limits)
        )
        assert result.status in (Status.MAX_ITER, Status.CALLBACK)
        assert result.n_proved_zeros is None

    def test_none_without_a_certificate(self):
        result = minimize(make_problem(0).objective(), ElasticNet(), ProxQN(), Run(tol=1e-3))
        assert result.status is Status.STATIONARY
        assert result.n_proved_zeros is None

    def test_with_unpenalised_coordinates(self):
        """One feature's weights for all states may have no penalty, as intercepts; of others nothing is proved."""
        problem = make_problem(0, n_items=30, n_features=8, longest=3)
        row = 5 + problem.n_features * np.arange(problem.n_states)
        for unpenalised in (row, row[:1]):
            penalty = ElasticNet(2.0, unpenalised=unpenalised)
            result = minimize(problem.objective(), penalty, ProxQN(), Run(tol=1e-6))
            optimum, w = problem.optimum(2.0, 0.0, unpenalised)
            if unpenalised is row:
                assert 0 < result.n_proved_zeros <= np.count_nonzero(np.abs(w) < 1e-6)
            else:
                assert result.n_proved_zeros is None
                assert result.value == pytest.approx(optimum, rel=1e-6)

    def test_none_are_zero_without_l1(self):
        result = minimize(make_problem(0).objective(), ElasticNet(0.0, 1.0), ProxQN(), Run(tol=1e-6))
        assert not result.n_proved_zeros

    def test_a_model_file_keeps_it(self, tmp_path):
        problem = make_problem(1, n_items=20)
        model = crfqn.ChainCRF(l1=1.5, tol=1e-6).fit(problem.items, problem.labels)
        model.save(tmp_path / "model.crfqn")
        loaded = crfqn.load(tmp_path / "model.crfqn")
        assert loaded.result_.n_proved_zeros == model.result_.n_proved_zeros > 0

    def test_a_model_file_without_it(self, tmp_path):
        problem = make_problem(1)
        with pytest.warns(UserWarning, match="the limit of iterations"):
            model = crfqn.ChainCRF(l1=1.5, tol=0.0, max_iter=1).fit(problem.items, problem.labels)
        model.save(tmp_path / "model.crfqn")
        assert crfqn.load(tmp_path / "model.crfqn").result_.n_proved_zeros is None
