"""Prox-QN: the method as printed, its warm start, and what it needs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from problems import dense_weights
from prox_qn_problems import PROBLEMS, SOLVERS, optimum, run, value_of

from crfqn.errors import UnsupportedObjectiveError
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import AllCoordinates, ProxQN, Stage, WarmStart  # fmt: skip
from crfqn.solvers.stopping import Run

pytestmark = pytest.mark.usefixtures("compiled")


class TestAsPrinted:
    """Algorithm 2, where the default does something else."""

    def test_the_first_iteration_works_on_every_coordinate_and_the_next_on_fewer(self):
        problem = PROBLEMS["wide"]
        trace = run(problem, 2.0, solver=ProxQN.paper()).trace
        is_opening = trace.is_screening
        assert (trace.n_active[is_opening] == problem.n_coords).all()
        assert trace.n_active[1] == problem.n_coords  # M^ is infinite: the set has not been shrunk
        assert trace.n_active[2] < problem.n_coords
        assert np.count_nonzero(is_opening) > 2

    def test_zeros_leave_by_the_violation_of_the_iteration_before(self):
        """Line 8: w_j = 0 and |g_j| <= l1 - M^ / N, M^ taken before the last step."""
        problem, l1 = PROBLEMS["wide"], 2.0
        objective, penalty = problem.objective(), ElasticNet(l1)
        coords = active = np.arange(problem.n_coords)
        last, states = np.inf, []
        for state in itertools.islice(
            ProxQN.paper().steps(objective, penalty, objective.at(np.empty(0, np.int64), np.empty(0))), 9
        ):
            states.append(state)
        for before, after in itertools.pairwise(states):
            g, w = (
                before.point.gradient(coords),
                dense_weights(problem, before.point.coords, before.point.weights),
            )
            if after.is_screening:
                active, last = coords, penalty.at(coords).largest_violation(w, g)
                continue
            stays = (w[active] != 0) | (np.abs(g[active]) - l1 + last / problem.n_items > 0)
            active = active[stays]
            last = penalty.at(active).largest_violation(w[active], g[active])
            assert after.n_active == active.size

    def test_too_many_coordinates_are_said_to_be(self):
        problem = PROBLEMS["wide"]
        solver = replace(ProxQN.paper(), entry=AllCoordinates(most=problem.n_coords - 1))
        with pytest.warns(
            UserWarning, match="begins an epoch with all 84 weights; above 83 it begins with those whose"
        ):
            result = run(problem, 2.0, solver=solver)
        assert result.trace.n_active[0] < problem.n_coords
        assert result.value == pytest.approx(optimum("wide", 2.0, 0.0), rel=1e-8)


class TestWarmUp:
    STAGES = (Stage(4, 3.0), Stage(2, 1.0))

    def warm(self, **settings):
        """A solver that starts on samples as small as those of these problems."""
        settings = {"fewest_positions": 1, **settings}
        return ProxQN(few_weights=0, warm_start=WarmStart(self.STAGES, **settings))

    def test_previews_go_to_the_callback_and_leave_no_trace(self):
        seen = []
        result = run(PROBLEMS["wide"], 0.5, solver=self.warm(), callback=seen.append)
        assert {row.sample_fraction for row in seen} == {7 / 30, 0.5, 1.0}
        assert [row for row in seen if row.sample_fraction == 1.0] == result.trace.rows
        assert all(np.isnan(row.gap) for row in seen if row.sample_fraction < 1.0)
        passes = [row.passes for row in seen]
        assert passes == sorted(passes)
        # A pass over a share of the items counts as this share.
        assert 0 < result.trace.passes[0] < 20

    def test_it_is_skipped_where_samples_would_be_small_and_from_given_weights(self):
        start = (np.array([0]), np.array([0.1]))
        assert run(PROBLEMS["wide"], 0.5, solver=self.warm(), start=start).trace.passes[0] == 1
        assert run(PROBLEMS["wide"], 0.5, solver=self.warm(fewest_positions=10_000)).trace.passes[0] == 1

    def test_it_is_skipped_where_a_sample_has_few_positions_for_the_weights(self):
        """Its optimum would be that of learning by heart. 40 items and 50 weights; samples of 10 and of 20."""
        problem = PROBLEMS["forest"]
        for share, seen in [(0.1, {0.25, 0.5, 1.0}), (0.21, {0.5, 1.0}), (0.41, {1.0})]:
            rows = []
            run(problem, 0.5, solver=self.warm(fewest_by_weight=share), callback=rows.append)
            assert {row.sample_fraction for row in rows} == seen

    @pytest.mark.parametrize(
        ("stop", "status"),
        [("callback", Status.CALLBACK), ("seconds", Status.MAX_SECONDS), ("key", Status.INTERRUPTED)],
    )
    def test_a_stop_within_it_keeps_what_is_known(self, stop, status):
        def callback(progress):
            if stop == "key":
                raise KeyboardInterrupt
            return stop == "callback" and progress.n_nonzero > 0

        problem, limit = PROBLEMS["wide"], {"max_seconds": 1e-9} if stop == "seconds" else {}
        result = run(problem, 0.5, solver=self.warm(), callback=callback, **limit)
        assert result.status is status
        assert len(result.trace) == 1
        assert result.value == pytest.approx(value_of(problem, result, 0.5), rel=1e-12)
        assert (result.n_nonzero > 0) == (stop == "callback")

    def test_samples_keep_the_weights_of_their_items(self):
        problem = PROBLEMS["weighted"]
        assert problem.objective().sample(2).whole.weights.tolist() == problem.weights[1::2].tolist()

    def test_a_sample_may_be_empty(self):
        # Two long items are enough positions for a sample, yet every 8th item is none of them.
        problem = PROBLEMS["binary"]
        pair = replace(problem, offsets=problem.offsets[[0, 6, 12]])
        chain = pair.objective()
        result = minimize(
            chain,
            ElasticNet(1.0),
            ProxQN(warm_start=WarmStart((Stage(8, 1.0),), fewest_positions=1)),
            Run(tol=1e-5),
        )
        assert result.status is Status.CONVERGED


class TestStart:
    def test_from_the_optimum_nothing_is_left_to_do(self):
        problem = PROBLEMS["binary"]
        cold = run(problem, 0.5)
        warm = run(problem, 0.5, start=(cold.coords, cold.weights), tol=1e-5)
        assert (warm.n_iter, warm.passes) == (0, 1)
        assert warm.value == pytest.approx(cold.value, rel=1e-14)

    def test_from_a_neighbour_on_the_path_it_is_cheaper(self):
        problem = PROBLEMS["wide"]
        neighbour, cold = run(problem, 0.55), run(problem, 0.5)
        warm = run(problem, 0.5, start=(neighbour.coords, neighbour.weights))
        assert warm.value == pytest.approx(cold.value, rel=1e-8)
        assert warm.passes < cold.passes

    @pytest.mark.parametrize("solver", ["default", "paper", "few may enter"])
    def test_from_far_away_it_gets_to_the_same_place(self, solver):
        problem = PROBLEMS["real"]
        coords = np.arange(0, problem.n_coords, 2)
        far = 30.0 * np.random.default_rng(0).normal(size=coords.size)
        result = run(problem, 1.0, solver=SOLVERS[solver], start=(coords, far))
        assert result.trace.value[0] > 10 * result.value
        assert result.value == pytest.approx(optimum("real", 1.0, 0.0), rel=1e-8)

    def test_the_start_is_left_alone(self):
        problem = PROBLEMS["real"]
        coords, weights = np.array([1, 4, 20]), np.array([1.0, -2.0, 0.5])
        run(problem, 1.0, start=(coords, weights))
        assert (coords.tolist(), weights.tolist()) == ([1, 4, 20], [1.0, -2.0, 0.5])


def test_what_a_solver_needs_is_checked():
    class Poor:
        has_curvature = False

        def refusal(self, fact):
            return f"Poor has no {fact}"

    with pytest.raises(
        UnsupportedObjectiveError, match="ProxQN cannot train this: Poor has no has_curvature"
    ):
        minimize(Poor(), ElasticNet(1.0), ProxQN())
