"""A point that moves: the loss while blocks of weights change one after the other, for block coordinate descent.

A block is all states' weights of one raw feature; a chain has one block more, its edges. A move of a block re-runs
inference on the items that hold the feature only, and in a chain on the stretch that is affected only
(`solvers/coordinate/chain_message_kernels.py`); the loss changes by what these items' losses do.

Shapes: I items, B blocks, F features, K states, E edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, ViewError
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.registry import MethodState
from crfqn.solvers.coordinate.block_arrays import ChainState, TreeState, prepare_chain, prepare_tree
from crfqn.solvers.coordinate.block_kernels import SweepRule, mask_impossible, read_block, sweep, write_block
from crfqn.solvers.coordinate.block_weights import BlockWeights, possible_states
from crfqn.solvers.coordinate.chain_block_kernels import (
    accept_edges,
    accept_nodes,
    edge_slopes,
    node_slopes,
    try_edges,
    try_nodes,
)
from crfqn.solvers.coordinate.tree_block_kernels import accept_tree, tree_slopes, try_tree
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

PLACES = 1 << 16  # coordinates of the blocks that are swept in one call: their strengths are 1 MB
MOST_BLOCKS = 512  # of one call: an interrupt waits for its end


class BlockSweep(NamedTuple):
    """Findings of the updates of B blocks.

    Attributes
    ----------
    violations : float64 (B,), the largest KKT violation of each block before its update
    is_kept : bool (B,), whether each stays after shrinking
    n_moved, n_failed : blocks that have moved, and whose line search found no step
    """

    violations: Vector
    is_kept: NDArray[np.bool_]
    n_moved: int
    n_failed: int


class BlockState(MethodState):
    """The loss of a likelihood, from a point on, while blocks of its weights move.

    Notes
    -----
    Memory: 4 arrays of positions x states for chains, 2 for taxonomies. Passes are counted by messages: a forward (or
    downward) message of one position is half of its inference, a backward (upward) one the other half.
    """

    def __init__(self, owner: Objective, point: Point) -> None:
        loss: Any = owner.loss  # a likelihood, as `check` sees to it
        self.objective, point = owner, point.with_scores
        self.n_features, self.n_states = owner.map.n_features, owner.n_states
        self.n_blocks, structure = self.n_features + (loss.n_edges > 0), loss.structure
        self.chain = prepare_chain(point, loss, structure) if isinstance(structure, Chain) else None
        self.tree = prepare_tree(point, loss, structure) if isinstance(structure, Taxonomy) else None
        self.known = BlockWeights.of(point.coords, point.weights, self.n_states, self.n_features)
        self.possible = possible_states(owner.support, self.n_features, self.n_blocks)
        self._move: tuple[int, Vector, float] | None = None
        self._count()

    @classmethod
    def check(cls, objective: Any) -> None:
        """Raise ViewError for other losses than likelihoods of chains and taxonomies."""
        loss = objective.loss
        if not (loss.has_marginals and isinstance(loss.structure, (Chain, Taxonomy))):
            raise ViewError(
                f"feature blocks need a likelihood of chains or taxonomies; the loss is {type(loss).__name__}"
            )

    @property
    def blocks(self) -> Coords:
        """All blocks: the features, and the edges behind them."""
        return np.arange(self.n_blocks)

    def blocks_of(self, coords: Coords) -> Coords:
        """Return the blocks that hold some of the coordinates, ascending."""
        n_nodes = np.searchsorted(coords, self.n_features * self.n_states)
        blocks = np.unique(coords[:n_nodes] % max(self.n_features, 1))
        return np.append(blocks, self.n_features) if n_nodes < coords.size else blocks

    def sizes(self, blocks: Coords) -> Coords:
        """Return the number of coordinates of each block."""
        return np.where(blocks < self.n_features, self.n_states, self.objective.loss.n_edges)

    def coords(self, blocks: Coords) -> Coords:
        """Return the coordinates of the blocks, one block after the other."""
        sizes = self.sizes(blocks)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        block = np.repeat(blocks, sizes)
        is_node = block < self.n_features
        return np.where(is_node, within * self.n_features + block, self.n_states * self.n_features + within)

    @property
    def weights(self) -> SparseWeights:
        """The weights that are not 0."""
        return self.known.sparse(self.n_states, self.n_features)

    def weights_of(self, block: int) -> Vector:
        """Return all weights of a block, zeros included."""
        w = np.empty(int(self.sizes(np.array([block]))[0]))
        read_block(block, self.known.arrays, w)
        return w

    @property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self._state.items[0] @ self.item_losses)

    @property
    def item_losses(self) -> Vector:
        """-log P(y_i | x_i), (I,), in nats."""
        return self._state.items[1] - self._state.items[2]

    @property
    def rounding(self) -> float:
        """The size of the numbers that a change of the loss is the sum of; its own rounding is that of this number.

        Roundings of the items are independent: they add up like their squares.
        """
        weight, log_z, observed = self._state.items[:3]
        return float(np.linalg.norm(weight * (np.abs(log_z) + np.abs(observed))))

    def point(self) -> Point:
        """Return the point at the present weights, from scratch."""
        return self.objective.at(*self.weights)

    def derivatives(self, block: int) -> tuple[Vector, Vector]:
        """Return gradient and curvature of a block's weights.

        The curvature leaves out the covariance between positions: sum_t weight x_tf^2 p_t(k) (1 - p_t(k)), and
        sum_t weight P_t(j, k) (1 - P_t(j, k)) for edges. The gradient is 0 outside of the objective's support.
        """
        size = int(self.sizes(np.array([block]))[0])
        g, h = np.empty(size), np.empty(size)
        if self.tree is not None:
            tree_slopes(self.tree, block, g, h)
        elif block < self.n_features:
            node_slopes(self.chain, block, g, h)
        else:
            edge_slopes(self.chain, g, h)
        if self.possible[0].size:
            mask_impossible(block, *self.possible, g)
        self._count()
        return g, h

    def try_move(self, block: int, delta: Vector, step: float = 1.0) -> float:
        """Return the change of the loss if the block moves by step * delta; then `accept`, `reject` or try again."""
        self._move = block, delta, step
        if self.tree is not None:
            change = try_tree(self.tree, block, delta, step)
        elif block < self.n_features:
            change = try_nodes(self.chain, block, delta, step)
        else:
            change = try_edges(self.chain, delta, step)
        self._count()
        return change

    def accept(self) -> None:
        """Take over the move that was tried last."""
        block, delta, step = self._take_move()
        if self.tree is not None:
            accept_tree(self.tree, block, step)
        elif block < self.n_features:
            accept_nodes(self.chain, block, delta, step)
        else:
            accept_edges(self.chain)
        w = self.weights_of(block) + step * delta
        self.known.reserve(w.size)
        write_block(block, w, self.known.arrays)
        self._count()

    def reject(self) -> None:
        """Forget the move that was tried last."""
        block, delta, _ = self._take_move()
        self.try_move(block, delta, 0.0)
        self.accept()

    def _take_move(self) -> tuple[int, Vector, float]:
        if self._move is None:
            raise InputError("expected a move to be tried before it is accepted or rejected")
        move, self._move = self._move, None
        return move

    def batches(self, blocks: Coords) -> list[Coords]:
        """Cut blocks, in their order, into what one call of `descend` may take."""
        places = np.cumsum(self.sizes(blocks)) // PLACES
        cuts = np.union1d(
            np.flatnonzero(np.diff(places)) + 1, np.arange(MOST_BLOCKS, blocks.size, MOST_BLOCKS)
        )
        return np.split(blocks, cuts)

    def descend(self, blocks: Coords, l1: Vector, l2: Vector, rule: SweepRule) -> BlockSweep:
        """Update the blocks one after the other, under the strengths l1 and l2 of their coordinates.

        See `block_kernels.py` for what an update is, and for the rule.
        """
        sizes = self.sizes(blocks)
        firsts = np.concatenate([[0], np.cumsum(sizes)])
        self.known.reserve(int(firsts[-1]))
        violations, changes = np.empty(blocks.size), np.empty(blocks.size)
        is_kept = np.empty(blocks.size, bool)
        n_moved, n_failed = sweep(
            self.chain, self.tree, *self.possible, blocks, firsts, l1, l2, self.known.arrays,
            rule, violations, is_kept, changes,
        )  # fmt: skip
        self._count()
        return BlockSweep(violations, is_kept, n_moved, n_failed)

    @property
    def _state(self) -> ChainState | TreeState:
        state = self.chain or self.tree
        assert state is not None
        return state

    def _count(self) -> None:
        """Add the messages since the last count to the objective's passes."""
        n_steps = self._state.n_steps
        self.objective.n_passes += float(n_steps.sum()) / (2 * self.objective.n_positions)
        n_steps[:] = 0
