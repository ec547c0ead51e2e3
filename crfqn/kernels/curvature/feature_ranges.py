"""Ranges of the features' expected counts, for safe screening (Ghaoui, Viallon and Rabbani 2012; Ndiaye et al. 2017).

The expected count of a feature in item i can differ by at most sum_t |x_tf| between two distributions: its square,
summed over the items, bounds how far the gradient is from that at the optimum, given the duality gap.

Shapes: F features, N positions, I items. indptr: int64 (F + 1,); indices: int32 or int64 (nnz,), ascending in a column;
values: float64 (nnz,), or (0,) where every stored value is 1.
"""

import numpy as np

from crfqn.kernels import strict_kernel


@strict_kernel
def square_ranges(first, last, indptr, indices, values, item_of, weights, out):
    """out[f] = sum_i weights[i] (sum_{t in item i} |x_tf|)^2 for f = first ... last - 1.

    item_of : int64 (N,), the item of each position; weights : float64 (I,)
    """
    for f in range(first, last):
        total, size, item = 0.0, 0.0, -1
        for e in range(indptr[f], indptr[f + 1]):
            own = item_of[np.uint64(indices[e])]
            size = size if own == item else 0.0
            x = abs(values[e]) if values.size > 0 else 1.0
            total += weights[np.uint64(own)] * x * (2.0 * size + x)  # (size + x)^2 - size^2
            size += x
            item = own
        out[f] = total
