"""Sparse weights out of the dense rows of online learning, row by row and without a copy of these.

Shapes: F features, K states; weights and corrections float64 (rows, width), the first F of the rows those of features.
"""

from crfqn.kernels import kernel


@kernel
def count_means(n_features, weights, corrections, share, counts):
    """counts[k] += the features f with weights[f, k] - share corrections[f, k] other than 0; counts: int64 (K,)."""
    for f in range(n_features):
        for k in range(counts.size):
            counts[k] += weights[f, k] - share * corrections[f, k] != 0.0


@kernel
def write_means(n_features, weights, corrections, share, heads, coords, means):
    """Write these numbers, and their coordinates k F + f, in ascending order of the coordinates.

    heads : int64 (K,), where the numbers of each state begin, changed; coords, means : (total,), out
    """
    for f in range(n_features):
        for k in range(heads.size):
            mean = weights[f, k] - share * corrections[f, k]
            if mean != 0.0:
                coords[heads[k]], means[heads[k]] = k * n_features + f, mean
                heads[k] += 1
