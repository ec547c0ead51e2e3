"""The expected calibration error against its definition, bin by bin."""

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.metrics import expected_calibration_error


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_its_definition(n_bins):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    is_right = rng.random(500) < p**2
    expected = 0.0
    for b in range(n_bins):
        inside = (p >= b / n_bins) & (p < (b + 1) / n_bins)
        if inside.any():
            expected += inside.sum() * abs(is_right[inside].mean() - p[inside].mean()) / p.size
    assert expected_calibration_error(is_right, p, n_bins) == pytest.approx(expected, rel=1e-12)


def test_ends():
    assert expected_calibration_error([True, False], [1.0, 0.0]) == 0.0
    assert expected_calibration_error([False, False], [1.0, 1.0]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "n >= 1"),
        (([True], [0.5, 0.5]), "of one length"),
        (([2], [0.5]), "booleans"),
        (([True], [1.5]), "from 0 to 1"),
        (([True], [float("nan")]), "from 0 to 1"),
        (([True], [0.5], 0), "n_bins"),
        (([True], [0.5], True), "n_bins"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        expected_calibration_error(*arguments)
