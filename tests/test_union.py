"""The union of coordinates: numpy's own, which takes a hundred times longer."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.kernels.union import union


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
