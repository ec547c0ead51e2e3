"""Sets of coordinates: numpy's own, which takes a hundred times longer."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.kernels.sparse import found_in, union


@pytest.mark.parametrize("sizes", [(0,), (5,), (0, 0), (7, 0), (30, 40), (3, 50, 20)])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_union_is_numpys(sizes, is_sorted):
    random = np.random.default_rng(sum(sizes))
    arrays = [random.integers(0, 60, size) for size in sizes]
    arrays = [np.unique(array) for array in arrays] if is_sorted else arrays
    before = [array.copy() for array in arrays]
    found = union(*arrays)
    np.testing.assert_array_equal(found, np.unique(np.concatenate(arrays)))
    assert found.dtype == np.int64
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("n", [0, 1, 20])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_what_is_found_is_numpys(n, is_sorted):
    random = np.random.default_rng(n)
    numbers, wanted = np.unique(random.integers(0, 40, n)), random.integers(-3, 45, 30)
    wanted = np.sort(wanted) if is_sorted else wanted
    place, is_there = found_in(numbers, wanted)
    np.testing.assert_array_equal(is_there, np.isin(wanted, numbers))
    np.testing.assert_array_equal(numbers[place[is_there]], wanted[is_there])
    expected = np.searchsorted(numbers, wanted)
    np.testing.assert_array_equal(place, np.minimum(expected, max(numbers.size - 1, 0)))
