"""The estimate of the distance to the optimum: its formula, what ends a run by it, and how far off it is."""

import numpy as np
import pytest
from margin_problems import F, K, make_problem, objective_of, point_at

from crfqn import ChainCRF
from crfqn.arrays import NO_WEIGHTS, SparseWeights
from crfqn.errors import InputError
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.minimize import RunRecord
from crfqn.solvers.protocols import State
from crfqn.solvers.prox_qn import Diagonal, ProxQN
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.stopping import EstimateStatus, Gains, Run, predicted_gain_of_zeros


def gains(values):
    return Gains(list(values))


def sentences(seed=0, n_items=120, n_words=300, n_labels=5):
    """Sequences of words whose labels follow from word and neighbour, with noise."""
    random = np.random.default_rng(seed)
    label_of = random.integers(n_labels, size=n_words)
    X, y = [], []
    for _ in range(n_items):
        words = random.zipf(1.5, size=random.integers(3, 12)) % n_words
        X.append(
            [{f"w{a}": 1.0, f"p{b}": 1.0, "bias": 1.0} for a, b in zip(words, np.roll(words, 1), strict=True)]
        )
        noise = random.random(words.size) < 0.1
        y.append(
            [str(k) for k in np.where(noise, random.integers(n_labels, size=words.size), label_of[words])]
        )
    return X, y


class TestGains:
    @pytest.mark.parametrize("n", range(5))
    def test_too_few_steps_tell_nothing(self, n):
        assert gains([10.0] * n).rest() == np.inf

    def test_a_power_law_is_continued_exactly(self):
        # F - F* = 1 / n^p: every doubling wins 2^-p of the one before.
        n = np.arange(1, 17)
        assert gains(7.0 + n**-0.8).rest() == pytest.approx(16**-0.8)

    @pytest.mark.parametrize("r", [0.8, 0.9])
    def test_of_many_steps_linear_convergence_is_continued_threefold(self, r):
        values = 7.0 + r ** (np.arange(64) / 16)
        assert gains(values).rest() == pytest.approx(3 * (values[-1] - 7.0), rel=1e-6)

    def test_a_pause_after_large_gains_is_no_end(self):
        values = np.r_[np.linspace(100.0, 20.0, 20), np.full(12, 20.0)]
        assert gains(values).rest() > 5.0

    def test_fast_convergence_counts_as_a_half(self):
        values = 1.0 + 0.1 ** np.arange(16.0)
        assert gains(values).rest() == pytest.approx(values[7] - values[15])

    def test_gains_that_do_not_fall_are_not_believed(self):
        assert gains(100.0 - np.arange(16.0)).rest() == pytest.approx(9 * 8.0)

    def test_steps_that_win_nothing_are_told_from_others(self):
        assert gains([9.0, 5.0, 4.0, 4.0, 4.0, 4.0]).are_rounding()
        assert not gains([9.0, 5.0, 4.0, 3.9, 3.8, 3.8]).are_rounding()

    def test_no_gain_at_all_leaves_nothing(self):
        assert gains([3.0] * 8).rest() == 0.0


class TestZeros:
    """What zeros promise: blocks of them, and single ones within a block that is not zero."""

    def promise(self, w, strengths):
        penalty = GroupLasso(*strengths, n_features=F, n_states=K)
        problem = make_problem("logistic")
        return predicted_gain_of_zeros(screen_point(penalty, point_at(problem, w))), problem

    def test_a_zero_in_a_row_with_weights(self):
        w = np.zeros((F, K))
        w[0] = 1.0, -1.0, 0.5, 0.0
        found, problem = self.promise(w, (1e6, 0.0))
        assert found > 0
        slope = problem.evaluate(w)[1][0, 3]
        scores = np.exp(problem.x @ w)
        p = (scores / scores.sum(axis=1, keepdims=True))[:, 3]
        curvature = (problem.weights * p * (1 - p)) @ problem.x[:, 0] ** 2 + (problem.x[:, 0] ** 2).max()
        assert found == pytest.approx(slope**2 / (2 * curvature), rel=1e-6)
        assert self.promise(w, (1e6, abs(slope) + 1e-9))[0] == 0.0

    def test_rows_of_zeros_count_once(self):
        found, problem = self.promise(np.zeros((F, K)), (0.1, 0.0))
        rows = np.linalg.norm(problem.evaluate(np.zeros((F, K)))[1], axis=1) - 0.1
        curvature = problem.weights @ problem.x**2 * (K - 1) / K**2 + (problem.x**2).max(axis=0)
        asks = rows > 0
        assert found == pytest.approx((rows[asks] ** 2 / (2 * curvature[asks])).sum(), rel=1e-6)


class TestRuns:
    @pytest.mark.parametrize("strengths", [(1.0, 0.0), (0.3, 0.0), (0.1, 0.2), (0.0, 0.2), (0.0, 2.0)])
    def test_the_optimum_is_within_twice_the_tolerance(self, strengths):
        X, y = sentences()
        settings = {"all_possible_states": False, "n_threads": 1}
        optimum = ChainCRF(*strengths, tol=1e-6, stop="certificate", max_iter=3000, **settings).fit(X, y)
        for tol in (0.1, 0.03, 1e-2, 1e-3):
            found = ChainCRF(*strengths, tol=tol, **settings).fit(X, y).result_
            assert found.status.is_success
            assert min(found.gap, found.estimated_gap) <= tol
            assert found.value <= (1 + 2 * tol) * optimum.result_.value

    def test_an_estimate_says_that_it_is_one(self):
        X, y = sentences()
        model = ChainCRF(0.3, tol=1e-2, solver=ProxQN(metric=Diagonal())).fit(X, y)
        assert model.result_.status is Status.ESTIMATED
        assert "estimate" in model.result_.message
        assert model.result_.estimated_gap <= 1e-2 < model.result_.gap
        assert model.result_.trace.rows[-1].is_screening

    def test_the_certificate_alone(self):
        X, y = sentences(n_items=30)
        result = ChainCRF(1.0, tol=1e-2, stop="certificate").fit(X, y).result_
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-2

    def test_bits_do_not_depend_on_threads(self):
        X, y = sentences()
        found = [ChainCRF(0.3, n_threads=n).fit(X, y).result_ for n in (1, 2, 1)]
        for other in found[1:]:
            assert np.array_equal(found[0].coords, other.coords)
            assert np.array_equal(found[0].weights, other.weights)
            assert (found[0].n_iter, found[0].estimated_gap) == (other.n_iter, other.estimated_gap)


def test_the_estimate_is_doubted_until_it_is_near_again():
    """Each status is near, doubtful, both or neither: what a run may end by, and what its message warns of."""
    names = EstimateStatus.__members__
    assert [name for name in names if EstimateStatus[name].is_near] == ["NEAR", "UNCONFIRMED"]
    assert [name for name in names if EstimateStatus[name].is_doubtful] == [
        "UNCONFIRMED", "DOUBTED", "DISCREDITED",
    ]  # fmt: skip


def test_every_status_ends_a_run_in_one_way():
    """A success, a standstill, a limit, a person: none is two of these, and what is none is named here."""
    kinds = {
        status: [status.is_success, status.is_standstill, status.is_at_limit, status.is_by_user]
        for status in Status
    }
    assert max(map(sum, kinds.values())) == 1
    others = {"RULE_MET", "HELD_OUT", "LEARNED", "STAGES_MADE", "IMPORTED", "DIVERGED"}
    assert {status.name for status, kind in kinds.items() if not any(kind)} == others
    assert [status.name for status in Status if status.is_cut_off] == [
        "MAX_ITER", "MAX_SECONDS", "CALLBACK", "INTERRUPTED",
    ]  # fmt: skip


class TestOrder:
    """Rules are asked in order: a proof counts before an estimate, and both before the method's end and the limits."""

    @pytest.mark.parametrize(
        ("dual_value", "end", "expected"),
        [
            (9.99, Status.STALLED, Status.CONVERGED),
            (-np.inf, Status.STALLED, Status.STALLED),
            (-np.inf, Status.LINE_SEARCH_FAILED, Status.LINE_SEARCH_FAILED),
            (-np.inf, Status.RULE_MET, Status.RULE_MET),
            (-np.inf, None, Status.MAX_ITER),
        ],
    )
    def test_of_a_step(self, dual_value, end, expected):
        problem = make_problem("multiclass")
        objective, penalty = objective_of(problem), ElasticNet(1.0)
        record = RunRecord(objective, penalty, Run(max_iter=1), SparseWeights(*NO_WEIGHTS))
        point = objective.at(*NO_WEIGHTS)
        assert record.add(State(point, 10.0, 1.0, 0, dual_value, end=end)) is expected

    def test_a_callback_counts_before_the_methods_end_and_after_a_proof(self):
        problem = make_problem("multiclass")
        objective, run = objective_of(problem), Run(callback=lambda progress: True)
        point = objective.at(*NO_WEIGHTS)
        for dual_value, expected in ((-np.inf, Status.CALLBACK), (10.0, Status.CONVERGED)):
            record = RunRecord(objective, ElasticNet(1.0), run, SparseWeights(*NO_WEIGHTS))
            assert record.add(State(point, 10.0, 1.0, 0, dual_value, end=Status.STALLED)) is expected


def test_unknown_rule():
    with pytest.raises(InputError, match="stop: expected one of"):
        Run(stop="never")
    with pytest.raises(InputError, match=r"stop: expected one of .*, got 'never'"):
        ChainCRF(stop="never").fit([[{"a": 1.0}]], [["x"]])


def test_negative_tolerance():
    with pytest.raises(InputError, match="tol: expected a number >= 0"):
        Run(tol=-1.0, stop="estimate")
