"""Stochastic gradients with the cumulative penalty: iterate by iterate as a plain one that penalises all weights after
every step, near the optimum in the end, and reproducible.

The reference takes each item's gradient by enumeration. Ceilings are about one and a half times what was measured.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice

import margin_problems
import numpy as np
import pytest
import scipy.sparse as sp
from problems import Problem, TreeProblem, dense_weights, make_likelihood, make_problem, make_tree_problem

from crfqn import ChainCRF, MulticlassCRF
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.objective import in_blocks
from crfqn.objectives.support import observed_support
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stochastic.sgd import SGDL1, RateSearch
from crfqn.solvers.stochastic.state import SGDState
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain

N_EPOCHS, ETA0 = 3, 0.3
SOME_WEIGHTS = np.array([0.5, 3, 0, 2, 0.1, 1, 0, 2, 1, 2, 0.3, 1])
PROBLEMS: dict[str, Problem | TreeProblem] = {
    "chains": make_problem(1),
    "real chains": make_problem(3, is_binary=False),
    "weighted chains": replace(make_problem(6), weights=SOME_WEIGHTS),
    "nine labels": make_problem(2, n_items=8, n_states=9, longest=3, is_binary=False),
    "length 1": make_problem(5, n_items=20, longest=1),
    "forest": make_tree_problem("forest", 1),
    "inner labels": make_tree_problem("labels at inner nodes", 2, is_binary=True),
    "flat": make_tree_problem("flat", 3, n_features=12),
    "weighted forest": make_tree_problem("forest", 4, n_features=8, has_weights=True),
}
STRENGTHS = [(1.0, 0.0), (0.5, 3.0), (0.0, 0.5), (0.0, 0.0)]
NO_START = (np.empty(0, np.int64), np.empty(0))


@cache
def optimum(name: str, l1: float, l2: float) -> float:
    return PROBLEMS[name].optimum(l1, l2)[0]


def item_weights(problem: Problem | TreeProblem) -> np.ndarray:
    weights = problem.item_weights if isinstance(problem, TreeProblem) else problem.weights
    return np.ones(problem.n_items) if weights is None else weights


def item_gradient(problem: Problem | TreeProblem, i: int, w: np.ndarray) -> np.ndarray:
    """The gradient of one item's loss, by enumeration."""
    if isinstance(problem, TreeProblem):
        alone = np.zeros(problem.n_items)
        alone[i] = problem.item_weights[i]
        return replace(problem, item_weights=alone).gradient(w)
    phi, observed, weight = problem.counts[i]
    scores = phi @ w
    p = np.exp(scores - scores.max())
    return weight * ((p / p.sum()) @ phi - phi[observed])


class Eager:
    """Tsuruoka, Tsujii and Ananiadou's Figure 2 with the penalty applied to all weights after every step.

    w and q are dictionaries; the quadratic penalty's proximal map shrinks w, and u and q with it.
    """

    def __init__(self, problem, l1, l2, unpenalised=(), start=NO_START, forbidden=()):
        self.problem, self.l1, self.l2, self.unpenalised, self.forbidden = (
            problem,
            l1,
            l2,
            set(unpenalised),
            set(forbidden),
        )
        self.w = dict.fromkeys(range(problem.n_coords), 0.0) | dict(
            zip(start[0].tolist(), start[1].tolist(), strict=True)
        )
        self.q = dict.fromkeys(self.w, 0.0)
        self.u, self.k = 0.0, 0

    def learn(self, items, eta0, n_items):
        for i in items:
            eta = eta0 / (1 + self.k / n_items)
            gradient = item_gradient(self.problem, i, self.dense)
            self.u += eta * self.l1 / n_items
            shrink = 1 + eta * self.l2 / n_items
            for j in self.w:
                self.w[j] -= eta * gradient[j]
                if j in self.forbidden:
                    self.w[j] = 0.0
                elif j not in self.unpenalised:
                    self.apply_penalty(j)
                    self.w[j] /= shrink
                    self.q[j] /= shrink
            self.u /= shrink
            self.k += 1

    def apply_penalty(self, j):
        z = self.w[j]
        if z > 0:
            self.w[j] = max(0.0, z - (self.u + self.q[j]))
        elif z < 0:
            self.w[j] = min(0.0, z + (self.u - self.q[j]))
        self.q[j] += self.w[j] - z

    @property
    def dense(self):
        return np.array(list(self.w.values()))


def epochs(objective, problem, l1, l2, solver, unpenalised=(), start=NO_START, n_epochs=N_EPOCHS):
    """The dense weights after each of the first epochs of a solver whose rate is known."""
    penalty = ElasticNet(l1, l2, np.array(sorted(unpenalised), np.int64))
    states = solver.steps(objective, penalty, objective.at(*start))
    next(states)
    return [dense_weights(problem, s.point.coords, s.point.weights) for s in islice(states, n_epochs)]


def check_epochs(problem, l1, l2, eta0=ETA0, objective=None, unpenalised=(), start=NO_START, forbidden=()):
    """The solver's iterates are the reference's."""
    objective = objective or problem.objective()
    reference = Eager(problem, l1, l2, unpenalised, start, forbidden)
    random = np.random.default_rng(7)
    items = np.flatnonzero(item_weights(problem) > 0)
    found = epochs(objective, problem, l1, l2, SGDL1(eta0, random_state=7), unpenalised, start)
    for w in found:
        reference.learn(items[random.permutation(items.size)], eta0, items.size)
        np.testing.assert_allclose(w, reference.dense, rtol=0, atol=1e-10 * max(1.0, np.abs(w).max()))
        if l1 > 0:
            assert np.array_equal(w == 0, reference.dense == 0)
    assert np.abs(found[-1]).max() > 0.01
    return found


class TestIterates:
    @pytest.mark.parametrize("name", PROBLEMS)
    @pytest.mark.parametrize("strengths", STRENGTHS, ids=str)
    def test_are_those_of_a_penalty_applied_to_all_weights_after_every_step(self, name, strengths):
        check_epochs(PROBLEMS[name], *strengths)

    @pytest.mark.parametrize("name", ["real chains", "forest"])
    def test_unpenalised_coordinates_are_not_penalised(self, name):
        problem = PROBLEMS[name]
        unpenalised = np.random.default_rng(0).choice(problem.n_coords, problem.n_coords // 3, replace=False)
        with_free = check_epochs(problem, 2.0, 1.0, unpenalised=unpenalised.tolist())[-1]
        without = check_epochs(problem, 2.0, 1.0)[-1]
        assert np.abs(with_free[unpenalised]).sum() > np.abs(without[unpenalised]).sum()

    def test_start_where_they_are_told(self):
        problem = PROBLEMS["chains"]
        start = np.array([0, 5, 20, problem.n_coords - 1]), np.array([1.0, -0.5, 2.0, 0.7])
        check_epochs(problem, 0.5, 0.1, start=start)

    def test_with_scores_that_need_logarithms(self):
        problem = PROBLEMS["real chains"]
        edges = np.arange(problem.n_coords - problem.n_states**2, problem.n_coords)
        start = edges, np.linspace(-400.0, 400.0, edges.size)
        check_epochs(problem, 0.5, 0.0, start=start)

    @pytest.mark.parametrize("name", ["chains", "forest"])
    def test_with_a_scale_that_would_vanish(self, name):
        problem = PROBLEMS[name]
        l2 = 1e5 * problem.n_items
        unpenalised = range(0, problem.n_coords, 4)
        check_epochs(problem, 0.5, l2, unpenalised=unpenalised)
        assert (1 + ETA0 * l2 / problem.n_items) ** problem.n_items > 1 / online_kernels_smallest_scale()

    def test_on_a_support_only_its_weights_move(self):
        problem = PROBLEMS["real chains"]
        whole = problem.objective()
        support = observed_support(whole.whole.map.store, problem.targets, problem.n_states, False, False)
        chain = Chain(problem.offsets, problem.n_states)
        objective = make_likelihood(
            whole.whole.map.store, chain, problem.targets, n_threads=1, support=support
        )
        inside = np.isin(np.arange(problem.n_coords), support.coords())
        forbidden = np.flatnonzero(~inside).tolist()
        unpenalised = support.coords()[:2].tolist()
        last = check_epochs(
            problem, 0.0, 0.2, objective=objective, unpenalised=unpenalised, forbidden=forbidden
        )[-1]
        assert forbidden
        assert not last[forbidden].any()
        check_epochs(problem, 0.7, 0.0, objective=objective, forbidden=forbidden)

    def test_an_item_of_weight_0_is_as_good_as_absent(self):
        problem = PROBLEMS["weighted chains"]
        kept = np.flatnonzero(problem.weights > 0)
        fewer = problem.objective().with_parts(lambda part: part.take(kept))
        solver = SGDL1(ETA0, random_state=3)
        for with_it, without in zip(
            epochs(problem.objective(), problem, 0.5, 0.1, solver),
            epochs(fewer, problem, 0.5, 0.1, solver),
            strict=True,
        ):
            np.testing.assert_array_equal(with_it, without)

    def test_blocks_of_items_take_turns(self):
        problem = PROBLEMS["real chains"]
        objective = in_blocks(problem.objective().whole, 10)
        sizes = [part.n_items for part in objective.parts]
        assert len(sizes) > 2
        weights = objective.state(SGDState, NO_START, ElasticNet(0.5))
        order = np.random.default_rng(1).permutation(problem.n_items)
        weights.learn(order, ETA0)
        block_of = np.repeat(np.arange(len(sizes)), sizes)
        turns = dict.fromkeys(block_of[order].tolist())
        reference = Eager(problem, 0.5, 0.0)
        reference.learn([i for turn in turns for i in order if block_of[i] == turn], ETA0, problem.n_items)
        np.testing.assert_allclose(dense_weights(problem, *weights.weights()), reference.dense, atol=1e-10)
        assert objective.n_passes == 1.0


def online_kernels_smallest_scale() -> float:
    from crfqn.solvers.stochastic.sgd_kernels import MIN_SCALE

    return MIN_SCALE


class TestConvergence:
    @pytest.mark.parametrize(
        ("name", "strengths", "distance"),
        [
            ("real chains", (1.0, 0.0), 0.008),
            ("weighted chains", (0.5, 0.5), 0.02),
            ("forest", (1.0, 0.0), 0.002),
            ("inner labels", (0.5, 0.5), 0.002),
            ("flat", (0.0, 0.5), 0.005),
        ],
        ids=str,
    )
    def test_comes_near_the_optimum(self, name, strengths, distance):
        problem = PROBLEMS[name]
        result = minimize(problem.objective(), ElasticNet(*strengths), SGDL1(), Run(tol=1e-9, max_iter=60))
        reference = optimum(name, *strengths)
        assert result.status is Status.MAX_ITER
        assert result.n_iter == 60
        assert reference <= result.value <= reference * (1 + distance)
        assert result.value * (1 - result.gap) <= reference
        w = dense_weights(problem, result.coords, result.weights)
        assert result.value == pytest.approx(problem.value(w, *strengths), rel=1e-12)

    def test_a_loose_tolerance_is_reached_and_proved(self):
        result = minimize(
            PROBLEMS["forest"].objective(), ElasticNet(1.0), SGDL1(), Run(tol=0.1, max_iter=100)
        )
        assert result.status is Status.CONVERGED
        assert result.gap <= 0.1

    def test_nothing_to_learn(self):
        problem = PROBLEMS["chains"]
        result = minimize(problem.objective(), ElasticNet(problem.l1_max * 1.01), SGDL1())
        assert result.status is Status.CONVERGED
        assert result.n_iter == result.n_nonzero == 0

    def test_a_rate_without_measure_diverges_and_says_so(self):
        problem = PROBLEMS["real chains"].with_matrix(1e60 * PROBLEMS["real chains"].matrix)
        result = minimize(problem.objective(), ElasticNet(1.0), SGDL1(eta0=1e250), Run(max_iter=5))
        assert result.status is Status.DIVERGED
        assert result.n_nonzero == 0

    def test_passes_are_those_over_items_and_those_of_scans(self):
        problem = PROBLEMS["chains"]
        for evaluate_every in (1, 3):
            solver = SGDL1(ETA0, evaluate_every=evaluate_every)
            trace = minimize(problem.objective(), ElasticNet(1.0), solver, Run(tol=0.0, max_iter=4)).trace
            assert trace.passes.tolist() == [1 + i * (evaluate_every + 1) for i in range(5)]
            assert trace.is_screening.all()


class TestCalibration:
    def test_is_the_best_of_the_doubled_and_halved_rates(self):
        problem = PROBLEMS["forest"]
        objective, penalty = problem.objective(), ElasticNet(1.0)
        calibration = SGDL1().calibrate(objective, penalty, NO_START)
        with pytest.raises(StopIteration) as end:
            next(calibration)  # all items are the sample, and a state of it would count
        chosen = end.value.value
        values = {}
        for eta in chosen * 2.0 ** np.arange(-3, 4):
            online = objective.state(SGDState, NO_START, penalty)
            values[eta] = SGDL1().trial(online, objective, penalty, 1.0, eta).value
        assert min(values, key=values.get) == chosen
        assert 0.01 < chosen < 1

    @pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
    def test_knows_the_unit_of_the_features(self, unit):
        problem = PROBLEMS["forest"]
        scaled = replace(problem, x=unit * problem.x)
        result = minimize(scaled.objective(), ElasticNet(1.0 * unit), SGDL1(), Run(tol=1e-9, max_iter=30))
        assert result.value <= 1.005 * optimum("forest", 1.0, 0.0)
        assert result.passes <= 30 * 2 + 1 + 20

    def test_a_sample_counts_by_its_fraction(self):
        problem = make_tree_problem("flat", 3, n_items=40)
        objective = problem.objective()
        shares: list[float] = []
        result = minimize(
            objective,
            ElasticNet(0.5),
            SGDL1(calibration_items=10),
            Run(max_iter=2, tol=0.0, callback=lambda progress: shares.append(progress.sample_fraction)),
        )
        n_trials = shares.count(0.25)
        assert n_trials >= 3
        assert shares == [1.0] + n_trials * [0.25] + [1.0, 1.0]
        # The start, the sample's start, a pass and a look each trial, and two of each at the end.
        assert result.passes == pytest.approx(1 + 0.25 * (1 + 2 * n_trials) + 4)

    @pytest.mark.parametrize(
        ("best", "chosen", "n_trials"), [(8.0, 8.0, 5), (1.0, 1.0, 3), (0.125, 0.125, 6), (0.0, None, 20)]
    )
    def test_search(self, best, chosen, n_trials):
        search = RateSearch(1.0, lowest=10.0)
        tried = []
        for _ in range(20):
            tried.append(search.eta)
            if search.update(abs(np.log2(search.eta / best)) if best else np.nan):
                break
        assert search.best == chosen
        assert len(tried) == n_trials


class TestReproducibility:
    def run(self, seed: int, n_threads: int = 1):
        solver = SGDL1(random_state=seed)
        return minimize(
            PROBLEMS["real chains"].objective(n_threads=n_threads), ElasticNet(0.5), solver, Run(max_iter=4)
        )

    def test_the_seed_decides_alone(self):
        first, again, threads, other = self.run(1), self.run(1), self.run(1, 2), self.run(2)
        for result in (again, threads):
            np.testing.assert_array_equal(result.coords, first.coords)
            np.testing.assert_array_equal(result.weights, first.weights)
        assert other.value != first.value


class TestRefusals:
    def test_arrays_too_large(self):
        x = sp.csr_array((np.ones(3), [0, 5, 299_999], [0, 1, 2, 3]), (3, 300_000))
        store = FeatureStore.from_matrix(x, np.array([0, 2, 3]))
        objective = make_likelihood(store, Chain(store.offsets, 1000), np.array([0, 1, 2], np.int32))
        with pytest.raises(
            InputError, match=r"300000 x 1000 would take 4\.82 GB, and at most 4 GB are allowed"
        ):
            minimize(objective, ElasticNet(0.1), SGDL1(eta0=0.1))

    def test_groups(self):
        problem = PROBLEMS["chains"]
        penalty = GroupLasso(1.0, n_features=problem.n_features, n_states=problem.n_states)
        with pytest.raises(InputError, match="SGDL1 needs a penalty of single weights"):
            minimize(problem.objective(), penalty, SGDL1())

    def test_objectives_without_items(self):
        objective = margin_problems.objective_of(margin_problems.make_problem("multiclass"))
        with pytest.raises(
            UnsupportedObjectiveError,
            match="SGDL1 cannot train this: learning item by item needs a likelihood",
        ):
            minimize(objective, ElasticNet(1.0), SGDL1())
        assert objective.n_passes == 0

    def test_no_item_that_counts(self):
        problem = replace(PROBLEMS["chains"], weights=np.zeros(12))
        start = np.array([0]), np.array([1.0])
        with pytest.raises(InputError, match="at least one item with a weight above 0"):
            minimize(problem.objective(), ElasticNet(1.0), SGDL1(), Run(start=start))


class TestEstimators:
    def test_chains(self):
        problem = PROBLEMS["real chains"]

        def fit(seed):
            model = ChainCRF(
                l1=0.5, solver="sgd", stop="certificate", max_iter=4, tol=0.02, random_state=seed
            )  # before Newton's method takes over
            return model.fit(problem.sequences, problem.labels)

        with pytest.warns(match="limit of iterations"):
            model = fit(3)
        assert model.n_iter_ == 4
        assert model.result_.value <= 1.035 * optimum("real chains", 0.5, 0.0)
        with pytest.warns(match="limit of iterations"):
            again, other = fit(3), fit(4)
        assert again.result_.value == model.result_.value != other.result_.value

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_intercepts_are_unpenalised(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 4))
        y = np.where(rng.random(60) < 0.8, 0, np.argmax(x[:, :3], axis=1))
        model = MulticlassCRF(l1=20.0, solver="sgd", max_iter=20, tol=1e-6).fit(x, y)
        assert model.result_.gap <= 1e-6  # nothing but intercepts, which a bound solves
        assert model.coef_.nnz == 0
        assert model.intercept_[0] > max(model.intercept_[1:]) + 1
