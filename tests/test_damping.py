"""Damping: what is added to the metric after steps that go as predicted, disappoint or fail."""

import numpy as np
import pytest

from crfqn.solvers.damping import FIRST_SCALE, LEAST_CAUTION, Damping

DIAGONAL, ROUGHNESS = np.array([1.0, 4.0, 0.0]), np.array([2.0, 0.0, 3.0])


def test_it_starts_with_the_roughness_alone():
    np.testing.assert_array_equal(Damping().of(DIAGONAL, ROUGHNESS), ROUGHNESS)
    np.testing.assert_array_equal(Damping(is_cautious=False).of(DIAGONAL, ROUGHNESS), np.zeros(3))


def test_it_is_a_share_of_the_diagonal_and_of_the_roughness():
    damping = Damping(scale=0.5, caution=0.25)
    np.testing.assert_array_equal(damping.of(DIAGONAL, ROUGHNESS), [1.0, 2.0, 0.75])
    bold = Damping(is_cautious=False, scale=0.5, caution=0.25)
    np.testing.assert_array_equal(bold.of(DIAGONAL, ROUGHNESS), [0.5, 2.0, 0.0])
    np.testing.assert_array_equal(DIAGONAL, [1.0, 4.0, 0.0])
    np.testing.assert_array_equal(ROUGHNESS, [2.0, 0.0, 3.0])


class TestSteps:
    def test_that_go_as_predicted_halve_the_caution_down_to_a_little(self):
        damping, seen = Damping(), []
        for _ in range(10):
            damping.after_step(1.0)
            seen.append(damping.caution)
        np.testing.assert_array_equal(seen[:6], 0.5 ** np.arange(1, 7))
        assert seen[-1] == LEAST_CAUTION > 0
        assert damping.scale == 0.0

    def test_that_go_as_predicted_take_the_scale_to_zero(self):
        damping = Damping(scale=0.1)
        seen = []
        while damping.scale > 0:
            damping.after_step(0.9)
            seen.append(damping.scale)
        np.testing.assert_allclose(seen, [0.025, 0.00625, 0.0015625, 0.000390625, 0.0])

    @pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
    def test_between_leave_everything_as_it_is(self, ratio):
        damping = Damping(scale=0.3, caution=0.2)
        damping.after_step(ratio)
        assert (damping.scale, damping.caution) == (0.3, 0.2)

    @pytest.mark.parametrize("ratio", [0.24, 0.0, -3.0])
    def test_that_disappoint_bring_both_back(self, ratio):
        damping = Damping(caution=LEAST_CAUTION)
        seen = []
        for _ in range(5):
            damping.after_step(ratio)
            seen.append((damping.scale, damping.caution))
        np.testing.assert_allclose(
            seen, [(0.1, 0.04), (0.2, 0.16), (0.4, 0.64), (0.8, 1.0), (1.6, 1.0)], rtol=1e-14
        )

    def test_that_win_more_than_predicted_are_good_ones(self):
        damping = Damping(caution=0.5)
        damping.after_step(7.0)
        assert damping.caution == 0.25


def test_failures_grow_without_bound():
    damping = Damping(caution=LEAST_CAUTION)
    seen = []
    for _ in range(20):
        damping.after_failure()
        assert damping.caution == 1.0
        seen.append(damping.scale)
    assert seen[0] == FIRST_SCALE
    np.testing.assert_allclose(np.diff(np.log(seen)), np.log(4.0))


@pytest.mark.parametrize(
    ("is_complete", "opening", "before", "after"),
    [
        (True, 1.0, 0.125, 0.125),
        (False, 1.0, 0.125, 1.0),
        (False, 0.25, 0.125, 0.25),  # less after a start that is a good one
        (False, 0.25, 0.5, 0.5),
    ],
)
def test_an_epoch_begins_without_scale_and_is_cautious_again_where_coordinates_wait(
    is_complete, opening, before, after
):
    damping = Damping(scale=3.0, opening=opening, caution=before)
    damping.open_epoch(is_complete)
    assert (damping.scale, damping.caution) == (0.0, after)
