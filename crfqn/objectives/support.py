"""The support: the weights of the pairs of a feature and a label, and of the transitions, that occur in training data.

CRFsuite trains these weights only, by default. The model is smaller, but a feature cannot lower the score of a label
with which it never occurs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.data.features import FeatureStore
from crfqn.kernels.sparse import found_in
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import ends_of

# Pairs are found by a table with a flag for each possible one, up to so many flags for each entry of the data, else by
# a sort.
MAX_FLAGS_PER_ENTRY = 8


@dataclass(frozen=True, eq=False)
class Support:
    """Coordinates that may have a weight, of n_node_coords = K F and n_edges = E: sorted int64 each, None for all.

    n_empty : if all nodes may have a weight, the number of those whose features only edges have: they stay 0
    """

    n_node_coords: int
    n_edges: int
    nodes: Coords | None = None
    edges: Coords | None = None
    n_empty: int = 0

    @property
    def n_coords(self) -> int:
        """The number of weights that can be nonzero."""
        n_nodes = self.n_node_coords - self.n_empty if self.nodes is None else self.nodes.size
        return n_nodes + (self.n_edges if self.edges is None else self.edges.size)

    def coords(self) -> Coords:
        """Return all coordinates of the support, sorted: for methods that keep every weight."""
        nodes = np.arange(self.n_node_coords) if self.nodes is None else self.nodes
        edges = np.arange(self.n_edges) if self.edges is None else self.edges
        return np.concatenate([nodes, self.n_node_coords + edges])

    @property
    def is_everything(self) -> bool:
        """Whether every coordinate may have a weight."""
        return self.nodes is None and self.edges is None

    def contains(self, coords: Coords) -> NDArray[np.bool_]:
        """Return which of the sorted coordinates belong to the support."""
        n_nodes = int(np.searchsorted(coords, self.n_node_coords))
        parts = (coords[:n_nodes], self.nodes), (coords[n_nodes:] - self.n_node_coords, self.edges)
        return np.concatenate(
            [
                np.ones(part.size, bool) if members is None else found_in(members, part)[1]
                for part, members in parts
            ]
        )


def observed_support(
    store: FeatureStore,
    targets: NDArray[np.int32],
    n_states: int,
    all_possible_states: bool,
    all_possible_transitions: bool,
) -> Support:
    """Return the support of a chain's weights: the pairs of feature and label that occur in the training data, all
    pairs with `all_possible_states`; the transitions that occur, all with `all_possible_transitions`.

    targets : int32 (N,), the observed labels. O(nnz log nnz + N) time, 16 bytes an entry of temporary memory.
    """
    return Support(
        n_states * store.n_features,
        EdgeLayout(n_states).size,
        None if all_possible_states else observed_pairs(store, targets, n_states),
        None if all_possible_transitions else observed_transitions(store, targets, n_states),
    )


def observed_pairs(store: FeatureStore, targets: NDArray[np.int32], n_states: int) -> Coords:
    """Return k F + f for every feature f that some position labelled k has, sorted."""
    features = np.repeat(np.arange(store.n_features), np.diff(store.indptr))
    pairs = targets[store.indices].astype(np.int64) * store.n_features + features
    if n_states * store.n_features > MAX_FLAGS_PER_ENTRY * pairs.size:
        return np.unique(pairs)
    is_there = np.zeros(n_states * store.n_features, bool)
    is_there[pairs] = True
    return np.flatnonzero(is_there)


def observed_transitions(store: FeatureStore, targets: NDArray[np.int32], n_states: int) -> Coords:
    """Return the numbers of the transitions that occur within items, sorted."""
    second = ends_of(store.offsets)[2]
    return np.unique(EdgeLayout(n_states).numbers(targets[second - 1], targets[second]))
