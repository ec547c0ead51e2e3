"""Sweeps over the feature-indexed store: gradients of coordinates, scores of a direction, screening.

A coordinate is (state k, feature f); its column of the store lists the positions t with x_tf != 0. Active-set
sweeps walk label-major arrays (K, N): one state's row stays in the L2 cache while its columns go by.
Screening needs every state of a feature at once and walks a position-major copy (N, width) in slabs of
positions that fit into the cache.

Speed: these loops are bound by latency and address arithmetic, not by bandwidth. Sums are split by hand into
four, since the compiler's own vectorised gather is several times slower than four plain loads; the casts to
unsigned save the test for negative indices.

indptr: int64 (F + 1,); indices: int32 or int64 (nnz,), ascending in a column; values: float64 (nnz,), or (0,)
where every stored value is 1.
"""

import numpy as np

from crfqn.kernels import kernel, strict_kernel
from crfqn.kernels.rows import add_picked


@strict_kernel
def binary_dot(positions, row):
    """sum_t row[t] over the listed positions."""
    n = positions.size // 4
    s0 = s1 = s2 = s3 = 0.0
    for e in range(n):
        s0 += row[np.uint64(positions[4 * e])]
        s1 += row[np.uint64(positions[4 * e + 1])]
        s2 += row[np.uint64(positions[4 * e + 2])]
        s3 += row[np.uint64(positions[4 * e + 3])]
    for e in range(4 * n, positions.size):
        s0 += row[np.uint64(positions[e])]
    return (s0 + s1) + (s2 + s3)


@strict_kernel
def valued_dot(positions, values, row):
    """sum_t x_t row[t] over the listed positions."""
    n = positions.size // 4
    s0 = s1 = s2 = s3 = 0.0
    for e in range(n):
        s0 += values[4 * e] * row[np.uint64(positions[4 * e])]
        s1 += values[4 * e + 1] * row[np.uint64(positions[4 * e + 1])]
        s2 += values[4 * e + 2] * row[np.uint64(positions[4 * e + 2])]
        s3 += values[4 * e + 3] * row[np.uint64(positions[4 * e + 3])]
    for e in range(4 * n, positions.size):
        s0 += values[e] * row[np.uint64(positions[e])]
    return (s0 + s1) + (s2 + s3)


@strict_kernel
def coordinate_gradients(first, last, states, features, indptr, indices, values, residual, out):
    """out[c] = sum_t x_{t,f_c} residual[k_c, t] for c in first..last-1 (paper, equation 20)."""
    for c in range(first, last):
        begin, end = indptr[features[c]], indptr[features[c] + 1]
        row = residual[states[c]]
        if values.size == 0:
            out[c] = binary_dot(indices[begin:end], row)
        else:
            out[c] = valued_dot(indices[begin:end], values[begin:end], row)


@strict_kernel
def add_columns(first, last, states, features, weights, indptr, indices, values, scores):
    """scores[k_c, t] += weights[c] x_{t,f_c} for c in first..last-1: the image of a sparse direction."""
    for c in range(first, last):
        begin, end = indptr[features[c]], indptr[features[c] + 1]
        row, weight = scores[states[c]], weights[c]
        if values.size == 0:
            for t in indices[begin:end]:
                row[np.uint64(t)] += weight
        else:
            for e in range(begin, end):
                row[np.uint64(indices[e])] += weight * values[e]


@kernel
def feature_gradients(first, last, slab, indptr, indices, values, residual, out):
    """out[f - first, k] = sum_t x_tf residual[t, k] for the features first..last-1 and every state.

    residual: float64 (N, width), position-major, width a multiple of LANES; `slab`: positions walked at a time
    (slab x width numbers stay in the cache); out: float64 (last - first, width).
    """
    n_positions = residual.shape[0]
    cursor = np.empty(last - first, np.int64)
    for f in range(first, last):
        cursor[f - first] = indptr[f]
        for k in range(residual.shape[1]):
            out[f - first, k] = 0.0
    for stop in range(slab, n_positions + slab, slab):
        for f in range(first, last):
            begin, column_end = cursor[f - first], indptr[f + 1]
            end = begin
            while end < column_end and indices[end] < stop:
                end += 1
            add_picked(out[f - first], residual, indices, begin, end, values)
            cursor[f - first] = end
