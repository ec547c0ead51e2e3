"""Clusters of neighbouring blocks of a dense symmetric B0, for `groups.py`: the rest of B0 d follows once a cluster.

B0 is larger than any cache, and what a sweep costs is to read it. Within a cluster B0 d follows by the cluster's own
square of B0, which stays in the cache; the rows of B0 are then read in one go, and threads pass two barriers a cluster.

Shapes: n coordinates; blocks as in `penalties.blocks`, order (n,) and starts (n_blocks + 1,), int64.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, subkernel
from crfqn.kernels.subproblem.coordinates import add_scaled

COLUMN_MULTIPLE = (
    256  # no thread's columns end within the vectors of a loop, whose remainder may round otherwise
)
MOST_CLUSTERED = 40  # coordinates of several blocks: to gather more of B0 takes what longer readings save


class Clusters(NamedTuple):
    """The clusters and their squares of B0.

    blocks : int64 (n_clusters + 1,), the first block of each cluster, and the end of the last
    inside : float32, the clusters' own squares of a dense B0, one after the other, by rows; empty for other B0
    corners : int64 (n_clusters + 1,), where each square begins in `inside`
    """

    blocks: np.ndarray
    inside: np.ndarray
    corners: np.ndarray


@inner
def cut_clusters(starts, is_dense, clusters):
    """Write the first block of each cluster, and the end of the last, to `clusters`; returns how many there are.

    Blocks are only clustered where B0 is dense. clusters : int64 (n_blocks + 1,), out
    """
    n_clusters, begin = 0, 0
    for b in range(starts.size - 1):
        if b == begin or not is_dense or starts[b + 1] - starts[begin] > MOST_CLUSTERED:
            clusters[n_clusters], begin = b, b
            n_clusters += 1
    clusters[n_clusters] = starts.size - 1
    return n_clusters


@subkernel
def gather_clusters(dense, order, starts, clusters):
    """Return the clusters' squares of a dense B0, which every sweep reads, and where each begins: see `Clusters`."""
    corners = np.zeros(clusters.size, np.int64)
    for c in range(clusters.size - 1):
        corners[c + 1] = corners[c] + (starts[clusters[c + 1]] - starts[clusters[c]]) ** 2
    inside, e = np.empty(corners[-1] if dense.shape[0] > 0 else 0, np.float32), 0
    for c in range(clusters.size - 1 if dense.shape[0] > 0 else 0):
        for i in range(starts[clusters[c]], starts[clusters[c + 1]]):
            for k in range(starts[clusters[c]], starts[clusters[c + 1]]):
                inside[e] = dense[order[i], order[k]]
                e += 1
    return inside, corners


@inner
def add_dense_rows(base_d, dense, members, z, first, last):
    """base_d += the rows of a dense B0 times a cluster's moves, in the columns first ... last - 1.

    Four rows at a time come from memory a third faster than one by one.
    """
    done, target = 0, base_d[first:last]
    while done + 4 <= members.size:
        x, y = dense[members[done], first:last], dense[members[done + 1], first:last]
        u, v = dense[members[done + 2], first:last], dense[members[done + 3], first:last]
        z1, z2 = np.float32(z[done]), np.float32(z[done + 1])
        z3, z4 = np.float32(z[done + 2]), np.float32(z[done + 3])
        if z1 != 0.0 or z2 != 0.0 or z3 != 0.0 or z4 != 0.0:
            for k in range(target.size):
                target[k] += (z1 * x[k] + z2 * y[k]) + (z3 * u[k] + z4 * v[k])
        done += 4
    for i in range(done, members.size):
        add_scaled(target, dense[members[i], first:last], np.float32(z[i]))
