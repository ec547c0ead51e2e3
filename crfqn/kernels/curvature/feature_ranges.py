"""How far a feature's count can move within each item: what safe screening multiplies the duality gap by.

indptr: int64 (F + 1,); indices: int32 or int64 (nnz,), ascending in a column; values: float64 (nnz,), or (0,) where
every stored value is 1.
"""

import numpy as np

from crfqn.kernels import strict_kernel


@strict_kernel
def square_ranges(first, last, indptr, indices, values, item_of, weights, out):
    """out[f] = sum_i weights[i] (sum_{t in item i} |x_tf|)^2 for f = first ... last - 1; item_of: int64 (N,)."""
    for f in range(first, last):
        total, size, item = 0.0, 0.0, -1
        for e in range(indptr[f], indptr[f + 1]):
            own = item_of[np.uint64(indices[e])]
            size = size if own == item else 0.0
            x = abs(values[e]) if values.size > 0 else 1.0
            total += weights[np.uint64(own)] * x * (2.0 * size + x)  # of (size + x)^2 what it adds to size^2
            size += x
            item = own
        out[f] = total
