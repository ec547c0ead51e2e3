"""Coordinates of the weights: one integer for (state k, feature f) or for an edge.

(k, f) -> k F + f, the C order of a (K, F) matrix; edge e -> K F + e. Sorted coordinates are therefore grouped by
state, which is the order in which the label-major sweeps want them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights
from crfqn.kernels.sparse import places, sorted_union


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted coordinates taken apart: the first `n_nodes` are (states, features), the rest edges."""

    states: NDArray[np.int64]
    features: NDArray[np.int64]
    edges: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return self.states.size

    @property
    def bounds(self) -> NDArray[np.int64]:
        """First place of each state that occurs (`present`), and the end, (states + 1,)."""
        return np.append(np.searchsorted(self.states, self.present), self.n_nodes)

    @property
    def present(self) -> NDArray[np.int64]:
        """The states that occur, ascending."""
        return self.states[np.flatnonzero(np.diff(self.states, prepend=-1))]


def split_coords(coords: NDArray[np.int64], n_states: int, n_features: int) -> Split:
    """Take sorted coordinates apart."""
    n_node_coords = n_states * n_features
    n_nodes = int(np.searchsorted(coords, n_node_coords))
    states, features = np.divmod(coords[:n_nodes], max(n_features, 1))
    return Split(states, features, coords[n_nodes:] - n_node_coords)


def joined(nodes: NDArray, edges: NDArray) -> NDArray:
    """Concatenate what belongs to nodes and to edges; the nodes' own array where there are no edges."""
    return np.concatenate([nodes, edges]) if edges.size else nodes


def merge_weights(
    coords: NDArray[np.int64],
    values: NDArray[np.float64],
    more: NDArray[np.int64],
    change: NDArray[np.float64],
) -> SparseWeights:
    """Return the sum of two sparse vectors with sorted coordinates; exact zeros leave."""
    everything = sorted_union(coords, more)
    total = np.zeros(everything.size)
    total[places(everything, coords)] = values
    total[places(everything, more)] += change
    return SparseWeights.without_zeros(everything, total)
