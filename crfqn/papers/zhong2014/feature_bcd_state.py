"""A point that moves: the loss while blocks of weights change one after the other, for block coordinate descent.

A move of a block (all states' weights of a feature, or a chain's edges) re-runs inference on the items that hold the
feature only, in a chain on the affected stretch (`feature_bcd_kernels.py`); the loss changes by what theirs do. Shapes:
I items, B blocks, F features, K states, E edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, ViewError
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.linear.feature_map import split_coords
from crfqn.objectives.losses.likelihood import LikelihoodEvaluation
from crfqn.objectives.losses.structured import StructuredLoss
from crfqn.objectives.method_state import MethodState
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.papers.zhong2014.feature_bcd_kernels import (
    LOG_Z,
    OBSERVED,
    OUTSIDE,
    WEIGHT,
    ChainState,
    SweepRule,
    TreeState,
    accept_block,
    load_chains,
    load_trees,
    slopes,
    sweep,
    try_block,
)
from crfqn.solvers.coordinate.row_kernels import list_weights
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

MOST_BLOCKS = 512  # of one call: an interrupt waits for its end


class BlockSweep(NamedTuple):
    """Findings of the updates of B blocks.

    violations, is_kept : (B,), the largest KKT violation before the update; whether each stays after shrinking
    n_moved, n_failed : blocks that have moved, and whose line search found no step
    """

    violations: Vector
    is_kept: NDArray[np.bool_]
    n_moved: int
    n_failed: int


class BlockState(MethodState):
    """The loss of a likelihood, from a point on, while blocks of its weights move.

    Weights of features that have been moved, or are not zero, are kept in rows, (features, K). Memory: 4 arrays of
    positions x states for chains, 2 for taxonomies. Passes are counted by messages: a forward (or downward) message of
    one position is half of its inference, a backward (upward) one the other half.
    """

    def __init__(self, owner: Objective, point: Point) -> None:
        loss: Any = owner.loss  # a likelihood, as `check` sees to it
        self.objective = owner
        self.n_features, self.n_states = owner.map.n_features, owner.n_states
        self.n_blocks, structure = self.n_features + (loss.n_edges > 0), loss.structure
        self.chain = prepare_chain(point, loss, structure) if isinstance(structure, Chain) else None
        self.tree = prepare_tree(point, loss, structure) if isinstance(structure, Taxonomy) else None
        split = split_coords(point.coords, self.n_states, self.n_features)
        self.features, row = np.unique(split.features, return_inverse=True)
        self.nodes, self.edges = np.zeros((self.features.size, self.n_states)), np.zeros(loss.n_edges)
        self.nodes[row, split.states] = point.weights[: row.size]
        self.edges[split.edges] = point.weights[row.size :]
        self._possible = None if owner.support.is_everything else owner.support.coords()
        self._move: tuple[int, Vector, float] | None = None
        self._count()

    @classmethod
    def check(cls, objective: Any) -> None:
        """Raise ViewError for other losses than likelihoods of chains and taxonomies."""
        loss = objective.loss
        is_likelihood = loss.has_marginals and loss.is_convex
        if not (is_likelihood and isinstance(loss.structure, (Chain, Taxonomy))):
            raise ViewError(
                "feature blocks need a likelihood of chains or taxonomies, its labels known; "
                f"the loss is {type(loss).__name__}"
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

    def coords(self, blocks: Coords) -> Coords:
        """Return the coordinates of the blocks, one block after the other."""
        sizes = np.where(blocks < self.n_features, self.n_states, self.edges.size)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        block = np.repeat(blocks, sizes)
        is_node = block < self.n_features
        return np.where(is_node, within * self.n_features + block, self.n_states * self.n_features + within)

    def are_possible(self, coords: Coords) -> NDArray[np.bool_]:
        """Return which coordinates are in the objective's support."""
        return np.ones(coords.size, bool) if self._possible is None else found_in(self._possible, coords)[1]

    def places(self, blocks: Coords) -> Coords:
        """Return the rows of blocks in `nodes`, where they have one from now on, and -1 for the edges."""
        features = blocks[blocks < self.n_features]
        if not found_in(self.features, features)[1].all():
            known, rows, self.features = self.features, self.nodes, union(self.features, np.sort(features))
            self.nodes = np.zeros((self.features.size, self.n_states))
            self.nodes[found_in(self.features, known)[0]] = rows
        return np.where(blocks < self.n_features, found_in(self.features, blocks)[0], -1)

    @property
    def weights(self) -> SparseWeights:
        """The weights that are not 0."""
        coords, weights = list_weights(self.features, self.n_features, self.nodes)
        edges = np.flatnonzero(self.edges)
        behind = self.n_features * self.n_states + edges
        return SparseWeights(np.append(coords, behind), np.append(weights, self.edges[edges]))

    def weights_of(self, block: int) -> Vector:
        """Return all weights of a block, zeros included."""
        return self._row(block).copy()

    def _row(self, block: int) -> Vector:
        (place,) = self.places(np.array([block]))
        return self.nodes[place] if place >= 0 else self.edges

    @property
    def _state(self) -> ChainState | TreeState:
        state = self.chain or self.tree
        assert state is not None
        return state

    @property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self._state.items[WEIGHT] @ self.item_losses)

    @property
    def item_losses(self) -> Vector:
        """-log P(y_i | x_i), (I,), in nats."""
        return self._state.items[LOG_Z] - self._state.items[OBSERVED]

    @property
    def rounding(self) -> float:
        """Size of the numbers that a change of the loss is the sum of; its own rounding is that of this number.
        Roundings of the items are independent: they add up like their squares."""
        weight, log_z, observed = self._state.items[[WEIGHT, LOG_Z, OBSERVED]]
        return float(np.linalg.norm(weight * (np.abs(log_z) + np.abs(observed))))

    def point(self) -> Point:
        """Return the point at the present weights, from scratch."""
        return self.objective.at(*self.weights)

    def derivatives(self, block: int) -> tuple[Vector, Vector]:
        """Return gradient and curvature of a block's weights; the gradient is 0 outside of the objective's support.

        The curvature leaves out the covariance between positions: sum_t weight x_tf^2 p_t(k) (1 - p_t(k)), and sum_t
        weight P_t(j, k) (1 - P_t(j, k)) for edges.
        """
        coords = self.coords(np.array([block]))
        g, h = np.empty((2, coords.size))
        slopes(self.chain, self.tree, block, g, h)
        self._count()
        return np.where(self.are_possible(coords), g, 0.0), h

    def try_move(self, block: int, delta: Vector, step: float = 1.0) -> float:
        """Return the change of the loss if the block moves by step * delta; then `accept`, `reject` or try again."""
        self._move = block, delta, step
        change = try_block(self.chain, self.tree, block, delta, step)
        self._count()
        return change

    def accept(self) -> None:
        """Take over the move that was tried last."""
        if self._move is None:
            raise InputError("expected a move to be tried before it is accepted or rejected")
        accept_block(self.chain, self.tree, *self._move, self._row(self._move[0]))
        self._move = None
        self._count()

    def reject(self) -> None:
        """Forget the move that was tried last."""
        if self._move is not None:
            self.try_move(*self._move[:2], 0.0)
        self.accept()

    def descend(self, blocks: Coords, penalty: Any, rule: SweepRule) -> BlockSweep:
        """Update the blocks one after the other, under a penalty of single weights: l1 |w_j| + l2/2 w_j^2."""
        coords = self.coords(blocks)
        l1 = np.where(self.are_possible(coords), penalty.l1_of(coords), np.inf)
        places, violations, is_kept = self.places(blocks), np.empty(blocks.size), np.empty(blocks.size, bool)
        n_moved, n_failed = sweep(
            self.chain, self.tree, blocks, places, self.nodes, self.edges, l1, penalty.l2_of(coords), rule,
            violations, is_kept,
        )  # fmt: skip
        self._count()
        return BlockSweep(violations, is_kept, n_moved, n_failed)

    def _count(self) -> None:
        """Add the messages since the last count to the objective's passes."""
        n_steps = self._state.n_steps
        self.objective.n_passes += float(n_steps.sum()) / (2 * self.objective.n_positions)
        n_steps[:] = 0


def prepare_chain(point: Point, loss: StructuredLoss, chain: Chain) -> ChainState:
    """Return the state at a point; messages are computed where they are asked for."""
    owner = point.objective
    n_states, n_positions, n_items = owner.n_states, owner.n_positions, owner.n_items
    observed = loss.observed_edges(owner.weights)
    scores, edges = chain.ruled(point.scores, point.edges)
    width = -(-n_states // LANES) * LANES
    indptr, indices, values = owner.map.store.by_feature
    state = ChainState(
        indptr,
        indices,
        values,
        offsets=owner.map.offsets,
        item_of=np.repeat(np.arange(n_items), np.diff(owner.map.offsets)),
        targets=loss.targets,
        rows=aligned_rows(4 * n_positions, width).reshape(4, n_positions, width),
        positions=np.empty((3, n_positions)),
        items=item_numbers(point),
        marks=np.zeros((3, n_items), np.int64),
        edges=np.stack([edges.reshape(-1), edges.reshape(-1), observed]).reshape(3, n_states, n_states),
        factors=aligned_rows(4 * width, width).reshape(4, width, width),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0, :, :n_states] = scores.T
    load_chains(state)
    return state


def prepare_tree(point: Point, loss: StructuredLoss, tree: Taxonomy) -> TreeState:
    """Return the state at a point, with the marginals of all items."""
    owner = point.objective
    indptr, indices, values = owner.map.store.by_feature
    state = TreeState(
        indptr,
        indices,
        values,
        parents=tree.parents,
        is_label=tree.is_label,
        targets=loss.targets,
        rows=np.empty((2, owner.n_items, tree.n_states)),
        items=item_numbers(point),
        paths=np.zeros(tree.n_states),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0] = point.scores.T
    load_trees(state)
    return state


def item_numbers(point: Point) -> Vector:
    """Return each item's weight, log Z and targets' score, and four rows for the kernels, (7, I)."""
    numbers = np.zeros((7, point.objective.n_items))
    found = point.evaluation
    assert isinstance(found, LikelihoodEvaluation)
    numbers[WEIGHT] = point.objective.weights
    numbers[LOG_Z], numbers[OBSERVED], numbers[OUTSIDE] = found.log_partition, found.target_score, np.nan
    return numbers
