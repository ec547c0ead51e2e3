"""Searches along rays whose values and slopes are known: backtracking, and one for strong Wolfe conditions."""

import numpy as np
import pytest

from crfqn.result import Status
from crfqn.solvers import line_search
from crfqn.solvers.line_search import MAX_TRIALS, HiddenDecrease, backtracking, strong_wolfe

C1, C2 = 1e-4, 0.9


class Ray:
    """A function of the length, its slope, and the lengths asked for."""

    def __init__(self, value, slope):
        self.value, self.slope, self.lengths = value, slope, []

    def __call__(self, length):
        self.lengths.append(length)
        return self.value(length), self.slope(length)

    def search(self, c2=C2):
        return strong_wolfe(self, (self.value(0.0), self.slope(0.0)), C1, c2)

    def is_accepted(self, length, c2=C2):
        falls = self.value(length) <= self.value(0.0) + C1 * length * self.slope(0.0)
        return falls and abs(self.slope(length)) <= -c2 * self.slope(0.0)


def quadratic(lowest):
    return Ray(lambda t: 0.5 * (t - lowest) ** 2, lambda t: t - lowest)


RAYS = {
    "unit": quadratic(1.0),
    "far": quadratic(15.0),
    "near": quadratic(1e-3),
    "quartic": Ray(lambda t: (t - 3.0) ** 4, lambda t: 4.0 * (t - 3.0) ** 3),
    "wavy": Ray(lambda t: np.cos(t) - 0.1 * t + 0.2 * t**2, lambda t: -np.sin(t) - 0.1 + 0.4 * t),
    "overflows": Ray(lambda t: np.exp(50.0 * t) - 60.0 * t, lambda t: 50.0 * np.exp(50.0 * t) - 60.0),
}


class TestBacktracking:
    def test_the_first_length_that_is_accepted(self):
        lengths = []
        found = backtracking(
            lambda length: lengths.append(length) or ("short" if length < 1.0 else None), 8.0, 0.5
        )
        assert (found.outcome, found.length) == ("short", 0.5)
        assert lengths == [8.0, 4.0, 2.0, 1.0, 0.5]

    def test_an_outcome_that_is_0_is_accepted(self):
        assert backtracking(lambda length: 0.0, 1.0, 0.5).outcome == 0.0

    def test_a_hidden_decrease_is_no_failure(self):
        def attempt(length):
            if length < 0.2:
                raise HiddenDecrease

        assert backtracking(attempt, 1.0, 0.5) is Status.STALLED

    def test_it_fails_after_all_trials(self):
        lengths = []
        assert backtracking(lengths.append, 1.0, 0.5) is Status.LINE_SEARCH_FAILED
        assert len(lengths) == MAX_TRIALS


@pytest.mark.parametrize("c2", [0.9, 0.1])
@pytest.mark.parametrize("name", RAYS)
def test_meets_the_conditions(name, c2):
    ray = RAYS[name]
    length = ray.search(c2)
    assert ray.is_accepted(length, c2)


def test_a_step_that_is_too_short_grows_at_once():
    ray = quadratic(15.0)
    assert ray.search() == pytest.approx(15.0)
    assert len(ray.lengths) == 2


def test_values_that_are_no_numbers_are_too_long():
    ray = Ray(lambda t: (t - 0.2) ** 2 if t < 0.5 else np.nan, lambda t: 2 * (t - 0.2) if t < 0.5 else np.nan)
    assert ray.is_accepted(ray.search())


def test_a_wall_beside_a_falling_slope_ends_the_search(monkeypatch):
    """The lengths close in on the wall until they are one: there was a division by zero."""
    monkeypatch.setattr(line_search, "MAX_TRIALS", 100)
    assert strong_wolfe(lambda step: (-step if step <= 1.0 else 1e9, -1.0), (0.0, -1.0), 1e-4, 0.5) is None


def test_without_a_lowest_point_it_gives_up():
    assert Ray(lambda t: -t, lambda t: -1.0).search() is None
