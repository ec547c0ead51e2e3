"""Sparse weights kept by block, so that a block's change costs no more than the block: for block coordinate descent.

Block f is the states of feature f, block F the edges. No array of F x K numbers exists: the non-zeros of all blocks
lie in one pool, a block that outgrows its place moves behind the others, and the pool is tidied up when it is full.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.objectives.linear.coordinates import split_coords
from crfqn.objectives.support import Support
from crfqn.solvers.coordinate.feature_bcd_kernels import BlockArrays

FIRST_PLACES = 1 << 12


class BlockWeights:
    """The weights of all blocks.

    Attributes
    ----------
    starts, counts : int64 (blocks,): the weights of block b are starts[b] ... starts[b] + counts[b] of the pool
    states : int32 (places,), the state of each, or the edge; values : float64 (places,)
    used : int64 (1,), the places that have been given away
    """

    def __init__(self, counts: Coords, states: NDArray[np.int32], values: Vector) -> None:
        self.counts = counts
        self.starts = np.cumsum(counts) - counts
        self.states, self.values = states, values
        self.used = np.array([states.size])

    @classmethod
    def of(cls, coords: Coords, weights: Vector, n_states: int, n_features: int) -> BlockWeights:
        """Take sorted coordinates and values, and put them in order of the features."""
        split = split_coords(coords, n_states, n_features)
        blocks = np.concatenate([split.features, np.full(split.edges.size, n_features)])
        states = np.concatenate([split.states, split.edges]).astype(np.int32)
        order = np.argsort(blocks, kind="stable")
        return cls(np.bincount(blocks, minlength=n_features + 1), states[order], weights[order])

    @property
    def arrays(self) -> BlockArrays:
        """The arrays as the kernels take them."""
        return BlockArrays(self.starts, self.counts, self.states, self.values, self.used)

    def reserve(self, n_more: int) -> None:
        """Make sure that `n_more` weights find a place."""
        if self.used[0] + n_more <= self.states.size:
            return
        places = self._places()
        total = max(FIRST_PLACES, 2 * (places.size + n_more))
        states, values = np.empty(total, np.int32), np.empty(total)
        states[: places.size], values[: places.size] = self.states[places], self.values[places]
        self.starts = np.cumsum(self.counts) - self.counts
        self.states, self.values = states, values
        self.used[0] = places.size

    def sparse(self, n_states: int, n_features: int) -> SparseWeights:
        """Return the weights by sorted coordinates."""
        places = self._places()
        states, block = (
            self.states[places].astype(np.int64),
            np.repeat(np.arange(self.counts.size), self.counts),
        )
        coords = np.where(block < n_features, states * n_features + block, n_states * n_features + states)
        order = np.argsort(coords)
        return SparseWeights(coords[order], self.values[places][order])

    def _places(self) -> Coords:
        """Return the places of the weights in the pool, block by block."""
        first = np.cumsum(self.counts) - self.counts
        return np.arange(self.counts.sum()) + np.repeat(self.starts - first, self.counts)


def possible_states(support: Support, n_features: int, n_blocks: int) -> tuple[Coords, NDArray[np.int32]]:
    """Return the states that may have a weight, block by block: indptr (blocks + 1,), states; both empty for all.

    A block's states are ascending.
    """
    if support.nodes is None and support.edges is None:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    coords = support.coords()
    n_states = support.n_node_coords // max(n_features, 1)
    blocks = BlockWeights.of(coords, np.zeros(coords.size), n_states, n_features)
    return np.concatenate([[0], np.cumsum(blocks.counts[:n_blocks])]), blocks.states
