"""Damping: what is added to the metric after steps that go as predicted, disappoint or fail."""

import numpy as np
import pytest

from crfqn.penalties.penalty import Partition
from crfqn.solvers.prox_qn import Constants
from crfqn.solvers.prox_qn.step import Damping, TriedStep

CONSTANTS = Constants()
PATIENCE = CONSTANTS.patience

DIAGONAL, MAJORANT = np.array([1.0, 4.0, 0.0]), np.array([2.0, 0.0, 3.0])
D, MODEL_D = np.array([2.0, -1.0, 0.0]), np.array([4.0, -3.0, 1.0])


def met(y, blocks=None) -> TriedStep:
    """The trial w + D, whose gradient has changed by y."""
    return TriedStep(D, np.asarray(y, float), MODEL_D, blocks or Partition.single(3))


AS_MODELLED = met(MODEL_D)


def opened(**settings) -> Damping:
    """Damping within an epoch of three coordinates."""
    damping = Damping(**settings)
    scale = damping.scale
    damping.open_epoch(3, is_complete=True)
    damping.scale = scale
    return damping


def test_it_starts_with_the_majorant_alone():
    np.testing.assert_array_equal(opened().diagonal(DIAGONAL, MAJORANT), MAJORANT)
    np.testing.assert_array_equal(opened(uses_majorant=False).diagonal(DIAGONAL, MAJORANT), np.zeros(3))


def test_it_is_a_share_of_the_diagonal_and_of_the_majorant():
    damping = opened(scale=0.5, majorant_share=0.25)
    np.testing.assert_array_equal(damping.diagonal(DIAGONAL, MAJORANT), [1.0, 2.0, 0.75])
    bold = opened(uses_majorant=False, scale=0.5, majorant_share=0.25)
    np.testing.assert_array_equal(bold.diagonal(DIAGONAL, MAJORANT), [0.5, 2.0, 0.0])
    np.testing.assert_array_equal(DIAGONAL, [1.0, 4.0, 0.0])
    np.testing.assert_array_equal(MAJORANT, [2.0, 0.0, 3.0])


class TestSteps:
    def test_that_go_as_predicted_halve_the_damping_down_to_a_little(self):
        damping, seen = opened(), []
        for _ in range(10):
            damping.after_step(1.0, AS_MODELLED)
            seen.append(damping.majorant_share)
        np.testing.assert_array_equal(seen[:6], 0.5 ** np.arange(1, 7))
        assert seen[-1] == CONSTANTS.min_damping > 0
        assert damping.scale == 0.0

    def test_that_go_as_predicted_take_the_scale_to_zero(self):
        damping = opened(scale=0.1)
        seen = []
        while damping.scale > 0:
            damping.after_step(0.9, AS_MODELLED)
            seen.append(damping.scale)
        np.testing.assert_allclose(seen, [0.025, 0.00625, 0.0015625, 0.000390625, 0.0])

    @pytest.mark.parametrize("ratio", [0.5, 0.75])
    def test_between_decrease_that_of_single_coordinates_only(self, ratio):
        damping = opened(scale=0.3, majorant_share=0.2)
        damping.by_coordinate[:] = 1.0, 2.0, 4.0
        damping.after_step(ratio, met(9 * MODEL_D))
        assert (damping.scale, damping.majorant_share) == (0.3, 0.2)
        assert damping.by_coordinate.tolist() == [
            decrease * CONSTANTS.damping_decrease for decrease in (1, 2, 4)
        ]

    @pytest.mark.parametrize("ratio", [0.49, 0.0, -3.0])
    def test_that_disappoint_hold_back_what_met_more_than_the_model_says(self, ratio):
        damping = opened(scale=0.3, majorant_share=0.2)
        damping.by_coordinate[:] = 1.0, 2.0, 3.0
        damping.after_step(ratio, met([10.0, -3.5, 50.0]))
        assert (damping.scale, damping.majorant_share) == (0.3, 0.2)
        kept = CONSTANTS.damping_decrease
        assert kept > 0.25
        # (10 - 4) / 2; 0.5 is less than what is kept; has not moved
        assert damping.by_coordinate.tolist() == [3.0, 2.0 * kept, 3.0 * kept]

    def test_that_go_as_predicted_soften(self):
        damping = opened()
        damping.by_coordinate[:] = 1.0, 0.0, 4.0
        damping.after_step(0.8, AS_MODELLED)
        kept = 0.5 * CONSTANTS.damping_decrease
        assert damping.by_coordinate.tolist() == [kept, 0.0, 4 * kept]

    def test_that_win_more_than_predicted_are_good_ones(self):
        damping = opened(majorant_share=0.5)
        damping.after_step(7.0, AS_MODELLED)
        assert damping.majorant_share == 0.25


class TestFailures:
    def test_hold_back_single_coordinates_first_and_then_all(self):
        damping = opened(majorant_share=CONSTANTS.min_damping)
        seen = []
        for _ in range(20):
            damping.after_failure(met([10.0, -3.0, 50.0]))
            assert damping.by_coordinate.tolist() == [3.0, 0.0, 0.0]
            seen.append((damping.scale, damping.majorant_share))
        assert seen[: PATIENCE - 1] == [(0.0, CONSTANTS.min_damping)] * (PATIENCE - 1)
        assert seen[PATIENCE - 1] == (CONSTANTS.first_scale, 1.0)
        scales = np.array(seen[PATIENCE - 1 :])[:, 0]
        np.testing.assert_allclose(np.diff(np.log(scales)), np.log(4.0))

    def test_are_counted_anew_after_a_step(self):
        damping = opened()
        for _ in range(3 * PATIENCE):
            damping.after_failure(AS_MODELLED)
            damping.after_step(0.6, AS_MODELLED)
        assert damping.scale == 0.0

    def test_stop_the_coordinate_that_caused_them(self):
        """The damping is the least diagonal with which the step would have been no longer than the trial's secant."""
        damping = opened()
        damping.after_failure(met([40.0, -3.0, 0.0]))
        np.testing.assert_allclose((MODEL_D + damping.by_coordinate * D)[:2], [40.0, -3.0])


def test_the_damping_follows_an_active_set_that_shrinks():
    damping = opened()
    damping.by_coordinate[:] = 1.0, 2.0, 3.0
    damping.restrict(np.array([True, False, True]))
    np.testing.assert_array_equal(damping.diagonal(np.zeros(2), np.zeros(2)), [1.0, 3.0])


@pytest.mark.parametrize(
    ("is_complete", "initial", "before", "after"),
    [
        (True, 1.0, 0.125, 0.125),
        (False, 1.0, 0.125, 1.0),
        (False, 0.25, 0.125, 0.25),  # less after a start that is a good one
        (False, 0.25, 0.5, 0.5),
    ],
)
def test_an_epoch_begins_without_scale_and_uses_majorant_again_where_coordinates_wait(
    is_complete, initial, before, after
):
    damping = opened(scale=3.0, initial=initial, majorant_share=before)
    damping.open_epoch(2, is_complete)
    assert damping.by_coordinate.tolist() == [0.0, 0.0]
    assert (damping.scale, damping.majorant_share) == (0.0, after)


class TestExcessCurvature:
    def test_is_one_number_for_weights_that_leave_zero_together(self):
        """d'(y - B d) / d'd: a weight that has hardly moved must not stop its whole row."""
        together = Partition.from_names(np.array([7, 7, 9]))
        stiffness = met([10.0, -3.5, 50.0], together).excess_curvature(CONSTANTS.excess_threshold)
        np.testing.assert_allclose(stiffness, [2.5, 2.5, 0.0])  # (2 * 6 + 1 * 0.5) / (4 + 1)

    def test_is_none_where_less_was_met_than_the_model_says(self):
        assert met([3.0, -2.0, -5.0]).excess_curvature(CONSTANTS.excess_threshold).tolist() == [0.0, 0.0, 0.0]

    def test_is_no_rounding_divided_by_next_to_nothing(self):
        d, model_d = np.array([1.0, 1e-14]), np.array([1.0, 1.0])
        trial = TriedStep(d, model_d + np.array([3.0, 1e-7]), model_d, Partition.single(2))
        assert trial.excess_curvature(CONSTANTS.excess_threshold).tolist() == [3.0, 0.0]

    def test_of_no_coordinates(self):
        nothing = np.empty(0)
        assert (
            TriedStep(nothing, nothing, nothing, Partition.single(0))
            .excess_curvature(CONSTANTS.excess_threshold)
            .size
            == 0
        )
