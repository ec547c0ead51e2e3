"""Sets of coordinates: numpy's own, which takes a hundred times longer."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.kernels.sparse import found_in, places, sorted_union, union


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


@pytest.mark.parametrize("numbers", [[4], [3, 4, 5, 6, 7, 8], [1, 3, 4, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
@pytest.mark.parametrize("others", [[], [4], [4, 5], [3, 8], [2, 9], [1, 2, 3], [4, 6, 11]])
def test_stretches_without_gaps_are_sets_like_others(numbers, others):
    numbers, others = np.array(numbers), np.array(others, np.int64)
    expected = np.union1d(numbers, others)
    for arrays in ((numbers, others), (others, numbers), (others, numbers, others[:0])):
        np.testing.assert_array_equal(sorted_union(*arrays), expected)
    for part in (numbers, others):
        table = np.zeros(expected.size, np.int64)
        table[places(expected, part)] = part
        np.testing.assert_array_equal(table, np.where(np.isin(expected, part), expected, 0))
