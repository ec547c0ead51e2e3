"""Symmetric sparse matrix from its parts: the rows of nodes from the diagonal on, what edges add, and a scale.

Everything is written once, where it will stay: a model of millions of entries takes a tenth of a second for each time
that it is gone over.

Shapes: n coordinates of nodes, n_edges of edges, behind them.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, strict_kernel


class Rows(NamedTuple):
    """Rows of a compressed matrix: int64 (n + 1,), int32 and float32."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


@kernel
def count_whole(nodes, beside, among, ends):
    """Count the entries of each row of the matrix that `write_whole` writes; its parameters.

    ends: int (n + n_edges + 1,) zeros, out: where each row but the first begins, one place late.
    """
    n, n_edges = nodes.indptr.size - 1, among.shape[0]
    # A row's length is kept two places on: the place before it will be where the row is written next.
    for a in range(n):
        length = nodes.indptr[a + 1] - nodes.indptr[a] + beside.indptr[a + 1] - beside.indptr[a]
        if a + 2 < ends.size:
            ends[a + 2] += length
        for e in range(nodes.indptr[a] + 1, nodes.indptr[a + 1]):
            if nodes.indices[e] + 2 < ends.size:
                ends[nodes.indices[e] + 2] += 1
        for e in range(beside.indptr[a], beside.indptr[a + 1]):
            if n + beside.indices[e] + 2 < ends.size:
                ends[n + beside.indices[e] + 2] += 1
    for e in range(n_edges - 1):
        for other in range(n_edges):
            ends[n + e + 2] += among[e, other] != 0.0
    for a in range(2, ends.size):
        ends[a] += ends[a - 1]


@strict_kernel
def write_whole(nodes, beside, among, scale, diagonal, ends, out_indices, out_data):
    """Write D M D, its diagonal replaced, M the symmetric matrix of nodes and edges: rows in ascending order.

    nodes: Rows (n) from the diagonal on, the diagonal the first of each; beside: Rows (n), the columns of the edges;
    among: float64 (n_edges, n_edges), symmetric.
    scale: float32 (n + n_edges,), D; diagonal: float64, as long
    ends: as `count_whole` has them, out: row a is ends[a] ... ends[a + 1] afterwards; out_indices, out_data: out
    """
    n, n_edges = nodes.indptr.size - 1, among.shape[0]
    for a in range(n):
        at = ends[a + 1]
        out_indices[at], out_data[at] = a, diagonal[a]
        at += 1
        for rows, shift, first in ((nodes, 0, nodes.indptr[a] + 1), (beside, n, beside.indptr[a])):
            for e in range(first, rows.indptr[a + 1]):
                b = np.uint64(rows.indices[e] + shift)
                value = rows.data[e] * (scale[a] * scale[b])
                out_indices[at], out_data[at] = b, value
                at += 1
                mirrored = np.uint64(ends[b + np.uint64(1)])
                out_indices[mirrored], out_data[mirrored] = a, value
                ends[b + np.uint64(1)] += 1
        ends[a + 1] = at
    for e in range(n_edges):
        a, at = n + e, ends[n + e + 1]
        for other in range(n_edges):
            if among[e, other] != 0.0:
                value = np.float32(among[e, other]) * (scale[a] * scale[n + other])
                out_indices[at], out_data[at] = n + other, diagonal[a] if other == e else value
                at += 1
        ends[a + 1] = at
