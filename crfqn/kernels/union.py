"""Sets of numbers, in numpy: for coordinates, which come as sorted arrays.

`np.unique` puts integers through a hash table since numpy 2.3, which takes 400 ms for half a million coordinates; a
merge sort of arrays that are sorted already takes 4.
"""

import numpy as np


def union(*arrays: np.ndarray) -> np.ndarray:
    """The different numbers of all arrays, sorted."""
    numbers = np.concatenate(arrays)
    numbers.sort(kind="stable")
    is_first = np.ones(numbers.size, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first]


def found_in(numbers: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where sorted `numbers` hold the wanted ones, and whether they do."""
    if numbers.size == 0:
        return np.zeros(wanted.size, np.int64), np.zeros(wanted.size, bool)
    place = np.minimum(np.searchsorted(numbers, wanted), numbers.size - 1)
    return place, numbers[place] == wanted
