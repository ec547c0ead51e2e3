"""The loop around the solvers: every way to end, with the best weights kept and the record complete.

`Script` is a solver that plays back prepared states, so the loop is tested apart from any method; the rest runs
Prox-QN on small chains.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from problems import CountedChain, dense_weights, ends_within, make_problem

from crfqn.arrays import SparseWeights
from crfqn.errors import InputError
from crfqn.penalties import ElasticNet
from crfqn.result import Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import State
from crfqn.solvers.prox_qn import Backtracking, ProxQN
from crfqn.solvers.stopping import Run
from crfqn.time_limit import GRACE_SECONDS, TimeLimit, check_time, end_computations

COLUMNS = ("seconds", "value", "gap", "violation", "passes", "n_active", "n_nonzero", "is_screening")


@dataclass
class Spot:
    coords: np.ndarray
    weights: np.ndarray
    value: float = 5.0

    @property
    def sparse_weights(self) -> SparseWeights:
        return SparseWeights(self.coords, self.weights)


@dataclass
class Plain:
    """An objective without a loss: `Script` knows the values."""

    n_passes: float = 0.0
    n_features: int = 1
    n_node_coords: int = 1

    def at(self, coords: np.ndarray, weights: np.ndarray) -> Spot:
        return Spot(coords, weights)

    has_curvature = is_smooth = has_gram = has_marginals = has_dual = False
    is_convex = True
    n_bytes = 0


def state(value: float, dual: float = -np.inf, violation: float = 1.0, **kinds: Any) -> State:
    """A state whose weights remember its value."""
    return State(Spot(np.array([3]), np.array([value])), value, violation, 1, dual, **kinds)


@dataclass
class Script:
    states: list[Any]

    def steps(self, objective: Plain, penalty: ElasticNet, start: Spot) -> Iterator[State]:
        for entry in self.states:
            objective.n_passes += 1
            if isinstance(entry, BaseException):
                raise entry
            if callable(entry):  # what a step does
                entry()
            else:
                yield entry


COLD = (np.empty(0, np.int64), np.empty(0))
WARM = (np.array([3]), np.array([2.0]))


def play(*states: Any, l1: float = 1.0, penalty: ElasticNet | None = None, **limits: Any) -> Result:
    return minimize(Plain(), penalty or ElasticNet(l1), Script(list(states)), Run(**limits))


def assert_complete(result: Result) -> None:
    """The trace is whole, and the result agrees with it."""
    trace = result.trace
    assert {len(getattr(trace, name)) for name in COLUMNS} == {len(trace)}
    assert (np.diff(trace.seconds) >= 0).all()
    assert (np.diff(trace.passes) >= 0).all()
    assert [row.iteration for row in trace.rows] == sorted(row.iteration for row in trace.rows)
    assert result.value == trace.value.min()
    assert result.message == result.status.value
    assert result.n_nonzero == result.coords.size == result.weights.size
    assert result.passes == trace.passes[-1]
    assert result.n_iter == trace.rows[-1].iteration


class TestEnds:
    def test_converged_by_the_gap(self):
        result = play(state(10.0, 5.0), state(9.0, 8.0), state(8.5, 8.4), state(1.0, 1.0), tol=0.1)
        assert result.status is Status.CONVERGED
        assert result.status.is_success
        assert result.value == result.weights[0] == 8.5
        assert result.gap == pytest.approx(0.1 / 8.5)
        assert len(result.trace) == 3
        assert_complete(result)

    def test_best_bound_is_kept(self):
        result = play(state(10.0, 8.0), state(9.0, 2.0), state(8.5), state(8.4, -np.inf), tol=0.05)
        assert result.status is Status.CONVERGED
        np.testing.assert_allclose(result.trace.gap, [0.2, 1 / 9, 0.5 / 8.5, 0.4 / 8.4])

    def test_gap_of_value_zero_is_zero(self):
        assert play(state(0.0, 0.0), tol=0.0).status is Status.CONVERGED

    def test_rounding_below_the_dual_value_is_no_negative_gap(self):
        assert play(state(1.0, 1.0 + 1e-15), tol=0.0).gap == 0.0

    @pytest.mark.parametrize(
        ("l1", "start", "scale"),
        [(2.0, COLD, 0.5), (0.2, COLD, 0.2), (2.0, WARM, 2.0), (0.0, COLD, 0.5), (0.0, WARM, 0.5)],
        ids=["first violation", "l1", "warm: l1", "no l1", "warm, no l1"],
    )
    def test_stationary_by_the_violation_where_nothing_is_proved(self, l1, start, scale):
        """Below tol times l1, and times what a start from zero violates: of the two the smaller. It claims no more."""
        states = [
            state(9.0, violation=0.5, is_screening=True),
            state(
                8.0, violation=1e-9
            ),  # nearly stationary on its active set only, which says nothing of the rest
            state(7.0, violation=1.01e-3 * scale, is_screening=True),
            state(6.0, violation=1e-3 * scale, is_screening=True),
            state(5.0, violation=0.0, is_screening=True),
        ]
        result = play(*states, l1=l1, start=start, tol=1e-3)
        assert result.status is Status.STATIONARY
        assert not result.status.is_success
        assert (result.value, result.violation) == (6.0, 1e-3 * scale)
        assert math.isnan(result.gap)

    def test_where_something_is_proved_the_violation_does_not_count(self):
        result = play(state(9.0, 1.0, 1.0, is_screening=True), state(8.0, 1.0, 0.0, is_screening=True))
        assert (result.status, result.value) == (Status.STALLED, 8.0)

    def test_nothing_to_do_at_the_start(self):
        """A start from zero that violates nothing is where it ends."""
        result = play(state(9.0, violation=0.0, is_screening=True), state(8.0))
        assert (result.status, result.value, result.n_iter) == (Status.CONVERGED, 9.0, 0)

    def test_violation_is_relative_to_the_first_without_l1(self):
        states = [state(9.0, violation=v, is_screening=True) for v in (50.0, 6.0, 4.0, 1.0)]
        result = play(*states, l1=0.0, tol=0.1)
        assert (result.status, result.violation) == (Status.STATIONARY, 4.0)

    def test_stalled_when_the_solver_has_no_more_steps(self):
        result = play(state(9.0, 1.0), state(8.0, 1.0))
        assert (result.status, result.value) == (Status.STALLED, 8.0)
        assert not result.status.is_success

    def test_stalled_when_a_state_is_final(self):
        result = play(state(9.0, 1.0), state(8.0, 1.0, end=Status.STALLED), state(7.0))
        assert (result.status, result.value) == (Status.STALLED, 8.0)

    def test_max_iter_counts_steps_and_no_screenings(self):
        states = [
            state(9.0, 1.0, is_screening=True),
            state(8.0),
            state(8.0, 1.0, is_screening=True),
            state(7.0),
        ]
        result = play(*states, state(6.0), max_iter=2)
        assert (result.status, result.value, result.n_iter) == (Status.MAX_ITER, 7.0, 2)
        assert_complete(result)

    def test_max_seconds(self):
        result = play(state(9.0, 1.0), state(8.0), max_seconds=1e-9)
        assert (result.status, result.value) == (Status.MAX_SECONDS, 9.0)

    def test_callback(self):
        seen = []
        result = play(
            *[state(9.0 - n, 1.0) for n in range(5)], callback=lambda p: seen.append(p) or p.value < 8
        )
        assert (result.status, result.value) == (Status.CALLBACK, 7.0)
        assert seen == result.trace.rows
        assert_complete(result)

    def test_converged_wins_over_a_callback_that_stops(self):
        assert play(state(1.0, 1.0), callback=lambda p: True).status is Status.CONVERGED

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_diverged_keeps_the_best(self, bad):
        result = play(state(9.0, 1.0), state(7.0), state(8.0), state(bad), state(1.0))
        assert result.status is Status.DIVERGED
        assert (result.value, result.weights.tolist()) == (7.0, [7.0])
        assert_complete(result)

    def test_diverged_at_once(self):
        result = play(state(np.nan), start=WARM)
        assert (result.status, result.weights.tolist()) == (Status.DIVERGED, [2.0])
        assert math.isnan(result.gap)

    def test_interrupted_in_a_callback(self):
        def interrupt(progress):
            if progress.value < 8:
                raise KeyboardInterrupt

        result = play(*[state(9.0 - n, 1.0) for n in range(5)], callback=interrupt)
        assert (result.status, result.value) == (Status.INTERRUPTED, 7.0)
        assert_complete(result)

    def test_interrupted_in_a_step(self):
        result = play(state(9.0, 1.0), state(7.0), state(8.0), KeyboardInterrupt())
        assert (result.status, result.value, result.weights.tolist()) == (Status.INTERRUPTED, 7.0, [7.0])

    def test_interrupted_before_the_first_state_keeps_the_start(self):
        result = play(KeyboardInterrupt(), start=WARM)
        assert result.status is Status.INTERRUPTED
        assert (result.value, result.weights.tolist(), result.n_iter) == (5.0 + 2.0, [2.0], 0)
        assert_complete(result)

    def test_a_step_far_beyond_the_limit_is_lost(self):
        def stay(seconds=0.1):
            end_computations()
            time.sleep(seconds + GRACE_SECONDS)

        result = play(state(9.0, 1.0), state(7.0), state(8.0), stay, check_time, state(6.0), max_seconds=0.05)
        assert (result.status, result.value, result.weights.tolist()) == (Status.MAX_SECONDS, 7.0, [7.0])
        assert_complete(result)
        result = play(state(9.0, 1.0), state(7.0), stay, check_time, state(6.0))  # as after a signal
        assert (result.status, result.value) == (Status.CALLBACK, 7.0)

    def test_a_step_that_ends_soon_after_the_limit_counts(self):
        result = play(state(9.0, 1.0), lambda: time.sleep(0.1), check_time, state(7.0), max_seconds=0.05)
        assert (result.status, result.value) == (Status.MAX_SECONDS, 7.0)

    def test_the_limit_of_a_caller_is_none_of_the_run(self):
        with TimeLimit(-GRACE_SECONDS):
            result = play(state(9.0, 1.0), check_time, state(7.0), max_seconds=1000.0)
        assert (result.status, result.value) == (Status.CALLBACK, 9.0)

    def test_without_time_the_objective_is_not_evaluated(self):
        def at(self, coords, weights):
            time.sleep(GRACE_SECONDS)
            check_time()

        objective = type("Slow", (Plain,), {"at": at})()
        start = Spot(*WARM)
        result = minimize(objective, ElasticNet(1.0), Script([KeyboardInterrupt()]), Run(start=start))
        assert (result.status, result.weights.tolist()) == (Status.INTERRUPTED, [2.0])
        assert math.isnan(result.value)

    def test_a_state_of_a_sample_is_no_result(self):
        seen = []
        states = [
            state(2.0, 1.9, sample_fraction=0.25),
            state(9.0, 1.0),
            state(1.0, 0.9, sample_fraction=0.25),
            state(8.0),
        ]
        result = play(*states, callback=seen.append)
        assert (result.value, result.trace.value.tolist()) == (8.0, [9.0, 8.0])
        assert result.gap == pytest.approx(7 / 8)
        assert [row.sample_fraction for row in seen] == [0.25, 1.0, 0.25, 1.0]
        assert math.isnan(seen[0].gap)

    def test_a_callback_can_stop_on_a_sample(self):
        result = play(state(2.0, sample_fraction=0.25), state(9.0), callback=lambda p: True)
        assert (result.status, result.value, result.weights.tolist()) == (Status.CALLBACK, 5.0 + 2.0, [2.0])

    def test_other_errors_go_through(self):
        with pytest.raises(ZeroDivisionError):
            play(state(9.0, 1.0), ZeroDivisionError())

    def test_passes_of_an_earlier_run_do_not_count(self):
        objective = Plain(n_passes=100.0)
        result = minimize(objective, ElasticNet(1.0), Script([state(9.0, 1.0), state(8.0)]))
        assert result.passes == 2


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"tol": -1e-3}, r"tol: expected a number >= 0, got -0.001"),
        ({"tol": np.nan}, r"tol: expected a number >= 0, got nan"),
        ({"max_iter": 0}, r"max_iter: expected an integer >= 1, got 0"),
        ({"max_iter": -3}, r"max_iter: expected an integer >= 1, got -3"),
    ],
)
def test_bad_limits(limits, message):
    with pytest.raises(InputError, match=message):
        play(state(1.0), **limits)


@pytest.fixture(scope="module")
def problem():
    return make_problem(5, n_items=20, n_features=8)


@pytest.mark.usefixtures("compiled")
class TestOnChains:
    """The same ends with the real method and the real loss."""

    def run(self, problem, chain=None, l1=0.5, **settings):
        with ends_within():
            objective = problem.objective(chain)
            return minimize(objective, ElasticNet(l1), settings.pop("solver", ProxQN()), Run(**settings))

    def assert_value_is_that_of_the_weights(self, problem, result, l1=0.5):
        w = dense_weights(problem, result.coords, result.weights)
        assert result.value == pytest.approx(problem.value(w, l1, 0.0), rel=1e-12)

    def test_converged(self, problem):
        result = self.run(problem, tol=1e-6)
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-6
        assert_complete(result)
        self.assert_value_is_that_of_the_weights(problem, result)

    @pytest.mark.parametrize("solver", [ProxQN(), ProxQN.paper()], ids=["default", "paper"])
    @pytest.mark.parametrize("seed", [2, 5])
    def test_stalled_at_machine_precision(self, solver, seed):
        # No run may go on for ever, or up to a generous limit, when rounding hides every further decrease.
        problem = make_problem(seed, n_items=20, n_features=8)
        result = self.run(problem, tol=0.0, max_iter=1000, solver=solver)
        # Backtracking may look for a decrease of a few roundings, and find none.
        is_paper = isinstance(solver.globalisation, Backtracking)
        assert result.status in (
            (Status.STALLED, Status.LINE_SEARCH_FAILED) if is_paper else (Status.STALLED,)
        )
        assert result.gap < 1e-6
        assert result.n_iter < (200 if is_paper else 60)
        assert_complete(result)

    def test_max_iter(self, problem):
        result = self.run(problem, max_iter=4)
        assert (result.status, result.n_iter) == (Status.MAX_ITER, 4)
        assert_complete(result)
        self.assert_value_is_that_of_the_weights(problem, result)

    def test_max_seconds(self, problem):
        result = self.run(problem, tol=0.0, max_seconds=0.05, callback=lambda p: time.sleep(0.02))
        assert result.status is Status.MAX_SECONDS
        self.assert_value_is_that_of_the_weights(problem, result)

    def test_callback(self, problem):
        result = self.run(problem, callback=lambda p: p.iteration == 3)
        assert (result.status, result.n_iter) == (Status.CALLBACK, 3)
        self.assert_value_is_that_of_the_weights(problem, result)

    @pytest.mark.parametrize("last", [4, 7])
    def test_interrupted_inside_an_evaluation(self, problem, last):
        def interrupt(number):
            if number == last:
                raise KeyboardInterrupt

        result = self.run(problem, CountedChain(problem, interrupt))
        assert result.status is Status.INTERRUPTED
        assert_complete(result)
        self.assert_value_is_that_of_the_weights(problem, result)

    @pytest.mark.parametrize("unpenalised", [[0], [2, 11], [24, 27, 32]], ids=["node", "nodes", "edges"])
    @pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (5.0, 0.0), (0.5, 0.3)])
    def test_nothing_is_proved_where_single_weights_have_no_penalty(self, problem, unpenalised, l1, l2):
        optimum, _ = problem.optimum(l1, l2, unpenalised)
        penalty = ElasticNet(l1, l2, np.array(unpenalised))
        result = minimize(problem.objective(), penalty, ProxQN(), Run(tol=1e-5))
        assert result.status is Status.STATIONARY
        assert np.isnan(result.trace.gap).all()
        assert result.n_proved_zeros is None
        assert result.value == pytest.approx(optimum, rel=1e-8)

    @pytest.mark.parametrize("unpenalised", [[0, 8, 16], [5, 13, 21]])
    @pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (5.0, 0.0), (0.5, 0.3)])
    def test_unpenalised_coordinates_are_solved_for_the_gap(self, problem, unpenalised, l1, l2):
        optimum, _ = problem.optimum(l1, l2, unpenalised)
        penalty = ElasticNet(l1, l2, np.array(unpenalised))
        with ends_within():
            result = minimize(problem.objective(), penalty, ProxQN(), Run(tol=1e-5))
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-5
        assert result.value == pytest.approx(optimum, rel=1e-8)
        known = result.trace.gap[np.isfinite(result.trace.gap)]
        assert known.size
        values = np.minimum.accumulate(result.trace.value)[np.isfinite(result.trace.gap)]
        assert (values * (1.0 - known) <= optimum * (1 + 1e-9)).all()  # no bound is above the optimum
