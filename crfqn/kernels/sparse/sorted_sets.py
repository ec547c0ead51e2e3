"""Union and search of sets of integers that are kept as sorted arrays, as coordinates are.

`np.unique` puts integers through a hash table since numpy 2.3, which takes 400 ms for half a million coordinates; a
merge sort of arrays that are sorted already takes 4.
"""

import numpy as np

from crfqn.kernels import bare_kernel
from crfqn.kernels.sparse.columns import first_at


def union(*arrays: np.ndarray) -> np.ndarray:
    """Return the distinct numbers of all arrays, sorted."""
    numbers = np.concatenate(arrays)
    numbers.sort(kind="stable")
    is_first = np.ones(numbers.size, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first]


def found_in(numbers: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each query in the sorted `numbers`, as `find` has it, and whether it is there."""
    place, is_there = np.zeros(queries.size, np.int64), np.zeros(queries.size, bool)
    if numbers.size:
        find(numbers, queries, place, is_there)
    return place, is_there


@bare_kernel
def find(numbers, queries, place, is_there):
    """place[j] = that of the first of the sorted `numbers` that is at least queries[j], the last if there is none.

    Galloping search from the place of the query before: where the queries are sorted too, a few comparisons each.
    """
    low, n = 0, numbers.size
    for j in range(queries.size):
        x, stride = queries[j], 1
        if low > 0 and numbers[low - 1] >= x:
            low, high = 0, low - 1
        else:
            high = low
            while high < n and numbers[high] < x:
                low, high, stride = high + 1, high + stride, 2 * stride
            high = min(high, n)
        low = first_at(low, high, numbers, x)
        place[j] = min(low, n - 1)
        is_there[j] = low < n and numbers[low] == x
